// Arithmetic on sizes, strides, offsets and counts, which a caller chooses: it raises where a result leaves
// 64 bits.
//
// Whatever multiplies or adds such numbers does it by these, so that what was compared with a size of memory
// is what will be used as an address.
#pragma once

#include <cstdint>
#include <span>

namespace adjoint {

/// RuntimeError with torch's phrase: `op` needs a size, `a sign b`, that no 64-bit integer holds.
[[noreturn, gnu::cold, gnu::noinline]] void fail_overflow(int64_t a, const char* sign, int64_t b,
                                                          const char* op);

inline int64_t checked_add(int64_t a, int64_t b, const char* op) {
  int64_t c;
  if (__builtin_add_overflow(a, b, &c)) [[unlikely]]
    fail_overflow(a, "+", b, op);
  return c;
}

inline int64_t checked_subtract(int64_t a, int64_t b, const char* op) {
  int64_t c;
  if (__builtin_sub_overflow(a, b, &c)) [[unlikely]]
    fail_overflow(a, "-", b, op);
  return c;
}

inline int64_t checked_multiply(int64_t a, int64_t b, const char* op) {
  int64_t c;
  if (__builtin_mul_overflow(a, b, &c)) [[unlikely]]
    fail_overflow(a, "*", b, op);
  return c;
}

/// The stretch of memory, in elements, that a shape with strides reaches: [low, high), empty where there are
/// no elements.
struct Stretch {
  int64_t low, high;
};

/// Strides may be negative. Sizes times strides times `itemsize` fit into 64 bits afterwards, without
/// elements too.
Stretch stretch_of(std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t offset,
                   int64_t itemsize, const char* op);

}  // namespace adjoint
