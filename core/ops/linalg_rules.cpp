// The rules of linear algebra: each turns the cotangents of an operator's results into those of its inputs,
// by recorded operators. Formulas and their sources stand above each. Start reading at `cholesky_rule`.
#include <algorithm>

#include "dispatch/batched_call.h"
#include "dispatch/constants.h"
#include "dispatch/operator.h"
#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/launch.h"
#include "kernels/linalg.h"
#include "ops/arithmetic.h"
#include "ops/comparison.h"
#include "ops/complex.h"
#include "ops/joining.h"
#include "ops/linalg.h"
#include "ops/part.h"
#include "ops/product.h"
#include "ops/rearranging.h"
#include "ops/reduction.h"
#include "ops/selection.h"
#include "ops/shape.h"
#include "ops/sorting.h"
#include "tensor/device.h"

namespace adjoint::linalg {
namespace {

Tensor mm(const Tensor& a, const Tensor& b) { return call<Matmul>(a, b); }
Tensor adjoint_of(const Tensor& t) { return conjugate_transpose(t); }
Tensor add(const Tensor& a, const Tensor& b) { return a.defined() ? (b.defined() ? call<Add>(a, b) : a) : b; }
Tensor minus(const Tensor& a) { return call<Neg>(a); }
Tensor half(const Tensor& a) { return call<Mul>(a, wrap_number(Scalar(0.5), a.dtype())); }
Tensor diagonal(const Tensor& t) { return call<Diagonal>(t, int64_t{0}, int64_t{-2}, int64_t{-1}); }
Tensor on_diagonal(const Tensor& t) { return call<DiagEmbed>(t, int64_t{0}, int64_t{-2}, int64_t{-1}); }
Tensor lower(const Tensor& t, int64_t k) { return call<Tril>(t, k); }
Tensor upper_of(const Tensor& t, int64_t k = 0) { return call<Triu>(t, k); }
Tensor first(const Tensor& t, int64_t dim, int64_t n) { return call<Narrow>(t, dim, int64_t{0}, n); }
Tensor rest(const Tensor& t, int64_t dim, int64_t n) { return call<Narrow>(t, dim, n, t.size(dim) - n); }
Tensor as_column(const Tensor& t) { return call<Unsqueeze>(t, int64_t{-1}); }
Tensor as_row(const Tensor& t) { return call<Unsqueeze>(t, int64_t{-2}); }
/// X with A X = B and the like, for a triangle.
Tensor triangle_solve(const Tensor& a, const Tensor& b, bool upper, bool left, bool unit = false) {
  return call<SolveTriangular>(a, b, upper, left, unit);
}
Tensor identity_of(const Tensor& a) {
  return call<Expand>(constant<Eye>(a.size(-2), a.size(-1), OptionalType(a.dtype()), false), a.sizes());
}
Tensor with_unit_diagonal(const Tensor& lu) { return call<Add>(lower(lu, -1), identity_of(lu)); }
/// 1 / d where |d| is more than `tolerance` (of d's batch), else 0: differences of eigenvalues that are equal
/// but for rounding carry no information, and a function that is smooth there does not depend on them.
Tensor safe_reciprocal(const Tensor& d, const Tensor& tolerance) {
  const Tensor far = call<Greater>(call<Abs>(d), tolerance);
  const Tensor one = wrap_number(Scalar(1.0), d.dtype()), zero = wrap_number(Scalar(0.0), d.dtype());
  return call<Where>(far, call<Reciprocal>(call<Where>(far, d, one)), zero);
}
/// n · epsilon · the largest of `values`, per matrix, shaped to go with matrices; no gradient flows through
/// it.
Tensor tolerance_of(const Tensor& values) {
  const double epsilon = real_dtype(values.dtype()) == DType::Float32 ? 1.1920929e-7 : 2.220446049250313e-16;
  const Tensor size = call<Abs>(alias(values));
  const Dims last{-1};
  const OptionalInts dim(last.span());
  // Of no values, none is largest.
  const Tensor t = values.size(-1) ? call<Amax>(size, dim, true) : call<Sum>(size, dim, true, OptionalType());
  return as_column(scaled(t, Scalar(epsilon * static_cast<double>(values.size(-1)))));
}
/// v_j - v_i at row i, column j.
Tensor differences(const Tensor& v) { return call<Sub>(as_row(v), as_column(v)); }
Tensor skew(const Tensor& t) { return call<Sub>(t, adjoint_of(t)); }
/// The rows of `t` moved to where P puts them: (P t), where PᵀA is what was factored.
Tensor permute_rows(const Tensor& t, const Tensor& pivots, bool inverse) {
  Tensor p = call<LuPermutation>(pivots, t.size(-2));
  if (!inverse) {
    // Sorting the permutation gives its inverse.
    p = call<Argsort>(p, int64_t{-1}, false, false);
  }
  return call<GatherAlong>(t, call<Contiguous>(call<Expand>(as_column(p), t.sizes())), t.dim() - 2);
}
/// Below which part of the largest a pivot or a singular value is small: the fourth root of epsilon, so that
/// second derivatives that are computed with an inverse keep half of their digits.
double small_part(DType dtype) { return real_dtype(dtype) == DType::Float32 ? 0.0186 : 1.2207e-4; }

/// Whether a pivot of some matrix is zero (its determinant is then zero, or NaN), or at most `part` of the
/// largest of its matrix.
bool singular(const Tensor& det, const Tensor& lu, double part) {
  if (is_meta(det) || !lu.size(-1)) return false;
  if (thread_state.watched) {
    // The same in calls that are seen: who looks on is told the outcome, and not determinants.
    const auto any = [](const Tensor& t) {
      const Tensor none = call<LogicalNot>(call<Any>(t, OptionalInts(), false));
      return ask<&kernels::linalg::any_vanishes>("det", call<To>(none, DType::Float32));
    };
    const Tensor dets = alias(batching::all_samples(det));
    if (part <= 0 &&
        !any(call<LogicalNot>(call<LogicalAnd>(
            call<IsFinite>(dets), call<NotEqual>(dets, wrap_number(Scalar(0.0), dets.dtype()))))))
      return false;
    const Tensor pivots = call<Abs>(diagonal(alias(batching::all_samples(lu))));
    const Dims last{-1};
    const OptionalInts rows(last.span());
    const auto wide = [](const Tensor& t) { return call<To>(t, DType::Float64); };
    return any(call<LessEqual>(wide(call<Amin>(pivots, rows, false)),
                               scaled(wide(call<Amax>(pivots, rows, false)), Scalar(part))));
  }
  if (part <= 0 && !ask<&kernels::linalg::any_vanishes>("det", copy_of(alias(batching::all_samples(det)))))
    return false;
  return ask<&kernels::linalg::any_small>(
      "det", copy_of(call<Abs>(diagonal(alias(batching::all_samples(lu))))), part);
}
/// A⁻ᴴ, from its factors or, where it is to be differentiated, from A.
Tensor inverse_adjoint(const Tensor& a, const Tensor& lu, const Tensor& pivots) {
  if (recording()) return adjoint_of(call<Inverse>(a));
  // Columns of the inverse are rows of its adjoint, in which gradients lie.
  return adjoint_of(call<LuSolve>(lu, pivots, identity_of(lu), false));
}

}  // namespace

// With A = L Lᴴ and P = Lᴴ ḡ below its halved diagonal: ½ L⁻ᴴ (P + Pᴴ) L⁻¹ (I. Murray, Differentiation of the
// Cholesky decomposition, 2016).
Tensor cholesky_rule(const Tensor& g, const Tensor& l) {
  if (!g.defined()) return {};
  const Tensor m = mm(adjoint_of(l), g);
  const Tensor p = call<Add>(lower(m, -1), on_diagonal(half(diagonal(m))));
  const Tensor s = call<Add>(p, adjoint_of(p));
  return half(triangle_solve(l, triangle_solve(adjoint_of(l), s, true, true), false, false));
}

Tensors solve_triangular_rule(const Tensor& g, const Tensor& a, const Tensor& x, bool upper, bool left,
                              bool unit, bool of_a, bool of_b) {
  const Tensor gb = triangle_solve(adjoint_of(a), g, !upper, left, unit);
  Tensor ga;
  if (of_a) {
    const Tensor turned = minus(gb);
    ga = left ? mm(turned, adjoint_of(x)) : mm(adjoint_of(x), turned);
    ga = upper ? upper_of(ga, unit) : lower(ga, -int64_t{unit});
  }
  return {ga, of_b ? gb : Tensor()};
}

// From the differential of A = P L U: dL = L tril(L⁻¹ Pᵀ dA U⁻¹, -1), dU = triu(L⁻¹ Pᵀ dA U⁻¹) U, transposed;
// what stands right of the square part of U, or below that of L, is first moved to the square part.
Tensor lu_factor_rule(const Tensor& g, const Tensor& lu, const Tensor& pivots) {
  if (!g.defined()) return {};
  const int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
  const Tensor square = first(first(lu, -1, k), -2, k), g_square = first(first(g, -1, k), -2, k);
  const Tensor l = with_unit_diagonal(square), u = upper_of(square), lh = adjoint_of(l), uh = adjoint_of(u);
  Tensor below = mm(lh, lower(g_square, -1)), above = mm(upper_of(g_square), uh);
  Tensor outside;
  if (n > m) {
    const Tensor gu = rest(g, -1, k), u2 = rest(lu, -1, k);
    below = call<Sub>(below, mm(gu, adjoint_of(u2)));
    outside = triangle_solve(lh, gu, true, true, true);
  } else if (m > n) {
    const Tensor gl = rest(g, -2, k), l2 = rest(lu, -2, k);
    above = call<Sub>(above, mm(adjoint_of(l2), gl));
    outside = triangle_solve(uh, gl, false, false);
  }
  Tensor ga = call<Add>(lower(below, -1), upper_of(above));
  ga = triangle_solve(uh, triangle_solve(lh, ga, true, true, true), false, false);
  if (outside.defined()) {
    const Tensor both[] = {ga, outside};
    ga = call<Cat>(TensorList(both), n > m ? int64_t{-1} : int64_t{-2});
  }
  return permute_rows(ga, pivots, false);
}

Tensors lu_solve_rule(const Tensor& g, const Tensor& lu, const Tensor& pivots, const Tensor& x, bool adjoint,
                      bool of_lu, bool of_b) {
  const Tensor gb = call<LuSolve>(lu, pivots, g, !adjoint);
  Tensors gs(3);
  if (of_lu) {
    const Tensor turned = minus(gb), ga = adjoint ? mm(x, adjoint_of(turned)) : mm(turned, adjoint_of(x));
    const Tensor n = permute_rows(ga, pivots, true);
    gs[0] = call<Add>(lower(mm(n, adjoint_of(upper_of(lu))), -1),
                      upper_of(mm(adjoint_of(with_unit_diagonal(lu)), n)));
  }
  if (of_b) gs[2] = gb;
  return gs;
}

Tensors solve_rule(const Tensor& g, const Tensor& a, const Tensor& x, const Tensor& lu, const Tensor& pivots,
                   bool of_a, bool of_b) {
  if (!g.defined()) return {};
  const Tensor gb = recording() ? call<Solve>(adjoint_of(a), g) : call<LuSolve>(lu, pivots, g, true);
  return {of_a ? mm(minus(gb), adjoint_of(x)) : Tensor(), of_b ? gb : Tensor()};
}

Tensor inverse_rule(const Tensor& g, const Tensor& inverse) {
  if (!g.defined()) return {};
  const Tensor yh = adjoint_of(inverse);
  return minus(mm(yh, mm(g, yh)));
}

namespace {

/// The most small singular values of a matrix of the batch, which stand last.
int64_t most_small(const Tensor& s) {
  const Dims last{-1};
  const Tensor limit = scaled(call<Amax>(s, OptionalInts(last.span()), true), Scalar(small_part(s.dtype())));
  return ask<&kernels::linalg::most_true>("det", copy_of(call<LessEqual>(s, limit)));
}

/// det C and its adjugate, det C C⁻¹, as polynomials in C: M₁ = 1, c_k = -tr(C M_k) / k, M_k₊₁ = C M_k + c_k
/// 1 (Faddeev, Le Verrier).
std::pair<Tensor, Tensor> determinant_and_adjugate(const Tensor& c) {
  const int64_t n = c.size(-1);
  const Tensor one = identity_of(c);
  const Dims last{-1};
  Tensor m = one, factor = call<Sum>(diagonal(c), OptionalInts(last.span()), false, OptionalType());
  // Of no rows the determinant is 1.
  if (n == 0) return {call<Prod>(diagonal(c), OptionalInts(last.span()), false, OptionalType()), m};
  for (int64_t k = 1;; ++k) {
    const Tensor product = mm(c, m);
    factor = scaled(call<Sum>(diagonal(product), OptionalInts(last.span()), false, OptionalType()),
                    Scalar(-1.0 / static_cast<double>(k)));
    if (k == n) break;
    m = call<Add>(product, call<Mul>(as_column(as_column(factor)), one));
  }
  return n % 2 ? std::pair{minus(factor), m} : std::pair{factor, minus(m)};
}

/// det A A⁻¹ of matrices of which some are singular or nearly so, for derivatives of any order. With A = U B
/// Vᴴ, where U and V are constants that come from the singular values, B = [P Q; R S] has the small ones in
/// S, so that P has an inverse and all else are polynomials in C = S - R P⁻¹ Q: det B = det P det C.
Tensor adjugate(const Tensor& a) {
  const Tensors usv = call_all<Svd>(alias(a), false, true);
  const Tensor u = usv[0], vh = usv[2];
  const int64_t n = a.size(-1), rank = n - most_small(usv[1]);
  const Tensor b = mm(mm(adjoint_of(u), a), adjoint_of(vh));
  const Tensor upper = first(b, -2, rank), under = rest(b, -2, rank);
  const Tensor p = first(upper, -1, rank), q = rest(upper, -1, rank), r = first(under, -1, rank),
               s = rest(under, -1, rank);
  const Tensor inverse = call<Inverse>(p), x = mm(inverse, q), y = mm(r, inverse);
  const auto [det, adj] = determinant_and_adjugate(call<Sub>(s, mm(r, x)));
  const Tensor xa = mm(x, adj);
  const Tensor corner = call<Add>(call<Mul>(as_column(as_column(det)), inverse), mm(xa, y));
  const Tensor whole = call<Cat>(Tensors{call<Cat>(Tensors{corner, minus(xa)}, int64_t{-1}),
                                         call<Cat>(Tensors{minus(mm(adj, y)), adj}, int64_t{-1})},
                                 int64_t{-2});
  const Tensor factor = call<Mul>(call<Det>(p), call<Mul>(call<Det>(u), call<Det>(vh)));
  return call<Mul>(as_column(as_column(factor)), mm(mm(adjoint_of(vh), whole), adjoint_of(u)));
}

}  // namespace

// ḡ conj(det A) A⁻ᴴ; where some A is singular ḡ adj(A)ᴴ, and where it is nearly so, if that is to be
// differentiated.
Tensor det_rule(const Tensor& g, const Tensor& a, const Tensor& det, const Tensor& lu, const Tensor& pivots) {
  if (!g.defined()) return {};
  if (!singular(det, lu, recording() ? small_part(a.dtype()) : 0))
    return call<Mul>(as_column(as_column(call<Mul>(g, conjugate(det)))), inverse_adjoint(a, lu, pivots));
  return call<Mul>(as_column(as_column(g)), adjoint_of(adjugate(a)));
}

// d log|det A| = Re tr(A⁻¹ dA), d sign = i sign Im tr(A⁻¹ dA).
Tensor slogdet_rule(const Tensor& g_sign, const Tensor& g_log, const Tensor& a, const Tensor& sign,
                    const Tensor& lu, const Tensor& pivots) {
  Tensor c = g_log;
  if (g_sign.defined() && a.is_complex()) {
    const Tensor turn = call<Mul>(conjugate(g_sign), sign);
    c = add(c, minus(times_i(call<Imag>(turn))));
  }
  if (!c.defined())
    return g_sign.defined() ? call<Mul>(alias(a), wrap_number(Scalar(0.0), a.dtype())) : Tensor();
  return call<Mul>(as_column(as_column(c)), inverse_adjoint(a, lu, pivots));
}

// With M = R ḡ_Rᴴ - ḡ_Qᴴ Q, made Hermitian from its lower triangle: (ḡ_Q + Q M) R⁻ᴴ (S. Walter et al.,
// Algorithmic differentiation of linear algebra functions, 2012). A wide A = [A₁ A₂] has R₂ = Qᴴ A₂.
Tensor qr_rule(const Tensor& g_q, const Tensor& g_r, const Tensor& q, const Tensor& r, bool complete) {
  if (!g_q.defined() && !g_r.defined()) return {};
  const int64_t m = q.size(-2), n = r.size(-1);
  if (complete && m > n)
    fail(
        "linalg.qr: The QR decomposition is not differentiable when mode='complete' and nrows > ncols: use "
        "mode='reduced'");
  Tensor gq = g_q, gr = g_r, square = r, outside;
  if (n > m) {
    square = first(r, -1, m);
    if (gr.defined()) {
      const Tensor gr2 = rest(gr, -1, m);
      outside = mm(q, gr2);
      gq = add(gq, mm(mm(q, rest(r, -1, m)), adjoint_of(gr2)));
      gr = first(gr, -1, m);
    }
  }
  Tensor k;
  if (gr.defined()) k = mm(square, adjoint_of(gr));
  if (gq.defined()) k = add(k, minus(mm(adjoint_of(gq), q)));
  const Tensor below = lower(k, -1);
  const Tensor middle = diagonal(k);
  k = call<Add>(call<Add>(below, adjoint_of(below)), on_diagonal(half(call<Add>(middle, conjugate(middle)))));
  Tensor ga = triangle_solve(adjoint_of(square), add(mm(q, k), gq), false, false);
  if (n > m) {
    if (!outside.defined()) outside = call<Mul>(mm(q, rest(r, -1, m)), wrap_number(Scalar(0.0), q.dtype()));
    const Tensor both[] = {ga, outside};
    ga = call<Cat>(TensorList(both), int64_t{-1});
  }
  return ga;
}

// The Hermitian part of V (diag ḡ_λ + (Vᴴ ḡ_V) ∘ E) Vᴴ with E_ij = 1 / (λ_j - λ_i), and 0 where these are
// equal.
Tensor eigh_rule(const Tensor& g_values, const Tensor& g_vectors, const Tensor& values, const Tensor& v) {
  if (!g_values.defined() && !g_vectors.defined()) return {};
  if (v.dim() < 2) fail("linalg.eigvalsh: the derivative needs the eigenvectors, which were not computed");
  if (!g_vectors.defined()) return mm(call<Mul>(v, as_row(g_values)), adjoint_of(v));
  Tensor inner =
      call<Mul>(mm(adjoint_of(v), g_vectors), safe_reciprocal(differences(values), tolerance_of(values)));
  inner = half(call<Add>(inner, adjoint_of(inner)));
  if (g_values.defined()) inner = call<Add>(inner, on_diagonal(g_values));
  return mm(v, mm(inner, adjoint_of(v)));
}

// V⁻ᴴ (diag ḡ_λ + (Vᴴ ḡ_V - Vᴴ V Re diag(Vᴴ ḡ_V)) ∘ conj(E)) Vᴴ for eigenvectors of length one (C. Boeddeker
// et al., On the computation of complex-valued gradients, 2017).
Tensor eig_rule(const Tensor& g_values, const Tensor& g_vectors, const Tensor& values, const Tensor& v,
                const ShapeOfInput& a) {
  if (!g_values.defined() && !g_vectors.defined()) return {};
  if (v.dim() < 2) fail("linalg.eigvals: the derivative needs the eigenvectors, which were not computed");
  const Tensor vh = adjoint_of(v);
  Tensor inner;
  if (g_vectors.defined()) {
    const Tensor m = mm(vh, g_vectors);
    inner = call<Sub>(m, call<Mul>(mm(vh, v), as_row(call<Real>(diagonal(m)))));
    inner = call<Mul>(inner, conjugate(safe_reciprocal(differences(values), tolerance_of(values))));
    if (g_values.defined()) inner = call<Add>(inner, on_diagonal(g_values));
    inner = mm(inner, vh);
  } else {
    inner = call<Mul>(as_column(g_values), vh);
  }
  const Tensor ga = call<Solve>(vh, inner);
  return adjoint::is_complex(a.dtype) ? ga : call<Real>(ga);
}

// U ((skew(Uᴴ ḡ_U) ∘ F) S + S (skew(Vᴴ ḡ_V) ∘ F) + diag ḡ_S) Vᴴ with F_ij = 1 / (s_j² - s_i²), plus what ḡ_U
// and ḡ_V have outside of the spans of U and V, divided by s; plus, for complex matrices, the phases (J.
// Townsend, Differentiating the singular value decomposition, 2016; Z.-Q. Wan and S.-X. Zhang, Automatic
// differentiation for complex valued SVD, 2019).
Tensor svd_rule(const Tensor& g_u, const Tensor& g_s, const Tensor& g_vh, const Tensor& u0, const Tensor& s,
                const Tensor& vh0) {
  if (!g_u.defined() && !g_s.defined() && !g_vh.defined()) return {};
  if (u0.dim() < 2)
    fail("linalg.svdvals: the derivative needs the singular vectors, which were not computed");
  const int64_t k = s.size(-1);
  const Tensor u = first(u0, -1, k), vh = first(vh0, -2, k);
  if (!g_u.defined() && !g_vh.defined()) return mm(call<Mul>(u, as_row(g_s)), vh);
  const Tensor v = adjoint_of(vh);
  const Tensor gu = g_u.defined() ? first(g_u, -1, k) : Tensor(),
               gv = g_vh.defined() ? adjoint_of(first(g_vh, -2, k)) : Tensor();
  const Tensor squares = call<Mul>(s, s), f = safe_reciprocal(differences(squares), tolerance_of(squares));
  const Tensor size = tolerance_of(s),
               over_s = safe_reciprocal(s, call<Squeeze>(size, OptionalInts(IntList(Dims{-1}.span()))));
  const Tensor ugu = gu.defined() ? mm(adjoint_of(u), gu) : Tensor(),
               vgv = gv.defined() ? mm(vh, gv) : Tensor();
  Tensor inner;
  if (gu.defined()) inner = call<Mul>(call<Mul>(skew(ugu), f), as_row(s));
  if (gv.defined()) inner = add(inner, call<Mul>(as_column(s), call<Mul>(skew(vgv), f)));
  if (g_s.defined()) inner = add(inner, on_diagonal(g_s));
  if (u.is_complex() && gu.defined())
    inner = add(inner, on_diagonal(times_i(call<Mul>(call<Imag>(diagonal(ugu)), over_s))));
  Tensor ga = mm(u, mm(inner, vh));
  if (gu.defined() && u.size(-2) > k) {
    const Tensor out = call<Sub>(gu, mm(u, ugu));
    ga = call<Add>(ga, mm(call<Mul>(out, as_row(over_s)), vh));
  }
  if (gv.defined() && v.size(-2) > k) {
    const Tensor out = call<Sub>(gv, mm(v, vgv));
    ga = call<Add>(ga, mm(call<Mul>(u, as_row(over_s)), adjoint_of(out)));
  }
  return ga;
}

namespace {
/// What _ldl_factor made, apart: of A' = A in L's order, A' = L D Lᵀ or L D Lᴴ. Each column of LD holds L's
/// elements in the rows where they were before the exchanges that came after it.
struct Ldl {
  Tensor permutation, rows, blocks, l, d;
};
Tensor zero_of(const Tensor& t) { return wrap_number(Scalar(0.0), t.dtype()); }
Tensor turned(const Tensor& t, bool hermitian) {
  return hermitian ? adjoint_of(t) : call<Transpose>(t, int64_t{-2}, int64_t{-1});
}
/// What belongs to L: below the diagonal, outside of D's blocks.
Tensor outside(const Tensor& t, const Tensor& blocks) {
  return call<Where>(blocks, zero_of(t), lower(t, -1));
}
Ldl take_apart(const Tensor& ld, const Tensor& pivots, bool hermitian) {
  const Tensors order = call_all<LdlOrder>(pivots);
  const Tensor &rows = order[1], &blocks = order[2];
  const Tensor l = outside(call<GatherAlong>(ld, rows, ld.dim() - 2), blocks);
  // Of a Hermitian matrix, the diagonal's imaginary part is not read.
  const Tensor d = call<Where>(blocks, ld, zero_of(ld)), both = call<Add>(d, turned(d, hermitian));
  return {order[0], rows, blocks, call<Add>(l, identity_of(ld)),
          call<Sub>(both, on_diagonal(half(diagonal(both))))};
}
/// t with rows and columns in the order p.
Tensor reorder(const Tensor& t, const Tensor& p) {
  const Tensor rows = call<GatherAlong>(t, copy_of(call<Expand>(as_column(p), t.sizes())), t.dim() - 2);
  return call<GatherAlong>(rows, copy_of(call<Expand>(as_row(p), t.sizes())), t.dim() - 1);
}
}  // namespace

// With M = L⁻¹ dA' L⁻ᴴ (or L⁻ᵀ): dD is M inside of D's blocks, and dL D = L M below them.
Tensor ldl_factor_rule(const Tensor& g, const Tensor& ld, const Tensor& pivots, bool hermitian) {
  if (!g.defined()) return {};
  const Ldl f = take_apart(ld, pivots, hermitian);
  const Tensor gl = outside(call<GatherAlong>(g, f.rows, g.dim() - 2), f.blocks), lh = adjoint_of(f.l);
  const Tensor below = adjoint_of(call<Solve>(f.d, adjoint_of(mm(lh, gl))));
  const Tensor m = call<Where>(f.blocks, g, lower(below, -1));
  Tensor ga = triangle_solve(lh, m, true, true, true);
  ga = triangle_solve(hermitian ? f.l : conjugate(f.l), ga, false, false, true);
  return reorder(half(call<Add>(ga, turned(ga, hermitian))),
                 call<Argsort>(f.permutation, int64_t{-1}, false, false));
}

// By B: A⁻ᴴ ḡ, where Aᴴ is A or, of a symmetric A, its conjugate. By the factors: the gradient of A, through
// A' = L D Lᴴ.
Tensors ldl_solve_rule(const Tensor& g, const Tensor& ld, const Tensor& pivots, const Tensor& x,
                       bool hermitian, bool of_ld, bool of_b) {
  const Tensor solved = call<LdlSolve>(ld, pivots, hermitian ? g : conjugate(g), hermitian);
  const Tensor gb = hermitian ? solved : conjugate(solved);
  Tensors gs(3);
  if (of_ld) {
    const Ldl f = take_apart(ld, pivots, hermitian);
    const auto other = [hermitian](const Tensor& t) { return hermitian ? t : conjugate(t); };
    const Tensor ga = reorder(minus(mm(gb, adjoint_of(x))), f.permutation);
    const Tensor gl = outside(mm(call<Add>(ga, turned(ga, hermitian)), other(mm(f.l, f.d))), f.blocks);
    const Tensor gd = mm(mm(adjoint_of(f.l), ga), other(f.l)), both = call<Add>(gd, turned(gd, hermitian));
    const Tensor held = call<GatherAlong>(gl, call<Argsort>(f.rows, int64_t{-2}, false, false), gl.dim() - 2);
    gs[0] = call<Where>(f.blocks, call<Add>(lower(both, -1), on_diagonal(half(diagonal(both)))), held);
  }
  if (of_b) gs[2] = gb;
  return gs;
}

// From dP = -P dA P + P Pᴴ dAᴴ (I - A P) + (I - P A) dAᴴ Pᴴ P at constant rank (G. Golub and V. Pereyra, The
// differentiation of pseudo-inverses and nonlinear least squares problems whose variables separate, 1973).
Tensor pseudo_inverse_rule(const Tensor& g, const Tensor& a, const Tensor& p) {
  const Tensor ph = adjoint_of(p), gh = adjoint_of(g);
  const Tensor pph = mm(p, ph), php = mm(ph, p), ghp = mm(gh, pph), phg = mm(php, gh);
  const Tensor left = call<Sub>(ghp, mm(a, mm(p, ghp))), right = call<Sub>(phg, mm(mm(phg, p), a));
  return call<Sub>(call<Add>(left, right), mm(ph, mm(g, ph)));
}

}  // namespace adjoint::linalg
