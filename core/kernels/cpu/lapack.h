// LAPACK routines on one column-major matrix each, typed: `lapack::getrf(m, n, a, …)` for float, double and
// both complex types. Found in the BLAS library when first called (runtime/blas.h), which must have them.
// Work space is asked for and taken here. Each returns LAPACK's `info`: 0 is success; what a positive number
// means is the routine's own.
#pragma once

#include <string>
#include <vector>

#include "runtime/blas.h"
#include "tensor/dtype.h"

namespace adjoint::kernels::lapack {

namespace blas = runtime::blas;

/// LAPACK's letter for a type.
template <class T>
inline constexpr char letter = 's';
template <>
inline constexpr char letter<double> = 'd';
template <>
inline constexpr char letter<Complex<float>> = 'c';
template <>
inline constexpr char letter<Complex<double>> = 'z';

/// Call routine `name` of type T. Everything goes by address; the lengths that Fortran adds for its `texts`
/// character arguments are appended.
template <class T, class... A>
void call_routine(const char* name, void*& routine, int texts, A*... arguments) {
  if (!routine) routine = blas::require_routine((std::string(1, letter<T>) + name + "_").c_str());
  const blas::LibraryCall running;
  const size_t one = 1;
  if (texts == 0)
    reinterpret_cast<void (*)(A*...)>(routine)(arguments...);
  else if (texts == 1)
    reinterpret_cast<void (*)(A*..., size_t)>(routine)(arguments..., one);
  else if (texts == 2)
    reinterpret_cast<void (*)(A*..., size_t, size_t)>(routine)(arguments..., one, one);
  else
    reinterpret_cast<void (*)(A*..., size_t, size_t, size_t, size_t)>(routine)(arguments..., one, one, one,
                                                                               one);
}

// Each use has a slot of its own for the routine that it found: two threads that race find the same.
#define ADJOINT_LAPACK(T, name, texts, ...)             \
  [&] {                                                 \
    static void* routine = nullptr;                     \
    call_routine<T>(name, routine, texts, __VA_ARGS__); \
  }()

/// `f(work, length)` first asks for the best length with length = -1, then runs.
template <class T, class F>
void with_work(const F& f) {
  T best{};
  int length = -1;
  f(&best, &length);
  double wanted;
  if constexpr (is_complex_v<T>)
    wanted = static_cast<double>(best.re);
  else
    wanted = static_cast<double>(best);
  // A float may have rounded a large number down.
  length = std::max(1, static_cast<int>(wanted * (sizeof(real_t<T>) == 4 ? 1.0001 : 1.0)) + 1);
  std::vector<T> work(static_cast<size_t>(length));
  f(work.data(), &length);
}

template <class T>
int getrf(int m, int n, T* a, int lda, int* pivots) {
  int info = 0;
  ADJOINT_LAPACK(T, "getrf", 0, &m, &n, a, &lda, pivots, &info);
  return info;
}

/// With A = PLU: X from op(A) X = B, op by `trans` ('N', 'T', 'C').
template <class T>
int getrs(char trans, int n, int columns, const T* lu, int lda, const int* pivots, T* b, int ldb) {
  int info = 0;
  ADJOINT_LAPACK(T, "getrs", 1, &trans, &n, &columns, lu, &lda, pivots, b, &ldb, &info);
  return info;
}

/// The lower triangle is read and replaced.
template <class T>
int potrf(int n, T* a, int lda) {
  int info = 0;
  char lower = 'L';
  ADJOINT_LAPACK(T, "potrf", 1, &lower, &n, a, &lda, &info);
  return info;
}

/// B becomes X with op(A) X = B (side 'L') or X op(A) = B ('R'), A triangular.
template <class T>
void trsm(char side, char uplo, char trans, char diagonal, int m, int n, const T* a, int lda, T* b, int ldb) {
  T one(1);
  ADJOINT_LAPACK(T, "trsm", 4, &side, &uplo, &trans, &diagonal, &m, &n, &one, a, &lda, b, &ldb);
}

template <class T>
int geqrf(int m, int n, T* a, int lda, T* tau) {
  int info = 0;
  with_work<T>([&](T* work, int* length) {
    ADJOINT_LAPACK(T, "geqrf", 0, &m, &n, a, &lda, tau, work, length, &info);
  });
  return info;
}

/// The first n columns of the product of k reflectors that lie below a's diagonal.
template <class T>
int orgqr(int m, int n, int k, T* a, int lda, const T* tau) {
  int info = 0;
  with_work<T>([&](T* work, int* length) {
    ADJOINT_LAPACK(T, (is_complex_v<T> ? "ungqr" : "orgqr"), 0, &m, &n, &k, a, &lda, tau, work, length,
                   &info);
  });
  return info;
}

/// Eigenvalues, ascending, of a Hermitian matrix of which the `uplo` triangle is read; with jobz 'V' its
/// eigenvectors replace it.
template <class T>
int heevd(char jobz, char uplo, int n, T* a, int lda, real_t<T>* w) {
  using R = real_t<T>;
  int info = 0, integers = jobz == 'V' ? 3 + 5 * n : 1;
  std::vector<int> iwork(static_cast<size_t>(std::max(1, integers)));
  if constexpr (is_complex_v<T>) {
    int reals = jobz == 'V' ? 1 + 5 * n + 2 * n * n : std::max(1, n);
    std::vector<R> rwork(static_cast<size_t>(std::max(1, reals)));
    with_work<T>([&](T* work, int* length) {
      ADJOINT_LAPACK(T, "heevd", 2, &jobz, &uplo, &n, a, &lda, w, work, length, rwork.data(), &reals,
                     iwork.data(), &integers, &info);
    });
  } else {
    with_work<T>([&](T* work, int* length) {
      ADJOINT_LAPACK(T, "syevd", 2, &jobz, &uplo, &n, a, &lda, w, work, length, iwork.data(), &integers,
                     &info);
    });
  }
  return info;
}

/// Eigenvalues and, where `v` is given, right eigenvectors of a complex matrix, which is overwritten.
template <class T>
int geev(int n, T* a, int lda, T* w, T* v) {
  using R = real_t<T>;
  int info = 0, ldv = std::max(1, n);
  char none = 'N', right = v ? 'V' : 'N';
  std::vector<R> rwork(static_cast<size_t>(std::max(1, 2 * n)));
  with_work<T>([&](T* work, int* length) {
    ADJOINT_LAPACK(T, "geev", 2, &none, &right, &n, a, &lda, w, v, &ldv, v, &ldv, work, length, rwork.data(),
                   &info);
  });
  return info;
}

/// The same of a real matrix: parts of the eigenvalues, and the packed vectors (a conjugate pair stands as
/// two columns).
template <class R>
int geev_real(int n, R* a, int lda, R* re, R* im, R* v) {
  int info = 0, ldv = std::max(1, n);
  char none = 'N', right = v ? 'V' : 'N';
  with_work<R>([&](R* work, int* length) {
    ADJOINT_LAPACK(R, "geev", 2, &none, &right, &n, a, &lda, re, im, v, &ldv, v, &ldv, work, length, &info);
  });
  return info;
}

/// Singular values, descending; jobz 'N' no vectors, 'S' the first min(m, n), 'A' all. The matrix is
/// overwritten.
template <class T>
int gesdd(char jobz, int m, int n, T* a, int lda, real_t<T>* s, T* u, int ldu, T* vh, int ldvh) {
  int info = 0;
  const int least = std::min(m, n), most = std::max(m, n);
  std::vector<int> iwork(static_cast<size_t>(std::max(1, 8 * least)));
  if constexpr (is_complex_v<T>) {
    const size_t reals = jobz == 'N' ? 7 * static_cast<size_t>(least)
                                     : static_cast<size_t>(least) *
                                           (std::max<size_t>(5 * least + 7, 2 * most + 2 * least + 1));
    std::vector<real_t<T>> rwork(std::max<size_t>(1, reals));
    with_work<T>([&](T* work, int* length) {
      ADJOINT_LAPACK(T, "gesdd", 1, &jobz, &m, &n, a, &lda, s, u, &ldu, vh, &ldvh, work, length, rwork.data(),
                     iwork.data(), &info);
    });
  } else {
    with_work<T>([&](T* work, int* length) {
      ADJOINT_LAPACK(T, "gesdd", 1, &jobz, &m, &n, a, &lda, s, u, &ldu, vh, &ldvh, work, length, iwork.data(),
                     &info);
    });
  }
  return info;
}

/// The factors of a symmetric matrix, or with `hermitian` of a Hermitian one, of which the lower triangle is
/// read.
template <class T>
int sytrf(bool hermitian, int n, T* a, int lda, int* pivots) {
  int info = 0;
  char lower = 'L';
  with_work<T>([&](T* work, int* length) {
    if (is_complex_v<T> && hermitian)
      ADJOINT_LAPACK(T, "hetrf", 1, &lower, &n, a, &lda, pivots, work, length, &info);
    else
      ADJOINT_LAPACK(T, "sytrf", 1, &lower, &n, a, &lda, pivots, work, length, &info);
  });
  return info;
}
template <class T>
int sytrs(bool hermitian, int n, int columns, const T* ld, int lda, const int* pivots, T* b, int ldb) {
  int info = 0;
  char lower = 'L';
  if (is_complex_v<T> && hermitian)
    ADJOINT_LAPACK(T, "hetrs", 1, &lower, &n, &columns, ld, &lda, pivots, b, &ldb, &info);
  else
    ADJOINT_LAPACK(T, "sytrs", 1, &lower, &n, &columns, ld, &lda, pivots, b, &ldb, &info);
  return info;
}

/// Least squares by singular values; b has max(m, n) rows and holds the solution afterwards, s the singular
/// values.
template <class T>
int gelss(int m, int n, int columns, T* a, int lda, T* b, int ldb, real_t<T>* s, real_t<T> tolerance,
          int* rank) {
  int info = 0;
  if constexpr (is_complex_v<T>) {
    std::vector<real_t<T>> rwork(static_cast<size_t>(std::max(1, 5 * std::min(m, n))));
    with_work<T>([&](T* work, int* length) {
      ADJOINT_LAPACK(T, "gelss", 0, &m, &n, &columns, a, &lda, b, &ldb, s, &tolerance, rank, work, length,
                     rwork.data(), &info);
    });
  } else {
    with_work<T>([&](T* work, int* length) {
      ADJOINT_LAPACK(T, "gelss", 0, &m, &n, &columns, a, &lda, b, &ldb, s, &tolerance, rank, work, length,
                     &info);
    });
  }
  return info;
}

/// b (m rows) becomes Qᴴ b, Q the product of the k reflectors that lie below a's diagonal.
template <class T>
int ormqr(int m, int columns, int k, const T* a, int lda, const T* tau, T* b, int ldb) {
  int info = 0;
  char side = 'L', trans = is_complex_v<T> ? 'C' : 'T';
  with_work<T>([&](T* work, int* length) {
    ADJOINT_LAPACK(T, (is_complex_v<T> ? "unmqr" : "ormqr"), 2, &side, &trans, &m, &columns, &k, a, &lda, tau,
                   b, &ldb, work, length, &info);
  });
  return info;
}

/// An estimate of the reciprocal condition of an upper triangle, in the norm of columns' sums ('1') or rows'
/// sums ('I').
template <class T>
real_t<T> trcon(char norm, int n, const T* a, int lda) {
  using R = real_t<T>;
  int info = 0;
  char upper = 'U', plain = 'N';
  R result = 0;
  const auto size = static_cast<size_t>(n);
  std::vector<T> work(3 * size);
  if constexpr (is_complex_v<T>) {
    std::vector<R> more(size);
    ADJOINT_LAPACK(T, "trcon", 3, &norm, &upper, &plain, &n, a, &lda, &result, work.data(), more.data(),
                   &info);
  } else {
    std::vector<int> more(size);
    ADJOINT_LAPACK(T, "trcon", 3, &norm, &upper, &plain, &n, a, &lda, &result, work.data(), more.data(),
                   &info);
  }
  return info ? R(0) : result;
}

/// Least squares by a decomposition into an orthogonal and a triangular matrix, columns exchanged; b as of
/// gelss. What is less than `tolerance` of the largest, as far as conditions are estimated, does not count
/// for the rank.
template <class T>
int gelsy(int m, int n, int columns, T* a, int lda, T* b, int ldb, real_t<T> tolerance, int* rank) {
  int info = 0;
  std::vector<int> order(static_cast<size_t>(n));
  if constexpr (is_complex_v<T>) {
    std::vector<real_t<T>> rwork(static_cast<size_t>(2 * n));
    with_work<T>([&](T* work, int* length) {
      ADJOINT_LAPACK(T, "gelsy", 0, &m, &n, &columns, a, &lda, b, &ldb, order.data(), &tolerance, rank, work,
                     length, rwork.data(), &info);
    });
  } else {
    with_work<T>([&](T* work, int* length) {
      ADJOINT_LAPACK(T, "gelsy", 0, &m, &n, &columns, a, &lda, b, &ldb, order.data(), &tolerance, rank, work,
                     length, &info);
    });
  }
  return info;
}

#undef ADJOINT_LAPACK

}  // namespace adjoint::kernels::lapack
