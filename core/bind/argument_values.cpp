// Values of arguments. Those of just the types that are asked for, as nearly all are, are matched and read in
// one go, without memory; others are converted once `Alternate::match` has said that they fit. Start reading
// at `Arguments::set`.
#include <nanobind/nanobind.h>

#include "bind/arguments.h"
#include "bind/object.h"
#include "bind/operators.h"
#include "bind/overrides.h"
#include "bind/replay_numbers.h"
#include "runtime/random.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

/// Read an int as nearly all are: of the builtin type, and of 64 bits.
inline bool read_int(PyObject* o, int64_t& i) {
  if (!PyLong_CheckExact(o)) return false;
  int overflow = 0;
  i = PyLong_AsLongLongAndOverflow(o, &overflow);
  return !overflow;
}

}  // namespace

[[gnu::always_inline]] inline void Arguments::take(Value& v, const Parameter& p, const Tensor& t) {
  v.tensor = &t;
  elements_ += t.numel();
  if (p.index == 0) like_ = t.dtype();
  mixed_ |= t.dtype() != like_;
}

[[gnu::always_inline]] inline int64_t* Arguments::room_for(size_t n, Value& v) {
  int64_t* to = ints_ + ints_used_;
  if (n <= std::size(ints_) - ints_used_) [[likely]]
    ints_used_ += n;
  else
    to = made().ints.emplace_back(new int64_t[n]).get();
  v.present = true;
  v.list = {to, n};
  return to;
}

/// Ints as nearly all are; false for others.
[[gnu::always_inline]] inline bool Arguments::set_ints(Value& v, PyObject* const* items, Py_ssize_t count) {
  int64_t* const to = room_for(static_cast<size_t>(count), v);
  for (Py_ssize_t k = 0; k < count; ++k)
    if (!read_int(items[k], to[k])) return false;
  return true;
}

/// A value of just the type that is asked for, as nearly all are; false for others.
[[gnu::always_inline]] inline bool Arguments::set(const Parameter& p, PyObject* o) {
  Value& v = values_[p.index];
  if (o == Py_None && p.kind->optional) {
    v.present = false;
    return true;
  }
  switch (p.kind->form) {
    case Form::Tensor:
      if (!is_plain(o)) return false;
      take(v, p, unwrap(o));
      break;
    case Form::Scalar:
      if (int64_t i; read_int(o, i))
        v.scalar = Scalar(i);
      else if (PyFloat_CheckExact(o))
        v.scalar = Scalar(PyFloat_AS_DOUBLE(o));
      else
        return false;
      break;
    case Form::Int:
      if (!read_int(o, v.i)) return false;
      break;
    case Form::Float:
      if (int64_t i; read_int(o, i))
        v.d = static_cast<double>(i);
      else if (PyFloat_CheckExact(o))
        v.d = PyFloat_AS_DOUBLE(o);
      else
        return false;
      break;
    case Form::Bool:
      if (!PyBool_Check(o)) return false;
      v.b = o == Py_True;
      break;
    case Form::Ints:
      if (PyTuple_Check(o) || PyList_Check(o))
        return set_ints(v, PySequence_Fast_ITEMS(o), PySequence_Fast_GET_SIZE(o));
      if (PyLong_CheckExact(o)) return set_ints(v, &o, 1);
      return false;
    case Form::Type:
      if (const std::optional<DType> type = as_dtype(o))
        v.type = *type;
      else
        return false;
      break;
    default:
      return false;
  }
  v.present = true;
  return true;
}

/// The others.
[[gnu::noinline]] void Arguments::convert(const Parameter& p, PyObject* o) {
  Value& v = values_[p.index];
  v.present = true;
  switch (p.kind->form) {
    case Form::Tensor:
      if (is_tensor(o)) {
        take(v, p, unwrap(o));
      } else {
        v.tensor = std::construct_at(&tensors_[p.index], operand(o, like_));
        numbers_ |= uint32_t{1} << p.index;
      }
      return;
    case Form::Scalar:
      v.scalar = is_tensor(o) ? item(unwrap(o), "item") : *as_scalar(o);
      return;
    case Form::Int:
      v.i = as_int(o, p.name.c_str());
      return;
    case Form::Float:
      v.d = as_double(o, p.name.c_str());
      return;
    case Form::Bool:
      v.b = is_tracked(o) ? PyObject_IsTrue(o) == 1 : as_scalar(o)->as_int() != 0;
      return;
    case Form::Ints: {
      if (!PyTuple_Check(o) && !PyList_Check(o) && is_int(o)) return convert_ints(p, &o, 1);
      const nb::object all = nb::steal(PySequence_Tuple(o));  // __index__ may change a list
      if (!all.is_valid()) throw PythonError{};
      return convert_ints(p, PySequence_Fast_ITEMS(all.ptr()), PyTuple_GET_SIZE(all.ptr()));
    }
    case Form::Tensors: {
      PyObject* const fast = PySequence_Fast(o, "");
      if (!fast) throw PythonError{};
      const nb::object owner = nb::steal(fast);
      Tensors& list = made().lists.emplace_back();
      const Py_ssize_t n = PySequence_Fast_GET_SIZE(fast);
      list.reserve(static_cast<size_t>(n));
      for (Py_ssize_t k = 0; k < n; ++k) {
        PyObject* e = PySequence_Fast_GET_ITEM(fast, k);
        if (is_tensor(e))
          list.push_back(unwrap(e));
        else if (e == Py_None && p.kind->optional_elements)
          list.emplace_back();
        else
          fail<TypeError>("expected Tensor as element ", k, " in argument '", p.name, "' of ", op_->name,
                          "(), but got ", Py_TYPE(e)->tp_name);
        if (list.back().defined()) elements_ += list.back().numel();
      }
      v.list = {list.data(), list.size()};
      return;
    }
    case Form::Floats: {
      std::vector<double>& list = made().floats.emplace_back();
      if (!PySequence_Check(o)) {
        list.push_back(as_double(o, p.name.c_str()));
      } else {
        PyObject* const fast = PySequence_Fast(o, "");
        if (!fast) throw PythonError{};
        const nb::object owner = nb::steal(fast);
        for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(fast); ++k)
          list.push_back(as_double(PySequence_Fast_GET_ITEM(fast, k), p.name.c_str()));
      }
      v.list = {list.data(), list.size()};
      return;
    }
    case Form::Generator:
      v.generator = nb::cast<runtime::Generator*>(nb::handle(o));
      return;
    case Form::Type:
      return;  // `set` knows all
    case Form::Text: {
      Py_ssize_t n = 0;
      const char* s = PyUnicode_AsUTF8AndSize(o, &n);
      if (!s) throw PythonError{};
      v.list = {s, static_cast<size_t>(n)};
      return;
    }
  }
}

void Arguments::convert_ints(const Parameter& p, PyObject* const* items, Py_ssize_t count) {
  int64_t* const to = room_for(static_cast<size_t>(count), values_[p.index]);
  for (Py_ssize_t k = 0; k < count; ++k)
    if (!read_int(items[k], to[k]))
      to[k] = as_int(items[k], text(op_->name, "(): argument '", p.name, "'").c_str());
}

[[gnu::hot]] bool Arguments::read(const Alternate& way, const Given& given) {
  if (way.elements) return false;
  const Signature& s = *way.signature;
  const Parameter* const parameters = s.parameters.data();
  op_ = s.op;
  std::uninitialized_copy(way.defaults.begin(), way.defaults.end(), values_);
  uint32_t given_here = 0;
  Py_ssize_t placed = given.nargs;
  const bool spelt = placed > s.positional;
  if (spelt) {
    placed = s.positional - 1;
    if (placed < 0 || parameters[placed].kind->form != Form::Ints ||
        !set_ints(values_[parameters[placed].index], given.args + placed, given.nargs - placed))
      return false;
    given_here = uint32_t{1} << placed;
  }
  for (Py_ssize_t i = 0; i < placed; ++i)
    if (!set(parameters[i], given.args[i])) return false;
  given_here |= (uint32_t{1} << placed) - 1;
  for (Py_ssize_t k = 0; k < given.keywords(); ++k) {
    if (k == given.out) continue;
    const int at = way.position_of(PyTuple_GET_ITEM(given.kwnames, k));
    if (at < 0 || given_here >> at & 1 || (spelt && !parameters[at].keyword_only) ||
        !set(parameters[at], given.args[given.nargs + k]))
      return false;
    given_here |= uint32_t{1} << at;
  }
  return !(way.required & ~given_here);
}

void Arguments::read(const Alternate& way, const Match& m) {
  const Signature& s = *way.signature;
  op_ = s.op;
  elements_ = 0;
  mixed_ = false;
  like_ = DType::Int64;
  std::uninitialized_copy(way.defaults.begin(), way.defaults.end(), values_);
  for (uint32_t rest = m.given; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const Parameter& p = s.parameters[static_cast<size_t>(i)];
    if (m.spelt && i == s.positional - 1)
      convert_ints(p, m.first_spelt, m.spelt);
    else if (!set(p, m.found[i]))
      convert(p, m.found[i]);
  }
  // A number beside tensors of several types meets the one that they promote to: it stays as it is until
  // then.
  if (mixed_ && numbers_) [[unlikely]]
    for (size_t i = 0; i < s.parameters.size(); ++i)
      if (const int at = s.parameters[i].index; numbers_ >> at & 1)
        tensors_[at] = operand(m.found[i], DType::Bool);
}

}  // namespace adjoint::bind
