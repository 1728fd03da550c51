// The loops of resampling, per instruction set (kernels/cpu/variants.h).
#pragma once

#include <cstdint>

namespace adjoint {

/// Sums for so many neighbouring elements are made side by side.
inline constexpr int64_t kResampledLanes = 16;

/// What such a block of a row's results is made of. Where a result has fewer terms than another, places are
/// -1.
template <class T>
struct ResampledBlock {
  /// Places are counted from here, and all of them are below `span`.
  int64_t base, span, terms;
  /// The terms' places and weights, kResampledLanes of each at a time.
  const int32_t* places;
  const T* weights;
  /// By what the sums are divided; null for nothing.
  const T* divisors;
};

template <class T>
struct ResamplingTable {
  /// to = the sum of weights[k] * from[places[k] * n], n numbers each, over the divisor.
  void (*rows)(const T* from, const int64_t* places, const T* weights, int64_t terms, T divisor, int64_t n,
               T* to);
  /// A row of `n` numbers to one of `count`, by blocks that cover it.
  void (*row)(const T* from, int64_t n, const ResampledBlock<T>* blocks, int64_t count, T* to);
};

}  // namespace adjoint
