// What the two files of the element-wise door share: calls (elementwise.cpp) and their tangents (elementwise_tangent.cpp).
#pragma once

#include "dispatch/operator.h"

namespace adjoint {

/// The type of the result, given that computed in.
DType result_dtype(const ElementwiseInfo& op, DType type);
/// The type of a call by torch's rules: categories first, bare numbers and zero-dimensional tensors weak.
DType promoted(const ElementwiseInfo& op, const Tensor* in);
/// The gradient of input i, not recorded: one loop over `g`, the inputs and (number 3) the result.
Tensor fused_gradient(const ElementwiseInfo& op, int i, DType type, const double* parameters, const Tensor& g, const Tensor* values);
/// The arguments of a call as boxed ones.
std::vector<Value> boxed_call(const ElementwiseInfo& op, const Tensor* in, const double* parameters);
/// The result of a call that the first input is then written with: rules keep that as it was.
Tensor elementwise_aside(const ElementwiseInfo& op, const Tensor* in, const double* parameters);
/// Where a call is done of which a tensor is elsewhere than on the CPU: refuses a mixture.
Device device_of_call(const ElementwiseInfo& op, const Tensor* in, const Tensor* out);
/// Refuses an out= that is not where the result is.
void need_device(const char* op, Device device, const Tensor& out);
/// Do the call with its transforms, if it has any.
bool elementwise_transformed(const ElementwiseInfo& op, const Tensor* in, const double* parameters, Tensor& result);

}  // namespace adjoint
