// The table of BLAS routines, filled when first asked for. See blas.h.
#pragma once

#include <complex>

namespace adjoint::runtime::blas {

enum CblasOrder : int { row_major = 101 };
enum CblasOp : int { no_transpose = 111, plain_transpose = 112, conjugate_transpose = 113 };

/// Reals go by value, complex numbers by address.
template <class T>
struct Passed {
  using type = T;
  static T pass(const T& x) { return x; }
};
template <class R>
struct Passed<std::complex<R>> {
  using type = const void*;
  static const void* pass(const std::complex<R>& x) { return &x; }
};

template <class T>
struct Routines {
  using Scalar = typename Passed<T>::type;
  using Gemm = void(int order, int op_a, int op_b, int m, int n, int k, Scalar alpha, const void* a, int lda,
                    const void* b, int ldb, Scalar beta, void* c, int ldc);
  using Gemv = void(int order, int op, int m, int n, Scalar alpha, const void* a, int lda, const void* x,
                    int incx, Scalar beta, void* y, int incy);
  using RealDot = T(int n, const void* x, int incx, const void* y, int incy);
  using ComplexDot = void(int n, const void* x, int incx, const void* y, int incy, void* result);

  Gemm* gemm = nullptr;  // null without a library; else all that T has are there
  Gemv* gemv = nullptr;
  RealDot* real_dot = nullptr;
  ComplexDot* dot_unconjugated = nullptr;
  ComplexDot* dot_conjugated = nullptr;
};

template <class T>
const Routines<T>& routines();

}  // namespace adjoint::runtime::blas
