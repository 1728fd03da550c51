#include "tensor/into.h"

#include "tensor/device.h"

namespace adjoint {

Tensor Into::there(IntList sizes, DType dtype, DType type, size_t i) const {
  if (i >= given_->tensors.size()) return adjoint::empty(sizes, dtype);
  const Tensor& t = given_->tensors[i];
  need_out_type(type, t.dtype(), given_->op, given_->converts);
  if (type != dtype || t.dtype() != dtype || device_of(t) != thread_state.device || !same(t.sizes(), sizes))
    return adjoint::empty(sizes, dtype);
  given_->taken |= 1u << i;
  return alias(t);
}

void need_out_type(DType type, DType out, const char* name, bool converts) {
  const bool bytes =
      type == DType::Bool && out == DType::UInt8;  // as whether something holds was written once
  if (!converts && type != out && !bytes)
    fail(name, "(): Expected out tensor to have dtype ", cpp_name_of(type), ", but got ", cpp_name_of(out),
         " instead: expected scalar_type ", type_name_of(type), " but found ", type_name_of(out));
  if (!can_cast(type, out))
    fail("result type ", type_name_of(type), " can't be cast to the desired output type ", type_name_of(out),
         " in ", name, "(out=): Expected result to be safely castable from ", type_name_of(type),
         " dtype, but got result with dtype ", type_name_of(out));
}

}  // namespace adjoint
