// Laying tensors side by side.
#pragma once

#include "tensor/tensor.h"

namespace adjoint::kernels {

/// Copy tensor number i, of length lengths[i] along dimension d, behind those before it into `out`, whose
/// length is the sum of them all. Tensors that lack dimension d have length 1 there.
void join(const Tensor& out, TensorList tensors, int d, const Dims& lengths);

}  // namespace adjoint::kernels
