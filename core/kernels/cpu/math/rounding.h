// Rounding, remainders, comparison: the functions whose results are exact or nearly so.
//
// Remainders follow Python: floor_mod(x, y) has the sign of y, and floor_divide(x, y) is the integer q for
// which x = q*y + floor_mod(x, y). It is not floor(x / y): 1 / 0.1 rounds up to 10, yet 0.1 (the double) goes
// only nine whole times into 1.
#pragma once

#include "bits.h"

namespace adjoint::inline ADJOINT_ISA::math {

ADJOINT_INLINE float floor(float x) { return __builtin_floorf(x); }
ADJOINT_INLINE double floor(double x) { return __builtin_floor(x); }
ADJOINT_INLINE float ceil(float x) { return __builtin_ceilf(x); }
ADJOINT_INLINE double ceil(double x) { return __builtin_ceil(x); }
ADJOINT_INLINE float trunc(float x) { return __builtin_truncf(x); }
ADJOINT_INLINE double trunc(double x) { return __builtin_trunc(x); }
/// To the nearest integer, halves to even.
ADJOINT_INLINE float round(float x) { return __builtin_nearbyintf(x); }
ADJOINT_INLINE double round(double x) { return __builtin_nearbyint(x); }

/// -1, 0 or 1; NaN stays NaN, and a zero keeps its sign.
template <class T>
ADJOINT_INLINE T sign(T x) {
  return select(x > T(0), T(1), select(x < T(0), T(-1), x));
}

/// The smaller of the two; NaN if either is.
template <class T>
ADJOINT_INLINE T min(T a, T b) {
  const T m = select(a < b, a, b);  // one instruction, which gives b where either is NaN
  return select(a == a, m, a);
}
/// The larger of the two; NaN if either is.
template <class T>
ADJOINT_INLINE T max(T a, T b) {
  const T m = select(a > b, a, b);
  return select(a == a, m, a);
}

/// 1/sqrt(x): two roundings.
ADJOINT_INLINE float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
ADJOINT_INLINE double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }

/// sqrt(x*x + y*y) without needless overflow; infinite if either is, even beside a NaN.
ADJOINT_INLINE float hypot(float x, float y) {
  const double a = x, b = y;
  const float r = float(__builtin_sqrt(a * a + b * b));
  return select(isinf(x) || isinf(y), infinity<float>, r);
}
ADJOINT_INLINE double hypot(double x, double y) {
  const double a = abs(x), b = abs(y);
  const double high = select(a < b, b, a);
  // Scaled by a power of two where squares would overflow or lose digits.
  const double down = select(high > 0x1p500, 0x1p-600, select(high < 0x1p-400, 0x1p600, 1.0));
  const double up = select(high > 0x1p500, 0x1p600, select(high < 0x1p-400, 0x1p-600, 1.0));
  const double u = a * down, v = b * down;
  const double r = up * __builtin_sqrt(u * u + v * v);
  return select(isinf(x) || isinf(y), infinity<double>, r);
}

/// The remainder with the sign of x (C's fmod): exact.
ADJOINT_INLINE float fmod(float x, float y) { return __builtin_fmodf(x, y); }
ADJOINT_INLINE double fmod(double x, double y) { return __builtin_fmod(x, y); }

#if ADJOINT_HAS_FMA
ADJOINT_INLINE float fused(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
ADJOINT_INLINE double fused(double x, double y, double z) { return __builtin_fma(x, y, z); }
/// fmod(x, y) where the quotient is an integer that T holds; NaN elsewhere. The rounded quotient may be the
/// next integer, never one less; a - q b is exact for both.
template <class T>
ADJOINT_INLINE T fmod_quick(T x, T y) {
  const T a = abs(x), b = abs(y), q = trunc(a / b), r = fused(-q, b, a);
  const T rest = select(r < T(0), r + b, r);
  return select(q < T(sizeof(T) == 4 ? 0x1p22 : 0x1p51), copysign(rest, x), not_a_number<T>);
}
#endif

/// Whether the signs of two numbers differ, by their bits: comparisons of comparisons are no vector code.
ADJOINT_INLINE bool opposite(float x, float y) { return (to_bits(x) ^ to_bits(y)) >> 31 != 0; }
ADJOINT_INLINE bool opposite(double x, double y) { return (to_bits(x) ^ to_bits(y)) >> 63 != 0; }

/// The remainder with the sign of y, of zeros too (Python's %), given that of x.
template <class T>
ADJOINT_INLINE T floor_mod(T, T y, T r) {
  return select(r == T(0), copysign(T(0), y), select(opposite(r, y), r + y, r));
}

template <class T>
ADJOINT_INLINE T floor_mod(T x, T y) {
  return floor_mod(x, y, fmod(x, y));
}

/// Python's // for floating point, given fmod(x, y); x / 0 is what division gives (an infinity or NaN).
template <class T>
ADJOINT_INLINE T floor_divide(T x, T y, T r) {
  T q = (x - r) / y;
  q = select(r == T(0), q, select(opposite(r, y), q - T(1), q));
  T f = floor(q);
  f = select(q - f > T(0.5), f + T(1), f);
  f = select(q == T(0), copysign(T(0), x / y), f);
  return select(y == T(0), x / y, f);
}
template <class T>
ADJOINT_INLINE T floor_divide(T x, T y) {
  return floor_divide(x, y, fmod(x, y));
}

}  // namespace adjoint::inline ADJOINT_ISA::math
