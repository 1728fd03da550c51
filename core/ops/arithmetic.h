// Arithmetic: sums, products, quotients, powers, roots.
//
// Integer division and modulus follow Python (the sign of the divisor); fmod follows C. Derivatives at kinks follow
// the least-norm subgradient: abs, sign and x⁰ at 0 give 0.
#pragma once

#include "ops/op.h"

namespace adjoint::inline ADJOINT_ISA {

struct Add : Binary {
  static constexpr auto name = "add";
  static constexpr auto python = "__add__";
  static constexpr auto doc = "Sum of two tensors, element by element.";
  static constexpr TypeSet types = types::all;
  template <class T> ADJOINT_INLINE static T forward(T a, T b) { return static_cast<T>(a + b); }
  static One derivative(Wrt<0>) { return {}; }
  static One derivative(Wrt<1>) { return {}; }
};

struct Sub : Binary {
  static constexpr auto name = "sub";
  static constexpr auto python = "__sub__";
  static constexpr auto doc = "Difference of two tensors, element by element.";
  static constexpr TypeSet types = types::numeric;
  template <class T> ADJOINT_INLINE static T forward(T a, T b) { return static_cast<T>(a - b); }
  static One derivative(Wrt<0>) { return {}; }
  static MinusOne derivative(Wrt<1>) { return {}; }
};

struct Mul : Binary {
  static constexpr auto name = "mul";
  static constexpr auto python = "__mul__";
  static constexpr auto doc = "Product of two tensors, element by element.";
  static constexpr TypeSet types = types::all;
  template <class T> ADJOINT_INLINE static T forward(T a, T b) {
    if constexpr (std::is_same_v<T, bool>) return a && b;
    else return static_cast<T>(a * b);
  }
  template <class T> ADJOINT_INLINE static T derivative(Wrt<0>, Second<T> b) { return b.value; }
  template <class T> ADJOINT_INLINE static T derivative(Wrt<1>, First<T> a) { return a.value; }
};

struct Div : Binary {
  static constexpr auto name = "div";
  static constexpr auto python = "__truediv__";
  static constexpr auto aliases = "divide, true_divide";
  static constexpr auto doc = "Quotient of two tensors; integers divide as floating-point numbers.";
  static constexpr bool promotes_integers = true;
  static constexpr Domain samples{0.5, 3};
  template <class T> ADJOINT_INLINE static T forward(T a, T b) { return a / b; }
  template <class T> ADJOINT_INLINE static T derivative(Wrt<0>, Second<T> b) { return T(1) / b.value; }
  template <class T> ADJOINT_INLINE static T derivative(Wrt<1>, Second<T> b, Result<T> q) { return -q.value / b.value; }
};

struct Neg : Unary {
  static constexpr auto name = "neg";
  static constexpr auto python = "__neg__";
  static constexpr auto doc = "Negative of each element.";
  static constexpr TypeSet types = types::numeric;
  template <class T> ADJOINT_INLINE static T forward(T x) { return static_cast<T>(-x); }
  static MinusOne derivative() { return {}; }
};

struct Reciprocal : Unary {
  static constexpr auto name = "reciprocal";
  static constexpr auto doc = "One over each element.";
  static constexpr bool promotes_integers = true;
  static constexpr Domain samples{0.4, 3};
  template <class T> ADJOINT_INLINE static T forward(T x) { return T(1) / x; }
  template <class T> ADJOINT_INLINE static T derivative(Result<T> y) { return -(y.value * y.value); }
};

struct Square : Unary {
  static constexpr auto name = "square";
  static constexpr auto doc = "Square of each element.";
  static constexpr TypeSet types = types::numeric;
  template <class T> ADJOINT_INLINE static T forward(T x) { return static_cast<T>(x * x); }
  template <class T> ADJOINT_INLINE static T derivative(First<T> x) { return x.value + x.value; }
};

struct Sqrt : Unary {
  static constexpr auto name = "sqrt";
  static constexpr auto doc = "Square root of each element.";
  static constexpr bool promotes_integers = true;
  static constexpr Domain samples{0.2, 4};
  template <class T> ADJOINT_INLINE static T forward(T x) { return math::sqrt(x); }
  template <class T> ADJOINT_INLINE static T derivative(Result<T> y) { return T(0.5) / y.value; }
};

struct Rsqrt : Unary {
  static constexpr auto name = "rsqrt";
  static constexpr auto doc = "One over the square root of each element.";
  static constexpr bool promotes_integers = true;
  static constexpr Domain samples{0.2, 4};
  template <class T> ADJOINT_INLINE static T forward(T x) { return T(1) / math::sqrt(x); }
  template <class T> ADJOINT_INLINE static T derivative(Result<T> y) { return T(-0.5) * (y.value * y.value * y.value); }
};

using Arithmetic = Family<Add, Sub, Mul, Div, Neg, Reciprocal, Square, Sqrt, Rsqrt>;

}  // namespace adjoint::inline ADJOINT_ISA
