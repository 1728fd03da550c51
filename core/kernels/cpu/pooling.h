// The innermost loop of pooling: see pooling.isa.cpp.
#pragma once

#include <cstdint>

namespace adjoint {

template <class T>
struct PoolingTable {
  /// The largest of the numbers at first + c · step + offsets[t] for c < n, and where they lie: less than
  /// 2^31 beyond `first`; without `positions` (null) the largest alone. A NaN counts as largest; of equals
  /// the first is taken, and of several NaN the last.
  void (*row)(const T* x, int64_t first, int64_t step, int64_t n, int64_t taps, const int64_t* offsets,
              T* values, int64_t* positions);
};

}  // namespace adjoint
