// Small matrices side by side: lane l of each vector belongs to matrix l, and element (i, j) of the matrices
// is vector number i + j rows of a block. For files compiled per instruction set. Start reading at `load`.
#pragma once

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/small_matrices.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

#define ADJOINT_LANES _Pragma("GCC ivdep") for (int64_t l = 0; l < kMatrixLanes<T>; ++l)

template <class T>
constexpr int64_t kL = kMatrixLanes<T>;

/// f(element of matrix l, lane l) for each element of matrices side by side, where vector i + j rows holds
/// element (i, j). Of larger matrices whole cache lines are met, along the smaller stride; of small ones the
/// same element of all.
template <class E, class T, class F>
ADJOINT_INLINE void each_element(int64_t rows, int64_t columns, Batch<E> m, T* block, int64_t lanes, F f) {
  const bool by_rows = m.across < m.down;
  const int64_t inner = by_rows ? columns : rows, outer = by_rows ? rows : columns;
  const int64_t step = by_rows ? m.across : m.down, outer_step = by_rows ? m.down : m.across;
  const int64_t block_step = (by_rows ? rows : 1) * kL<T>, block_outer = (by_rows ? 1 : rows) * kL<T>;
  for (int64_t o = 0; o < outer; ++o) {
    E* at = m.data + o * outer_step;
    T* vectors = block + o * block_outer;
    if (inner <= 8)
      for (int64_t i = 0; i < inner; ++i)
        for (int64_t l = 0; l < lanes; ++l) f(at[i * step + l * m.step], vectors[i * block_step + l]);
    else
      for (int64_t l = 0; l < lanes; ++l)
        for (int64_t i = 0; i < inner; ++i) f(at[i * step + l * m.step], vectors[i * block_step + l]);
  }
}

/// Lanes without a matrix get the first.
template <class T>
void load(int64_t count, int64_t rows, int64_t columns, Batch<const T> m, T* to) {
  constexpr int64_t L = kL<T>;
  const auto take = [](const T& from, T& x) __attribute__((always_inline)) { x = from; };
  if (count == L) return each_element(rows, columns, m, to, L, take);
  each_element(rows, columns, m, to, count, take);
  for (int64_t i = 0; i < rows * columns; ++i)
    for (int64_t l = count; l < L; ++l) to[i * L + l] = to[i * L];
}

template <class T>
void store(int64_t count, int64_t rows, int64_t columns, const T* from, Batch<T> m) {
  each_element(rows, columns, m, from, count,
               [](T& to, const T& x) __attribute__((always_inline)) { to = x; });
}

template <class T>
Batch<T> from_matrix(Batch<T> m, int64_t b) {
  return {m.data ? m.data + b * m.step : nullptr, m.down, m.across, m.step};
}
template <class T>
ADJOINT_INLINE T absolute(T x) {
  return x < 0 ? -x : x;
}

/// y -= x t for n vectors.
template <class T>
ADJOINT_INLINE void subtract(int64_t n, const T* x, const T* t, T* y) {
  for (int64_t i = 0; i < n; ++i, x += kL<T>, y += kL<T>) ADJOINT_LANES y[l] -= x[l] * t[l];
}

/// Numbers per lane.
template <class T>
struct Lane {
  alignas(64) T at[kL<T>];
  ADJOINT_INLINE T& operator[](int64_t l) { return at[l]; }
  ADJOINT_INLINE T operator[](int64_t l) const { return at[l]; }
};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
