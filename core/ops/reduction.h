// Reductions over none (all), one or several dimensions.
#pragma once

#include "ops/op.h"

namespace adjoint {

/// The shape of a reduction's result.
Dims reduced_shape(IntList sizes, uint64_t mask, bool keepdim);
/// The gradient of a reduced result, spread again over the input's shape: recorded.
Tensor spread(const Tensor& g, IntList sizes, const OptionalInts& dim, bool keepdim);

namespace kernels {
/// Sum over the dimensions in `mask`, accumulated in blocks so that errors grow slowly.
Tensor sum(const Tensor& self, uint64_t mask, bool keepdim, DType dtype);
}  // namespace kernels

struct Sum : Structured {
  static constexpr auto name = "sum";
  static constexpr auto doc = "Sum of the elements over the given dimensions. Integers add up in int64.";
  static constexpr auto signature = "self, dim=None, keepdim=False, *, dtype=None";
  static Tensor forward(const Tensor& self, OptionalInts dim, bool keepdim, OptionalType dtype) {
    const DType type = dtype ? *dtype : is_integral(self.dtype()) ? DType::Int64 : self.dtype();
    return kernels::sum(self, dim_mask(dim, self.dim(), name), keepdim, type);
  }
  static constexpr auto vjp = Rules{[](Grad g, Shape<0> s, Argument<OptionalInts, 1> dim, Argument<bool, 2> keepdim) {
    return spread(g, s, dim, keepdim);
  }};
};

using Reduction = Family<Sum>;

}  // namespace adjoint

#include "ops/shape.h"
