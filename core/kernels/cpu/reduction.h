// Reductions on raw memory: the folds there are, their accumulators, and the table of loops per instruction
// set.
//
// A fold has a state ("accumulator") per result, starts from an identity, takes in elements, merges with
// another state, and is finished into a result by the caller. Accumulators are wider than the elements: float
// adds up in double across blocks, so that an error does not grow with the length. The loops come in two
// forms, for the two ways in which a tensor can lie: `rows` folds contiguous runs, `columns` folds whole rows
// of memory into many accumulators side by side. Plain structs, no code: included by files compiled per
// instruction set (kernels/cpu/variants.h). Start reading at `Fold`; who drives the loops is
// kernels/cpu/reduction.cpp.
#pragma once

#include <cstdint>

#include "tensor/complex.h"

namespace adjoint {

/// What is folded. Powers are of the absolute value; `parameter` is their exponent.
enum class Fold : uint8_t {
  Sum,
  Product,
  Max,
  Min,
  FirstMax,
  FirstMin,
  Moments,
  ExpSum,
  NonNanSum,
  Nonzero,
  AbsSum,
  SquareSum,
  PowerSum,
  AbsMax,
  AbsMin
};
inline constexpr int kFolds = 15;

/// The widest type in which T adds up.
template <class T>
struct Wide {
  using type = int64_t;
};
template <>
struct Wide<float> {
  using type = double;
};
template <>
struct Wide<double> {
  using type = double;
};
template <class T>
struct Wide<Complex<T>> {
  using type = Complex<double>;
};
template <class T>
using wide_t = typename Wide<T>::type;

/// An extreme element and where it is first found, counted along the reduction.
template <class T>
struct Located {
  T value;
  int64_t index;
};
/// Count, mean and sum of squared distances from the mean.
template <class W>
struct MomentsOf {
  double count;
  W mean;
  double squares;
};
/// The largest element and sum(exp(x - shift)), shift being the largest where that is finite, else 0.
struct ExpSumOf {
  double max;
  double sum;
};

/// The most columns that one call of `columns` may be given.
inline constexpr int64_t kMostColumns = 1024;

struct FoldLoops {
  /// acc[r] takes in the n elements of row r. `start` is the place of the first one along the reduction.
  void (*rows)(void* acc, const void* p, int64_t row_stride, int64_t rows, int64_t n, int64_t start,
               double parameter) = nullptr;
  /// acc[j] takes in p[r * row_stride + j] for all rows r.
  void (*columns)(void* acc, const void* p, int64_t row_stride, int64_t rows, int64_t columns, int64_t start,
                  double parameter) = nullptr;
};

/// The folds that T has; empty loops where it has not.
template <class T>
struct FoldTable {
  FoldLoops folds[kFolds];
  /// The sum of (a[i] - b[i])², of floating-point numbers.
  double (*squared_distance)(const T* a, const T* b, int64_t n) = nullptr;
};

}  // namespace adjoint
