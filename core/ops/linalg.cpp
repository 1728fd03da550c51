// What the rows of linear algebra make; their rules stand in linalg_rules.cpp.
#include "ops/linalg.h"

#include <cmath>

#include "dispatch/family.h"
#include "for_size.h"
#include "kernels/copy.h"
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
#include "tensor/access.h"

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
    fail(op, "(): the input must be batches of square matrices, but its shape is ", to_string(a.sizes()));
}
void need_fitting(const Tensor& a, const Tensor& b, bool left, const char* op) {
  need_matrices(b, op);
  const size_t batch = static_cast<size_t>(a.dim() - 2);
  if (a.dtype() != b.dtype())
    fail(op, "(): A and B must have one dtype, but got ", name_of(a.dtype()), " and ", name_of(b.dtype()));
  if (a.dim() != b.dim() || !same(a.sizes().first(batch), b.sizes().first(batch)) ||
      a.size(-1) != b.size(left ? -2 : -1))
    fail(op, "(): shapes ", to_string(a.sizes()), " and ", to_string(b.sizes()), " do not fit");
}
void need_pivots(const Tensor& lu, const Tensor& pivots, const char* op) {
  const Dims expected = kernel::batch_and(lu, {lu.size(-1)});
  if (pivots.dtype() != DType::Int32) fail(op, "(): pivots must be int32, but are ", name_of(pivots.dtype()));
  if (!same(pivots.sizes(), expected.span()))
    fail(op, "(): pivots must have shape ", to_string(expected.span()), ", but have ",
         to_string(pivots.sizes()));
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
  kernel::lu(a, f.lu, f.pivots, f.info, pivot);
  return f;
}

/// Sign (or phase) and logarithm of a determinant, from its factors.
std::pair<Tensor, Tensor> sign_and_log(const Tensor& lu, const Tensor& pivots) {
  const int64_t n = lu.size(-1);
  const Dims batch = kernel::batch_and(lu, {});
  const Tensor sign = empty(batch.span(), lu.dtype()), log = empty(batch.span(), real_dtype(lu.dtype()));
  const Access access(sign);
  if (access)
    visit(lu.dtype(), [&]<class T>(TypeTag<T>) {
      if constexpr (is_floating_v<T> || is_complex_v<T>) {
        if constexpr (!is_half_v<T>) {
          using R = real_t<T>;
          for (int64_t i = 0; i < sign.numel(); ++i) {
            T s(1);
            R sum = 0;
            for (int64_t k = 0; k < n; ++k) {
              const T d = lu.data<T>()[i * n * n + k * (n + 1)];
              R size;
              if constexpr (is_complex_v<T>)
                size = std::hypot(d.re, d.im);
              else
                size = std::abs(d);
              // Of infinity, too; and 0 of NaN, as torch has it.
              if constexpr (is_complex_v<T>)
                s = size == 0 ? T(0) : s * (d / T(size));
              else
                s *= T(d > 0) - T(d < 0);
              if (pivots.data<int>()[i * n + k] != k + 1) s = -s;
              sum += std::log(size);
            }
            sign.data<T>()[i] = s;
            log.data<R>()[i] = sum;
          }
        }
      }
    });
  return {sign, log};
}

}  // namespace

Two Cholesky::forward(const Tensor& self) {
  need_square(self, name);
  const Tensor l = kernel::columns(self.sizes(), self.dtype()), info = integers(self, {});
  kernel::cholesky(self, l, info);
  return {l, info};
}

Tensor SolveTriangular::forward(const Tensor& self, const Tensor& B, bool upper, bool left,
                                bool unitriangular) {
  need_square(self, name);
  need_fitting(self, B, left, name);
  const Tensor x = kernel::columns(B.sizes(), B.dtype());
  kernel::solve_triangular(self, B, x, upper, left, unitriangular);
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
  kernel::permutation_of(dense(self), p);
  return p;
}

Tensor LuSolve::forward(const Tensor& self, const Tensor& pivots, const Tensor& B, bool adjoint) {
  need_square(self, name);
  need_fitting(self, B, true, name);
  need_pivots(self, pivots, name);
  const Tensor x = kernel::columns(B.sizes(), B.dtype());
  const Tensor p = dense(pivots);
  // LAPACK follows pivots without looking: they are looked at here.
  if (const Access access(p); access && p.numel()) {
    bool astray = false;
    const int64_t n = p.size(-1);
    for (const int *at = p.data<int>(), *end = at + p.numel(); at != end; ++at) astray |= *at < 1 || *at > n;
    if (astray) kernel::permutation_of(p, empty(p.sizes(), DType::Int64));
  }
  kernel::lu_solve(self, p, B, x, adjoint ? 'C' : 'N');
  return x;
}

Four Solve::forward(const Tensor& self, const Tensor& B) {
  need_square(self, name);
  need_fitting(self, B, true, name);
  auto [lu, pivots, info] = factor(self);
  const Tensor x = kernel::columns(B.sizes(), B.dtype());
  kernel::lu_solve(lu, pivots, B, x, 'N');
  return {x, lu, pivots, info};
}

Two Inverse::forward(const Tensor& self) {
  need_square(self, name);
  auto [lu, pivots, info] = factor(self);
  const Tensor x = kernel::columns(self.sizes(), self.dtype());
  kernel::lu_solve(lu, pivots, Tensor(), x, 'N');
  return {x, info};
}

Three Det::forward(const Tensor& self) {
  need_square(self, name);
  auto [lu, pivots, info] = factor(self);
  const Tensor det = empty(kernel::batch_and(self, {}).span(), self.dtype());
  const int64_t n = self.size(-1);
  const Access access(det);
  if (access)
    visit(self.dtype(), [&]<class T>(TypeTag<T>) {
      if constexpr (!is_half_v<T> && !is_integer_v<T>)
        for (int64_t i = 0; i < det.numel(); ++i) {
          T d(1);
          for (int64_t k = 0; k < n; ++k) {
            d = d * lu.template data<T>()[i * n * n + k * (n + 1)];
            if (pivots.template data<int>()[i * n + k] != k + 1) d = -d;
          }
          det.data<T>()[i] = d;
        }
    });
  return {det, lu, pivots};
}

Four Slogdet::forward(const Tensor& self) {
  need_square(self, name);
  auto [lu, pivots, info] = factor(self);
  auto [sign, log] = sign_and_log(lu, pivots);
  return {sign, log, lu, pivots};
}

Two Qr::forward(const Tensor& self, bool complete) {
  need_matrices(self, name);
  const int64_t m = self.size(-2), n = self.size(-1), k = least(self), wide = complete ? m : k;
  if (auto [q, r] = kernel::small_qr(self, wide); q.defined()) return {q, r};
  const Tensor a = kernel::columns_of(self), tau = empty(kernel::batch_and(self, {k}).span(), self.dtype());
  kernel::reflectors(a, tau);
  const Tensor r = copy_of(Triu::forward(complete ? a : call<Narrow>(a, int64_t{-2}, int64_t{0}, k), 0));
  const Tensor q = wide <= n ? kernel::columns_of(call<Narrow>(a, int64_t{-1}, int64_t{0}, wide))
                             : kernel::columns(kernel::batch_and(self, {m, wide}).span(), self.dtype());
  if (wide > n) {
    copy_into(q, scalar_tensor(Scalar(0), self.dtype()));
    copy_into(call<Narrow>(q, int64_t{-1}, int64_t{0}, n), a);
  }
  if (n == 0)
    copy_into(q, kernel::identity_like(q));
  else
    kernel::from_reflectors(q, tau);
  return {q, r};
}

Two Geqrf::forward(const Tensor& self) {
  need_matrices(self, name);
  const Tensor a = kernel::columns_of(self),
               tau = empty(kernel::batch_and(self, {least(self)}).span(), self.dtype());
  kernel::reflectors(a, tau);
  return {a, tau};
}

Tensor HouseholderProduct::forward(const Tensor& self, const Tensor& tau) {
  need_matrices(self, name);
  if (self.size(-2) < self.size(-1))
    fail(name, "(): a must have at least as many rows as columns, but its shape is ",
         to_string(self.sizes()));
  const Dims expected = kernel::batch_and(self, {tau.dim() ? tau.size(-1) : 0});
  if (tau.dtype() != self.dtype() || tau.dim() != self.dim() - 1 || !same(tau.sizes(), expected.span()) ||
      tau.size(-1) > self.size(-1))
    fail(name, "(): tau of shape ", to_string(tau.sizes()), " does not fit to a of shape ",
         to_string(self.sizes()));
  const Tensor a = kernel::columns_of(self);
  kernel::from_reflectors(a, dense(tau));
  return a;
}

Three Eigh::forward(const Tensor& self, bool upper, bool vectors) {
  need_square(self, name);
  const Tensor a = kernel::columns(self.sizes(), self.dtype()), info = integers(self, {});
  const Tensor values = empty(kernel::batch_and(self, {self.size(-1)}).span(), real_dtype(self.dtype()));
  kernel::eigh(self, a, values, info, upper, vectors);
  return {values, vectors ? a : empty(Dims{0}.span(), self.dtype()), info};
}

Three Eig::forward(const Tensor& self, bool vectors) {
  need_square(self, name);
  const DType c = complex_dtype(self.dtype());
  const Tensor values = empty(kernel::batch_and(self, {self.size(-1)}).span(), c), info = integers(self, {});
  const Tensor v = vectors ? kernel::columns(self.sizes(), c) : Tensor();
  kernel::eig(kernel::columns_of(self), values, v, info);
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
  kernel::svd(self, u, s, vh, info);
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
  kernel::ldl(ld, pivots, info, hermitian);
  return {ld, pivots, info};
}

// As LAPACK's sytrf says of its lower triangle: a positive pivot is a row exchanged with this one, two
// negative ones a block of D, whose second row was exchanged.
Three LdlOrder::forward(const Tensor& self) {
  if (self.dim() < 1 || self.dtype() != DType::Int32)
    fail(name, "(): pivots must be int32 with at least one dimension");
  const int64_t n = self.size(-1), count = n ? self.numel() / n : 0;
  Dims square(self.sizes());
  square.push_back(n);
  const Tensor permutation = empty(self.sizes(), DType::Int64), rows = empty(square.span(), DType::Int64),
               blocks = zeros(square.span(), DType::Bool), p = dense(self);
  const Access access(p);
  if (!access) return {permutation, rows, blocks};
  for (int64_t i = 0; i < count; ++i) {
    const int* pivots = p.data<int>() + i * n;
    int64_t *order = permutation.data<int64_t>() + i * n, *row = rows.data<int64_t>() + i * n * n;
    bool* block = blocks.data<bool>() + i * n * n;
    for (int64_t k = 0; k < n; ++k) order[k] = k;
    for (int64_t k = 0; k < n * n; ++k) row[k] = k / n;
    for (int64_t k = 0; k < n;) {
      const bool two = pivots[k] < 0;
      const int64_t last = two ? k + 1 : k, other = std::abs(int64_t{pivots[k]}) - 1;
      if (other < last || other >= n || last >= n)
        fail<ValueError>(name, "(): pivots must be as ldl_factor returns them, but one is ", pivots[k]);
      std::swap(order[last], order[other]);
      for (int64_t column = 0; column < k; ++column)
        std::swap(row[last * n + column], row[other * n + column]);
      block[k * n + k] = block[last * n + k] = block[last * n + last] = true;
      k = last + 1;
    }
  }
  return {permutation, rows, blocks};
}

Tensor LdlSolve::forward(const Tensor& self, const Tensor& pivots, const Tensor& B, bool hermitian) {
  need_square(self, name);
  need_fitting(self, B, true, name);
  need_pivots(self, pivots, name);
  const Tensor p = dense(pivots);
  const Access access(p);
  for (int64_t i = 0; access && i < p.numel(); ++i)
    if (const int v = p.data<int>()[i]; v == 0 || std::abs(int64_t{v}) > self.size(-1))
      fail<ValueError>(name, "(): pivots must be as ldl_factor returns them, but one is ", v);
  const Tensor x = kernel::columns_of(B);
  kernel::ldl_solve(kernel::columns_of(self), p, x, hermitian);
  return x;
}

Four LeastSquares::forward(const Tensor& self, const Tensor& B, double rcond, bool values) {
  need_matrices(self, name);
  const Dims batch = kernel::batch_and(self, {}), of_b = kernel::batch_and(B, {});
  const int64_t m = self.size(-2), n = self.size(-1);
  if (B.dim() != self.dim() || B.dtype() != self.dtype() || !same(batch.span(), of_b.span()) ||
      B.size(-2) != m)
    fail(name, "(): shapes ", to_string(self.sizes()), " and ", to_string(B.sizes()), " do not fit");
  const Tensor x =
      kernel::columns(kernel::batch_and(self, {std::max(m, n), B.size(-1)}).span(), self.dtype());
  copy_into(call<Narrow>(x, int64_t{-2}, int64_t{0}, m), B);
  const Tensor s =
      empty(kernel::batch_and(self, {values ? least(self) : 0}).span(), real_dtype(self.dtype()));
  const Tensor rank = empty(batch.span(), DType::Int64), info = integers(self, {});
  kernel::least_squares(kernel::columns_of(self), x, values ? s : Tensor(), rank, info, rcond);
  return {copy_of(call<Narrow>(x, int64_t{-2}, int64_t{0}, n)), s, rank, info};
}

}  // namespace adjoint

ADJOINT_FAMILY(LinearAlgebra)
