// What distances are composed of: the table of differences.
#include "ops/distance.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "ops/arithmetic.h"
#include "ops/reduction.h"
#include "ops/shape.h"

namespace adjoint {

std::tuple<Tensor, Tensor> CdistBackward::forward(const Tensor& g, const Tensor& x1, const Tensor& x2,
                                                  const Tensor& result, double p, int64_t bits) {
  const Needs<CdistBackward> needs{bits};
  return kernels::distances_backward(g, x1, x2, result, p, needs.any<"x1">(), needs.any<"x2">(), name);
}

Tensor Cdist::composed(const Tensor& x1, const Tensor& x2, double p) {
  const int64_t last[] = {-1};
  return call<VectorNorm>(call<Sub>(call<Unsqueeze>(x1, int64_t{-2}), call<Unsqueeze>(x2, int64_t{-3})), p,
                          OptionalDims(DimList(IntList(last))), false, OptionalType());
}

}  // namespace adjoint

ADJOINT_FAMILY(Distance)
