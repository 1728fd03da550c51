// The rule of layer normalisation: fused where nothing is recorded, else by recorded operations.
#include "ops/normalization.h"

#include "dispatch/operator.h"
#include "ops/arithmetic.h"
#include "ops/reduction.h"

namespace adjoint::rules {

Tensors layer_norm(const Tensor& g, const Tensor& self, const Tensor& weight, int64_t dims, double eps, Needs needs) {
  // Numbered by tensor: input, weight, bias.
  if (!recording()) {
    const int64_t mask = (needs[0] ? 1 : 0) | (needs[1] ? 2 : 0) | (needs[2] ? 4 : 0);
    return call_all<LayerNormBackward>(g, self, OptionalTensor(weight), dims, eps, mask);
  }
  Dims last, first;
  for (int64_t d = 0; d < self.dim(); ++d) (d < self.dim() - dims ? first : last).push_back(d);
  auto over = [](const Dims& d) { return OptionalInts(IntList(d.data(), d.size())); };
  auto mean = [&](const Recorded& x) { return Recorded(call<Mean>(x.tensor, over(last), true, OptionalType())); };
  const Recorded x(self), gy(g);
  const Recorded centred = x - mean(x);
  const Recorded scale = apply<Rsqrt>(mean(apply<Square>(centred)) + Recorded(wrap_number(Scalar(eps), self.dtype())));
  const Recorded normal = centred * scale;
  Tensors out(3);
  if (needs[0]) {
    const Recorded h = weight.defined() ? gy * Recorded(weight) : gy;
    out[0] = (scale * (h - mean(h) - normal * mean(h * normal))).tensor;
  }
  auto summed = [&](const Recorded& t) {
    return first.empty() ? t.tensor : call<Sum>(t.tensor, over(first), false, OptionalType());
  };
  if (needs[1]) out[1] = summed(gy * normal);
  if (needs[2]) out[2] = summed(gy);
  return out;
}

}  // namespace adjoint::rules
