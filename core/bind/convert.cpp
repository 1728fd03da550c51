#include "bind/convert.h"

#include <structmember.h>

#include <cmath>

#include "bind/object.h"
#include "bind/replay_numbers.h"
#include "for_size.h"
#include "transforms/interpreter.h"

namespace adjoint::bind {

namespace {

struct DTypeObject {
  PyObject_HEAD DType dtype;
};
PyTypeObject* dtype_type = nullptr;
PyTypeObject* size_type = nullptr;
PyObject* dtype_objects[kDTypes] = {};

DType of(PyObject* o) { return reinterpret_cast<DTypeObject*>(o)->dtype; }

PyObject* dtype_repr(PyObject* o) { return PyUnicode_FromFormat("adjoint.%s", name_of(of(o))); }
PyObject* dtype_reduce(PyObject* o, PyObject*) { return PyUnicode_FromString(name_of(of(o))); }
PyObject* dtype_to_real(PyObject* o, PyObject*) { return Py_NewRef(dtype_object(real_dtype(of(o)))); }
PyObject* dtype_to_complex(PyObject* o, PyObject*) { return Py_NewRef(dtype_object(complex_dtype(of(o)))); }

PyMethodDef dtype_methods[] = {
    {"__reduce__", dtype_reduce, METH_NOARGS, nullptr},
    {"to_real", dtype_to_real, METH_NOARGS, "The real type of the same precision."},
    {"to_complex", dtype_to_complex, METH_NOARGS, "The complex type of the same precision."},
    {}};
PyGetSetDef dtype_getset[] = {
    {"is_floating_point", [](PyObject* o, void*) { return PyBool_FromLong(is_floating(of(o))); }, nullptr,
     nullptr, nullptr},
    {"is_complex", [](PyObject* o, void*) { return PyBool_FromLong(is_complex(of(o))); }, nullptr, nullptr,
     nullptr},
    {"is_signed",
     [](PyObject* o, void*) { return PyBool_FromLong(of(o) != DType::Bool && of(o) != DType::UInt8); },
     nullptr, nullptr, nullptr},
    {"itemsize", [](PyObject* o, void*) { return PyLong_FromLong(itemsize(of(o))); }, nullptr,
     "Bytes per element.", nullptr},
    {"_type_name", [](PyObject* o, void*) { return PyUnicode_FromString(type_name_of(of(o))); }, nullptr,
     "As in FloatTensor.", nullptr},
    {"name", [](PyObject* o, void*) { return PyUnicode_FromString(name_of(of(o))); }, nullptr, nullptr,
     nullptr},
    {}};
PyType_Slot dtype_slots[] = {
    {Py_tp_repr, reinterpret_cast<void*>(dtype_repr)},
    {Py_tp_methods, dtype_methods},
    {Py_tp_getset, dtype_getset},
    {Py_tp_doc, const_cast<char*>("The type of a tensor's elements.\n"
                                  "\n"
                                  "Examples\n"
                                  "--------\n"
                                  ">>> import adjoint as ad\n"
                                  ">>> ad.float32.itemsize, ad.ones(2).dtype is ad.float32\n"
                                  "(4, True)")},
    {0, nullptr}};
PyType_Spec dtype_spec = {"adjoint.dtype", sizeof(DTypeObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, dtype_slots};

PyObject* size_repr(PyObject* o) {
  PyObject* list = PySequence_List(o);
  if (!list) return nullptr;
  PyObject* r = PyUnicode_FromFormat("adjoint.Size(%R)", list);
  Py_DECREF(list);
  return r;
}
PyObject* size_numel(PyObject* o, PyObject*) {
  int64_t n = 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i) n *= PyLong_AsLongLong(PyTuple_GET_ITEM(o, i));
  if (PyErr_Occurred()) return nullptr;
  return PyLong_FromLongLong(n);
}
PyObject* size_subscript(PyObject* o, PyObject* key) {
  PyObject* r = PyTuple_Type.tp_as_mapping->mp_subscript(o, key);
  if (!r || !PySlice_Check(key)) return r;
  PyObject* s = PyObject_CallOneArg(reinterpret_cast<PyObject*>(size_type), r);
  Py_DECREF(r);
  return s;
}
PyObject* size_concat(PyObject* a, PyObject* b) {
  PyObject* r = PyTuple_Type.tp_as_sequence->sq_concat(a, b);
  if (!r) return nullptr;
  PyObject* s = PyObject_CallOneArg(reinterpret_cast<PyObject*>(size_type), r);
  Py_DECREF(r);
  return s;
}
PyMethodDef size_methods[] = {{"numel", size_numel, METH_NOARGS, "The product of the sizes."}, {}};
/// A tuple of whole numbers, whatever gives them.
PyObject* size_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  PyObject* t = PyTuple_Type.tp_new(type, args, keywords);
  for (Py_ssize_t i = 0; t && i < PyTuple_GET_SIZE(t); ++i) {
    PyObject* item = PyTuple_GET_ITEM(t, i);
    if (PyLong_CheckExact(item)) continue;
    PyObject* whole = PyNumber_Index(item);
    if (!whole) {
      PyErr_Format(PyExc_TypeError, "Size() takes an iterable of 'int' (item %zd is '%s')", i,
                   Py_TYPE(item)->tp_name);
      Py_CLEAR(t);
      break;
    }
    PyTuple_SET_ITEM(t, i, whole);
    Py_DECREF(item);
  }
  return t;
}
PyType_Slot size_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(size_new)},
    {Py_tp_repr, reinterpret_cast<void*>(size_repr)},
    {Py_mp_subscript, reinterpret_cast<void*>(size_subscript)},
    {Py_sq_concat, reinterpret_cast<void*>(size_concat)},
    {Py_tp_methods, size_methods},
    {Py_tp_doc, const_cast<char*>("The sizes of a tensor's dimensions: a tuple.\n"
                                  "\n"
                                  "Parameters\n"
                                  "----------\n"
                                  "iterable : iterable of ints, optional\n"
                                  "\n"
                                  "Examples\n"
                                  "--------\n"
                                  ">>> import adjoint as ad\n"
                                  ">>> ad.Size([2, 3]).numel(), ad.ones(2, 3).shape == (2, 3)\n"
                                  "(6, True)")},
    {0, nullptr}};
PyType_Spec size_spec = {"adjoint.Size", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, size_slots};

}  // namespace

bool is_int(PyObject* o) {
  if (PyLong_Check(o)) return !PyBool_Check(o);
  if (!is_tensor(o)) return PyIndex_Check(o);
  const Tensor& t = unwrap(o);
  return t.dim() == 0 && is_integral(t.dtype()) && t.dtype() != DType::Bool;
}

[[gnu::hot]] std::optional<Scalar> as_scalar(PyObject* o) {
  if (PyFloat_Check(o)) return Scalar(PyFloat_AS_DOUBLE(o));
  if (PyBool_Check(o)) return Scalar(o == Py_True);
  if (PyLong_Check(o)) {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow)
      fail<OverflowError>("Overflow: an integer that does not fit into int64 cannot be used with tensors");
    return Scalar(static_cast<int64_t>(v));
  }
  if (PyComplex_Check(o)) {
    const Py_complex z = PyComplex_AsCComplex(o);
    return Scalar(Complex<double>(z.real, z.imag));
  }
  if (is_tensor(o) || PySequence_Check(o)) return {};
  if (is_tracked(o)) return given_on(o);
  // NumPy's scalars and whatever else converts like a number. A span of time does so too, and its unit would
  // be lost.
  const char* type = Py_TYPE(o)->tp_name;
  if (std::strcmp(type, "numpy.timedelta64") == 0 || std::strcmp(type, "numpy.datetime64") == 0) return {};
  if (std::strcmp(type, "numpy.bool") == 0 || std::strcmp(type, "numpy.bool_") == 0)
    return Scalar(PyObject_IsTrue(o) == 1);
  if (PyIndex_Check(o)) {
    PyObject* i = PyNumber_Index(o);
    if (!i) {
      PyErr_Clear();
      return {};
    }
    const long long v = PyLong_AsLongLong(i);
    Py_DECREF(i);
    if (PyErr_Occurred()) {
      PyErr_Clear();
      return {};
    }
    return Scalar(static_cast<int64_t>(v));
  }
  if (PyObject_HasAttrString(o, "__complex__") && std::strncmp(type, "numpy.complex", 13) == 0) {
    const Py_complex z = PyComplex_AsCComplex(o);
    if (PyErr_Occurred()) {
      PyErr_Clear();
      return {};
    }
    return Scalar(Complex<double>(z.real, z.imag));
  }
  if (Py_TYPE(o)->tp_as_number && Py_TYPE(o)->tp_as_number->nb_float) {
    const double d = PyFloat_AsDouble(o);
    if (PyErr_Occurred()) {
      PyErr_Clear();
      return {};
    }
    return Scalar(d);
  }
  return {};
}

int64_t as_int(PyObject* o, const char* what) {
  if (PyLong_Check(o) || PyIndex_Check(o)) {
    PyObject* i = PyNumber_Index(o);
    if (!i) throw PythonError{};
    const long long v = PyLong_AsLongLong(i);
    Py_DECREF(i);
    if (v == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      fail<OverflowError>(what, ": the integer does not fit into 64 bits");
    }
    return v;
  }
  fail<TypeError>(what, " must be int, not ", Py_TYPE(o)->tp_name);
}

double as_double(PyObject* o, const char* what) {
  if (PyFloat_Check(o)) return PyFloat_AS_DOUBLE(o);
  if (is_tensor(o)) return item(unwrap(o), "item").as_double();
  if (auto s = as_scalar(o); s && !s->is_complex()) return s->as_double();
  fail<TypeError>(what, " must be a real number, not ", Py_TYPE(o)->tp_name);
}

Dims as_dims(PyObject* o, const char* what) {
  Dims dims;
  if (is_int(o)) {
    dims.push_back(as_int(o, what));
    return dims;
  }
  if (!PySequence_Check(o) || PyUnicode_Check(o))
    fail<TypeError>(what, " must be a tuple of ints, not ", Py_TYPE(o)->tp_name);
  PyObject* fast = PySequence_Fast(o, "");
  if (!fast) throw PythonError{};
  struct Release {
    PyObject* p;
    ~Release() { Py_DECREF(p); }
  } release{fast};
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast); ++i) {
    PyObject* e = PySequence_Fast_GET_ITEM(fast, i);
    if (PyLong_CheckExact(e)) {
      const long long v = PyLong_AsLongLong(e);
      if (v == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        fail<OverflowError>(what, ": the integer does not fit into 64 bits");
      }
      dims.push_back(v);
    } else if (PyFloat_Check(e) || (!PyIndex_Check(e))) {
      fail<TypeError>(what, " must be a tuple of ints, but element ", i, " is ", Py_TYPE(e)->tp_name);
    } else {
      dims.push_back(as_int(e, what));
    }
  }
  return dims;
}

PyObject* from_scalar(const Scalar& s) {
  switch (s.kind()) {
    case Category::Bool:
      return PyBool_FromLong(s.as_int() != 0);
    case Category::Integer:
      return PyLong_FromLongLong(s.as_int());
    case Category::Floating:
      return PyFloat_FromDouble(s.as_double());
    case Category::Complex:
      break;
  }
  const auto z = s.as_complex();
  return PyComplex_FromDoubles(z.re, z.im);
}

PyObject* tuple_from(IntList values) {
  PyObject* t = PyTuple_New(static_cast<Py_ssize_t>(values.size()));
  for (size_t i = 0; t && i < values.size(); ++i)
    PyTuple_SET_ITEM(t, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(values[i]));
  return t;
}

PyObject* size_from(IntList sizes) {
  PyObject* t = size_type->tp_alloc(size_type, static_cast<Py_ssize_t>(sizes.size()));
  for (size_t i = 0; t && i < sizes.size(); ++i)
    PyTuple_SET_ITEM(t, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(sizes[i]));
  return t;
}

PyTypeObject* size_type_object() { return size_type; }

PyObject* dtype_object(DType d) { return dtype_objects[index_of(d)]; }
bool is_dtype(PyObject* o) { return Py_TYPE(o) == dtype_type; }
std::optional<DType> as_dtype(PyObject* o) {
  if (is_dtype(o)) return of(o);
  if (o == reinterpret_cast<PyObject*>(&PyFloat_Type)) return DType::Float64;
  if (o == reinterpret_cast<PyObject*>(&PyBool_Type)) return DType::Bool;
  if (o == reinterpret_cast<PyObject*>(&PyLong_Type)) return DType::Int64;
  if (o == reinterpret_cast<PyObject*>(&PyComplex_Type)) return DType::Complex128;
  return {};
}

DType number_dtype(PyObject* o, const Scalar& value) {
  constexpr std::string_view numpy = "numpy.";
  if (PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o) ||
      !std::string_view(Py_TYPE(o)->tp_name).starts_with(numpy))
    return value.dtype();
  const std::string_view name = std::string_view(Py_TYPE(o)->tp_name).substr(numpy.size());
  for (int d = 0; d < kDTypes; ++d)
    if (name == kDTypeNames[d]) return static_cast<DType>(d);
  return name == "bool_" ? DType::Bool : value.dtype();
}

bool add_value_types(PyObject* module) {
  dtype_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&dtype_spec));
  PyObject* bases = PyTuple_Pack(1, &PyTuple_Type);
  size_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&size_spec, bases));
  Py_DECREF(bases);
  if (!dtype_type || !size_type) return false;
  dtype_type->tp_name = "dtype";  // as errors call them
  size_type->tp_name = "Size";
  if (PyModule_AddObjectRef(module, "dtype", reinterpret_cast<PyObject*>(dtype_type)) < 0) return false;
  if (PyModule_AddObjectRef(module, "Size", reinterpret_cast<PyObject*>(size_type)) < 0) return false;
  for (int i = 0; i < kDTypes; ++i) {
    auto* o = reinterpret_cast<DTypeObject*>(dtype_type->tp_alloc(dtype_type, 0));
    if (!o) return false;
    o->dtype = static_cast<DType>(i);
    dtype_objects[i] = reinterpret_cast<PyObject*>(o);
    if (PyModule_AddObjectRef(module, kDTypeNames[i], dtype_objects[i]) < 0) return false;
  }
  return true;
}

}  // namespace adjoint::bind
