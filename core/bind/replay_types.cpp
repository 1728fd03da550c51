// What a walk must know of types: which hold what C alone can see, which have slots, which are the library's.
#include <Python.h>
//
#include <structmember.h>

#include <cstring>
#include <string_view>

#include "bind/replay_types.h"
#include "for_size.h"

namespace adjoint::bind::paths {

namespace {

nb::object found(const char* module, const char* name) { return nb::module_::import_(module).attr(name); }
/// For good.
PyTypeObject* type_of(const char* module, const char* name) {
  return reinterpret_cast<PyTypeObject*>(found(module, name).release().ptr());
}

}  // namespace

KnownTypes::KnownTypes()
    : partial(type_of("functools", "partial")),
      enum_meta(Py_TYPE(found("enum", "Enum").ptr())),
      namespace_(type_of("types", "SimpleNamespace")),
      default_dict(type_of("collections", "defaultdict")),
      deque(type_of("collections", "deque")),
      attrgetter(type_of("operator", "attrgetter")),
      methodcaller(type_of("operator", "methodcaller")),
      builtins(nb::module_::import_("builtins")),
      modules(found("sys", "modules")) {}

const KnownTypes& types() {
  static const KnownTypes* const all = new KnownTypes();
  return *all;
}

const KnownNames& names() {
  static const KnownNames* const all = new KnownNames();
  return *all;
}

bool starts_with(const char* text, std::string_view start) {
  return !std::strncmp(text, start.data(), start.size());
}

/// Types of C whose objects never change, or whose changes the core sees.
bool is_constant_type(const char* name) {
  for (std::string_view start : {"numpy.", "nanobind.", "datetime.", "re.Pattern", "types.GenericAlias",
                                 "types.UnionType", "typing.", "operator.", "_operator.", "_abc."})
    if (starts_with(name, start)) {
      for (std::string_view changes :
           {"numpy.ndarray", "numpy.random", "numpy.flatiter", "numpy.nditer", "numpy.broadcast"})
        if (starts_with(name, changes)) return false;
      return true;
    }
  return false;
}

nb::object dict_of(PyTypeObject* type) {
#if PY_VERSION_HEX < 0x030C0000
  return nb::borrow(type->tp_dict);
#else
  return nb::steal(PyType_GetDict(type));
#endif
}

/// Whether instances hold nothing beside what those of the base do but slots, a dict and weak references:
/// true for classes that are written in Python.
bool is_plain(PyTypeObject* type) {
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE))
    return type->tp_basicsize == sizeof(PyObject) && type != &PyBaseObject_Type;
  const PyTypeObject* base = type->tp_base;
  Py_ssize_t size = base->tp_basicsize;
  nb::object dict = dict_of(type);
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict.ptr(), &at, &key, &value))
    if (Py_IS_TYPE(value, &PyMemberDescr_Type) &&
        reinterpret_cast<PyMemberDescrObject*>(value)->d_member->type == T_OBJECT_EX)
      size += static_cast<Py_ssize_t>(sizeof(PyObject*));
  // Where they lie in the object: not in front of it, and not at its end.
  const auto added = [&](Py_ssize_t own, Py_ssize_t of_base) {
    return own > 0 && of_base == 0 ? static_cast<Py_ssize_t>(sizeof(PyObject*)) : 0;
  };
  size += added(type->tp_dictoffset, base->tp_dictoffset) +
          added(type->tp_weaklistoffset, base->tp_weaklistoffset);
  return type->tp_basicsize == size;
}

bool is_library(PyTypeObject* type) {
  if (type == tensor_type) return true;
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return starts_with(type->tp_name, "adjoint.");
  nb::object dict = dict_of(type);
  PyObject* module = PyDict_GetItem(dict.ptr(), names().module);
  if (!module || !PyUnicode_Check(module)) return false;
  const char* name = PyUnicode_AsUTF8(module);
  return name && (!std::strcmp(name, "adjoint") || starts_with(name, "adjoint."));
}

bool is_house(PyObject* globals) {
  PyObject* name = PyDict_GetItemString(globals, "__name__");
  const char* text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  if (!text) return false;
  const std::string_view top = std::string_view(text).substr(0, std::string_view(text).find('.'));
  if (top == "adjoint") return true;
  // A module of the program may be called as one of the standard library is.
  static PyObject* const standard = found("sys", "stdlib_module_names").release().ptr();
  static const std::string& folder = *new std::string(nb::cast<std::string>(
      nb::module_::import_("os.path").attr("dirname")(nb::module_::import_("os").attr("__file__"))));
  if (PySet_Contains(standard, nb::str(top.data(), top.size()).ptr()) != 1) return false;
  PyObject* file = PyDict_GetItemString(globals, "__file__");
  return !file || (PyUnicode_Check(file) && starts_with(PyUnicode_AsUTF8(file), folder + "/"));
}

bool is_installed(PyObject* globals) {
  if (is_house(globals)) return true;
  PyObject* file = PyDict_GetItemString(globals, "__file__");
  const char* path = file && PyUnicode_Check(file) ? PyUnicode_AsUTF8(file) : nullptr;
  return path && (std::strstr(path, "site-packages") || std::strstr(path, "dist-packages"));
}

TypeFacts::TypeFacts(PyTypeObject* type) {
  TypeFacts& f = *this;
  f.library = is_library(type);
  f.is_enum = PyType_IsSubtype(Py_TYPE(type), types().enum_meta);
  PyTypeObject* base = type;
  while (base->tp_base && is_plain(base)) base = base->tp_base;
  f.base = base;
  PyObject* mro = type->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* const c = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (starts_with(c->tp_name, "adjoint.ModuleMembers") || starts_with(c->tp_name, "ModuleMembers") ||
        starts_with(c->tp_name, "adjoint._C.ModuleMembers"))
      f.is_module = true;
    if (!PyType_HasFeature(c, Py_TPFLAGS_HEAPTYPE)) continue;
    nb::object dict = dict_of(c);
    Py_ssize_t at_entry = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict.ptr(), &at_entry, &key, &value))
      if (Py_IS_TYPE(value, &PyMemberDescr_Type)) {
        const PyMemberDef* m = reinterpret_cast<PyMemberDescrObject*>(value)->d_member;
        if (m->type == T_OBJECT_EX) f.slots.emplace_back(key, static_cast<int32_t>(m->offset));
      }
  }
  f.has_dict = type->tp_dictoffset != 0;
#ifdef Py_TPFLAGS_MANAGED_DICT
  f.has_dict = f.has_dict || PyType_HasFeature(type, Py_TPFLAGS_MANAGED_DICT);
#endif
}

bool is_special_name(PyObject* key) {
  const Py_ssize_t length = PyUnicode_GET_LENGTH(key);
  return length > 4 && PyUnicode_READ_CHAR(key, 0) == '_' && PyUnicode_READ_CHAR(key, 1) == '_' &&
         PyUnicode_READ_CHAR(key, length - 1) == '_' && PyUnicode_READ_CHAR(key, length - 2) == '_';
}

bool is_special(PyObject* key, PyObject* value) {
  return is_special_name(key) &&
         (PyFunction_Check(value) || Py_IS_TYPE(value, &PyProperty_Type) ||
          Py_IS_TYPE(value, &PyStaticMethod_Type) || Py_IS_TYPE(value, &PyClassMethod_Type));
}

Py_ssize_t named_members(const Layout& l, PyTypeObject* type) {
  Py_ssize_t count = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* const c = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (!PyType_HasFeature(c, Py_TPFLAGS_HEAPTYPE) || is_library(c)) continue;
    nb::object dict = dict_of(c);
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict.ptr(), &at, &key, &value))
      count += PyUnicode_CheckExact(key) && (PySet_Contains(l.names.ptr(), key) == 1 ||
                                             (l.all && !is_special_name(key)) || is_special(key, value));
  }
  return count;
}

}  // namespace adjoint::bind::paths
