// Copies in another order, and copies of a part of each row.
#pragma once

#include "tensor/into.h"

namespace adjoint::kernels {

/// Copy into `out`, which has the shape and type of `self`, with the order turned round along the dimensions
/// in `mask`.
void flip(const Tensor& out, const Tensor& self, uint64_t mask);

/// The matrices with zeros above a diagonal, or below it.
enum class Triangle { Lower, Upper };
Tensor triangle(Into into, const Tensor& self, Triangle kept, int64_t diagonal);

/// Between images whose channels hold r × r blocks of pixels and images of these pixels, both row-major:
/// `sizes` are those of the latter.
void shuffle_pixels(const Tensor& out, const Tensor& self, IntList sizes, int64_t r, bool to_pixels);

/// The numbers 0, 1, …, each as often as `counts` says, which is row-major and of int64, or has one element
/// for all.
Tensor repeated_numbers(const Tensor& counts, int64_t size, const char* op);

}  // namespace adjoint::kernels
