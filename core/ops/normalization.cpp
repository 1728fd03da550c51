// The rule of layer normalisation: fused where nothing is recorded, else by recorded operations.
#include "for_size.h"
#include "ops/normalization.h"

#include "dispatch/family.h"
#include "ops/arithmetic.h"
#include "ops/reduction.h"

namespace adjoint::rules {

Tensors layer_norm(const Tensor& g, const Tensor& self, const Tensor& weight, int64_t dims, double eps, Needs needs) {
  const bool for_input = needs[0], for_weight = needs[2], for_bias = needs[3];
  if (!recording() && self.defined()) {
    const int64_t mask = (for_input ? 1 : 0) | (for_weight ? 2 : 0) | (for_bias ? 4 : 0);
    return call_all<LayerNormBackward>(g, self, OptionalTensor(weight), dims, eps, mask);
  }
  Dims last, first;
  for (int64_t d = 0; d < g.dim(); ++d) (d < g.dim() - dims ? first : last).push_back(d);
  auto over = [](const Dims& d) { return OptionalInts(IntList(d.data(), d.size())); };
  auto summed = [&](const Tensor& t) { return first.empty() ? t : call<Sum>(t, over(first), false, OptionalType()); };
  Tensors out(3);
  if (for_bias) out[2] = summed(g);
  if (!for_input && !for_weight) return out;
  auto mean = [&](const Recorded& x) { return Recorded(call<Mean>(x.tensor, over(last), true, OptionalType())); };
  const Recorded x(self), gy(g);
  const Recorded centred = x - mean(x);
  const Recorded scale = apply<Rsqrt>(mean(apply<Square>(centred)) + Recorded(wrap_number(Scalar(eps), self.dtype())));
  const Recorded normal = centred * scale;
  if (for_input) {
    const Recorded h = weight.defined() ? gy * Recorded(weight) : gy;
    out[0] = (scale * (h - mean(h) - normal * mean(h * normal))).tensor;
  }
  if (for_weight) out[1] = summed((gy * normal).tensor);
  return out;
}

}  // namespace adjoint::rules

ADJOINT_FAMILY(Normalization)
