// What the rows of attention make, and what they are composed of.
#include "ops/attention.h"

#include "autograd/meta.h"
#include "dispatch/constants.h"
#include "dispatch/family.h"
#include "for_size.h"
#include "ops/arithmetic.h"
#include "ops/bitwise.h"
#include "ops/comparison.h"
#include "ops/product.h"
#include "ops/reduction.h"
#include "ops/selection.h"
#include "ops/shape.h"
#include "ops/softmax.h"
#include "tensor/device.h"

namespace adjoint {

namespace kernel = kernels::attention;

std::tuple<Tensor, Tensor> Attention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                              OptionalTensor mask, bool causal, double scale, double dropout,
                                              int64_t seed, int64_t position) {
  return kernel::forward(
      query, key, value, mask,
      {.causal = causal, .scale = scale, .dropout = dropout, .seed = seed, .position = position}, name);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> AttentionBackward::forward(
    const Tensor& g, OptionalTensor g_log_sum, const Tensor& query, const Tensor& key, const Tensor& value,
    OptionalTensor mask, OptionalTensor result, const Tensor& log_sum, bool causal, double scale,
    double dropout, int64_t seed, int64_t position, int64_t bits) {
  const Needs<AttentionBackward> needs{bits};
  return kernel::backward(
      g, g_log_sum, query, key, value, mask, result, log_sum,
      {.causal = causal, .scale = scale, .dropout = dropout, .seed = seed, .position = position},
      {.query = needs.any<"query">(),
       .key = needs.any<"key">(),
       .value = needs.any<"value">(),
       .mask = needs.any<"mask">()},
      name);
}

Tensor AttentionDropoutFactors::forward(const Tensor& self, double dropout, int64_t seed, int64_t position) {
  return kernel::factors(
      self, {.causal = false, .scale = 1.0, .dropout = dropout, .seed = seed, .position = position});
}

std::tuple<Tensor, Tensor> Attention::composed(const Tensor& query, const Tensor& key, const Tensor& value,
                                               OptionalTensor mask, bool causal, double scale, double dropout,
                                               int64_t seed, int64_t position) {
  const DType given = query.dtype(), type = compute_dtype(given);
  const Tensor low = wrap_number(Scalar(-std::numeric_limits<double>::infinity()), type),
               zero = wrap_number(Scalar(0.0), type);
  const int64_t queries = query.size(-2), keys = key.size(-2), last[] = {-1};
  Tensor scores = call<Matmul>(call<Mul>(as_type(query, type), wrap_number(Scalar(scale), type)),
                               call<Transpose>(as_type(key, type), -1, -2));
  if (const Tensor& m = mask; m.defined())
    scores = m.dtype() == DType::Bool ? call<Where>(m, scores, low) : call<Add>(scores, as_type(m, type));
  if (causal) {
    const Tensor later = call<Less>(call<Unsqueeze>(counted(0, queries), int64_t{1}), counted(0, keys));
    scores = call<Where>(later, low, scores);
  }
  // A query that sees nothing, which takes a mask: its row is opened for the softmax, and its weights are
  // replaced.
  Tensor nothing;
  if (mask.defined() && keys) {
    nothing = call<Equal>(call<Amax>(detach(scores), IntList(last), true), low);
    scores = call<Where>(nothing, zero, scores);
  }
  const auto seen = [&](const Tensor& t, const Tensor& otherwise) {
    return nothing.defined() ? call<Where>(nothing, otherwise, t) : t;
  };
  Tensor weights = seen(call<Softmax>(scores, -1, OptionalType()), zero);
  if (dropout > 0)
    weights = call<Mul>(weights, call<AttentionDropoutFactors>(weights, dropout, seed, position));
  const Tensor log_sum = seen(call<LogSumExp>(scores, OptionalDims(IntList(last)), true), low);
  return {as_type(call<Matmul>(weights, as_type(value, type)), given),
          call<Squeeze>(log_sum, OptionalDims(IntList(last)))};
}

namespace rules {

Tensors attention(const Tensor& g, const Tensor& g_log_sum, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& mask, const Tensor& result, const Tensor& log_sum, const kernel::Options& o,
                  Needs<AttentionBackward> needs) {
  if (!g.defined()) return {};  // of the logarithms alone there is no kernel
  Tensors made = call_all<AttentionBackward>(g, OptionalTensor(g_log_sum), q, k, v, OptionalTensor(mask),
                                             OptionalTensor(result), log_sum, o.causal, o.scale, o.dropout,
                                             o.seed, o.position, needs.bits);
  const Tensor* of[] = {&q, &k, &v, &mask};
  for (size_t i = 0; i < made.size(); ++i)
    if (made[i].defined()) made[i] = sum_to_shape(made[i], of[i]->sizes());
  return made;
}

}  // namespace rules

// --- On batches -----------------------------------------------------------------------------------

namespace {

/// As many dimensions for each sample as the tensor of them that has most; and a tensor with so many.
int64_t highest_rank(std::initializer_list<const BatchedTensor*> all) {
  int64_t rank = 0;
  for (const BatchedTensor* t : all)
    if (*t) rank = std::max(rank, t->rank());
  return rank;
}
Tensor aligned(const BatchedTensor& t, int64_t rank) {
  return t ? with_ones(t.in_front(), rank - t.rank()) : Tensor();
}

}  // namespace

void Attention::batch(BatchedCall& c, Batched<"query"> query, Batched<"key"> key, Batched<"value"> value,
                      Batched<"mask"> mask, Argument<bool, "causal"> causal, Argument<double, "scale"> scale,
                      Argument<double, "dropout"> dropout, Argument<int64_t, "seed"> seed,
                      Argument<int64_t, "position"> position) {
  if (dropout > 0 && !c.draws_differ()) return batching::loop(c);
  const int64_t rank = highest_rank({&query, &key, &value, &mask});
  c.give(call_all<Attention>(aligned(query, rank), aligned(key, rank), aligned(value, rank),
                             aligned(mask, rank), causal, scale, dropout, seed, position));
}

void AttentionBackward::batch(BatchedCall& c, Batched<"g"> g, Batched<"g_log_sum"> g_log_sum,
                              Batched<"query"> query, Batched<"key"> key, Batched<"value"> value,
                              Batched<"mask"> mask, Batched<"result"> result, Batched<"log_sum"> log_sum,
                              Argument<bool, "causal"> causal, Argument<double, "scale"> scale,
                              Argument<double, "dropout"> dropout, Argument<int64_t, "seed"> seed,
                              Argument<int64_t, "position"> position, Argument<int64_t, "needs"> needs) {
  if (dropout > 0 && !c.draws_differ()) return batching::loop(c);
  const int64_t rank = highest_rank({&g, &query, &key, &value, &mask, &result});
  c.give(call_all<AttentionBackward>(aligned(g, rank), aligned(g_log_sum, rank - 1), aligned(query, rank),
                                     aligned(key, rank), aligned(value, rank), aligned(mask, rank),
                                     aligned(result, rank), aligned(log_sum, rank - 1), causal, scale,
                                     dropout, seed, position, needs));
}

}  // namespace adjoint

ADJOINT_FAMILY(AttentionFamily)
