// What the allocator says of itself: statistics, limits, and the words in which it refuses.
//
// Invariant: bytes in use
//   = owned (blocks ever made, less those released) - idle in the centre - idle in the threads' lists
//     + large in use + what came by itself, or was counted by who holds it (`Counted`).
//
// Start reading at `in_use`.
#include <algorithm>
#include <cstdio>

#include "for_size.h"
#include "runtime/allocator_centre.h"
#include "runtime/counted.h"

namespace adjoint::runtime {

OutOfMemory::OutOfMemory(size_t asked, size_t in_use, size_t reserved, size_t limit) noexcept {
  if (asked > largest_block) {
    std::snprintf(
        message_, sizeof message_,
        "out of memory: a tensor of more than %zu bytes was asked for, which no machine can address",
        largest_block);
  } else if (limit) {
    std::snprintf(message_, sizeof message_,
                  "out of memory: %zu bytes asked, %zu in use, %zu reserved, the limit is %zu", asked, in_use,
                  reserved, limit);
  } else {
    std::snprintf(
        message_, sizeof message_,
        "out of memory: %zu bytes asked, %zu in use, %zu reserved, no limit set: the system refused", asked,
        in_use, reserved);
  }
}

[[gnu::hot]] size_t checked_bytes(int64_t count, size_t item_size) {
  if (count < 0 || (item_size != 0 && static_cast<uint64_t>(count) > largest_block / item_size)) {
    throw OutOfMemory(SIZE_MAX, 0, 0, 0);
  }
  return static_cast<size_t>(count) * item_size;
}

namespace detail {

InUse in_use() {
  size_t bytes = 0, count = 0;
  for (const ThreadCache* cache = centre.caches; cache; cache = cache->next) {
    for (size_t i = 0; i < cached_classes; ++i) {
      const size_t blocks = cache->lists[i].count.load(std::memory_order_relaxed);
      bytes += blocks * list_block_bytes(i);
      count += blocks;
    }
  }
  // While others run, a block that changes lists can be seen twice: hence the clamp.
  const size_t away_bytes = centre.owned_bytes - centre.idle_bytes;
  const size_t away_count = centre.owned_count - centre.idle_count;
  return {(away_bytes > bytes ? away_bytes - bytes : 0) + centre.large_bytes + centre.plain_bytes,
          (away_count > count ? away_count - count : 0) + centre.large_count + centre.plain_count};
}

void sample_peak() {
  const size_t at_most = centre.owned_bytes - centre.idle_bytes + centre.large_bytes + centre.plain_bytes;
  if (at_most > centre.peak_allocated)
    centre.peak_allocated = std::max(centre.peak_allocated, in_use().bytes);
}

[[noreturn]] void refuse(size_t bytes) {
  throw OutOfMemory(bytes, in_use().bytes, centre.reserved, centre.limit);
}

}  // namespace detail

using detail::centre;

MemoryStatistics memory_statistics() {
  detail::Lock lock(centre.mutex);
  const detail::InUse now = detail::in_use();
  centre.peak_allocated = std::max(centre.peak_allocated, now.bytes);
  return {now.bytes,       centre.peak_allocated,
          centre.reserved, centre.peak_reserved,
          now.count,       centre.reserved > now.bytes ? centre.reserved - now.bytes : 0};
}

void reset_peak_memory_statistics() {
  detail::Lock lock(centre.mutex);
  centre.peak_allocated = detail::in_use().bytes;
  centre.peak_reserved = centre.reserved;
}

void Counted::set(size_t bytes) {
  if (bytes == bytes_) return;
  detail::Lock lock(centre.mutex);
  if (bytes_) detail::uncount_plain(bytes_);
  if (bytes) detail::count_plain(bytes);
  bytes_ = bytes;
}

void empty_cache() {
  detail::Lock lock(centre.mutex);
  detail::release_cached();
}

void set_memory_limit(size_t bytes) {
  detail::Lock lock(centre.mutex);
  centre.limit = bytes;
}

}  // namespace adjoint::runtime
