// Where the allocator gets its memory: the system's pages.
//
// Blocks of a megabyte and more are mapped on their own, so that releasing one gives its pages back at once;
// from four megabytes on they start at a multiple of two megabytes and ask for huge pages, which the kernel
// then zeroes in one go. Elsewhere than on Linux, and for less, the C library's aligned allocation serves.
#pragma once

#include <cstddef>

#include "runtime/system.h"

namespace adjoint::runtime::pages {

/// Aligned to 64 bytes or more; null when the system refuses. `bytes` is a multiple of 64, and of the page
/// from 1 MiB.
void* obtain(size_t bytes) noexcept;
/// With the same number of bytes.
void release(void* block, size_t bytes) noexcept;
/// Give the whole pages within a block back to the system, where it allows; the addresses stay, and read as
/// zeros or as before.
void discard(void* block, size_t bytes) noexcept;
/// Whether the addresses read as zeros then, since their pages have gone.
inline constexpr bool can_discard = system::cheap_pages;

}  // namespace adjoint::runtime::pages
