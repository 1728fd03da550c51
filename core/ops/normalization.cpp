// What normalisation is composed of, and its rules.
#include "ops/normalization.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "ops/arithmetic.h"
#include "ops/reduction.h"
#include "ops/shape.h"

namespace adjoint {

namespace {

Tensor as_computed(const Tensor& t) { return as_type(t, compute_dtype(t.dtype())); }
Dims dims_between(int64_t first, int64_t end) {
  Dims dims;
  for (; first < end; ++first) dims.push_back(first);
  return dims;
}
/// All dimensions but that of channels.
Dims beside_channels(const Tensor& t) {
  Dims dims = dims_between(1, t.dim());
  dims[0] = 0;
  return dims;
}

Recorded mean_over(const Dims& dims, const Recorded& x) {
  return Recorded(call<Mean>(x.tensor, OptionalInts(dims.span()), true, OptionalType()));
}
Tensor sum_over(const Dims& dims, const Tensor& t) {
  return dims.empty() ? t : call<Sum>(t, OptionalInts(dims.span()), false, OptionalType());
}

bool is_batched(const Tensor& t) { return t.defined() && t->is(TensorImpl::kBatched); }

/// `normal` is given its scale and its shift, of which either may be undefined, in the shape in which they
/// broadcast.
Tensor affine(Tensor normal, const Tensor& weight, const Tensor& bias) {
  if (weight.defined()) normal = call<Mul>(normal, as_type(weight, normal.dtype()));
  return bias.defined() ? call<Add>(normal, as_type(bias, normal.dtype())) : normal;
}

}  // namespace

Tensor LayerNorm::composed(const Tensor& input, IntList shape, OptionalTensor weight, OptionalTensor bias,
                           double eps) {
  const Recorded x(as_computed(input));
  const OptionalTensor none;
  Tensor normal;
  if (is_batched(weight) || is_batched(bias)) {  // which the kernel cannot take
    normal = call<LayerNorm>(x.tensor, shape, none, none, eps);
  } else {
    const Dims last = dims_between(input.dim() - static_cast<int64_t>(shape.size()), input.dim());
    const Recorded centred = x - mean_over(last, x);
    normal = (centred * apply<Rsqrt>(mean_over(last, apply<Square>(centred)) + number(eps, x.tensor))).tensor;
  }
  return as_type(affine(normal, weight, bias), input.dtype());
}

Tensor RmsNorm::composed(const Tensor& self, int64_t dims, double eps) {
  const Recorded x(as_computed(self)),
      mean = mean_over(dims_between(self.dim() - dims, self.dim()), apply<Square>(x));
  return as_type((x * apply<Rsqrt>(mean + number(eps, x.tensor))).tensor, self.dtype());
}

std::tuple<Tensor, Tensor, Tensor> ChannelNorm::composed(const Tensor& input, OptionalTensor weight,
                                                         OptionalTensor bias, OptionalTensor running_mean,
                                                         OptionalTensor running_var, int64_t groups,
                                                         double eps) {
  const OptionalTensor none;
  const Tensor x = as_computed(input);
  Dims channel(x.sizes().size(), 1);
  channel[1] = x.size(1);
  const auto per_channel = [&](const Tensor& t) {
    return t.defined() ? call<Reshape>(as_type(t, x.dtype()), channel.span()) : t;
  };
  const auto given = [&](const Tensor& t) { return as_type(t, input.dtype()); };
  const auto scaled = [&](const Tensor& normal) {
    return given(affine(normal, per_channel(weight), per_channel(bias)));
  };
  if (is_batched(weight) || is_batched(bias)) {  // which the kernel cannot take
    const Tensors r = call_all<ChannelNorm>(x, none, none, running_mean, running_var, groups, eps);
    return {scaled(r[0]), given(r[1]), given(r[2])};
  }
  const auto normal = [&](const Recorded& centred, const Recorded& variance) {
    return (centred * apply<Rsqrt>(variance + number(eps, x))).tensor;
  };
  if (running_mean.defined())
    return {scaled(normal(Recorded(x) - Recorded(per_channel(running_mean)), per_channel(running_var))),
            Tensor(), Tensor()};
  // With groups, what shares its statistics is made one dimension.
  const int64_t images = x.size(0), sets = images * groups,
                grouped[] = {images, groups, sets ? x.numel() / sets : 0};
  const Dims over = groups ? Dims{2} : beside_channels(x),
             found = groups ? Dims{images, groups} : Dims{x.size(1)};
  const Recorded all = groups ? call<Reshape>(x, IntList(grouped)) : x, mean = mean_over(over, all),
                 centred = all - mean, variance = mean_over(over, apply<Square>(centred));
  const auto statistic = [&](const Recorded& t) { return given(call<Reshape>(t.tensor, found.span())); };
  const Tensor y = normal(centred, variance);
  return {scaled(groups ? call<Reshape>(y, x.sizes()) : y), statistic(mean), statistic(variance)};
}

namespace rules {

Tensors layer_norm(const Tensor& g, const Tensor& self, const Tensor& weight, int64_t dims, double eps,
                   Needs needs) {
  if (!self.defined()) return {Tensor(), Tensor(), sum_over(dims_between(0, g.dim() - dims), g)};
  const bool parameters = needs[2] || needs[3];
  if (is_batched(weight) || (parameters && (is_batched(g) || is_batched(self)))) return {};
  return call_all<LayerNormBackward>(g, self, OptionalTensor(weight), dims, eps,
                                     int64_t{needs[0] + 2 * needs[2] + 4 * needs[3]});
}

Tensors channel_norm(const Tensor& g, const ChannelNormCall& c, Needs needs) {
  if (needs.mask == 4 && g.defined())
    return {Tensor(), Tensor(), sum_over(beside_channels(g), as_computed(g))};
  const bool parameters = needs[1] || needs[2];
  if (!c.input.defined() || needs[3] || needs[4] ||
      (c.groups && (is_batched(c.weight) || (parameters && (is_batched(g) || is_batched(c.input))))))
    return {};
  return call_all<ChannelNormBackward>(g, c.input, OptionalTensor(c.weight), c.mean, c.variance, c.groups,
                                       c.eps, c.fixed, static_cast<int64_t>(needs.mask));
}

}  // namespace rules

}  // namespace adjoint

ADJOINT_FAMILY(Normalization)
