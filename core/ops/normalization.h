// Normalisation: elements shifted and scaled to mean 0 and variance 1, over the last dimensions or by
// channels.
//
// One fused kernel forward, one backward. Over the last dimensions that saves the input alone and finds mean
// and variance again while a row is in the cache; by channels the statistics are results, which batch
// normalisation needs. `composed` says the same in operators.
#pragma once

#include "kernels/normalization.h"
#include "ops/contract/op.h"

namespace adjoint {

struct LayerNormBackward;
struct ChannelNormBackward;

namespace rules {
Tensors layer_norm(const Tensor& g, const Tensor& self, const Tensor& weight, int64_t dims, double eps,
                   Needs<LayerNormBackward> needs);
/// What a call of _layer_norm_backward was given.
struct LayerNormBackwardCall {
  Tensor g, input, weight;
  int64_t dims;
  double eps;
};
/// Of the gradients of g, the input and the weight those that are wanted, by those of the results.
Tensors layer_norm_backward(const Tensor& v, const Tensor& of_weight, const Tensor& of_bias,
                            const LayerNormBackwardCall& call, bool by_g, bool by_input, bool by_weight);
/// What a call of _channel_norm was given, and the statistics that it found, or was given.
struct ChannelNormCall {
  Tensor input, weight, mean, variance;
  int64_t groups;
  double eps;
  bool fixed;
};
Tensors channel_norm(const Tensor& g, const ChannelNormCall& call, Needs<ChannelNormBackward> needs);
}  // namespace rules

/// RuntimeError where scale or shift have another type than the input, but for float32 beside half types.
void refuse_mixed_parameters(const Tensor& input, const Tensor& weight, const Tensor& bias);

struct LayerNorm : Structured {
  static constexpr auto name = "layer_norm";
  static constexpr auto recorded_as = "native_layer_norm";
  static void batch(BatchedCall& c, Batched<"input"> input,
                    Argument<IntList, "normalized_shape"> normalized_shape, Batched<"weight"> weight,
                    Batched<"bias"> bias, Argument<double, "eps"> eps);
  static constexpr auto doc =
      "(x - mean) / sqrt(var + eps) over the last dimensions, times weight, plus bias; the variance is over "
      "n.";
  static constexpr auto signature = "input, normalized_shape, weight=None, bias=None, eps=1e-05";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples =
      Cases{"(3, 4), [4]", "(2, 3, 4), [3, 4], (3, 4), (3, 4)", "(3, 4), [4], (4,), eps=0.1", "(0, 4), [4]"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& input, IntList normalized_shape, OptionalTensor weight,
                        OptionalTensor bias, double eps) {
    refuse_mixed_parameters(input, weight, bias);
    return kernels::layer_norm(input, normalized_shape, weight, bias, eps, name);
  }
  static Tensor composed(const Tensor& input, IntList normalized_shape, OptionalTensor weight,
                         OptionalTensor bias, double eps);
  static constexpr auto vjp = HigherOrder{
      JointRule{[](Grad g, NeededBy<Input<"input">, "input", "weight"> input,
                   NeededBy<Input<"weight">, "input"> weight, Argument<IntList, "normalized_shape"> shape,
                   Argument<double, "eps"> eps, Needs<LayerNormBackward> needs) {
        return rules::layer_norm(g, input, weight, static_cast<int64_t>(shape.value.size()), eps, needs);
      }}};
};

struct LayerNormBackward : Structured {
  static constexpr auto name = "_layer_norm_backward";
  static void batch(BatchedCall& c, Batched<"g"> g, Batched<"input"> input, Batched<"weight"> weight,
                    Argument<int64_t, "dims"> dims, Argument<double, "eps"> eps,
                    Argument<int64_t, "needs"> needs);
  static constexpr auto doc =
      "The gradients of layer_norm in one pass: of the input, the weight and the bias, by the bits of "
      "`needs`.";
  static constexpr auto signature = "g, input, weight, dims, eps, needs";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples =
      Cases{"(3, 4), (3, 4), (4,), 1, 1e-05, 7", "(3, 4), (3, 4), None, 1, 0.1, 1",
            "(0, 4), (0, 4), (4,), 1, 1e-05, 7"};
  static constexpr auto returns = "input, weight, bias";
  static std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& g, const Tensor& input,
                                                    OptionalTensor weight, int64_t dims, double eps,
                                                    int64_t needs);
  static constexpr auto vjp =
      JointRule{[](GradOf<"input"> v, GradOf<"weight"> of_weight, GradOf<"bias"> of_bias, Input<"g"> g,
                   Input<"input"> input, Input<"weight"> weight, Argument<int64_t, "dims"> dims,
                   Argument<double, "eps"> eps, Needed<"g"> by_g, Needed<"input"> by_input,
                   Needed<"weight"> by_weight) {
        return rules::layer_norm_backward(
            v, of_weight, of_bias, {.g = g, .input = input, .weight = weight, .dims = dims, .eps = eps}, by_g,
            by_input, by_weight);
      }};
};

struct LayerNormTwice : Structured {
  static constexpr auto name = "_layer_norm_twice";
  static void batch(BatchedCall& c, Batched<"v"> v, Batched<"g"> g, Batched<"input"> input,
                    Batched<"weight"> weight, Argument<int64_t, "dims"> dims, Argument<double, "eps"> eps,
                    Argument<bool, "centred"> centred);
  static constexpr auto doc =
      "The gradient by the input of v times the input's gradient in layer_norm, or, unless `centred`, in "
      "_rms_norm, in one pass.";
  static constexpr auto signature = "v, g, input, weight, dims, eps, centred";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{"(3, 4), (3, 4), (3, 4), (4,), 1, 1e-05, True",
                                        "(2, 3, 4), (2, 3, 4), (2, 3, 4), None, 2, 0.1, False",
                                        "(0, 4), (0, 4), (0, 4), None, 1, 0.1, True"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& v, const Tensor& g, const Tensor& input, OptionalTensor weight,
                        int64_t dims, double eps, bool centred) {
    return kernels::layer_norm_twice(v, g, input, weight, dims, eps, centred, name);
  }
  static Tensor composed(const Tensor& v, const Tensor& g, const Tensor& input, OptionalTensor weight,
                         int64_t dims, double eps, bool centred);
  // No kernel has its derivatives.
  static constexpr auto vjp = FirstOrder{
      JointRule{[](Grad, Input<"v">, Input<"g">, Input<"input">, Input<"weight">, Argument<int64_t, "dims">,
                   Argument<double, "eps">, Argument<bool, "centred">) { return Tensors(); }}};
};

struct RmsNormBackward;

struct RmsNorm : Structured {
  static constexpr auto name = "_rms_norm";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "x / sqrt(mean(x ** 2) + eps) over the last `dims` dimensions.";
  static constexpr auto signature = "self, dims, eps";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples =
      Cases{"(3, 4), 1, 1e-05", "(2, 3, 4), 2, 0.1", "(2, 70), 1, 0.1", "(0, 4), 1, 0.1"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& self, int64_t dims, double eps) {
    if (dims < 1 || dims > self.dim())
      fail(name, "(): expected 1 to ", self.dim(), " dimensions of shape ", self.sizes(), ", but got ", dims);
    return kernels::layer_norm(self, self.sizes().last(static_cast<size_t>(dims)), Tensor(), Tensor(), eps,
                               name, false);
  }
  static Tensor composed(const Tensor& self, int64_t dims, double eps);
  static constexpr auto vjp = HigherOrder{
      Rules{[](Grad g, Input<"self"> self, Argument<int64_t, "dims"> dims, Argument<double, "eps"> eps) {
        return call<RmsNormBackward>(g, self, dims.value, eps.value);
      }}};
};

struct RmsNormBackward : Structured {
  static constexpr auto name = "_rms_norm_backward";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "The gradient of _rms_norm in one pass.";
  static constexpr auto signature = "g, self, dims, eps";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples =
      Cases{"(3, 4), (3, 4), 1, 1e-05", "(2, 3, 4), (2, 3, 4), 2, 0.1", "(0, 4), (0, 4), 1, 0.1"};
  static Tensor forward(const Tensor& g, const Tensor& self, int64_t dims, double eps) {
    return std::get<0>(kernels::layer_norm_backward(g, self, Tensor(), dims, eps, {.input = true}, false));
  }
  static constexpr auto linear = LinearIn<"g">{};
  static constexpr auto vjp =
      Rules{[](Grad v, Input<"self"> self, Argument<int64_t, "dims"> dims, Argument<double, "eps"> eps) {
              return call<RmsNormBackward>(v, self, dims.value, eps.value);
            },
            [](Grad v, Input<"g"> g, Input<"self"> self, Argument<int64_t, "dims"> dims,
               Argument<double, "eps"> eps) {
              return call<LayerNormTwice>(v, g, self, OptionalTensor(), dims.value, eps.value, false);
            }};
};

struct ChannelNorm : Structured {
  static constexpr auto name = "_channel_norm";
  static constexpr auto recorded_as = [](Argument<int64_t, "groups"> groups) {
    return groups.value ? "native_group_norm" : "native_batch_norm";
  };
  static void batch(BatchedCall& c, Batched<"input"> input, Batched<"weight"> weight, Batched<"bias"> bias,
                    Batched<"running_mean"> mean, Batched<"running_var"> variance,
                    Argument<int64_t, "groups"> groups, Argument<double, "eps"> eps);
  static constexpr auto doc =
      "Images (N, C, …) with mean 0 and variance 1 for each of `groups` groups of an image's channels, or, "
      "without groups, for each channel over the batch, or by statistics that are given; times weight, plus "
      "bias for each channel. Also the means and variances that were found.";
  static constexpr auto signature = "input, weight, bias, running_mean, running_var, groups, eps";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{"(3, 2, 4), (2,), (2,), None, None, 0, 1e-05",
                                        "(2, 4, 3, 2), (4,), (4,), None, None, 2, 0.1",
                                        "(4, 3), None, (3,), None, None, 0, 0.01",
                                        "(2, 2, 5, 7), (2,), None, None, None, 0, 1e-05",
                                        "(1, 2, 6, 6), (2,), (2,), None, None, 2, 1e-05",
                                        "(2, 4), None, None, None, None, 2, 0.1",
                                        "(2, 0, 3), None, None, None, None, 0, 1e-05",
                                        "(3, 2, 4), (2,), (2,), (2,), positive(2), 0, 0.1",
                                        "(2, 2, 6, 6), None, None, (2,), positive(2), 0, 0.1"};
  static constexpr auto returns = "output, mean, variance";
  static constexpr bool method = false;
  static std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& input, OptionalTensor weight,
                                                    OptionalTensor bias, OptionalTensor running_mean,
                                                    OptionalTensor running_var, int64_t groups, double eps) {
    return kernels::channel_norm(input, weight, bias, running_mean, running_var, groups, eps, name);
  }
  static std::tuple<Tensor, Tensor, Tensor> composed(const Tensor& input, OptionalTensor weight,
                                                     OptionalTensor bias, OptionalTensor running_mean,
                                                     OptionalTensor running_var, int64_t groups, double eps);
  static constexpr auto vjp = HigherOrder{
      JointRule{[](GradOf<"output"> g, GradOf<"mean"> g_mean, GradOf<"variance"> g_variance,
                   NeededBy<Input<"input">, "input", "weight", "running_var"> input,
                   NeededBy<Input<"weight">, "input", "running_mean", "running_var"> weight,
                   Input<"running_mean"> running_mean, Input<"running_var"> running_var, Output<"mean"> mean,
                   Output<"variance"> variance, Argument<int64_t, "groups"> groups,
                   Argument<double, "eps"> eps, Needed<"running_mean"> of_mean,
                   Needed<"running_var"> of_variance, Needs<ChannelNormBackward> needs) {
        const bool fixed = running_mean.defined();
        const Tensor &m = fixed ? static_cast<const Tensor&>(running_mean) : mean,
                     &v = fixed ? static_cast<const Tensor&>(running_var) : variance;
        if (g_mean.defined() || g_variance.defined() || of_mean || of_variance)
          return Tensors();  // no kernel has them
        return rules::channel_norm(g,
                                   {.input = input,
                                    .weight = weight,
                                    .mean = m,
                                    .variance = v,
                                    .groups = groups,
                                    .eps = eps,
                                    .fixed = fixed},
                                   needs);
      }}};
};

struct ChannelNormBackward : Structured {
  static constexpr auto name = "_channel_norm_backward";
  static void batch(BatchedCall& c, Batched<"g"> g, Batched<"input"> input, Batched<"weight"> weight,
                    Batched<"mean"> mean, Batched<"variance"> variance, Argument<int64_t, "groups"> groups,
                    Argument<double, "eps"> eps, Argument<bool, "fixed"> fixed,
                    Argument<int64_t, "needs"> needs);
  static constexpr auto doc =
      "The gradients of _channel_norm in one pass: of the input, the weight and the bias, by the bits of "
      "`needs`; the statistics depend on the input, unless they are `fixed`.";
  static constexpr auto signature = "g, input, weight, mean, variance, groups, eps, fixed, needs";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples =
      Cases{"(3, 2, 4), (3, 2, 4), (2,), (2,), positive(2), 0, 1e-05, False, 7",
            "(2, 4, 3, 2), (2, 4, 3, 2), (4,), (2, 2), positive(2, 2), 2, 0.1, False, 7",
            "(2, 2, 6, 6), (2, 2, 6, 6), None, (2,), positive(2), 0, 0.1, True, 1",
            "(0, 2), (0, 2), (2,), (2,), positive(2), 0, 1e-05, False, 7"};
  static constexpr auto returns = "input, weight, bias";
  static constexpr bool method = false;
  static std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& g, const Tensor& input,
                                                    OptionalTensor weight, const Tensor& mean,
                                                    const Tensor& variance, int64_t groups, double eps,
                                                    bool fixed, int64_t needs);
};

using Normalization = Family<LayerNorm, LayerNormBackward, LayerNormTwice, RmsNorm, RmsNormBackward,
                             ChannelNorm, ChannelNormBackward>;

}  // namespace adjoint
