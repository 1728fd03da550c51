// The loops of layer normalisation, per instruction set (kernels/cpu/variants.h).
#pragma once

#include <cstdint>

namespace adjoint {

/// Rows of n elements, one behind the other. weight and bias have n elements, or are null. gw and gb, of n
/// elements each, are added to; null where not wanted; so is gx. What is not `centred` counts as having the
/// mean 0.
template <class T>
struct NormalizationTable {
  void (*rows)(const T* x, const T* weight, const T* bias, T* y, int64_t rows, int64_t n, double eps,
               bool centred);
  void (*rows_backward)(const T* g, const T* x, const T* weight, T* gx, T* gw, T* gb, int64_t rows, int64_t n,
                        double eps, bool centred);
  void (*rows_twice)(const T* v, const T* g, const T* x, const T* weight, T* out, int64_t rows, int64_t n,
                     double eps, bool centred);
};

}  // namespace adjoint
