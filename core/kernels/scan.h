// Running reductions along one dimension, and the linear recurrence that their gradients are.
#pragma once

#include <tuple>

#include "tensor/into.h"

namespace adjoint {

namespace kernels {

Tensor cumsum(Into into, const Tensor& self, int64_t dim, const OptionalType& dtype, bool reverse,
              const char* op);
Tensor cumprod(Into into, const Tensor& self, int64_t dim, const OptionalType& dtype, const char* op);
Tensor logcumsumexp(Into into, const Tensor& self, int64_t dim, const char* op);
std::tuple<Tensor, Tensor> cumulative_extreme(Into into, const Tensor& self, int64_t dim, bool max,
                                              const char* op);
Tensor linear_scan(const Tensor& a, const Tensor& b, int64_t dim, bool reverse);
/// The product of all the other elements along a dimension; NaN where the element itself is.
Tensor product_of_others(const Tensor& self, int64_t dim);
Tensor shift(const Tensor& self, int64_t dim, int64_t by, double fill);

}  // namespace kernels
}  // namespace adjoint
