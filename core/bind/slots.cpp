// Python's own operators on tensors: `a + b`, `a += b`, `-a`, `a < b`, and what a number beside a tensor
// means.
//
// Start reading at `add_operator_slots`: which operator of the table fills each slot is said where it is
// declared.
#include <utility>

#include "bind/arguments.h"
#include "bind/operators.h"
#include "bind/overrides.h"

namespace adjoint::bind {

namespace {

struct SlotName {
  const char* python;
  int slot;
  int inplace;  // 0: none
  /// What `__torch_function__` is given, as torch has it. Whether `a + b` is Python's method and not the
  /// operator; likewise `a += b`; whether `a + b` where only b is a tensor is the operator on b and a, and
  /// not Python's reflected method.
  bool python_plain = false, python_inplace = false, symmetric = false;
};
// Slots that Python has.
constexpr SlotName kBinary[] = {
    {"__add__", Py_nb_add, Py_nb_inplace_add, false, false, true},
    {"__sub__", Py_nb_subtract, Py_nb_inplace_subtract},
    {"__mul__", Py_nb_multiply, Py_nb_inplace_multiply, false, false, true},
    {"__truediv__", Py_nb_true_divide, Py_nb_inplace_true_divide},
    {"__floordiv__", Py_nb_floor_divide, Py_nb_inplace_floor_divide, true},
    {"__mod__", Py_nb_remainder, Py_nb_inplace_remainder},
    {"__and__", Py_nb_and, Py_nb_inplace_and, true, true, true},
    {"__or__", Py_nb_or, Py_nb_inplace_or, true, true, true},
    {"__xor__", Py_nb_xor, Py_nb_inplace_xor, true, true, true},
    {"__lshift__", Py_nb_lshift, Py_nb_inplace_lshift, true, true},
    {"__rshift__", Py_nb_rshift, Py_nb_inplace_rshift, true, true},
    {"__matmul__", Py_nb_matrix_multiply, Py_nb_inplace_matrix_multiply, false, true}};
constexpr SlotName kPower = {"__pow__", Py_nb_power, Py_nb_inplace_power};
constexpr SlotName kUnary[] = {{"__neg__", Py_nb_negative, 0},
                               {"__pos__", Py_nb_positive, 0},
                               {"__abs__", Py_nb_absolute, 0},
                               {"__invert__", Py_nb_invert, 0, true}};
constexpr const char* kCompare[] = {"__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"};
constexpr int kBinaries = sizeof kBinary / sizeof kBinary[0];
constexpr int kUnaries = sizeof kUnary / sizeof kUnary[0];

const Operator* binary_ops[kBinaries];
const Operator* unary_ops[kUnaries];
const Operator* compare_ops[6];
const Operator* power_op;

const Operator* find_python(const char* python) {
  for (const Operator* op : operators())
    if (!std::strcmp(op->python, python)) return op;
  return nullptr;
}

/// What an argument's type or a mode answers.
[[gnu::cold]] PyObject* ask_slot(const SlotName& slot, const Operator& op, PyObject* a, PyObject* b,
                                 bool inplace) {
  const std::string rest = slot.python + 2;
  const bool reflected = !is_tensor(a);
  const std::string name = inplace     ? (slot.python_inplace ? "__i" + rest : op.name + std::string("_"))
                           : reflected ? (slot.symmetric ? op.name : "__r" + rest)
                                       : (slot.python_plain ? slot.python : op.name);
  PyObject* const args[] = {reflected ? b : a, reflected ? a : b};
  return ask_method(name.c_str(), args, 2, nullptr, Unanswered::NotImplemented);
}

[[gnu::hot]] PyObject* call_binary(const SlotName& slot, const Operator& op, PyObject* a, PyObject* b,
                                   const Tensor* out) {
  try {
    Borrowed<2> in;
    Tensor number;  // the operand that was none
    const bool plain = is_plain(a) && is_plain(b) && !any_mode();
    if (!plain) [[unlikely]] {
      PyObject* const args[] = {a, b};
      if (overridden(args, 2)) return ask_slot(slot, op, a, b, out != nullptr);
    }
    const bool ta = plain || is_tensor(a), tb = plain || is_tensor(b);
    if (ta && tb && op.elementwise && !out && unwrap(a).numel() < kUnlockFrom &&
        unwrap(b).numel() < kUnlockFrom) {
      in[0] = unwrap(a).get();
      in[1] = unwrap(b).get();
      return wrap(call_elementwise(*op.elementwise, in, nullptr));
    }
    // 2 * b is b * 2, as for overrides: the first edge of its node is b's.
    const int first = !ta && slot.symmetric;
    if (ta)
      in[0] = unwrap(a).get();
    else
      in[first] = (number = operand(a, unwrap(b).dtype())).get();
    if (tb)
      in[1 - first] = unwrap(b).get();
    else
      in[1] = (number = operand(b, unwrap(a).dtype())).get();
    if (!in[0] || !in[1] || (number.defined() && !op.elementwise)) Py_RETURN_NOTIMPLEMENTED;
    Tensor result;
    {
      const bool unlock = op.elementwise ? in[0]->numel >= kUnlockFrom || in[1]->numel >= kUnlockFrom
                                         : in[0]->numel + in[1]->numel >= kUnlockStructuredFrom;
      const Computing c(unlock, [&](auto&& add) { add(in[0]), add(in[1]); });
      if (op.elementwise) {
        result = call_elementwise(*op.elementwise, in, nullptr, out, out != nullptr);
      } else {
        const Tensor* tensors = in;
        Value v[2];
        for (Value& each : v) each.tensor = tensors++, each.present = true;
        Results r;
        perform({op, out ? CallForm::InPlace : CallForm::Function, v, {}}, r);
        result = std::move(r.one);
      }
    }
    if (out) return Py_NewRef(a);
    return wrap(std::move(result));
  } catch (...) {
    return raise();
  }
}

template <int S>
PyObject* binary_slot(PyObject* a, PyObject* b) {
  return call_binary(kBinary[S], *binary_ops[S], a, b, nullptr);
}
template <int S>
PyObject* inplace_slot(PyObject* a, PyObject* b) {
  const Tensor self = unwrap(a);
  return call_binary(kBinary[S], *binary_ops[S], a, b, &self);
}
template <int S>
PyObject* unary_slot(PyObject* a) {
  if (may_be_overridden(a) && overridden(&a, 1))
    return ask_method(kUnary[S].python_plain ? kUnary[S].python : unary_ops[S]->name, &a, 1);
  try {
    const Tensor& t = unwrap(a);
    if (kUnary[S].slot == Py_nb_invert && !is_integral(t.dtype()))
      fail<TypeError>("~ (operator.invert) is only implemented on integer and Boolean-type tensors, but got ",
                      name_of(t.dtype()));
    Tensor result;
    {
      const Computing c(t.numel() >= kUnlockFrom, [&](auto&& add) { add(t.get()); });
      result = call_elementwise(*unary_ops[S]->elementwise, &t, nullptr);
    }
    return wrap(std::move(result));
  } catch (...) {
    return raise();
  }
}
PyObject* power_slot(PyObject* a, PyObject* b, PyObject*) {
  return call_binary(kPower, *power_op, a, b, nullptr);
}
PyObject* inplace_power_slot(PyObject* a, PyObject* b, PyObject*) {
  const Tensor self = unwrap(a);
  return call_binary(kPower, *power_op, a, b, &self);
}
PyObject* compare_slot(PyObject* a, PyObject* b, int how) {
  if (!is_tensor(b) && (b == Py_None || PyUnicode_Check(b)) && (how != Py_EQ || !overridden(&a, 1)))
    Py_RETURN_NOTIMPLEMENTED;
  // An array beside a tensor is compared element by element, as torch does.
  if ((how == Py_EQ || how == Py_NE) && !is_tensor(b) && !PyLong_Check(b) && !PyFloat_Check(b) &&
      PyObject_HasAttrString(b, "__array_interface__")) {
    PyObject* values = nullptr;
    try {
      values = wrap(from_python(b, {}));
    } catch (...) {
      PyErr_Clear();
      Py_RETURN_NOTIMPLEMENTED;
    }
    PyObject* result = values ? compare_slot(a, values, how) : nullptr;
    Py_XDECREF(values);
    return result;
  }
  // As torch: `==` of a subclass is Python's method.
  return call_binary({kCompare[how], 0, 0, how == Py_EQ && !is_plain(a)}, *compare_ops[how], a, b, nullptr);
}

template <int... S>
void fill_binary(std::vector<PyType_Slot>& slots, std::integer_sequence<int, S...>) {
  auto one = [&]<int I>(std::integral_constant<int, I>) {
    binary_ops[I] = find_python(kBinary[I].python);
    if (!binary_ops[I]) return;
    slots.push_back({kBinary[I].slot, reinterpret_cast<void*>(&binary_slot<I>)});
    slots.push_back({kBinary[I].inplace, reinterpret_cast<void*>(&inplace_slot<I>)});
  };
  (one(std::integral_constant<int, S>{}), ...);
}
template <int... S>
void fill_unary(std::vector<PyType_Slot>& slots, std::integer_sequence<int, S...>) {
  auto one = [&]<int I>(std::integral_constant<int, I>) {
    unary_ops[I] = find_python(kUnary[I].python);
    if (unary_ops[I]) slots.push_back({kUnary[I].slot, reinterpret_cast<void*>(&unary_slot<I>)});
  };
  (one(std::integral_constant<int, S>{}), ...);
}

Py_hash_t hash_by_identity(PyObject* o) {
  const auto p = reinterpret_cast<uintptr_t>(o);
  return static_cast<Py_hash_t>((p >> 4) | (p << (8 * sizeof p - 4)));
}

}  // namespace

[[gnu::hot]] Tensor operand(PyObject* o, DType like) {
  if (is_tensor(o)) return unwrap(o);
  if (PyFloat_CheckExact(o)) {
    // Programs use few different numbers: the last ones are kept, ready for the type that they met.
    struct Known {
      uint64_t bits;
      DType like, meaning;
      Tensor number;
    };
#ifdef Py_GIL_DISABLED
    static thread_local Known known[8];  // static room for threads is scarce
#else
    static Known known[64];
#endif
    const double value = PyFloat_AS_DOUBLE(o);
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    Known& k = known[(bits * 0x9e3779b97f4a7c15ull >> 52 ^ static_cast<uint64_t>(like)) %
                     (sizeof known / sizeof known[0])];
    if (!k.number.defined() || k.bits != bits || k.like != like || k.meaning != default_dtype()) {
      // It is met again outside of the mode or level in which it is made here, and belongs to none.
      const auto marks = std::exchange(thread_state.flags_of_new, 0);
      k = {bits, like, default_dtype(), wrap_number(Scalar(value), like)};
      thread_state.flags_of_new = marks;
      k.number->storage->made_in = 0;
    }
    return k.number;
  }
  if (const auto s = as_scalar(o)) return wrap_number(*s, like);
  return {};
}

void add_operator_slots(std::vector<PyType_Slot>& slots) {
  fill_binary(slots, std::make_integer_sequence<int, kBinaries>{});
  fill_unary(slots, std::make_integer_sequence<int, kUnaries>{});
  power_op = find_python("__pow__");
  if (power_op) {
    slots.push_back({Py_nb_power, reinterpret_cast<void*>(power_slot)});
    slots.push_back({Py_nb_inplace_power, reinterpret_cast<void*>(inplace_power_slot)});
  }
  bool all = true;
  for (int i = 0; i < 6; ++i) all &= (compare_ops[i] = find_python(kCompare[i])) != nullptr;
  if (all) slots.push_back({Py_tp_richcompare, reinterpret_cast<void*>(compare_slot)});
  slots.push_back({Py_tp_hash, reinterpret_cast<void*>(hash_by_identity)});
}

}  // namespace adjoint::bind
