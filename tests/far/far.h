// What the routines of the device "far" are written with. Each is a file of this folder, which nothing else
// names: its object says which routine of the host's it stands for, and by which call it is tested
// (tests/ops/test_devices.py).
#pragma once

#include "kernels/launch.h"

namespace far {

struct Routine {
  const uint64_t id;
  /// A call in Python that comes to this routine alone, and runs on the device where no tensor says so.
  const char* const call;
  bool (*const run)(const void* const* at);
  Routine* const next = std::exchange(first, this);
  static inline Routine* first = nullptr;
};

/// Where the elements of a tensor there are: an address that may be followed.
char* reach(const adjoint::Tensor& t);

template <class T>
const T& argument(const void* const* at, int i) {
  return *static_cast<const T*>(at[i]);
}

}  // namespace far
