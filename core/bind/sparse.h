// How compositions find their forms for sparse tensors.
#pragma once

#include "bind/object.h"
#include "tensor/sparse.h"

namespace adjoint::bind {

/// The form of a composition where one of its arguments is sparse, a new reference; null where there is none,
/// or no need of one.
PyObject* sparse_composition(PyObject* composition, PyObject* const* args, Py_ssize_t count);

}  // namespace adjoint::bind
