#include "bind/plain_call.h"

#include <cstring>

#include "bind/arguments.h"
#include "bind/object.h"
#include "bind/operators.h"
#include "bind/overrides.h"

namespace adjoint::bind {

namespace {

/// An integer as it is written; false for all that would have to be converted.
bool plain_int(PyObject* o, int64_t& i) {
  if (!PyLong_CheckExact(o)) return false;
  int overflow = 0;
  i = PyLong_AsLongLongAndOverflow(o, &overflow);
  return !overflow;
}

bool plain_number(PyObject* o, Scalar& number) {
  int64_t i;
  if (PyFloat_CheckExact(o))
    number = Scalar(PyFloat_AS_DOUBLE(o));
  else if (plain_int(o, i))
    number = Scalar(i);
  else
    return false;
  return true;
}

bool plain_ints(PyObject* const* items, Py_ssize_t n, Dims& to) {
  to.resize(static_cast<size_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i)
    if (!plain_int(items[i], to[static_cast<size_t>(i)])) return false;
  return true;
}

/// Integers as one sequence, or spelt out.
bool plain_sizes(PyObject* const* args, Py_ssize_t n, Dims& to) {
  if (n == 1 && (PyTuple_Check(args[0]) || PyList_CheckExact(args[0])))
    return plain_ints(PySequence_Fast_ITEMS(args[0]), PySequence_Fast_GET_SIZE(args[0]), to);
  return n > 0 && plain_ints(args, n, to);
}

/// A value that is of this form already.
bool plain_value(const ArgKind& kind, PyObject* o, Value& v, Dims& ints) {
  v.present = true;
  switch (kind.form) {
    case Form::Tensor:
      if (!is_plain(o)) return false;
      v.tensor = &unwrap(o);
      return true;
    case Form::Scalar:
      return plain_number(o, v.scalar);
    case Form::Int:
      return plain_int(o, v.i);
    case Form::Float:
      if (!PyFloat_CheckExact(o)) return false;
      v.d = PyFloat_AS_DOUBLE(o);
      return true;
    case Form::Ints:
      if (!plain_sizes(&o, 1, ints)) return false;
      v.list = {ints.data(), ints.size()};
      return true;
    default:
      return false;
  }
}

}  // namespace

PlainForm::PlainForm(PyObject* described) {
  if (!PyTuple_Check(described) || PyTuple_GET_SIZE(described) < 1 ||
      !(op_ = operator_of(PyTuple_GET_ITEM(described, 0))))
    fail<TypeError>("a plain form is a tuple of an operator and its arguments");
  for (const Default& d : signatures_of(*op_).defaults) values_.push_back(d.value);
  given_.assign(values_.size(), kConstant);
  int lists = 0;
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(described); ++i) {
    PyObject* o = PyTuple_GET_ITEM(described, i);
    const auto k = static_cast<size_t>(i - 1);
    Dims none;
    if (k >= values_.size())
      fail<TypeError>(op_->name, "(): a plain form has more arguments than the operator");
    lists += op_->kinds[k]->form == Form::Ints;
    if (!PyUnicode_Check(o)) {
      if (!plain_value(*op_->kinds[k], o, values_[k], none))
        fail<TypeError>(op_->name, "(): argument ", k, " of a plain form is of another type");
    } else if (const char* text = PyUnicode_AsUTF8(o); std::strcmp(text, "size") == 0) {
      given_[k] = kSize;
      count_ = -1;
    } else {
      given_[k] = text[0] - '0';
      whole_ |= uint32_t{text[1] == 'i'} << k;
      if (count_ >= 0) count_ = std::max<Py_ssize_t>(count_, given_[k] + 1);
    }
  }
  if (lists > 1) fail<TypeError>(op_->name, "(): a plain form has one list at most");
  int i = 0;
  each_parameter(op_->order, [&](const ParameterText& p) {
    if (p.name() == "dtype") type_ = i;
    if (p.name() == "requires_grad") requires_grad_ = i;
    ++i;
  });
}

PyObject* PlainForm::call(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) const {
  if (count_ >= 0 && nargs != count_) return nullptr;
  const size_t n = values_.size();
  union Room {  // as many of them are there as the operator has arguments
    Value values[kMostArguments];
    Room() {}
  } room;
  Value* const values = room.values;
  std::uninitialized_copy_n(values_.data(), n, values);
  Dims ints;
  for (size_t k = 0; k < n; ++k) {
    if (given_[k] == kConstant) continue;
    if (given_[k] == kSize) {
      if (!plain_sizes(args, nargs, ints)) return nullptr;
      values[k].present = true;
      values[k].list = {ints.data(), ints.size()};
    } else if ((whole_ >> k & 1 && !PyLong_CheckExact(args[given_[k]])) ||
               !plain_value(*op_->kinds[k], args[given_[k]], values[k], ints)) {
      return nullptr;
    }
  }
  static PyObject* const dtype = PyUnicode_InternFromString("dtype");
  static PyObject* const requires_grad = PyUnicode_InternFromString("requires_grad");
  for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); ++i) {
    PyObject* const name = PyTuple_GET_ITEM(kwnames, i);
    PyObject* const o = args[nargs + i];
    if (name == dtype && type_ >= 0) {
      const std::optional<DType> type = as_dtype(o);
      if (!type) return nullptr;
      values[type_].present = true;
      values[type_].type = *type;
    } else if (name == requires_grad && requires_grad_ >= 0 && PyBool_Check(o)) {
      values[requires_grad_].b = o == Py_True;
    } else {
      return nullptr;
    }
  }
  try {
    Results r;
    op_->boxed(values, r);
    return wrap(std::move(r.one));
  } catch (const Error&) {
    return nullptr;  // the function says it with the names that the program used
  } catch (...) {
    return raise();
  }
}

PlainForms plain_forms(PyObject* descriptions) {
  PlainForms forms;
  if (!PyList_Check(descriptions)) fail<TypeError>("plain forms are a list of tuples");
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(descriptions); ++i)
    forms.emplace_back(PyList_GET_ITEM(descriptions, i));
  return forms;
}

PyObject* call_plain(const PlainForms& forms, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  for (const PlainForm& form : forms)
    if (PyObject* r = form.call(args, nargs, kwnames); r || PyErr_Occurred()) return r;
  return nullptr;
}

}  // namespace adjoint::bind
