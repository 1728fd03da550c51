// Memory shared with others: Python's buffer protocol and DLPack.
#pragma once

#include <Python.h>

#include "tensor/tensor.h"

namespace adjoint::bind {

/// A share in the memory of a tensor for an array, a buffer or a capsule that shows it. It holds the bytes
/// and not the tensor, which may be given others; and while it lives they do not move. Made and dropped under
/// the interpreter's lock.
class Loan {
 public:
  explicit Loan(const Tensor& t) : bytes_(Ref<Storage>::share(owner_of_bytes(t->storage))) {
    if (bytes_->loans < Storage::kMostLoans) ++bytes_->loans;
  }
  ~Loan() {
    if (bytes_->loans < Storage::kMostLoans) --bytes_->loans;
  }
  Loan(const Loan&) = delete;

 private:
  Ref<Storage> bytes_;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags);
void release_buffer(PyObject* self, Py_buffer* view);

/// A tensor over the memory of an object that supports the buffer protocol; undefined when it does not.
Tensor tensor_from_buffer(PyObject* o, bool writable_only);
/// Whether these bytes are an array's that only this storage holds, so that nobody can write to it past the
/// tensors.
bool is_held_by_nobody_else(const Storage& storage);

PyObject* to_dlpack(const Tensor& t, bool versioned, bool copied);
Tensor from_dlpack_capsule(PyObject* capsule);

}  // namespace adjoint::bind
