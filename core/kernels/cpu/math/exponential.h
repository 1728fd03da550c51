// Exponentials, logarithms and what is built from them.
#pragma once

#include "bits.h"
#include "rounding.h"

namespace adjoint::inline ADJOINT_ISA::math {

ADJOINT_INLINE float exp(float x) { return __builtin_expf(x); }
ADJOINT_INLINE double exp(double x) { return __builtin_exp(x); }
ADJOINT_INLINE float exp2(float x) { return __builtin_exp2f(x); }
ADJOINT_INLINE double exp2(double x) { return __builtin_exp2(x); }
ADJOINT_INLINE float expm1(float x) { return __builtin_expm1f(x); }
ADJOINT_INLINE double expm1(double x) { return __builtin_expm1(x); }
ADJOINT_INLINE float log(float x) { return __builtin_logf(x); }
ADJOINT_INLINE double log(double x) { return __builtin_log(x); }
ADJOINT_INLINE float log2(float x) { return __builtin_log2f(x); }
ADJOINT_INLINE double log2(double x) { return __builtin_log2(x); }
ADJOINT_INLINE float log10(float x) { return __builtin_log10f(x); }
ADJOINT_INLINE double log10(double x) { return __builtin_log10(x); }
ADJOINT_INLINE float log1p(float x) { return __builtin_log1pf(x); }
ADJOINT_INLINE double log1p(double x) { return __builtin_log1p(x); }
ADJOINT_INLINE float pow(float x, float y) { return __builtin_powf(x, y); }
ADJOINT_INLINE double pow(double x, double y) { return __builtin_pow(x, y); }

/// 1 / (1 + e^-x).
template <class T>
ADJOINT_INLINE T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}
/// log(1 + e^x).
template <class T>
ADJOINT_INLINE T softplus1(T x) {
  return select(x > T(0), x, T(0)) + log1p(exp(-abs(x))) + select(x != x, x, T(0));
}
/// log(1 / (1 + e^-x)).
template <class T>
ADJOINT_INLINE T log_sigmoid(T x) {
  return -softplus1(-x);
}

}  // namespace adjoint::inline ADJOINT_ISA::math
