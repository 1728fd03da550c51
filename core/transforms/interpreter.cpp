#include "transforms/interpreter.h"

#include "for_size.h"
#include "ops/creation.h"
#include "ops/shape.h"
#include "ops/writing.h"

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
class From {
 public:
  explicit From(T* innermost) {
    for (T* i = innermost; i; i = i->outer.get()) all_.push_back(Ref<T>::share(i).detach());
  }
  ~From() {
    for (T* i : all_) runtime::release_count(i);
  }
  From(const From&) = delete;
  size_t size() const { return all_.size(); }
  T* operator[](size_t i) const { return all_[i]; }
  T* const* begin() const { return all_.data(); }
  T* const* end() const { return all_.data() + all_.size(); }

 private:
  runtime::SmallVector<T*, 4> all_;
};

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

bool supplied(const Call& call, Results& results) {
  const From all(thread_state.observer);
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i]->supply(call, results)) continue;
    for (size_t inside = 0; inside < i; ++inside) all[inside]->computed(call, results.all());
    return true;
  }
  return false;
}

namespace {

/// f of each interpreter, with those inside of it out of sight, and of each observer.
template <class F>
void each(F&& f) {
  for (Interpreter* const i : From(thread_state.interpreter)) {
    const Past past(Ref<Interpreter>(i->outer));
    f(*i);
  }
  const NoInterpretation inner;
  for (Observer* const o : From(thread_state.observer)) f(*o);
}

template <class P>
Value boxed(const P& argument) {
  Value v;
  argument_t<P>::box(argument, v);
  return v;
}

}  // namespace

bool compute_observed(const Call& call, Results& results, runtime::FunctionRef<void()> compute) {
  const NoInterpretation inner;
  const Operator& op = call.op;
  const bool makes = call.form == CallForm::Function && !op.writes && !op.writes_lists && !op.view;
  if (makes && supplied(call, results)) return false;
  compute();
  return true;
}

void tell_computed(const Call& call, std::span<const Tensor> results) {
  const NoInterpretation inner;
  for (Observer* const o : From(thread_state.observer)) o->computed(call, results);
}

void tell_write(const Tensor& t) {
  const NoInterpretation inner;
  for (Observer* const o : From(thread_state.observer)) o->before_write(t);
}

void announce(const Call& call, std::span<const Tensor> results) {
  runtime::check_no_lock(call.op.name);
  each([&](auto& one) { one.announced(call, results); });
}

void tell(const Notice& notice) {
  runtime::check_no_lock(notice.by);
  each([&](auto& one) { one.told(notice); });
}

void announce_filled(const Tensor& made, const Scalar& value) {
  const Value arguments[] = {boxed(Sizes(made.sizes())), boxed(value), boxed(OptionalType(made.dtype())),
                             boxed(false)};
  announce({*row_of<Full>, CallForm::Function, arguments, {}}, {&made, 1});
}

void announce_copied(const Tensor& to, const Tensor& from, bool made) {
  const Value of_new[] = {boxed(from), boxed(to.dtype())}, of_written[] = {boxed(to), boxed(from)};
  announce({made ? *row_of<To> : *row_of<Copy>, CallForm::Function, made ? of_new : of_written, {}},
           {&to, 1});
}

void announce_kept(const Tensor& copy, const Tensor& of) {
  Past* all = Past::innermost_;
  if (!all) return;  // no call is being interpreted
  while (all->outer_) all = all->outer_;
  const Value arguments[] = {boxed(of), boxed(copy.dtype())};
  for (Interpreter* const i : From(all->before_)) {
    const Past past(Ref<Interpreter>(i->outer));
    i->announced({*row_of<To>, CallForm::Function, arguments, {}}, {&copy, 1});
  }
}

void announce_read(const Tensor& t, const char* by) { tell({Notice::Kind::Read, t, by}); }

}  // namespace adjoint
