// The state of the allocator's centre, shared by allocator.cpp, which moves blocks, and
// memory_statistics.cpp, which counts them. Nobody else includes this.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "runtime/allocator.h"
#include "runtime/lock.h"
#include "runtime/system.h"

namespace adjoint::runtime::detail {

inline constexpr size_t slab_bytes = size_t{64} << 10;
inline constexpr size_t chunk_bytes = size_t{4}
                                      << 20;  // slabs come by the chunk once a program has shown its appetite
inline constexpr size_t large_classes = 31 * 64;  // 64 KiB to 2^47
inline constexpr size_t cache_floor = size_t{256} << 20;

constexpr size_t list_block_bytes(size_t index) {
  if (index < small_classes) return std::max<size_t>(index, 1) * 16;
  const size_t step = index - small_classes;
  return (9 + step % 8) << (6 + step / 8);
}
static_assert(list_block_bytes(cached_classes - 1) == medium_limit);

/// How many blocks travel between a thread and the centre at once.
constexpr uint32_t batch_of(size_t index) {
  const size_t bytes = list_block_bytes(index);
  return static_cast<uint32_t>(index < small_classes ? std::clamp<size_t>((size_t{16} << 10) / bytes, 32, 256)
                                                     : std::clamp<size_t>((size_t{16} << 10) / bytes, 1, 16));
}
constexpr uint32_t list_limit(size_t index) { return 4 * batch_of(index); }

/// A free block in the centre: the first of a batch links to the next batch, too. Fits into 16 bytes.
struct BatchHead : FreeBlock {
  BatchHead* next_batch;
};

struct LargeBlock {
  LargeBlock* newer;
  LargeBlock* older;
  uint64_t tick;  // when it was freed
};

/// Two megabytes of a chunk; see allocator_rest.cpp.
inline constexpr size_t piece_bytes = size_t{2} << 20, slabs_per_piece = piece_bytes / slab_bytes;
struct Piece {
  uintptr_t number;                   // its address in units of its size; 0 in an unused entry
  uint16_t resting[slabs_per_piece];  // blocks of each slab, while they are counted
};

/// What rests while at least so much does, for so long, goes back to the system.
inline constexpr size_t rest_floor = size_t{16} << 20;
inline constexpr int64_t rest_period = 1'000'000'000;  // ns

/// What the centre's lock guards is short: who finds it held looks again for about a microsecond before it
/// sleeps.
class CentreLock {
 public:
  void lock() noexcept {
    for (int i = 0; i < 64; ++i) {
      if (lock_.try_lock()) return;
      system::pause();
    }
    lock_.lock();
  }
  void unlock() noexcept { lock_.unlock(); }

 private:
  SmallLock lock_;
};

struct Centre {
  CentreLock mutex;
  ThreadCache* caches = nullptr;  // all, whether a thread has them or not
  ThreadCache* idle_caches = nullptr;
  BatchHead* batches[cached_classes] = {};  // of batch_of(index) blocks each
  FreeBlock* loose[cached_classes] = {};
  char* slab[small_classes] = {};  // what is left to carve
  char* slab_end[small_classes] = {};
  char* chunk = nullptr;
  char* chunk_end = nullptr;
  LargeBlock* newest[large_classes] = {};
  LargeBlock* oldest[large_classes] = {};
  uint64_t clock = 0;

  uint32_t resting[cached_classes] = {};        // blocks in `batches` and `loose`
  uint32_t least_resting[cached_classes] = {};  // the least since `rest_began`
  int64_t rest_began = 0;
  Piece* pieces = nullptr;  // of all chunks, by address: open addressing
  size_t piece_mask = 0, piece_count = 0;
  char** empty_slabs = nullptr;  // without pages
  size_t empty_slab_count = 0;

  size_t owned_bytes = 0, owned_count = 0;  // small and medium blocks that exist
  size_t idle_bytes = 0, idle_count = 0;    // those that rest here
  size_t large_bytes = 0, large_count = 0;  // large blocks in use
  size_t large_idle_bytes = 0;
  size_t plain_bytes = 0, plain_count = 0;  // see allocate_plain, allocate_checked
  size_t reserved = 0;
  size_t peak_reserved = 0, peak_allocated = 0;
  size_t limit = 0;
};

extern Centre& centre;
using Lock = std::lock_guard<CentreLock>;

// All with the mutex held.

struct InUse {
  size_t bytes, count;
};
InUse in_use();
/// Raises the peak to what is in use now.
void sample_peak();
[[noreturn]] void refuse(size_t bytes);
/// A block that came from the system by itself, of a size class.
void count_plain(size_t size);
void uncount_plain(size_t size);
/// Releases to the system everything that can be without asking other threads.
void release_cached();
/// What has rested through the last period goes back, if it is over.
void release_rested();
void release_all_slabs();
/// Of a medium class, up to `most` blocks.
void release_medium(size_t index, size_t most);
/// Slabs of this chunk can be released; false if not.
bool register_chunk(char* chunk);

// Without it; see allocator_checked.cpp.

/// Whether blocks are checked; the same for as long as the program runs.
bool checking() noexcept;
void* allocate_checked(size_t bytes);
void deallocate_checked(void* block, size_t bytes) noexcept;

}  // namespace adjoint::runtime::detail
