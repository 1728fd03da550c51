// Memory shared with others: Python's buffer protocol and DLPack.
#pragma once

#include <Python.h>

#include "tensor/tensor.h"

namespace adjoint::bind {

int get_buffer(PyObject* self, Py_buffer* view, int flags);
void release_buffer(PyObject* self, Py_buffer* view);

/// A tensor over the memory of an object that supports the buffer protocol; undefined when it does not.
Tensor tensor_from_buffer(PyObject* o, bool writable_only);
/// Whether these bytes are an array's that only this storage holds, so that nobody can write to it past the tensors.
bool is_held_by_nobody_else(const Storage& storage);

PyObject* to_dlpack(const Tensor& t, bool versioned, bool copied);
Tensor from_dlpack_capsule(PyObject* capsule);

}  // namespace adjoint::bind
