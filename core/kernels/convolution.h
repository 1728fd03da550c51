// Convolution of dense tensors and its two transposes.
#pragma once

#include "tensor/tensor.h"

namespace adjoint::kernels::convolution {

/// Three spatial dimensions: those that are not there are of size 1, in front.
struct Geometry {
  int64_t images, groups;
  /// Channels of a group: of images and of results.
  int64_t in, out;
  int64_t image[3], kernel[3], result[3], stride[3], padding[3], dilation[3];
  /// Whether the channels of images and of results are innermost, for which `takes_pixels` must hold.
  bool pixels = false;
  static int64_t volume(const int64_t* size) { return size[0] * size[1] * size[2]; }
};

/// Whether there are loops for images of this type whose channels are innermost.
bool takes_pixels(const Geometry& s, DType dtype);

// All tensors are row-major, but for images and results where `pixels` says so, and of one type; what is
// written is written whole.

/// y from x and w, plus a bias where that is defined.
void forward(const Geometry& s, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y);
/// x from g, which has the shape of y, and w.
void input(const Geometry& s, const Tensor& g, const Tensor& w, const Tensor& x);
/// w from x and g.
void weight(const Geometry& s, const Tensor& x, const Tensor& g, const Tensor& w);

}  // namespace adjoint::kernels::convolution
