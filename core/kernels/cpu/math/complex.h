// The elementary functions of complex numbers, with C99's branch cuts.
//
// The functions are not hot: they go to the C library's complex functions, which follow Annex G of
// C99 (the cuts that NumPy has too), and in float through double, which rounds once at the end. What the C
// library lacks (log1p, expm1, sigmoid, sgn, integer powers) is written here.
#pragma once

#include "bits.h"
#include "exponential.h"
#include "rounding.h"
#include "tensor/complex.h"
#include "trigonometric.h"

namespace adjoint::inline ADJOINT_ISA::math {

template <class T>
ADJOINT_INLINE T real(Complex<T> z) {
  return z.re;
}
template <class T>
ADJOINT_INLINE T imag(Complex<T> z) {
  return z.im;
}
template <class T>
ADJOINT_INLINE Complex<T> conj(Complex<T> z) {
  return {z.re, -z.im};
}
template <class T>
ADJOINT_INLINE T abs(Complex<T> z) {
  return hypot(z.re, z.im);
}
/// The angle in (-pi, pi].
template <class T>
ADJOINT_INLINE T angle(Complex<T> z) {
  return atan2(z.im, z.re);
}
template <class T>
ADJOINT_INLINE bool isnan(Complex<T> z) {
  return isnan(z.re) || isnan(z.im);
}
template <class T>
ADJOINT_INLINE bool isinf(Complex<T> z) {
  return isinf(z.re) || isinf(z.im);
}
template <class T>
ADJOINT_INLINE bool isfinite(Complex<T> z) {
  return isfinite(z.re) && isfinite(z.im);
}
template <class T>
ADJOINT_INLINE Complex<T> reciprocal(Complex<T> z) {
  return Complex<T>(T(1)) / z;
}
/// z / |z|, and 0 at 0.
template <class T>
ADJOINT_INLINE Complex<T> sgn(Complex<T> z) {
  const T r = abs(z);
  return r == T(0) ? Complex<T>() : z / r;
}

__extension__ typedef _Complex double CDouble;

template <class T>
ADJOINT_INLINE CDouble to_c(Complex<T> z) {
  CDouble c;
  __real__ c = double(z.re);
  __imag__ c = double(z.im);
  return c;
}
template <class T>
ADJOINT_INLINE Complex<T> from_c(CDouble c) {
  return {T(__real__ c), T(__imag__ c)};
}

#define ADJOINT_COMPLEX(name)                     \
  template <class T>                              \
  ADJOINT_INLINE Complex<T> name(Complex<T> z) {  \
    return from_c<T>(__builtin_c##name(to_c(z))); \
  }
ADJOINT_COMPLEX(sqrt)
ADJOINT_COMPLEX(exp)
ADJOINT_COMPLEX(log)
ADJOINT_COMPLEX(sin)
ADJOINT_COMPLEX(cos)
ADJOINT_COMPLEX(tan)
ADJOINT_COMPLEX(asin)
ADJOINT_COMPLEX(acos)
ADJOINT_COMPLEX(atan)
ADJOINT_COMPLEX(sinh)
ADJOINT_COMPLEX(cosh)
ADJOINT_COMPLEX(tanh)
ADJOINT_COMPLEX(asinh)
ADJOINT_COMPLEX(acosh)
ADJOINT_COMPLEX(atanh)
#undef ADJOINT_COMPLEX

template <class T>
ADJOINT_INLINE Complex<T> log2(Complex<T> z) {
  const Complex<double> l = from_c<double>(__builtin_clog(to_c(z)));
  return Complex<T>(l * 1.4426950408889634);
}
template <class T>
ADJOINT_INLINE Complex<T> log10(Complex<T> z) {
  const Complex<double> l = from_c<double>(__builtin_clog(to_c(z)));
  return Complex<T>(l * 0.43429448190325183);
}
template <class T>
ADJOINT_INLINE Complex<T> exp2(Complex<T> z) {
  return Complex<T>(from_c<double>(__builtin_cexp(to_c(Complex<double>(z.re, z.im) * 0.6931471805599453))));
}

/// log(1 + z) without cancellation for small z: |1 + z|^2 = 1 + (x*(2 + x) + y*y).
template <class T>
ADJOINT_INLINE Complex<T> log1p(Complex<T> z) {
  const double x = z.re, y = z.im;
  const double im = __builtin_atan2(y, 1 + x);
  const double re = abs(x) < 0.5 && abs(y) < 0.5 ? 0.5 * __builtin_log1p(x * (2 + x) + y * y)
                                                 : __builtin_log(__builtin_hypot(1 + x, y));
  return {T(re), T(im)};
}

/// e^z - 1 without cancellation for small z: (e^x - 1) cos y - 2 sin^2(y/2), e^x sin y.
template <class T>
ADJOINT_INLINE Complex<T> expm1(Complex<T> z) {
  const double x = z.re, y = z.im;
  if (y == 0 || !(abs(x) < 0.5 && abs(y) < 0.5)) {
    const Complex<double> e = from_c<double>(__builtin_cexp(to_c(z)));
    return {T(y == 0 ? __builtin_expm1(x) : e.re - 1), T(e.im)};
  }
  const double s = __builtin_sin(0.5 * y), m = __builtin_expm1(x);
  return {T(m * __builtin_cos(y) - 2 * s * s), T((m + 1) * __builtin_sin(y))};
}

/// 1 / (1 + e^-z), with the exponential that cannot overflow.
template <class T>
ADJOINT_INLINE Complex<T> sigmoid(Complex<T> z) {
  const Complex<double> one(1.0), w(z.re, z.im);
  const bool right = w.re >= 0;
  const Complex<double> e = from_c<double>(__builtin_cexp(to_c(right ? -w : w)));
  return Complex<T>(right ? one / (one + e) : e / (one + e));
}

/// z^w. Small integer powers are products; z^0 is 1, and 0^w is 0 where the real part of w is positive, else
/// NaN.
template <class T>
inline Complex<T> pow(Complex<T> z, Complex<T> w) {
  const Complex<double> a(z.re, z.im), b(w.re, w.im);
  if (b == 0.0) return Complex<T>(T(1));
  if (a == 0.0) return b.re > 0 ? Complex<T>() : Complex<T>(not_a_number<T>, not_a_number<T>);
  if (b.im == 0 && abs(b.re) <= 64 && b.re == __builtin_trunc(b.re)) {
    Complex<double> result(1.0), square = a;
    for (int n = int(abs(b.re)); n != 0; n >>= 1) {
      if (n & 1) result *= square;
      square *= square;
    }
    if (isfinite(result) && !(result == 0.0))
      return Complex<T>(b.re < 0 ? Complex<double>(1.0) / result : result);
  }
  return from_c<T>(__builtin_cpow(to_c(a), to_c(b)));
}
template <class T>
inline Complex<T> pow(Complex<T> z, T w) {
  return pow(z, Complex<T>(w));
}
template <class T>
inline Complex<T> pow(T z, Complex<T> w) {
  return pow(Complex<T>(z), w);
}

}  // namespace adjoint::inline ADJOINT_ISA::math
