// Long work that a user ends: who computes for a long time asks now and then whether it is to stop.
//
// The core knows no signals. A language that calls it installs `poll_interrupt`; loops that may be long call
// `check_interrupt`, which asks at most a few times a second and costs a look at the clock otherwise.
// Parallel loops do so in the thread that started them, between pieces (parallel.cpp), so that kernels need
// not.
#pragma once

#include <exception>

namespace adjoint::runtime {

/// Thrown where work is to stop, with what the language that was asked threw.
struct Interrupted {
  std::exception_ptr why;
};

/// Throws where the work of this thread is to stop. Set by the bindings.
extern void (*poll_interrupt)();

/// Throws Interrupted where the user wants it. At most ten times a second the question is really asked.
void check_interrupt();

/// For its scope, this thread's work goes on to its end: half of it could not be told from none.
class Uninterrupted {
 public:
  Uninterrupted();
  ~Uninterrupted();
  Uninterrupted(const Uninterrupted&) = delete;
};

}  // namespace adjoint::runtime
