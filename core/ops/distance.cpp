// The rules of distances: fused where nothing is recorded, else by the table of differences.
#include "ops/distance.h"

#include <cmath>

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

Tensors rules::cdist(const Tensor& g, const Tensor& x1, const Tensor& x2, const Tensor& result, double p,
                     Needs<CdistBackward> needs) {
  if (!recording() && !std::isinf(p)) return call_all<CdistBackward>(g, x1, x2, result, p, needs.bits);
  const Tensor difference = call<Sub>(call<Unsqueeze>(x1, int64_t{-2}), call<Unsqueeze>(x2, int64_t{-3}));
  const int64_t last[] = {-1};
  const Tensor pulled = vector_norm(g, difference, result, p, OptionalInts(IntList(last)), false);
  const auto over = [&](int64_t dim) {
    return call<Sum>(pulled, OptionalInts(IntList(&dim, 1)), false, OptionalType());
  };
  return {needs.any<"x1">() ? over(-2) : Tensor(),
          needs.any<"x2">() ? (-Recorded(over(-3))).tensor : Tensor()};
}

}  // namespace adjoint

ADJOINT_FAMILY(Distance)
