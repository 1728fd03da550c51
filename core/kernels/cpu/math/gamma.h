// The logarithm of the gamma function and its derivatives.
#pragma once

#include "bits.h"
#include "exponential.h"
#include "trigonometric.h"

namespace adjoint::inline ADJOINT_ISA::math {

ADJOINT_INLINE double lgamma(double x) {
  int sign = 0;
  return __builtin_lgamma_r(x, &sign);
}
ADJOINT_INLINE float lgamma(float x) {
  int sign = 0;
  return __builtin_lgammaf_r(x, &sign);
}

/// The derivative of log gamma: from 10 on Stirling's series (DLMF 5.11.2); below, the recurrence leads to
/// [1, 2], where the zero x0 = high + low is a factor; reflection for x < 0. Beside the zeros left of 0 the
/// error is small against the two terms of the reflection, not against their sum.
ADJOINT_INLINE double digamma(double x) {
  if (x == 0) return copysign(__builtin_inf(), -x);
  double reflected = 0, low_x = 0;
  if (x < 0) {
    if (x == floor(x)) return __builtin_nan("");
    reflected = -3.14159265358979323846 * (cos_pi(x) / sin_pi(x));
    const Pair<double> mirrored = two_sum(1.0, -x);
    x = mirrored.value;
    low_x = mirrored.error;
  }
  if (x < 10) {
    double sum = 0;
    if (x < 1) {
      sum = -1 / x;
      x += 1;
    }
    for (; x >= 2; x -= 1) sum += 1 / (x - 1);
    constexpr double high = 0x1.762d86356be3fp+0, low = 0x1.b86a722197829p-54;
    const double base =
        ((x - high) - (low - low_x)) * polynomial(x - 1.5, coefficients::Polynomials<double>::digamma);
    return reflected + (sum + base);
  }
  const double r = 1 / (x * x);
  const double series =
      r *
      (1.0 / 12 -
       r * (1.0 / 120 - r * (1.0 / 252 - r * (1.0 / 240 - r * (1.0 / 132 - r * (691.0 / 32760 - r / 12))))));
  return reflected + (log(x) - (0.5 / x + series));
}
ADJOINT_INLINE float digamma(float x) { return float(digamma(double(x))); }

/// Hurwitz's zeta function, the sum of (x + k)^-s over k >= 0, times factor: terms up to where Euler's and
/// Maclaurin's formula (DLMF 25.11.28) holds to full precision, then that. For whole s >= 2 and x > 0. The
/// factor, a factorial, keeps small powers from vanishing before they are multiplied. `low` is what x was
/// rounded by, where the first term, the largest, feels it.
inline double hurwitz_zeta(double s, double x, double factor, double low = 0) {
  // x^-p times the factor, whichever is extreme.
  const auto power = [factor](double x, double p) {
    const double half = floor(0.5 * p);
    return (factor * pow(x, -half)) * pow(x, half - p);
  };
  double sum = 0;
  for (const double enough = 14 + limit(s, 0.0, 200.0); x < enough; x += 1) {
    double term = power(x, s);
    if (low != 0 && sum == 0) term -= term * (s * low / x);
    sum += term;
    if (term <= sum * 0x1p-60) return sum;
  }
  constexpr double bernoulli[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                  5.0 / 66, -691.0 / 2730, 7.0 / 6,  -3617.0 / 510};
  // In units of x^(1-s), which is in range wherever the result is.
  double series = 1 / (s - 1) + 0.5 / x, term = s / (2 * x * x);
  for (int j = 0; j < 8; ++j) {
    series += bernoulli[j] * term;
    const double k = 2 * j + 2;
    term *= (s + k - 1) / ((k + 1) * x) * ((s + k) / ((k + 2) * x));
  }
  return sum + power(x, s - 1) * series;
}

/// The n-th derivative of digamma, (-1)^(n+1) n! zeta(n + 1, x), n >= 1. Left of 0 the terms of the sum lie
/// on both sides of a pole: those right of it are a zeta of the distance to the pole, those left of it a
/// difference of two.
inline double polygamma(double x, double n) {
  if (x != x) return x;
  const double s = n + 1;
  const bool odd = round(0.5 * n) != 0.5 * n;
  double factorial = 1;
  for (double k = 2; k <= n && k <= 171; k += 1) factorial *= k;
  if (x == infinity<double>) return odd ? 0.0 : -0.0;
  if (x > 0) return odd ? hurwitz_zeta(s, x, factorial) : -hurwitz_zeta(s, x, factorial);
  if (x == floor(x)) return odd ? infinity<double> : not_a_number<double>;
  const double r = x - round(x);  // exact
  const Pair<double> far = fast_two_sum(1.0, -abs(r));
  const double near = hurwitz_zeta(s, abs(r), factorial),
               rest = hurwitz_zeta(s, far.value, factorial, far.error);
  const double above = r > 0 ? near : rest;
  const double below = (r > 0 ? rest : near) - hurwitz_zeta(s, 1 - x, factorial);
  return odd ? above + below : below - above;
}

}  // namespace adjoint::inline ADJOINT_ISA::math
