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
  Shared,     // v * (1 / x)
  SharedTo,   // (1 / x) * v
  Where,      // v & x, bit by bit
  Equal,      // whether v is x, in all bits
  Alike,      // the same, or both are NaN
  Unless,     // v, but x where that is NaN
  Negative,   // -v
  Square,     // v * v
  Root,       // √v
};
/// The same, where x is one number for all elements; what takes no x is what it was.
inline constexpr uint8_t kByNumber = 32;
constexpr Cheap by_number(Cheap c) {
  return c < Cheap::Negative ? Cheap{static_cast<uint8_t>(static_cast<uint8_t>(c) + kByNumber)} : c;
}

/// What a loop computes: up to three ways to the same, each from another operand. There are none where no
/// steps have its bits.
struct LoopMeaning {
  struct Step {
    Cheap what = Cheap::None;
    int operand = 0;  // of the loop; or kOne
  };
  static constexpr int kOne = -1, kMostSteps = 5;
  struct Way {
    int count = 0;
    Step steps[kMostSteps];  // the first one reads
    /// Whether a value beside itself is its square.
    bool squares() const {
      return count == 2 && (steps[1].what == Cheap::Times || steps[1].what == Cheap::TimesTo);
    }
  };
  Way ways[3];
  explicit operator bool() const { return ways[0].count != 0; }
};

/// Of a loop that computes in float32 or float64 throughout. `taken`: the operands that the loop reads;
/// `numbers`: for each that is one number throughout and is known, that number.
LoopMeaning meaning_of(Loop loop, DType type, unsigned taken, unsigned constant, const void* const* numbers,
                       const double* parameters, int count);
/// The number one.
const void* one_of(DType type);

/// Whether a loop gives each element the same bits wherever it stands and however many stand beside it, so
/// that it may run in pieces of any length: loops of whole numbers do, those of float32 and float64 are
/// tried. `types`: of the operands that are `taken`; of `count` parameters.
bool is_even(Loop loop, DType out, const DType* types, unsigned taken, const double* parameters, int count);

/// Steps over n elements each, first a Read; they are done for a few vectors of elements after the other.
struct Pass {
  static constexpr int kMost = 64;
  void (*run)(const Cheap* steps, char* const* at, int count, int64_t n);
  /// Elements of a vector; vectors that are worked on together, and of those that are left; elements that,
  /// left in the end, go one by one: more go together.
  int64_t width, kept, fewer, alone;
  /// How many times n elements take the way through all steps.
  int64_t times(int64_t n) const {
    const int64_t vectors = n / width, rest = vectors % kept, few = n % width;
    return vectors / kept + rest / fewer + rest % fewer + (few > alone ? 1 : few);
  }
};
const Pass& pass_of(DType type);

}  // namespace adjoint
