// An interpreter stands at the door and sees calls as operators of the table with boxed arguments.
//
// Those that exist stand below recording: they see what is about to be computed, may have the results already, and see
// what was computed (selective checkpointing); and they see what is about to be written (copies on write). Forward mode,
// batching and tracing are to be interpreters above recording. In ordinary programs `thread_state.interpreter` is null,
// and the door's test for it is all that this room costs.
#pragma once

#include "dispatch/operator.h"

namespace adjoint {

struct Interpreter {
  /// The thread that it stands in, while it does; and calls that are asking it.
  std::atomic<uint32_t> refcount{1};
  /// The one that was there before.
  Ref<Interpreter> outer;
  static void destroy(Interpreter* i) noexcept { delete i; }
  virtual ~Interpreter() = default;
  /// Give the results of a call that is about to be computed, if they are there. Not asked for views and writes.
  virtual bool supply(const Operator&, std::span<const Value>, Results&) { return false; }
  /// A call that was not supplied has been computed.
  virtual void computed(const Operator&, std::span<const Tensor>) {}
  /// A tensor is about to be written.
  virtual void before_write(const Tensor&) {}
};

/// For its scope, calls are neither recorded nor interpreted: they are part of one that is.
class Below {
 public:
  Below() : interpreter(thread_state.interpreter), grad_(thread_state.grad) {
    thread_state.interpreter = nullptr;
    thread_state.grad = false;
  }
  ~Below() {
    thread_state.interpreter = interpreter;
    thread_state.grad = grad_;
  }
  Below(const Below&) = delete;

  Interpreter* const interpreter;

 private:
  bool grad_;
};

/// Put an interpreter into this thread, and take it out again wherever it stands there; false where it does not.
void push_interpreter(Ref<Interpreter> interpreter);
bool pop_interpreter(const Interpreter* interpreter);

// For the door, where there are interpreters: the innermost is asked first, and who is inside of the one that supplied
// sees its results too.
bool supplied(Interpreter* innermost, const Operator& op, std::span<const Value> arguments, Results& results);
/// Arguments given by their addresses, each of the type that its kind says.
bool supplied(Interpreter* innermost, const Operator& op, const void* const* arguments, Results& results);
void tell_computed(const Operator& op, std::span<const Tensor> results);

}  // namespace adjoint
