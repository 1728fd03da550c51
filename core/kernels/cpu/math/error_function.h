// The error function, its complement and its inverse.
//
// erf x is x + x P(x^2) on [-1, 1]. Beyond, erf x = 1 - erfc x. erfc decays like e^(-x^2) / x: its logarithm
// is nearly a parabola, which suffices for erf in float; in double erfc x = e^(-x^2) P(t) / (1 + 2x), where t
// = (x - 3) / (x + 3) maps the half line to a finite interval. The square x^2 is kept to twice the precision,
// because e^(-x^2) magnifies its error up to 700 times.
//
// erfinv starts from S. Winitzki's elementary approximation (2008) and takes two steps of Halley's method.
//
// Accuracy: erfc in double is within 2 ulp up to x = 26.5; beyond, results are subnormal and within one
// spacing.
#pragma once

#include "exponential.h"

namespace adjoint::inline ADJOINT_ISA::math {

/// erfc x for x >= 1/2.
ADJOINT_INLINE double erfc_large(double x) {
  const double a = limit(x, 0.5, 28.0);
  const double square = a * a, low = product_error(a, a, square);
  const double t = (a - 3.0) / (a + 3.0);
  // P(t) / (1 + 2a), with the rounding errors of the sum, the denominator and the quotient.
  using P = coefficients::Polynomials<double>;
  const Pair<double> p = fast_two_sum(P::erfcx[0], t * polynomial_tail(t, P::erfcx));
  const Pair<double> w = two_sum(1.0, 2.0 * a);
  const double inverse = 1.0 / w.value, ratio = p.value * inverse, back = ratio * w.value;
  const double rest = ((p.value - back) - product_error(ratio, w.value, back)) + (p.error - ratio * w.error);
  const Reduced<double> d = reduce_exponent(-square);
  const double tail = d.r * d.r * polynomial(d.r, coefficients::Polynomials<double>::exp),
               correction = d.error - low;
  const double r = d.r + (tail + (correction + correction * (d.r + tail)));
  return scale(ratio + (ratio * r + rest * inverse), d.n);
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
  const double l = log1p(-a * a);
  const double t = 4.3307467508 + 0.5 * l;  // 2 / (0.147 pi)
  double y = sqrt(max(sqrt(t * t - l / 0.147) - t, 0.0));
  for (int i = 0; i < 2; ++i) {
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

}  // namespace adjoint::inline ADJOINT_ISA::math
