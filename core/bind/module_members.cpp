// How `module.weight` is read. The members of a module live in its dicts `_parameters`, `_buffers` and
// `_modules` alone, as programs expect that replace these dicts, so a class in Python would need
// `__getattr__`, which CPython calls only after it has made, raised and dropped an AttributeError: 400 ns for
// every weight in every forward pass. `ModuleMembers` is the base of Module and holds that `__getattr__`.
// `_read_members_directly(cls)` is told of each class of modules; where `__getattr__` is this one and
// `__getattribute__` is object's, it puts `get` in the class's slot, which looks at the class, at the object
// and at the three dicts in that order, the same order that `__getattr__` makes, without a failure in
// between. A class that gets a `__getattr__` of its own, now or later, has its slot set by CPython again.
#include "bind/object.h"

namespace adjoint::bind {

namespace {

PyTypeObject* base = nullptr;
PyObject* own_getattr = nullptr;  // ModuleMembers.__getattr__
PyObject* object_getattribute = nullptr;
PyObject* names[3];  // "_parameters", "_buffers", "_modules"

/// `mapping[name]`, new; null without an error where it is not in there.
PyObject* item(PyObject* mapping, PyObject* name) {
  if (PyDict_CheckExact(mapping)) return Py_XNewRef(PyDict_GetItemWithError(mapping, name));
  const int in = PySequence_Contains(mapping, name);
  return in == 1 ? PyObject_GetItem(mapping, name) : nullptr;
}

/// The member of that name, new; null where there is none, with an error only where looking failed.
PyObject* member(PyObject* dict, PyObject* name) {
  for (PyObject* which : names) {
    PyObject* mapping = PyDict_GetItemWithError(dict, which);
    if (!mapping) {
      if (PyErr_Occurred()) return nullptr;
      continue;
    }
    Py_INCREF(mapping);
    PyObject* found = item(mapping, name);
    Py_DECREF(mapping);
    if (found || PyErr_Occurred()) return found;
  }
  return nullptr;
}

PyObject* missing(PyObject* self, PyObject* name) {
  return PyErr_Format(PyExc_AttributeError, "'%.100s' object has no attribute '%U'", Py_TYPE(self)->tp_name,
                      name);
}

PyObject* get_member(PyObject* self, PyObject* name) {
  if (!PyUnicode_Check(name))
    return PyErr_Format(PyExc_TypeError, "attribute name must be string, not '%.200s'",
                        Py_TYPE(name)->tp_name);
  PyObject* dict = PyObject_GenericGetDict(self, nullptr);
  if (!dict) return nullptr;
  PyObject* found = member(dict, name);
  Py_DECREF(dict);
  return found || PyErr_Occurred() ? found : missing(self, name);
}

PyObject* get(PyObject* self, PyObject* name) {
  if (_PyType_Lookup(Py_TYPE(self), name)) {
    PyObject* found = PyObject_GenericGetAttr(self, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    // A property whose own reading failed: as CPython does, ask `__getattr__`, which tells of the name.
    PyErr_Clear();
    return get_member(self, name);
  }
  PyObject* dict = PyObject_GenericGetDict(self, nullptr);
  if (!dict) return nullptr;
  PyObject* found = Py_XNewRef(PyDict_GetItemWithError(dict, name));
  if (!found && !PyErr_Occurred()) found = member(dict, name);
  Py_DECREF(dict);
  return found || PyErr_Occurred() ? found : missing(self, name);
}

PyObject* read_directly(PyObject*, PyObject* cls) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  if (!PyType_Check(cls) || !PyType_IsSubtype(type, base))
    return PyErr_Format(PyExc_TypeError, "expected a class of modules, but got %R", cls);
  static PyObject* getattr_name = PyUnicode_InternFromString("__getattr__");
  static PyObject* getattribute_name = PyUnicode_InternFromString("__getattribute__");
  if (_PyType_Lookup(type, getattr_name) == own_getattr &&
      _PyType_Lookup(type, getattribute_name) == object_getattribute) {
    type->tp_getattro = get;
    PyType_Modified(type);
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {{"__getattr__", get_member, METH_O, "The parameter, buffer or child of that name."},
                         {}};
PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
PyType_Spec spec = {"adjoint._C.ModuleMembers", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
PyMethodDef functions[] = {{"_read_members_directly", read_directly, METH_O, nullptr}, {}};

}  // namespace

bool add_module_members(PyObject* module) {
  const char* texts[] = {"_parameters", "_buffers", "_modules"};
  for (int i = 0; i < 3; ++i) names[i] = PyUnicode_InternFromString(texts[i]);
  base = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!base) return false;
  // Asked as attributes: from Python 3.12 on, the types of the interpreter do not show their dicts. Kept for
  // good.
  own_getattr = PyObject_GetAttrString(reinterpret_cast<PyObject*>(base), "__getattr__");
  object_getattribute =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__getattribute__");
  if (!own_getattr || !object_getattribute) return false;
  return PyModule_AddObjectRef(module, "ModuleMembers", reinterpret_cast<PyObject*>(base)) == 0 &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace adjoint::bind
