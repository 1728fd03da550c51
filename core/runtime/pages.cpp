// See pages.h.
#include "runtime/pages.h"

#include <cstdint>
#include <cstdlib>
#include <new>

namespace adjoint::runtime::pages {
namespace {

constexpr size_t mapped_from = size_t{1} << 20;
constexpr size_t huge_from = size_t{4} << 20;
constexpr size_t huge_page = size_t{2} << 20;
constexpr std::align_val_t alignment{64};

/// Maps more than asked and gives back what lies outside the aligned block.
void* map_aligned(size_t bytes) noexcept {
  char* whole = static_cast<char*>(system::map_pages(bytes + huge_page));
  if (whole == nullptr) return nullptr;
  const uintptr_t start = reinterpret_cast<uintptr_t>(whole);
  const size_t before = (huge_page - start % huge_page) % huge_page;
  const size_t after = huge_page - before;
  if (before) system::unmap_pages(whole, before);
  if (after) system::unmap_pages(whole + before + bytes, after);
  return whole + before;
}

bool is_mapped(size_t bytes) { return system::cheap_pages && bytes >= mapped_from; }

}  // namespace

void* obtain(size_t bytes) noexcept {
  if (!is_mapped(bytes)) return ::operator new(bytes, alignment, std::nothrow);
  if (bytes < huge_from) return system::map_pages(bytes);
  void* block = map_aligned(bytes);
  if (block) system::wish_large_pages(block, bytes);
  return block;
}

void release(void* block, size_t bytes) noexcept {
  if (is_mapped(bytes)) {
    system::unmap_pages(block, bytes);
  } else {
    ::operator delete(block, alignment);
  }
}

void discard(void* block, size_t bytes) noexcept {
  if (!can_discard) return;
  constexpr uintptr_t page = 4096;
  const uintptr_t start = (reinterpret_cast<uintptr_t>(block) + page - 1) & ~(page - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(block) + bytes) & ~(page - 1);
  if (start < end) system::discard_pages(reinterpret_cast<void*>(start), end - start);
}

}  // namespace adjoint::runtime::pages
