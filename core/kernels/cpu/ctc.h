// The loops of connectionist temporal classification, per instruction set (kernels/cpu/variants.h).
#pragma once

#include <cstdint>

namespace adjoint {

template <class T>
struct CtcTable {
  /// to[i] = log(exp(one[i]) + exp(two[i]) + exp(three[i] + jump[i])) + more[i].
  void (*step)(const T* one, const T* two, const T* three, const T* jump, const T* more, int64_t n, T* to);
  /// to[i] = exp(a[i] + b[i] + c).
  void (*occupancy)(const T* a, const T* b, T c, int64_t n, T* to);
};

}  // namespace adjoint
