// The blocks of an image that a kernel passes over, and their sum where they lie.
#pragma once

#include "tensor/tensor.h"

namespace adjoint::kernels {

/// How a kernel passes over an image: two numbers of each, for rows and columns.
struct Passing {
  IntList kernel, dilation, padding, stride;
};

/// (…, C, H, W) to (…, C · kernel, blocks).
Tensor unfold(const Tensor& x, const Passing& how, const char* op);
/// The transpose, for images of `size`.
Tensor fold(const Tensor& blocks, IntList size, const Passing& how, const char* op);

}  // namespace adjoint::kernels
