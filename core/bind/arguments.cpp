#include "bind/arguments.h"

#include <cmath>

#include "bind/object.h"
#include "bind/operators.h"

namespace adjoint::bind {

namespace {

const char* expected_of(ArgKind kind) {
  switch (kind) {
    case ArgKind::Tensor: case ArgKind::OptionalTensor: return "Tensor";
    case ArgKind::Scalar: case ArgKind::OptionalScalar: return "Number";
    case ArgKind::Int: case ArgKind::OptionalInt: return "int";
    case ArgKind::Float: case ArgKind::OptionalFloat: return "float";
    case ArgKind::Bool: case ArgKind::OptionalBool: return "bool";
    case ArgKind::Ints: case ArgKind::OptionalInts: return "tuple of ints";
    case ArgKind::Tensors: return "tuple of Tensors";
    case ArgKind::Type: case ArgKind::OptionalType: return "dtype";
    default: return "str";
  }
}

bool optional(ArgKind k) {
  return k == ArgKind::OptionalTensor || k == ArgKind::OptionalScalar || k == ArgKind::OptionalInt || k == ArgKind::OptionalFloat ||
         k == ArgKind::OptionalBool || k == ArgKind::OptionalInts || k == ArgKind::OptionalType || k == ArgKind::OptionalText;
}

std::string trim(std::string s) {
  const size_t b = s.find_first_not_of(' ');
  if (b == std::string::npos) return "";
  return s.substr(b, s.find_last_not_of(' ') - b + 1);
}

// NumPy's names for the same things.
bool names_match(const std::string& parameter, const char* given) {
  if (parameter == given) return true;
  if (parameter == "self") return !std::strcmp(given, "input") || !std::strcmp(given, "x");
  if (parameter == "dim") return !std::strcmp(given, "axis");
  if (parameter == "keepdim") return !std::strcmp(given, "keepdims");
  if (parameter == "other") return !std::strcmp(given, "x2");
  if (parameter == "size") return !std::strcmp(given, "shape");
  return false;
}

}  // namespace

Signature::Signature(const Operator& op) {
  std::string_view rest = op.signature;
  bool keyword_only = false;
  size_t kind = 0;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= rest.size(); ++i) {
    if (i < rest.size() && (rest[i] == '(' || rest[i] == '[')) ++depth;
    if (i < rest.size() && (rest[i] == ')' || rest[i] == ']')) --depth;
    if (i < rest.size() && (rest[i] != ',' || depth)) continue;
    std::string part = trim(std::string(rest.substr(start, i - start)));
    start = i + 1;
    if (part.empty()) continue;
    if (part == "*") {
      keyword_only = true;
      continue;
    }
    Parameter p;
    const size_t eq = part.find('=');
    p.text = trim(part.substr(0, eq));
    p.name = PyUnicode_InternFromString(p.text.c_str());
    p.kind = kind < op.kinds.size() ? op.kinds[kind] : ArgKind::Tensor;
    ++kind;
    p.has_default = eq != std::string::npos;
    if (p.has_default) p.default_text = trim(part.substr(eq + 1));
    p.keyword_only = keyword_only;
    if (!keyword_only) ++positional;
    parameters.push_back(std::move(p));
  }
  if (kind != op.kinds.size())
    fail("the signature of operator '", op.name, "' names ", kind, " parameters but its forward takes ", op.kinds.size());
}

Arguments::~Arguments() = default;

void Arguments::refuse(int i, PyObject* o, const char* expected) const {
  fail<TypeError>(op_.name, "(): argument '", signature_.parameters[i].text, "' (position ", i + 1, ") must be ", expected, ", not ",
                  Py_TYPE(o)->tp_name);
}

void Arguments::set_ints(int i, Dims dims) {
  Dims* to = ints_used_ < 4 ? &ints_[ints_used_++] : &more_ints_.emplace_back();
  *to = std::move(dims);
  values_[i].present = true;
  values_[i].list = {to->data(), to->size()};
}

void Arguments::set(int i, PyObject* o) {
  const Parameter& p = signature_.parameters[i];
  Value& v = values_[i];
  if (o == Py_None && optional(p.kind)) {
    v.present = false;
    return;
  }
  v.present = true;
  switch (p.kind) {
    case ArgKind::Tensor:
    case ArgKind::OptionalTensor: {
      if (is_tensor(o)) {
        any_tensor_ = true;
        v.tensor = &unwrap(o);
        elements_ += unwrap(o).numel();
        if (i == 0) like_ = unwrap(o).dtype();
        mixed_ |= unwrap(o).dtype() != like_;
        return;
      }
      tensors_[i] = operand(o, like_);
      if (!tensors_[i].defined()) refuse(i, o, "Tensor");
      v.tensor = &tensors_[i];
      return;
    }
    case ArgKind::Scalar:
    case ArgKind::OptionalScalar: {
      if (is_tensor(o) && unwrap(o).numel() == 1) { v.scalar = item(unwrap(o)); return; }
      const auto s = as_scalar(o);
      if (!s) refuse(i, o, "Number");
      v.scalar = *s;
      return;
    }
    case ArgKind::Int:
    case ArgKind::OptionalInt:
      if (!PyIndex_Check(o) || PyFloat_Check(o) || PyBool_Check(o)) refuse(i, o, "int");
      v.i = as_int(o, p.text.c_str());
      return;
    case ArgKind::Float:
    case ArgKind::OptionalFloat:
      // A tensor that is more than a number is for an overload, which does not lose its history.
      if (PyComplex_Check(o) || (is_tensor(o) && (unwrap(o).dim() > 0 || unwrap(o).requires_grad()))) refuse(i, o, "float");
      v.d = as_double(o, p.text.c_str());
      return;
    case ArgKind::Bool:
    case ArgKind::OptionalBool: {
      if (o == Py_True) { v.b = true; return; }
      if (o == Py_False) { v.b = false; return; }
      const auto s = as_scalar(o);
      if (!s || !s->is_integral()) refuse(i, o, "bool");
      v.b = s->as_int() != 0;
      return;
    }
    case ArgKind::Ints:
    case ArgKind::OptionalInts:
      if (!is_int(o) && (!PySequence_Check(o) || PyUnicode_Check(o)) ) refuse(i, o, "tuple of ints");
      set_ints(i, as_dims(o, (std::string(op_.name) + "(): argument '" + p.text + "'").c_str()));
      return;
    case ArgKind::Tensors: {
      if (!PySequence_Check(o)) refuse(i, o, "tuple of Tensors");
      std::vector<Tensor> list;
      PyObject* fast = PySequence_Fast(o, "");
      if (!fast) throw PythonError{};
      struct Release { PyObject* p; ~Release() { Py_DECREF(p); } } release{fast};
      const Py_ssize_t n = PySequence_Fast_GET_SIZE(fast);
      list.reserve(static_cast<size_t>(n));
      for (Py_ssize_t k = 0; k < n; ++k) {
        PyObject* e = PySequence_Fast_GET_ITEM(fast, k);
        // Of the indices of a tensor some may be left out.
        if (e == Py_None && *op_.name == '_') list.emplace_back();
        else if (is_tensor(e)) list.push_back(unwrap(e));
        else fail<TypeError>("expected Tensor as element ", k, " in argument '", p.text, "' of ", op_.name, "(), but got ", Py_TYPE(e)->tp_name);
        if (list.back().defined()) elements_ += list.back().numel();
      }
      lists_.push_back(std::move(list));
      v.list = {lists_.back().data(), lists_.back().size()};
      return;
    }
    case ArgKind::Type:
    case ArgKind::OptionalType: {
      const auto d = as_dtype(o);
      if (!d) refuse(i, o, "dtype");
      v.type = *d;
      return;
    }
    case ArgKind::Text:
    case ArgKind::OptionalText: {
      Py_ssize_t n = 0;
      const char* s = PyUnicode_Check(o) ? PyUnicode_AsUTF8AndSize(o, &n) : nullptr;
      if (!s) { PyErr_Clear(); refuse(i, o, "str"); }
      v.list = {s, static_cast<size_t>(n)};
      return;
    }
  }
}

void Arguments::set_default(int i) {
  const Parameter& p = signature_.parameters[i];
  Value& v = values_[i];
  const std::string& d = p.default_text;
  v.present = d != "None";
  if (!v.present) return;
  switch (p.kind) {
    case ArgKind::Bool: case ArgKind::OptionalBool: v.b = d == "True"; return;
    case ArgKind::Int: case ArgKind::OptionalInt: v.i = std::stoll(d); return;
    case ArgKind::Float: case ArgKind::OptionalFloat:
      v.d = d == "inf" ? HUGE_VAL : d == "-inf" ? -HUGE_VAL : d == "nan" ? std::nan("") : std::stod(d);
      return;
    case ArgKind::Scalar: case ArgKind::OptionalScalar:
      v.scalar = d == "True" ? Scalar(true) : d == "False" ? Scalar(false)
                 : d.find_first_of(".en") == std::string::npos ? Scalar(static_cast<int64_t>(std::stoll(d))) : Scalar(std::stod(d));
      return;
    case ArgKind::Text: case ArgKind::OptionalText:
      v.list = {d.data() + 1, d.size() - 2};
      return;
    case ArgKind::Ints: case ArgKind::OptionalInts: {
      Dims dims;
      for (size_t at = 0; at < d.size();) {
        if (d[at] == '-' || std::isdigit(static_cast<unsigned char>(d[at]))) {
          size_t used = 0;
          dims.push_back(std::stoll(d.substr(at), &used));
          at += used;
        } else {
          ++at;
        }
      }
      set_ints(i, dims);
      return;
    }
    default:
      fail("operator '", op_.name, "': the default of '", p.text, "' cannot be read: ", d);
  }
}

void Arguments::parse(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  const int n = static_cast<int>(signature_.parameters.size());
  const int positional = signature_.positional;
  lists_.reserve(2);
  Py_ssize_t given = nargs;
  // Sizes may be spelt out: x.view(2, 3), x.permute(1, 0).
  const int last = positional - 1;
  if (last >= 0 && nargs >= positional && nargs > last) {
    const ArgKind k = signature_.parameters[last].kind;
    if ((k == ArgKind::Ints || k == ArgKind::OptionalInts) && is_int(args[last]) && (nargs > positional)) {
      Dims dims;
      for (Py_ssize_t a = last; a < nargs; ++a) dims.push_back(as_int(args[a], op_.name));
      set_ints(last, dims);
      given = last;
      for (int i = 0; i < last; ++i) set(i, args[i]);
      for (int i = positional; i < n; ++i) {
        if (!signature_.parameters[i].has_default) fail<TypeError>(op_.name, "() missing required argument '", signature_.parameters[i].text, "'");
        set_default(i);
      }
      if (kwnames && PyTuple_GET_SIZE(kwnames)) fail<TypeError>(op_.name, "(): sizes spelt out take no keyword arguments");
      return;
    }
  }
  if (given > positional)
    fail<TypeError>(op_.name, "() takes ", positional, " positional arguments but ", given, " were given");
  const Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  PyObject* found[kMost] = {};
  for (int i = 0; i < given; ++i) found[i] = args[i];
  for (Py_ssize_t k = 0; k < keywords; ++k) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, k);
    int at = -1;
    for (int i = 0; i < n; ++i)
      if (signature_.parameters[i].name == name) at = i;
    if (at < 0) {
      const char* text = PyUnicode_AsUTF8(name);
      for (int i = 0; i < n && at < 0; ++i)
        if (names_match(signature_.parameters[i].text, text)) at = i;
      if (at < 0) fail<TypeError>(op_.name, "() got an unexpected keyword argument '", text, "'; it takes (", op_.signature, ")");
    }
    if (found[at]) fail<TypeError>(op_.name, "() got multiple values for argument '", signature_.parameters[at].text, "'");
    found[at] = args[nargs + k];
  }
  for (int i = 0; i < n; ++i) {
    if (found[i]) set(i, found[i]);
    else if (signature_.parameters[i].has_default) set_default(i);
    else
      fail<TypeError>(op_.name, "() missing required argument '", signature_.parameters[i].text, "' (position ", i + 1, "), which must be ",
                      expected_of(signature_.parameters[i].kind));
  }
  // A number beside tensors of several types meets the one that they promote to: it stays as it is until then.
  if (mixed_)
    for (int i = 0; i < n; ++i)
      if (tensors_[i].defined()) tensors_[i] = operand(found[i], DType::Bool);
  // Numbers stand in for tensors only beside a tensor.
  if (!any_tensor_)
    for (int i = 0; i < n; ++i)
      if (signature_.parameters[i].kind == ArgKind::Tensor && found[i]) refuse(i, found[i], "Tensor");
}

}  // namespace adjoint::bind
