// The centre of the allocator: what the threads' free lists are filled from and drained to.
//
// The centre holds, under one mutex,
//   - for each small and medium class a stack of free blocks. Those that a thread drained as a
//     whole batch stay linked as one, so that the next thread to run dry takes them without walking;
//   - slabs, from which new small blocks are carved. Medium blocks are obtained one by one. What of either
//   has
//     rested for a while goes back to the system (allocator_rest.cpp);
//   - for each large class a list of free blocks, the most recently used first. When more is cached than was
//     ever in use (and than a floor of 256 MiB), the block that has rested longest goes back to the system.
//
// It lives in storage that is never destroyed: threads and static objects may still free when the program
// ends. Counting is in memory_statistics.cpp.
//
// Start reading at `allocate_slow`.
#include "runtime/allocator.h"

#include <algorithm>
#include <cstdlib>

#include "runtime/allocator_centre.h"
#include "runtime/pages.h"
#include "runtime/system.h"

namespace adjoint::runtime::detail {

constinit ThreadCache no_cache{};
thread_local constinit ThreadCache* thread_cache = &no_cache;

namespace {

/// Never destroyed.
union Immortal {
  Centre centre;
  constexpr Immortal() : centre() {}
  ~Immortal() {}
};
constinit Immortal immortal;

}  // namespace

constinit Centre& centre = immortal.centre;

namespace {

// --- pages; with the mutex held -------------------------------------------------------------------

void give_back(void* block, size_t bytes) {
  pages::release(block, bytes);
  centre.reserved -= bytes;
}

/// Within the limit; empties the cache when that or the system stands in the way. Null if it does not help.
void* obtain_or_null(size_t bytes) {
  const auto within = [&] { return centre.limit == 0 || centre.reserved + bytes <= centre.limit; };
  if (!within()) release_cached();
  if (!within()) return nullptr;
  void* block = pages::obtain(bytes);
  if (block == nullptr) {
    release_cached();
    block = pages::obtain(bytes);
    if (block == nullptr) return nullptr;
  }
  centre.reserved += bytes;
  centre.peak_reserved = std::max(centre.peak_reserved, centre.reserved);
  return block;
}

// --- large blocks ---------------------------------------------------------------------------------

void unlink(LargeBlock* block, size_t index) {
  (block->newer ? block->newer->older : centre.newest[index]) = block->older;
  (block->older ? block->older->newer : centre.oldest[index]) = block->newer;
}

size_t large_block_bytes(size_t index) { return (65 + index % 64) << (10 + index / 64); }

void release_large(LargeBlock* block, size_t index) {
  const size_t bytes = large_block_bytes(index);
  unlink(block, index);
  centre.large_idle_bytes -= bytes;
  give_back(block, bytes);
}

/// Releases what has rested longest until the cache is within its bound.
void trim_large() {
  const size_t bound = std::max(cache_floor, centre.peak_allocated);
  while (centre.large_idle_bytes > bound) {
    size_t index = large_classes;
    for (size_t i = 0; i < large_classes; ++i) {
      if (centre.oldest[i] == nullptr) continue;
      if (index == large_classes || centre.oldest[i]->tick < centre.oldest[index]->tick) index = i;
    }
    release_large(centre.oldest[index], index);
  }
}

// --- small and medium blocks ----------------------------------------------------------------------

void push_loose(FreeBlock* block, size_t index) {
  block->next = centre.loose[index];
  centre.loose[index] = block;
  centre.idle_bytes += list_block_bytes(index);
  centre.idle_count += 1;
  centre.resting[index] += 1;
}

/// A batch to split: its blocks are loose then.
void loosen_batch(size_t index) {
  BatchHead* batch = centre.batches[index];
  centre.batches[index] = batch->next_batch;
  centre.loose[index] = batch;
}

}  // namespace

void release_medium(size_t index, size_t most) {
  const size_t bytes = list_block_bytes(index);
  for (; most > 0; --most) {
    if (centre.loose[index] == nullptr && centre.batches[index]) loosen_batch(index);
    FreeBlock* block = centre.loose[index];
    if (block == nullptr) return;
    centre.loose[index] = block->next;
    give_back(block, bytes);
    centre.owned_bytes -= bytes;
    centre.owned_count -= 1;
    centre.idle_bytes -= bytes;
    centre.idle_count -= 1;
    centre.resting[index] -= 1;
  }
}

void release_cached() {
  ThreadCache* mine = thread_cache;
  for (size_t index = 0; index < cached_classes; ++index) {
    FreeList& list = mine->lists[index];
    while (list.head) {
      FreeBlock* block = list.head;
      list.head = block->next;
      push_loose(block, index);
    }
    if (mine != &no_cache) list.count.store(0, std::memory_order_relaxed);
    if (index >= small_classes) release_medium(index, centre.resting[index]);
  }
  release_all_slabs();
  for (size_t index = 0; index < large_classes; ++index) {
    while (centre.newest[index]) release_large(centre.newest[index], index);
  }
}

namespace {

bool new_slab(size_t index) {
  if (centre.empty_slab_count && (centre.limit == 0 || centre.reserved + slab_bytes <= centre.limit)) {
    centre.slab[index] = centre.empty_slabs[--centre.empty_slab_count];
    centre.slab_end[index] =
        centre.slab[index] + slab_bytes / list_block_bytes(index) * list_block_bytes(index);
    centre.reserved += slab_bytes;
    centre.peak_reserved = std::max(centre.peak_reserved, centre.reserved);
    return true;
  }
  if (centre.chunk == centre.chunk_end) {
    size_t bytes = centre.owned_bytes < chunk_bytes ? slab_bytes : chunk_bytes;
    if (centre.limit && centre.reserved + bytes > centre.limit) bytes = slab_bytes;
    char* chunk = static_cast<char*>(obtain_or_null(bytes));
    if (chunk == nullptr) return false;
    if (bytes == chunk_bytes) register_chunk(chunk);
    centre.chunk = chunk;
    centre.chunk_end = chunk + bytes;
  }
  centre.slab[index] = centre.chunk;
  centre.chunk += slab_bytes;
  centre.slab_end[index] =
      centre.slab[index] + slab_bytes / list_block_bytes(index) * list_block_bytes(index);
  return true;
}

/// A chain of up to `want` new blocks, in the order of their addresses; `got` says how many.
FreeBlock* make_blocks(size_t index, uint32_t want, uint32_t& got) {
  const size_t bytes = list_block_bytes(index);
  got = 0;
  FreeBlock* head = nullptr;
  if (index >= small_classes) {
    while (got < want) {
      // Only the first is needed; the others must not push the cache out of memory.
      if (got && centre.limit && centre.reserved + bytes > centre.limit) break;
      FreeBlock* block = static_cast<FreeBlock*>(obtain_or_null(bytes));
      if (block == nullptr) break;
      block->next = head;
      head = block;
      ++got;
    }
  } else {
    if (centre.slab[index] == centre.slab_end[index] && !new_slab(index)) return nullptr;
    const size_t left = static_cast<size_t>(centre.slab_end[index] - centre.slab[index]) / bytes;
    got = static_cast<uint32_t>(std::min<size_t>(want, left));
    char* start = centre.slab[index];
    centre.slab[index] = start + got * bytes;
    for (size_t i = got; i-- > 0;) {
      FreeBlock* block = reinterpret_cast<FreeBlock*>(start + i * bytes);
      block->next = head;
      head = block;
    }
  }
  centre.owned_bytes += got * bytes;
  centre.owned_count += got;
  return head;
}

/// A chain of free blocks that leaves the centre, at least one; throws when there is no memory.
FreeBlock* leave_centre(size_t index, uint32_t want, uint32_t& got) {
  const size_t bytes = list_block_bytes(index);
  FreeBlock* head = nullptr;
  got = 0;
  if (BatchHead* batch = want >= batch_of(index) ? centre.batches[index] : nullptr) {
    centre.batches[index] = batch->next_batch;
    got = batch_of(index);
    head = batch;
  } else {
    if (centre.loose[index] == nullptr && centre.batches[index] != nullptr) {
      loosen_batch(index);
    }
    while (got < want && centre.loose[index]) {
      FreeBlock* block = centre.loose[index];
      centre.loose[index] = block->next;
      block->next = head;
      head = block;
      ++got;
    }
  }
  if (got) {
    centre.idle_bytes -= got * bytes;
    centre.idle_count -= got;
    centre.resting[index] -= got;
    centre.least_resting[index] = std::min(centre.least_resting[index], centre.resting[index]);
    return head;
  }
  head = make_blocks(index, want, got);
  if (head == nullptr) refuse(bytes);
  return head;
}

// --- threads --------------------------------------------------------------------------------------

thread_local constinit bool thread_ended = false;

/// Hands the lists of a thread that ends to the centre.
struct AtThreadEnd {
  ~AtThreadEnd() {
    ThreadCache* cache = thread_cache;
    thread_ended = true;
    if (cache == &no_cache) return;
    Lock lock(centre.mutex);
    thread_cache = &no_cache;
    for (size_t index = 0; index < cached_classes; ++index) {
      FreeList& list = cache->lists[index];
      while (FreeBlock* block = list.head) {
        list.head = block->next;
        push_loose(block, index);
      }
      list.count.store(0, std::memory_order_relaxed);
    }
    cache->next_idle = centre.idle_caches;
    centre.idle_caches = cache;
  }
};

// A child of fork has one thread; without this it could inherit a mutex held by a thread it does not have.
void before_fork() { centre.mutex.lock(); }
void after_fork() { centre.mutex.unlock(); }
[[maybe_unused]] const bool forks_watched = (system::at_fork(before_fork, after_fork, after_fork), true);

/// Gives this thread its lists, unless it is ending or there is no memory for them.
bool adopt_cache() {
  if (thread_ended) return false;
  static thread_local AtThreadEnd at_thread_end;
  (void)at_thread_end;
  Lock lock(centre.mutex);
  ThreadCache* cache = centre.idle_caches;
  if (cache) {
    centre.idle_caches = cache->next_idle;
  } else {
    cache = static_cast<ThreadCache*>(std::calloc(1, sizeof(ThreadCache)));
    if (cache == nullptr) return false;
    new (cache) ThreadCache{};
    for (size_t i = 0; i < cached_classes; ++i) cache->lists[i].limit = list_limit(i);
    cache->next = centre.caches;
    centre.caches = cache;
  }
  thread_cache = cache;
  return true;
}

}  // namespace

// --- the slow paths that the header calls ---------------------------------------------------------

/// The list is empty: takes a batch from the centre, returns one block of it and keeps the others.
void* allocate_slow(size_t index) {
  if (checking()) [[unlikely]]
    return allocate_checked(list_block_bytes(index));
  const bool cached = thread_cache != &no_cache || adopt_cache();
  Lock lock(centre.mutex);
  uint32_t got = 0;
  FreeBlock* head = leave_centre(index, cached ? batch_of(index) : 1, got);
  if (cached) {
    FreeList& list = thread_cache->lists[index];
    list.head = head->next;
    list.count.store(got - 1, std::memory_order_relaxed);
  }
  sample_peak();
  return head;
}

/// The list is full, or the thread has none.
void deallocate_slow(void* memory, size_t index) noexcept {
  if (checking()) [[unlikely]]
    return deallocate_checked(memory, list_block_bytes(index));
  if (thread_cache == &no_cache && !adopt_cache()) {
    Lock lock(centre.mutex);
    push_loose(static_cast<FreeBlock*>(memory), index);
    return;
  }
  FreeList& list = thread_cache->lists[index];
  if (list.count.load(std::memory_order_relaxed) >= list.limit) {
    // The blocks at the head were used last and are in the processor's cache, yet the tail would have to be
    // walked to: what is cut off is the head.
    const uint32_t batch = batch_of(index);
    FreeBlock* last = list.head;
    for (uint32_t i = 1; i < batch; ++i) last = last->next;
    BatchHead* head = static_cast<BatchHead*>(list.head);
    list.head = last->next;
    last->next = nullptr;
    Lock lock(centre.mutex);
    head->next_batch = centre.batches[index];
    centre.batches[index] = head;
    centre.idle_bytes += batch * list_block_bytes(index);
    centre.idle_count += batch;
    centre.resting[index] += batch;
    if (centre.idle_bytes > rest_floor) release_rested();
    list.count.store(list.count.load(std::memory_order_relaxed) - batch, std::memory_order_relaxed);
  }
  give(memory, index);
}

void* allocate_large(size_t bytes) {
  if (bytes > largest_block) throw OutOfMemory(bytes, 0, 0, 0);
  if (checking()) [[unlikely]]
    return allocate_checked(bytes);
  const auto [size, index] = large_class(bytes);
  Lock lock(centre.mutex);
  void* memory = centre.newest[index];
  if (memory) {
    unlink(centre.newest[index], index);
    centre.large_idle_bytes -= size;
  } else {
    memory = obtain_or_null(size);
    if (memory == nullptr) refuse(bytes);
  }
  centre.large_bytes += size;
  centre.large_count += 1;
  if (centre.idle_bytes > rest_floor) release_rested();
  sample_peak();
  return memory;
}

void deallocate_large(void* memory, size_t bytes) noexcept {
  if (checking()) [[unlikely]]
    return deallocate_checked(memory, bytes);
  const auto [size, index] = large_class(bytes);
  Lock lock(centre.mutex);
  LargeBlock* block = new (memory) LargeBlock{nullptr, centre.newest[index], ++centre.clock};
  (block->older ? block->older->newer : centre.oldest[index]) = block;
  centre.newest[index] = block;
  centre.large_idle_bytes += size;
  centre.large_bytes -= size;
  centre.large_count -= 1;
  trim_large();
}

// With ADJOINT_SANITIZE every block comes from operator new and returns to operator delete at once, so that
// the sanitizers see each one with its exact size.
void* allocate_plain(size_t bytes) {
  if (bytes > largest_block) throw OutOfMemory(bytes, 0, 0, 0);
  const size_t size = size_class(bytes);
  Lock lock(centre.mutex);
  if (centre.limit && centre.reserved + size > centre.limit) refuse(bytes);
  const std::align_val_t alignment{bytes <= small_limit ? size_t{16} : size_t{64}};
  void* memory = ::operator new(bytes, alignment, std::nothrow);
  if (memory == nullptr) refuse(bytes);
  count_plain(size);
  return memory;
}

void count_plain(size_t size) {
  centre.plain_bytes += size;
  centre.plain_count += 1;
  centre.reserved += size;
  centre.peak_reserved = std::max(centre.peak_reserved, centre.reserved);
  sample_peak();
}
void uncount_plain(size_t size) {
  centre.plain_bytes -= size;
  centre.plain_count -= 1;
  centre.reserved -= size;
}

void deallocate_plain(void* memory, size_t bytes) noexcept {
  const size_t size = size_class(bytes);
  const std::align_val_t alignment{bytes <= small_limit ? size_t{16} : size_t{64}};
  ::operator delete(memory, alignment);
  Lock lock(centre.mutex);
  uncount_plain(size);
}

}  // namespace adjoint::runtime::detail
