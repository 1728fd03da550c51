// The error function, its complement and its inverse.
//
// erf x is x + x P(x^2) on [-1, 1]. Beyond, erf x = 1 - erfc x. erfc decays like e^(-x^2) / x: its logarithm
// is nearly a parabola, which suffices for erf in float; in double erfc x = e^(-x^2) P(t) / (1 + 2x), where t
// = (x - 3) / (x + 3) maps the half line to a finite interval. The square x^2 is kept to twice the precision,
// because e^(-x^2) magnifies its error up to 700 times.
//
// The normal distribution function, its logarithm and its inverse follow from the same polynomials.
//
// erfinv starts from S. Winitzki's elementary approximation (2008) and takes three steps of Halley's method.
//
// Accuracy: erfc in double is within 2 ulp up to x = 26.5; beyond, results are subnormal and within one
// spacing.
#pragma once

#include "exponential.h"

namespace adjoint::inline ADJOINT_ISA::math {

/// e^(x^2) erfc x for 1/2 <= x <= 28, with its rounding error.
ADJOINT_INLINE Pair<double> erfcx_middle(double a) {
  const double t = (a - 3.0) / (a + 3.0);
  // P(t) / (1 + 2a), with the rounding errors of the sum, the denominator and the quotient.
  using P = coefficients::Polynomials<double>;
  const Pair<double> p = fast_two_sum(P::erfcx[0], t * polynomial_tail(t, P::erfcx));
  const Pair<double> w = two_sum(1.0, 2.0 * a);
  const double inverse = 1.0 / w.value, ratio = p.value * inverse, back = ratio * w.value;
  const double rest = ((p.value - back) - product_error(ratio, w.value, back)) + (p.error - ratio * w.error);
  return {ratio, rest * inverse};
}

/// erfc a for 1/2 <= a <= 28, given a^2 = square + low.
ADJOINT_INLINE double erfc_with_square(double a, double square, double low) {
  const Pair<double> scaled = erfcx_middle(a);
  const Reduced<double> d = reduce_exponent(-square);
  const double tail = d.r * d.r * polynomial(d.r, coefficients::Polynomials<double>::exp),
               correction = d.error - low;
  const double r = d.r + (tail + (correction + correction * (d.r + tail)));
  return scale(scaled.value + (scaled.value * r + scaled.error), d.n);
}

/// erfc x for x >= 1/2.
ADJOINT_INLINE double erfc_large(double x) {
  const double a = limit(x, 0.5, 28.0), square = a * a;
  return erfc_with_square(a, square, product_error(a, a, square));
}

/// erf x.
ADJOINT_INLINE double erf(double x) {
  const double a = abs(x), z = x * x;
  const double small = a + a * polynomial(z, coefficients::Polynomials<double>::erf);
  return copysign(select(a < 1.0, small, 1.0 - erfc_large(a)), x);
}
ADJOINT_INLINE float erf(float x) {
  const float a = abs(x), z = x * x;
  const float small = a + a * polynomial(z, coefficients::Polynomials<float>::erf);
  const float b = select(a > 4.0f, 4.0f, a);
  const float l = polynomial(b, coefficients::Polynomials<float>::erfc_log);
  const float shifted = l + Bits<float>::shift;
  const float r = (l - (shifted - Bits<float>::shift)) * Exponential<float>::ln2;
  const float large =
      1.0f - exp_reduced(r) * power_of_two<float>(to_bits(shifted) - to_bits(Bits<float>::shift));
  return copysign(select(a < 1.0f, small, large), x);
}

/// erfc x = 1 - erf x, exact in relative terms for large x.
ADJOINT_INLINE double erfc(double x) {
  const double a = abs(x);
  const double near = x * polynomial(x * x, coefficients::Polynomials<double>::erf);
  // 1 - (x + near), the larger part first: below 1/2 nothing cancels.
  const double middle = (1.0 - x) - near;
  const double far = erfc_large(a);
  return select(a < 0.5, middle, select(x < 0.0, 2.0 - far, far));
}
ADJOINT_INLINE float erfc(float x) { return float(erfc(double(x))); }

/// The inverse of erf on (-1, 1); an infinity at the ends, NaN outside.
ADJOINT_INLINE double erfinv(double x) {
  const double a = abs(x);
  const double l = select(a < 0.5, log1p(-a * a), log((1.0 - a) * (1.0 + a)));
  const double t = 4.3307467508 + 0.5 * l;  // 2 / (0.147 pi)
  double y = sqrt(max(sqrt(t * t - l / 0.147) - t, 0.0));
  for (int i = 0; i < 3; ++i) {
    // The complement carries the digits near 1: 1 - a is exact for a >= 1/2.
    const double error = select(a < 0.5, erf(y) - a, (1.0 - a) - erfc(y));
    const double u = error * 0.88622692545275801365 * exp(y * y);
    y -= u / (1.0 + y * u);
  }
  y = select(a < 1e-8, a * 0.88622692545275801365, y);
  y = select(a < 1.0, y, select(a == 1.0, infinity<double>, not_a_number<double>));
  return copysign(y, x);
}
ADJOINT_INLINE float erfinv(float x) { return float(erfinv(double(x))); }

// --- The normal distribution ------------------------------------------------------------------------------
//
// Its distribution function is Phi(x) = erfc(-x / sqrt 2) / 2, of which the square x^2 / 2 is known exactly;
// its logarithm far to the left is that of erfcx less x^2 / 2. Both tails of its inverse solve log Phi(x) =
// log p.

/// e^(-x^2), and e^(-x^2 / 2), with the square to twice the precision.
template <class T>
ADJOINT_INLINE T exp_minus_square(T x) {
  const T a = limit(x, T(-28), T(28)), square = a * a, e = exp(-square);
  return e - e * product_error(a, a, square);
}
template <class T>
ADJOINT_INLINE T exp_minus_half_square(T x) {
  const T a = limit(x, T(-40), T(40)), square = a * a, e = exp(T(-0.5) * square);
  return e - e * (T(0.5) * product_error(a, a, square));
}

inline constexpr double root_half = 0.70710678118654752440;
/// Left of this the normal distribution is computed through erfcx.
inline constexpr double normal_tail = -0.71;

/// 1 - 1/x^2 + 3/x^4 - ..., by which Phi(x) differs from e^(-x^2/2) / (-x sqrt(2 pi)) (DLMF 7.12.1), x < -39.
ADJOINT_INLINE double normal_tail_series(double x) {
  const double z = 1.0 / (x * x);
  return 1.0 - z * (1.0 - 3.0 * z * (1.0 - 5.0 * z * (1.0 - 7.0 * z * (1.0 - 9.0 * z * (1.0 - 11.0 * z)))));
}

/// The normal distribution function.
ADJOINT_INLINE double ndtr(double x) {
  const double bounded = limit(abs(x), -normal_tail, 39.0), square = bounded * bounded;
  const double tail = 0.5 * erfc_with_square(bounded * root_half, 0.5 * square,
                                             0.5 * product_error(bounded, bounded, square));
  const double y = x * root_half;
  const double middle = 0.5 * ((1.0 + y) + y * polynomial(y * y, coefficients::Polynomials<double>::erf));
  return select(abs(x) < -normal_tail, middle, select(x < 0.0, tail, 1.0 - tail));
}
ADJOINT_INLINE float ndtr(float x) { return float(ndtr(double(x))); }

/// log Phi(x).
ADJOINT_INLINE double log_ndtr(double x) {
  if (!(x < normal_tail)) return log1p(-ndtr(-x));
  const double scaled =
      x < -39.0 ? 0.79788456080286535588 * normal_tail_series(x) / -x : erfcx_middle(-x * root_half).value;
  return log(0.5 * scaled) - (0.5 * x) * x;
}
ADJOINT_INLINE float log_ndtr(float x) { return float(log_ndtr(double(x))); }

/// The derivative of log Phi: the normal density over Phi(x).
ADJOINT_INLINE double normal_hazard(double x) {
  if (!(x < normal_tail)) return 0.39894228040143267794 * exp_minus_half_square(x) / ndtr(x);
  return x < -39.0 ? -x / normal_tail_series(x) : 0.79788456080286535588 / erfcx_middle(-x * root_half).value;
}
ADJOINT_INLINE float normal_hazard(float x) { return float(normal_hazard(double(x))); }

/// The inverse of Phi on (0, 1); an infinity at the ends, NaN outside.
ADJOINT_INLINE double ndtri(double p) {
  const double q = p < 0.5 ? p : 1.0 - p;
  if (!(q > 0.0)) return p == 0.0 ? -infinity<double> : p == 1.0 ? infinity<double> : not_a_number<double>;
  // 2p - 1 is exact.
  if (q > 0.25) return 2.0 * root_half * erfinv(2.0 * p - 1.0);
  const double l = log(q), t = sqrt(-2.0 * l);
  // M. Abramowitz and I. Stegun, Handbook of Mathematical Functions (1964), 26.2.23; then Halley's method.
  double x =
      (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;
  for (int i = 0; i < 2; ++i) {
    const double m = normal_hazard(x), step = (log_ndtr(x) - l) / m;
    x -= step / (1.0 + 0.5 * step * (x + m));
  }
  return p < 0.5 ? x : -x;
}
ADJOINT_INLINE float ndtri(float p) { return float(ndtri(double(p))); }

}  // namespace adjoint::inline ADJOINT_ISA::math
