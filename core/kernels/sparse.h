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
/// Where each of `wanted` stands among `sorted`; `absent` where it does not.
Tensor find_positions(const Tensor& sorted, const Tensor& wanted, int64_t absent);
/// The row of each entry, from where the entries of each row of a compressed tensor begin, and the last end.
void spread_rows(const Tensor& rows, const Tensor& begin);
/// Of each element of `index` its place in each dimension, and in dimension d what it says itself.
void places_of(const Tensor& places, const Tensor& index, int64_t d);
/// `count` rows: out[rows[i]] += values[i] dense[columns[i]].
Tensor entries_times(const Tensor& values, const Tensor& rows, const Tensor& columns, const Tensor& dense,
                     int64_t count, const char* op);
/// out[i] = Σ a[rows[i], k] b[columns[i], k].
Tensor rows_dot(const Tensor& a, const Tensor& b, const Tensor& rows, const Tensor& columns, const char* op);

}  // namespace adjoint::kernels
