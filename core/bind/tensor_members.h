// Attributes and methods of Tensor that are not operators.
#pragma once

#include <Python.h>

#include <vector>

#include "tensor/tensor.h"

namespace adjoint::bind {

void add_member_slots(std::vector<PyType_Slot>& slots);
/// What len(), bool(), float(), int() and x[…] call.
void add_protocol_slots(std::vector<PyType_Slot>& slots);
/// The only element, for int(), float() and complex(); ValueError where there is not exactly one.
Scalar number_of(const Tensor& t, const char* op);
PyObject* get_grad(PyObject* self, void*);
int set_grad(PyObject* self, PyObject* grad, void*);
PyObject* get_grad_dtype(PyObject* self, void*);
int set_grad_dtype(PyObject* self, PyObject* dtype, void*);
std::vector<PyMethodDef> member_methods();
/// Tensor._make_subclass(cls, data, requires_grad=False).
PyObject* make_subclass(PyObject* cls, PyObject* args, PyObject* kw);

}  // namespace adjoint::bind
