// Giving back memory that has rested: see Note: memory at rest.
#pragma once

#include <atomic>

namespace adjoint::runtime {

namespace detail {
extern constinit std::atomic<bool> much_rests;
void release_rested_now_and_then();
}  // namespace detail

/// Returns to the system what has rested long enough. To be called where a program comes by now and then,
/// even when it needs no new memory: costs a comparison while little rests.
inline void release_rested_memory() {
  if (detail::much_rests.load(std::memory_order_relaxed)) [[unlikely]]
    detail::release_rested_now_and_then();
}

}  // namespace adjoint::runtime
