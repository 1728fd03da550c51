#include "bind/computing.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>
#include <thread>

#include "runtime/lock.h"
#include "runtime/system.h"
#include "state.h"

namespace adjoint::bind {

/// Those of all threads.
struct Computations {
  runtime::SmallLock lock;
  Computing* first = nullptr;

  /// Whether another thread computes on the tensor; not where this one is in a computation itself.
  bool use(const TensorImpl* t) {
    const std::lock_guard held(lock);
    bool used = false;
    for (const Computing* c = first; c; c = c->next_) {
      if (c->thread_ == &thread_state) return false;
      const auto* const end = c->operands_ + std::min(c->count_, Computing::kMost);
      used |= c->count_ > Computing::kMost || std::find(c->operands_, end, t) != end;
    }
    return used;
  }
};

namespace {
/// Never destroyed: threads may work when the program ends. A process that is forked has none of them.
Computations& all = *[] {
  runtime::system::at_fork(nullptr, nullptr, [] { new (&all) Computations; });
  return new Computations;
}();
}  // namespace

void Computing::begin() {
  memory_.emplace(true);
  thread_ = &thread_state;
  {
    const std::lock_guard held(all.lock);
    next_ = all.first;
    link_ = &all.first;
    if (next_) next_->link_ = &next_;
    all.first = this;
  }
  state_ = PyEval_SaveThread();
}

void Computing::end() {
  {
    const std::lock_guard held(all.lock);
    *link_ = next_;
    if (next_) next_->link_ = link_;
  }
  PyEval_RestoreThread(state_);
}

Replacing::Replacing(const Tensor& t) {
  using namespace std::chrono;
  // A rule that is not done by then may wait for this thread in a way that cannot be seen.
  const auto latest = steady_clock::now() + seconds(5);
  const auto used = [&] { return all.use(t.get()) || (!passes_.complete() && steady_clock::now() < latest); };
  while (used()) {
    // Calls and rules end without the lock, and calls cannot begin; but some ask for it in between.
    for (const auto until = steady_clock::now() + milliseconds(2); steady_clock::now() < until;) {
      std::this_thread::sleep_for(microseconds(20));
      if (!used()) return;
    }
    {
      const Unlocked moment(true);
      std::this_thread::sleep_for(microseconds(100));
    }
    if (PyErr_CheckSignals() < 0) throw nanobind::python_error();
  }
}

}  // namespace adjoint::bind
