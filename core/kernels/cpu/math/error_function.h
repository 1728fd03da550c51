// The error function, its complement and its inverse.
#pragma once

#include "bits.h"
#include "exponential.h"

namespace adjoint::inline ADJOINT_ISA::math {

ADJOINT_INLINE float erf(float x) { return __builtin_erff(x); }
ADJOINT_INLINE double erf(double x) { return __builtin_erf(x); }
ADJOINT_INLINE float erfc(float x) { return __builtin_erfcf(x); }
ADJOINT_INLINE double erfc(double x) { return __builtin_erfc(x); }

/// The inverse of erf on (-1, 1); ±infinity at ±1, NaN outside.
/// Start: Winitzki's elementary approximation; then three steps of Halley's method in double.
ADJOINT_INLINE double erfinv(double x) {
  const double a = abs(x);
  const double l = log1p(-a * a);
  const double t = 2 / (3.14159265358979323846 * 0.147) + 0.5 * l;
  double y = sqrt(sqrt(t * t - l / 0.147) - t);
  for (int i = 0; i < 3; ++i) {
    const double e = a < 0.5 ? erf(y) - a : (1 - a) - erfc(y);
    const double u = e / (1.12837916709551257390 * exp(-y * y));
    y -= u / (1 + y * u);
  }
  if (a == 1) return x * __builtin_inf();
  if (a < 1e-8) return x * 0.88622692545275801365;
  return copysign(y, x);
}
ADJOINT_INLINE float erfinv(float x) { return float(erfinv(double(x))); }

}  // namespace adjoint::inline ADJOINT_ISA::math
