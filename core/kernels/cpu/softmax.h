// The loops of softmax, per instruction set (kernels/cpu/variants.h).
#pragma once

#include <cstdint>

namespace adjoint {

/// Along runs of n elements (rows, one behind the other), or down n rows of which `columns` elements are
/// meant, `stride` apart. x and y may be the same.
template <class T>
struct SoftmaxTable {
  /// y = scale * exp(x) / sum(exp(x)), one scale per slice (null: 1); or y = log of that, unscaled.
  void (*rows)(const T* x, T* y, int64_t rows, int64_t n, const T* scale, bool log);
  void (*columns)(const T* x, T* y, int64_t n, int64_t stride, int64_t columns, const T* scale, bool log);
  /// The gradient of x from that of y and y.
  void (*rows_backward)(const T* g, const T* y, T* gx, int64_t rows, int64_t n, bool log);
  void (*columns_backward)(const T* g, const T* y, T* gx, int64_t n, int64_t stride, int64_t columns,
                           bool log);
};

/// Columns that are worked on together: few enough that n rows of them stay in the second-level cache between
/// passes.
inline constexpr int64_t kSoftmaxColumns = 32;

}  // namespace adjoint
