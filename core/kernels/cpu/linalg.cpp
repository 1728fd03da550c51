// Decompositions and solvers: one LAPACK call per matrix of a batch, the batch in parallel, unless loops of
// our own serve (kernels/cpu/small/small_batches.h). Start reading at `each`.
#include "kernels/linalg.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/cpu/lapack.h"
#include "kernels/cpu/small/small_batches.h"
#include "runtime/parallel.h"

namespace adjoint::kernels::linalg {

namespace {

struct Matrices {
  int64_t count = 1;
  int rows, columns;
  explicit Matrices(const Tensor& a) : rows(fits(a.size(-2))), columns(fits(a.size(-1))) {
    for (int64_t d = 0; d + 2 < a.dim(); ++d) count *= a.sizes()[static_cast<size_t>(d)];
  }
  int64_t size() const { return int64_t{rows} * columns; }
  int leading() const { return std::max(1, rows); }
  static int fits(int64_t n) {
    if (n > 2147483647)
      fail("linalg: a matrix with ", n, " rows or columns is more than LAPACK's 32-bit integers can count");
    return static_cast<int>(n);
  }
};

/// f(TypeTag<T>) for the four types that LAPACK knows.
template <class F>
void with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::Float32:
      return f(TypeTag<float>{});
    case DType::Float64:
      return f(TypeTag<double>{});
    case DType::Complex64:
      return f(TypeTag<Complex<float>>{});
    case DType::Complex128:
      return f(TypeTag<Complex<double>>{});
    default:
      fail("linalg: expected float32, float64, complex64 or complex128, but got ", name_of(dtype));
  }
}

/// f(matrix number) for a batch; the work on one grows with the cube of its size.
template <class F>
void each(const Matrices& m, const F& f) {
  const double n = std::max(m.rows, m.columns);
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(65536 / (n * n * n + 64)));
  runtime::parallel_for(0, m.count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

void make_identity(const Tensor& t) {
  copy_into(t, scalar_tensor(Scalar(0), t.dtype()));
  const Dims sizes = batch_and(t, {t.size(-1)});
  Dims strides(t.strides());
  const int64_t step = strides[strides.size() - 1] + strides[strides.size() - 2];
  strides.pop_back();
  strides[strides.size() - 1] = step;
  copy_into(alias(t, sizes.span(), strides.span(), t.offset()), scalar_tensor(Scalar(1), t.dtype()));
}

bool all_zero(const Tensor& info) {
  return std::all_of(info.data<int>(), info.data<int>() + info.numel(), [](int i) { return i == 0; });
}

/// Matrix number i of a batch.
Tensor matrix_of(const Tensor& t, int64_t i) {
  int64_t at = t.offset();
  for (int64_t d = t.dim() - 3; d >= 0; --d) {
    at += i % t.size(d) * t.stride(d);
    i /= t.size(d);
  }
  return alias(t, t.sizes().last(2), t.strides().last(2), at);
}

/// A batch of column-major matrices: `t` itself where it is one.
Tensor in_columns(const Tensor& t) {
  const int64_t rows = t.size(-2);
  int64_t step = rows * t.size(-1);
  bool plain = t.stride(-2) == 1 && t.stride(-1) == rows;
  for (int64_t d = t.dim() - 3; d >= 0; --d) {
    plain &= t.stride(d) == step;
    step *= t.size(d);
  }
  return plain ? t : columns_of(t);
}

char mark(bool yes, char a, char b) { return yes ? a : b; }

/// LU without exchanging rows: row by row, right-looking.
template <class T>
int lu_in_order(int m, int n, T* a) {
  int info = 0;
  for (int k = 0; k < std::min(m, n); ++k) {
    const T pivot = a[k + int64_t{k} * m];
    if (pivot == T(0)) {
      if (!info) info = k + 1;
      continue;
    }
    for (int i = k + 1; i < m; ++i) a[i + int64_t{k} * m] = a[i + int64_t{k} * m] / pivot;
    for (int j = k + 1; j < n; ++j) {
      const T top = a[k + int64_t{j} * m];
      for (int i = k + 1; i < m; ++i)
        a[i + int64_t{j} * m] = a[i + int64_t{j} * m] - a[i + int64_t{k} * m] * top;
    }
  }
  return info;
}

}  // namespace

Tensor columns(IntList sizes, DType dtype) {
  Dims turned(sizes);
  std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
  const Tensor t = empty({turned.data(), turned.size()}, dtype);
  Dims strides(t.strides());
  std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
  return alias(t, sizes, {strides.data(), strides.size()}, t.offset());
}

Tensor columns_of(const Tensor& t) {
  const Tensor to = columns(t.sizes(), t.dtype());
  copy_into(to, t);
  return to;
}

Tensor identity_like(const Tensor& a) {
  const Tensor t = columns(a.sizes(), a.dtype());
  make_identity(t);
  return t;
}

Dims batch_and(const Tensor& a, std::initializer_list<int64_t> tail) {
  Dims sizes(a.sizes().first(static_cast<size_t>(a.dim() - 2)));
  for (const int64_t n : tail) sizes.push_back(n);
  return sizes;
}

bool any_vanishes(const Tensor& t) {
  bool found = false;
  with_type(t.dtype(), [&]<class T>(TypeTag<T>) {
    for (const T *p = t.data<T>(), *end = p + t.numel(); p != end; ++p)
      found |= !(*p * T(0) == *p * T(0)) || *p == T(0);
  });
  return found;
}

bool any_small(const Tensor& t, double part) {
  bool found = false;
  visit(t.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (is_floating_v<T>)
      for (const T *p = t.data<T>(), *end = p + t.numel(); p != end; p += t.size(-1)) {
        const auto [least, most] = std::minmax_element(p, p + t.size(-1));
        const bool compares = std::none_of(p, p + t.size(-1), [](T x) { return x != x; });
        found |= compares && static_cast<double>(*least) <= part * static_cast<double>(*most);
      }
  });
  return found;
}

int64_t most_true(const Tensor& mask) {
  int64_t most = 0;
  for (const bool *p = mask.data<bool>(), *end = p + mask.numel(); p != end; p += mask.size(-1))
    most = std::max<int64_t>(most, std::count(p, p + mask.size(-1), true));
  return most;
}

void lu(const Tensor& a, const Tensor& pivots, const Tensor& info, const Tensor& from, bool pivot) {
  const Matrices m(a);
  if (pivot && small::lu(from, a, pivots, info)) return;
  copy_into(a, from);
  const int64_t least = std::min(m.rows, m.columns);
  with_type(a.dtype(), [&]<class T>(TypeTag<T>) {
    each(m, [&](int64_t i) {
      T* p = a.data<T>() + i * m.size();
      int* where = pivots.data<int>() + i * least;
      if (pivot) {
        info.data<int>()[i] = m.size() ? lapack::getrf(m.rows, m.columns, p, m.leading(), where) : 0;
      } else {
        std::iota(where, where + least, 1);
        info.data<int>()[i] = lu_in_order(m.rows, m.columns, p);
      }
    });
  });
}

void lu_solve(const Tensor& b, const Tensor& given, const Tensor& pivots, const Tensor& from, char op) {
  const Matrices m(given), r(b);
  if (b.numel() == 0 || small::lu_solve(given, pivots, from, b, op)) return;
  if (from.defined())
    copy_into(b, from);
  else
    make_identity(b);
  const Tensor lu = in_columns(given);
  with_type(lu.dtype(), [&]<class T>(TypeTag<T>) {
    each(m, [&](int64_t i) {
      lapack::getrs(op, m.rows, r.columns, lu.data<T>() + i * m.size(), m.leading(),
                    pivots.data<int>() + i * m.rows, b.data<T>() + i * r.size(), r.leading());
    });
  });
}

void determinant(const Tensor& det, const Tensor& lu, const Tensor& pivots) {
  const int64_t n = lu.size(-1);
  with_type(det.dtype(), [&]<class T>(TypeTag<T>) {
    for (int64_t i = 0; i < det.numel(); ++i) {
      T d(1);
      for (int64_t k = 0; k < n; ++k) {
        d = d * lu.template data<T>()[i * n * n + k * (n + 1)];
        if (pivots.template data<int>()[i * n + k] != k + 1) d = -d;
      }
      det.data<T>()[i] = d;
    }
  });
}

void sign_and_log(const Tensor& sign, const Tensor& log, const Tensor& lu, const Tensor& pivots) {
  const int64_t n = lu.size(-1);
  with_type(lu.dtype(), [&]<class T>(TypeTag<T>) {
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
  });
}

void cholesky(const Tensor& a, const Tensor& info, const Tensor& from) {
  const Matrices m(a);
  const bool served = small::cholesky(from, a, info);
  if (served && all_zero(info)) return;
  if (!served) copy_into(a, from);
  with_type(a.dtype(), [&]<class T>(TypeTag<T>) {
    each(m, [&](int64_t i) {
      if (served && info.data<int>()[i] == 0) return;
      if (served) copy_into(matrix_of(a, i), matrix_of(from, i));
      T* p = a.data<T>() + i * m.size();
      int& found = info.data<int>()[i];
      found = m.size() ? lapack::potrf(m.rows, p, m.leading()) : 0;
      // What is not a number is not positive, which LAPACK does not see.
      for (int64_t k = 0; found == 0 && k < m.rows; ++k)
        if (!(p[k * m.rows + k] == p[k * m.rows + k])) found = static_cast<int>(k) + 1;
      for (int64_t j = 1; j < m.columns; ++j) std::fill_n(p + j * m.rows, j, T(0));
    });
  });
}

void solve_triangular(const Tensor& b, const Tensor& given, const Tensor& from, bool upper, bool left,
                      bool unit_diagonal) {
  const Matrices m(given), r(b);
  if (b.numel() == 0 || small::solve_triangular(given, from, b, upper, left, unit_diagonal)) return;
  copy_into(b, from);
  // What lies in rows is the transpose of what lies in columns.
  const bool in_rows = given.is_contiguous();
  const Tensor a = in_rows ? given : in_columns(given);
  with_type(a.dtype(), [&]<class T>(TypeTag<T>) {
    each(m, [&](int64_t i) {
      lapack::trsm(mark(left, 'L', 'R'), mark(upper != in_rows, 'U', 'L'), mark(in_rows, 'T', 'N'),
                   mark(unit_diagonal, 'U', 'N'), r.rows, r.columns, a.data<T>() + i * m.size(), m.leading(),
                   b.data<T>() + i * r.size(), r.leading());
    });
  });
}

void small_qr(const Tensor& q, const Tensor& r, const Tensor& from) { small::qr(from, q, r); }
bool is_small(const Tensor& batch) { return small::serves(batch); }

void reflectors(const Tensor& a, const Tensor& tau) {
  const Matrices m(a);
  if (a.numel() == 0) return;
  with_type(a.dtype(), [&]<class T>(TypeTag<T>) {
    const int64_t least = std::min(m.rows, m.columns);
    each(m, [&](int64_t i) {
      lapack::geqrf(m.rows, m.columns, a.data<T>() + i * m.size(), m.leading(), tau.data<T>() + i * least);
    });
  });
}

void from_reflectors(const Tensor& a, const Tensor& tau) {
  const Matrices m(a);
  if (a.numel() == 0) return;
  with_type(a.dtype(), [&]<class T>(TypeTag<T>) {
    const int k = Matrices::fits(tau.size(-1));
    each(m, [&](int64_t i) {
      lapack::orgqr(m.rows, m.columns, k, a.data<T>() + i * m.size(), m.leading(), tau.data<T>() + i * k);
    });
  });
}

void eigh(const Tensor& a, const Tensor& values, const Tensor& info, const Tensor& from, bool upper,
          bool vectors) {
  const Matrices m(a);
  const bool served = small::eigh(from, a, values, info, upper, vectors);
  if (served && all_zero(info)) return;
  if (!served) copy_into(a, from);
  with_type(a.dtype(), [&]<class T>(TypeTag<T>) {
    each(m, [&](int64_t i) {
      if (served && info.data<int>()[i] == 0) return;
      if (served) copy_into(matrix_of(a, i), matrix_of(from, i));
      info.data<int>()[i] = m.rows ? lapack::heevd(mark(vectors, 'V', 'N'), mark(upper, 'U', 'L'), m.rows,
                                                   a.data<T>() + i * m.size(), m.leading(),
                                                   values.data<real_t<T>>() + i * m.rows)
                                   : 0;
    });
  });
}

void eig(const Tensor& values, const Tensor& vectors, const Tensor& info, const Tensor& from) {
  const Tensor a = columns_of(from);
  const Matrices m(a);
  const int n = m.rows;
  with_type(a.dtype(), [&]<class T>(TypeTag<T>) {
    using C = Complex<real_t<T>>;
    each(m, [&](int64_t i) {
      T* p = a.data<T>() + i * m.size();
      C* w = values.data<C>() + i * n;
      C* v = vectors.defined() ? vectors.data<C>() + i * m.size() : nullptr;
      int& result = info.data<int>()[i];
      result = 0;
      if (!n) return;
      if constexpr (is_complex_v<T>) {
        result = lapack::geev(n, p, n, w, v);
      } else {
        std::vector<T> re(static_cast<size_t>(n)), im(re), packed(v ? static_cast<size_t>(m.size()) : 0);
        result = lapack::geev_real(n, p, n, re.data(), im.data(), v ? packed.data() : nullptr);
        for (int j = 0; j < n; ++j) w[j] = C(re[static_cast<size_t>(j)], im[static_cast<size_t>(j)]);
        for (int j = 0; v && j < n; ++j) {
          const T* x = packed.data() + int64_t{j} * n;
          const bool pair = w[j].im != 0 && j + 1 < n;
          for (int k = 0; k < n; ++k) {
            v[k + int64_t{j} * n] = pair ? C(x[k], x[k + n]) : C(x[k]);
            if (pair) v[k + int64_t{j + 1} * n] = C(x[k], -x[k + n]);
          }
          j += pair;
        }
      }
    });
  });
}

void svd(const Tensor& s, const Tensor& info, const Tensor& u, const Tensor& vh, const Tensor& from) {
  const Matrices m(from);
  const bool served = small::svd(from, u, s, vh, info);
  if (served && all_zero(info)) return;
  const Tensor a = columns_of(from);
  const int64_t least = std::min(m.rows, m.columns);
  const bool vectors = u.defined();
  const int64_t of_u = vectors ? u.size(-2) * u.size(-1) : 0, of_vh = vectors ? vh.size(-2) * vh.size(-1) : 0;
  const bool all = vectors && (u.size(-1) > least || vh.size(-2) > least);
  with_type(a.dtype(), [&]<class T>(TypeTag<T>) {
    each(m, [&](int64_t i) {
      if (served && info.data<int>()[i] == 0) return;
      T* pu = vectors ? u.data<T>() + i * of_u : nullptr;
      T* pv = vectors ? vh.data<T>() + i * of_vh : nullptr;
      if (least == 0) {  // nothing to decompose: any orthonormal basis
        info.data<int>()[i] = 0;
        for (int64_t k = 0; k < of_u; ++k) pu[k] = T(k % (u.size(-2) + 1) == 0);
        for (int64_t k = 0; k < of_vh; ++k) pv[k] = T(k % (vh.size(-2) + 1) == 0);
        return;
      }
      info.data<int>()[i] =
          lapack::gesdd(!vectors ? 'N' : mark(all, 'A', 'S'), m.rows, m.columns, a.data<T>() + i * m.size(),
                        m.leading(), s.data<real_t<T>>() + i * least, pu, m.leading(), pv,
                        vectors ? static_cast<int>(std::max<int64_t>(1, vh.size(-2))) : 1);
    });
  });
}

void ldl(const Tensor& a, const Tensor& pivots, const Tensor& info, bool hermitian) {
  const Matrices m(a);
  with_type(a.dtype(), [&]<class T>(TypeTag<T>) {
    each(m, [&](int64_t i) {
      T* p = a.data<T>() + i * m.size();
      info.data<int>()[i] =
          m.rows ? lapack::sytrf(hermitian, m.rows, p, m.leading(), pivots.data<int>() + i * m.rows) : 0;
      for (int64_t j = 1; j < m.columns; ++j) std::fill_n(p + j * m.rows, j, T(0));
    });
  });
}

void ldl_solve(const Tensor& b, const Tensor& ld, const Tensor& pivots, bool hermitian) {
  const Matrices m(ld), r(b);
  if (b.numel() == 0) return;
  with_type(ld.dtype(), [&]<class T>(TypeTag<T>) {
    each(m, [&](int64_t i) {
      lapack::sytrs(hermitian, m.rows, r.columns, ld.data<T>() + i * m.size(), m.leading(),
                    pivots.data<int>() + i * m.rows, b.data<T>() + i * r.size(), r.leading());
    });
  });
}

namespace {

/// Least squares by a decomposition without exchanges, where the columns of a are independent by far: then
/// the solution is the one that every driver finds. Else false, and nothing is changed.
template <class T>
bool solve_by_qr(int m, int n, int columns, const T* a, T* b, double tolerance) {
  if (m < n) return false;
  const auto rows = static_cast<size_t>(m);
  std::vector<T> factors(a, a + rows * static_cast<size_t>(n)), tau(static_cast<size_t>(n));
  if (lapack::geqrf(m, n, factors.data(), m, tau.data()) != 0) return false;
  // The ratio of singular values is at least the mean of these, which are estimated within 3 as a rule.
  const double by_columns = lapack::trcon('1', n, factors.data(), m),
               by_rows = lapack::trcon('I', n, factors.data(), m);
  if (!(std::sqrt(by_columns * by_rows) > 3 * tolerance)) return false;
  lapack::ormqr(m, columns, n, factors.data(), m, tau.data(), b, m);
  lapack::trsm('L', 'U', 'N', 'N', n, columns, factors.data(), m, b, m);
  return true;
}

}  // namespace

void least_squares(const Tensor& b, const Tensor& rank, const Tensor& info, const Tensor& s,
                   const Tensor& from, double tolerance) {
  const Tensor a = columns_of(from);
  const Matrices m(a), r(b);
  const int64_t least = std::min(m.rows, m.columns);
  with_type(a.dtype(), [&]<class T>(TypeTag<T>) {
    using R = real_t<T>;
    each(m, [&](int64_t i) {
      int found = 0;
      T *p = a.data<T>() + i * m.size(), *q = b.data<T>() + i * r.size();
      const auto limit = static_cast<R>(tolerance);
      info.data<int>()[i] = !least ? 0
                            : !s.defined() && solve_by_qr(m.rows, m.columns, r.columns, p, q, tolerance)
                                ? (found = m.columns, 0)
                            : s.defined() ? lapack::gelss(m.rows, m.columns, r.columns, p, m.leading(), q,
                                                          r.leading(), s.data<R>() + i * least, limit, &found)
                                          : lapack::gelsy(m.rows, m.columns, r.columns, p, m.leading(), q,
                                                          r.leading(), limit, &found);
      if (!least) std::fill_n(b.data<T>() + i * r.size(), r.size(), T(0));
      rank.data<int64_t>()[i] = found;
    });
  });
}

}  // namespace adjoint::kernels::linalg
