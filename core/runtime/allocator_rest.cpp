// What rests in the centre goes back to the system: see Note: memory at rest.
//
// Medium blocks were obtained one by one and go back so. Small ones are parts of slabs, and a slab goes when
// all of its blocks rest: `release_slabs` counts them. Its pages are the system's then, its addresses stay
// ours, and the next slab of whatever class takes them.
//
// Start reading at `release_rested`.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "runtime/allocator_centre.h"
#include "runtime/memory_at_rest.h"
#include "runtime/pages.h"

namespace adjoint::runtime::detail {

constinit std::atomic<bool> much_rests = false;

namespace {

constexpr uint16_t leaving = 0xffff;

Piece* find_piece(const void* block) {
  const uintptr_t number = reinterpret_cast<uintptr_t>(block) / piece_bytes;
  if (centre.pieces == nullptr) return nullptr;
  for (size_t i = number & centre.piece_mask;; i = (i + 1) & centre.piece_mask) {
    Piece& piece = centre.pieces[i];
    if (piece.number == number) return &piece;
    if (piece.number == 0) return nullptr;
  }
}

size_t slab_in_piece(const void* block) {
  return reinterpret_cast<uintptr_t>(block) % piece_bytes / slab_bytes;
}

void insert_piece(Piece* pieces, size_t mask, uintptr_t number) {
  size_t i = number & mask;
  while (pieces[i].number) i = (i + 1) & mask;
  pieces[i].number = number;
}

/// The resting blocks of a class, which are no longer listed then.
struct Resting {
  FreeBlock* block;
  BatchHead* batch;
  FreeBlock* loose;

  explicit Resting(size_t index) : block(nullptr), batch(centre.batches[index]), loose(centre.loose[index]) {}
  FreeBlock* next() {
    if (block == nullptr && batch) {
      block = batch;
      batch = batch->next_batch;
    }
    if (block == nullptr) std::swap(block, loose);
    FreeBlock* const found = block;
    if (found) block = found->next;
    return found;
  }
};

/// Of a small class: slabs all of whose blocks rest, together at most `most` blocks.
void release_slabs(size_t index, size_t most) {
  const size_t bytes = list_block_bytes(index), capacity = slab_bytes / bytes;
  if (most < capacity || centre.pieces == nullptr) return;
  for (size_t i = 0; i <= centre.piece_mask; ++i)
    for (uint16_t& resting : centre.pieces[i].resting) resting = 0;
  Resting counted(index);
  while (FreeBlock* block = counted.next())
    if (Piece* piece = find_piece(block)) ++piece->resting[slab_in_piece(block)];
  size_t slabs = 0;
  for (size_t i = 0; i <= centre.piece_mask; ++i) {
    Piece& piece = centre.pieces[i];
    for (size_t k = 0; k < slabs_per_piece; ++k)
      // (A slab that is still being carved has fewer.)
      if (piece.number && piece.resting[k] == capacity && (slabs + 1) * capacity <= most) {
        piece.resting[k] = leaving;
        ++slabs;
      }
  }
  if (slabs == 0) return;
  // The others are listed anew, in batches.
  Resting sorted(index);
  centre.batches[index] = nullptr;
  centre.loose[index] = nullptr;
  FreeBlock* chain = nullptr;
  uint32_t length = 0;
  while (FreeBlock* block = sorted.next()) {
    const Piece* piece = find_piece(block);
    if (piece && piece->resting[slab_in_piece(block)] == leaving) continue;
    block->next = chain;
    chain = block;
    if (++length < batch_of(index)) continue;
    BatchHead* head = static_cast<BatchHead*>(chain);
    head->next_batch = centre.batches[index];
    centre.batches[index] = head;
    chain = nullptr;
    length = 0;
  }
  centre.loose[index] = chain;
  for (size_t i = 0; i <= centre.piece_mask; ++i) {
    const Piece& piece = centre.pieces[i];
    for (size_t k = 0; k < slabs_per_piece; ++k) {
      if (piece.resting[k] != leaving) continue;
      char* slab = reinterpret_cast<char*>(piece.number * piece_bytes + k * slab_bytes);
      pages::discard(slab, slab_bytes);
      centre.empty_slabs[centre.empty_slab_count++] = slab;
    }
  }
  const size_t blocks = slabs * capacity;
  centre.reserved -= slabs * slab_bytes;
  centre.owned_bytes -= blocks * bytes;
  centre.owned_count -= blocks;
  centre.idle_bytes -= blocks * bytes;
  centre.idle_count -= blocks;
  centre.resting[index] -= blocks;
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

bool register_chunk(char* chunk) {
  if (!pages::can_discard || reinterpret_cast<uintptr_t>(chunk) % piece_bytes) return false;
  constexpr size_t added = chunk_bytes / piece_bytes;
  const size_t count = centre.piece_count + added;
  // Room for a slab of every piece to be empty.
  auto** empty =
      static_cast<char**>(std::realloc(centre.empty_slabs, count * slabs_per_piece * sizeof(char*)));
  if (empty == nullptr) return false;
  centre.empty_slabs = empty;
  if (centre.pieces == nullptr || 2 * count > centre.piece_mask + 1) {
    const size_t size = std::max<size_t>(64, 2 * std::bit_ceil(2 * count));
    auto* larger = static_cast<Piece*>(std::calloc(size, sizeof(Piece)));
    if (larger == nullptr) return false;
    for (size_t i = 0; centre.pieces && i <= centre.piece_mask; ++i)
      if (centre.pieces[i].number) insert_piece(larger, size - 1, centre.pieces[i].number);
    std::free(centre.pieces);
    centre.pieces = larger;
    centre.piece_mask = size - 1;
  }
  for (size_t i = 0; i < added; ++i)
    insert_piece(centre.pieces, centre.piece_mask, reinterpret_cast<uintptr_t>(chunk) / piece_bytes + i);
  centre.piece_count = count;
  return true;
}

void release_all_slabs() {
  for (size_t index = 0; index < small_classes; ++index) release_slabs(index, centre.resting[index]);
}

void release_rested() {
  much_rests.store(centre.idle_bytes > rest_floor, std::memory_order_relaxed);
  if (centre.idle_bytes <= rest_floor) return;
  const int64_t time = now();
  if (time - centre.rest_began < rest_period) return;
  for (size_t index = 0; index < cached_classes; ++index) {
    if (index < small_classes)
      release_slabs(index, centre.least_resting[index]);
    else
      release_medium(index, centre.least_resting[index]);
    centre.least_resting[index] = centre.resting[index];
  }
  centre.rest_began = time;
}

void release_rested_now_and_then() {
  Lock lock(centre.mutex);
  release_rested();
}

}  // namespace adjoint::runtime::detail
