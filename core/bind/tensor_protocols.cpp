// What Python's protocols ask of a tensor: its length, truth, value as a number, and elements.
#include "bind/batching.h"
#include "bind/convert.h"
#include "bind/indexing.h"
#include "bind/object.h"
#include "bind/overrides.h"
#include "bind/tensor_members.h"
#include "for_size.h"
#include "transforms/interpreter.h"

namespace adjoint::bind {

namespace {

bool answered(PyObject* s) { return may_be_overridden(s) && overridden(&s, 1); }

Py_ssize_t length(PyObject* s) {
  if (answered(s)) {
    PyObject* r = ask_method("__len__", &s, 1);
    const Py_ssize_t n = r ? PyNumber_AsSsize_t(r, PyExc_OverflowError) : -1;
    Py_XDECREF(r);
    return n;
  }
  const Tensor& t = unwrap(s);
  if (t.dim() == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  return t.size(0);
}
int truth(PyObject* s) {
  if (answered(s)) {
    PyObject* r = ask_method("__bool__", &s, 1);
    const int yes = r ? PyObject_IsTrue(r) : -1;
    Py_XDECREF(r);
    return yes;
  }
  try {
    const Tensor& t = unwrap(s);
    if (t.numel() != 1)
      fail("Boolean value of Tensor with ", t.numel() == 0 ? "no values" : "more than one value",
           " is ambiguous: its shape is ", t.sizes(), "; use .any() or .all()");
    return item(t, "bool").to<bool>();
  } catch (...) {
    raise();
    return -1;
  }
}
}  // namespace

Scalar number_of(const Tensor& t, const char* op) {
  if (t.numel() != 1)
    fail<ValueError>("only one element tensors can be converted to Python scalars: ", op,
                     "() was asked of one of shape ", t.sizes(), "; index one element, or reduce first");
  return item(t, op);
}

namespace {

PyObject* as_float(PyObject* s) {
  if (answered(s)) return ask_method("__float__", &s, 1);
  return guard([&] {
    const Scalar v = number_of(unwrap(s), "float");
    if (v.is_complex() && v.as_complex().im != 0)
      fail("value cannot be converted to type double without overflow: it is complex; take .real first");
    return PyFloat_FromDouble(v.as_double());
  });
}
PyObject* as_long(PyObject* s) {
  if (answered(s)) return ask_method("__int__", &s, 1);
  return guard([&]() -> PyObject* {
    const Scalar v = number_of(unwrap(s), "int");
    if (v.is_complex() && v.as_complex().im != 0)
      fail("value cannot be converted to type int64_t without overflow: it is complex; take .real first");
    if (!v.is_integral()) return PyLong_FromDouble(v.as_double());
    return PyLong_FromLongLong(v.as_int());
  });
}
PyObject* as_index(PyObject* s) {
  if (answered(s)) return ask_method("__index__", &s, 1);
  return guard([&]() -> PyObject* {
    const Tensor& t = unwrap(s);
    if (!is_integral(t.dtype()) || t.numel() != 1)
      fail<TypeError>("only integer tensors of a single element can be converted to an index: this one is ",
                      name_of(t.dtype()), " of shape ", t.sizes());
    return PyLong_FromLongLong(item(t, "index").as_int());
  });
}
PyObject* getitem(PyObject* s, PyObject* key) {
  PyObject* const args[] = {s, key};
  if (overridden(args, 2)) return ask_method("__getitem__", args, 2);
  return guard([&] { return tensor_getitem(unwrap(s), key); });
}
int setitem(PyObject* s, PyObject* key, PyObject* value) {
  PyObject* const args[] = {s, key, value};
  if (value && overridden(args, 3)) {
    PyObject* r = ask_method("__setitem__", args, 3);
    Py_XDECREF(r);
    return r ? 0 : -1;
  }
  try {
    if (!value) fail<TypeError>("Tensor does not support deleting items");
    return tensor_setitem(unwrap(s), key, value);
  } catch (...) {
    raise();
    return -1;
  }
}

}  // namespace

void add_protocol_slots(std::vector<PyType_Slot>& slots) {
  slots.push_back({Py_mp_length, reinterpret_cast<void*>(length)});
  slots.push_back({Py_mp_subscript, reinterpret_cast<void*>(getitem)});
  slots.push_back({Py_mp_ass_subscript, reinterpret_cast<void*>(setitem)});
  slots.push_back({Py_nb_bool, reinterpret_cast<void*>(truth)});
  slots.push_back({Py_nb_float, reinterpret_cast<void*>(as_float)});
  slots.push_back({Py_nb_int, reinterpret_cast<void*>(as_long)});
  slots.push_back({Py_nb_index, reinterpret_cast<void*>(as_index)});
}

PyObject* make_subclass(PyObject* cls, PyObject* args, PyObject* kw) {
  static const char* names[] = {"cls", "data", "requires_grad", nullptr};
  PyObject *type = nullptr, *data = nullptr;
  int on = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kw, "OO|p", const_cast<char**>(names), &type, &data, &on))
    return nullptr;
  (void)cls;
  return guard([&]() -> PyObject* {
    if (!PyType_Check(type) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), tensor_type))
      fail<TypeError>("_make_subclass: the first argument must be a subclass of Tensor");
    if (!is_tensor(data))
      fail<TypeError>("_make_subclass: the second argument must be a Tensor, not ", Py_TYPE(data)->tp_name);
    Tensor t = alias(unwrap(data));
    set_requires_grad(t, on);
    return wrap_as(reinterpret_cast<PyTypeObject*>(type), std::move(t));
  });
}

}  // namespace adjoint::bind
