// Calls of a composition that are calls of one row: zeros(2, 3) is _zeros([2, 3]), and zeros_like(x) is
// _full_like(x, 0).
//
// A function that makes a tensor is written in Python, for all the ways in which its arguments may be given.
// Nearly every call gives them in one: sizes as integers, a tensor, a number. The function says which row
// that is (`plain` in adjoint/_tensor/creation.py), and such calls go there at once. Others, and those that
// fail, go to the function. Start reading at `PlainForm`.
#pragma once

#include <Python.h>

#include <vector>

#include "dispatch/operator.h"

namespace adjoint::bind {

/// One such form.
class PlainForm {
 public:
  /// From (operator, argument, …): an argument is a number; "size", all that is given by place, spelt out or
  /// as one sequence; or "0", "1" …, what is given there, with an i an integer.
  explicit PlainForm(PyObject* described);
  /// The result; null without an error where the arguments are others, or the call would fail.
  PyObject* call(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) const;

 private:
  static constexpr int kConstant = -1, kSize = -2;
  const Operator* op_;
  std::vector<Value> values_;           // what is not given
  std::vector<int> given_;              // for each argument of the row where it is given, or what it is
  uint32_t whole_ = 0;                  // those that have to be integers, as bits
  Py_ssize_t count_ = 0;                // arguments by place; -1: any number
  int type_ = -1, requires_grad_ = -1;  // which arguments may be given by keyword
};

using PlainForms = std::vector<PlainForm>;

/// The forms in a list of descriptions.
PlainForms plain_forms(PyObject* descriptions);
/// The result by one of them; null without an error where none fits.
PyObject* call_plain(const PlainForms& forms, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);

}  // namespace adjoint::bind
