// The rules of softmax, and of its gradient.
#include "ops/softmax.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "ops/arithmetic.h"
#include "ops/reduction.h"
#include "ops/spread.h"

namespace adjoint::rules {

namespace {
Recorded summed(const Recorded& t, int64_t dim) {
  return call<Sum>(t.tensor, OptionalInts(IntList(&dim, 1)), true, OptionalType());
}
/// exp(result) * t
Recorded weighed(const Tensor& result, const Tensor& t) {
  return call<ExpTimes>(result, wrap_number(Scalar(0.0), result.dtype()), t);
}
}  // namespace

Tensor softmax(const Tensor& g, const Tensor& result, int64_t dim) {
  return call<SoftmaxBackward>(g, result, dim);
}
// Of result * (g - sum(g * result)).
Tensor softmax_by_result(const Tensor& v, const Tensor& g, const Tensor& result, int64_t dim) {
  const Recorded a(v), b(g), y(result);
  return (a * (b - summed(b * y, dim)) - b * summed(a * y, dim)).tensor;
}

Tensor log_softmax(const Tensor& g, const Tensor& result, int64_t dim) {
  return call<LogSoftmaxBackward>(g, result, dim);
}
// Of g - exp(result) * sum(g).
Tensor log_softmax_by_gradient(const Tensor& v, const Tensor& result, int64_t dim) {
  return (Recorded(v) - summed(weighed(result, v), dim)).tensor;
}
Tensor log_softmax_by_result(const Tensor& v, const Tensor& g, const Tensor& result, int64_t dim) {
  return call<MinusExpTimes>(result, v, summed(g, dim).tensor);
}

}  // namespace adjoint::rules

ADJOINT_FAMILY(SoftmaxOps)
