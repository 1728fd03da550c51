// The same bytes again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace adjoint::runtime {

/// n copies of a value of `item` bytes, a power of two up to 16.
inline void repeat(char* to, const void* value, int64_t item, int64_t n) {
  typedef uint64_t Pattern __attribute__((vector_size(16), aligned(1), may_alias));
  constexpr int64_t kNear = 4096;
  const int64_t all = item * n;
  if (all < 16) {
    for (int64_t at = 0; at < all; at += item) std::memcpy(to + at, value, static_cast<size_t>(item));
    return;
  }
  char bytes[16];
  for (int64_t at = 0; at < 16; at += item) std::memcpy(bytes + at, value, static_cast<size_t>(item));
  const Pattern pattern = *reinterpret_cast<const Pattern*>(bytes);
  // A first piece, whose last store may lie over the one before; then what is in the cache already.
  const int64_t first = all < kNear ? all : kNear;
  int64_t at = 0;
  for (; at + 64 <= first; at += 64) {
    *reinterpret_cast<Pattern*>(to + at) = pattern;
    *reinterpret_cast<Pattern*>(to + at + 16) = pattern;
    *reinterpret_cast<Pattern*>(to + at + 32) = pattern;
    *reinterpret_cast<Pattern*>(to + at + 48) = pattern;
  }
  for (; at + 16 <= first; at += 16) *reinterpret_cast<Pattern*>(to + at) = pattern;
  *reinterpret_cast<Pattern*>(to + first - 16) = pattern;
  for (at = first; at < all; at += kNear)
    std::memcpy(to + at, to, static_cast<size_t>(all - at < kNear ? all - at : kNear));
}

}  // namespace adjoint::runtime
