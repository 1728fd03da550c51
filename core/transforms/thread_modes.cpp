#include "transforms/thread_modes.h"

#include "for_size.h"
#include "transforms/autocast.h"

namespace adjoint {

namespace {

/// Copies of one and of all around it, each told with what it is a copy of.
template <class T, class Tell>
Ref<T> copies(T* one, const Tell& tell) {
  if (!one) return {};
  Ref<T> copy = one->for_thread();
  tell(one, copy.get());
  copy->outer = copies(one->outer.get(), tell);
  return copy;
}

}  // namespace

Onlookers Onlookers::copy(Interpreter* interpreter, Observer* observer, Autocast* autocast) {
  Onlookers made;
  made.interpreter = copies(interpreter, [&](const Interpreter* of, Interpreter* copy) {
    if (of == autocast) made.autocast = static_cast<Autocast*>(copy);
  });
  made.observer = copies(observer, [](const Observer*, Observer*) {});
  if (autocast && !made.autocast) {
    made.past = autocast->for_thread();
    made.autocast = static_cast<Autocast*>(made.past.get());
  }
  return made;
}

ThreadModes::ThreadModes()
    : state_(thread_state),
      onlookers_(Onlookers::copy(state_.interpreter, state_.observer, state_.autocast)),
      generator_(runtime::generator_here()),
      foreign_(foreign_state ? foreign_state() : nullptr) {
  state_.memory_in_use = nullptr;
}

ThreadModes::Here::Here(const ThreadModes& modes) : foreign_(modes.foreign_.get()) {
  const Onlookers& from = modes.onlookers_;
  Onlookers here = Onlookers::copy(from.interpreter.get(), from.observer.get(), from.autocast);
  thread_state = modes.state_;
  thread_state.interpreter = here.interpreter.detach();
  thread_state.observer = here.observer.detach();
  thread_state.autocast = here.autocast;
  past_ = std::move(here.past);
  runtime::use_generator(modes.generator_);
  if (foreign_) entered_ = foreign_->enter();
}

ThreadModes::Here::~Here() {
  // They may be the other language's.
  const auto interpreters = Ref<Interpreter>::steal(std::exchange(thread_state.interpreter, nullptr));
  const auto observers = Ref<Observer>::steal(std::exchange(thread_state.observer, nullptr));
  if (foreign_) foreign_->leave(entered_);
  runtime::use_generator(nullptr);
  thread_state = ThreadState();
}

}  // namespace adjoint
