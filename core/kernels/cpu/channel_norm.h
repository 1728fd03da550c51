// The loops of normalisation by channels, per instruction set (kernels/cpu/variants.h).
#pragma once

#include <cstdint>

namespace adjoint {

/// Columns that are worked on together, at most.
inline constexpr int64_t kChannelColumns = 128;

/// Of a channel's elements, either a run or a column of `rows` elements, `stride` apart, beside others.
template <class T>
struct ChannelNormTable {
  /// The mean, and the sum of squares of what differs from it.
  void (*moments)(const T* x, int64_t n, double* mean, double* squares);
  void (*column_moments)(const T* x, int64_t rows, int64_t stride, int64_t columns, double* mean,
                         double* squares);
  /// The two of n columns of `rows` elements each, from those of each column.
  void (*join)(const double* means, const double* squares, int64_t n, double rows, double* mean,
               double* all_squares);
  /// y = (x - mean) scale + shift.
  void (*scale)(const T* x, T* y, int64_t n, T mean, T scale, T shift);
  void (*column_scale)(const T* x, T* y, int64_t rows, int64_t stride, int64_t columns, const T* mean,
                       const T* scale, const T* shift);
  /// The sums of g and of g (x - mean).
  void (*sums)(const T* g, const T* x, int64_t n, T mean, double* of_g, double* of_gx);
  void (*column_sums)(const T* g, const T* x, int64_t rows, int64_t stride, int64_t columns, const T* mean,
                      double* of_g, double* of_gx);
  /// gx = g scale + (x - mean) slope + shift.
  void (*back)(const T* g, const T* x, T* gx, int64_t n, T mean, T scale, T slope, T shift);
  void (*column_back)(const T* g, const T* x, T* gx, int64_t rows, int64_t stride, int64_t columns,
                      const T* mean, const T* scale, const T* slope, const T* shift);
};

}  // namespace adjoint
