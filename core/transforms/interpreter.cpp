#include "transforms/interpreter.h"

namespace adjoint {

namespace {

/// A boxed argument from one that lies at an address as its kind says.
Value value_at(ArgKind kind, const void* at) {
  Value v;
  v.present = true;
  const auto optional = [&]<class T>(const std::optional<T>* given, auto&& take) {
    v.present = given->has_value();
    if (v.present) take(**given);
  };
  const auto list = [&](const auto& l) { v.list = {l.data(), l.size()}; };
  const auto number = [&](const Scalar& s) { v.scalar = s; };
  switch (kind) {
    case ArgKind::Tensor: v.tensor = static_cast<const Tensor*>(at); break;
    case ArgKind::OptionalTensor:
      v.tensor = static_cast<const Tensor*>(at);
      v.present = v.tensor->defined();
      break;
    case ArgKind::Tensors: list(*static_cast<const TensorList*>(at)); break;
    case ArgKind::Ints: list(*static_cast<const IntList*>(at)); break;
    case ArgKind::OptionalInts: optional(static_cast<const std::optional<IntList>*>(at), list); break;
    case ArgKind::Text: list(*static_cast<const std::string_view*>(at)); break;
    case ArgKind::OptionalText: optional(static_cast<const std::optional<std::string_view>*>(at), list); break;
    case ArgKind::Scalar: number(*static_cast<const Scalar*>(at)); break;
    case ArgKind::OptionalScalar: optional(static_cast<const std::optional<Scalar>*>(at), number); break;
    case ArgKind::Int: v.i = *static_cast<const int64_t*>(at); break;
    case ArgKind::OptionalInt: optional(static_cast<const std::optional<int64_t>*>(at), [&](int64_t i) { v.i = i; }); break;
    case ArgKind::Float: v.d = *static_cast<const double*>(at); break;
    case ArgKind::OptionalFloat: optional(static_cast<const std::optional<double>*>(at), [&](double d) { v.d = d; }); break;
    case ArgKind::Bool: v.b = *static_cast<const bool*>(at); break;
    case ArgKind::OptionalBool: optional(static_cast<const std::optional<bool>*>(at), [&](bool b) { v.b = b; }); break;
    case ArgKind::Type: v.type = *static_cast<const DType*>(at); break;
    case ArgKind::OptionalType: optional(static_cast<const std::optional<DType>*>(at), [&](DType d) { v.type = d; }); break;
  }
  return v;
}

}  // namespace

namespace {

/// An interpreter and those around it as they are when a call comes: each may take itself out, and others, when it is asked.
std::vector<Ref<Interpreter>> from(Interpreter* innermost) {
  std::vector<Ref<Interpreter>> all;
  for (Interpreter* i = innermost; i; i = i->outer.get()) all.push_back(Ref<Interpreter>::share(i));
  return all;
}

}  // namespace

void push_interpreter(Ref<Interpreter> interpreter) {
  interpreter->outer = Ref<Interpreter>::steal(thread_state.interpreter);
  thread_state.interpreter = interpreter.detach();
}

bool pop_interpreter(const Interpreter* interpreter) {
  Interpreter* inside = nullptr;
  for (Interpreter* i = thread_state.interpreter; i; inside = i, i = i->outer.get()) {
    if (i != interpreter) continue;
    const Ref<Interpreter> gone = Ref<Interpreter>::share(i);  // it dies when the list is in order again
    if (inside) {
      inside->outer = Ref<Interpreter>(i->outer);
    } else {
      thread_state.interpreter = Ref<Interpreter>(i->outer).detach();
      runtime::release_count(i);
    }
    return true;
  }
  return false;
}

bool supplied(Interpreter* innermost, const Operator& op, std::span<const Value> arguments, Results& results) {
  const auto all = from(innermost);
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i]->supply(op, arguments, results)) continue;
    const std::span<const Tensor> given = results.kind == Results::Kind::One ? std::span<const Tensor>(&results.one, 1) : results.many;
    for (size_t inside = 0; inside < i; ++inside) all[inside]->computed(op, given);
    return true;
  }
  return false;
}

bool supplied(Interpreter* innermost, const Operator& op, const void* const* arguments, Results& results) {
  std::vector<Value> values;
  for (size_t i = 0; i < op.kinds.size(); ++i) values.push_back(value_at(op.kinds[i], arguments[i]));
  return supplied(innermost, op, values, results);
}

void tell_computed(const Operator& op, std::span<const Tensor> results) {
  Below below;
  for (const auto& i : from(below.interpreter)) i->computed(op, results);
}

void tell_write(const Tensor& t) {
  Below below;
  for (const auto& i : from(below.interpreter)) i->before_write(t);
}

}  // namespace adjoint
