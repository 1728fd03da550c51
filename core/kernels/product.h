// Products of matrices, and of batches of them.
#pragma once

#include "tensor/tensor.h"

namespace adjoint::kernels {

/// out = start + a b for every matrix of a batch: `out` is row-major, a and b have at least two dimensions
/// and its type, and those in front of the last two broadcast to `batch`. An undefined start is zero; another
/// has one dimension, or two, or three of which the first is a batch of one dimension, and its last stride is
/// 1, or 0: then a row is one number. Its rows and matrices broadcast.
void multiply(const Tensor& a, const Tensor& b, const Tensor& start, const Tensor& out, IntList batch);

/// out = a × b for vectors of length three along a dimension; all of one shape and type.
void cross(const Tensor& out, const Tensor& a, const Tensor& b, int64_t dim);

}  // namespace adjoint::kernels
