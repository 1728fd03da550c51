// Images read at any places, by weights of the elements around each; and derivatives of the weights.
#pragma once

#include <span>
#include <string_view>

#include "tensor/tensor.h"

namespace adjoint::kernels {

/// How an image is read.
struct GridSampling {
  /// "bilinear", "nearest" or "bicubic"; "zeros", "border" or "reflection".
  std::string_view mode, padding;
  /// Whether -1 and 1 are the middles of the first and last elements; else they are the image's edges.
  bool align;
  /// How often the weights are differentiated by the places, for each dimension of the image.
  IntList orders;
};

/// x is (…, C, sizes), the grid (…, places, n) with the last dimension of the image first; the result is
/// (…, C, places).
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampling& how, const char* op);
/// The transpose: g is (…, C, places), the result (…, C, sizes).
Tensor grid_sample_transposed(const Tensor& g, const Tensor& grid, IntList sizes, const GridSampling& how,
                              const char* op);
/// The gradient by the grid: for each place the sums over channels of g times the derivatives of what is
/// read there.
Tensor grid_sample_slopes(const Tensor& g, const Tensor& x, const Tensor& grid, const GridSampling& how,
                          const char* op);

}  // namespace adjoint::kernels
