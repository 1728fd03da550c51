#include "tensor/destination.h"

#include "state.h"
#include "tensor/tensor.h"

namespace adjoint {

Destination::Destination(std::span<const Tensor> given)
    : given_(given), outer_(thread_state.destination), flags_before_(thread_state.flags_of_new) {
  if (given.size() > kMost) given_ = {};
  if (given_.empty()) return;
  thread_state.destination = this;
  thread_state.flags_of_new |= TensorImpl::kPlaced;
}

Destination::~Destination() {
  if (given_.empty()) return;
  thread_state.destination = outer_;
  thread_state.flags_of_new = flags_before_;
}

const Tensor* Destination::take(IntList sizes, DType dtype) {
  for (size_t i = 0; i < given_.size(); ++i) {
    const Tensor& t = given_[i];
    if (taken(i) || !t.defined() || t.dtype() != dtype || t->storage->device != thread_state.device ||
        !same(t.sizes(), sizes))
      continue;
    taken_ |= 1u << i;
    return &t;
  }
  return nullptr;
}

}  // namespace adjoint
