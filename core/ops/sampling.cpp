// The rules of draws.
#include "ops/sampling.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "kernels/copy.h"
#include "ops/arithmetic.h"
#include "ops/incomplete.h"
#include "ops/reduction.h"

namespace adjoint::rules {

Tensor gamma_draw(const Tensor& g, const Tensor& concentration, const Tensor& draw) {
  return call<Mul>(g, call<GammaDrawDerivative>(concentration, draw));
}

Tensor dirichlet_draw(const Tensor& g, const Tensor& concentration, const Tensor& draw) {
  const auto total = [](const Tensor& t) {
    const int64_t last = -1;
    return call<Sum>(t, OptionalInts(IntList(&last, 1)), true, OptionalType());
  };
  const Tensor slope =
      call<DirichletSlope>(draw, concentration, call<Sub>(total(concentration), concentration));
  return call<Mul>(slope, call<Sub>(g, total(call<Mul>(draw, g))));
}

Tensor no_slope(const Tensor& g) { return call<Mul>(g, wrap_number(Scalar(0.0), g.dtype())); }

}  // namespace adjoint::rules

namespace adjoint {

Tensor DirichletDraw::forward(const Tensor& self, const Tensor& output) {
  need_floating(self.dtype(), name);
  if (!same(self.sizes(), output.sizes()) || self.dim() == 0)
    fail(name, "(): draws of shape ", output.sizes(), " cannot be from Dirichlet(self) of shape ",
         self.sizes());
  return copy_of(output, self.dtype());
}

}  // namespace adjoint

ADJOINT_FAMILY(Sampling)
