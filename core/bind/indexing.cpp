#include "bind/indexing.h"

#include "tensor/error.h"

namespace adjoint::bind {
PyObject* tensor_getitem(const Tensor&, PyObject*) { fail<NotImplemented>("indexing"); }
int tensor_setitem(const Tensor&, PyObject*, PyObject*) { fail<NotImplemented>("indexing"); }
}  // namespace adjoint::bind
