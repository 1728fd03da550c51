// Tensors with a border: of one value, or of elements of their own.
#pragma once

#include <string_view>

#include "tensor/tensor.h"

namespace adjoint::kernels {

/// `pad` holds numbers before and after, from the last dimension on; negative ones cut off. mode: "constant",
/// "reflect", "replicate" or "circular".
Tensor padded(const Tensor& self, IntList pad, std::string_view mode, const Scalar& value, const char* op);
/// The transpose of the last three, for a tensor whose last dimensions, as many as `pad` names, have these
/// sizes.
Tensor padded_transposed(const Tensor& g, IntList sizes, IntList pad, std::string_view mode, const char* op);

}  // namespace adjoint::kernels
