// Tests of core/runtime/blas.h against sums in long double, for sizes on all three ways, every op, strides
// wider than the rows, and scalars; then the errors. Run once more with ADJOINT_BLAS=built-in it tests the
// loops of our own: `test_blas built-in` fails unless those are what is in use, plain
// `test_blas` unless a library is.
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "check.h"
#include "runtime/blas.h"
#include "runtime/parallel.h"

using namespace adjoint::runtime;
using blas::Op;

namespace {

uint64_t state = 1;
double next() {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<double>(state >> 11) * 0x1p-52 - 1;
}
template <class T>
struct Maker {
  using Wide = long double;
  using Real = T;
  static T make() { return static_cast<T>(next()); }
};
template <class R>
struct Maker<std::complex<R>> {
  using Wide = std::complex<long double>;
  using Real = R;
  static std::complex<R> make() { return {static_cast<R>(next()), static_cast<R>(next())}; }
};
template <class T>
using Wide = typename Maker<T>::Wide;

template <class T>
std::vector<T> random(int64_t n) {
  std::vector<T> values(static_cast<size_t>(n));
  for (T& value : values) value = Maker<T>::make();
  return values;
}
template <class T>
Wide<T> widen(T x, bool conjugate) {
  if constexpr (std::is_floating_point_v<T>) {
    return x;
  } else {
    const Wide<T> wide(x.real(), x.imag());
    return conjugate ? std::conj(wide) : wide;
  }
}
template <class T>
Wide<T> element(Op op, const std::vector<T>& a, int64_t ld, int64_t i, int64_t j) {
  return widen(a[static_cast<size_t>(op == Op::none ? i * ld + j : j * ld + i)], op == Op::adjoint);
}
/// Partial sums of k products of numbers below one grow like sqrt(k), and so do their rounding errors, of
/// which there are k: like k together, at the worst of many elements. A complex product is two in each part.
/// A term left out is off by a tenth or more.
template <class T>
double tolerance(int64_t k) {
  const double rounding = static_cast<double>(std::numeric_limits<typename Maker<T>::Real>::epsilon());
  return rounding * (20 + static_cast<double>(std::is_floating_point_v<T> ? k : 2 * k));
}

constexpr Op ops[] = {Op::none, Op::transpose, Op::adjoint};

template <class T>
void check_gemm(int64_t m, int64_t n, int64_t k, int64_t extra, T alpha, T beta, int64_t stride = 1) {
  for (Op op_a : ops) {
    for (Op op_b : ops) {
      const int64_t lda = (op_a == Op::none ? k : m) + extra, ldb = (op_b == Op::none ? n : k) + extra,
                    ldc = n + extra;
      const auto a = random<T>((op_a == Op::none ? m : k) * lda + 1),
                 b = random<T>((op_b == Op::none ? k : n) * ldb + 1);
      auto c = random<T>(m * ldc + 1);
      if (beta == T(0)) std::fill(c.begin(), c.end(), T(NAN));
      const auto before = c;
      blas::gemm(op_a, op_b, m, n, k, alpha, a.data(), lda, b.data(), ldb, beta, c.data(), ldc);
      double worst = 0;
      bool untouched = true;
      for (int64_t i = 0; i < m; i += stride) {
        for (int64_t j = 0; j < n; ++j) {
          Wide<T> sum = 0;
          for (int64_t p = 0; p < k; ++p) sum += element(op_a, a, lda, i, p) * element(op_b, b, ldb, p, j);
          sum *= widen(alpha, false);
          const size_t at = static_cast<size_t>(i * ldc + j);
          if (beta != T(0)) sum += widen(beta, false) * widen(before[at], false);
          const double error = static_cast<double>(std::abs(sum - widen(c[at], false)));
          worst = error <= worst ? worst : error;  // a NaN stays
        }
        for (int64_t j = n; j < ldc; ++j) {
          const size_t at = static_cast<size_t>(i * ldc + j);
          untouched = untouched && std::memcmp(&c[at], &before[at], sizeof(T)) == 0;
        }
      }
      if (!CHECK(worst <= tolerance<T>(k) && untouched)) {
        std::fprintf(stderr, "  gemm %d %d, %ld x %ld x %ld: %g\n", int(op_a), int(op_b), long(m), long(n),
                     long(k), worst);
      }
    }
  }
}

template <class T>
void check_gemv(int64_t m, int64_t n, int64_t lda, int64_t incx, int64_t incy, T alpha, T beta) {
  for (Op op : ops) {
    const int64_t length = op == Op::none ? m : n, terms = op == Op::none ? n : m;
    const auto a = random<T>(m * lda + 1), x = random<T>(terms * incx + 1);
    auto y = random<T>(length * incy + 1);
    if (beta == T(0)) std::fill(y.begin(), y.end(), T(NAN));
    const auto before = y;
    blas::gemv(op, m, n, alpha, a.data(), lda, x.data(), incx, beta, y.data(), incy);
    double worst = 0;
    for (int64_t i = 0; i < length; ++i) {
      Wide<T> sum = 0;
      for (int64_t j = 0; j < terms; ++j) {
        sum += element(op, a, lda, i, j) * widen(x[static_cast<size_t>(j * incx)], false);
      }
      sum *= widen(alpha, false);
      if (beta != T(0)) sum += widen(beta, false) * widen(before[static_cast<size_t>(i * incy)], false);
      const double error =
          static_cast<double>(std::abs(sum - widen(y[static_cast<size_t>(i * incy)], false)));
      worst = error <= worst ? worst : error;
    }
    if (!CHECK(worst <= tolerance<T>(terms)))
      std::fprintf(stderr, "  gemv %d, %ld x %ld: %g\n", int(op), long(m), long(n), worst);
  }
}

template <class T>
void check_dot(int64_t n, int64_t incx, int64_t incy) {
  const auto x = random<T>(n * incx + 1), y = random<T>(n * incy + 1);
  for (bool conjugate : {false, true}) {
    Wide<T> sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      sum +=
          widen(x[static_cast<size_t>(i * incx)], conjugate) * widen(y[static_cast<size_t>(i * incy)], false);
    }
    const T found = blas::dot(n, x.data(), incx, y.data(), incy, conjugate);
    CHECK(static_cast<double>(std::abs(sum - widen(found, false))) <= tolerance<T>(n));
  }
}

template <class T>
void test_type(T alpha, T beta) {
  for (int64_t m : {0, 1, 3, 8}) {
    for (int64_t n : {0, 1, 2, 5, 40}) {
      for (int64_t k : {0, 1, 2, 3, 4, 7, 30}) {
        check_gemm<T>(m, n, k, (m + n + k) % 3, alpha, (m + k) % 2 ? beta : T(0));
      }
    }
  }
  check_gemm<T>(70, 65, 130, 3, alpha, beta);
  check_gemm<T>(70, 65, 600, 0, T(1), T(0));
  check_gemm<T>(600, 600, 0, 0, alpha, beta);
  check_gemm<T>(600, 600, 0, 0, alpha, T(0));
  check_gemm<T>(1100, 130, 140, 1, alpha, beta, 37);
  check_gemm<T>(130, 1100, 140, 0, alpha, T(0), 37);
  for (int64_t m : {0, 1, 3, 300}) {
    for (int64_t n : {0, 1, 3, 300}) {
      check_gemv<T>(m, n, n + 2, 1, 1, alpha, beta);
      check_gemv<T>(m, n, n + 1, 2, 3, alpha, T(0));
    }
  }
  check_gemv<T>(2000, 700, 700, 1, 1, alpha, T(0));
  for (int64_t n : {0, 1, 16, 17, 1000, 300000}) {
    check_dot<T>(n, 1, 1);
    check_dot<T>(n, 2, 3);
  }
}

void test_threads_and_errors() {
  const auto a = random<float>(700 * 700), b = random<float>(700 * 700);
  std::vector<float> one(700 * 700), two(700 * 700);
  set_num_threads(1);
  blas::gemm(Op::none, Op::transpose, 700, 700, 700, 1.f, a.data(), 700, b.data(), 700, 0.f, one.data(), 700);
  set_num_threads(3);
  blas::gemm(Op::none, Op::transpose, 700, 700, 700, 1.f, a.data(), 700, b.data(), 700, 0.f, two.data(), 700);
  CHECK(one == two);
  float* c = two.data();
  const int64_t huge = int64_t{1} << 32;
  CHECK_THROWS(std::invalid_argument, blas::gemm(Op::none, Op::none, 100, 100, 100, 1.f, a.data(), huge,
                                                 b.data(), 100, 0.f, c, 100));
  CHECK_THROWS(std::invalid_argument,
               blas::gemm(Op::none, Op::none, 100, 100, 100, 1.f, a.data(), 99, b.data(), 100, 0.f, c, 100));
  CHECK_THROWS(std::invalid_argument,
               blas::gemm(Op::none, Op::none, -1, 100, 100, 1.f, a.data(), 100, b.data(), 100, 0.f, c, 100));
  CHECK_THROWS(std::invalid_argument,
               blas::gemv(Op::none, 100, 100, 1.f, a.data(), 99, b.data(), 1, 0.f, c, 1));
  CHECK_THROWS(std::runtime_error, blas::set_blas_path("late"));
  CHECK_THROWS(std::runtime_error, blas::require_routine("no_such_routine_"));
  CHECK(blas::find_routine("no_such_routine_") == nullptr);
}

}  // namespace

int main(int count, char** arguments) {
  const bool built_in = count > 1 && std::strcmp(arguments[1], "built-in") == 0;
  if (count > 1 && !built_in) blas::set_blas_path(arguments[1]);
  std::printf("products by %s\n", blas::blas_name().c_str());
  CHECK((blas::blas_name() == "built-in") == built_in);
  CHECK((blas::find_routine("sgesv_") == nullptr) == built_in);
  set_num_threads(2);
  test_type<float>(1.5f, 0.5f);
  test_type<double>(-1, 2);
  test_type<std::complex<float>>({0.5f, 1}, {0, -1});
  test_type<std::complex<double>>({1, -0.5}, {0.5, 0.25});
  test_threads_and_errors();
  return check::result();
}
