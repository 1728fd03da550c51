// The rules of running reductions that are longer than a line: recorded operations, which are differentiable
// again.
#include "ops/scan.h"

#include <limits>

#include "dispatch/family.h"
#include "for_size.h"
#include "ops/arithmetic.h"
#include "ops/complex.h"
#include "ops/selection.h"
#include "ops/shape.h"
#include "ops/spread.h"

namespace adjoint::rules {

Tensor cumprod(const Tensor& g, const Tensor& self, const Tensor& result, int64_t dim) {
  const Tensor x = self.dtype() == g.dtype() ? self : call<To>(self, g.dtype());
  const Tensor later = call<LinearScan>(Recorded(x).conj().tensor, g, dim, true);
  return nan_where_nan((Recorded(later) * Recorded(call<Shift>(result, dim, int64_t{1}, 1.0)).conj()).tensor,
                       x);
}

// With y the result: d y_k / d x_i = exp(x_i - y_k) for i ≤ k, taken apart as exp(x_i - y_i) exp(y_i - y_k),
// where no exponent is positive and the second factor is a product of exp(y_j - y_{j+1}).
Tensor logcumsumexp(const Tensor& g, const Tensor& self, const Tensor& result, int64_t dim) {
  if (self.dim() == 0) return g;  // the identity, of -inf too
  const Recorded y = Recorded(result).conj();
  const double lowest =
      std::numeric_limits<float>::lowest();  // stands for -inf, of which differences are NaN
  const Recorded before(call<Shift>(y.tensor, dim, int64_t{1}, lowest));
  const Recorded one = number(1, g);
  const Recorded bounded = select(real_of(before) < Recorded(lowest), number(lowest, g), before);
  const Recorded ratio = apply<ExpTimes>(bounded, y, one);
  const Tensor later = call<LinearScan>(ratio.tensor, g, dim, true);
  return call<ExpTimes>(Recorded(self).conj().tensor, y.tensor, later);
}

Tensors linear_scan(const Tensor& g, const Tensor& a, const Tensor& result, int64_t dim, bool reverse,
                    bool of_a) {
  const Tensor back = call<LinearScan>(Recorded(a).conj().tensor, g, dim, !reverse);
  Tensor ga;
  if (of_a) {
    const Tensor& moved = reverse ? back : result;
    const Recorded other(call<Shift>(moved, dim, int64_t{1}, 0.0));
    ga = reverse ? (other * Recorded(result).conj()).tensor : (Recorded(back) * other.conj()).tensor;
  }
  return {ga, back};
}

}  // namespace adjoint::rules

ADJOINT_FAMILY(Scan)
