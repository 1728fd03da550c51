#include "runtime/interrupt.h"

#include <chrono>

namespace adjoint::runtime {

void (*poll_interrupt)() = nullptr;

namespace {
thread_local int shielded = 0;
thread_local std::chrono::steady_clock::time_point asked{};
}  // namespace

void check_interrupt() {
  if (!poll_interrupt || shielded) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - asked < std::chrono::milliseconds(100)) return;
  asked = now;
  try {
    poll_interrupt();
  } catch (...) {
    throw Interrupted{std::current_exception()};
  }
}

Uninterrupted::Uninterrupted() { ++shielded; }
Uninterrupted::~Uninterrupted() { --shielded; }

}  // namespace adjoint::runtime
