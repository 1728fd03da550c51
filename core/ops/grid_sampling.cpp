// The rule of places at which images are read.
#include "ops/grid_sampling.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "ops/joining.h"
#include "ops/reduction.h"

namespace adjoint::rules {

Tensor grid_slopes(const Tensor& g, const Tensor& x, const Tensor& grid, Text mode, Text padding, bool align,
                   IntList orders) {
  // From which order on the weights no longer depend on the place.
  const int64_t constant = mode == "nearest" ? 0 : mode == "bilinear" ? 1 : 3;
  if (std::ranges::all_of(orders, [&](int64_t k) { return k >= constant; }))
    return zeros(grid.sizes(), grid.dtype());
  if (!recording()) return call<GridSampleSlopes>(g, x, grid, mode, padding, align, orders);
  const auto n = static_cast<int64_t>(orders.size());
  Tensors parts;
  for (int64_t d = n; d-- > 0;) {  // the last dimension comes first
    Dims next(orders);
    ++next[static_cast<size_t>(d)];
    const Recorded there = call<GridSample>(x, grid, mode, padding, align, next.span());
    const int64_t channels[] = {-n - 1};
    parts.push_back(
        call<Sum>((Recorded(g) * there).tensor, OptionalInts(IntList(channels)), false, OptionalType()));
  }
  return call<Stack>(TensorList(parts), NewDim(-1));
}

}  // namespace adjoint::rules

ADJOINT_FAMILY(GridSampling)
