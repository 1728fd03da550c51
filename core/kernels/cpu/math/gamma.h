// The logarithm of the gamma function and its derivative.
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

/// The derivative of log gamma: reflection for x < 0, recurrence up to 10, then Stirling's series
/// (DLMF 5.11.2).
ADJOINT_INLINE double digamma(double x) {
  if (x == 0) return copysign(__builtin_inf(), -x);
  double result = 0;
  if (x < 0) {
    if (x == floor(x)) return __builtin_nan("");
    const double f = x - round(x);
    const double angle = 3.14159265358979323846 * f;
    result = -3.14159265358979323846 / tan(angle);
    x = 1 - x;
  }
  while (x < 10) {
    result -= 1 / x;
    x += 1;
  }
  const double r = 1 / (x * x);
  const double series =
      r *
      (1.0 / 12 -
       r * (1.0 / 120 - r * (1.0 / 252 - r * (1.0 / 240 - r * (1.0 / 132 - r * (691.0 / 32760 - r / 12))))));
  return result + log(x) - 0.5 / x - series;
}
ADJOINT_INLINE float digamma(float x) { return float(digamma(double(x))); }

}  // namespace adjoint::inline ADJOINT_ISA::math
