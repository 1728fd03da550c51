// Order: sorting, the k largest, medians, distinct elements; and moving values by index along one dimension.
#pragma once

#include <tuple>

#include "tensor/into.h"

namespace adjoint {

namespace kernels {

using Pair = std::tuple<Tensor, Tensor>;
/// Values and indices; the values are left out (undefined) where they are not wanted.
Pair sort(Into into, const Tensor& self, int64_t dim, bool descending, bool with_values, const char* op);
Pair topk(Into into, const Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted, const char* op);
/// The k-th smallest, counted from 1.
Pair kth_value(Into into, const Tensor& self, int64_t k, int64_t dim, bool keepdim, const char* op);
Pair median(Into into, const Tensor& self, int64_t dim, bool keepdim, bool skip_nan, const char* op);
/// Where the element that is most frequent along a dimension, the least of several, stands last.
Tensor mode_index(const Tensor& self, int64_t dim, bool keepdim, const char* op);
/// How many elements of a rising sequence lie before each value (`right`: or equal it). The sequence is one
/// row, or a row for each place in the first dimensions of the values, and of their type.
Tensor search_sorted(Into into, const Tensor& sequence, const Tensor& values, bool right, const char* op);
/// The number of the interval between `edges`, which are equally far apart, that each element lies in.
Tensor even_interval(const Tensor& self, const Tensor& edges, const char* op);
Tensor median_of_all(const Tensor& self, bool skip_nan, const char* op);
std::tuple<Tensor, Tensor, Tensor> unique(const Tensor& self, bool return_inverse, bool return_counts,
                                          const char* op);
Tensor gather_along(const Tensor& self, const Tensor& indices, int64_t dim);
Tensor scatter_along(const Tensor& self, const Tensor& indices, int64_t dim, int64_t size);

}  // namespace kernels
}  // namespace adjoint
