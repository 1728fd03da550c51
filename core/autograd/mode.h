// What is switched on in this thread: recording, inference mode, transforms.
//
// One small thread-local struct; the door (dispatch/) reads it once per call.
#pragma once

#include <cstdint>

namespace adjoint {

struct Interpreter;  // transforms/interpreter.h

struct ThreadState {
  bool grad = true;
  bool inference = false;
  /// The innermost active transform; null in ordinary programs.
  Interpreter* interpreter = nullptr;
  /// Orders nodes: later operations of a thread run backward first.
  uint64_t sequence = 0;
};

extern constinit thread_local ThreadState thread_state;

inline bool grad_enabled() { return thread_state.grad; }

/// Sets recording for a scope.
class GradMode {
 public:
  explicit GradMode(bool on) : before_(thread_state.grad) { thread_state.grad = on; }
  ~GradMode() { thread_state.grad = before_; }
  GradMode(const GradMode&) = delete;

 private:
  bool before_;
};

}  // namespace adjoint
