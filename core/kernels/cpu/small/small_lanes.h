// Small matrices side by side: lane l of each vector belongs to matrix l, and element (i, j) of the matrices
// is vector number i + j rows of a block. For files compiled per instruction set. Start reading at `load`.
#pragma once

#include <type_traits>
#include <utility>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/small/small_matrices.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

#define ADJOINT_LANES ADJOINT_INDEPENDENT for (int64_t l = 0; l < kMatrixLanes<T>; ++l)

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

/// As many numbers as are turned at once: rows of a square.
template <class T>
struct RowOf {
  static constexpr int kBytes = ADJOINT_LEVEL >= 3 ? 32 : 16, kWidth = kBytes / sizeof(T);
  typedef T type __attribute__((vector_size(kBytes), may_alias, aligned(alignof(T))));
  ADJOINT_INLINE static type& at(T* p) { return *reinterpret_cast<type*>(p); }
  ADJOINT_INLINE static const type& at(const T* p) { return *reinterpret_cast<const type*>(p); }
};
/// The numbers of one half of two rows, in turn.
template <class T, bool High, int... I>
ADJOINT_INLINE typename RowOf<T>::type zip(typename RowOf<T>::type a, typename RowOf<T>::type b,
                                           std::integer_sequence<int, I...>) {
  constexpr int W = RowOf<T>::kWidth;
  return __builtin_shufflevector(a, b, ((I & 1) * W + I / 2 + (High ? W / 2 : 0))...);
}
/// Rows become columns, in rounds of which each moves the first bit of a row's number behind that of the
/// place in it.
template <class T, int Rounds = RowOf<T>::kWidth>
ADJOINT_INLINE void transpose(typename RowOf<T>::type* rows) {
  if constexpr (Rounds > 1) {
    constexpr int W = RowOf<T>::kWidth;
    typename RowOf<T>::type next[W];
#pragma GCC unroll 4
    for (int i = 0; i < W / 2; ++i) {
      next[2 * i] = zip<T, false>(rows[i], rows[i + W / 2], std::make_integer_sequence<int, W>{});
      next[2 * i + 1] = zip<T, true>(rows[i], rows[i + W / 2], std::make_integer_sequence<int, W>{});
    }
#pragma GCC unroll 8
    for (int i = 0; i < W; ++i) rows[i] = next[i];
    transpose<T, Rounds / 2>(rows);
  }
}
/// Copies between matrices, one per lane and in runs of `inner` numbers, and a block, squares at a time;
/// false where they do not lie so.
template <bool Load, class E, class T>
ADJOINT_INLINE bool copy_squares(int64_t rows, int64_t columns, Batch<E> m, T* block, int64_t lanes) {
  constexpr int64_t W = RowOf<std::remove_const_t<T>>::kWidth, L = kL<std::remove_const_t<T>>;
  using Rows = RowOf<std::remove_const_t<T>>;
  const bool by_rows = m.across < m.down;
  const int64_t inner = by_rows ? columns : rows, outer = by_rows ? rows : columns;
  if (ADJOINT_LEVEL == 0 || lanes != L || inner < W || (by_rows ? m.across : m.down) != 1) return false;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t first = 0; first < inner; first += W) {
      const int64_t i = first + W <= inner ? first : inner - W;
      E* at = m.data + o * (by_rows ? m.down : m.across) + i;
      T* vectors = block + (by_rows ? i * rows + o : o * rows + i) * L;
      const int64_t next = (by_rows ? rows : 1) * L;
      for (int64_t part = 0; part < L; part += W) {
        typename Rows::type square[W];
#pragma GCC unroll 8
        for (int w = 0; w < W; ++w)
          square[w] = Load ? Rows::at(at + (part + w) * m.step) : Rows::at(vectors + w * next + part);
        transpose<std::remove_const_t<T>>(square);
#pragma GCC unroll 8
        for (int w = 0; w < W; ++w)
          if constexpr (Load)
            Rows::at(vectors + w * next + part) = square[w];
          else
            Rows::at(at + (part + w) * m.step) = square[w];
      }
    }
  return true;
}

/// Lanes without a matrix get the first.
template <class T>
void load(int64_t count, int64_t rows, int64_t columns, Batch<const T> m, T* to) {
  constexpr int64_t L = kL<T>;
  const auto take = [](const T& from, T& x) __attribute__((always_inline)) { x = from; };
  if (copy_squares<true>(rows, columns, m, to, count)) return;
  if (count == L) return each_element(rows, columns, m, to, L, take);
  each_element(rows, columns, m, to, count, take);
  for (int64_t i = 0; i < rows * columns; ++i)
    for (int64_t l = count; l < L; ++l) to[i * L + l] = to[i * L];
}

template <class T>
void store(int64_t count, int64_t rows, int64_t columns, const T* from, Batch<T> m) {
  if (copy_squares<false>(rows, columns, m, from, count)) return;
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

/// The part of the lanes that a register holds.
template <class T>
struct VectorOf {
  static constexpr int kBytes = ADJOINT_LEVEL >= 4 ? 64 : ADJOINT_LEVEL >= 3 ? 32 : 16;
  typedef T type __attribute__((vector_size(kBytes), may_alias));
};
template <class T>
ADJOINT_INLINE typename VectorOf<T>::type& vector_at(T* p) {
  return *reinterpret_cast<typename VectorOf<T>::type*>(p);
}
template <class T>
ADJOINT_INLINE const typename VectorOf<T>::type& vector_at(const T* p) {
  return *reinterpret_cast<const typename VectorOf<T>::type*>(p);
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
