// The callable that a composition is published as: the Python function, and a word when it fails.
//
// A call that no type of an argument answers (overrides.h) goes straight to the function, without a frame of
// its own, so that it costs nothing to speak of and warnings name the caller's line. Where the function
// fails, `explain` (adjoint/_publish/register.py) is asked: it may take the call up again with other
// keywords, raise an error that names the function and the argument, or leave the error as it is.
#include <Python.h>
#include <structmember.h>

#include "bind/arguments.h"
#include "bind/autocast.h"
#include "bind/operators.h"
#include "bind/overrides.h"
#include "bind/sparse.h"
#include "state.h"
#include "tensor/device.h"

namespace adjoint::bind {

namespace {

struct Composition {
  PyObject_HEAD vectorcallfunc call;
  PyObject* function;
  PyObject* explain;   // may be None
  PyObject* asked_as;  // what `__torch_function__` is given in its place; null: the callable itself
  char consults;   // who may answer the call: 2 modes and arguments, 1 modes, 0 nobody, since what it calls
                   // asks in its turn
  PyObject* dict;  // name, documentation and the like, as functools.update_wrapper gives them
  unsigned char precision;  // what autocast gives it its arguments in
  PyObject* row;            // the operator that does the calls which it can match; null: none
};

PyObject* explained(Composition* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  PyObject *type, *error, *traceback;
  PyErr_Fetch(&type, &error, &traceback);
  PyErr_NormalizeException(&type, &error, &traceback);
  if (traceback) PyException_SetTraceback(error, traceback);
  PyObject* positional = PyTuple_New(nargs);
  PyObject* named = PyDict_New();
  bool ok = positional && named;
  for (Py_ssize_t i = 0; ok && i < nargs; ++i) PyTuple_SET_ITEM(positional, i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; ok && kwnames && i < PyTuple_GET_SIZE(kwnames); ++i)
    ok = PyDict_SetItem(named, PyTuple_GET_ITEM(kwnames, i), args[nargs + i]) == 0;
  PyObject* answer = ok ? PyObject_CallFunctionObjArgs(self->explain, reinterpret_cast<PyObject*>(self),
                                                       positional, named, error, nullptr)
                        : nullptr;
  Py_XDECREF(positional);
  Py_XDECREF(named);
  if (answer == Py_None) {  // nothing to say
    Py_DECREF(answer);
    PyErr_Restore(type, error, traceback);
    return nullptr;
  }
  Py_XDECREF(type);
  Py_XDECREF(error);
  Py_XDECREF(traceback);
  if (!answer) return nullptr;
  PyObject* result = Py_NewRef(PyTuple_GET_ITEM(answer, 0));
  Py_DECREF(answer);
  return result;
}

/// The device of the first tensor among the arguments: what a composition makes besides belongs there.
[[gnu::cold, gnu::noinline]] Device device_of_call(PyObject* const* args, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* first = args[i];
    if ((PyTuple_Check(first) || PyList_Check(first)) && PySequence_Fast_GET_SIZE(first))
      first = PySequence_Fast_GET_ITEM(first, 0);
    if (!is_tensor(first)) continue;
    if (const Device d = device_of(unwrap(first)); d != Device::CPU || unwrap(first).dim()) return d;
  }
  return thread_state.default_device;
}

/// The result of the row, to which sizes, numbers and tensors as they are go straight; null without an error
/// where the arguments are others or it would fail: the function reads them, and words errors as the program
/// wrote the call.
[[gnu::hot]] PyObject* call_row(PyObject* row, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  try {
    const Alternate& way = alternates_of(row).front();
    Arguments arguments;
    if (!arguments.read(way, Given{args, nargs, kwnames})) [[unlikely]]
      return nullptr;
    Results results;
    way.op().boxed(arguments.values(), results);
    return wrap(std::move(results.one));
  } catch (const Error&) {
    return nullptr;
  } catch (...) {
    return raise();
  }
}

[[gnu::hot]] PyObject* call(PyObject* o, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  auto* self = reinterpret_cast<Composition*>(o);
  const Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
  if (self->consults &&
      overridden(args, self->consults == 2 ? nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0) : 0))
    return ask(self->asked_as ? self->asked_as : o, args, nargs, kwnames);
  // Those that leave errors alone call what the program hands them.
  if (devices_in_use.load(std::memory_order_relaxed) && self->explain != Py_None) [[unlikely]] {
    const Device device = device_of_call(args, nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
    if (device != thread_state.default_device) {
      const Device before = std::exchange(thread_state.default_device, device);
      PyObject* result = call(o, args, nargsf, kwnames);
      thread_state.default_device = before;
      return result;
    }
  }
  if (sparse_in_use.load(std::memory_order_relaxed) && self->explain != Py_None) [[unlikely]] {
    if (PyObject* form = sparse_composition(o, args, nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0))) {
      PyObject* result = PyObject_Vectorcall(form, args, nargsf & ~PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
      Py_DECREF(form);
      if (result != Py_NotImplemented) return result;
      Py_DECREF(result);
    }
  }
  if (self->row && !thread_state.watched)
    if (PyObject* made = call_row(self->row, args, nargs, kwnames); made || PyErr_Occurred()) return made;
  PyObject* result = thread_state.watched && self->precision
                         ? call_converted(self->function, self->precision, args, nargsf, kwnames)
                         : PyObject_Vectorcall(self->function, args, nargsf, kwnames);
  if (result || self->explain == Py_None || !PyErr_ExceptionMatches(PyExc_Exception) ||
      PyErr_ExceptionMatches(PyExc_RecursionError))
    return result;
  return explained(self, args, nargs, kwnames);
}

PyObject* create(PyTypeObject* type, PyObject* args, PyObject* kw) {
  PyObject *function, *explain, *consults = Py_True, *row = Py_None;
  static const char* names[] = {"function", "explain", "consults", "row", nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, kw, "OO|OO", const_cast<char**>(names), &function, &explain,
                                   &consults, &row))
    return nullptr;
  if (row != Py_None && !operator_of(row))
    return PyErr_Format(PyExc_TypeError, "Composition(): row must be an operator, not %s",
                        Py_TYPE(row)->tp_name);
  auto* self = reinterpret_cast<Composition*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->call = call;
  self->function = Py_NewRef(function);
  self->explain = Py_NewRef(explain);
  self->row = row == Py_None ? nullptr : Py_NewRef(row);
  self->consults = consults == Py_None ? 0 : consults == Py_False ? 1 : 2;
  return reinterpret_cast<PyObject*>(self);
}

int traverse(PyObject* o, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<Composition*>(o);
  Py_VISIT(self->function);
  Py_VISIT(self->explain);
  Py_VISIT(self->asked_as);
  Py_VISIT(self->dict);
  Py_VISIT(Py_TYPE(o));
  return 0;
}
int clear(PyObject* o) {
  auto* self = reinterpret_cast<Composition*>(o);
  Py_CLEAR(self->function);
  Py_CLEAR(self->explain);
  Py_CLEAR(self->asked_as);
  Py_CLEAR(self->dict);
  return 0;
}
void destroy(PyObject* o) {
  auto* self = reinterpret_cast<Composition*>(o);
  PyTypeObject* type = Py_TYPE(o);
  PyObject_GC_UnTrack(o);
  clear(o);
  Py_CLEAR(self->row);
  type->tp_free(o);
  Py_DECREF(type);
}

PyObject* bound(PyObject* self, PyObject* instance, PyObject*) {
  return instance ? PyMethod_New(self, instance) : Py_NewRef(self);
}
PyObject* repr(PyObject* self) {
  PyObject* name = PyObject_GetAttrString(self, "__qualname__");
  PyObject* text = name ? PyUnicode_FromFormat("<function %U>", name) : nullptr;
  Py_XDECREF(name);
  return text;
}
// A pickle knows it by its name.
PyObject* reduce(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }
PyObject* forward(PyObject* self, void* name) {
  auto* c = reinterpret_cast<Composition*>(self);
  return PyObject_GetAttrString(c->function, static_cast<const char*>(name));
}

PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr}, {}};
PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Composition, call), READONLY, nullptr},
                         {"__dictoffset__", T_PYSSIZET, offsetof(Composition, dict), READONLY, nullptr},
                         {"_precision", T_UBYTE, offsetof(Composition, precision), 0, nullptr},
                         {"_asked_as", T_OBJECT, offsetof(Composition, asked_as), 0, nullptr},
                         {"_explain", T_OBJECT, offsetof(Composition, explain), READONLY, nullptr},
                         {"_consults", T_BYTE, offsetof(Composition, consults), READONLY, nullptr},
                         {}};
#define ADJOINT_OF_FUNCTION(name) {name, forward, nullptr, nullptr, const_cast<char*>(name)}
PyGetSetDef getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                        ADJOINT_OF_FUNCTION("__code__"),
                        ADJOINT_OF_FUNCTION("__defaults__"),
                        ADJOINT_OF_FUNCTION("__kwdefaults__"),
                        ADJOINT_OF_FUNCTION("__globals__"),
                        ADJOINT_OF_FUNCTION("__annotations__"),
                        {}};
#undef ADJOINT_OF_FUNCTION
PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(create)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                       {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_descr_get, reinterpret_cast<void*>(bound)},
                       {Py_tp_repr, reinterpret_cast<void*>(repr)},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {Py_tp_getset, getset},
                       {0, nullptr}};
PyType_Spec spec = {
    "adjoint._C.Composition", sizeof(Composition), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_HAVE_GC,
    slots};

}  // namespace

bool add_composition_type(PyObject* module) {
  PyObject* type = PyType_FromSpec(&spec);
  return type && PyModule_AddObject(module, "Composition", type) == 0;
}

}  // namespace adjoint::bind
