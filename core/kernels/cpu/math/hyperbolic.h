// Hyperbolic functions and their inverses.
//
// Away from 0 they are short expressions in e^x; near 0, where those cancel, odd polynomials. The results of
// sinh and cosh overflow later than e^x does, hence half_exp, e^x / 2. The inverses are logarithms of an
// argument u whose own rounding error c is computed too: log_sum(u, c).
//
// Formulas: Abramowitz and Stegun, 4.5 and 4.6. Exact sums and products: T. J. Dekker (1971), D. Knuth (TAOCP
// 2, 4.2.2).
#pragma once

#include "exponential.h"

namespace adjoint::inline ADJOINT_ISA::math {

/// x + x^3 p(x^2).
template <class T, int N>
ADJOINT_INLINE T odd_polynomial(T x, const T (&c)[N]) {
  const T z = x * x;
  return x + x * z * polynomial(z, c);
}

template <class T>
ADJOINT_INLINE T sinh(T x) {
  using E = Exponential<T>;
  const T a = abs(x);
  // Of e^a / 2 neither the half nor its quarter inverse leaves the normal numbers below highest + log 2.
  const T h = half_exp_normal(limit(a, T(0), E::highest + T(1)));
  const T large = h - T(0.25) / h;
  return copysign(select(a < T(1), odd_polynomial(a, coefficients::Polynomials<T>::sinh), large), x);
}

template <class T>
ADJOINT_INLINE T cosh(T x) {
  using E = Exponential<T>;
  const T h = half_exp_normal(limit(abs(x), T(0), E::highest + T(1)));
  return h + T(0.25) / h;
}

/// In float: 1 - 2 / (e^2x + 1) where that cancels little, a polynomial below 0.55.
ADJOINT_INLINE float tanh(float x) {
  const float a = abs(x);
  const Reduced<float> d = reduce_exponent_below(a + a, 40);
  const float large = 1.0f - 2.0f / (exp_reduced(d.r) * power_of_two<float>(d.n) + 1.0f);
  const float small = odd_polynomial(a, coefficients::Polynomials<float>::tanh);
  return copysign(select(a < 0.55f, small, large), x);
}
/// In double: t / (t + 2) with t = e^2x - 1, every rounding error fed back to first order. (t is twice
/// `half`.)
ADJOINT_INLINE double tanh(double x) {
  const double a = abs(x);
  const Pair<double> half = half_expm1(select(a > 20.0, 40.0, a + a));
  const Pair<double> t = fast_two_sum(half.value, half.error);
  const Pair<double> d = two_sum(1.0, t.value);
  const double inverse = 1.0 / d.value, q = t.value * inverse, p = q * d.value;
  const double rest = ((t.value - p) - product_error(q, d.value, p)) + (t.error - q * (d.error + t.error));
  const double y = q + rest * inverse;
  return copysign(select(a < 0x1p-28, a, y), x);
}

ADJOINT_INLINE double asinh(double x) {
  const double a = abs(x);
  const bool huge = a > 0x1p30;
  // u = a + sqrt(a^2 + 1) with its error; beyond 2^30, log(2a).
  const double b = select(huge, 1.0, a);
  const double p = b * b;
  const Pair<double> square = two_sum(p, 1.0);
  const double root = sqrt(square.value), q = root * root;
  const double rest =
      (square.value - q) - product_error(root, root, q) + (square.error + product_error(b, b, p));
  const Pair<double> u = two_sum(b, root);
  const double large = log_sum(select(huge, a, u.value), select(huge, 0.0, u.error + 0.5 * rest / root));
  const double y = select(a < 0.5, odd_polynomial(a, coefficients::Polynomials<double>::asinh),
                          select(huge, large + Exponential<double>::ln2, large));
  return copysign(select(a < infinity<double>, y, a), x);
}
ADJOINT_INLINE float asinh(float x) { return float(asinh(double(x))); }

ADJOINT_INLINE double acosh(double x) {
  const bool huge = x > 0x1p30;
  // w = t + sqrt(t (t + 2)) with t = x - 1, then log(1 + w); beyond 2^30, log(2x).
  const double t = select(huge, 1.0, x - 1.0);
  const Pair<double> t2 = two_sum(t, 2.0);
  const double p = t * t2.value;
  const double root = sqrt(p), q = root * root;
  const double rest =
      ((p - q) - product_error(root, root, q)) + (product_error(t, t2.value, p) + t * t2.error);
  const Pair<double> w = two_sum(t, root);
  const double w_error = w.error + select(root > 0.0, 0.5 * rest / root, 0.0);
  const Pair<double> u = two_sum(1.0, w.value);
  const double y = log_sum(select(huge, x, u.value), select(huge, 0.0, u.error + w_error));
  const double finite = select(huge, y + Exponential<double>::ln2, y);
  return select(x >= 1.0, select(x < infinity<double>, finite, x), not_a_number<double>);
}
ADJOINT_INLINE float acosh(float x) { return float(acosh(double(x))); }

ADJOINT_INLINE double atanh(double x) {
  const double a = abs(x);
  // (1 + a) / (1 - a) with its error; 1 - a is exact for a >= 1/2, where this is used.
  const Pair<double> n = two_sum(1.0, a);
  const double d = 1.0 - a, q = n.value / d, p = q * d;
  const double rest = ((n.value - p) - product_error(q, d, p)) + n.error;
  const double large = 0.5 * log_sum(q, rest / d);
  double y = select(a < 0.5, odd_polynomial(a, coefficients::Polynomials<double>::atanh), large);
  y = select(a < 1.0, y, select(a == 1.0, infinity<double>, not_a_number<double>));
  return copysign(y, x);
}
ADJOINT_INLINE float atanh(float x) {
  const float a = abs(x);
  const Pair<float> n = two_sum(1.0f, a);
  const float d = 1.0f - a, q = n.value / d, p = q * d;
  const float rest = ((n.value - p) - product_error(q, d, p)) + n.error;
  const float large = 0.5f * log_sum(q, rest / d);
  float y = select(a < 0.5f, odd_polynomial(a, coefficients::Polynomials<float>::atanh), large);
  y = select(a < 1.0f, y, select(a == 1.0f, infinity<float>, not_a_number<float>));
  return copysign(y, x);
}

}  // namespace adjoint::inline ADJOINT_ISA::math
