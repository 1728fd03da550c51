// The loops of products with sparse matrices, per instruction set (kernels/cpu/variants.h).
#pragma once

#include <cstdint>

namespace adjoint {

template <class T>
struct SparseTable {
  /// out = Σ values[i] dense[columns[i]] over n entries i, in the order given, or one after the other; rows
  /// of `width` elements.
  void (*row)(int64_t width, int64_t n, const int64_t* order, const T* values, const int64_t* columns,
              const T* dense, T* out);
  /// Σ a[k] b[k].
  T (*dot)(int64_t width, const T* a, const T* b);
};

}  // namespace adjoint
