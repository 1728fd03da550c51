// The memory of tensors and of everything the graph is made of.
//
// Three tiers, by size, all behind `allocate` and `deallocate`:
//
//   small    up to 512 B    steps of 16 B; a free list per thread, reached in a few instructions inlined here
//   medium   up to 64 KiB   eight steps per power of two; the same free lists, shorter
//   large    above          64 steps per power of two; one central cache, mapped from the system
//
// Fresh pages cost more than the arithmetic done on them, so freed blocks are kept and given out again. A
// block may be freed by any thread: it joins that thread's list. Lists that grow too long hand a batch to the
// centre, and a thread that ends hands over all it has.
//
// The caller states the size again when it frees; no block carries a header. Blocks above 512 B are aligned
// to 64 bytes, small ones to 16.
//
// Statistics are exact without a counter on the fast path: what is in use is what the centre ever handed out
// less what lies in the free lists, and these know their lengths.
//
// Start reading at `allocate`, then allocator.cpp from `allocate_slow`.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

namespace adjoint::runtime {

/// Thrown when the system or the limit refuses memory; the message says how much was asked, used and allowed.
class OutOfMemory : public std::bad_alloc {
 public:
  OutOfMemory(size_t asked, size_t in_use, size_t reserved, size_t limit) noexcept;
  const char* what() const noexcept override { return message_; }

 private:
  char message_[224];
};

struct MemoryStatistics {
  /// Bytes in use, each block rounded up to its size class. Exact while no other thread allocates.
  size_t allocated_bytes;
  /// The most that `allocated_bytes` has been. Sampled at each large allocation and each time a thread's free
  /// list runs empty: exact for large blocks, while up to 64 KiB per thread and size class of smaller ones
  /// can go unseen.
  size_t peak_allocated_bytes;
  /// Bytes obtained from the system: in use, cached, or not yet carved into small blocks.
  size_t reserved_bytes;
  size_t peak_reserved_bytes;
  /// Blocks in use.
  size_t allocation_count;
  /// Bytes reserved but not in use.
  size_t cached_bytes;
};

MemoryStatistics memory_statistics();
/// Sets both peaks to what is allocated and reserved now.
void reset_peak_memory_statistics();
/// Returns to the system what the centre and the calling thread cache: medium and large blocks, and slabs of
/// small ones of which no block is in use or in another thread's list. (See also runtime/memory_at_rest.h.)
void empty_cache();
/// Bounds `reserved_bytes`; 0 means no limit. An allocation that would exceed it empties the cache first, and
/// throws OutOfMemory if that does not suffice.
void set_memory_limit(size_t bytes);

/// count * item_size, or OutOfMemory when the product is negative or cannot be addressed.
size_t checked_bytes(int64_t count, size_t item_size);

inline constexpr size_t small_limit = 512;
inline constexpr size_t medium_limit = size_t{64} << 10;
/// More than any machine addresses; every larger request is refused before any arithmetic on it can overflow.
inline constexpr size_t largest_block = size_t{1} << 47;

namespace detail {

inline constexpr size_t small_classes = small_limit / 16 + 1;  // class 0 serves requests of no bytes
inline constexpr size_t medium_classes = 7 * 8;                // seven doublings from 512 B to 64 KiB
inline constexpr size_t cached_classes = small_classes + medium_classes;

struct FreeBlock {
  FreeBlock* next;
};

/// The free blocks of one size class that one thread holds.
struct FreeList {
  FreeBlock* head;
  std::atomic<uint32_t> count;  // written by the owner alone; others read it for statistics
  uint32_t limit;
};

struct ThreadCache {
  FreeList lists[cached_classes];
  ThreadCache* next;  // all caches, and those without a thread, are chained by the centre
  ThreadCache* next_idle;
};

// The thread-local variable is one pointer, because the space for initial-exec variables of a library loaded
// at run time is scarce. Before a thread's first allocation and after its end it points to `no_cache`, whose
// lists are empty and accept nothing, so that the fast path needs no test of its own.
extern ThreadCache no_cache;
#if defined(__linux__) && defined(__GLIBC__)
[[gnu::tls_model("initial-exec")]]
#endif
extern thread_local constinit ThreadCache* thread_cache;

void* allocate_slow(size_t list);
void deallocate_slow(void* block, size_t list) noexcept;
void* allocate_large(size_t bytes);
void deallocate_large(void* block, size_t bytes) noexcept;
void* allocate_plain(size_t bytes);
void deallocate_plain(void* block, size_t bytes) noexcept;

inline size_t small_list(size_t bytes) { return (bytes + 15) >> 4; }

/// The least 2^k (1 + i/8) that holds `bytes`, for bytes > 512.
struct SteppedClass {
  size_t bytes;
  size_t index;  // counted from the first class above 512 B
};
inline SteppedClass stepped_class(size_t bytes) {
  const size_t last = bytes - 1;
  const size_t exponent = std::bit_width(last) - 1;
  const size_t step = last >> (exponent - 3);  // 8 .. 15
  return {(step + 1) << (exponent - 3), (exponent - 9) * 8 + (step - 8)};
}

/// Large blocks waste less than one part in 64, since every page of them counts: the least 2^k (1 + i/64), of
/// whole pages, that holds `bytes`, for bytes > 64 KiB. The index is counted from the first class above 64
/// KiB.
inline SteppedClass large_class(size_t bytes) {
  const size_t last = (bytes - 1) | 4095;
  const size_t exponent = std::bit_width(last) - 1;
  const size_t step = last >> (exponent - 6);  // 64 .. 127
  return {(step + 1) << (exponent - 6), (exponent - 16) * 64 + (step - 64)};
}

inline void* take(size_t index) {
  FreeList& list = thread_cache->lists[index];
  FreeBlock* block = list.head;
  if (block == nullptr) [[unlikely]]
    return allocate_slow(index);
  list.head = block->next;
  list.count.store(list.count.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  return block;
}

inline void give(void* memory, size_t index) noexcept {
  FreeList& list = thread_cache->lists[index];
  const uint32_t count = list.count.load(std::memory_order_relaxed);
  if (count >= list.limit) [[unlikely]]
    return deallocate_slow(memory, index);
  FreeBlock* block = static_cast<FreeBlock*>(memory);
  block->next = list.head;
  list.head = block;
  list.count.store(count + 1, std::memory_order_relaxed);
}

}  // namespace detail

/// The bytes that a request really occupies.
inline size_t size_class(size_t bytes) {
  if (bytes <= small_limit) return bytes == 0 ? 16 : (bytes + 15) & ~size_t{15};
  return (bytes <= medium_limit ? detail::stepped_class(bytes) : detail::large_class(bytes)).bytes;
}

/// At most 512 bytes, aligned to 16.
static inline void* allocate_small(size_t bytes) {
#ifdef ADJOINT_SANITIZE
  return detail::allocate_plain(bytes);
#else
  return detail::take(detail::small_list(bytes));
#endif
}

static inline void deallocate_small(void* block, size_t bytes) noexcept {
#ifdef ADJOINT_SANITIZE
  detail::deallocate_plain(block, bytes);
#else
  detail::give(block, detail::small_list(bytes));
#endif
}

/// Never null; throws OutOfMemory. The content is arbitrary.
inline void* allocate(size_t bytes) {
#ifdef ADJOINT_SANITIZE
  return detail::allocate_plain(bytes);
#else
  if (bytes <= small_limit) return allocate_small(bytes);
  if (bytes <= medium_limit) return detail::take(detail::small_classes + detail::stepped_class(bytes).index);
  return detail::allocate_large(bytes);
#endif
}

/// `bytes` must be what was asked for. A null block is ignored.
inline void deallocate(void* block, size_t bytes) noexcept {
  if (block == nullptr) return;
#ifdef ADJOINT_SANITIZE
  detail::deallocate_plain(block, bytes);
#else
  if (bytes <= small_limit) return deallocate_small(block, bytes);
  if (bytes <= medium_limit)
    return detail::give(block, detail::small_classes + detail::stepped_class(bytes).index);
  detail::deallocate_large(block, bytes);
#endif
}

}  // namespace adjoint::runtime
