// Python's indexing: x[key] and x[key] = value.
#pragma once

#include <Python.h>

#include "tensor/tensor.h"

namespace adjoint::bind {

/// A new reference; throws.
PyObject* tensor_getitem(const Tensor& self, PyObject* key);
/// 0; throws.
int tensor_setitem(const Tensor& self, PyObject* key, PyObject* value);

}  // namespace adjoint::bind
