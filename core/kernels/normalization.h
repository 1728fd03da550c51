// Layer normalisation and its gradients, one pass each.
#pragma once

#include <tuple>

#include "tensor/tensor.h"

namespace adjoint {

namespace kernels {

Tensor layer_norm(const Tensor& self, IntList normalized_shape, const Tensor& weight, const Tensor& bias, double eps, const char* op);
/// Gradients of the input, the weight and the bias; those not in `needs` are undefined. The weight is asked for by the input's alone.
std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& g, const Tensor& self, const Tensor& weight, int64_t dims, double eps, int64_t needs);

}  // namespace kernels
}  // namespace adjoint
