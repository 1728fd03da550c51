// Where the bytes of a storage are. See Note: devices.
#pragma once

#include <cstdint>

namespace adjoint {

enum class Device : uint8_t {
  CPU,
  /// Nowhere: a tensor has a shape, a type and strides, and no elements.
  Meta,
  /// In memory of the CPU that only kernels can reach, for tests: see runtime/guarded.h.
  Guarded,
  /// Of a sparse tensor: in its indices and values. No device that users know (tensor/sparse.h).
  Sparse,
};
/// Those that users know.
inline constexpr int kDevices = 3;

constexpr const char* name_of(Device d) {
  return d == Device::CPU || d == Device::Sparse ? "cpu" : d == Device::Meta ? "meta" : "guarded";
}

}  // namespace adjoint
