// The Python object for a tensor, and how the two find each other.
//
// A Tensor's Python object holds one ownership of the TensorImpl; the TensorImpl knows its object without
// owning it. When Python drops the object while the graph still holds the tensor, the object normally goes,
// and a new one is made when the tensor is next seen. If the object carries something of its own (attributes,
// weak references, a subclass), it changes sides instead: the tensor then owns the object (`kOwnsWrapper`)
// until Python asks for it again. Thus identity survives wherever it can be observed, and there is no cycle.
// See Note: identity of tensors.
#pragma once

#include <Python.h>

#include <optional>

#include "bind/lock.h"
#include "tensor/tensor.h"

namespace adjoint::bind {

struct TensorObject {
  PyObject_HEAD TensorImpl* impl;
  PyObject* dict;
  PyObject* weakrefs;
};

extern PyTypeObject* tensor_type;

/// A new reference to the object of a tensor. Null tensors become None.
PyObject* wrap(Tensor t);
/// Let two objects exchange what they stand for: tensor, attributes and type.
void swap_objects(PyObject* a, PyObject* b);
inline bool is_tensor(PyObject* o) {
  return Py_TYPE(o) == tensor_type || PyType_IsSubtype(Py_TYPE(o), tensor_type);
}
/// The tensor of an object that is one. Its address is good for as long as the object lives.
inline const Tensor& unwrap(PyObject* o) {
  return reinterpret_cast<const Tensor&>(reinterpret_cast<TensorObject*>(o)->impl);
}
/// A new object of `type`, a subclass of Tensor, for a tensor that has no object yet.
PyObject* wrap_as(PyTypeObject* type, Tensor t);

/// For the collector: the hooks of a leaf that Python set.
int visit_hooks(const TensorImpl* leaf, visitproc visit, void* arg);
void clear_hooks(TensorImpl* leaf);

/// Make the type and put it into the module, as `Tensor`.
bool add_tensor_type(PyObject* module);

/// Set Python's error from the exception in flight; returns null, so that one can write `return raise();`.
PyObject* raise() noexcept;
/// What `f` returns, or null with Python's error set; `guard_set` for setters, 0 or -1.
template <class F>
PyObject* guard(F&& f) {
  try {
    return f();
  } catch (...) {
    return raise();
  }
}
template <class F>
int guard_set(F&& f) {
  try {
    f();
    return 0;
  } catch (...) {
    raise();
    return -1;
  }
}

/// A tensor of numbers, nested sequences, buffers or tensors, always a copy; of their own type when none is
/// given.
Tensor from_python(PyObject* data, std::optional<DType> dtype);

/// A number or nested sequence as a tensor that meets one of type `like`.
Tensor as_tensor_like(PyObject* value, DType like);

}  // namespace adjoint::bind
