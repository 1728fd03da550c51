// See pages.h.
#include "runtime/pages.h"

#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace adjoint::runtime::pages {

#if defined(__linux__)
namespace {

constexpr size_t mapped_from = size_t{1} << 20;
constexpr size_t huge_from = size_t{4} << 20;
constexpr size_t huge_page = size_t{2} << 20;

void* map(size_t bytes) noexcept {
  void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return block == MAP_FAILED ? nullptr : block;
}

/// Maps more than asked and gives back what lies outside the aligned block.
void* map_aligned(size_t bytes) noexcept {
  char* whole = static_cast<char*>(map(bytes + huge_page));
  if (whole == nullptr) return nullptr;
  const uintptr_t start = reinterpret_cast<uintptr_t>(whole);
  const size_t before = (huge_page - start % huge_page) % huge_page;
  const size_t after = huge_page - before;
  if (before) munmap(whole, before);
  if (after) munmap(whole + before + bytes, after);
  return whole + before;
}

}  // namespace

void* obtain(size_t bytes) noexcept {
  if (bytes < mapped_from) return std::aligned_alloc(64, bytes);
  if (bytes < huge_from) return map(bytes);
  void* block = map_aligned(bytes);
#ifdef MADV_HUGEPAGE
  if (block) madvise(block, bytes, MADV_HUGEPAGE);  // a wish: where it fails, small pages serve
#endif
  return block;
}

void release(void* block, size_t bytes) noexcept {
  if (bytes < mapped_from) {
    std::free(block);
  } else {
    munmap(block, bytes);
  }
}

void discard(void* block, size_t bytes) noexcept {
  constexpr uintptr_t page = 4096;
  const uintptr_t start = (reinterpret_cast<uintptr_t>(block) + page - 1) & ~(page - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(block) + bytes) & ~(page - 1);
  if (start < end) madvise(reinterpret_cast<void*>(start), end - start, MADV_DONTNEED);
}

#else

void* obtain(size_t bytes) noexcept { return ::operator new(bytes, std::align_val_t{64}, std::nothrow); }
void release(void* block, size_t) noexcept { ::operator delete(block, std::align_val_t{64}); }
void discard(void*, size_t) noexcept {}

#endif

}  // namespace adjoint::runtime::pages
