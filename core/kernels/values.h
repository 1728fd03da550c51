// What the host looks up in values: to refuse a call, or to know that nothing has changed. Of row-major
// tensors.
#pragma once

#include "tensor/tensor.h"

namespace adjoint::kernels {

/// The number of the first element of integers that is 0, counted from 1; 0 where none is.
int64_t first_zero(const Tensor& t);
bool any_nan(const Tensor& t);
/// Whether each of these int64 is in [first, end).
bool all_within(const Tensor& t, int64_t first, int64_t end);
/// Whether two tensors of one shape and type are the same byte for byte.
bool same_bytes(const Tensor& a, const Tensor& b);
/// A number that another one takes the place of when `start`, or any word of the elements, changes.
uint64_t stamp_of(const Tensor& t, uint64_t start);

}  // namespace adjoint::kernels
