// Whole quotients and remainders.
//
// floor_divide and remainder follow Python: the remainder has the sign of the divisor. fmod and the quotient
// that rounds towards zero follow C. Integers refuse a zero divisor, and -2^63 / -1 wraps around.
#pragma once

#include "ops/arithmetic.h"

namespace adjoint::inline ADJOINT_ISA {

#ifndef ADJOINT_KERNELS_ONLY
/// RuntimeError where an integer divisor, the second input in the type computed in, has a zero and something
/// to divide.
void refuse_zero_divisor(const char* op, const Tensor* in, DType type);
#endif

struct WholeDivision : Binary {
  static constexpr TypeSet types = types::real;
  static constexpr bool checks_values = true;
  static constexpr Domain samples{0.5, 3};

  /// C's quotient; 0 - a where b is -1, the only quotient that can overflow.
  template <class T>
  ADJOINT_INLINE static T quotient(T a, T b) {
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1)) return static_cast<T>(0 - modular(a));
    return static_cast<T>(a / b);
  }
  template <class T>
  ADJOINT_INLINE static T rest(T a, T b) {
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1)) return T(0);
    return static_cast<T>(a % b);
  }
};

struct FloorDivide : WholeDivision {
  static constexpr auto name = "floor_divide";
  static constexpr auto python = "__floordiv__";
  static constexpr auto doc = "Quotient rounded down, as Python's //.";
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      const T r = rest(a, b);
      return static_cast<T>(modular(quotient(a, b)) - (r != 0 && (r < 0) != (b < 0)));
    } else {
      return math::floor_divide(a, b);
    }
  }
#if ADJOINT_HAS_FMA
  template <class T>
  ADJOINT_INLINE static T forward_quick(T a, T b) {
    return math::floor_divide(a, b, math::fmod_quick(a, b));
  }
#endif
  static Zero derivative(Wrt<0>) { return {}; }
  static Zero derivative(Wrt<1>) { return {}; }
#ifndef ADJOINT_KERNELS_ONLY
  static void check(const Tensor* in, DType type) { refuse_zero_divisor(name, in, type); }
#endif
};

struct TruncDivide : WholeDivision {
  static constexpr auto name = "_trunc_divide";
  static constexpr auto doc = "Quotient rounded towards zero, as C's / on integers.";
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return quotient(a, b);
    else
      return math::trunc(a / b);
  }
  static Zero derivative(Wrt<0>) { return {}; }
  static Zero derivative(Wrt<1>) { return {}; }
#ifndef ADJOINT_KERNELS_ONLY
  static void check(const Tensor* in, DType type) { refuse_zero_divisor(name, in, type); }
#endif
};

struct Remainder : WholeDivision {
  static constexpr auto name = "remainder";
  static constexpr auto python = "__mod__";
  static constexpr auto doc =
      "self - other * floor(self / other): the remainder with the sign of other, as Python's %.";
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      const T r = rest(a, b);
      return static_cast<T>(r + (r != 0 && (r < 0) != (b < 0) ? b : T(0)));
    } else {
      return math::floor_mod(a, b);
    }
  }
#if ADJOINT_HAS_FMA
  template <class T>
  ADJOINT_INLINE static T forward_quick(T a, T b) {
    return math::floor_mod(a, b, math::fmod_quick(a, b));
  }
  template <class T>
  ADJOINT_INLINE static T derivative_quick(Wrt<1>, First<T> a, Second<T> b) {
    return -FloorDivide::forward_quick(a.value, b.value);
  }
#endif
  static One derivative(Wrt<0>) { return {}; }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, First<T> a, Second<T> b) {
    return -apply<FloorDivide>(a.value, b.value);
  }
#ifndef ADJOINT_KERNELS_ONLY
  static void check(const Tensor* in, DType type) { refuse_zero_divisor(name, in, type); }
#endif
};

struct Fmod : WholeDivision {
  static constexpr auto name = "fmod";
  static constexpr auto doc = "The remainder with the sign of self, as C's fmod.";
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return rest(a, b);
    else
      return math::fmod(a, b);
  }
#if ADJOINT_HAS_FMA
  template <class T>
  ADJOINT_INLINE static T forward_quick(T a, T b) {
    return math::fmod_quick(a, b);
  }
#endif
  static One derivative(Wrt<0>) { return {}; }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, First<T> a, Second<T> b) {
    return -apply<TruncDivide>(a.value, b.value);
  }
#ifndef ADJOINT_KERNELS_ONLY
  static void check(const Tensor* in, DType type) { refuse_zero_divisor(name, in, type); }
#endif
};

using Division = Family<FloorDivide, TruncDivide, Remainder, Fmod>;

}  // namespace adjoint::inline ADJOINT_ISA
