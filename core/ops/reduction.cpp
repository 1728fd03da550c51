// The rules of reductions that are longer than a line: recorded operations, which are differentiable again.
#include "ops/reduction.h"

#include <cmath>

#include "dispatch/constants.h"
#include "dispatch/family.h"
#include "ops/arithmetic.h"
#include "ops/comparison.h"
#include "ops/complex.h"
#include "ops/power.h"
#include "ops/scan.h"
#include "ops/selection.h"
#include "ops/shape.h"
#include "ops/sorting.h"
#include "ops/spread.h"
#include "tensor/device.h"

namespace adjoint {

namespace rules {

Tensor keep(const Tensor& reduced, IntList sizes, const OptionalInts& dim, bool keepdim) {
  if (keepdim || sizes.empty()) return reduced;
  const Dims kept =
      reduced_shape(sizes, dim_mask(dim, static_cast<int64_t>(sizes.size()), "reduction"), true);
  return call<Reshape>(reduced, IntList(kept.data(), kept.size()));
}

Tensor spread(const Tensor& g, IntList sizes, const OptionalInts& dim, bool keepdim) {
  const Tensor kept = g.dim() ? keep(g, sizes, dim, keepdim) : g;  // a number expands to any shape
  return same(kept.sizes(), sizes) ? kept : call<Expand>(kept, sizes);
}

double length(IntList sizes, const OptionalInts& dim) {
  const uint64_t mask = dim_mask(dim, static_cast<int64_t>(sizes.size()), "reduction");
  double n = 1;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (mask >> i & 1) n *= static_cast<double>(sizes[i]);
  return n;
}

Tensor add(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return call<Add>(a, b);
}

Tensor mean(const Tensor& g, IntList sizes, const OptionalInts& dim, bool keepdim) {
  return spread((Recorded(g) / number(length(sizes, dim), g)).tensor, sizes, dim, keepdim);
}

// d var / d x = 2 (x - mean) / (n - correction): what the mean adds cancels out.
Tensor var(const Tensor& g, const Tensor& self, const OptionalInts& dim, double correction, bool keepdim) {
  const double rest = length(self.sizes(), dim) - correction;
  const Recorded scaled =
      Recorded(keep(g, self.sizes(), dim, keepdim)) * number(2 / (rest > 0 ? rest : 0.0), g);
  return call<CentredTimes>(self, call<Mean>(self, dim, true, OptionalType()), scaled.tensor);
}

Tensor std(const Tensor& g, const Tensor& self, const Tensor& result, const OptionalInts& dim,
           double correction, bool keepdim) {
  const Recorded half = apply<RatioOrZero>(Recorded(g), Recorded(result)) * number(0.5, g);
  return var(half.tensor, self, dim, correction, keepdim);
}

Tensor extreme(const Tensor& g, const Tensor& self, const Tensor& result, const OptionalInts& dim,
               bool keepdim, bool nan_equals) {
  if (self.numel() == 0) return zeros(self.sizes(), self.dtype());
  const Tensor kept = keep(result, self.sizes(), dim, keepdim);
  const Tensor equals =
      call<Sum>(call<WhereEqual>(self, kept, full(kept.sizes(), Scalar(1), g.dtype()), nan_equals), dim, true,
                OptionalType());
  const Tensor share = (Recorded(keep(g, self.sizes(), dim, keepdim)) / Recorded(equals)).tensor;
  return call<WhereEqual>(self, kept, share, nan_equals);
}

Tensor logsumexp(const Tensor& g, const Tensor& self, const Tensor& result, const OptionalInts& dim,
                 bool keepdim) {
  return call<ExpTimes>(Recorded(self).conj().tensor,
                        Recorded(keep(result, self.sizes(), dim, keepdim)).conj().tensor,
                        keep(g, self.sizes(), dim, keepdim));
}

// d ‖x‖ / d x = sgn(x) (|x| / ‖x‖)^(p - 1), which for p = 2 is x / ‖x‖.
Tensor vector_norm(const Tensor& g, const Tensor& self, const Tensor& result, double ord,
                   const OptionalInts& dim, bool keepdim) {
  const IntList sizes = self.sizes();
  if (ord == 0) return zeros(sizes, self.dtype());
  const Recorded x(self), grad(keep(g, sizes, dim, keepdim)), norm(keep(result, sizes, dim, keepdim));
  if (ord == 2) return (x * apply<RatioOrZero>(grad, norm)).tensor;
  if (ord == 1) return (Abs::side(x) * grad).tensor;
  const Recorded size = apply<Abs>(x);
  if (std::isinf(ord)) {
    const Tensor ones = full(norm.tensor.sizes(), Scalar(1), g.dtype());
    const Tensor equals =
        call<Sum>(call<WhereEqual>(size.tensor, norm.tensor, ones, true), dim, true, OptionalType());
    const Recorded share = grad / Recorded(equals);
    return (Abs::side(x) * Recorded(call<WhereEqual>(size.tensor, norm.tensor, share.tensor, true))).tensor;
  }
  const Recorded zero = size == number(0, size.tensor);
  const Recorded ratio = select(zero, number(1, size.tensor), apply<RatioOrZero>(size, norm));
  const Recorded power = apply<Pow>(ratio, number(ord - 1, size.tensor));
  return (apply<Sgn>(x) * (grad * select(zero, number(0, size.tensor), power))).tensor;
}

Tensor scatter_into_zeros(const Tensor& g, const Tensor& indices, IntList sizes, int64_t dim, bool keepdim) {
  if (sizes.empty()) return g;
  const int d = wrap_dim(dim, static_cast<int64_t>(sizes.size()), "place");
  Tensor values = g, at = indices;
  if (!keepdim) {
    const Dims kept = reduced_shape(sizes, uint64_t{1} << d, true);
    values = call<Reshape>(g, IntList(kept.data(), kept.size()));
    at = call<Reshape>(indices, IntList(kept.data(), kept.size()));
  }
  return call<ScatterAlong>(values, at, d, sizes[d]);
}

// --- Products -------------------------------------------------------------------------------------

namespace {

/// Of one dimension that is kept: g times the product of all the other elements. Those before come from a
/// running product, those after from a recurrence that starts with g at the end; nothing is divided by.
Tensor product_along(const Tensor& g, const Tensor& self, int64_t dim) {
  const Recorded x = Recorded(self).conj();
  if (!recording()) return call<Mul>(g, call<ProductOfOthers>(x.tensor, dim));
  const int64_t n = self.size(dim);
  // g in the last place, zeros before.
  Dims line(self.sizes().size(), 1);
  line[dim] = n;
  const Tensor places = counted(1, n + 1),
               last = call<View>(call<Equal>(places, wrap_number(Scalar(n), DType::Int64)),
                                 IntList(line.data(), line.size()));
  const Tensor seed = call<Expand>(select(Recorded(last), Recorded(g), number(0, g)).tensor, self.sizes());
  const Tensor after = call<LinearScan>(x.tensor, seed, dim, true);
  const Tensor before = call<Shift>(call<Cumprod>(x.tensor, dim, OptionalType()), dim, int64_t{1}, 1.0);
  return call<Mul>(before, after);
}

}  // namespace

Tensor nan_where_nan(const Tensor& g, const Recorded& x) { return select(x == x, Recorded(g), x).tensor; }

Tensor prod(const Tensor& g, const Tensor& self, const OptionalInts& dim, bool keepdim) {
  if (self.dim() == 0) return g;
  if (self.numel() == 0) return zeros(self.sizes(), self.dtype());
  const bool widened = !is_differentiable(self.dtype());
  if (widened)
    fail<NotImplemented>("the derivative of 'prod' with respect to a tensor of type ", name_of(self.dtype()),
                         " is not implemented");
  const Tensor x = self.dtype() == g.dtype() ? self : call<To>(self, g.dtype());
  // One dimension after the other: the products so far, then back through them.
  const uint64_t mask = dim_mask(dim, self.dim(), "prod");
  std::vector<std::pair<Tensor, int64_t>> steps;
  Tensor partial = x;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (!(mask >> d & 1)) continue;
    steps.emplace_back(partial, d);
    partial = call<Prod>(partial, OptionalInts(IntList(&d, 1)), true, OptionalType());
  }
  Tensor grad = keep(g, self.sizes(), dim, keepdim);
  for (size_t i = steps.size(); i-- > 0;) grad = product_along(grad, steps[i].first, steps[i].second);
  return recording() ? nan_where_nan(grad, x) : grad;
}

}  // namespace rules

// --- On batches -----------------------------------------------------------------------------------
//
// (Cold: compiled for size.)

template <class Along>
[[gnu::cold]] static void extreme_of_all(BatchedCall& c, const BatchedTensor& self) {
  if (self.tensor.numel() == 0) return batching::loop(c);
  const int64_t flat[] = {-1}, last[] = {0};
  c.give_finished(call<Along>(call<Reshape>(self.bare(), IntList(flat)), IntList(last), false));
}
[[gnu::cold]] void MaxAll::batch(BatchedCall& c, Batched<"self"> self) { extreme_of_all<Amax>(c, self); }
[[gnu::cold]] void MinAll::batch(BatchedCall& c, Batched<"self"> self) { extreme_of_all<Amin>(c, self); }

}  // namespace adjoint

ADJOINT_FAMILY(Reduction)
