// Products of real matrices by loops of our own: see product.isa.cpp.
#pragma once

#include <cstdint>

#include "kernels/cpu/variants.h"

namespace adjoint {

/// Element (i, j) lies at data[i * down + j * across].
template <class T>
struct Matrix {
  const T* data;
  int64_t down, across;
};

/// Element (i, j) lies at data[rows[i] + columns[j]]. Eight numbers from there on must be readable.
template <class T>
struct Picked {
  const T* data;
  const int64_t *rows, *columns;
};

/// Elements of the scratch that `multiply` may be given.
inline constexpr int64_t kProductScratch = 272 * 352;

template <class T>
struct ProductTable {
  /// c = start + a b, where a is m x k, b is k x n and the rows of c lie `c_down` apart. Row i of the start
  /// lies at start + i * start_down: a bias has start_down = 0; with start_across = 0 instead of 1, one
  /// number stands for a row; a null start is zero. One of a's strides is 1. Each element is summed in one
  /// order, whatever part of the product a call covers. Blocks of a are copied to `scratch` unless it is
  /// null, which pays where the rows of a lie so that they evict each other from the cache. Null where there
  /// are no such loops.
  void (*multiply)(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, const T* start,
                   int64_t start_down, int64_t start_across, T* c, int64_t c_down, T* scratch);
  /// The same for a b of which elements are picked.
  void (*multiply_picked)(int64_t m, int64_t n, int64_t k, Matrix<T> a, Picked<T> b, const T* start,
                          int64_t start_down, int64_t start_across, T* c, int64_t c_down, T* scratch);
  /// c[i] = row i of a, k numbers side by side and `down` from the next, times x: on every processor.
  void (*rows_by_vector)(int64_t m, int64_t k, const T* a, int64_t down, const T* x, T* c);
};

/// The loops for a result of n columns: as many as fill one register of 512 bits, of which those loops would
/// take two side by side, fill two of 256.
template <class T>
const ProductTable<T>& product_loops(int64_t n) {
  constexpr int64_t kOne = 64 / sizeof(T);
  return n == kOne ? narrow_variant<ProductTable<T>>() : best_variant<ProductTable<T>>();
}

namespace kernels {
/// c = start + a b where there are loops for it, shared among threads; the rows of c lie n apart.
template <class T>
void multiply_picked(int64_t m, int64_t n, int64_t k, Matrix<T> a, Picked<T> b, const T* start,
                     int64_t start_down, int64_t start_across, T* c);
}  // namespace kernels

}  // namespace adjoint
