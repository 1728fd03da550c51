// Images of other sizes: along each dimension an element of the result is a sum of weighted elements of the
// input.
#pragma once

#include <span>
#include <string_view>

#include "tensor/tensor.h"

namespace adjoint::kernels {

/// How the last `sizes.size()` dimensions are resampled.
struct Resampling {
  /// "nearest", "nearest-exact", "area", "linear", "cubic"; and "linear-wide", "cubic-wide" and
  /// "lanczos-wide", whose kernels widen where the result is smaller.
  std::string_view mode;
  /// The ratio of sizes along each dimension, result to input; 0 for that of the sizes themselves.
  std::span<const double> scales;
  /// Whether the first and last elements lie on each other.
  bool align;
};

Tensor resample(const Tensor& x, IntList sizes, const Resampling& how, const char* op);
/// The transpose: what the elements of `g` were made of, summed up in a tensor whose last sizes are `sizes`.
Tensor resample_transposed(const Tensor& g, IntList sizes, const Resampling& how, const char* op);

}  // namespace adjoint::kernels
