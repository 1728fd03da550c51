// The loops of indexing that vary with the instruction set (kernels/cpu/variants.h): checks of indices, sums
// of slices.
#pragma once

#include <cstdint>

namespace adjoint {

struct IndexTable {
  /// Whether low <= index[i] < high for all of them.
  bool (*within)(const int64_t* index, int64_t n, int64_t low, int64_t high);
  /// to[i] = step * index[i * stride], or plus that, where a negative index counts from `size`; false if one
  /// is outside of that. The stride is 0 or 1.
  bool (*offsets)(int64_t* to, const int64_t* index, int64_t stride, int64_t n, int64_t size, int64_t step,
                  bool add);
  /// How many of n bools are true.
  int64_t (*count)(const bool* mask, int64_t n);
};

/// to = base + from[order[0]] + from[order[1]] + …, slices of n elements, added in this order. A null `base`
/// is zeros.
template <class T>
struct SliceTable {
  void (*add)(T* to, const T* base, const T* from, const int64_t* order, int64_t count, int64_t n);
};

}  // namespace adjoint
