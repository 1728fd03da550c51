// Trigonometric functions and their inverses.
#pragma once

#include "bits.h"

namespace adjoint::inline ADJOINT_ISA::math {

ADJOINT_INLINE float sin(float x) { return __builtin_sinf(x); }
ADJOINT_INLINE double sin(double x) { return __builtin_sin(x); }
ADJOINT_INLINE float cos(float x) { return __builtin_cosf(x); }
ADJOINT_INLINE double cos(double x) { return __builtin_cos(x); }
ADJOINT_INLINE float tan(float x) { return __builtin_tanf(x); }
ADJOINT_INLINE double tan(double x) { return __builtin_tan(x); }
ADJOINT_INLINE float asin(float x) { return __builtin_asinf(x); }
ADJOINT_INLINE double asin(double x) { return __builtin_asin(x); }
ADJOINT_INLINE float acos(float x) { return __builtin_acosf(x); }
ADJOINT_INLINE double acos(double x) { return __builtin_acos(x); }
ADJOINT_INLINE float atan(float x) { return __builtin_atanf(x); }
ADJOINT_INLINE double atan(double x) { return __builtin_atan(x); }
ADJOINT_INLINE float atan2(float x, float y) { return __builtin_atan2f(x, y); }
ADJOINT_INLINE double atan2(double x, double y) { return __builtin_atan2(x, y); }
}  // namespace adjoint::inline ADJOINT_ISA::math
namespace adjoint::inline ADJOINT_ISA::math {
template <class T>
ADJOINT_INLINE T sin_in_range(T x) {
  return sin(x);
}
template <class T>
ADJOINT_INLINE T cos_in_range(T x) {
  return cos(x);
}
}  // namespace adjoint::inline ADJOINT_ISA::math
