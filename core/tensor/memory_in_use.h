// Memory that a tensor gives up while another thread reads or writes it.
//
// A tensor can be given other memory (`x.data = y`), and then the old one would go, though another thread
// computes on it outside of Python's lock. So who works beside other threads stands in a `MemoryInUse`: what
// is given up meanwhile goes when each of those who stood there at that moment has left, or has come to a
// `pause`. Nobody names operands, so none can be forgotten; a call that nobody works beside gives memory back
// at once.
#pragma once

#include <atomic>
#include <cstdint>

#include "tensor/storage.h"

namespace adjoint {

/// Whether memory waits until it is out of use.
extern std::atomic<bool> memory_waits;

class MemoryInUse {
 public:
  explicit MemoryInUse(bool when) {
    if (when) enter();
  }
  ~MemoryInUse() {
    if (since_) leave();
  }
  MemoryInUse(const MemoryInUse&) = delete;
  /// Between two calls this thread has no address of elements: what was given up until now need not wait for
  /// it.
  static void pause() {
    if (memory_waits.load(std::memory_order_relaxed)) [[unlikely]]
      begin_again();
  }

 private:
  friend struct UsedMemory;
  void enter();
  void leave();
  static void begin_again();

  /// 0: this one does not count.
  uint64_t since_ = 0;
  /// All of them, in no order; and the one around this in its thread.
  MemoryInUse *next_, **link_, *outer_;
};

/// Let a tensor's count on its storage go, now or when nobody who may use it is left.
void give_up(Storage* storage);

}  // namespace adjoint
