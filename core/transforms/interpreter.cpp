#include "transforms/interpreter.h"

namespace adjoint {

namespace {

void set_watched() { thread_state.watched = thread_state.interpreter || thread_state.observer; }

template <class T>
void push_to(T*& innermost, Ref<T> one) {
  one->outer = Ref<T>::steal(innermost);
  innermost = one.detach();
  set_watched();
}

template <class T>
bool pop_from(T*& innermost, const T* one) {
  T* inside = nullptr;
  for (T* i = innermost; i; inside = i, i = i->outer.get()) {
    if (i != one) continue;
    const Ref<T> gone = Ref<T>::share(i);  // it dies when the list is in order again
    if (inside) {
      inside->outer = Ref<T>(i->outer);
    } else {
      innermost = Ref<T>(i->outer).detach();
      runtime::release_count(i);
    }
    // Within a call that is being computed nobody looks on, whoever is left.
    if (thread_state.watched) set_watched();
    return true;
  }
  return false;
}

/// One and those around it as they are when a call comes: each may take itself out, and others, when it is
/// asked.
template <class T>
std::vector<Ref<T>> from(T* innermost) {
  std::vector<Ref<T>> all;
  for (T* i = innermost; i; i = i->outer.get()) all.push_back(Ref<T>::share(i));
  return all;
}

}  // namespace

void push(Ref<Interpreter> interpreter) { push_to(thread_state.interpreter, std::move(interpreter)); }
void push(Ref<Observer> observer) { push_to(thread_state.observer, std::move(observer)); }
bool pop(const Interpreter* interpreter) {
  bool found = pop_from(thread_state.interpreter, interpreter);
  // Those that calls are past for now stand in lists of their own, which share their ends.
  for (Past* p = Past::innermost_; p; p = p->outer_) found |= pop_from(p->before_, interpreter);
  return found;
}
bool pop(const Observer* observer) { return pop_from(thread_state.observer, observer); }

constinit thread_local Past* Past::innermost_ = nullptr;

Past::Past(Ref<Interpreter> to) : before_(thread_state.interpreter), outer_(std::exchange(innermost_, this)) {
  thread_state.interpreter = to.detach();
  set_watched();
}
Past::~Past() {
  innermost_ = outer_;
  if (thread_state.interpreter) runtime::release_count(thread_state.interpreter);
  thread_state.interpreter = before_;
  set_watched();
}

bool interpreted(const Call& call, Results& results) {
  if (!thread_state.watched || !thread_state.interpreter) return false;
  const auto innermost = Ref<Interpreter>::share(thread_state.interpreter);
  const Past past(Ref<Interpreter>(innermost->outer));
  innermost->call(call, results);
  return true;
}

bool supplied(const Operator& op, std::span<const Value> arguments, Results& results) {
  const auto all = from(thread_state.observer);
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i]->supply(op, arguments, results)) continue;
    for (size_t inside = 0; inside < i; ++inside) all[inside]->computed(op, results.all());
    return true;
  }
  return false;
}

void tell_computed(const Operator& op, std::span<const Tensor> results) {
  NoInterpretation inner;
  for (const auto& o : from(thread_state.observer)) o->computed(op, results);
}

void tell_write(const Tensor& t) {
  NoInterpretation inner;
  for (const auto& o : from(thread_state.observer)) o->before_write(t);
}

void detail::tell_read(const Tensor& t, const char* by) {
  for (const auto& i : from(thread_state.interpreter)) {
    const Past past(Ref<Interpreter>(i->outer));
    i->reads(t, by);
  }
}
void detail::tell_replaced(const Tensor& t, const char* by) {
  for (const auto& i : from(thread_state.interpreter)) {
    const Past past(Ref<Interpreter>(i->outer));
    i->replaces(t, by);
  }
}

}  // namespace adjoint
