// The rules of normalisation: fused where nothing is recorded, else by recorded operations.
#include "ops/normalization.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "ops/arithmetic.h"
#include "ops/reduction.h"
#include "ops/shape.h"

namespace adjoint::rules {

Tensors layer_norm(const Tensor& g, const Tensor& self, const Tensor& weight, int64_t dims, double eps,
                   Needs needs) {
  const bool for_input = needs[0], for_weight = needs[2], for_bias = needs[3];
  if (!recording() && self.defined()) {
    const int64_t mask = (for_input ? 1 : 0) | (for_weight ? 2 : 0) | (for_bias ? 4 : 0);
    return call_all<LayerNormBackward>(g, self, OptionalTensor(weight), dims, eps, mask);
  }
  Dims last, first;
  for (int64_t d = 0; d < g.dim(); ++d) (d < g.dim() - dims ? first : last).push_back(d);
  auto over = [](const Dims& d) { return OptionalInts(IntList(d.data(), d.size())); };
  auto summed = [&](const Tensor& t) {
    return first.empty() ? t : call<Sum>(t, over(first), false, OptionalType());
  };
  Tensors out(3);
  if (for_bias) out[2] = summed(g);
  if (!for_input && !for_weight) return out;
  auto mean = [&](const Recorded& x) {
    return Recorded(call<Mean>(x.tensor, over(last), true, OptionalType()));
  };
  const Recorded x(self), gy(g);
  const Recorded centred = x - mean(x);
  const Recorded scale =
      apply<Rsqrt>(mean(apply<Square>(centred)) + Recorded(wrap_number(Scalar(eps), self.dtype())));
  const Recorded normal = centred * scale;
  if (for_input) {
    const Recorded h = weight.defined() ? gy * Recorded(weight) : gy;
    out[0] = (scale * (h - mean(h) - normal * mean(h * normal))).tensor;
  }
  if (for_weight) out[1] = summed((gy * normal).tensor);
  return out;
}

Tensor rms_norm(const Tensor& g, const Tensor& self, int64_t dims, double eps) {
  if (!recording()) return call<RmsNormBackward>(g, self, dims, eps);
  Dims last;
  for (int64_t d = g.dim() - dims; d < g.dim(); ++d) last.push_back(d);
  const auto mean = [&](const Recorded& x) {
    return Recorded(call<Mean>(x.tensor, OptionalInts(last.span()), true, OptionalType()));
  };
  const Recorded x(self), gy(g), scale = apply<Rsqrt>(mean(apply<Square>(x)) + number(eps, self)),
                                 normal = x * scale;
  return (scale * (gy - normal * mean(gy * normal))).tensor;
}

namespace {

/// In recorded operators.
Tensors recorded_channel_norm(const Tensor& g, const Tensor& g_mean, const Tensor& g_variance,
                              const ChannelNormCall& c, Needs needs) {
  const Tensor& like = c.input.defined() ? c.input : g;
  Tensors out(5);
  if (!like.defined()) return out;
  const DType type = compute_dtype(like.dtype());
  auto computed = [&](const Tensor& t) { return t.defined() && t.dtype() != type ? call<To>(t, type) : t; };
  auto returned = [](const Tensor& t, DType d) { return t.dtype() == d ? t : call<To>(t, d); };
  // With groups, what shares its statistics is made one dimension.
  Dims others, channel(like.sizes());
  for (int64_t d = 0; d < like.dim(); ++d) {
    if (d != 1) others.push_back(d);
    channel[static_cast<size_t>(d)] = d == 1 ? like.size(1) : 1;
  }
  const int64_t sets = c.groups ? like.size(0) * c.groups : like.size(1),
                elements = sets ? like.numel() / sets : 0;
  const Dims grouped{like.size(0), c.groups, elements}, one_each{like.size(0), c.groups, 1}, last{2};
  auto by_sets = [&](const Tensor& t) { return Recorded(c.groups ? call<Reshape>(t, grouped.span()) : t); };
  auto as_images = [&](const Recorded& t) {
    return Recorded(c.groups ? call<Reshape>(t.tensor, like.sizes()) : t.tensor);
  };
  auto of_sets = [&](const Tensor& t) {
    return Recorded(call<Reshape>(computed(t), (c.groups ? one_each : channel).span()));
  };
  auto mean = [&](const Recorded& x) {
    return Recorded(
        call<Mean>(x.tensor, OptionalInts((c.groups ? last : others).span()), true, OptionalType()));
  };
  auto summed = [&](const Recorded& t, DType d) {
    return returned(call<Sum>(t.tensor, OptionalInts(others.span()), false, OptionalType()), d);
  };
  const DType parameter = c.weight.defined() ? c.weight.dtype() : like.dtype();
  const Recorded gy(computed(g));
  if (g.defined() && needs[2]) out[2] = summed(gy, parameter);
  const bool for_x = needs[0], for_weight = needs[1] && g.defined(),
             for_statistics = (needs[3] || needs[4]) && g.defined();
  if (!for_x && !for_weight && !for_statistics) return out;
  Recorded h(gy.tensor);
  if (g.defined()) {
    if (c.weight.defined()) h = h * Recorded(call<Reshape>(computed(c.weight), channel.span()));
    h = by_sets(h.tensor);
  }
  if (c.fixed) {
    const Recorded scale = apply<Rsqrt>(of_sets(c.variance) + number(c.eps, of_sets(c.variance).tensor)),
                   to_x = h * scale;
    if (for_x) out[0] = returned(to_x.tensor, like.dtype());
    if (needs[3]) out[3] = summed(-to_x, c.mean.dtype());
    if (!for_weight && !needs[4]) return out;
    const Recorded normal = (Recorded(computed(c.input)) - of_sets(c.mean)) * scale;
    if (for_weight) out[1] = summed(gy * normal, parameter);
    if (needs[4]) out[4] = summed(to_x * normal * scale * number(-0.5, scale.tensor), c.variance.dtype());
    return out;
  }
  const Recorded x = by_sets(computed(c.input)), centred = x - mean(x);
  const Recorded scale = apply<Rsqrt>(mean(apply<Square>(centred)) + number(c.eps, x.tensor)),
                 normal = centred * scale;
  if (for_weight) out[1] = summed(gy * as_images(normal), parameter);
  if (!for_x) return out;
  Tensor gx;
  auto add = [&](const Recorded& term) { gx = gx.defined() ? (Recorded(gx) + term).tensor : term.tensor; };
  if (g.defined()) add(scale * (h - mean(h) - normal * mean(h * normal)));
  const double share = 1.0 / static_cast<double>(std::max<int64_t>(1, elements));
  if (g_variance.defined()) add(centred * (of_sets(g_variance) * number(2 * share, x.tensor)));
  if (g_mean.defined())
    add(Recorded(call<Expand>((of_sets(g_mean) * number(share, x.tensor)).tensor, x.tensor.sizes())));
  if (gx.defined()) out[0] = returned(as_images(gx).tensor, like.dtype());
  return out;
}

}  // namespace

Tensors channel_norm(const Tensor& g, const Tensor& g_mean, const Tensor& g_variance,
                     const ChannelNormCall& c, Needs needs) {
  if (recording() || g_mean.defined() || g_variance.defined() || !c.input.defined() || needs[3] || needs[4])
    return recorded_channel_norm(g, g_mean, g_variance, c, needs);
  Tensors out = call_all<ChannelNormBackward>(g, c.input, OptionalTensor(c.weight), c.mean, c.variance,
                                              c.groups, c.eps, c.fixed, static_cast<int64_t>(needs.mask));
  out.resize(5);
  return out;
}

}  // namespace adjoint::rules

ADJOINT_FAMILY(Normalization)
