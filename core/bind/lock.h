// Python's lock: held where Python is called, let go while a large operation works.
//
// When the interpreter ends, only the thread that ends it has the lock from then on, up to the last
// collections, during which objects are still looked at by the collector and have to be in order. Any other
// thread that asks for the lock stops there for ever: so does Python from 3.14 on; what earlier ones do,
// ending the thread by unwinding its stack, would run our destructors without the lock and end the program at
// the first function that does not throw (see lock.cpp).
#pragma once

#include <Python.h>

#include "tensor/device.h"
#include "tensor/memory_in_use.h"

namespace adjoint::bind {

/// Whether there is a Python whose lock this thread can have, or wait for: false after the interpreter has
/// ended, and while it ends for a thread that Python does not know. What Python owns stays as it is then.
inline bool python_is_there() noexcept { return Py_IsInitialized() || PyGILState_GetThisThreadState(); }

/// With Python's lock, in whichever thread. Only where `python_is_there()`.
class Locked {
 public:
  Locked() : state_(PyGILState_Ensure()) {}
  ~Locked() { PyGILState_Release(state_); }
  Locked(const Locked&) = delete;

 private:
  const PyGILState_STATE state_;
};

/// Python is called from here: with its lock held, and making tensors where the program does, whatever call
/// this is part of.
class InPython {
 public:
  InPython() = default;
  InPython(const InPython&) = delete;

 private:
  const MemoryInUse::Away away_;
  const Locked lock_;
  const DeviceScope cpu_{Device::CPU};
};

/// Lets other threads run while a large operation works. They may give its tensors other memory: what it
/// works on stays.
class Unlocked {
 public:
  explicit Unlocked(bool when, MemoryInUse::Kind kind = MemoryInUse::Call)
      : in_use_(when, kind), state_(when ? PyEval_SaveThread() : nullptr) {}
  ~Unlocked() {
    if (state_) PyEval_RestoreThread(state_);
  }
  Unlocked(const Unlocked&) = delete;

 private:
  const MemoryInUse in_use_;
  PyThreadState* const state_;
};
/// Elements from which releasing the lock pays.
inline constexpr int64_t kUnlockFrom = 65536;

}  // namespace adjoint::bind
