#include "runtime/device.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include "for_size.h"

namespace adjoint {

namespace {

using runtime::DeviceFunctions;

namespace recorded {
/// No two at one address, and none where anything can lie.
void* allocate(int, size_t bytes) {
  thread_local uintptr_t next = uintptr_t{1} << 62;
  const uintptr_t address = next;
  next += (bytes + 127) & ~size_t{63};
  return reinterpret_cast<void*>(address);
}
void deallocate(int, void*, size_t) {}
int copy(int, void*, const void*, size_t) { throw NotLaunched(); }
}  // namespace recorded

std::mutex mutex;
constexpr unsigned kRegistered = kDeviceKinds - 1;  // at most
/// By kind. What is from `kinds` to `kRegistered` is not read.
DeviceFunctions device_table[kDeviceKinds] = {
    {"cpu", 1, {}, {}, {}, {}, {}},
    {"meta", 1, {}, {}, {}, {}, {}},
    {},
    {},
    {},
    {},
    {},
    {"recorded", 1, recorded::allocate, recorded::deallocate, recorded::copy, recorded::copy, {}}};
std::atomic<unsigned> kinds{2};

void need(int failure, Device d, const char* what) {
  if (failure)
    throw std::runtime_error(name_of(d) + ": the device could not " + what + " (its error " +
                             std::to_string(failure) + ")");
}

}  // namespace

std::string name_of(Device d) {
  const DeviceFunctions* f = runtime::functions_of(device_kind(d));
  const std::string kind = f ? f->name : "?";
  return d == Device::CPU || d == Device::Meta ? kind : kind + ":" + std::to_string(device_index(d));
}

bool is_device(int64_t number) {
  if (number < 0 || number > UINT8_MAX) return false;
  const auto d = static_cast<Device>(number);
  const DeviceFunctions* f = runtime::functions_of(device_kind(d));
  return f && device_index(d) < static_cast<unsigned>(f->count);
}

namespace runtime {

unsigned register_device(const DeviceFunctions& functions) {
  std::lock_guard lock(mutex);
  const unsigned n = kinds.load(std::memory_order_relaxed);
  for (unsigned kind = 0; kind < n; ++kind)
    if (std::strcmp(device_table[kind].name, functions.name) == 0) return kind;
  if (n == kRegistered || functions.count < 1 || functions.count > static_cast<int>(kDevicesOfKind))
    throw std::length_error("there is room for five kinds of devices, and of each for 1 to 32");
  device_table[n] = functions;
  kinds.store(n + 1, std::memory_order_release);
  return n;
}

const DeviceFunctions* functions_of(unsigned kind) {
  return kind < kinds.load(std::memory_order_acquire) ? &device_table[kind] : nullptr;
}

namespace {
const DeviceFunctions& functions_of(Device d) { return device_table[device_kind(d)]; }
int index(Device d) { return static_cast<int>(device_index(d)); }
}  // namespace

void* allocate_on(Device d, size_t bytes) {
  void* const address = functions_of(d).allocate(index(d), bytes);
  if (!address)
    throw std::runtime_error(name_of(d) + " out of memory. Tried to allocate " + std::to_string(bytes) +
                             " bytes; free tensors there, or use smaller ones");
  return address;
}
void deallocate_on(Device d, void* address, size_t bytes) noexcept {
  functions_of(d).deallocate(index(d), address, bytes);
}
void copy_in(Device d, void* to, const void* from, size_t bytes) {
  if (bytes) need(functions_of(d).copy_in(index(d), to, from, bytes), d, "copy from the host");
}
void copy_out(Device d, void* to, const void* from, size_t bytes) {
  if (bytes) need(functions_of(d).copy_out(index(d), to, from, bytes), d, "copy to the host");
}
void synchronise(Device d) {
  if (const auto wait = functions_of(d).synchronise) need(wait(index(d)), d, "finish what was begun");
}

}  // namespace runtime
}  // namespace adjoint
