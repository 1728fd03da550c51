// Attention: softmax(q kᵀ scale + mask) v over keys, by tiles that never hold all weights
// (kernels/attention.h).
//
// Kept for the gradient are the inputs, the result and one number per query, from which the weights are found
// again. `composed` says the same in operators, on the whole matrix of weights.
#pragma once

#include "kernels/attention.h"
#include "ops/contract/op.h"

namespace adjoint {

struct AttentionBackward;

namespace rules {
Tensors attention(const Tensor& g, const Tensor& g_log_sum, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& mask, const Tensor& result, const Tensor& log_sum,
                  const kernels::attention::Options& options, Needs<AttentionBackward> needs);
}  // namespace rules

struct Attention : Structured {
  static constexpr auto name = "_attention";
  static void batch(BatchedCall& c, Batched<"query"> query, Batched<"key"> key, Batched<"value"> value,
                    Batched<"mask"> mask, Argument<bool, "causal"> causal, Argument<double, "scale"> scale,
                    Argument<double, "dropout"> dropout, Argument<int64_t, "seed"> seed,
                    Argument<int64_t, "position"> position);
  static constexpr auto doc =
      "softmax(q kᵀ scale + mask) v, and the logarithms of the softmax's sums. Weights are left out with "
      "probability dropout, by the random words of a seed from a position on.";
  static constexpr auto signature =
      "query, key, value, mask=None, causal=False, scale=1.0, dropout=0.0, seed=0, position=0";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples =
      Cases{"(2, 3, 4), (2, 5, 4), (2, 5, 3)",
            "(3, 4), (2, 5, 4), (5, 2), (3, 5), scale=0.5",
            "(3, 4), (5, 4), (5, 4), mask(3, 5)",
            "(4, 3), (3, 3), (3, 2), causal=True",
            "(2, 3), (4, 3), (4, 3), (4,), False, 0.7, dropout=0.5, seed=3, position=8",
            "(0, 3), (2, 3), (2, 3)"};
  static constexpr bool method = false;
  static constexpr auto returns = "result, log_sum";
  static std::tuple<Tensor, Tensor> forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                            OptionalTensor mask, bool causal, double scale, double dropout,
                                            int64_t seed, int64_t position);
  static std::tuple<Tensor, Tensor> composed(const Tensor& query, const Tensor& key, const Tensor& value,
                                             OptionalTensor mask, bool causal, double scale, double dropout,
                                             int64_t seed, int64_t position);
  static constexpr auto vjp = FirstOrder{JointRule{
      [](GradOf<"result"> g, GradOf<"log_sum"> g_log_sum, Input<"query"> q, Input<"key"> k, Input<"value"> v,
         Input<"mask"> mask, NeededBy<Output<"result">, "query", "key", "mask"> result,
         Output<"log_sum"> log_sum, Argument<bool, "causal"> causal, Argument<double, "scale"> scale,
         Argument<double, "dropout"> dropout, Argument<int64_t, "seed"> seed,
         Argument<int64_t, "position"> position, Needs<AttentionBackward> needs) {
        return rules::attention(
            g, g_log_sum, q, k, v, mask, result, log_sum,
            {.causal = causal, .scale = scale, .dropout = dropout, .seed = seed, .position = position},
            needs);
      }}};
};

struct AttentionBackward : Structured {
  static constexpr auto name = "_attention_backward";
  static void batch(BatchedCall& c, Batched<"g"> g, Batched<"g_log_sum"> g_log_sum, Batched<"query"> query,
                    Batched<"key"> key, Batched<"value"> value, Batched<"mask"> mask,
                    Batched<"result"> result, Batched<"log_sum"> log_sum, Argument<bool, "causal"> causal,
                    Argument<double, "scale"> scale, Argument<double, "dropout"> dropout,
                    Argument<int64_t, "seed"> seed, Argument<int64_t, "position"> position,
                    Argument<int64_t, "needs"> needs);
  static constexpr auto doc =
      "The gradients of _attention by the bits of `needs`, with the leading dimensions of the result (that "
      "of the mask with its own).";
  static constexpr auto signature =
      "g, g_log_sum, query, key, value, mask, result, log_sum, causal, scale, dropout, seed, position, needs";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{
      "(2, 3, 2), None, (2, 3, 4), (2, 5, 4), (2, 5, 2), None, (2, 3, 2), positive(2, 3), False, 0.5, 0.0, "
      "0, 0, 7",
      "(3, 2), (3,), (3, 4), (5, 4), (5, 2), (3, 5), (3, 2), positive(3), True, 0.5, 0.0, 0, 0, 15",
      "(0, 2), None, (0, 4), (5, 4), (5, 2), None, (0, 2), (0,), False, 0.5, 0.0, 0, 0, 7"};
  static constexpr bool method = false;
  static constexpr auto returns = "query, key, value, mask";
  static std::tuple<Tensor, Tensor, Tensor, Tensor> forward(const Tensor& g, OptionalTensor g_log_sum,
                                                            const Tensor& query, const Tensor& key,
                                                            const Tensor& value, OptionalTensor mask,
                                                            OptionalTensor result, const Tensor& log_sum,
                                                            bool causal, double scale, double dropout,
                                                            int64_t seed, int64_t position, int64_t needs);
};

struct AttentionDropoutFactors : Structured {
  static constexpr auto name = "_attention_factors";
  static constexpr auto batch = batching::draws;
  static constexpr auto doc =
      "What _attention multiplies weights of this shape by when it leaves some out: 0, or 1 / (1 - dropout).";
  static constexpr auto signature = "self, dropout, seed, position";
  static constexpr TypeSet types = types::bit(DType::Float32) | types::bit(DType::Float64);
  static constexpr auto samples = Cases{"(2, 3, 4), 0.5, 3, 8", "(0, 3), 0.5, 3, 8"};
  static constexpr bool method = false;
  static constexpr bool differentiable = false;
  static Tensor forward(const Tensor& self, double dropout, int64_t seed, int64_t position);
};

using AttentionFamily = Family<Attention, AttentionBackward, AttentionDropoutFactors>;

}  // namespace adjoint
