// The products themselves: direct loops for the tiny, tiles for the large, the library's routine for each
// tile, plain loops without a library. Start reading at `gemm`, at the end.
#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "for_size.h"
#include "runtime/blas.h"
#include "runtime/blas_library.h"
#include "runtime/parallel.h"

namespace adjoint::runtime::blas {
namespace {

constexpr int64_t longest = std::numeric_limits<int32_t>::max();

// --- arithmetic -----------------------------------------------------------------------------------

template <class T>
constexpr bool is_complex = false;
template <class R>
constexpr bool is_complex<std::complex<R>> = true;

/// a * b without the standard's recovery of infinities, which costs a call.
template <class T>
inline T times(T a, T b) {
  if constexpr (is_complex<T>) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  } else {
    return a * b;
  }
}

template <bool conjugated, class T>
inline T maybe_conjugate(T x) {
  if constexpr (conjugated && is_complex<T>) {
    return std::conj(x);
  } else {
    return x;
  }
}

/// A matrix as op makes it: element (i, j) at data[i * row + j * column].
template <class T>
struct Strided {
  const T* data;
  int64_t row, column;
};

template <class T>
Strided<T> strided(Op op, const T* data, int64_t leading) {
  return op == Op::none ? Strided<T>{data, leading, 1} : Strided<T>{data, 1, leading};
}

// --- tiny: direct loops ---------------------------------------------------------------------------

/// C = alpha A B + beta C, one sum per element.
template <bool conj_a, bool conj_b, class T>
void product_by_sums(int64_t m, int64_t n, int64_t k, T alpha, Strided<T> a, Strided<T> b, T beta, T* c,
                     int64_t ldc) {
  for (int64_t i = 0; i < m; ++i) {
    const T* a_row = a.data + i * a.row;
    for (int64_t j = 0; j < n; ++j) {
      const T* b_column = b.data + j * b.column;
      T sum{};
      for (int64_t p = 0; p < k; ++p) {
        sum +=
            times(maybe_conjugate<conj_a>(a_row[p * a.column]), maybe_conjugate<conj_b>(b_column[p * b.row]));
      }
      T& out = c[i * ldc + j];
      const T value = times(alpha, sum);
      out = beta == T(0) ? value : value + times(beta, out);
    }
  }
}

/// The same for K x N matrices B small enough to stay in registers, unrolled.
template <int K, int N, class T>
void product_by_small(int64_t m, T alpha, Strided<T> a, Strided<T> b, T beta, T* c, int64_t ldc) {
  T factor[K][N];
#pragma GCC unroll 4
  for (int p = 0; p < K; ++p) {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) factor[p][j] = times(alpha, b.data[p * b.row + j * b.column]);
  }
  for (int64_t i = 0; i < m; ++i) {
    T sum[N] = {};
#pragma GCC unroll 4
    for (int p = 0; p < K; ++p) {
      const T x = a.data[i * a.row + p * a.column];
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) sum[j] += times(x, factor[p][j]);
    }
    T* out = c + i * ldc;
    if (beta == T(0)) {
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) out[j] = sum[j];
    } else {
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) out[j] = sum[j] + times(beta, out[j]);
    }
  }
}

template <int K, class T>
bool product_by_small(int64_t m, int64_t n, T alpha, Strided<T> a, Strided<T> b, T beta, T* c, int64_t ldc) {
  switch (n) {
    case 1:
      return product_by_small<K, 1>(m, alpha, a, b, beta, c, ldc), true;
    case 2:
      return product_by_small<K, 2>(m, alpha, a, b, beta, c, ldc), true;
    case 3:
      return product_by_small<K, 3>(m, alpha, a, b, beta, c, ldc), true;
    case 4:
      return product_by_small<K, 4>(m, alpha, a, b, beta, c, ldc), true;
    default:
      return false;
  }
}

/// product_by_sums of complex numbers by their parts, since their operators are calls where code is compiled
/// for size.
template <class R>
void product_of_parts(bool conj_a, bool conj_b, int64_t m, int64_t n, int64_t k, std::complex<R> alpha,
                      Strided<std::complex<R>> a, Strided<std::complex<R>> b, std::complex<R> beta,
                      std::complex<R>* c, int64_t ldc) {
  const R of_a = conj_a ? R(-1) : R(1), of_b = conj_b ? R(-1) : R(1), scale = alpha.real(),
          turn = alpha.imag();
  const bool plain = beta == std::complex<R>();
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      R re = 0, im = 0;
      for (int64_t p = 0; p < k; ++p) {
        const R* x = reinterpret_cast<const R*>(a.data + i * a.row + p * a.column);
        const R* y = reinterpret_cast<const R*>(b.data + p * b.row + j * b.column);
        const R xi = of_a * x[1], yi = of_b * y[1];
        re += x[0] * y[0] - xi * yi;
        im += x[0] * yi + xi * y[0];
      }
      R* out = reinterpret_cast<R*>(c + i * ldc + j);
      const R old_re = plain ? R(0) : out[0], old_im = plain ? R(0) : out[1];
      out[0] = scale * re - turn * im + (beta.real() * old_re - beta.imag() * old_im);
      out[1] = scale * im + turn * re + (beta.real() * old_im + beta.imag() * old_re);
    }
  }
}

template <class T>
void tiny_product(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, T alpha, Strided<T> a, Strided<T> b,
                  T beta, T* c, int64_t ldc) {
  if constexpr (is_complex<T>) {
    product_of_parts(op_a == Op::adjoint, op_b == Op::adjoint, m, n, k, alpha, a, b, beta, c, ldc);
  } else {
    if (k == 2 && product_by_small<2>(m, n, alpha, a, b, beta, c, ldc)) return;
    if (k == 3 && product_by_small<3>(m, n, alpha, a, b, beta, c, ldc)) return;
    if (k == 4 && product_by_small<4>(m, n, alpha, a, b, beta, c, ldc)) return;
    product_by_sums<false, false>(m, n, k, alpha, a, b, beta, c, ldc);
  }
}

constexpr int64_t tiny_work = 128;  // above, a call into the library is no longer the larger part

inline bool is_tiny(int64_t m, int64_t n, int64_t k) {
  return m <= tiny_work && n <= tiny_work && k <= tiny_work && m * n * k <= tiny_work;
}

// --- without a library: rows of C gather rows of B ------------------------------------------------

/// Runs along the rows of B and C, in blocks of k that leave B's rows in cache.
template <bool conj_a, bool conj_b, class T>
void product_by_rows(int64_t m, int64_t n, int64_t k, T alpha, Strided<T> a, Strided<T> b, T beta, T* c,
                     int64_t ldc) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      T& out = c[i * ldc + j];
      out = beta == T(0) ? T(0) : times(beta, out);
    }
  }
  constexpr int64_t depth = 64, width = 512;
  for (int64_t j0 = 0; j0 < n; j0 += width) {
    const int64_t columns = std::min(width, n - j0);
    for (int64_t p0 = 0; p0 < k; p0 += depth) {
      const int64_t p1 = std::min(p0 + depth, k);
      for (int64_t i = 0; i < m; ++i) {
        T* c_row = c + i * ldc + j0;
        for (int64_t p = p0; p < p1; ++p) {
          const T factor = times(alpha, maybe_conjugate<conj_a>(a.data[i * a.row + p * a.column]));
          const T* b_row = b.data + p * b.row + j0 * b.column;
          if (b.column == 1) {
            for (int64_t j = 0; j < columns; ++j)
              c_row[j] += times(factor, maybe_conjugate<conj_b>(b_row[j]));
          } else {
            for (int64_t j = 0; j < columns; ++j) {
              c_row[j] += times(factor, maybe_conjugate<conj_b>(b_row[j * b.column]));
            }
          }
        }
      }
    }
  }
}

/// Calls f with two std::bool_constants: whether A and B are conjugated. Real numbers never are.
template <class T, class F>
void with_conjugation(Op op_a, Op op_b, F&& f) {
  if constexpr (is_complex<T>) {
    const bool conj_a = op_a == Op::adjoint, conj_b = op_b == Op::adjoint;
    if (conj_a && conj_b) return f(std::true_type(), std::true_type());
    if (conj_a) return f(std::true_type(), std::false_type());
    if (conj_b) return f(std::false_type(), std::true_type());
  }
  f(std::false_type(), std::false_type());
}

// --- one tile -------------------------------------------------------------------------------------

template <class T>
int cblas_op(Op op) {
  if (op == Op::none) return no_transpose;
  return op == Op::adjoint && is_complex<T> ? conjugate_transpose : plain_transpose;
}

/// Dimensions below 2^31.
template <class T>
void product_of_tile(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda,
                     const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  const Routines<T>& library = routines<T>();
  if (library.gemm) {
    const LibraryCall running;
    library.gemm(row_major, cblas_op<T>(op_a), cblas_op<T>(op_b), static_cast<int>(m), static_cast<int>(n),
                 static_cast<int>(k), Passed<T>::pass(alpha), a, static_cast<int>(lda), b,
                 static_cast<int>(ldb), Passed<T>::pass(beta), c, static_cast<int>(ldc));
    return;
  }
  with_conjugation<T>(op_a, op_b, [&](auto conj_a, auto conj_b) {
    product_by_rows<conj_a, conj_b>(m, n, k, alpha, strided(op_a, a, lda), strided(op_b, b, ldb), beta, c,
                                    ldc);
  });
}

// --- large: tiles ---------------------------------------------------------------------------------

constexpr int64_t tile = 512;
constexpr int64_t deepest = int64_t{1} << 30;
constexpr int64_t parallel_work =
    int64_t{256} * 256 * 256;  // below this a product takes less than a millisecond

/// How many parts, and how long, so that parts are about equal, at most `longest_part`, and multiples of 16.
int64_t part_length(int64_t length, int64_t longest_part) {
  const int64_t parts = (length - 1) / longest_part + 1;
  return std::min(length, ((length - 1) / parts + 16) & ~int64_t{15});
}

/// Two tiles at least along the longer side, so that two threads share what one tile could hold.
template <class T>
void product_by_tiles(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda,
                      const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  const int64_t rows = part_length(m, m >= n ? std::min(tile, (m + 1) / 2) : tile);
  const int64_t columns = part_length(n, m >= n ? tile : std::min(tile, (n + 1) / 2));
  const int64_t row_tiles = (m - 1) / rows + 1, column_tiles = (n - 1) / columns + 1;
  const Strided<T> left = strided(op_a, a, lda), right = strided(op_b, b, ldb);
  parallel_for(0, row_tiles * column_tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t i = t / column_tiles * rows, j = t % column_tiles * columns;
      for (int64_t p = 0; p < k; p += deepest) {
        product_of_tile(op_a, op_b, std::min(rows, m - i), std::min(columns, n - j), std::min(deepest, k - p),
                        alpha, left.data + i * left.row + p * left.column, lda,
                        right.data + p * right.row + j * right.column, ldb, p == 0 ? beta : T(1),
                        c + i * ldc + j, ldc);
      }
    }
  });
}

// --- checks ---------------------------------------------------------------------------------------

[[noreturn]] void refuse(const char* routine, const char* what, int64_t found, int64_t least) {
  throw std::invalid_argument(std::string(routine) + ": expected " + what + " from " + std::to_string(least) +
                              " to " + std::to_string(longest) + ", got " + std::to_string(found));
}
inline void check(const char* routine, const char* what, int64_t found, int64_t least) {
  if (found < least || found > longest) [[unlikely]]
    refuse(routine, what, found, least);
}

}  // namespace

template <class T>
void gemm(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda, const T* b,
          int64_t ldb, T beta, T* c, int64_t ldc) {
  if (m < 0 || n < 0 || k < 0) [[unlikely]]
    throw std::invalid_argument("gemm: a dimension is negative");
  if (m == 0 || n == 0) return;
  if (is_tiny(m, n, k)) {
    tiny_product(op_a, op_b, m, n, k, alpha, strided(op_a, a, lda), strided(op_b, b, ldb), beta, c, ldc);
    return;
  }
  if (k == 0) {  // only scales C; the factors may be null
    product_by_rows<false, false>(m, n, k, alpha, Strided<T>{}, Strided<T>{}, beta, c, ldc);
    return;
  }
  check("gemm", "the stride of the first matrix's rows", lda, std::max<int64_t>(1, op_a == Op::none ? k : m));
  check("gemm", "the stride of the second matrix's rows", ldb,
        std::max<int64_t>(1, op_b == Op::none ? n : k));
  check("gemm", "the stride of the result's rows", ldc, n);
  // In floating point, as three dimensions may overflow the integers.
  const bool large =
      static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) >= double{parallel_work};
  if (large || m > longest || k > deepest) {
    product_by_tiles(op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  } else {
    product_of_tile(op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  }
}

namespace {

/// A part of y: rows of A for Op::none, else columns.
template <class T>
void matrix_times_vector(Op op, int64_t m, int64_t n, T alpha, const T* a, int64_t lda, const T* x,
                         int64_t incx, T beta, T* y, int64_t incy) {
  const Routines<T>& library = routines<T>();
  if (library.gemv && m <= longest) {
    const LibraryCall running;
    library.gemv(row_major, cblas_op<T>(op), static_cast<int>(m), static_cast<int>(n), Passed<T>::pass(alpha),
                 a, static_cast<int>(lda), x, static_cast<int>(incx), Passed<T>::pass(beta), y,
                 static_cast<int>(incy));
    return;
  }
  with_conjugation<T>(op, Op::none, [&](auto conj_a, auto conj_x) {
    const bool plain = op == Op::none;
    product_by_sums<conj_a, conj_x>(plain ? m : n, 1, plain ? n : m, alpha, strided(op, a, lda),
                                    Strided<T>{x, incx, 0}, beta, y, incy);
  });
}

}  // namespace

template <class T>
void gemv(Op op, int64_t m, int64_t n, T alpha, const T* a, int64_t lda, const T* x, int64_t incx, T beta,
          T* y, int64_t incy) {
  if (m < 0 || n < 0) [[unlikely]]
    throw std::invalid_argument("gemv: a dimension is negative");
  const int64_t length = op == Op::none ? m : n, terms = op == Op::none ? n : m;
  if (length == 0) return;
  if (terms == 0 || is_tiny(m, n, 1)) {
    tiny_product(op, Op::none, length, 1, terms, alpha, strided(op, a, lda), Strided<T>{x, incx, 0}, beta, y,
                 incy);
    return;
  }
  check("gemv", "the stride of the matrix's rows", lda, std::max<int64_t>(1, n));
  check("gemv", "the increment of the factor", incx, 1);
  check("gemv", "the increment of the result", incy, 1);
  const int64_t grain = std::max<int64_t>(64, (int64_t{1} << 18) / terms);
  // Parts whose boundaries depend on the size alone: the same rounding for any number of threads.
  const int64_t part = (grain + 63) & ~int64_t{63}, parts = (length - 1) / part + 1;
  const int64_t step = op == Op::none ? lda : 1;
  parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t i = t * part, count = std::min(part, length - i);
      matrix_times_vector(op, op == Op::none ? count : m, op == Op::none ? n : count, alpha, a + i * step,
                          lda, x, incx, beta, y + i * incy, incy);
    }
  });
}

namespace {

template <class T>
T dot_of_part(int64_t n, const T* x, int64_t incx, const T* y, int64_t incy, bool conjugate) {
  if (n > 16) {
    const Routines<T>& library = routines<T>();
    const int count = static_cast<int>(n), ix = static_cast<int>(incx), iy = static_cast<int>(incy);
    if constexpr (is_complex<T>) {
      if (auto* routine = conjugate ? library.dot_conjugated : library.dot_unconjugated) {
        const LibraryCall running;
        T result{};
        routine(count, x, ix, y, iy, &result);
        return result;
      }
    } else if (library.real_dot) {
      const LibraryCall running;
      return library.real_dot(count, x, ix, y, iy);
    }
  }
  T sum{};
  if (conjugate) {
    for (int64_t i = 0; i < n; ++i) sum += times(maybe_conjugate<true>(x[i * incx]), y[i * incy]);
  } else {
    for (int64_t i = 0; i < n; ++i) sum += times(x[i * incx], y[i * incy]);
  }
  return sum;
}

}  // namespace

template <class T>
T dot(int64_t n, const T* x, int64_t incx, const T* y, int64_t incy, bool conjugate) {
  if (n > 16) {
    check("dot", "the increment of the first vector", incx, 1);
    check("dot", "the increment of the second vector", incy, 1);
  }
  return parallel_reduce(
      0, n, int64_t{1} << 17, T{},
      [&](int64_t begin, int64_t end) {
        return dot_of_part(end - begin, x + begin * incx, incx, y + begin * incy, incy, conjugate);
      },
      [](T a, T b) { return a + b; });
}

#define ADJOINT_PRODUCTS(T)                                                                             \
  template void gemm(Op, Op, int64_t, int64_t, int64_t, T, const T*, int64_t, const T*, int64_t, T, T*, \
                     int64_t);                                                                          \
  template void gemv(Op, int64_t, int64_t, T, const T*, int64_t, const T*, int64_t, T, T*, int64_t);    \
  template T dot(int64_t, const T*, int64_t, const T*, int64_t, bool);
ADJOINT_PRODUCTS(float)
ADJOINT_PRODUCTS(double)
ADJOINT_PRODUCTS(std::complex<float>)
ADJOINT_PRODUCTS(std::complex<double>)
#undef ADJOINT_PRODUCTS

}  // namespace adjoint::runtime::blas
