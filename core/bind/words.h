// Strings of Python in messages of the core.
#pragma once

#include <Python.h>

#include <string>

namespace adjoint::bind {

/// A string in UTF-8. What has none is escaped, as "\udc80" in the name of a file that is no UTF-8.
inline std::string words(PyObject* text) {
  Py_ssize_t n = 0;
  if (const char* s = PyUnicode_AsUTF8AndSize(text, &n)) return {s, static_cast<size_t>(n)};
  PyErr_Clear();
  PyObject* bytes =
      PyUnicode_Check(text) ? PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace") : nullptr;
  if (!bytes) {
    PyErr_Clear();
    return "?";
  }
  std::string s(PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes)));
  Py_DECREF(bytes);
  return s;
}

}  // namespace adjoint::bind
