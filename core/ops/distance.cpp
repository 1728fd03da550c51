// The rules of distances: fused where nothing is recorded, else by the table of differences.
#include "ops/distance.h"

#include <cmath>

#include "dispatch/family.h"
#include "for_size.h"
#include "ops/arithmetic.h"
#include "ops/reduction.h"
#include "ops/shape.h"

namespace adjoint::rules {

Tensors cdist(const Tensor& g, const Tensor& x1, const Tensor& x2, const Tensor& result, double p, bool of_x1,
              bool of_x2) {
  if (!recording() && !std::isinf(p))
    return call_all<CdistBackward>(g, x1, x2, result, p, int64_t{of_x1} | int64_t{of_x2} << 1);
  const Tensor difference = call<Sub>(call<Unsqueeze>(x1, int64_t{-2}), call<Unsqueeze>(x2, int64_t{-3}));
  const int64_t last[] = {-1};
  const Tensor pulled = vector_norm(g, difference, result, p, OptionalInts(IntList(last)), false);
  const auto over = [&](int64_t dim) {
    return call<Sum>(pulled, OptionalInts(IntList(&dim, 1)), false, OptionalType());
  };
  Tensors out(2);
  if (of_x1) out[0] = over(-2);
  if (of_x2) out[1] = (-Recorded(over(-3))).tensor;
  return out;
}

}  // namespace adjoint::rules

ADJOINT_FAMILY(Distance)
