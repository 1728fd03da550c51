// Objects that stand for a float or an int of the program while it is run to find out what it does with it.
//
// They are no floats, so that nothing reads their value but through what is here: arithmetic and comparisons
// with other numbers, which are noted; tensors' operators, which take them (`given_on`); and whoever asks for
// the value itself (`float(t)`, `math.sqrt(t)`, `range(n)`, `print`), who gets it, and from then on it has to
// be that value. `isinstance` takes them for floats and ints. What else would tell the difference ends the
// attempt. When nobody tracks any more they go on as plain numbers. Start reading at `binary`.
#include "bind/replay_numbers.h"

#include <cmath>

#include "bind/caster.h"
#include "bind/object.h"
#include "for_size.h"
#include "replay/trace.h"

namespace nb = nanobind;

namespace adjoint::bind {

PyTypeObject *tracked_float = nullptr, *tracked_int = nullptr;

namespace {

using replay::NumberNode;
using Op = NumberNode::Op;

struct Tracked {
  PyObject_HEAD Scalar value;
  int32_t node;
  uint64_t by;
};

/// Who tracks; Python's lock is held. Each attempt has its number, so that what outlives it is not mixed up.
Ref<replay::Tracer>& tracer() {
  static Ref<replay::Tracer>& t = *new Ref<replay::Tracer>;
  return t;
}
uint64_t attempt = 0;

Tracked* of(PyObject* o) { return reinterpret_cast<Tracked*>(o); }
replay::Tracer* tracing(PyObject* o) {
  return tracer() && of(o)->by == attempt && tracer()->trace.refused.empty() ? tracer().get() : nullptr;
}

PyObject* make(const Scalar& value, int32_t node) {
  PyTypeObject* const type = value.is_integral() ? tracked_int : tracked_float;
  PyObject* o = type->tp_alloc(type, 0);
  if (!o) return nullptr;
  new (&of(o)->value) Scalar(value);
  of(o)->node = node;
  of(o)->by = attempt;
  return o;
}

PyObject* plain(PyObject* o) { return from_scalar(of(o)->value); }

int32_t note(Op op, const Scalar& value, int32_t a, int32_t b = -1) {
  NumberNode node{op, a, b, 0, value};
  return tracer()->number(node);
}

/// Somebody looks at the value: a new plain number.
PyObject* looked_at(PyObject* o) {
  if (tracing(o)) {
    const int32_t same = note(Op::Constant, of(o)->value, -1);
    note(Op::Same, Scalar(true), of(o)->node, same);
  }
  return plain(o);
}

/// An operand: its value, and its node or -1; false where it is no plain number.
bool operand_of(PyObject* o, Scalar& value, int32_t& node) {
  node = -1;
  if (is_tracked(o)) {
    value = of(o)->value;
    if (tracing(o)) node = of(o)->node;
    return true;
  }
  if (PyFloat_CheckExact(o)) {
    value = Scalar(PyFloat_AS_DOUBLE(o));
    return true;
  }
  if (!PyLong_CheckExact(o) && !PyBool_Check(o)) return false;
  int overflow = 0;
  value = Scalar(int64_t{PyLong_AsLongLongAndOverflow(o, &overflow)});
  return !overflow;
}

/// Anything else beside a tracked number: the attempt is over, unless it is a tensor, whose own operator
/// comes next.
PyObject* not_a_number(PyObject* a, PyObject* b) {
  PyObject* const other = is_tracked(a) ? b : a;
  if (!is_tensor(other) && other != Py_None && !PyUnicode_Check(other) && tracer())
    tracer()->refuse("a number that changes meets an object of another type");
  Py_RETURN_NOTIMPLEMENTED;
}

template <Op op>
PyObject* binary(PyObject* a, PyObject* b) {
  Scalar x, y, r;
  int32_t i, j;
  if (is_tensor(a) || is_tensor(b)) Py_RETURN_NOTIMPLEMENTED;
  const bool numbers = operand_of(a, x, i) && operand_of(b, y, j);
  if (numbers && (i >= 0 || j >= 0) && compute(op, x, y, r)) {
    if (i < 0) i = note(Op::Constant, x, -1);
    if (j < 0) j = note(Op::Constant, y, -1);
    return make(r, note(op, r, i, j));
  }
  if (!numbers && !PyLong_CheckExact(is_tracked(a) ? b : a)) return not_a_number(a, b);
  // As Python does it with the values.
  nb::object p = nb::steal(is_tracked(a) ? looked_at(a) : Py_NewRef(a));
  nb::object q = nb::steal(is_tracked(b) ? looked_at(b) : Py_NewRef(b));
  if (op == Op::Power) return PyNumber_Power(p.ptr(), q.ptr(), Py_None);
  binaryfunc f = nullptr;
  switch (op) {
    case Op::Add:
      f = PyNumber_Add;
      break;
    case Op::Subtract:
      f = PyNumber_Subtract;
      break;
    case Op::Multiply:
      f = PyNumber_Multiply;
      break;
    case Op::Divide:
      f = PyNumber_TrueDivide;
      break;
    case Op::FloorDivide:
      f = PyNumber_FloorDivide;
      break;
    default:
      f = PyNumber_Remainder;
      break;
  }
  return f(p.ptr(), q.ptr());
}
PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) {
    nb::object p = nb::steal(is_tracked(a) ? looked_at(a) : Py_NewRef(a));
    nb::object q = nb::steal(is_tracked(b) ? looked_at(b) : Py_NewRef(b));
    nb::object m = nb::steal(is_tracked(modulus) ? looked_at(modulus) : Py_NewRef(modulus));
    return PyNumber_Power(p.ptr(), q.ptr(), m.ptr());
  }
  return binary<Op::Power>(a, b);
}
PyObject* divmod(PyObject* a, PyObject* b) {
  if (is_tensor(a) || is_tensor(b)) Py_RETURN_NOTIMPLEMENTED;
  nb::object p = nb::steal(is_tracked(a) ? looked_at(a) : Py_NewRef(a));
  nb::object q = nb::steal(is_tracked(b) ? looked_at(b) : Py_NewRef(b));
  return PyNumber_Divmod(p.ptr(), q.ptr());
}

template <Op op>
PyObject* unary(PyObject* a) {
  Scalar r;
  if (!tracing(a) || !compute(op, of(a)->value, of(a)->value, r)) {
    nb::object p = nb::steal(looked_at(a));
    return op == Op::Negate ? PyNumber_Negative(p.ptr()) : PyNumber_Absolute(p.ptr());
  }
  return make(r, note(op, r, of(a)->node));
}
/// math.floor, math.ceil.
template <Op op>
PyObject* rounded(PyObject* a, PyObject*) {
  Scalar r;
  if (of(a)->value.is_integral()) return Py_NewRef(a);
  if (tracing(a) && compute(op, of(a)->value, of(a)->value, r)) return make(r, note(op, r, of(a)->node));
  nb::object p = nb::steal(looked_at(a));
  return PyObject_CallMethod(p.ptr(), op == Op::Floor ? "__floor__" : "__ceil__", nullptr);
}
PyMethodDef methods[] = {{"__floor__", &rounded<Op::Floor>, METH_NOARGS, nullptr},
                         {"__ceil__", &rounded<Op::Ceiling>, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyObject* itself(PyObject* a) { return Py_NewRef(a); }

int truth(PyObject* a) {
  Scalar r;
  compute(Op::Truth, of(a)->value, of(a)->value, r);
  if (tracing(a)) note(Op::Truth, r, of(a)->node);
  return r.as_int() != 0;
}

PyObject* compare(PyObject* a, PyObject* b, int how) {
  Scalar x, y, r;
  int32_t i, j;
  if (is_tensor(b)) Py_RETURN_NOTIMPLEMENTED;
  if (!operand_of(a, x, i) || !operand_of(b, y, j)) return not_a_number(a, b);
  const bool turned = how == Py_GT || how == Py_GE;
  const Op op = how == Py_EQ || how == Py_NE   ? Op::Equal
                : how == Py_LT || how == Py_GT ? Op::Less
                                               : Op::LessEqual;
  if ((i >= 0 || j >= 0) && compute(op, turned ? y : x, turned ? x : y, r)) {
    if (i < 0) i = note(Op::Constant, x, -1);
    if (j < 0) j = note(Op::Constant, y, -1);
    note(op, r, turned ? j : i, turned ? i : j);
    return PyBool_FromLong((r.as_int() != 0) != (how == Py_NE));
  }
  nb::object p = nb::steal(looked_at(a)), q = nb::steal(is_tracked(b) ? looked_at(b) : Py_NewRef(b));
  return PyObject_RichCompare(p.ptr(), q.ptr(), how);
}

PyObject* as_float(PyObject* a) {
  nb::object p = nb::steal(looked_at(a));
  return PyNumber_Float(p.ptr());
}
PyObject* as_int(PyObject* a) {
  nb::object p = nb::steal(looked_at(a));
  return PyNumber_Long(p.ptr());
}
Py_hash_t hash(PyObject* a) {
  nb::object p = nb::steal(looked_at(a));
  return PyObject_Hash(p.ptr());
}
PyObject* repr(PyObject* a) {
  nb::object p = nb::steal(looked_at(a));
  return PyObject_Repr(p.ptr());
}

/// What floats have besides: of the value, as it is then.
PyObject* attribute(PyObject* o, PyObject* name) {
  PyTypeObject* const type = Py_TYPE(o) == tracked_int ? &PyLong_Type : &PyFloat_Type;
  if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0)
    return Py_NewRef(reinterpret_cast<PyObject*>(type));
  nb::object p = nb::steal(_PyType_Lookup(type, name) ? looked_at(o) : plain(o));
  return PyObject_GetAttr(p.ptr(), name);
}

void release(PyObject* o) {
  PyTypeObject* const type = Py_TYPE(o);
  type->tp_free(o);
  Py_DECREF(type);
}

PyTypeObject* make_type(bool whole) {
  std::vector<PyType_Slot> slots{
      {Py_tp_dealloc, reinterpret_cast<void*>(&release)},
      {Py_tp_methods, methods},
      {Py_tp_repr, reinterpret_cast<void*>(&repr)},
      {Py_tp_hash, reinterpret_cast<void*>(&hash)},
      {Py_tp_richcompare, reinterpret_cast<void*>(&compare)},
      {Py_tp_getattro, reinterpret_cast<void*>(&attribute)},
      {Py_nb_add, reinterpret_cast<void*>(&binary<Op::Add>)},
      {Py_nb_subtract, reinterpret_cast<void*>(&binary<Op::Subtract>)},
      {Py_nb_multiply, reinterpret_cast<void*>(&binary<Op::Multiply>)},
      {Py_nb_true_divide, reinterpret_cast<void*>(&binary<Op::Divide>)},
      {Py_nb_floor_divide, reinterpret_cast<void*>(&binary<Op::FloorDivide>)},
      {Py_nb_remainder, reinterpret_cast<void*>(&binary<Op::Remainder>)},
      {Py_nb_divmod, reinterpret_cast<void*>(&divmod)},
      {Py_nb_power, reinterpret_cast<void*>(&power)},
      {Py_nb_negative, reinterpret_cast<void*>(&unary<Op::Negate>)},
      {Py_nb_absolute, reinterpret_cast<void*>(&unary<Op::Magnitude>)},
      {Py_nb_positive, reinterpret_cast<void*>(&itself)},
      {Py_nb_bool, reinterpret_cast<void*>(&truth)},
      {Py_nb_float, reinterpret_cast<void*>(&as_float)},
      {Py_nb_int, reinterpret_cast<void*>(&as_int)},
  };
  if (whole) slots.push_back({Py_nb_index, reinterpret_cast<void*>(&as_int)});
  slots.push_back({0, nullptr});
  PyType_Spec spec = {whole ? "adjoint._C._TrackedInt" : "adjoint._C._TrackedFloat", sizeof(Tracked), 0,
                      Py_TPFLAGS_DEFAULT, slots.data()};
  auto* const type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!type) throw nb::python_error();
  return type;
}

}  // namespace

Scalar given_on(PyObject* o) {
  if (replay::Tracer* t = tracing(o)) t->trace.numbers[static_cast<size_t>(of(o)->node)].given = true;
  return of(o)->value;
}

PyObject* number_of_reading(const Scalar& value) {
  if (!tracer() || value.is_complex() || value.kind() == Category::Bool) return nullptr;
  const replay::Trace& trace = tracer()->trace;
  if (!trace.refused.empty() || trace.steps.empty() || trace.steps.back().kind != replay::Step::Kind::Read)
    return nullptr;
  return make(value, note(Op::Read, value, -1));
}

nb::list track(const Ref<replay::Tracer>& by, nb::list numbers) {
  tracer() = by;
  by->only_try();
  ++attempt;
  nb::list r;
  for (nb::handle n : numbers) {
    const Scalar value = as_scalar(n.ptr()).value();
    r.append(nb::steal(make(value, note(Op::Input, value, -1))));
  }
  return r;
}

void stop_tracking() { tracer().reset(); }

void bind_replay_numbers(nb::module_& m) {
  tracked_float = make_type(false);
  tracked_int = make_type(true);
  m.attr("_TrackedFloat") = nb::borrow(reinterpret_cast<PyObject*>(tracked_float));
  m.attr("_TrackedInt") = nb::borrow(reinterpret_cast<PyObject*>(tracked_int));
  m.def(
      "_number",
      [](nb::handle o) {
        if (is_tracked(o.ptr())) return nb::borrow(o);
        if (thread_state.watched && is_tensor(o.ptr()) && is_floating(unwrap(o.ptr()).dtype())) {
          const Scalar v = item(unwrap(o.ptr()), "item");
          PyObject* const number = number_of_reading(v);
          return nb::steal(number ? number : from_scalar(v));
        }
        return nb::steal(PyNumber_Float(o.ptr()));
      },
      "float(o), but for a number that is tracked.", nb::arg("number").none());
  m.def(
      "_cosine",
      [](nb::handle o) {
        Scalar r;
        if (is_tracked(o.ptr()) && tracing(o.ptr()) && compute(Op::Cosine, of(o.ptr())->value, Scalar(), r))
          return nb::steal(make(r, note(Op::Cosine, r, of(o.ptr())->node)));
        return nb::steal(PyFloat_FromDouble(std::cos(as_double(o.ptr(), "x"))));
      },
      "math.cos(x), also of a number that is tracked.", nb::arg("x"));
  m.def(
      "_node_of", [](nb::handle o) -> int32_t { return is_tracked(o.ptr()) ? of(o.ptr())->node : -1; },
      "Which number it is, among those that are tracked; -1 for others.", nb::arg("o").none());
  m.def(
      "_plain", [](nb::handle o) { return is_tracked(o.ptr()) ? nb::steal(plain(o.ptr())) : nb::borrow(o); },
      "A tracked number's value; others as they are.", nb::arg("o").none());
}

}  // namespace adjoint::bind
