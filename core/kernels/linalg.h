// Decompositions and solvers over batches of matrices, by LAPACK; those of many small ones by loops of our
// own.
//
// LAPACK reads matrices column by column: results are batches of column-major matrices, made by `columns` and
// filled in place. Every function takes such batches and writes `info` per matrix: 0 is success, else what
// LAPACK says. What a result is made `from` may lie anyhow.
#pragma once

#include <optional>

#include "tensor/tensor.h"

namespace adjoint::kernels::linalg {

/// A new batch of column-major matrices, not initialised; `sizes` end in rows and columns.
Tensor columns(IntList sizes, DType dtype);
/// A column-major copy.
Tensor columns_of(const Tensor& t);
/// The identity, for each matrix of a batch like `a`.
Tensor identity_like(const Tensor& a);
/// The batch dimensions of `a`, followed by `tail`.
Dims batch_and(const Tensor& a, std::initializer_list<int64_t> tail);
/// Whether any of these numbers is 0, infinite or NaN; any of a row at most `part`
/// of that row's largest; how many are true in the row that has the most. Of row-major tensors.
bool any_vanishes(const Tensor& t);
bool any_small(const Tensor& t, double part);
int64_t most_true(const Tensor& mask);

/// a becomes L and U of `from` in one; pivots are LAPACK's, counted from 1. Without pivoting they say that
/// nothing moved.
void lu(const Tensor& a, const Tensor& pivots, const Tensor& info, const Tensor& from, bool pivot);
/// x becomes the solution of A x = b, or Aᴴ x = b, Aᵀ x = b ('N', 'C', 'T'); an undefined b is the identity.
/// The batches of lu and x are the same. lu may lie anyhow.
void lu_solve(const Tensor& x, const Tensor& lu, const Tensor& pivots, const Tensor& b, char op);
/// Where each row of PᵀA comes from: permutations, counted from 0.
void permutation_of(const Tensor& permutation, const Tensor& pivots);
/// A pivot that names none of n rows; those of `ldl` may be negative.
std::optional<int> pivot_astray(const Tensor& pivots, int64_t n, bool of_ldl);
/// The determinant, or its sign (or phase) and the logarithm of its size, from the factors.
void determinant(const Tensor& det, const Tensor& lu, const Tensor& pivots);
void sign_and_log(const Tensor& sign, const Tensor& log, const Tensor& lu, const Tensor& pivots);
/// a becomes L, zero above the diagonal; the lower triangle of `from` is read.
void cholesky(const Tensor& a, const Tensor& info, const Tensor& from);
/// x becomes X with A X = b, or X A = b where `left` is false. a may lie anyhow.
void solve_triangular(const Tensor& x, const Tensor& a, const Tensor& b, bool upper, bool left,
                      bool unit_diagonal);
/// Q, and R of as many rows as Q has columns, of a batch of matrices that `is_small`.
void small_qr(const Tensor& q, const Tensor& r, const Tensor& from);
bool is_small(const Tensor& batch);
/// a becomes R above its diagonal and the reflectors below.
void reflectors(const Tensor& a, const Tensor& tau);
/// a's first columns become the orthonormal columns that the reflectors in it make.
void from_reflectors(const Tensor& a, const Tensor& tau);
/// a becomes the eigenvectors of `from` (or garbage, without `vectors`); the upper or lower triangle is read.
void eigh(const Tensor& a, const Tensor& values, const Tensor& info, const Tensor& from, bool upper,
          bool vectors);
/// Complex eigenvalues and, where defined, eigenvectors.
void eig(const Tensor& values, const Tensor& vectors, const Tensor& info, const Tensor& a);
/// Singular values and, where defined, vectors: all of them or as many as there are values.
void svd(const Tensor& s, const Tensor& info, const Tensor& u, const Tensor& vh, const Tensor& from);
/// a becomes the factors L and D of A = L D Lᵀ, or L D Lᴴ where `hermitian`.
void ldl(const Tensor& a, const Tensor& pivots, const Tensor& info, bool hermitian);
void ldl_solve(const Tensor& b, const Tensor& ld, const Tensor& pivots, bool hermitian);
/// What the pivots of `ldl` say of each matrix, for `op`: the order of its rows after all exchanges, from
/// which row each element of L comes, and where D has elements.
void ldl_order(const Tensor& order, const Tensor& rows, const Tensor& blocks, const Tensor& pivots,
               const char* op);
/// b, of max(rows, columns) rows, becomes the least-squares solution in its first rows.
void least_squares(const Tensor& b, const Tensor& rank, const Tensor& info, const Tensor& s, const Tensor& a,
                   double tolerance);

}  // namespace adjoint::kernels::linalg
