#include "bind/arguments.h"

#include <nanobind/nanobind.h>

#include "bind/object.h"
#include "bind/operators.h"
#include "bind/overrides.h"
#include "bind/replay_numbers.h"
#include "bind/words.h"
#include "runtime/random.h"
#include "transforms/interpreter.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

bool is_sequence(PyObject* o) {
  return PyTuple_Check(o) || PyList_Check(o) ||
         (PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o));
}
bool is_number(PyObject* o) {
  return PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o) || is_tracked(o);
}
bool is_whole(PyObject* o) { return PyLong_CheckExact(o) || (PyIndex_Check(o) && !PyFloat_Check(o)); }

/// Whether all elements of a list or tuple are as `fits` asks; of other sequences it is seen when they are
/// read.
template <class F>
bool all_of(PyObject* o, F&& fits) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) return true;
  PyObject** items = PySequence_Fast_ITEMS(o);
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); ++k)
    if (!fits(items[k])) return false;
  return true;
}

// --- Forms in Python: whether an object has one (fit_of), and an object for a Value (to_python). How a Value
// is made of an object
// --- is Arguments::set.

Fit fit_of(const ArgKind& kind, PyObject* o) {
  if (o == Py_None && kind.optional) return Fit::Exact;
  const auto when = [](bool yes, Fit fit) { return yes ? fit : Fit::No; };
  switch (kind.form) {
    case Form::Tensor:
      if (is_tensor(o)) return Fit::Exact;
      return when(is_number(o) || as_scalar(o), Fit::Converted);
    case Form::Scalar:
      if (is_number(o)) return Fit::Exact;
      return when(is_tensor(o) ? unwrap(o).numel() == 1 : as_scalar(o).has_value(), Fit::Converted);
    case Form::Int:
      if (PyLong_Check(o)) return PyBool_Check(o) ? Fit::No : Fit::Exact;
      if (is_tracked(o)) return when(is_whole(o), Fit::Exact);
      return when(is_whole(o), Fit::Converted);
    case Form::Float:
      if (is_tracked(o)) return Fit::Exact;
      if (PyFloat_Check(o) || PyLong_Check(o)) return PyBool_Check(o) ? Fit::Converted : Fit::Exact;
      // A tensor that is more than a number is for another form of the operator, which does not lose its
      // history.
      if (is_tensor(o)) return when(unwrap(o).dim() == 0 && !unwrap(o).requires_grad(), Fit::Converted);
      if (PyComplex_Check(o)) return Fit::No;
      return when(as_scalar(o).has_value(), Fit::Converted);
    case Form::Bool: {
      if (PyBool_Check(o)) return Fit::Exact;
      const auto s = PyFloat_Check(o) ? std::nullopt : as_scalar(o);
      return when(s && s->is_integral(), Fit::Converted);
    }
    case Form::Ints:
      if (PyLong_CheckExact(o)) return Fit::Exact;
      if (PyTuple_Check(o)) return when(all_of(o, is_whole), Fit::Exact);
      if (is_int(o)) return PyLong_Check(o) ? Fit::Exact : Fit::Converted;
      if (!is_sequence(o) || (is_tensor(o) && unwrap(o).dim() == 0)) return Fit::No;
      return when(all_of(o, is_whole), PyList_Check(o) ? Fit::Exact : Fit::Converted);
    case Form::Tensors:
      if (!is_sequence(o)) return Fit::No;
      return when(
          all_of(o, [&](PyObject* e) { return is_tensor(e) || (e == Py_None && kind.optional_elements); }),
          is_tensor(o) ? Fit::Converted : Fit::Exact);
    case Form::Floats:
      if (is_number(o)) return PyComplex_Check(o) ? Fit::No : Fit::Exact;
      return when(
          is_sequence(o) &&
              all_of(o, [](PyObject* e) { return PyFloat_Check(e) || PyIndex_Check(e) || as_scalar(e); }),
          Fit::Exact);
    case Form::Generator:
      return when(nb::isinstance<runtime::Generator>(nb::handle(o)), Fit::Exact);
    case Form::Type:
      return when(as_dtype(o).has_value(), Fit::Exact);
    case Form::Text:
      return when(PyUnicode_Check(o), Fit::Exact);
  }
  return Fit::No;
}

const char* expected_of(const ArgKind& kind) {
  switch (kind.form) {
    case Form::Tensor:
      return "Tensor";
    case Form::Scalar:
      return "Number";
    case Form::Int:
      return "int";
    case Form::Float:
      return "float";
    case Form::Bool:
      return "bool";
    case Form::Ints:
      return "tuple of ints";
    case Form::Tensors:
      return "tuple of Tensors";
    case Form::Floats:
      return "tuple of floats";
    case Form::Generator:
      return "Generator";
    case Form::Type:
      return "dtype";
    case Form::Text:
      return "str";
  }
  return "";
}

PyObject* interned(const std::string& name) { return PyUnicode_InternFromString(name.c_str()); }

/// What functions call their first argument.
const std::string& shown(const std::string& name) {
  static const std::string input = "input";
  return name == "self" ? input : name;
}

}  // namespace

PyObject* to_python(const ArgKind& kind, const Value& v) {
  if (!v.present) Py_RETURN_NONE;
  switch (kind.form) {
    case Form::Tensor:
      return v.tensor->is_wrapped() ? from_scalar(item(*v.tensor)) : wrap(*v.tensor);
    case Form::Tensors: {
      PyObject* list = PyTuple_New(static_cast<Py_ssize_t>(v.list.size));
      for (size_t i = 0; i < v.list.size; ++i) {
        const Tensor& t = v.tensors()[i];
        PyTuple_SET_ITEM(list, static_cast<Py_ssize_t>(i), t.defined() ? wrap(t) : Py_NewRef(Py_None));
      }
      return list;
    }
    case Form::Ints:
      return tuple_from(v.ints());
    case Form::Floats: {
      PyObject* list = PyTuple_New(static_cast<Py_ssize_t>(v.list.size));
      for (size_t i = 0; i < v.list.size; ++i)
        PyTuple_SET_ITEM(list, static_cast<Py_ssize_t>(i), PyFloat_FromDouble(v.floats()[i]));
      return list;
    }
    case Form::Generator:
      return nb::cast(v.generator, nb::rv_policy::reference).release().ptr();
    case Form::Text:
      return PyUnicode_FromStringAndSize(v.text().data(), static_cast<Py_ssize_t>(v.text().size()));
    case Form::Scalar:
      return from_scalar(v.scalar);
    case Form::Int:
      return PyLong_FromLongLong(v.i);
    case Form::Float:
      return PyFloat_FromDouble(v.d);
    case Form::Bool:
      return PyBool_FromLong(v.b);
    case Form::Type:
      return Py_NewRef(dtype_object(v.type));
  }
  Py_RETURN_NONE;
}

// --- Which way of calling fits --------------------------------------------------------------------

Alternate::Alternate(const Signature& s, const std::deque<Default>& d) : signature(&s) {
  for (const Default& each : d) defaults.push_back(each.value);
  if (s.op->elementwise && *s.op->name == '_' && *s.op->overloads) elements = s.op->elementwise->types;
  for (size_t i = 0; i < s.parameters.size(); ++i) {
    required |= uint32_t{!s.parameters[i].has_default} << i;
    names.push_back(interned(s.parameters[i].name));
    for (const std::string& other : s.parameters[i].synonyms)
      synonyms.emplace_back(interned(other), static_cast<int>(i));
  }
}

int Alternate::position_of(PyObject* name) const {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<int>(i);
  for (const auto& [other, i] : synonyms)
    if (other == name) return i;
  if (PyUnicode_CHECK_INTERNED(name)) return -1;
  // Names that programs put together are not interned, as those in their text are.
  for (size_t i = 0; i < names.size(); ++i)
    if (PyUnicode_Compare(names[i], name) == 0) return static_cast<int>(i);
  for (const auto& [other, i] : synonyms)
    if (PyUnicode_Compare(other, name) == 0) return i;
  return -1;
}

[[gnu::hot]] Fit Alternate::match(const Given& given, Match& m, Refusal& refusal) const {
  const std::vector<Parameter>& parameters = signature->parameters;
  const int positional = signature->positional, last = positional - 1;
  const auto no = [&](Refusal::Why why, int parameter, PyObject* what = nullptr) {
    refusal = {why, parameter, what};
    return Fit::No;
  };
  Py_ssize_t placed = given.nargs;
  m.spelt = 0;
  if (given.nargs > positional) {
    if (last < 0 || parameters[last].kind->form != Form::Ints || !is_int(given.args[last]))
      return no(Refusal::Why::TooMany, 0);
    for (Py_ssize_t a = last; a < given.nargs; ++a)
      if (!is_whole(given.args[a])) return no(Refusal::Why::Type, last, given.args[a]);
    m.spelt = given.nargs - last;
    m.first_spelt = given.args + last;
    placed = positional;
  }
  for (Py_ssize_t i = 0; i < placed; ++i) m.found[i] = given.args[i];
  m.given = (uint32_t{1} << placed) - 1;
  for (Py_ssize_t k = 0; k < given.keywords(); ++k) {
    if (k == given.out) continue;
    PyObject* name = PyTuple_GET_ITEM(given.kwnames, k);
    const int at = position_of(name);
    if (at < 0) return no(Refusal::Why::Keyword, 0, name);
    if (m.given >> at & 1) return no(Refusal::Why::Twice, at);
    if (m.spelt && !parameters[at].keyword_only) return no(Refusal::Why::SpeltWithKeywords, 0);
    m.found[at] = given.args[given.nargs + k];
    m.given |= uint32_t{1} << at;
  }
  const uint32_t missing = required & ~m.given;
  Fit worst = Fit::Exact;
  bool any_tensor = false;
  uint32_t types = 0;
  int number = -1;  // a number in a tensor's place: only beside a tensor
  for (uint32_t rest = m.given; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    if (m.spelt && i == last) continue;
    const ArgKind& kind = *parameters[i].kind;
    const Fit f = fit_of(kind, m.found[i]);
    if (f == Fit::No) {
      if (missing && std::countr_zero(missing) < i) break;
      return no(Refusal::Why::Type, i, m.found[i]);
    }
    worst = std::min(worst, f);
    if (kind.form != Form::Tensor) continue;
    if (f == Fit::Exact && m.found[i] != Py_None) {
      any_tensor = true;
      types |= types::bit(unwrap(m.found[i]).dtype());
    }
    if (f == Fit::Converted && number < 0 && !kind.optional) number = i;
  }
  if (missing) return no(Refusal::Why::Missing, std::countr_zero(missing));
  if (number >= 0 && !any_tensor) return no(Refusal::Why::Type, number, m.found[number]);
  if (elements && !(elements & types)) return no(Refusal::Why::Elements, 0, m.found[0]);
  return worst;
}

std::string Alternate::text() const {
  std::string s = signature->text;
  for (size_t at = 0; (at = s.find("self", at)) != std::string::npos; at += 5)
    if ((at == 0 || s[at - 1] == ' ') && (at + 4 == s.size() || s[at + 4] == ',')) s.replace(at, 4, "input");
  return s;
}

std::string Alternate::explain(const Refusal& r, const Given& given) const {
  const Parameter* p =
      signature->parameters.empty() ? nullptr : &signature->parameters[static_cast<size_t>(r.parameter)];
  switch (r.why) {
    case Refusal::Why::TooMany:
      return adjoint::text("takes ", signature->positional, " positional argument",
                           signature->positional == 1 ? "" : "s", " but ", given.nargs, " were given");
    case Refusal::Why::Keyword:
      return adjoint::text("got an unexpected keyword argument '", words(r.given), "'; it takes (", text(),
                           ")");
    case Refusal::Why::Twice:
      return adjoint::text("got multiple values for argument '", shown(p->name), "'");
    case Refusal::Why::Missing:
      return adjoint::text("missing required argument '", shown(p->name), "' (position ", r.parameter + 1,
                           "), which must be ", expected_of(*p->kind));
    case Refusal::Why::Elements:
      return adjoint::text("is not implemented for '",
                           is_tensor(r.given) ? name_of(unwrap(r.given).dtype()) : "these types", "'");
    case Refusal::Why::SpeltWithKeywords:
      return "sizes spelt out take no keyword for another argument that may be given by place";
    case Refusal::Why::Type:
      break;
  }
  if (p->kind->form == Form::Tensors && is_sequence(r.given) &&
      (PyTuple_Check(r.given) || PyList_Check(r.given))) {
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(r.given); ++k)
      if (PyObject* e = PySequence_Fast_ITEMS(r.given)[k]; !is_tensor(e))
        return adjoint::text("expected Tensor as element ", k, " in argument '", shown(p->name),
                             "', but got ", Py_TYPE(e)->tp_name);
  }
  const std::string expected = adjoint::text("argument '", shown(p->name), "' (position ", r.parameter + 1,
                                             ") must be ", expected_of(*p->kind));
  if (p->kind->form == Form::Ints && (PyTuple_Check(r.given) || PyList_Check(r.given)))
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(r.given); ++k)
      if (PyObject* e = PySequence_Fast_ITEMS(r.given)[k]; !is_whole(e))
        return adjoint::text(expected, ", but found element of type ", Py_TYPE(e)->tp_name, " at pos ", k);
  return adjoint::text(expected, ", not ", Py_TYPE(r.given)->tp_name);
}

}  // namespace adjoint::bind
