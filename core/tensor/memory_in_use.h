// Memory that a tensor gives up while another thread reads or writes it.
//
// A tensor can be given other memory (`x.data = y`), and then the old one would go, though another thread
// computes on it outside of Python's lock. So who works beside other threads stands in a `MemoryInUse`: what
// is given up meanwhile goes when each of those who stood there at that moment has left, or has come to a
// `pause`. Nobody names operands, so none can be forgotten; a call that nobody works beside gives memory back
// at once.
//
// Sizes and address of a tensor have to be of one memory, too, for who reads both. The rules of a pass read
// what was saved, with no list of it; so who replaces memory makes the passes of other threads stand still
// (`Halt`) at their next `pause`. A pass that waits or that has called another language (`Away`) reads
// nothing, and is not waited for: it may wait for the very thread that replaces memory.
#pragma once

#include <atomic>
#include <cstdint>

#include "tensor/storage.h"

namespace adjoint {

/// Whether memory waits until it is out of use.
extern std::atomic<bool> memory_waits;

class MemoryInUse {
 public:
  /// What a thread does: one call, or a backward pass.
  enum Kind : uint8_t { Call, Pass };
  explicit MemoryInUse(bool when, Kind kind = Call) : kind_(kind) {
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

  /// For its scope this thread reads no tensor in its pass.
  class Away {
   public:
    Away();
    ~Away() {
      if (from_) back();
    }
    Away(const Away&) = delete;

   private:
    void back();
    MemoryInUse* const from_;
  };

  /// The passes of other threads stand still once this is `complete`, until it ends.
  class Halt {
   public:
    Halt() = default;
    ~Halt() {
      if (asked_) end();
    }
    Halt(const Halt&) = delete;
    /// Asks them to, and whether all do.
    bool complete();

   private:
    void end();
    bool asked_ = false;
  };

 private:
  friend struct UsedMemory;
  void enter();
  void leave();
  static void begin_again();

  /// 0: this one does not count.
  uint64_t since_ = 0;
  const Kind kind_;
  /// Of a pass, with the lock: it waits for the end of a halt; how many `Away` are open.
  bool still_ = false;
  uint16_t away_ = 0;
  /// All of them, in no order; and the one around this in its thread.
  MemoryInUse *next_, **link_, *outer_;
};

/// Let a tensor's count on its storage go, now or when nobody who may use it is left.
void give_up(Storage* storage);

}  // namespace adjoint
