// The rules of draws.
#include "ops/sampling.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "ops/arithmetic.h"

namespace adjoint::rules {

Tensor gamma_draw(const Tensor& g, const Tensor& concentration, const Tensor& draw) {
  return call<Mul>(g, call<GammaDrawDerivative>(concentration, draw));
}

Tensor no_slope(const Tensor& g) { return call<Mul>(g, wrap_number(Scalar(0.0), g.dtype())); }

}  // namespace adjoint::rules

ADJOINT_FAMILY(Sampling)
