// The rules of softmax: fused where nothing is recorded, else by recorded operations.
#include "ops/softmax.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "ops/arithmetic.h"
#include "ops/reduction.h"
#include "ops/spread.h"

namespace adjoint::rules {

namespace {
Tensor summed(const Tensor& t, int64_t dim) {
  return call<Sum>(t, OptionalInts(IntList(&dim, 1)), true, OptionalType());
}
}  // namespace

Tensor softmax(const Tensor& g, const Tensor& result, int64_t dim) {
  if (!recording()) return call<SoftmaxBackward>(g, result, dim);
  return call<DifferenceTimes>(result, g, summed(call<Mul>(g, result), dim));
}

Tensor log_softmax(const Tensor& g, const Tensor& result, int64_t dim) {
  if (!recording()) return call<LogSoftmaxBackward>(g, result, dim);
  const Tensor zero = wrap_number(Scalar(0.0), result.dtype());
  return call<Sub>(g, call<ExpTimes>(result, zero, summed(g, dim)));
}

}  // namespace adjoint::rules

ADJOINT_FAMILY(SoftmaxOps)
