// A kind of devices for tests, "far", of which there are two: memory that the host cannot read.
//
// Addresses are handed out from pages that nobody may touch, so that whoever follows one dies there; the
// bytes are at the same place of other pages, which only the functions of this file know. They copy what lies
// within a living block, and refuse anything else. Blocks that are new, or were given back, are full of NaN.
// Start reading at `adjoint_device`.
#include "far.h"

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <mutex>

#include "runtime/device.h"

namespace {

constexpr int kCount = 2;
constexpr size_t kRoom = size_t{1} << 28;  // of each device

// Shared, since the system counts all private pages that may be written as data, touched or not, and the
// tests limit the data of a process.
char* map_pages(int access) {
  void* p = mmap(nullptr, kRoom, access, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<char*>(p);
}

struct Far {
  char* addresses = map_pages(PROT_NONE);
  char* bytes = map_pages(PROT_READ | PROT_WRITE);
  size_t used = 0;
  std::map<size_t, size_t> blocks;  // the living ones: where they begin, and how long they are

  /// Whether n bytes from there lie within one of them.
  bool lives(size_t at, size_t n) const {
    const auto after = blocks.upper_bound(at);
    if (after == blocks.begin()) return false;
    const auto [begin, length] = *std::prev(after);
    return at + n <= begin + length;
  }
};

std::mutex mutex;
Far& device(int index) {
  static Far devices[kCount];
  return devices[index];
}

void* allocate(int index, size_t n) {
  std::lock_guard lock(mutex);
  Far& far = device(index);
  if (!far.addresses || !far.bytes || n > kRoom - far.used) return nullptr;
  const size_t at = far.used;
  far.blocks[at] = n;
  far.used += (n + 64) / 64 * 64;  // never empty
  std::memset(far.bytes + at, 0xff, n);
  return far.addresses + at;
}

void deallocate(int index, void* address, size_t n) {
  std::lock_guard lock(mutex);
  Far& far = device(index);
  const auto at = static_cast<size_t>(static_cast<char*>(address) - far.addresses);
  const auto block = far.blocks.find(at);
  if (block == far.blocks.end() || block->second != n) __builtin_trap();
  std::memset(far.bytes + at, 0xff, n);
  far.blocks.erase(block);
  const auto last = far.blocks.rbegin();
  far.used = last == far.blocks.rend() ? 0 : (last->first + last->second + 64) / 64 * 64;
}

template <class F>
int copy(int index, const void* address, size_t n, const F& between) {
  std::lock_guard lock(mutex);
  const Far& far = device(index);
  const auto at = static_cast<size_t>(static_cast<const char*>(address) - far.addresses);
  if (!far.lives(at, n)) return 1;
  between(far.bytes + at);
  return 0;
}
int copy_in(int index, void* to, const void* from, size_t n) {
  return copy(index, to, n, [&](char* at) { std::memcpy(at, from, n); });
}
int copy_out(int index, void* to, const void* from, size_t n) {
  return copy(index, from, n, [&](const char* at) { std::memcpy(to, at, n); });
}
int synchronise(int) { return 0; }

bool (*routine(uint64_t id))(const void* const*) {
  const far::Routine* one = far::Routine::first;
  while (one && one->id != id) one = one->next;
  return one ? one->run : nullptr;
}

}  // namespace

char* far::reach(const adjoint::Tensor& t) {
  const Far& there = device(static_cast<int>(adjoint::device_index(adjoint::device_of(t))));
  return there.bytes + (t.bytes() - there.addresses);
}

/// The calls that come to routines of the device, from 0 on; null where there are no more.
extern "C" __attribute__((visibility("default"))) const char* far_call(int i) {
  const far::Routine* one = far::Routine::first;
  while (one && i-- > 0) one = one->next;
  return one ? one->call : nullptr;
}

extern "C" __attribute__((visibility("default"))) const adjoint::runtime::DeviceFunctions adjoint_device = {
    "far", kCount, allocate, deallocate, copy_in, copy_out, synchronise};
extern "C" __attribute__((visibility("default")))
const adjoint::DeviceRoutines adjoint_routines = {"far", routine};
