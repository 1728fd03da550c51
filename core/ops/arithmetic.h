// Arithmetic: sums, products, quotients, absolute values, roots. Powers are in ops/power.h, whole quotients
// and remainders in ops/division.h.
//
// Integers wrap around. Derivatives at kinks follow the least-norm subgradient: abs and sign at 0 give 0.
#pragma once

#include <limits>

#include "ops/contract/op.h"

namespace adjoint::inline ADJOINT_ISA {

struct RealPart;

#ifndef ADJOINT_KERNELS_ONLY
/// RuntimeError, with torch's phrase, where an input is bool.
void refuse_bool(const char* what, const Tensor* in, int count);
/// RuntimeError where a tensor among the inputs after the first has another type than that one.
void refuse_mixed_ends(const char* op, const Tensor* in);
#endif

/// A bound given as a parameter, as an element: an end of the range where it lies beyond.
template <class T, class P>
ADJOINT_INLINE T bound(P p) {
  if constexpr (std::is_same_v<T, P>) {
    return p;
  } else {
    constexpr T lowest = std::numeric_limits<T>::lowest(), highest = std::numeric_limits<T>::max();
    return p <= P(lowest) ? lowest : p >= P(highest) ? highest : static_cast<T>(p);
  }
}

/// The real part of a value in a formula, and its conjugate.
template <class T>
ADJOINT_INLINE auto real_of(T x) {
  if constexpr (std::is_arithmetic_v<T>)
    return x;
  else
    return apply<RealPart>(x);
}
template <class T>
ADJOINT_INLINE T conj_of(T x) {
  if constexpr (std::is_arithmetic_v<T>)
    return x;
  else if constexpr (requires { x.conj(); })
    return x.conj();
  else
    return math::conj(x);
}

struct Add : Binary {
  static constexpr auto name = "add";
  static constexpr auto python = "__add__";
  static constexpr auto doc = "Sum of two tensors, element by element.";
  static constexpr TypeSet types = types::all;
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    return static_cast<T>(modular(a) + modular(b));
  }
  static One derivative(Wrt<0>) { return {}; }
  static One derivative(Wrt<1>) { return {}; }
};

struct Sub : Binary {
  static constexpr auto name = "sub";
  static constexpr auto python = "__sub__";
  static constexpr auto aliases = "subtract";
  static constexpr auto doc = "Difference of two tensors, element by element.";
  static constexpr TypeSet types = types::numeric;
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    return static_cast<T>(modular(a) - modular(b));
  }
  static One derivative(Wrt<0>) { return {}; }
  static MinusOne derivative(Wrt<1>) { return {}; }
#ifndef ADJOINT_KERNELS_ONLY
  static void check(const Tensor* in, DType) {
    refuse_bool("Subtraction, the `-` operator, with a bool tensor", in, 2);
  }
#endif
};

// With a scale that is a real number; for others there is ops/composed.h.
struct AddScaled : Binary {
  static constexpr auto name = "_add_scaled";
  static constexpr auto overloads = "add";
  static constexpr auto old_orders = "self, alpha, other";
  static constexpr auto doc = "self + alpha * other.";
  static constexpr auto parameters = "*, alpha";
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b, T alpha) {
    return a + alpha * b;
  }
  template <class T>
  static One derivative(Wrt<0>, T) {
    return {};
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, T alpha) {
    return alpha;
  }
};

struct SubScaled : Binary {
  static constexpr auto name = "_sub_scaled";
  static constexpr auto overloads = "sub";
  static constexpr auto old_orders = "self, alpha, other";
  static constexpr auto doc = "self - alpha * other.";
  static constexpr auto parameters = "*, alpha";
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b, T alpha) {
    return a - alpha * b;
  }
  template <class T>
  static One derivative(Wrt<0>, T) {
    return {};
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, T alpha) {
    return -alpha;
  }
};

struct Mul : Binary {
  static constexpr auto name = "mul";
  static constexpr auto python = "__mul__";
  static constexpr auto aliases = "multiply";
  static constexpr auto doc = "Product of two tensors, element by element.";
  static constexpr TypeSet types = types::all;
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    if constexpr (std::is_same_v<T, bool>)
      return a && b;
    else
      return static_cast<T>(modular(a) * modular(b));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, Second<T> b) {
    return b.value;
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, First<T> a) {
    return a.value;
  }
};

struct Div : Binary {
  static constexpr auto name = "div";
  static constexpr auto python = "__truediv__";
  static constexpr auto aliases = "divide, true_divide";
  static constexpr auto doc = "Quotient of two tensors; integers divide as floating-point numbers.";
  static constexpr bool promotes_integers = true;
  static constexpr Domain samples{0.5, 3};
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    return a / b;
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, Second<T> b) {
    return T(1) / b.value;
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, First<T> a, Second<T> b) {
    return -(a.value / b.value) / b.value;
  }
};

struct Neg : Unary {
  static constexpr auto name = "neg";
  static constexpr bool out_converts = false;
  static constexpr auto python = "__neg__";
  static constexpr auto aliases = "negative";
  static constexpr auto doc = "Negative of each element.";
  static constexpr TypeSet types = types::numeric;
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(0 - modular(x));
    else
      return -x;
  }
  static MinusOne derivative() { return {}; }
#ifndef ADJOINT_KERNELS_ONLY
  static void check(const Tensor* in, DType) {
    refuse_bool("Negation, the `-` operator, on a bool tensor", in, 1);
  }
#endif
};

struct Positive : Unary {
  static constexpr auto name = "positive";
  static constexpr auto python = "__pos__";
  static constexpr auto doc = "The tensor itself.";
  static constexpr TypeSet types = types::numeric;
  static constexpr TypeSet identity = types::numeric;
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return x;
  }
  static One derivative() { return {}; }
};

struct Sign : Unary {
  static constexpr auto name = "sign";
  static constexpr bool out_converts = false;
  static constexpr auto doc = "-1, 0 or 1 as each element is negative, zero or positive; NaN stays.";
  static constexpr TypeSet types = types::boolean | types::real;
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    if constexpr (std::is_same_v<T, bool>)
      return x;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>((x > 0) - (x < 0));
    else
      return math::sign(x);
  }
  static Zero derivative() { return {}; }
};

struct Sgn : Unary {
  static constexpr auto name = "sgn";
  static constexpr bool out_converts = false;
  static constexpr auto doc =
      "Each element over its absolute value, 0 for 0: the sign of a real, the direction of a complex number.";
  static constexpr TypeSet types = types::all;
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    if constexpr (is_complex_v<T>)
      return math::sgn(x);
    else
      return Sign::forward(x);
  }
  // Of a step only the part across the direction y turns it, by 1/|x|; at 0 the least-norm choice.
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> x, Result<T> y);
};

struct Abs : Unary {
  static constexpr auto name = "abs";
  static constexpr auto python = "__abs__";
  static constexpr auto aliases = "absolute";
  static constexpr auto doc = "Absolute value of each element; the modulus, real, of complex numbers.";
  static constexpr TypeSet types = types::numeric;
  static constexpr ResultType result = ResultType::Real;
  template <class T>
  ADJOINT_INLINE static auto forward(T x) {
    if constexpr (std::is_unsigned_v<T>)
      return x;
    else if constexpr (std::is_integral_v<T>)
      return x < 0 ? Neg::forward(x) : x;
    else
      return math::abs(x);
  }
  // sgn(0) is 0, which is the subgradient of least norm; so is the gradient at NaN, which lies on neither
  // side.
  template <class G, class T>
  ADJOINT_INLINE static auto vjp(Wrt<0>, Gradient<G> g, First<T> x) {
    return g.value * side(x.value);
  }
  /// sgn(x), and 0 for NaN.
  template <class T>
  ADJOINT_INLINE static T side(T x) {
    const T s = apply<Sgn>(x);
    return select(s == s, s, T(0));
  }
};

template <class T>
ADJOINT_INLINE T Sgn::vjp(Wrt<0>, Gradient<T> g, First<T> x, Result<T> y) {
  const auto r = apply<Abs>(x.value);
  using R = std::remove_const_t<decltype(r)>;
  return (g.value - y.value * real_of(conj_of(y.value) * g.value)) *
         select(r == R(0), R(0), R(1) / select(r == R(0), R(1), r));
}

struct Reciprocal : FloatFunction {
  static constexpr bool in_vectors = false;
  static constexpr auto name = "reciprocal";
  static constexpr auto doc = "One over each element.";
  static constexpr Domain samples{0.4, 3};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return T(1) / x;
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Result<T> y) {
    return -(y.value * y.value);
  }
};

struct Square : Unary {
  static constexpr auto name = "square";
  static constexpr auto recorded_as = "pow";
  static constexpr auto doc = "Square of each element.";
  static constexpr bool promotes_bool = true;
  static constexpr TypeSet types = types::numeric;
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return Mul::forward(x, x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return x.value + x.value;
  }
};

struct Sqrt : FloatFunction {
  static constexpr bool in_vectors = false;
  static constexpr auto name = "sqrt";
  static constexpr auto doc = "Square root of each element.";
  static constexpr Domain samples{0.2, 4};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::sqrt(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Result<T> y) {
    return T(0.5) / y.value;
  }
};

struct Rsqrt : FloatFunction {
  static constexpr bool in_vectors = false;
  static constexpr auto name = "rsqrt";
  static constexpr auto doc = "One over the square root of each element.";
  static constexpr Domain samples{0.2, 4};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return T(1) / math::sqrt(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Result<T> y) {
    return T(-0.5) * (y.value * y.value * y.value);
  }
};

struct Lerp : Ternary {
  // Of several NaN the result has the same one in the last elements of a vector as in all others.
  static constexpr bool in_vectors = true;
  static constexpr auto name = "lerp";
  static constexpr auto doc =
      "self + weight * (end - self): the point that lies weight of the way from self to end.";
  static constexpr auto inputs = "self, end, weight";
  // From the nearer end, so that weights 0 and 1 give the ends themselves.
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b, T w) {
    return select(math::abs(w) < real_t<T>(0.5), a + w * (b - a), b - (b - a) * (T(1) - w));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, Third<T> w) {
    return T(1) - w.value;
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, Third<T> w) {
    return w.value;
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<2>, First<T> a, Second<T> b) {
    return b.value - a.value;
  }
#ifndef ADJOINT_KERNELS_ONLY
  static void check(const Tensor* in, DType) { refuse_mixed_ends(name, in); }
#endif
};

struct Addcmul : Ternary {
  static constexpr auto name = "addcmul";
  static constexpr auto doc = "self + value * tensor1 * tensor2.";
  static constexpr auto old_orders = "self, value, tensor1, tensor2";
  static constexpr auto inputs = "self, tensor1, tensor2";
  static constexpr auto parameters = "*, value=1";
  static constexpr TypeSet types = types::numeric;
  template <class T, class P>
  ADJOINT_INLINE static T forward(T a, T b, T c, P value) {
    return Add::forward(a, Mul::forward(Mul::forward(convert<T>(value), b), c));
  }
  template <class T>
  static One derivative(Wrt<0>, T) {
    return {};
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, Third<T> c, T value) {
    return value * c.value;
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<2>, Second<T> b, T value) {
    return value * b.value;
  }
};

struct Addcdiv : Ternary {
  static constexpr auto name = "addcdiv";
  static constexpr auto doc = "self + value * tensor1 / tensor2.";
  static constexpr auto old_orders = "self, value, tensor1, tensor2";
  static constexpr auto inputs = "self, tensor1, tensor2";
  static constexpr auto parameters = "*, value=1";
  static constexpr Domain samples{0.5, 3};
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b, T c, T value) {
    return a + value * b / c;
  }
  template <class T>
  static One derivative(Wrt<0>, T) {
    return {};
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, Third<T> c, T value) {
    return value / c.value;
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<2>, Second<T> b, Third<T> c, T value) {
    return -value * b.value / (c.value * c.value);
  }
};

using Arithmetic = Family<Add, Sub, AddScaled, SubScaled, Mul, Div, Neg, Positive, Sign, Sgn, Abs, Reciprocal,
                          Square, Sqrt, Rsqrt, Lerp, Addcmul, Addcdiv>;

}  // namespace adjoint::inline ADJOINT_ISA
