// Who looks on at the door, in the thread in which it stands.
//
// An INTERPRETER stands above recording. It gets every call of an operator once, whole: which operator, in
// which form, its arguments; and it makes the results, as a rule by doing the call (`perform`) or others.
// What it calls meanwhile goes to the interpreters around it.
//
// An OBSERVER stands below recording, right at the computation: it sees what is about to be computed, may
// have the results already, and sees what was computed (selective checkpointing); and it sees what is about
// to be written (copies on write). Below it are no batches, tangents or histories, so that a recorder of
// programs needs to know nothing of these.
//
// What the core does to elements besides, by no call, is ANNOUNCED to both as the call that it amounts to: a
// constant that a rule makes, a copy. What is no call of any operator is TOLD: elements that are read, memory
// that is replaced, a gradient that arrives. So whoever remembers what it saw knows each tensor that it meets
// by its memory, and that memory at the version that it saw written. Tensors over the same memory (views,
// detach()) need no call for that. tests/autograd/test_closure.py holds the core to it.
//
// In ordinary programs `thread_state.watched` is false, and the door's test of it is all that this room
// costs.
#pragma once

#include "dispatch/operator.h"
#include "runtime/function_ref.h"

namespace adjoint {

/// What happens to a tensor by no call.
struct Notice {
  enum class Kind : uint8_t {
    Read,      // its elements are read, and may decide what the program does next
    Replaced,  // it gets other memory, or another shape: that of `with`, if it is defined
    Gradient,  // `with` becomes its gradient
    Given,     // it came to be with elements that the program gave it
  } kind;
  const Tensor& tensor;
  /// Who does it: item, set_data …
  const char* by;
  Tensor with = {};
};

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
  /// What amounts to this call has been done.
  virtual void announced(const Call&, std::span<const Tensor> /*results*/) {}
  virtual void told(const Notice&) {}
};

struct Observer {
  std::atomic<uint32_t> refcount{1};
  Ref<Observer> outer;
  static void destroy(Observer* o) noexcept { delete o; }
  virtual ~Observer() = default;
  virtual Ref<Observer> for_thread() const = 0;
  /// Give the results of a call that is about to be computed, if they are there. Not asked for views and
  /// writes.
  virtual bool supply(const Call&, Results&) { return false; }
  /// A call that was not supplied has been computed. Its results are not recorded yet.
  virtual void computed(const Call&, std::span<const Tensor> /*results*/) {}
  virtual void announced(const Call&, std::span<const Tensor> /*results*/) {}
  virtual void told(const Notice&) {}
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
  friend void announce_kept(const Tensor& copy, const Tensor& of);
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
bool supplied(const Call& call, Results& results);
/// Compute with nobody looking on, where somebody does: an observer may have the results. False where it had;
/// else `tell_computed` is due, once the results are what the program gets.
bool compute_observed(const Call& call, Results& results, runtime::FunctionRef<void()> compute);
void tell_computed(const Call& call, std::span<const Tensor> results);
/// Tell observers that a tensor is about to be written.
void tell_write(const Tensor& t);

// --- For what is no call --------------------------------------------------------------------------

/// What a call keeps of its own: a copy of what it writes over, for its derivative. To the interpreters that
/// see that call, within it.
void announce_kept(const Tensor& copy, const Tensor& of);

/// Where `thread_state.watched`.
void announce(const Call& call, std::span<const Tensor> results);
void tell(const Notice& notice);

inline void tell_read(const Tensor& t, const char* by) {
  if (thread_state.watched) [[unlikely]]
    tell({Notice::Kind::Read, t, by});
}
inline void tell_replaced(const Tensor& t, const char* by, const Tensor& with = {}) {
  if (thread_state.watched) [[unlikely]]
    tell({Notice::Kind::Replaced, t, by, with});
}
inline void tell_gradient(const Tensor& t, const char* by, const Tensor& gradient) {
  if (thread_state.watched) [[unlikely]]
    tell({Notice::Kind::Gradient, t, by, gradient});
}
/// `t`, of elements that the program gave.
inline Tensor given(Tensor t, const char* by) {
  if (thread_state.watched) [[unlikely]]
    tell({Notice::Kind::Given, t, by});
  return t;
}

}  // namespace adjoint
