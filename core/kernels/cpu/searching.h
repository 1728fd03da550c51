// Searching in rising sequences, by instruction set.
#pragma once

#include <cstdint>

namespace adjoint {

template <class T>
struct SearchTable {
  /// to[i]: how many of the n > 0 numbers of a rising sequence lie before v[i] (`right`: or equal it).
  void (*search)(const T* sequence, int64_t n, const T* v, int64_t* to, int64_t m, bool right);
};

}  // namespace adjoint
