#include "transforms/interpreter.h"

namespace adjoint {

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
  std::vector<Value> values(op.kinds.size());
  for (size_t i = 0; i < values.size(); ++i) op.kinds[i]->box(arguments[i], values[i]);
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
