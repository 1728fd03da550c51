// What the rows of linear algebra make; their rules stand in linalg_rules.cpp.
#include "ops/linalg.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/launch.h"
#include "kernels/linalg.h"
#include "ops/arithmetic.h"
#include "ops/comparison.h"
#include "ops/complex.h"
#include "ops/part.h"
#include "ops/product.h"
#include "ops/rearranging.h"
#include "ops/reduction.h"
#include "ops/selection.h"
#include "ops/shape.h"

namespace adjoint {

namespace kernel = kernels::linalg;
using namespace linalg;

namespace {

void need_matrices(const Tensor& a, const char* op) {
  if (a.dim() < 2) fail(op, "(): the input must have at least 2 dimensions, but has ", a.dim());
  if (!is_differentiable(a.dtype()) || a.dtype() == DType::Float16 || a.dtype() == DType::BFloat16)
    fail(op, "(): expected float32, float64, complex64 or complex128, but got ", name_of(a.dtype()));
}
void need_square(const Tensor& a, const char* op) {
  need_matrices(a, op);
  if (a.size(-1) != a.size(-2))
    fail(op, "(): the input must be batches of square matrices, but its shape is ", a.sizes());
}
void need_fitting(const Tensor& a, const Tensor& b, bool left, const char* op) {
  need_matrices(b, op);
  const size_t batch = static_cast<size_t>(a.dim() - 2);
  if (a.dtype() != b.dtype())
    fail(op, "(): A and B must have one dtype, but got ", name_of(a.dtype()), " and ", name_of(b.dtype()));
  if (a.dim() != b.dim() || !same(a.sizes().first(batch), b.sizes().first(batch)) ||
      a.size(-1) != b.size(left ? -2 : -1))
    fail(op, "(): shapes ", a.sizes(), " and ", b.sizes(), " do not fit");
}
void need_pivots(const Tensor& lu, const Tensor& pivots, const char* op) {
  const Dims expected = kernel::batch_and(lu, {lu.size(-1)});
  if (pivots.dtype() != DType::Int32) fail(op, "(): pivots must be int32, but are ", name_of(pivots.dtype()));
  if (!same(pivots.sizes(), expected.span()))
    fail(op, "(): pivots must have shape ", to_string(expected.span()), ", but have ", pivots.sizes());
}
Tensor integers(const Tensor& a, std::initializer_list<int64_t> tail) {
  return empty(kernel::batch_and(a, tail).span(), DType::Int32);
}
int64_t least(const Tensor& a) { return std::min(a.size(-1), a.size(-2)); }

struct Factored {
  Tensor lu, pivots, info;
};
Factored factor(const Tensor& a, bool pivot = true) {
  Factored f{kernel::columns(a.sizes(), a.dtype()), integers(a, {least(a)}), integers(a, {})};
  on<&kernel::lu>(Out(f.lu), Out(f.pivots), Out(f.info), a, pivot);
  return f;
}

}  // namespace

Two Cholesky::forward(const Tensor& self) {
  need_square(self, name);
  const Tensor l = kernel::columns(self.sizes(), self.dtype()), info = integers(self, {});
  on<&kernel::cholesky>(Out(l), Out(info), self);
  return {l, info};
}

Tensor SolveTriangular::forward(const Tensor& self, const Tensor& B, bool upper, bool left,
                                bool unitriangular) {
  need_square(self, name);
  need_fitting(self, B, left, name);
  const Tensor x = kernel::columns(B.sizes(), B.dtype());
  on<&kernel::solve_triangular>(Out(x), self, B, upper, left, unitriangular);
  return x;
}

Three LuFactor::forward(const Tensor& self, bool pivot) {
  need_matrices(self, name);
  auto [lu, pivots, info] = factor(self, pivot);
  return {lu, pivots, info};
}

Tensor LuPermutation::forward(const Tensor& self, int64_t rows) {
  if (self.dim() < 1 || self.dtype() != DType::Int32)
    fail(name, "(): pivots must be int32 with at least one dimension");
  if (rows < self.size(-1)) fail(name, "(): ", self.size(-1), " pivots are more than ", rows, " rows");
  Dims sizes(self.sizes());
  sizes[sizes.size() - 1] = rows;
  const Tensor p = empty(sizes.span(), DType::Int64);
  on<&kernel::permutation_of>(Out(p), dense(self));
  return p;
}

Tensor LuSolve::forward(const Tensor& self, const Tensor& pivots, const Tensor& B, bool adjoint) {
  need_square(self, name);
  need_fitting(self, B, true, name);
  need_pivots(self, pivots, name);
  const Tensor x = kernel::columns(B.sizes(), B.dtype());
  const Tensor p = dense(pivots);
  // LAPACK follows pivots without looking: they are looked at here.
  if (const auto pivot = check<&kernel::pivot_astray>(p, p.size(-1), false))
    fail<ValueError>("linalg: pivots must be between 1 and ", p.size(-1),
                     " (as lu_factor returns them), but one is ", *pivot);
  on<&kernel::lu_solve>(Out(x), self, p, B, adjoint ? 'C' : 'N');
  return x;
}

Four Solve::forward(const Tensor& self, const Tensor& B) {
  need_square(self, name);
  need_fitting(self, B, true, name);
  auto [lu, pivots, info] = factor(self);
  const Tensor x = kernel::columns(B.sizes(), B.dtype());
  on<&kernel::lu_solve>(Out(x), lu, pivots, B, 'N');
  return {x, lu, pivots, info};
}

Two Inverse::forward(const Tensor& self) {
  need_square(self, name);
  auto [lu, pivots, info] = factor(self);
  const Tensor x = kernel::columns(self.sizes(), self.dtype());
  on<&kernel::lu_solve>(Out(x), lu, pivots, Tensor(), 'N');
  return {x, info};
}

Three Det::forward(const Tensor& self) {
  need_square(self, name);
  auto [lu, pivots, info] = factor(self);
  const Tensor det = empty(kernel::batch_and(self, {}).span(), self.dtype());
  on<&kernel::determinant>(Out(det), lu, pivots);
  return {det, lu, pivots};
}

Four Slogdet::forward(const Tensor& self) {
  need_square(self, name);
  auto [lu, pivots, info] = factor(self);
  const Dims batch = kernel::batch_and(self, {});
  const Tensor sign = empty(batch.span(), self.dtype()), log = empty(batch.span(), real_dtype(self.dtype()));
  on<&kernel::sign_and_log>(Out(sign), Out(log), lu, pivots);
  return {sign, log, lu, pivots};
}

Two Qr::forward(const Tensor& self, bool complete) {
  need_matrices(self, name);
  const int64_t m = self.size(-2), n = self.size(-1), k = least(self), wide = complete ? m : k;
  if (!is_meta(self) && kernel::is_small(self)) {
    const Tensor q = kernel::columns(kernel::batch_and(self, {m, wide}).span(), self.dtype()),
                 r = kernel::columns(kernel::batch_and(self, {wide, n}).span(), self.dtype());
    on<&kernel::small_qr>(Out(q), Out(r), self);
    return {q, r};
  }
  const Tensor a = kernel::columns_of(self), tau = empty(kernel::batch_and(self, {k}).span(), self.dtype());
  on<&kernel::reflectors>(Out(a), Out(tau));
  const Tensor r = copy_of(Triu::forward({}, complete ? a : call<Narrow>(a, int64_t{-2}, int64_t{0}, k), 0));
  const Tensor q = wide <= n ? kernel::columns_of(call<Narrow>(a, int64_t{-1}, int64_t{0}, wide))
                             : kernel::columns(kernel::batch_and(self, {m, wide}).span(), self.dtype());
  if (wide > n) {
    copy_into(q, scalar_tensor(Scalar(0), self.dtype()));
    copy_into(call<Narrow>(q, int64_t{-1}, int64_t{0}, n), a);
  }
  if (n == 0)
    copy_into(q, kernel::identity_like(q));
  else
    on<&kernel::from_reflectors>(Out(q), tau);
  return {q, r};
}

Two Geqrf::forward(const Tensor& self) {
  need_matrices(self, name);
  const Tensor a = kernel::columns_of(self),
               tau = empty(kernel::batch_and(self, {least(self)}).span(), self.dtype());
  on<&kernel::reflectors>(Out(a), Out(tau));
  return {a, tau};
}

Tensor HouseholderProduct::forward(const Tensor& self, const Tensor& tau) {
  need_matrices(self, name);
  if (self.size(-2) < self.size(-1))
    fail(name, "(): a must have at least as many rows as columns, but its shape is ", self.sizes());
  const Dims expected = kernel::batch_and(self, {tau.dim() ? tau.size(-1) : 0});
  if (tau.dtype() != self.dtype() || tau.dim() != self.dim() - 1 || !same(tau.sizes(), expected.span()) ||
      tau.size(-1) > self.size(-1))
    fail(name, "(): tau of shape ", tau.sizes(), " does not fit to a of shape ", self.sizes());
  const Tensor a = kernel::columns_of(self);
  on<&kernel::from_reflectors>(Out(a), dense(tau));
  return a;
}

Three Eigh::forward(const Tensor& self, bool upper, bool vectors) {
  need_square(self, name);
  const Tensor a = kernel::columns(self.sizes(), self.dtype()), info = integers(self, {});
  const Tensor values = empty(kernel::batch_and(self, {self.size(-1)}).span(), real_dtype(self.dtype()));
  on<&kernel::eigh>(Out(a), Out(values), Out(info), self, upper, vectors);
  return {values, vectors ? a : empty(Dims{0}.span(), self.dtype()), info};
}

Three Eig::forward(const Tensor& self, bool vectors) {
  need_square(self, name);
  const DType c = complex_dtype(self.dtype());
  const Tensor values = empty(kernel::batch_and(self, {self.size(-1)}).span(), c), info = integers(self, {});
  const Tensor v = vectors ? kernel::columns(self.sizes(), c) : Tensor();
  on<&kernel::eig>(Out(values), Out(v), Out(info), self);
  return {values, vectors ? v : empty(Dims{0}.span(), c), info};
}

Four Svd::forward(const Tensor& self, bool full_matrices, bool vectors) {
  need_matrices(self, name);
  const int64_t m = self.size(-2), n = self.size(-1), k = least(self);
  const Tensor s = empty(kernel::batch_and(self, {k}).span(), real_dtype(self.dtype())),
               info = integers(self, {});
  Tensor u, vh;
  if (vectors) {
    u = kernel::columns(kernel::batch_and(self, {m, full_matrices ? m : k}).span(), self.dtype());
    vh = kernel::columns(kernel::batch_and(self, {full_matrices ? n : k, n}).span(), self.dtype());
  }
  on<&kernel::svd>(Out(s), Out(info), Out(u), Out(vh), self);
  if (!vectors) u = vh = empty(Dims{0}.span(), self.dtype());
  return {u, s, vh, info};
}

Tensor PseudoInverse::forward(const Tensor& self, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  need_matrices(self, name);
  Tensor u, s, vh;
  if (hermitian) {
    auto [values, v, info] = Eigh::forward(self, false, true);
    u = v, s = values, vh = conjugate_transpose(v);
  } else {
    auto [left, values, right, info] = Svd::forward(self, false, true);
    u = left, s = values, vh = right;
  }
  const Dims last = {-1};
  if (s.numel() == 0)
    return zeros(kernel::batch_and(self, {self.size(-1), self.size(-2)}).span(), self.dtype());
  const Tensor size = call<Abs>(s), largest = call<Amax>(size, OptionalInts(last.span()), true);
  const auto column = [](const Tensor& t) { return call<Unsqueeze>(t, int64_t{-1}); };
  const Tensor least_kept = call<Maximum>(column(atol), call<Mul>(column(rtol), largest));
  const Tensor zero = wrap_number(Scalar(0.0), s.dtype());
  const Tensor over = call<Where>(call<Greater>(size, least_kept), call<Reciprocal>(s), zero);
  return call<Matmul>(call<Mul>(conjugate_transpose(vh), call<Unsqueeze>(over, int64_t{-2})),
                      conjugate_transpose(u));
}

Three LdlFactor::forward(const Tensor& self, bool hermitian) {
  need_square(self, name);
  const Tensor ld = kernel::columns_of(self), pivots = integers(self, {self.size(-1)}),
               info = integers(self, {});
  on<&kernel::ldl>(Out(ld), Out(pivots), Out(info), hermitian);
  return {ld, pivots, info};
}

Three LdlOrder::forward(const Tensor& self) {
  if (self.dim() < 1 || self.dtype() != DType::Int32)
    fail(name, "(): pivots must be int32 with at least one dimension");
  Dims square(self.sizes());
  square.push_back(self.size(-1));
  const Tensor permutation = empty(self.sizes(), DType::Int64), rows = empty(square.span(), DType::Int64),
               blocks = empty(square.span(), DType::Bool);
  on<&kernel::ldl_order>(Out(permutation), Out(rows), Out(blocks), dense(self), name);
  return {permutation, rows, blocks};
}

Tensor LdlSolve::forward(const Tensor& self, const Tensor& pivots, const Tensor& B, bool hermitian) {
  need_square(self, name);
  need_fitting(self, B, true, name);
  need_pivots(self, pivots, name);
  const Tensor p = dense(pivots);
  if (const auto pivot = check<&kernel::pivot_astray>(p, self.size(-1), true))
    fail<ValueError>(name, "(): pivots must be as ldl_factor returns them, but one is ", *pivot);
  const Tensor x = kernel::columns_of(B);
  on<&kernel::ldl_solve>(Out(x), kernel::columns_of(self), p, hermitian);
  return x;
}

Four LeastSquares::forward(const Tensor& self, const Tensor& B, double rcond, bool values) {
  need_matrices(self, name);
  const Dims batch = kernel::batch_and(self, {}), of_b = kernel::batch_and(B, {});
  const int64_t m = self.size(-2), n = self.size(-1);
  if (B.dim() != self.dim() || B.dtype() != self.dtype() || !same(batch.span(), of_b.span()) ||
      B.size(-2) != m)
    fail(name, "(): shapes ", self.sizes(), " and ", B.sizes(), " do not fit");
  const Tensor x =
      kernel::columns(kernel::batch_and(self, {std::max(m, n), B.size(-1)}).span(), self.dtype());
  copy_into(call<Narrow>(x, int64_t{-2}, int64_t{0}, m), B);
  const Tensor s =
      empty(kernel::batch_and(self, {values ? least(self) : 0}).span(), real_dtype(self.dtype()));
  const Tensor rank = empty(batch.span(), DType::Int64), info = integers(self, {});
  on<&kernel::least_squares>(Out(x), Out(rank), Out(info), Out(values ? s : Tensor()), self, rcond);
  return {copy_of(call<Narrow>(x, int64_t{-2}, int64_t{0}, n)), s, rank, info};
}

}  // namespace adjoint

ADJOINT_FAMILY(LinearAlgebra)
