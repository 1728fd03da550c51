// Normalisation: elements shifted and scaled to mean 0 and variance 1 over the last dimensions.
//
// One fused kernel forward, one backward, which saves the input alone and finds mean and variance again while a row is
// in the cache. When the gradient is itself recorded (create_graph), it is written in recorded operations.
#pragma once

#include "kernels/normalization.h"
#include "ops/op.h"

namespace adjoint {

namespace batching {
void layer_norm(BatchedCall& call);
void layer_norm_backward(BatchedCall& call);
}  // namespace batching

namespace rules {
Tensors layer_norm(const Tensor& g, const Tensor& self, const Tensor& weight, int64_t dims, double eps, Needs needs);
}  // namespace rules

struct LayerNorm : Structured {
  static constexpr auto name = "layer_norm";
  static constexpr auto batch = batching::layer_norm;
  static constexpr auto doc = "(x - mean) / sqrt(var + eps) over the last dimensions, times weight, plus bias; the variance is over n.";
  static constexpr auto signature = "input, normalized_shape, weight=None, bias=None, eps=1e-05";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{"(3, 4), [4]", "(2, 3, 4), [3, 4], (3, 4), (3, 4)", "(3, 4), [4], (4,), eps=0.1", "(0, 4), [4]"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& input, IntList normalized_shape, OptionalTensor weight, OptionalTensor bias, double eps) {
    return kernels::layer_norm(input, normalized_shape, weight, bias, eps, name);
  }
  static constexpr auto vjp = JointRule{[](Grad g, NeededBy<Input<0>, 0, 2> input, NeededBy<Input<2>, 0> weight, Argument<IntList, 1> shape,
                                           Argument<double, 4> eps, Needs needs) {
    return rules::layer_norm(g, input, weight, static_cast<int64_t>(shape.value.size()), eps, needs);
  }};
};

struct LayerNormBackward : Structured {
  static constexpr auto name = "_layer_norm_backward";
  static constexpr auto batch = batching::layer_norm_backward;
  static constexpr auto doc = "The gradients of layer_norm in one pass: of the input, the weight and the bias, by the bits of `needs`.";
  static constexpr auto signature = "g, input, weight, dims, eps, needs";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{"(3, 4), (3, 4), (4,), 1, 1e-05, 7", "(3, 4), (3, 4), None, 1, 0.1, 1",
                                        "(0, 4), (0, 4), (4,), 1, 1e-05, 7"};
  static constexpr auto returns = "input, weight, bias";
  static std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& g, const Tensor& input, OptionalTensor weight, int64_t dims, double eps, int64_t needs) {
    return kernels::layer_norm_backward(g, input, weight, dims, eps, needs);
  }
};

using Normalization = Family<LayerNorm, LayerNormBackward>;

}  // namespace adjoint
