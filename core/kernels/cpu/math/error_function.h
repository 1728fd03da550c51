// The error function, its complement and its inverse.
//
// erf x is x + x P(x^2) on [-1, 1]. Beyond, erf x = 1 - erfc x. erfc decays like e^(-x^2) / x: its logarithm
// is nearly a parabola, which suffices for erf in float; in double erfc x = e^(-x^2) P(t) / (1 + 2x), where t
// = (x - 3) / (x + 3) maps the half line to a finite interval. The square x^2 is kept to twice the precision,
// because e^(-x^2) magnifies its error up to 700 times.
//
// The normal distribution function, its logarithm and its inverse follow from the same polynomials.
//
// The inverse of erf is x times a smooth function of w = -log(1 - x^2), and of its root where w is large (M.
// Giles, "Approximating the erfinv function", 2010); that of the normal distribution function is the same, of
// x = 1 - 2p.
//
// Accuracy: erfc in double is within 2 ulp up to x = 26.5; beyond, results are subnormal and within one
// spacing.
#pragma once

#include "bessel_coefficients.h"
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
/// In float, of a >= 1/2: e^(-a^2), given its square root or that of 2 a^2, times the rest.
ADJOINT_INLINE float erfcx_middle(float a) {
  return polynomial((a - 3.0f) / (a + 3.0f), coefficients::Polynomials<float>::erfcx) / (1.0f + 2.0f * a);
}
template <class T>
ADJOINT_INLINE T exp_minus_square(T x);
ADJOINT_INLINE float erfc(float x) {
  const float a = abs(x), near = x * polynomial(x * x, coefficients::Polynomials<float>::erf);
  const float b = limit(a, 0.5f, 11.0f), far = exp_minus_square(b) * erfcx_middle(b);
  return select(a < 0.5f, (1.0f - x) - near, select(x < 0.0f, 2.0f - far, far));
}

/// erfinv(x) / x as a function of w = -log(1 - x^2); for w above 36 as well where `tail`.
template <bool tail, class T>
ADJOINT_INLINE T inverse_error_ratio(T w) {
  using P = coefficients::Bessel<T>;
  const T s = sqrt(w);
  T y = select(w < T(6), polynomial(w - T(3), P::erfinv_near), polynomial(s - T(3.34375), P::erfinv_middle));
  constexpr bool single = sizeof(T) == 4;
  if constexpr (!single) y = select(s < 4.25, y, polynomial(s - 5.25, P::erfinv_far));
  if constexpr (tail)
    y = select(s < (single ? T(4.25) : T(6.25)), y,
               s + polynomial(T(1) / s - (single ? T(0.15625) : T(0.1)), P::erfinv_tail));
  return y;
}

/// The inverse of erf on (-1, 1); an infinity at the ends, NaN outside.
template <class T>
ADJOINT_INLINE T erfinv(T x) {
  const T a = abs(x), y = x * inverse_error_ratio<false>(-log((T(1) - a) * (T(1) + a)));
  return select(a < T(1), y, select(a == T(1), copysign(infinity<T>, x), not_a_number<T>));
}

/// Its derivative, e^(y²) √π / 2 for y = erfinv x. That grows like 1 / (1 - x²), and what is left is smooth.
ADJOINT_INLINE float erfinv_slope(float x) {
  using P = coefficients::Bessel<float>;
  const float a = abs(x), rest = (1.0f - a) * (1.0f + a), w = -log(rest);
  const float q = select(w < 6.0f, polynomial(w - 3.0f, P::erfinv_slope_near),
                         polynomial(sqrt(w) - 3.34375f, P::erfinv_slope_middle));
  return select(a < 1.0f, q / rest, select(a == 1.0f, infinity<float>, not_a_number<float>));
}

// --- The normal distribution ----------------------------------------------------------------------
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
ADJOINT_INLINE float ndtr(float x) {
  const float a = abs(x), y = x * float(root_half), b = limit(a, float(-normal_tail), 16.0f);
  const float tail = 0.5f * exp_minus_half_square(b) * erfcx_middle(b * float(root_half));
  const float middle = 0.5f * ((1.0f + y) + y * polynomial(y * y, coefficients::Polynomials<float>::erf));
  return select(a < float(-normal_tail), middle, select(x < 0.0f, tail, 1.0f - tail));
}

/// 2 e^(x^2/2) Phi(x) from -39 to `normal_tail`.
ADJOINT_INLINE double scaled_tail(double x) {
  return erfcx_middle(limit(abs(x), -normal_tail, 39.0) * root_half).value;
}

/// log Phi(x).
ADJOINT_INLINE double log_ndtr(double x) {
  const double scaled =
      select(x < -39.0, 0.79788456080286535588 * normal_tail_series(x) / -x, scaled_tail(x));
  return select(x < normal_tail, log(0.5 * scaled) - (0.5 * x) * x, log1p(-ndtr(-x)));
}
ADJOINT_INLINE float log_ndtr(float x) { return float(log_ndtr(double(x))); }

/// The derivative of log Phi: the normal density over Phi(x).
ADJOINT_INLINE double normal_hazard(double x) {
  const double left = select(x < -39.0, -x / normal_tail_series(x), 0.79788456080286535588 / scaled_tail(x));
  return select(x < normal_tail, left, 0.39894228040143267794 * exp_minus_half_square(x) / ndtr(x));
}
ADJOINT_INLINE float normal_hazard(float x) { return float(normal_hazard(double(x))); }

/// The inverse of Phi on (0, 1); an infinity at the ends, NaN outside.
template <class T>
ADJOINT_INLINE T ndtri(T p) {
  const bool left = p < T(0.5);
  const T q = select(left, p, T(1) - p), x = T(1) - T(2) * q;
  const T y = T(2 * root_half) * x * inverse_error_ratio<true>(-log(T(4) * q * (T(1) - q)));
  const T size = select(q > T(0), y, select(q == T(0), infinity<T>, not_a_number<T>));
  return select(left, -size, size);
}

}  // namespace adjoint::inline ADJOINT_ISA::math
