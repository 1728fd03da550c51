// Writing a strided part of a tensor.
#pragma once

#include "tensor/tensor.h"

namespace adjoint::kernels {

/// False when each element has a place of its own: every stride is longer than all that the smaller ones
/// reach.
bool may_overlap(IntList sizes, IntList strides);

/// Write `from`, which has these sizes, into `to`, which is row-major, new and zero: element (i, j, …) at
/// `offset` + i stride₀ + j stride₁ + … Elements that meet in one place are added, in order.
void put_strided(const Tensor& to, IntList sizes, IntList strides, int64_t offset, const Tensor& from);

/// out becomes the number of row-major `from` at that place; or that number becomes 0.
void take_number(const Tensor& out, const Tensor& from, int64_t at);
void clear_number(const Tensor& t, int64_t at);

}  // namespace adjoint::kernels
