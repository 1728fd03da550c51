// Rounding, and taking numbers apart: whole and fractional parts, signs.
//
// Steps have the derivative 0 everywhere, at their edges too. Integers are already whole.
#pragma once

#include "ops/arithmetic.h"

namespace adjoint::inline ADJOINT_ISA {

#ifndef ADJOINT_KERNELS_ONLY
/// RuntimeError where two tensors have different types.
void refuse_mixed_steps(const char* op, const Tensor* in);
#endif

struct Step : Unary {
  static constexpr bool out_converts = false;
  static constexpr TypeSet types = types::real;
  static Zero derivative() { return {}; }
};

struct Floor : Step {
  static constexpr auto name = "floor";
  static constexpr auto doc = "The largest integer not above each element.";
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    if constexpr (std::is_integral_v<T>)
      return x;
    else
      return math::floor(x);
  }
};

struct Ceil : Step {
  static constexpr auto name = "ceil";
  static constexpr auto doc = "The smallest integer not below each element.";
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    if constexpr (std::is_integral_v<T>)
      return x;
    else
      return math::ceil(x);
  }
};

struct Trunc : Step {
  static constexpr auto name = "trunc";
  static constexpr auto aliases = "fix";
  static constexpr auto doc = "Truncate each element towards zero.";
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    if constexpr (std::is_integral_v<T>)
      return x;
    else
      return math::trunc(x);
  }
};

struct Round : Step {
  static constexpr auto name = "round";
  static constexpr auto doc = "Round each element to the nearest integer, halves to even.";
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    if constexpr (std::is_integral_v<T>)
      return x;
    else
      return math::round(x);
  }
};

struct RoundDecimals : Unary {
  static constexpr auto name = "_round_decimals";
  static constexpr bool out_converts = false;
  static constexpr auto doc = "Each element to the nearest multiple of 10^-decimals.";
  static constexpr auto overloads = "round";
  static constexpr auto parameters = "*, decimals=0";
  static constexpr TypeSet types = types::floating;
  template <class T>
  ADJOINT_INLINE static T forward(T x, T decimals) {
    const T scale = power_of_ten(math::abs(decimals));
    return decimals < T(0) ? math::round(x / scale) * scale : math::round(x * scale) / scale;
  }
  template <class T>
  static Zero derivative(T) {
    return {};
  }
  template <class T>
  static T power_of_ten(T n) {
    T p = 1;
    for (; n > T(0) && p < std::numeric_limits<T>::infinity(); n -= T(1)) p *= T(10);
    return p;
  }
};

struct Frac : Unary {
  static constexpr auto name = "frac";
  static constexpr bool out_converts = false;
  static constexpr auto doc = "Fractional part of each element, with its sign.";
  static constexpr TypeSet types = types::floating;
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return x - math::trunc(x);
  }
  static One derivative() { return {}; }
};

struct Copysign : Binary {
  static constexpr auto name = "copysign";
  static constexpr auto doc = "The magnitude of self with the sign of other.";
  static constexpr TypeSet types = types::floating;
  static constexpr bool promotes_integers = true;
  template <class T>
  ADJOINT_INLINE static T forward(T x, T s) {
    return math::copysign(x, s);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, First<T> x, Result<T> y) {
    return apply<Sign>(x.value) * apply<Sign>(y.value);
  }
  static Zero derivative(Wrt<1>) { return {}; }
};

struct Heaviside : Binary {
  static constexpr auto name = "heaviside";
  static constexpr bool out_converts = false;
  static constexpr auto doc =
      "Heaviside step function: 0 where self is negative, 1 where it is positive, values where it is 0.";
  static constexpr auto inputs = "self, values";
  static constexpr TypeSet types = types::boolean | types::real;
  template <class T>
  ADJOINT_INLINE static T forward(T x, T v) {
    return x == T(0) ? v : select(x != x, x, T(x > T(0)));
  }
  static Zero derivative(Wrt<0>) { return {}; }
  template <class G, class T>
  ADJOINT_INLINE static G vjp(Wrt<1>, Gradient<G> g, First<T> x) {
    return select(x.value == T(0), g.value, G(0));
  }
#ifndef ADJOINT_KERNELS_ONLY
  static void check(const Tensor* in, DType) { refuse_mixed_steps(name, in); }
#endif
};

struct NextAfter : Binary {
  static constexpr auto name = "_nextafter";
  static constexpr auto doc =
      "The next number of the type after self on the way to other; other where they are equal.";
  /// Loops over half types compute as float, whose next numbers are others.
  static constexpr TypeSet types = types::bit(DType::Float32) | types::bit(DType::Float64);
  static constexpr bool inplace = false;
  static constexpr bool method = false;
  template <class T>
  ADJOINT_INLINE static T forward(T x, T y) {
    // Numbers of one sign are ordered as their bits are; at zero the smallest number of the other's sign
    // follows.
    const auto bits = math::to_bits(x);
    using U = std::remove_const_t<decltype(bits)>;
    const T stepped = math::from_bits(bits + ((y > x) == (x > T(0)) ? U(1) : U(0) - U(1)));
    const T least = math::copysign(math::from_bits(U(1)), y);
    const T next = x == T(0) ? least : stepped;
    const T moved = x == y ? y : next;
    return ((x == x) & (y == y)) ? moved : x + y;
  }
  template <class G, class T>
  ADJOINT_INLINE static G vjp(Wrt<0>, Gradient<G> g, First<T> x, Second<T> y) {
    return select(x.value == y.value, G(0), g.value);
  }
  static Zero derivative(Wrt<1>) { return {}; }
};

using Rounding = Family<Floor, Ceil, Trunc, Round, RoundDecimals, Frac, Copysign, Heaviside, NextAfter>;

}  // namespace adjoint::inline ADJOINT_ISA
