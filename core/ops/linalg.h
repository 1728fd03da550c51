// Linear algebra: factorisations and solvers over batches of matrices, with rules that are matrix algebra
// again.
//
// These rows are the primitives; what users call (adjoint/linalg) checks its arguments, broadcasts batches
// and raises where `info` says that a matrix was singular. Matrices are the last two dimensions. Formulas of
// the rules: M. Giles, An extended collection of matrix derivative results (2008); for LU, QR and the rest
// see at each in ops/linalg.cpp. Cotangents are conjugate Wirtinger derivatives. Kernels: kernels/linalg.h.
// Start reading at `Cholesky`.
#pragma once

#include "ops/contract/op.h"

namespace adjoint {

namespace linalg {
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

// The rules. An undefined cotangent is zero; all are recorded under create_graph.
Tensor cholesky_rule(const Tensor& g, const Tensor& l);
Tensors solve_triangular_rule(const Tensor& g, const Tensor& a, const Tensor& x, bool upper, bool left,
                              bool unit_diagonal, bool of_a, bool of_b);
Tensor lu_factor_rule(const Tensor& g, const Tensor& lu, const Tensor& pivots);
Tensors lu_solve_rule(const Tensor& g, const Tensor& lu, const Tensor& pivots, const Tensor& x, bool adjoint,
                      bool of_lu, bool of_b);
Tensors solve_rule(const Tensor& g, const Tensor& a, const Tensor& x, const Tensor& lu, const Tensor& pivots,
                   bool of_a, bool of_b);
Tensor inverse_rule(const Tensor& g, const Tensor& inverse);
Tensor det_rule(const Tensor& g, const Tensor& a, const Tensor& det, const Tensor& lu, const Tensor& pivots);
Tensor slogdet_rule(const Tensor& g_sign, const Tensor& g_log, const Tensor& a, const Tensor& sign,
                    const Tensor& lu, const Tensor& pivots);
Tensor qr_rule(const Tensor& g_q, const Tensor& g_r, const Tensor& q, const Tensor& r, bool complete);
Tensor eigh_rule(const Tensor& g_values, const Tensor& g_vectors, const Tensor& values,
                 const Tensor& vectors);
Tensor eig_rule(const Tensor& g_values, const Tensor& g_vectors, const Tensor& values, const Tensor& vectors,
                const ShapeOfInput& a);
Tensor svd_rule(const Tensor& g_u, const Tensor& g_s, const Tensor& g_vh, const Tensor& u, const Tensor& s,
                const Tensor& vh);
Tensor ldl_factor_rule(const Tensor& g, const Tensor& ld, const Tensor& pivots, bool hermitian);
Tensors ldl_solve_rule(const Tensor& g, const Tensor& ld, const Tensor& pivots, const Tensor& x,
                       bool hermitian, bool of_ld, bool of_b);
Tensor pseudo_inverse_rule(const Tensor& g, const Tensor& a, const Tensor& p);
}  // namespace linalg

/// A row that is reached through adjoint.linalg only.
struct LinearAlgebraRow : Structured {
  static constexpr bool method = false;
  static constexpr TypeSet types = types::bit(DType::Float32) | types::bit(DType::Float64) | types::complex;
};

struct Cholesky : LinearAlgebraRow {
  static constexpr auto name = "_cholesky";
  static constexpr auto recorded_as = "linalg_cholesky_ex";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "L with A = L Lᴴ, from the lower triangles; info > 0 names the leading minor that is not positive.";
  static constexpr auto signature = "self";
  static constexpr auto samples = Cases{"definite(3, 3)", "definite(2, 2, 2)", "definite(0, 0)"};
  static constexpr auto returns = "L, info";
  static linalg::Two forward(const Tensor& self);
  static constexpr auto vjp = Rules{[](GradOf<"L"> g, Output<"L"> l) { return linalg::cholesky_rule(g, l); }};
};

struct SolveTriangular : LinearAlgebraRow {
  static constexpr auto name = "_solve_triangular";
  static constexpr auto recorded_as = "linalg_solve_triangular";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "X with A X = B, or X A = B where `left` is false; one triangle of A is read.";
  static constexpr auto signature = "self, B, upper, left=True, unitriangular=False";
  static constexpr auto samples =
      Cases{"dominant(3, 3), (3, 2), True", "dominant(3, 3), (2, 3), False, left=False",
            "dominant(2, 3, 3), (2, 3, 2), False, unitriangular=True", "(0, 0), (0, 2), True"};
  static Tensor forward(const Tensor& self, const Tensor& B, bool upper, bool left, bool unitriangular);
  static constexpr auto vjp =
      JointRule{[](Grad g, Input<"self"> a, NeededBy<Output<>, "self"> x, Argument<bool, "upper"> upper,
                   Argument<bool, "left"> left, Argument<bool, "unitriangular"> unit, Needed<"self"> of_self,
                   Needed<"B"> of_b) {
        return linalg::solve_triangular_rule(g, a, x, upper, left, unit, of_self, of_b);
      }};
};

struct LuFactor : LinearAlgebraRow {
  static constexpr auto name = "_lu_factor";
  static constexpr auto recorded_as = "linalg_lu_factor_ex";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "L (below the diagonal) and U in one, LAPACK's pivots; info > 0 names the pivot that is zero.";
  static constexpr auto signature = "self, pivot=True";
  static constexpr auto samples =
      Cases{"(3, 3)", "(3, 2)", "(2, 3)", "(2, 2, 2)", "dominant(3, 3), pivot=False", "(0, 3)"};
  static constexpr auto returns = "LU, pivots, info";
  static linalg::Three forward(const Tensor& self, bool pivot);
  static constexpr auto vjp = Rules{[](GradOf<"LU"> g, Output<"LU"> lu, Output<"pivots"> pivots) {
    return linalg::lu_factor_rule(g, lu, pivots);
  }};
};

struct LuPermutation : LinearAlgebraRow {
  static constexpr auto name = "_lu_permutation";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "Where each of `rows` rows of PᵀA comes from, by LAPACK's pivots.";
  static constexpr auto signature = "self, rows";
  static constexpr auto samples = Cases{"int32([2, 3, 3]), 3", "int32([[3, 3], [1, 2]]), 3"};
  static constexpr bool differentiable = false;
  static Tensor forward(const Tensor& self, int64_t rows);
};

struct LuSolve : LinearAlgebraRow {
  static constexpr auto name = "_lu_solve";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "X with A X = B, or Aᴴ X = B where `adjoint`, from what _lu_factor made of A.";
  static constexpr auto signature = "self, pivots, B, adjoint=False";
  static constexpr auto samples = Cases{"dominant(3, 3), int32([2, 3, 3]), (3, 2)",
                                        "dominant(2, 2, 2), int32([[2, 2], [1, 2]]), (2, 2, 1), adjoint=True",
                                        "(0, 0), int32([]), (0, 2)"};
  static Tensor forward(const Tensor& self, const Tensor& pivots, const Tensor& B, bool adjoint);
  static constexpr auto vjp =
      JointRule{[](Grad g, Input<"self"> lu, Input<"pivots"> pivots, NeededBy<Output<>, "self"> x,
                   Argument<bool, "adjoint"> adjoint, Needed<"self"> of_self, Needed<"B"> of_b) {
        return linalg::lu_solve_rule(g, lu, pivots, x, adjoint, of_self, of_b);
      }};
};

struct Solve : LinearAlgebraRow {
  static constexpr auto name = "_solve";
  static constexpr auto recorded_as = "linalg_solve_ex";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "X with A X = B, and what A was factored into; info > 0 names the pivot that is zero.";
  static constexpr auto signature = "self, B";
  static constexpr auto samples = Cases{"(3, 3), (3, 2)", "(2, 3, 3), (2, 3, 1)", "(0, 0), (0, 2)"};
  static constexpr auto returns = "result, LU, pivots, info";
  static linalg::Four forward(const Tensor& self, const Tensor& B);
  static constexpr auto vjp =
      JointRule{[](GradOf<"result"> g, Input<"self"> a, NeededBy<Output<"result">, "self"> x, Output<"LU"> lu,
                   Output<"pivots"> pivots, Needed<"self"> of_self,
                   Needed<"B"> of_b) { return linalg::solve_rule(g, a, x, lu, pivots, of_self, of_b); }};
};

struct Inverse : LinearAlgebraRow {
  static constexpr auto name = "_inverse";
  static constexpr auto recorded_as = "linalg_inv_ex";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "The inverse; info > 0 names the pivot that is zero.";
  static constexpr auto signature = "self";
  static constexpr auto samples = Cases{"(3, 3)", "(2, 2, 2)", "(0, 0)"};
  static constexpr auto returns = "inverse, info";
  static linalg::Two forward(const Tensor& self);
  static constexpr auto vjp =
      Rules{[](GradOf<"inverse"> g, Output<"inverse"> inverse) { return linalg::inverse_rule(g, inverse); }};
};

struct Det : LinearAlgebraRow {
  static constexpr auto name = "_det";
  static constexpr auto recorded_as = "linalg_det";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "The determinant, and what the matrix was factored into.";
  static constexpr auto signature = "self";
  static constexpr auto samples = Cases{"(3, 3)", "(2, 2, 2)", "(0, 0)"};
  static constexpr auto returns = "result, LU, pivots";
  static linalg::Three forward(const Tensor& self);
  static constexpr auto vjp =
      Rules{[](GradOf<"result"> g, Input<"self"> a, Output<"result"> det, Output<"LU"> lu,
               Output<"pivots"> pivots) { return linalg::det_rule(g, a, det, lu, pivots); }};
};

struct Slogdet : LinearAlgebraRow {
  static constexpr auto name = "_slogdet";
  static constexpr auto recorded_as = "linalg_slogdet";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "Sign and logarithm of the absolute value of the determinant, and what the matrix was factored into.";
  static constexpr auto signature = "self";
  static constexpr auto samples = Cases{"(3, 3)", "(2, 2, 2)", "(0, 0)"};
  static constexpr auto returns = "sign, logabsdet, LU, pivots";
  static linalg::Four forward(const Tensor& self);
  static constexpr auto vjp = Rules{[](GradOf<"sign"> g_sign, GradOf<"logabsdet"> g_log, Input<"self"> a,
                                       Output<"sign"> sign, Output<"LU"> lu, Output<"pivots"> pivots) {
    return linalg::slogdet_rule(g_sign, g_log, a, sign, lu, pivots);
  }};
};

struct Qr : LinearAlgebraRow {
  static constexpr auto name = "_qr";
  static constexpr auto recorded_as = "linalg_qr";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "Orthonormal columns Q and upper triangular R with A = Q R; all columns where `complete`.";
  static constexpr auto signature = "self, complete=False";
  static constexpr auto samples = Cases{"(4, 3)", "(2, 2, 2)", "(2, 3)", "(3, 3), complete=True", "(0, 3)"};
  static constexpr auto returns = "Q, R";
  static linalg::Two forward(const Tensor& self, bool complete);
  static constexpr auto vjp =
      Rules{[](GradOf<"Q"> g_q, GradOf<"R"> g_r, Output<"Q"> q, Output<"R"> r,
               Argument<bool, "complete"> complete) { return linalg::qr_rule(g_q, g_r, q, r, complete); }};
};

struct Geqrf : LinearAlgebraRow {
  static constexpr auto name = "_geqrf";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "R and, below its diagonal, the reflectors of a QR factorisation; and their factors.";
  static constexpr auto signature = "self";
  static constexpr auto samples = Cases{"(4, 3)", "(2, 2, 2)", "(0, 2)"};
  static constexpr auto returns = "a, tau";
  static linalg::Two forward(const Tensor& self);
};

struct HouseholderProduct : LinearAlgebraRow {
  static constexpr auto name = "_householder_product";
  static constexpr auto recorded_as = "linalg_householder_product";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "The first columns of the product of the reflectors below a's diagonal.";
  static constexpr auto signature = "self, tau";
  static constexpr auto samples = Cases{"(4, 3), (3,)", "(2, 2, 2), (2, 2)", "(3, 0), (0,)"};
  static Tensor forward(const Tensor& self, const Tensor& tau);
};

struct Eigh : LinearAlgebraRow {
  static constexpr auto name = "_eigh";
  static constexpr auto recorded_as = "linalg_eigh";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "Ascending eigenvalues and orthonormal eigenvectors of Hermitian matrices, of which one triangle is "
      "read.";
  static constexpr auto signature = "self, upper=False, vectors=True";
  static constexpr auto samples =
      Cases{"hermitian(3, 3)", "hermitian(2, 2, 2), upper=True", "hermitian(3, 3), vectors=False", "(0, 0)"};
  static constexpr auto returns = "eigenvalues, eigenvectors, info";
  static linalg::Three forward(const Tensor& self, bool upper, bool vectors);
  static constexpr auto vjp = Rules{
      [](GradOf<"eigenvalues"> g_values, GradOf<"eigenvectors"> g_vectors, Output<"eigenvalues"> values,
         Output<"eigenvectors"> vectors) { return linalg::eigh_rule(g_values, g_vectors, values, vectors); }};
};

struct Eig : LinearAlgebraRow {
  static constexpr auto name = "_eig";
  static constexpr auto recorded_as = "linalg_eig";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "Complex eigenvalues and right eigenvectors of length one.";
  static constexpr auto signature = "self, vectors=True";
  static constexpr auto samples = Cases{"(3, 3)", "(2, 2, 2), vectors=False", "(0, 0)"};
  static constexpr auto returns = "eigenvalues, eigenvectors, info";
  static linalg::Three forward(const Tensor& self, bool vectors);
  static constexpr auto vjp =
      Rules{[](GradOf<"eigenvalues"> g_values, GradOf<"eigenvectors"> g_vectors, Output<"eigenvalues"> values,
               Output<"eigenvectors"> vectors,
               Shape<"self"> a) { return linalg::eig_rule(g_values, g_vectors, values, vectors, a); }};
};

struct Svd : LinearAlgebraRow {
  static constexpr auto name = "_svd";
  static constexpr auto recorded_as = "linalg_svd";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "Singular values, descending, and vectors: A = U diag(S) Vh.";
  static constexpr auto signature = "self, full_matrices=False, vectors=True";
  static constexpr auto samples =
      Cases{"(3, 4)", "(2, 3, 2)", "(4, 3), vectors=False", "(3, 3), full_matrices=True", "(0, 3)"};
  static constexpr auto returns = "U, S, Vh, info";
  static linalg::Four forward(const Tensor& self, bool full_matrices, bool vectors);
  static constexpr auto vjp =
      Rules{[](GradOf<"U"> g_u, GradOf<"S"> g_s, GradOf<"Vh"> g_vh, Output<"U"> u, Output<"S"> s,
               Output<"Vh"> vh) { return linalg::svd_rule(g_u, g_s, g_vh, u, s, vh); }};
};

struct PseudoInverse : LinearAlgebraRow {
  static constexpr auto name = "_pinv";
  static constexpr auto recorded_as = "linalg_pinv";
  static constexpr auto doc =
      "The pseudoinverse: singular values up to the larger of atol and rtol times the largest count as zero. "
      "Of Hermitian matrices the lower triangle is read.";
  static constexpr auto signature = "self, atol, rtol, hermitian=False";
  static constexpr auto samples = Cases{"(3, 4), float32(0.0), float32(1e-6)",
                                        "hermitian(3, 3), float32(1e-6), float32(0.0), hermitian=True",
                                        "(0, 3), float32(0.0), float32(1e-6)"};
  static Tensor forward(const Tensor& self, const Tensor& atol, const Tensor& rtol, bool hermitian);
  static constexpr auto vjp =
      Rules{[](Grad g, Input<"self"> a, Output<> p) { return linalg::pseudo_inverse_rule(g, a, p); }};
};

struct LdlFactor : LinearAlgebraRow {
  static constexpr auto name = "_ldl_factor";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "L and D in one with A = L D Lᵀ (Lᴴ where `hermitian`), LAPACK's pivots; info > 0 names a block of D "
      "that is zero.";
  static constexpr auto signature = "self, hermitian=False";
  static constexpr auto samples =
      Cases{"hermitian(3, 3), hermitian=True", "hermitian(2, 2, 2), hermitian=True", "(0, 0)"};
  static constexpr auto returns = "LD, pivots, info";
  static linalg::Three forward(const Tensor& self, bool hermitian);
  static constexpr auto vjp = Rules{
      [](GradOf<"LD"> g, Output<"LD"> ld, Output<"pivots"> pivots, Argument<bool, "hermitian"> hermitian) {
        return linalg::ldl_factor_rule(g, ld, pivots, hermitian);
      }};
};

struct LdlOrder : LinearAlgebraRow {
  static constexpr auto name = "_ldl_order";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "Of LAPACK's pivots of A = L D Lᵀ: the rows of A in the order in which L is a triangle; for each "
      "element of L, the row in which its column holds it; and which elements belong to D.";
  static constexpr auto signature = "self";
  static constexpr auto samples = Cases{"int32([1, 3, 3])", "int32([[-2, -2, 3], [2, -3, -3]])"};
  static constexpr auto returns = "permutation, rows, blocks";
  static constexpr bool differentiable = false;
  static linalg::Three forward(const Tensor& self);
};

struct LdlSolve : LinearAlgebraRow {
  static constexpr auto name = "_ldl_solve";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "X with A X = B, from what _ldl_factor made of A.";
  static constexpr auto signature = "self, pivots, B, hermitian=False";
  static constexpr auto samples =
      Cases{"dominant(3, 3), int32([1, 2, 3]), (3, 2)",
            "dominant(3, 3), int32([1, 2, 3]), (3, 1), hermitian=True", "(0, 0), int32([]), (0, 2)"};
  static Tensor forward(const Tensor& self, const Tensor& pivots, const Tensor& B, bool hermitian);
  static constexpr auto vjp =
      JointRule{[](Grad g, Input<"self"> ld, Input<"pivots"> pivots, NeededBy<Output<>, "self"> x,
                   Argument<bool, "hermitian"> hermitian, Needed<"self"> of_self, Needed<"B"> of_b) {
        return linalg::ldl_solve_rule(g, ld, pivots, x, hermitian, of_self, of_b);
      }};
};

struct LeastSquares : LinearAlgebraRow {
  static constexpr auto name = "_least_squares";
  static constexpr auto doc =
      "The X of least norm that minimises the norm of A X - B, singular values (of none, unless `values`) "
      "and rank of A; values below rcond times the largest count as zero.";
  static constexpr auto signature = "self, B, rcond, values=True";
  static constexpr auto samples =
      Cases{"(4, 3), (4, 2), 1e-6", "(3, 4), (3, 1), 1e-6", "(4, 3), (4, 2), 1e-6, False",
            "(3, 4), (3, 1), 1e-6, False", "(0, 3), (0, 2), 1e-6"};
  static constexpr auto returns = "solution, singular_values, rank, info";
  static linalg::Four forward(const Tensor& self, const Tensor& B, double rcond, bool values);
};

using LinearAlgebra = Family<Cholesky, SolveTriangular, LuFactor, LuPermutation, LuSolve, Solve, Inverse, Det,
                             Slogdet, Qr, Geqrf, HouseholderProduct, Eigh, Eig, Svd, PseudoInverse, LdlFactor,
                             LdlOrder, LdlSolve, LeastSquares>;

}  // namespace adjoint
