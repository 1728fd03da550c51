// A call that computes on tensors while other threads have Python's lock.
//
// They may write `x.data = y` meanwhile, and a call that reads the sizes of one memory and the address of
// another leaves both. So such a call says what it computes on, and who gives a tensor other memory or
// another shape waits until no call of another thread does, and makes their backward passes stand still
// (`Replacing`). Start reading at `Computing`.
#pragma once

#include <optional>

#include "bind/lock.h"
#include "tensor/tensor.h"

namespace adjoint::bind {

class Computing {
 public:
  /// Where `when`: `each(add)` adds the operands, and the lock goes.
  template <class Each>
  Computing(bool when, Each&& each) {
    if (!when) return;
    each([this](const TensorImpl* t) { add(t); });
    begin();
  }
  ~Computing() {
    if (state_) end();
  }
  Computing(const Computing&) = delete;

 private:
  friend struct Computations;
  /// More of them count as all tensors.
  static constexpr int kMost = 6;
  void add(const TensorImpl* t) {
    if (count_ < kMost) operands_[count_] = t;
    ++count_;
  }
  void begin();
  void end();

  PyThreadState* state_ = nullptr;
  std::optional<MemoryInUse> memory_;
  int count_ = 0;
  const TensorImpl* operands_[kMost];
  const void* thread_;
  Computing *next_, **link_;
};

/// With Python's lock, while a tensor gets other memory: waits for the calls of other threads that compute on
/// it, and until their passes stand still. Until this thread lets the lock go, no other call begins. It does
/// not wait for calls in a call of its own, for which another might wait in turn.
class Replacing {
 public:
  explicit Replacing(const Tensor& t);

 private:
  MemoryInUse::Halt passes_;
};

}  // namespace adjoint::bind
