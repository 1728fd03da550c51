// What is done otherwise where programs for torch run (`adjoint.as_torch`): all of it, read by `for_torch`.
//
// Whoever does something for torch's sake alone gives it a field here, and asks for that. Python's half is
// src/adjoint/_switches.py.
#pragma once

#include <atomic>
#include <cstdint>

namespace adjoint {

struct ForTorch {
  /// Refuse calls that read memory where they write, which torch would compute wrongly. Here results are
  /// right.
  bool refuses_shared_memory;
  /// Say what torch says of its own old ways: orders of arguments, bytes as masks; and each time, not once.
  bool warns_of_old_ways, warns_always;
  /// How messages name the type of a shape.
  const char* size_name;
  /// What stands before the names of nodes that are no operator's: torch gives their C++ names.
  const char* before_own_nodes;
};

/// What was asked for, as bits.
enum TorchSetting : uint8_t { kServesTorch = 1, kWarnsAlways = 2 };
inline constinit std::atomic<uint8_t> torch_settings{0};

inline void set_for_torch(TorchSetting setting, bool on) {
  if (on)
    torch_settings.fetch_or(setting, std::memory_order_relaxed);
  else
    torch_settings.fetch_and(static_cast<uint8_t>(~setting), std::memory_order_relaxed);
}

inline ForTorch for_torch() {
  const uint8_t settings = torch_settings.load(std::memory_order_relaxed);
  const bool serves = settings & kServesTorch;
  return {.refuses_shared_memory = serves,
          .warns_of_old_ways = serves,
          .warns_always = (settings & kWarnsAlways) != 0,
          .size_name = serves ? "torch.Size" : "adjoint.Size",
          .before_own_nodes = serves ? "torch::autograd::" : ""};
}

}  // namespace adjoint
