// Pooling by the maximum: the largest element of each window of an image, and where it lies.
//
// The positions, counted in row-major order over an image's spatial dimensions, are a result of their own;
// the derivative puts gradients there. Averages are convolutions (adjoint/nn/_pooling.py). Kernel:
// kernels/pooling.h.
#pragma once

#include "ops/op.h"

namespace adjoint {

namespace batching {
void pool(BatchedCall& call);
}  // namespace batching

namespace pooling {
/// Zeros of the given shape with g added at the positions of each image: recorded.
Tensor max_rule(const Tensor& g, const Tensor& positions, IntList sizes);
}  // namespace pooling

struct MaxPool : Structured {
  static constexpr auto name = "_max_pool";
  static constexpr auto batch = batching::pool;
  static constexpr auto doc =
      "The largest element of each window of images (N, C, …), with `result` windows, and where it lies.";
  static constexpr auto signature = "self, kernel, stride, padding, dilation, result";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples =
      Cases{"(1, 2, 5), [3], [2], [1], [1], [3]", "(1, 2, 4, 5), [2, 2], [2, 1], [0, 0], [1, 2], [2, 3]",
            "(1, 1, 2, 3, 2), [2, 2, 2], [1, 1, 1], [0, 0, 0], [1, 1, 1], [1, 2, 1]",
            "(0, 2, 5), [3], [2], [1], [1], [3]"};
  static constexpr auto returns = "values, indices";
  static constexpr bool method = false;
  static std::tuple<Tensor, Tensor> forward(const Tensor& self, IntList kernel, IntList stride,
                                            IntList padding, IntList dilation, IntList result);
  static constexpr auto vjp =
      Rules{[](GradOf<0> g, Shape<0> s, Output<1> positions) { return pooling::max_rule(g, positions, s); }};
};

using Pooling = Family<MaxPool>;

}  // namespace adjoint
