// Decompositions of batches of small real matrices: as many at once as a vector of 64 bytes has lanes, one
// matrix in each. See small_matrices.isa.cpp.
#pragma once

#include <cstdint>

namespace adjoint {

/// Rows and columns of a small matrix, at most; and how many are worked on at once.
inline constexpr int64_t kSmallMatrix = 32;
/// The same of factors and products.
inline constexpr int64_t kSmallProduct = 6;
template <class T>
inline constexpr int64_t kMatrixLanes = 64 / sizeof(T);

/// Element (i, j) of matrix number b lies at data[i * down + j * across + b * step].
template <class T>
struct Batch {
  T* data;
  int64_t down, across, step;
};

/// All take `count` matrices, and `room` for `small_room(n)` vectors. Pivots and info are as LAPACK's.
template <class T>
struct SmallMatrixTable {
  /// Square matrices become L and U.
  void (*lu)(int64_t count, int64_t n, Batch<const T> from, Batch<T> to, int* pivots, int* info, T* room);
  /// x with A x = b, or Aᵀ x = b, of `columns` columns; null data of b is the identity.
  void (*lu_solve)(int64_t count, int64_t n, int64_t columns, Batch<const T> lu, const int* pivots,
                   Batch<const T> b, Batch<T> x, bool transposed, T* room);
  /// Lower triangles become L, zero above. What has an info is not written.
  void (*cholesky)(int64_t count, int64_t n, Batch<const T> from, Batch<T> to, int* info, T* room);
  /// x with A x = b.
  void (*solve_triangular)(int64_t count, int64_t n, int64_t columns, Batch<const T> a, Batch<const T> b,
                           Batch<T> x, bool upper, bool unit, T* room);
  /// c = a b, where a is m x k and b is k x n, all at least 1.
  void (*multiply)(int64_t count, int64_t m, int64_t n, int64_t k, Batch<const T> a, Batch<const T> b,
                   Batch<T> c);
};

template <class T>
struct SmallEigenvalueTable {
  /// Ascending eigenvalues and, with `vectors`, eigenvectors of symmetric matrices of which one triangle is
  /// read. What has an info (not finite, or no convergence) is not written.
  void (*eigh)(int64_t count, int64_t n, Batch<const T> from, Batch<T> to, T* values, int* info, bool upper,
               bool vectors, T* room);
};

template <class T>
struct SmallOrthogonalTable {
  /// m x n matrices are Q R, with Q of `wide` columns and R of `wide` rows: min(m, n) or m of them.
  void (*qr)(int64_t count, int64_t m, int64_t n, int64_t wide, Batch<const T> from, Batch<T> q, Batch<T> r,
             T* room);
  /// Descending singular values of m x n matrices, m >= n, and as many left and right vectors, as columns,
  /// where these have data. What has an info (no convergence, not finite, or a value so small that its left
  /// vector is lost) is not written.
  void (*svd)(int64_t count, int64_t m, int64_t n, Batch<const T> from, Batch<T> left, Batch<T> right,
              T* values, int* info, T* room);
};

/// A matrix and kSmallMatrix columns of another, and some numbers per row, for each lane.
constexpr int64_t small_room(int64_t n) { return n * n + n * kSmallMatrix + 8 * kSmallMatrix; }
/// What orthogonal factors of m x n matrices take: with n right vectors, or `wide` columns and their
/// reflections.
constexpr int64_t orthogonal_room(int64_t m, int64_t n, int64_t wide) {
  return m * n + m * wide + (m + 1) * n;
}

}  // namespace adjoint
