// Entries of sparse matrices: their order, and their products with dense ones.
#pragma once

#include <tuple>

#include "tensor/tensor.h"

namespace adjoint::kernels {

/// The different columns of `indices`, a matrix of int64, in row-major order of a shape that holds them, and
/// for each column of it which of them it is.
std::tuple<Tensor, Tensor> sort_positions(const Tensor& indices, IntList size, const char* op);
/// The number of each column of `indices` in row-major order.
Tensor flat_positions(const Tensor& indices, IntList size, const char* op);
/// Where each of `wanted` stands among `sorted`; -1 where it does not.
Tensor find_positions(const Tensor& sorted, const Tensor& wanted);
/// `count` rows: out[rows[i]] += values[i] dense[columns[i]].
Tensor entries_times(const Tensor& values, const Tensor& rows, const Tensor& columns, const Tensor& dense,
                     int64_t count, const char* op);
/// out[i] = Σ a[rows[i], k] b[columns[i], k].
Tensor rows_dot(const Tensor& a, const Tensor& b, const Tensor& rows, const Tensor& columns, const char* op);

}  // namespace adjoint::kernels
