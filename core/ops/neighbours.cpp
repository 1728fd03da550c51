#include "ops/neighbours.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "ops/arithmetic.h"
#include "ops/part.h"
#include "ops/rearranging.h"
#include "ops/shape.h"

namespace adjoint {

namespace {

Tensor along(const Tensor& t, int64_t dim) {
  const int64_t n = t.size(dim), first = std::min<int64_t>(n, 1);
  return call<Sub>(call<Narrow>(t, dim, first, n - first), call<Narrow>(t, dim, 0, n - first));
}
Tensor reshaped(const Tensor& t, std::initializer_list<int64_t> sizes) {
  return call<Reshape>(t, IntList(sizes));
}

}  // namespace

Tensor Ediff1d::forward(const Tensor& self) { return along(reshaped(self, {self.numel()}), 0); }

void Ediff1d::batch(BatchedCall& c, Batched<"self"> self) {
  c.give(along(reshaped(self.samples(), {c.size, self.tensor.numel()}), 1));
}

Tensor Ediff1d::gradient(const Tensor& g, IntList sizes) {
  const int64_t one = product(sizes) > 0, before[] = {one, 0}, after[] = {0, one};
  return call<Reshape>(call<Sub>(call<ConstantPad>(g, IntList(before), Scalar(0)),
                                 call<ConstantPad>(g, IntList(after), Scalar(0))),
                       sizes);
}

}  // namespace adjoint

ADJOINT_FAMILY(Neighbours)
