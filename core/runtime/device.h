// Where the bytes of tensors are. A device is a kind and an index among its kind, and for each kind there is
// a table of what it does for us: see Note: devices.
//
// Two kinds are always there: the CPU, whose memory is the allocator's, and the meta device, which has none,
// so that a tensor there has a shape and no elements. Others come by `register_device`. Start reading at
// `DeviceFunctions`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace adjoint {

/// The kind in the lower three bits, the index in the others: one byte, so that it is compared at once.
enum class Device : uint8_t { CPU = 0, Meta = 1 };

inline constexpr unsigned kDeviceKinds = 8, kDevicesOfKind = 32;
constexpr unsigned device_kind(Device d) { return static_cast<unsigned>(d) % kDeviceKinds; }
constexpr unsigned device_index(Device d) { return static_cast<unsigned>(d) / kDeviceKinds; }
constexpr Device device_of_kind(unsigned kind, unsigned index) {
  return static_cast<Device>(kind + index * kDeviceKinds);
}
/// Addresses of no memory: what is launched there is shown, and not done (kernels/launch.h). Users know none:
/// its kind has functions, but is not among those registered.
inline constexpr Device kRecorded = device_of_kind(kDeviceKinds - 1, 0);
/// Thrown where elements there would be reached otherwise.
struct NotLaunched {};
/// cpu, meta, far:1
std::string name_of(Device d);
/// Whether there is a device of that number.
bool is_device(int64_t number);

namespace runtime {

/// What a kind of devices does for the core. Functions of C, since they may come from another library; any
/// thread calls them, also several at once. Those that return int return 0 where all went well.
struct DeviceFunctions {
  /// Of the kind; it stays.
  const char* name;
  int count;
  /// Addresses mean nothing to the host, which only counts with them. Null where there is no room.
  void* (*allocate)(int index, size_t bytes);
  void (*deallocate)(int index, void* address, size_t bytes);
  /// From the host and to it. They return when the bytes are there.
  int (*copy_in)(int index, void* to, const void* from, size_t bytes);
  int (*copy_out)(int index, void* to, const void* from, size_t bytes);
  /// Wait for all that was begun.
  int (*synchronise)(int index);
};

/// Gives the kind. Where one of that name is there already, it stays as it is. Throws std::length_error where
/// there is no room for another.
unsigned register_device(const DeviceFunctions& functions);
/// null: there is no such kind
const DeviceFunctions* functions_of(unsigned kind);

// The same for a device. Each throws std::runtime_error, which names the device.
void* allocate_on(Device d, size_t bytes);
void deallocate_on(Device d, void* address, size_t bytes) noexcept;
void copy_in(Device d, void* to, const void* from, size_t bytes);
void copy_out(Device d, void* to, const void* from, size_t bytes);
void synchronise(Device d);

}  // namespace runtime
}  // namespace adjoint
