// The loops of layer normalisation, per instruction set (kernels/cpu/variants.h).
#pragma once

#include <cstdint>

namespace adjoint {

/// Slices are runs of n elements (rows, one behind the other), or columns of n rows, `stride` apart. weight and bias have n
/// elements, or are null. gw and gb, of n elements each, are added to; null where not wanted; so is gx.
template <class T> struct NormalizationTable {
  void (*rows)(const T* x, const T* weight, const T* bias, T* y, int64_t rows, int64_t n, double eps);
  void (*columns)(const T* x, const T* weight, const T* bias, T* y, int64_t n, int64_t stride, int64_t columns, double eps);
  void (*rows_backward)(const T* g, const T* x, const T* weight, T* gx, T* gw, T* gb, int64_t rows, int64_t n, double eps);
  void (*columns_backward)(const T* g, const T* x, const T* weight, T* gx, T* gw, T* gb, int64_t n, int64_t stride, int64_t columns, double eps);
};

/// Columns that are worked on together.
inline constexpr int64_t kNormalizationColumns = 32;

}  // namespace adjoint
