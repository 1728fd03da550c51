// Blocks that are checked, for finding what reads and writes where it should not: ADJOINT_CHECKS=1 in the
// environment.
//
// No thread has lists then, so every block comes through the slow paths of allocator.cpp, and from there to
// here; programs without checks pay nothing. A block is
//   - filled with NaN (of each float type; the largest integers, nearly) when it is taken;
//   - between a head and some bytes that nobody writes, which are looked at when it is returned, and from
//     `closed_from` on between closed pages: reads beyond it are found, too (ADJOINT_CHECKS=2: of all but the
//     smallest);
//   - not used again for a while when it was returned: it is filled with other NaNs, and written by nobody;
//     or its pages are closed.
// What is found is said, and ends the program. Small blocks are as large as their class, so that up to 15
// bytes after one are its own, and an eighth of a middle one: builds with AddressSanitizer watch each byte.
//
// Start reading at `allocate_checked`.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "for_size.h"
#include "runtime/allocator_centre.h"
#include "runtime/system.h"

namespace adjoint::runtime::detail {

namespace {

constexpr uint64_t taken_word = 0x7ff57ff57ff57ff5, returned_word = 0x7ff67ff67ff67ff6;
constexpr uint64_t is_taken = 0x616a5f74616b656e, is_returned = 0x616a5f72657475;
constexpr size_t page = 4096, alignment = 64, least_after = 16;
/// What rests after it was returned: bytes of blocks with a head, and blocks with closed pages.
constexpr size_t resting_bytes = size_t{32} << 20, resting_closed = 512;
/// So many blocks lie between closed pages at once, each of which takes two or three of the 65,530 pieces of
/// memory that Linux gives a process: others want some, too, for the stacks of threads.
constexpr size_t most_closed = 20'000;

const char* asked() noexcept {
  const char* const said = std::getenv("ADJOINT_CHECKS");
  return said && *said && std::strcmp(said, "0") != 0 ? said : nullptr;
}
/// Blocks of so many bytes lie between closed pages.
size_t closed_from() noexcept {
  static const size_t bytes = asked() && std::strcmp(asked(), "2") == 0 ? 256 : size_t{16} << 10;
  return bytes;
}

/// In front of a block, and its other bytes are never written.
struct alignas(alignment) Head {
  uint64_t state;
  size_t bytes;  // of the block
  char* start;   // of the whole
  size_t whole;  // with head and end
  bool closed;   // between closed pages
  uint64_t unused[2];
};
static_assert(sizeof(Head) == alignment);

constexpr size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

void fill(char* from, size_t bytes, uint64_t word) {
  for (; bytes >= 8; from += 8, bytes -= 8) std::memcpy(from, &word, 8);
  std::memcpy(from, &word, bytes);
}
/// Whether the bytes of a block from `first` to `end` are as `fill` left them.
bool is_filled(const char* block, size_t first, size_t end, uint64_t word) {
  const char* const pattern = reinterpret_cast<const char*>(&word);
  for (size_t i = first; i < end; ++i)
    if (block[i] != pattern[i % 8]) return false;
  return true;
}

[[noreturn]] void found(const void* block, size_t bytes, const char* what) {
  std::fprintf(stderr, "adjoint (ADJOINT_CHECKS): %s: the block at %p, of %zu bytes\n", what, block, bytes);
  std::abort();
}

Head* head_of(void* block) { return static_cast<Head*>(block) - 1; }
char* end_of(const Head& h) { return h.start + h.whole - (h.closed ? page : 0); }

Head* place(char* start, size_t whole, size_t bytes, bool closed) {
  // The block ends where the pages do; where there are none, so much after its head as fits.
  char* const block =
      closed ? start + whole - page - rounded(bytes + least_after, alignment) : start + sizeof(Head);
  Head* const head =
      new (block - sizeof(Head)) Head{is_taken, bytes, start, whole, closed, {taken_word, taken_word}};
  fill(block, static_cast<size_t>(end_of(*head) - block), taken_word);
  return head;
}

/// Blocks between closed pages, those that rest included; with the centre's mutex.
size_t closed_blocks = 0;

Head* obtain(size_t bytes) {
  if (bytes >= closed_from() && closed_blocks < most_closed) {
    const size_t whole = rounded(sizeof(Head) + rounded(bytes + least_after, alignment), page) + 2 * page;
    if (void* p = system::map_pages(whole)) {
      char* const start = static_cast<char*>(p);
      // Where the system has no more pieces of pages to give, blocks do with a head.
      if (system::close_pages(start, page, true) && system::close_pages(start + whole - page, page, true)) {
        ++closed_blocks;
        return place(start, whole, bytes, true);
      }
      system::unmap_pages(p, whole);
    }
  }
  const size_t whole = sizeof(Head) + rounded(bytes + least_after, alignment);
  void* p = ::operator new(whole, std::align_val_t{alignment}, std::nothrow);
  return p ? place(static_cast<char*>(p), whole, bytes, false) : nullptr;
}

struct Resting {
  std::deque<Head*> blocks;
  std::deque<std::pair<char*, size_t>> closed;
  size_t bytes = 0;
};
Resting& resting = *new Resting;  // with the centre's mutex

void let_rest(Head* head) {
  if (head->closed) {
    const std::pair<char*, size_t> pages{head->start, head->whole};
    system::discard_pages(pages.first, pages.second);
    system::close_pages(pages.first, pages.second, true);
    resting.closed.push_back(pages);
    if (resting.closed.size() <= resting_closed) return;
    system::unmap_pages(resting.closed.front().first, resting.closed.front().second);
    resting.closed.pop_front();
    --closed_blocks;
    return;
  }
  head->state = is_returned;
  fill(reinterpret_cast<char*>(head + 1), head->bytes, returned_word);
  resting.blocks.push_back(head);
  resting.bytes += head->whole;
  while (resting.bytes > resting_bytes) {
    Head* const oldest = resting.blocks.front();
    resting.blocks.pop_front();
    if (oldest->state != is_returned ||
        !is_filled(reinterpret_cast<char*>(oldest + 1), 0, oldest->bytes, returned_word))
      found(oldest + 1, oldest->bytes, "memory was written after it was returned");
    resting.bytes -= oldest->whole;
    ::operator delete(oldest->start, std::align_val_t{alignment});
  }
}

}  // namespace

bool checking() noexcept {
  static const bool on = asked();
  return on;
}

void* allocate_checked(size_t bytes) {
  const size_t size = size_class(bytes);
  Lock lock(centre.mutex);
  if (centre.limit && centre.reserved + size > centre.limit) refuse(bytes);
  Head* const head = obtain(bytes);
  if (!head) refuse(bytes);
  count_plain(size);
  return head + 1;
}

void deallocate_checked(void* block, size_t bytes) noexcept {
  Head* const head = head_of(block);
  Lock lock(centre.mutex);
  if (head->state == is_returned) found(block, bytes, "memory was returned twice");
  if (head->state != is_taken || head->unused[0] != taken_word || head->unused[1] != taken_word)
    found(block, bytes, "memory in front of a block was written, or the block is none of the allocator's");
  if (head->bytes != bytes) found(block, head->bytes, "a block was returned as one of another size");
  const char* const start = static_cast<const char*>(block);
  if (!is_filled(start, bytes, static_cast<size_t>(end_of(*head) - start), taken_word))
    found(block, bytes, "memory after a block was written");
  let_rest(head);
  uncount_plain(size_class(bytes));
}

}  // namespace adjoint::runtime::detail
