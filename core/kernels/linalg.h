// Decompositions and solvers over batches of matrices, by LAPACK; those of many small ones by loops of our
// own.
//
// LAPACK reads matrices column by column: results are batches of column-major matrices, made by `columns` and
// filled in place. Every function takes such batches and writes `info` per matrix: 0 is success, else what
// LAPACK says. What a result is made `from` may lie anyhow.
#pragma once

#include <utility>

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
/// Whether every element is finite.
bool all_finite(const Tensor& a);
/// Whether any of these numbers is 0, infinite or NaN; any of a row at most `part` of that row's largest; how
/// many are true in the row that has the most. Of row-major tensors.
bool any_vanishes(const Tensor& t);
bool any_small(const Tensor& t, double part);
int64_t most_true(const Tensor& mask);

/// a becomes L and U of `from` in one; pivots are LAPACK's, counted from 1. Without pivoting they say that
/// nothing moved.
void lu(const Tensor& from, const Tensor& a, const Tensor& pivots, const Tensor& info, bool pivot);
/// x becomes the solution of A x = b, or Aᴴ x = b, Aᵀ x = b ('N', 'C', 'T'); an undefined b is the identity.
/// The batches of lu and x are the same. lu may lie anyhow.
void lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, const Tensor& x, char op);
/// Where each row of PᵀA comes from: permutations, counted from 0.
void permutation_of(const Tensor& pivots, const Tensor& permutation);
/// a becomes L, zero above the diagonal; the lower triangle of `from` is read.
void cholesky(const Tensor& from, const Tensor& a, const Tensor& info);
/// x becomes X with A X = b, or X A = b where `left` is false. a may lie anyhow.
void solve_triangular(const Tensor& a, const Tensor& b, const Tensor& x, bool upper, bool left,
                      bool unit_diagonal);
/// Q of `wide` columns and R of as many rows of a batch of small matrices; nothing where the batch is
/// another.
std::pair<Tensor, Tensor> small_qr(const Tensor& from, int64_t wide);
/// a becomes R above its diagonal and the reflectors below.
void reflectors(const Tensor& a, const Tensor& tau);
/// a's first columns become the orthonormal columns that the reflectors in it make.
void from_reflectors(const Tensor& a, const Tensor& tau);
/// a becomes the eigenvectors of `from` (or garbage, without `vectors`); the upper or lower triangle is read.
void eigh(const Tensor& from, const Tensor& a, const Tensor& values, const Tensor& info, bool upper,
          bool vectors);
/// Complex eigenvalues and, where defined, eigenvectors; a is overwritten.
void eig(const Tensor& a, const Tensor& values, const Tensor& vectors, const Tensor& info);
/// Singular values and, where defined, vectors: all of them or as many as there are values.
void svd(const Tensor& from, const Tensor& u, const Tensor& s, const Tensor& vh, const Tensor& info);
/// a becomes the factors L and D of A = L D Lᵀ, or L D Lᴴ where `hermitian`.
void ldl(const Tensor& a, const Tensor& pivots, const Tensor& info, bool hermitian);
void ldl_solve(const Tensor& ld, const Tensor& pivots, const Tensor& b, bool hermitian);
/// b, of max(rows, columns) rows, becomes the least-squares solution in its first rows; a is overwritten.
void least_squares(const Tensor& a, const Tensor& b, const Tensor& s, const Tensor& rank, const Tensor& info,
                   double tolerance);

}  // namespace adjoint::kernels::linalg
