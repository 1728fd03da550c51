// Hyperbolic functions and their inverses.
#pragma once

#include "bits.h"
#include "exponential.h"

namespace adjoint::inline ADJOINT_ISA::math {

ADJOINT_INLINE float sinh(float x) { return __builtin_sinhf(x); }
ADJOINT_INLINE double sinh(double x) { return __builtin_sinh(x); }
ADJOINT_INLINE float cosh(float x) { return __builtin_coshf(x); }
ADJOINT_INLINE double cosh(double x) { return __builtin_cosh(x); }
ADJOINT_INLINE float tanh(float x) { return __builtin_tanhf(x); }
ADJOINT_INLINE double tanh(double x) { return __builtin_tanh(x); }
ADJOINT_INLINE float asinh(float x) { return __builtin_asinhf(x); }
ADJOINT_INLINE double asinh(double x) { return __builtin_asinh(x); }
ADJOINT_INLINE float acosh(float x) { return __builtin_acoshf(x); }
ADJOINT_INLINE double acosh(double x) { return __builtin_acosh(x); }
ADJOINT_INLINE float atanh(float x) { return __builtin_atanhf(x); }
ADJOINT_INLINE double atanh(double x) { return __builtin_atanh(x); }
}  // namespace adjoint::inline ADJOINT_ISA::math
