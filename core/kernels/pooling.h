// The largest elements of windows.
#pragma once

#include "tensor/tensor.h"

namespace adjoint::kernels::pooling {

/// Three spatial dimensions: those that are not there are of size 1, in front.
struct Windows {
  /// Neighbouring planes of which so many lie side by side, as channels that are innermost; else 1.
  int64_t planes, channels;
  /// A stride of 0: `result` windows that share the image as evenly as they can.
  int64_t image[3], kernel[3], result[3], stride[3], padding[3], dilation[3];
};

/// Values and positions (undefined: not wanted) of each plane's windows, which lie as the planes do. Each
/// window meets its image.
void max(const Windows& s, const Tensor& x, const Tensor& values, const Tensor& positions);

}  // namespace adjoint::kernels::pooling
