// What normalisation is composed of, and its rules.
#include "ops/normalization.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "ops/arithmetic.h"
#include "ops/reduction.h"
#include "ops/shape.h"

namespace adjoint {

using batching::per_sample;

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

/// A vector of channels, in the type of `x`, as it broadcasts with it; undefined stays so.
Tensor per_channel(const Tensor& t, const Tensor& x) {
  if (!t.defined()) return t;
  Dims sizes(x.sizes().size(), 1);
  sizes[1] = x.size(1);
  return call<Reshape>(as_type(t, x.dtype()), sizes.span());
}

Recorded mean_over(const Dims& dims, const Recorded& x) {
  return Recorded(call<Mean>(x.tensor, OptionalInts(dims.span()), true, OptionalType()));
}
Tensor sum_over(const Dims& dims, const Tensor& t) {
  return dims.empty() ? t : call<Sum>(t, OptionalInts(dims.span()), false, OptionalType());
}

/// `normal` is given its scale and its shift, of which either may be undefined, in the shape in which they
/// broadcast.
Tensor affine(Tensor normal, const Tensor& weight, const Tensor& bias) {
  if (weight.defined()) normal = call<Mul>(normal, as_type(weight, normal.dtype()));
  return bias.defined() ? call<Add>(normal, as_type(bias, normal.dtype())) : normal;
}

}  // namespace

void refuse_mixed_parameters(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const auto of_type = [&](DType type) {
    return (!weight.defined() || weight.dtype() == type) && (!bias.defined() || bias.dtype() == type);
  };
  const DType type = input.dtype();
  if (of_type(type) || (itemsize(type) == 2 && is_floating(type) && of_type(DType::Float32))) return;
  const Tensor& other = weight.defined() && weight.dtype() != type ? weight : bias;
  fail("layer_norm(): mixed dtype: expected scalar type ", type_name_of(type), " but found ",
       type_name_of(other.dtype()),
       ": weight and bias have the dtype of the input, or float32 beside half "
       "types; convert them with .to(",
       name_of(type), ")");
}

Tensor LayerNorm::composed(const Tensor& input, IntList shape, OptionalTensor weight, OptionalTensor bias,
                           double eps) {
  const Recorded x(as_computed(input));
  const OptionalTensor none;
  Tensor normal;
  if (per_sample(weight) || per_sample(bias)) {  // which the kernel cannot take
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

Tensor LayerNormTwice::composed(const Tensor& v, const Tensor& g, const Tensor& input, OptionalTensor weight,
                                int64_t dims, double eps, bool centred) {
  const OptionalTensor none;
  const Dims last = dims_between(input.dim() - dims, input.dim());
  const Recorded x(as_computed(input)), p(as_computed(v)), h(affine(as_computed(g), weight, none)),
      c = centred ? x - mean_over(last, x) : x,
      scale = apply<Rsqrt>(mean_over(last, apply<Square>(c)) + number(eps, x.tensor)), normal = c * scale;
  // The gradient of the input is linear in that of the result, and symmetric.
  const auto through = [&](const Recorded& t) {
    return Recorded(centred ? call_all<LayerNormBackward>(t.tensor, x.tensor, none, dims, eps, int64_t{1})[0]
                            : call<RmsNormBackward>(t.tensor, x.tensor, dims, eps));
  };
  const Recorded q = through(p), sum = q * mean_over(last, h * normal) +
                                       through(h) * mean_over(last, p * normal) +
                                       normal * mean_over(last, q * h);
  return as_type((-(sum * scale)).tensor, input.dtype());
}

std::tuple<Tensor, Tensor, Tensor> ChannelNorm::composed(const Tensor& input, OptionalTensor weight,
                                                         OptionalTensor bias, OptionalTensor running_mean,
                                                         OptionalTensor running_var, int64_t groups,
                                                         double eps) {
  const OptionalTensor none;
  const Tensor x = as_computed(input);
  const auto given = [&](const Tensor& t) { return as_type(t, input.dtype()); };
  const auto scaled = [&](const Tensor& normal) {
    return given(affine(normal, per_channel(weight, x), per_channel(bias, x)));
  };
  if (per_sample(weight) || per_sample(bias)) {  // which the kernel cannot take
    const Tensors r = call_all<ChannelNorm>(x, none, none, running_mean, running_var, groups, eps);
    return {scaled(r[0]), given(r[1]), given(r[2])};
  }
  const auto normal = [&](const Recorded& centred, const Recorded& variance) {
    return (centred * apply<Rsqrt>(variance + number(eps, x))).tensor;
  };
  if (running_mean.defined())
    return {scaled(normal(Recorded(x) - Recorded(per_channel(running_mean, x)), per_channel(running_var, x))),
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
                   Needs<LayerNormBackward> needs) {
  if (!self.defined()) return {Tensor(), Tensor(), sum_over(dims_between(0, g.dim() - dims), g)};
  const bool parameters = needs.any<"weight", "bias">();
  if (per_sample(weight) || (parameters && (per_sample(g) || per_sample(self)))) return {};
  return call_all<LayerNormBackward>(g, self, OptionalTensor(weight), dims, eps, needs.bits);
}

Tensors layer_norm_backward(const Tensor& v, const Tensor& of_weight, const Tensor& of_bias,
                            const LayerNormBackwardCall& c, bool by_g, bool by_input, bool by_weight) {
  const OptionalTensor none;
  const auto through = [&](const Tensor& t, const Tensor& weight) {
    return call_all<LayerNormBackward>(t, c.input, OptionalTensor(weight), c.dims, c.eps, int64_t{1})[0];
  };
  Tensors found(3);
  if (v.defined() && (by_g || by_weight)) {
    const Tensor back = through(v, Tensor());
    if (by_g) found[0] = affine(back, c.weight, none);
    if (by_weight) found[2] = sum_over(dims_between(0, v.dim() - c.dims), call<Mul>(c.g, back));
  }
  if (by_g && of_weight.defined())
    found[0] =
        add(found[0], call<Mul>(call<LayerNorm>(c.input, of_weight.sizes(), none, none, c.eps), of_weight));
  if (by_g && of_bias.defined()) found[0] = add(found[0], call<Expand>(of_bias, c.g.sizes()));
  if (by_input) {
    if (v.defined())
      found[1] = call<LayerNormTwice>(v, c.g, c.input, OptionalTensor(c.weight), c.dims, c.eps, true);
    if (of_weight.defined()) found[1] = add(found[1], through(c.g, of_weight));
  }
  return found;
}

namespace {

/// The gradients in calls that have rules of their own: what shares its statistics is laid out as a row, and
/// the rows are normalised.
Tensors channel_norm_by_rows(const Tensor& g, const ChannelNormCall& c, Needs<ChannelNormBackward> needs) {
  const OptionalTensor none;
  const Tensor x = as_computed(c.input), gradient = as_computed(g);
  const int64_t images = x.size(0), channels = x.size(1), sets = c.groups ? images * c.groups : channels,
                sizes[] = {sets, x.numel() / sets}, length[] = {sizes[1]};
  Dims by_channel(x.sizes());
  std::swap(by_channel[0], by_channel[1]);
  const auto rows = [&](const Tensor& t) {
    return call<Reshape>(c.groups ? t : call<Transpose>(t, int64_t{0}, int64_t{1}), IntList(sizes));
  };
  const auto images_of = [&](const Tensor& t) {
    return c.groups ? call<Reshape>(t, x.sizes())
                    : call<Transpose>(call<Reshape>(t, by_channel.span()), int64_t{0}, int64_t{1});
  };
  const Tensor of_rows = rows(x);
  Tensors found(3);
  if (needs.any<"input">())
    found[0] =
        as_type(images_of(call_all<LayerNormBackward>(rows(affine(gradient, per_channel(c.weight, x), none)),
                                                      of_rows, none, int64_t{1}, c.eps, int64_t{1})[0]),
                c.input.dtype());
  if (needs.any<"weight">())
    found[1] = sum_over(
        beside_channels(x),
        call<Mul>(gradient, images_of(call<LayerNorm>(of_rows, IntList(length), none, none, c.eps))));
  if (needs.any<"bias">()) found[2] = sum_over(beside_channels(x), gradient);
  return found;
}

}  // namespace

Tensors channel_norm(const Tensor& g, const ChannelNormCall& c, Needs<ChannelNormBackward> needs) {
  if (!needs.any<"input", "weight">() && g.defined())
    return {Tensor(), Tensor(), sum_over(beside_channels(g), as_computed(g))};
  const bool parameters = needs.any<"weight", "bias">();
  if (!c.input.defined() ||
      (c.groups && (per_sample(c.weight) || (parameters && (per_sample(g) || per_sample(c.input))))))
    return {};
  if (thread_state.grad) {
    if (c.fixed || !g.defined() || !c.input.numel()) return {};
    return channel_norm_by_rows(g, c, needs);
  }
  return call_all<ChannelNormBackward>(g, c.input, OptionalTensor(c.weight), c.mean, c.variance, c.groups,
                                       c.eps, c.fixed, needs.bits);
}

}  // namespace rules

namespace {

template <class Backward>
kernels::WantedOfNorm wanted(int64_t needs) {
  const Needs<Backward> n{needs};
  return {n.template any<"input">(), n.template any<"weight">(), n.template any<"bias">()};
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> LayerNormBackward::forward(const Tensor& g, const Tensor& input,
                                                              OptionalTensor weight, int64_t dims, double eps,
                                                              int64_t needs) {
  return kernels::layer_norm_backward(g, input, weight, dims, eps, wanted<LayerNormBackward>(needs));
}
std::tuple<Tensor, Tensor, Tensor> ChannelNormBackward::forward(const Tensor& g, const Tensor& input,
                                                                OptionalTensor weight, const Tensor& mean,
                                                                const Tensor& variance, int64_t groups,
                                                                double eps, bool fixed, int64_t needs) {
  return kernels::channel_norm_backward(g, input, weight, mean, variance, groups, eps, fixed,
                                        wanted<ChannelNormBackward>(needs), name);
}

// --- On batches -----------------------------------------------------------------------------------

void LayerNorm::batch(BatchedCall& c, Batched<"input"> input,
                      Argument<IntList, "normalized_shape"> normalized_shape, Batched<"weight"> weight,
                      Batched<"bias"> bias, Argument<double, "eps"> eps) {
  if (weight.batched() || bias.batched()) return batching::composed(c);
  c.give(call<LayerNorm>(input.samples(), normalized_shape, weight.optional(), bias.optional(), eps));
}

void LayerNormBackward::batch(BatchedCall& c, Batched<"g"> g, Batched<"input"> input,
                              Batched<"weight"> weight, Argument<int64_t, "dims"> dims,
                              Argument<double, "eps"> eps, Argument<int64_t, "needs"> needs) {
  if (weight.batched() || Needs<LayerNormBackward>{needs}.any<"weight", "bias">()) return batching::loop(c);
  c.give(call_all<LayerNormBackward>(g.in_front(), input.in_front(), weight.optional(), dims, eps, needs));
}

void LayerNormTwice::batch(BatchedCall& c, Batched<"v"> v, Batched<"g"> g, Batched<"input"> input,
                           Batched<"weight"> weight, Argument<int64_t, "dims"> dims,
                           Argument<double, "eps"> eps, Argument<bool, "centred"> centred) {
  if (weight.batched()) return batching::composed(c);
  c.give(call<LayerNormTwice>(v.in_front(), g.in_front(), input.in_front(), weight.optional(), dims, eps,
                              centred));
}

namespace {

/// Channels of all samples side by side, which without groups have statistics of their own; or more images.
struct Channels {
  bool side_by_side;

  Tensor images(const BatchedTensor& t) const { return t.joined(side_by_side); }
  Tensor vector(const BatchedTensor& t) const { return t && side_by_side ? t.joined(0) : t.tensor; }
  void give(BatchedCall& c, Tensors results) const {
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i].defined()) results[i] = batching::parted(c, results[i], i == 0 && side_by_side);
    c.give(std::move(results));
  }
};

}  // namespace

void ChannelNorm::batch(BatchedCall& c, Batched<"input"> input, Batched<"weight"> weight,
                        Batched<"bias"> bias, Batched<"running_mean"> mean, Batched<"running_var"> variance,
                        Argument<int64_t, "groups"> groups, Argument<double, "eps"> eps) {
  // The statistics are the same for all samples where only what follows differs: so they are given back.
  const bool same = !input.batched() && !mean.batched() && !variance.batched();
  if (groups ? weight.batched() || bias.batched() : same) return batching::composed(c);
  const Channels of{groups == 0};
  of.give(c, call_all<ChannelNorm>(of.images(input), of.vector(weight), of.vector(bias), of.vector(mean),
                                   of.vector(variance), groups, eps));
}

void ChannelNormBackward::batch(BatchedCall& c, Batched<"g"> g, Batched<"input"> input,
                                Batched<"weight"> weight, Batched<"mean"> mean, Batched<"variance"> variance,
                                Argument<int64_t, "groups"> groups, Argument<double, "eps"> eps,
                                Argument<bool, "fixed"> fixed, Argument<int64_t, "needs"> needs) {
  if (groups && (weight.batched() || Needs<ChannelNormBackward>{needs}.any<"weight", "bias">()))
    return batching::loop(c);
  const Channels of{groups == 0};
  of.give(c, call_all<ChannelNormBackward>(of.images(g), of.images(input), of.vector(weight), mean.joined(0),
                                           variance.joined(0), groups, eps, fixed, needs));
}

}  // namespace adjoint

ADJOINT_FAMILY(Normalization)
