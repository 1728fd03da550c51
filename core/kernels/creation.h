// Elements from nothing but numbers. Each writes the whole of a row-major tensor.
#pragma once

#include "tensor/tensor.h"

namespace adjoint::kernels {

/// start + i step, of integers and of others.
void whole_ramp(const Tensor& t, int64_t start, int64_t step);
void ramp(const Tensor& t, double start, double step);
/// From start to end, both included, equally far apart.
void spaced(const Tensor& t, double start, double end);
/// base to the powers start + i step.
void powers(const Tensor& t, double start, double step, double base);
/// Zeros, and ones on the diagonal of a matrix.
void identity(const Tensor& t);

}  // namespace adjoint::kernels
