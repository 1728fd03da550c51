// A lock of four bytes: two instructions where nobody else wants it, asleep in the kernel where somebody
// does.
//
// 0: free; 1: held; 2: held, and others may be waiting. For std::lock_guard.
//
// No operator runs while such a lock is held: an operator may come to call another language, which has a lock
// of its own, and two threads that want each other's lock wait for ever. Builds with ADJOINT_CHECKS
// (sanitizers, Debug) count the locks that a thread holds, and the door refuses calls while there are any.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace adjoint::runtime {

#ifdef ADJOINT_CHECKS
inline thread_local int locks_held = 0;
inline void count_lock(int by) noexcept { locks_held += by; }
#else
inline void count_lock(int) noexcept {}
#endif

/// In builds with checks, ends the program if this thread holds a lock: `what` would run under it.
inline void check_no_lock([[maybe_unused]] const char* what) noexcept {
#ifdef ADJOINT_CHECKS
  if (locks_held == 0) return;
  std::fprintf(stderr, "adjoint: %s() is called while this thread holds a lock\n", what);
  std::abort();
#endif
}

class SmallLock {
 public:
  void lock() noexcept {
    count_lock(1);
    uint32_t expected = 0;
    if (!state_.compare_exchange_strong(expected, 1, std::memory_order_acquire)) [[unlikely]]
      wait();
  }
  bool try_lock() noexcept {
    uint32_t expected = 0;
    if (!state_.compare_exchange_strong(expected, 1, std::memory_order_acquire)) return false;
    count_lock(1);
    return true;
  }
  void unlock() noexcept {
    count_lock(-1);
    if (state_.exchange(0, std::memory_order_release) == 2) [[unlikely]]
      state_.notify_one();
  }

 private:
  [[gnu::noinline]] void wait() noexcept {
    while (state_.exchange(2, std::memory_order_acquire) != 0) state_.wait(2, std::memory_order_relaxed);
  }
  std::atomic<uint32_t> state_{0};
};

/// A copy of what a lock guards.
template <class Lock, class T>
T copied(Lock& lock, const T& guarded) {
  std::lock_guard held(lock);
  return guarded;
}

}  // namespace adjoint::runtime
