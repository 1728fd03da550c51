// What the rows of attention make, and its gradient in recorded operations.
#include "ops/attention.h"

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
  return kernel::forward(query, key, value, mask, {causal, scale, dropout, seed, position}, name);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> AttentionBackward::forward(
    const Tensor& g, OptionalTensor g_log_sum, const Tensor& query, const Tensor& key, const Tensor& value,
    OptionalTensor mask, OptionalTensor result, const Tensor& log_sum, bool causal, double scale,
    double dropout, int64_t seed, int64_t position, int64_t needs) {
  return kernel::backward(g, g_log_sum, query, key, value, mask, result, log_sum,
                          {causal, scale, dropout, seed, position}, needs, name);
}

Tensor AttentionDropoutFactors::forward(const Tensor& self, double dropout, int64_t seed, int64_t position) {
  return kernel::factors(self, {false, 1.0, dropout, seed, position});
}

namespace rules {

namespace {

/// Where there is no attention, by the order of places.
Tensor later_places(int64_t queries, int64_t keys) {
  return call<Less>(call<Unsqueeze>(counted(0, queries), int64_t{1}), counted(0, keys));
}

Tensor as(const Tensor& t, DType dtype) { return t.dtype() == dtype ? t : call<To>(t, dtype); }
Tensor last_as_column(const Tensor& t) { return call<Unsqueeze>(t, -1); }
Tensor sum_of_rows(const Tensor& t) {
  const int64_t last[] = {-1};
  return call<Sum>(t, OptionalInts(IntList(last)), true, OptionalType());
}

/// The same on the whole matrix of weights, recorded.
Tensors recorded_attention(const Tensor& g, const Tensor& g_log_sum, const Tensor& query, const Tensor& key,
                           const Tensor& value, const Tensor& mask, const Tensor& log_sum,
                           const kernel::Options& o, Needs needs) {
  const DType type = log_sum.dtype(), given = query.dtype();
  const Tensor q = as(query, type), k = as(key, type), scale = wrap_number(Scalar(o.scale), type);
  const Tensor low = wrap_number(Scalar(-std::numeric_limits<double>::infinity()), type),
               zero = wrap_number(Scalar(0.0), type);
  Tensor scores = call<Matmul>(call<Mul>(q, scale), conjugate_transpose(k));
  if (mask.defined())
    scores = mask.dtype() == DType::Bool ? call<Where>(mask, scores, low) : call<Add>(scores, as(mask, type));
  if (o.causal) scores = call<Where>(later_places(query.size(-2), key.size(-2)), low, scores);
  // A query that sees nothing: its row is opened for the softmax, and its weights are replaced.
  const Tensor nothing = last_as_column(call<Equal>(log_sum, low));
  const Tensor p =
      call<Where>(nothing, zero, call<Softmax>(call<Where>(nothing, zero, scores), -1, OptionalType()));
  Tensor weights = p, factors;
  if (o.dropout > 0) {
    factors = call<AttentionDropoutFactors>(p, o.dropout, o.seed, o.position);
    weights = call<Mul>(p, factors);
  }
  Tensors out(4);
  if (needs[2] && g.defined())
    out[2] = as(sum_to_shape(call<Matmul>(conjugate_transpose(weights), as(g, type)), value.sizes()), given);
  if (!(needs.mask & 11)) return out;
  Tensor d = zero;
  if (g.defined()) {
    d = call<Matmul>(as(g, type), conjugate_transpose(as(value, type)));
    if (factors.defined()) d = call<Mul>(d, factors);
    d = call<Sub>(d, sum_of_rows(call<Mul>(d, p)));
  }
  if (g_log_sum.defined()) d = call<Add>(d, last_as_column(g_log_sum));
  d = call<Mul>(p, d);
  if (needs[3]) out[3] = as(sum_to_shape(d, mask.sizes()), mask.dtype());
  d = call<Mul>(d, scale);
  if (needs[0]) out[0] = as(sum_to_shape(call<Matmul>(d, k), query.sizes()), given);
  if (needs[1]) out[1] = as(sum_to_shape(call<Matmul>(conjugate_transpose(d), q), key.sizes()), given);
  return out;
}

}  // namespace

Tensors attention(const Tensor& g, const Tensor& g_log_sum, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& mask, const Tensor& result, const Tensor& log_sum, const kernel::Options& o,
                  Needs needs) {
  if (recording() || !g.defined()) return recorded_attention(g, g_log_sum, q, k, v, mask, log_sum, o, needs);
  Tensors made = call_all<AttentionBackward>(g, OptionalTensor(g_log_sum), q, k, v, OptionalTensor(mask),
                                             OptionalTensor(result), log_sum, o.causal, o.scale, o.dropout,
                                             o.seed, o.position, static_cast<int64_t>(needs.mask & 15));
  const Tensor* of[] = {&q, &k, &v, &mask};
  for (int i = 0; i < 4; ++i)
    if (needs[i]) made[static_cast<size_t>(i)] = sum_to_shape(made[static_cast<size_t>(i)], of[i]->sizes());
  return made;
}

}  // namespace rules

}  // namespace adjoint

ADJOINT_FAMILY(AttentionFamily)
