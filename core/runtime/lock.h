// A lock of four bytes: two instructions where nobody else wants it, asleep in the kernel where somebody does.
//
// 0: free; 1: held; 2: held, and others may be waiting. For std::lock_guard.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace adjoint::runtime {

class SmallLock {
 public:
  void lock() noexcept {
    uint32_t expected = 0;
    if (!state_.compare_exchange_strong(expected, 1, std::memory_order_acquire)) [[unlikely]] wait();
  }
  bool try_lock() noexcept {
    uint32_t expected = 0;
    return state_.compare_exchange_strong(expected, 1, std::memory_order_acquire);
  }
  void unlock() noexcept {
    if (state_.exchange(0, std::memory_order_release) == 2) [[unlikely]] state_.notify_one();
  }

 private:
  [[gnu::noinline]] void wait() noexcept {
    while (state_.exchange(2, std::memory_order_acquire) != 0) state_.wait(2, std::memory_order_relaxed);
  }
  std::atomic<uint32_t> state_{0};
};

/// A copy of what a lock guards.
template <class Lock, class T> T copied(Lock& lock, const T& guarded) {
  std::lock_guard held(lock);
  return guarded;
}

}  // namespace adjoint::runtime
