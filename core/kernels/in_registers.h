// Cheap loops one after the other as a single pass: sums, products and their like, of which each takes what
// the last one made, so that the value stays in registers.
//
// Which loops are cheap no list says. A loop is asked: it is given numbers, and what comes out tells whether
// it is the sum of two operands, say, to the last bit (`meaning_of`). Likewise whether it treats elements one
// by one
// (`is_even`). Start reading at `Pass`.
#pragma once

#include "kernels/run_loop.h"

namespace adjoint {

/// What becomes of the value v by an element x of an operand.
enum class Cheap : uint8_t {
  None,
  Read,       // x
  Write,      // v, which goes to x
  Plus,       // v + x
  PlusTo,     // x + v, which is the same, but where both are NaN: then it is the first one
  Minus,      // v - x
  MinusFrom,  // x - v
  Times,      // v * x
  TimesTo,    // x * v
  Over,       // v / x
  Under,      // x / v
  Negative,   // -v
  Square,     // v * v
};

/// What a loop computes: `forward` where the value is operand `first` and x operand `second`, which is -1
/// where there is none; `backward` where they are in each other's place. None where no step has its bits.
struct LoopMeaning {
  Cheap forward = Cheap::None, backward = Cheap::None;
  int first = -1, second = -1;
  /// Whether a value beside itself is its square.
  bool squares() const { return forward == Cheap::Times || forward == Cheap::TimesTo; }
};

/// Of a loop without parameters, float32 or float64 throughout. `taken`: the operands that the loop reads;
/// `numbers`: for each that is one number throughout and is known, that number.
LoopMeaning meaning_of(Loop loop, DType type, unsigned taken, unsigned constant, const void* const* numbers);

/// Whether a loop gives each element the same bits wherever it stands and however many stand beside it, so
/// that it may run in pieces of any length: loops of whole numbers do, those of float32 and float64 are
/// tried. `types`: of the operands that are `taken`; of `count` parameters.
bool is_even(Loop loop, DType out, const DType* types, unsigned taken, const double* parameters, int count);

/// Steps over n elements each, first a Read; they are done for a few vectors of elements after the other.
struct Pass {
  static constexpr int kMost = 32;
  void (*run)(const Cheap* steps, char* const* at, int count, int64_t n);
  /// Elements of a vector, and vectors that are worked on together.
  int64_t width, kept;
  /// How many times n elements take the way through all steps.
  int64_t times(int64_t n) const { return n / (width * kept) + n / width % kept + n % width; }
};
const Pass& pass_of(DType type);

}  // namespace adjoint
