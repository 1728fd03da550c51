// Elements from nothing but numbers. Each writes the whole of a row-major tensor.
#pragma once

#include <vector>

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
/// What the host has, of float64.
void write_numbers(const Tensor& t, std::span<const double> numbers);
/// The rows and the columns of the elements at or above a diagonal of a matrix of so many columns, or at or
/// below it, in the rows from `first` on. Of int64.
void triangle(const Tensor& t, int64_t first, int64_t columns, int64_t diagonal, bool upper);

}  // namespace adjoint::kernels
