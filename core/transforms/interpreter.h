// Who looks on at the door, in the thread in which it stands.
//
// An INTERPRETER stands above recording. It gets every call of an operator once, whole: which operator, in
// which form, its arguments; and it makes the results, as a rule by doing the call (`perform`) or others.
// What it calls meanwhile goes to the interpreters around it. Of what is no call (memory that is read by the
// program, a tensor that is given other memory) it is told.
//
// An OBSERVER stands below recording: it sees what is about to be computed, may have the results already, and
// sees what was computed (selective checkpointing); and it sees what is about to be written (copies on
// write).
//
// In ordinary programs `thread_state.watched` is false, and the door's test of it is all that this room
// costs.
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
  /// What stands for it in another thread, which does a part of this one's work: set as this one is now.
  virtual Ref<Interpreter> for_thread() const = 0;
  /// Make the results of a call.
  virtual void call(const Call& call, Results& results) = 0;
  /// The program reads the elements of a tensor, as `by` (item, tolist …).
  virtual void reads(const Tensor&, const char* /*by*/) {}
  /// A tensor gets other memory or another shape, as `by` (set_data, resize_ …).
  virtual void replaces(const Tensor&, const char* /*by*/) {}
};

struct Observer {
  std::atomic<uint32_t> refcount{1};
  Ref<Observer> outer;
  static void destroy(Observer* o) noexcept { delete o; }
  virtual ~Observer() = default;
  virtual Ref<Observer> for_thread() const = 0;
  /// Give the results of a call that is about to be computed, if they are there. Not asked for views and
  /// writes.
  virtual bool supply(const Operator&, std::span<const Value>, Results&) { return false; }
  /// A call that was not supplied has been computed.
  virtual void computed(const Operator&, std::span<const Tensor>) {}
  /// A tensor is about to be written.
  virtual void before_write(const Tensor&) {}
};

/// For its scope, calls are neither recorded nor seen: they are part of one that is.
class NoInterpretation {
 public:
  NoInterpretation() : watched(thread_state.watched), grad_(thread_state.grad) {
    thread_state.watched = thread_state.grad = false;
  }
  ~NoInterpretation() {
    // Who looked on may have been taken out meanwhile.
    thread_state.watched = watched && (thread_state.interpreter || thread_state.observer);
    thread_state.grad = grad_;
  }
  NoInterpretation(const NoInterpretation&) = delete;

  const bool watched;

 private:
  const bool grad_;
};

/// For its scope, calls go past the innermost interpreter: to those around it, or to none.
class Past {
 public:
  explicit Past(Ref<Interpreter> to);
  ~Past();
  Past(const Past&) = delete;

 private:
  friend bool pop(const Interpreter* interpreter);
  Interpreter* before_;
  Past* const outer_;
  static constinit thread_local Past* innermost_;
};

/// Put one into this thread, and take it out again wherever it stands there; false where it does not.
void push(Ref<Interpreter> interpreter);
void push(Ref<Observer> observer);
bool pop(const Interpreter* interpreter);
bool pop(const Observer* observer);

// --- For the door ---------------------------------------------------------------------------------

/// Whether an interpreter made the results of a call.
bool interpreted(const Call& call, Results& results);

/// Whether an observer has the results: the innermost is asked first, and who is inside of it sees its
/// results too.
bool supplied(const Operator& op, std::span<const Value> arguments, Results& results);
void tell_computed(const Operator& op, std::span<const Tensor> results);
/// Tell interpreters that a tensor is about to be written.
void tell_write(const Tensor& t);

// --- For what is no call --------------------------------------------------------------------------

namespace detail {
void tell_read(const Tensor& t, const char* by);
void tell_replaced(const Tensor& t, const char* by);
}  // namespace detail
inline void tell_read(const Tensor& t, const char* by) {
  if (thread_state.watched) [[unlikely]]
    detail::tell_read(t, by);
}
/// The number that a tensor is, for the program.
inline Scalar read_number(const Tensor& t, const char* by) {
  tell_read(t, by);
  return item(t);
}
inline void tell_replaced(const Tensor& t, const char* by) {
  if (thread_state.watched) [[unlikely]]
    detail::tell_replaced(t, by);
}

}  // namespace adjoint
