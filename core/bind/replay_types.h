// What a walk must know of types. Start reading at `TypeFacts`.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "bind/replay_paths.h"

namespace adjoint::bind::paths {

struct TypeFacts {
  explicit TypeFacts(PyTypeObject* type);
  /// Whether it is a class of the library.
  bool library = false;
  /// The first of its bases that is not written in Python.
  PyTypeObject* base = nullptr;
  /// Names and offsets of its slots.
  std::vector<std::pair<PyObject*, int32_t>> slots;
  bool is_enum = false, has_dict = false, is_module = false;
};

struct KnownTypes {
  PyTypeObject *partial, *enum_meta, *namespace_, *default_dict, *deque, *attrgetter, *methodcaller;
  nb::object builtins, modules;
  KnownTypes();
};
const KnownTypes& types();

struct KnownNames {
  /// What is looked up to let a type have a version.
  PyObject* none_has = PyUnicode_InternFromString("");
  PyObject *module = PyUnicode_InternFromString("__module__"), *name = PyUnicode_InternFromString("__name__");
  PyObject *fget = PyUnicode_InternFromString("fget"), *fset = PyUnicode_InternFromString("fset"),
           *fdel = PyUnicode_InternFromString("fdel"), *func = PyUnicode_InternFromString("__func__");
  PyObject *partial_func = PyUnicode_InternFromString("func"), *args = PyUnicode_InternFromString("args"),
           *keywords = PyUnicode_InternFromString("keywords");
  PyObject *start = PyUnicode_InternFromString("start"), *stop = PyUnicode_InternFromString("stop"),
           *step = PyUnicode_InternFromString("step");
  PyObject *factory = PyUnicode_InternFromString("default_factory"),
           *getattr = PyUnicode_InternFromString("__getattr__"),
           *wrapped = PyUnicode_InternFromString("__wrapped__");
  PyObject* registries[5] = {PyUnicode_InternFromString("_parameters"),
                             PyUnicode_InternFromString("_buffers"), PyUnicode_InternFromString("_modules"),
                             PyUnicode_InternFromString("training"), PyUnicode_InternFromString("_hooks")};
};
const KnownNames& names();

bool starts_with(const char* text, std::string_view start);
bool is_constant_type(const char* name);
bool is_library(PyTypeObject* type);
nb::object dict_of(PyTypeObject* type);
/// Whether these are the globals of a module of the library or of the standard library, whose locks and
/// caches are its own affair.
bool is_house(PyObject* globals);
/// Whether they are of a module that is installed, with the house or beside it.
bool is_installed(PyObject* globals);
/// Whether it is a name between two underscores and two; whether Python itself calls what has that name.
bool is_special_name(PyObject* key);
bool is_special(PyObject* key, PyObject* value);
/// How many members of a class and its bases that are written in Python, outside of the library, ran code may
/// read.
Py_ssize_t named_members(const Layout& l, PyTypeObject* type);

}  // namespace adjoint::bind::paths
