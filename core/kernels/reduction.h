// The results of reductions: sums, moments, extremes, norms, each with its checks. How elements are folded is
// kernels/reducer.h; start reading at kernels/cpu/reduction.cpp.
#pragma once

#include <tuple>

#include "tensor/into.h"

namespace adjoint {

/// The shape of a reduction's result.
Dims reduced_shape(IntList sizes, uint64_t mask, bool keepdim);

namespace kernels {

using Pair = std::tuple<Tensor, Tensor>;
/// As truths 0.5 and 0.3, or 1 and -1, add up to true.
Tensor sum(Into into, const Tensor& self, const OptionalInts& dim, bool keepdim, const OptionalType& dtype,
           const char* op);
Tensor nansum(Into into, const Tensor& self, const OptionalInts& dim, bool keepdim, const OptionalType& dtype,
              const char* op);
Tensor mean(Into into, const Tensor& self, const OptionalInts& dim, bool keepdim, const OptionalType& dtype,
            const char* op);
Tensor prod(Into into, const Tensor& self, const OptionalInts& dim, bool keepdim, const OptionalType& dtype,
            const char* op);
/// Variance (or its root) and mean; the mean is undefined unless asked for.
Pair moments(Into into, const Tensor& self, const OptionalInts& dim, double correction, bool keepdim,
             bool root, bool with_mean, const char* op);
/// As result number `result` of its call.
Tensor extreme(Into into, const Tensor& self, const OptionalInts& dim, bool keepdim, bool max, const char* op,
               size_t result = 0);
/// The extreme of the whole tensor; an empty one has none.
Tensor extreme_of_all(const Tensor& self, bool max, const char* op);
Pair extreme_at(Into into, const Tensor& self, int64_t dim, bool keepdim, bool max, const char* op);
Tensor place_of_extreme(Into into, const Tensor& self, const std::optional<int64_t>& dim, bool keepdim,
                        bool max, const char* op);
Tensor same_elements(const Tensor& self, const Tensor& other, const char* op);
Tensor truth(Into into, const Tensor& self, const OptionalInts& dim, bool keepdim, bool all, const char* op);
Tensor count_nonzero(Into into, const Tensor& self, const OptionalInts& dim, const char* op);
Tensor logsumexp(Into into, const Tensor& self, const OptionalInts& dim, bool keepdim, const char* op);
/// What it computes of complex numbers, over the dimensions in a mask.
void add_exponentials_of_complex(const Tensor& out, const Tensor& self, uint64_t mask);
Tensor vector_norm(Into into, const Tensor& self, double ord, const OptionalInts& dim, bool keepdim,
                   const OptionalType& dtype, const char* op);

}  // namespace kernels
}  // namespace adjoint
