// Distances of the rows of one matrix from the rows of another, without a table of their differences.
#pragma once

#include <tuple>

#include "tensor/tensor.h"

namespace adjoint::kernels {

/// x is (…, n, d), y (…, m, d), the result (…, n, m); p is 1, 2 or infinity.
Tensor distances(const Tensor& x, const Tensor& y, double p, const char* op);
/// The gradients of x and y, as far as they are wanted; p is 1 or 2. At distance 0 they are 0.
std::tuple<Tensor, Tensor> distances_backward(const Tensor& g, const Tensor& x, const Tensor& y,
                                              const Tensor& result, double p, bool of_x, bool of_y,
                                              const char* op);

}  // namespace adjoint::kernels
