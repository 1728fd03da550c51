// Sizes and strides: broadcasting, contiguity, dimension numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "runtime/small_vector.h"
#include "tensor/checked.h"
#include "tensor/error.h"

namespace adjoint {

using Dims = runtime::SmallVector<int64_t, 6>;
using IntList = std::span<const int64_t>;
using OptionalInts = std::optional<IntList>;

/// The most dimensions of a tensor: sets of them are masks of 64 bits. Checked where a rank is made, in
/// set_geometry.
inline constexpr int kMaxDims = 64;

/// ValueError for more dimensions than a tensor can have.
[[noreturn, gnu::cold, gnu::noinline]] void fail_rank(size_t rank);

/// Number of elements; refuses negative sizes and products that overflow.
int64_t count_of(IntList sizes, const char* op);

inline int64_t product(IntList sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}

/// Strides of a tensor that lies in row-major order.
Dims contiguous_strides(IntList sizes);

/// `dim` counted from the front; IndexError with torch's phrase when it is out of range. A scalar counts as
/// rank 1.
int wrap_dim(int64_t dim, int64_t ndim, const char* op);

/// A set of dimensions as a bit mask; none given means all. Refuses duplicates.
uint64_t dim_mask(std::optional<IntList> dims, int64_t ndim, const char* op);

/// The shape that both broadcast to; RuntimeError with torch's phrase when there is none.
Dims broadcast_shapes(IntList a, IntList b, const char* op);

/// "[2, 3]"
std::string to_string(IntList sizes);

inline bool same(IntList a, IntList b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) return false;
  return true;
}

}  // namespace adjoint
