// Softmax, its logarithm and their gradients, one pass each.
#pragma once

#include "tensor/into.h"

namespace adjoint {

namespace kernels {

/// exp(x) / sum(exp(x)) along `dim`, or its logarithm, in `dtype`.
Tensor softmax(Into into, const Tensor& self, int64_t dim, const OptionalType& dtype, bool log,
               const char* op);
/// The gradient of the input from that of the result and the result.
Tensor softmax_backward(const Tensor& g, const Tensor& result, int64_t dim, bool log);

}  // namespace kernels
}  // namespace adjoint
