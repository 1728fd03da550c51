// Softmax and its logarithm along one dimension.
//
// Each is one pass of a fused kernel, and so is its gradient, which has rules of its own.
#pragma once

#include "kernels/softmax.h"
#include "ops/contract/op.h"

namespace adjoint {

namespace rules {
Tensor softmax(const Tensor& g, const Tensor& result, int64_t dim);
Tensor softmax_by_result(const Tensor& v, const Tensor& g, const Tensor& result, int64_t dim);
Tensor log_softmax(const Tensor& g, const Tensor& result, int64_t dim);
Tensor log_softmax_by_gradient(const Tensor& v, const Tensor& result, int64_t dim);
Tensor log_softmax_by_result(const Tensor& v, const Tensor& g, const Tensor& result, int64_t dim);
}  // namespace rules

struct Softmax : Structured {
  static constexpr auto name = "softmax";
  static constexpr auto doc =
      "exp(x) / sum(exp(x)) along a dimension, without overflow. With dtype, the input is converted first.";
  static constexpr auto signature = "self, dim, dtype=None";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples =
      Cases{"(3, 4), 1", "(3, 4), 0, dtype=float64", "(0, 3), 1", "(), 0", "(2, 3, 4), -2"};
  static Tensor forward(Into into, const Tensor& self, Dim dim, OptionalType dtype) {
    return kernels::softmax(into, self, dim, dtype, false, name);
  }
  static constexpr auto vjp = Rules{
      [](Grad g, Output<> result, Argument<int64_t, "dim"> dim) { return rules::softmax(g, result, dim); }};
};

struct LogSoftmax : Structured {
  static constexpr auto name = "log_softmax";
  static constexpr auto doc =
      "x - log(sum(exp(x))) along a dimension, without overflow. With dtype, the input is converted first.";
  static constexpr auto signature = "self, dim, dtype=None";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples =
      Cases{"(3, 4), 1", "(3, 4), 0, dtype=float64", "(0, 3), 1", "(), 0", "(2, 3, 4), -2"};
  static Tensor forward(Into into, const Tensor& self, Dim dim, OptionalType dtype) {
    return kernels::softmax(into, self, dim, dtype, true, name);
  }
  static constexpr auto vjp = Rules{[](Grad g, Output<> result, Argument<int64_t, "dim"> dim) {
    return rules::log_softmax(g, result, dim);
  }};
};

struct SoftmaxBackward : Structured {
  static constexpr auto name = "_softmax_backward";
  static constexpr auto recorded_as = "softmax_backward_data";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "result * (g - sum(g * result)): the gradient of softmax in one pass.";
  static constexpr auto signature = "g, result, dim";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples =
      Cases{"(3, 4), unit(3, 4), 1", "(3, 4), unit(3, 4), 0", "(0, 3), unit(0, 3), 1"};
  static Tensor forward(const Tensor& g, const Tensor& result, Dim dim) {
    return kernels::softmax_backward(g, result, dim, false);
  }
  static constexpr auto linear = LinearIn<"g">{};
  static constexpr auto vjp =
      Rules{[](Grad v, Input<"result"> result, Argument<int64_t, "dim"> dim) {
              return rules::softmax(v, result, dim);
            },
            [](Grad v, Input<"g"> g, Input<"result"> result, Argument<int64_t, "dim"> dim) {
              return rules::softmax_by_result(v, g, result, dim);
            }};
};

struct LogSoftmaxBackward : Structured {
  static constexpr auto name = "_log_softmax_backward";
  static constexpr auto recorded_as = "log_softmax_backward_data";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "g - exp(result) * sum(g): the gradient of log_softmax in one pass.";
  static constexpr auto signature = "g, result, dim";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{"(3, 4), (3, 4), 1", "(3, 4), (3, 4), 0", "(0, 3), (0, 3), 1"};
  static Tensor forward(const Tensor& g, const Tensor& result, Dim dim) {
    return kernels::softmax_backward(g, result, dim, true);
  }
  static constexpr auto linear = LinearIn<"g">{};
  static constexpr auto vjp =
      Rules{[](Grad v, Input<"result"> result, Argument<int64_t, "dim"> dim) {
              return rules::log_softmax_by_gradient(v, result, dim);
            },
            [](Grad v, Input<"g"> g, Input<"result"> result, Argument<int64_t, "dim"> dim) {
              return rules::log_softmax_by_result(v, g, result, dim);
            }};
};

using SoftmaxOps = Family<Softmax, LogSoftmax, SoftmaxBackward, LogSoftmaxBackward>;

}  // namespace adjoint
