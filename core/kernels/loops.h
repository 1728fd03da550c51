// What the element-wise room hands out: for each operator, loops over contiguous elements, chosen at load for
// the processor. Declarations only; the loops are made by ops/contract/loops.h, once per family and
// instruction set.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace adjoint {

/// out[i] = f(in[0][i], in[1][i], …, parameters). For a backward loop in[0] is the gradient of the result,
/// in[1…3] the inputs, in[4] the result; those that the rule does not take are null.
using Loop = void (*)(void* out, const void* const* in, int64_t n, const double* parameters);

/// Types that loops compute in, float32 and float64 first: these two vary with the instruction set.
inline constexpr int kLoopTypes = 10;
constexpr int loop_slot(DType d) {
  switch (d) {
    case DType::Float32:
      return 0;
    case DType::Float64:
      return 1;
    case DType::Bool:
      return 2;
    case DType::UInt8:
      return 3;
    case DType::Int8:
      return 4;
    case DType::Int16:
      return 5;
    case DType::Int32:
      return 6;
    case DType::Int64:
      return 7;
    case DType::Complex64:
      return 8;
    case DType::Complex128:
      return 9;
    default:
      return -1;
  }
}

struct FloatLoops {
  Loop forward[2];
  Loop backward[3][2];
};
struct OtherLoops {
  Loop forward[8];
  Loop backward[3][2];  // the complex types
};
/// An operator's loops as chosen.
struct Loops {
  Loop forward[kLoopTypes] = {};
  Loop backward[3][kLoopTypes] = {};
};

/// Rows of one family for one instruction set; registered by static objects, merged by `choose_loops`.
struct LoopRows {
  const char* family;
  int level;  // 0 portable, 2, 3, 4: the x86-64 levels
  int size;
  const FloatLoops* floats;
  const OtherLoops* others;  // only at level 0
  const LoopRows* next;
};
struct RegisterRows {
  explicit RegisterRows(LoopRows* rows);
};
/// The best rows for this processor, for operator number `index` of a family.
Loops choose_loops(const char* family, int index);
/// The x86-64 level that this processor has: 0 (anything), 2, 3 or 4.
int instruction_level();
/// The instruction set in use, for people.
const char* instruction_set();

}  // namespace adjoint
