// Trigonometric and hyperbolic functions and their inverses.
//
// Derivatives are the textbook ones (DLMF 4.20, 4.24, 4.34, 4.38). Where one can be had from the result, it
// is: then the input need not be kept. 1 - x² is (1 - x)(1 + x), which keeps its digits near ±1. Complex
// branch cuts are those of C99.
#pragma once

#include "ops/arithmetic.h"

namespace adjoint::inline ADJOINT_ISA {

struct Cos;

/// 1 - x². Recorded, it has its own slope at ±1, -2x: the factors' would be 0 times an infinity.
template <class T>
ADJOINT_INLINE T one_minus_square(T x) {
  const T product = (T(1) - x) * (T(1) + x);
  if constexpr (std::is_arithmetic_v<T> || is_complex_v<T>)
    return product;
  else
    return select(x * x == T(1), T(1) - x * x, product);
}

/// What is near takes the near form beside what is not, too: the bits of an element do not depend on its
/// neighbours.
template <class Op, class T, class Full>
ADJOINT_INLINE T near_or(T x, Full full) {
  if constexpr (std::is_floating_point_v<T>)
    return select(math::abs(x) > T(Op::near), full(x), Op::forward_near(x));
  else
    return full(x);
}

struct Sin : FloatFunction {
  static constexpr auto name = "sin";
  static constexpr auto doc = "Sine of each element, in radians.";
  static constexpr Domain samples{-6, 6};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return near_or<Sin>(x, [](T v) { return math::sin(v); });
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return apply<Cos>(x.value);
  }
  static constexpr double near = math::trigonometric_range;
  template <class T>
  ADJOINT_INLINE static T forward_near(T x) {
    return math::sin_in_range(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative_near(First<T> x) {
    return math::cos_in_range(x.value);
  }
};

struct Cos : FloatFunction {
  static constexpr auto name = "cos";
  static constexpr auto doc = "Cosine of each element, in radians.";
  static constexpr Domain samples{-6, 6};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return near_or<Cos>(x, [](T v) { return math::cos(v); });
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return -apply<Sin>(x.value);
  }
  static constexpr double near = math::trigonometric_range;
  template <class T>
  ADJOINT_INLINE static T forward_near(T x) {
    return math::cos_in_range(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative_near(First<T> x) {
    return -math::sin_in_range(x.value);
  }
};

struct Tan : FloatFunction {
  static constexpr auto name = "tan";
  static constexpr auto doc = "Tangent of each element, in radians.";
  static constexpr Domain samples{-1.2, 1.2};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return near_or<Tan>(x, [](T v) { return math::tan(v); });
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Result<T> y) {
    return T(1) + y.value * y.value;
  }
  static constexpr double near = math::trigonometric_range;
  template <class T>
  ADJOINT_INLINE static T forward_near(T x) {
    return math::tan_in_range(x);
  }
};

struct Asin : FloatFunction {
  static constexpr auto name = "asin";
  static constexpr auto aliases = "arcsin";
  static constexpr auto doc = "Inverse sine of each element, in [-pi/2, pi/2].";
  static constexpr Domain samples{-0.9, 0.9};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::asin(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return apply<Rsqrt>(one_minus_square(x.value));
  }
};

struct Acos : FloatFunction {
  static constexpr auto name = "acos";
  static constexpr auto aliases = "arccos";
  static constexpr auto doc = "Inverse cosine of each element, in [0, pi].";
  static constexpr Domain samples{-0.9, 0.9};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::acos(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return -apply<Rsqrt>(one_minus_square(x.value));
  }
};

struct Atan : FloatFunction {
  static constexpr auto name = "atan";
  static constexpr auto aliases = "arctan";
  static constexpr auto doc = "Inverse tangent of each element, in [-pi/2, pi/2].";
  static constexpr Domain samples{-3, 3};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::atan(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return T(1) / (T(1) + x.value * x.value);
  }
};

struct Sinh : FloatFunction {
  static constexpr auto name = "sinh";
  static constexpr auto doc = "Hyperbolic sine of each element.";
  static constexpr Domain samples{-3, 3};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::sinh(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x);
};

struct Cosh : FloatFunction {
  static constexpr auto name = "cosh";
  static constexpr auto doc = "Hyperbolic cosine of each element.";
  static constexpr Domain samples{-3, 3};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::cosh(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return apply<Sinh>(x.value);
  }
};
template <class T>
ADJOINT_INLINE T Sinh::derivative(First<T> x) {
  return apply<Cosh>(x.value);
}

struct Tanh : FloatFunction {
  static constexpr auto name = "tanh";
  static constexpr auto doc = "Hyperbolic tangent of each element.";
  static constexpr Domain samples{-3, 3};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::tanh(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Result<T> y) {
    return (T(1) - y.value) * (T(1) + y.value);
  }
};

struct Asinh : FloatFunction {
  static constexpr auto name = "asinh";
  static constexpr auto aliases = "arcsinh";
  static constexpr auto doc = "Inverse hyperbolic sine of each element.";
  static constexpr Domain samples{-3, 3};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::asinh(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return apply<Rsqrt>(x.value * x.value + T(1));
  }
};

struct Acosh : FloatFunction {
  static constexpr auto name = "acosh";
  static constexpr auto aliases = "arccosh";
  static constexpr auto doc = "Inverse hyperbolic cosine of each element, for elements of at least 1.";
  static constexpr Domain samples{1.2, 4};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::acosh(x);
  }
  // Not 1/sqrt(x²-1): the product of roots has the right branch on the whole complex plane.
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return apply<Rsqrt>(x.value - T(1)) * apply<Rsqrt>(x.value + T(1));
  }
};

struct Atanh : FloatFunction {
  static constexpr auto name = "atanh";
  static constexpr auto aliases = "arctanh";
  static constexpr auto doc = "Inverse hyperbolic tangent of each element, for elements in (-1, 1).";
  static constexpr Domain samples{-0.9, 0.9};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::atanh(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return T(1) / one_minus_square(x.value);
  }
};

struct Atan2 : Binary {
  static constexpr bool in_vectors = true;
  static constexpr auto name = "atan2";
  static constexpr auto aliases = "arctan2";
  static constexpr auto doc = "Angle of the point (other, self) from the positive axis, in (-pi, pi].";
  static constexpr TypeSet types = types::floating;
  static constexpr bool promotes_integers = true;
  static constexpr Domain samples{0.3, 3};
  template <class T>
  ADJOINT_INLINE static T forward(T y, T x) {
    return math::atan2(y, x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, First<T> y, Second<T> x) {
    return over_square(x.value, y.value, x.value);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, First<T> y, Second<T> x) {
    return over_square(-y.value, y.value, x.value);
  }
  // At the origin, where the angle has none, the gradient is 0.
  template <class T>
  ADJOINT_INLINE static T over_square(T part, T y, T x) {
    const T square = x * x + y * y;
    return part / select(square == T(0), T(1), square);
  }
};

struct Hypot : Binary {
  static constexpr auto name = "hypot";
  static constexpr auto doc = "Length of the hypotenuse, sqrt(self² + other²), without overflow in between.";
  static constexpr TypeSet types = types::floating;
  static constexpr Domain samples{0.3, 3};
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    return math::hypot(a, b);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, First<T> a, Result<T> h) {
    return ratio(a.value, h.value);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, Second<T> b, Result<T> h) {
    return ratio(b.value, h.value);
  }
  // At the origin the subgradient of least norm.
  template <class T>
  ADJOINT_INLINE static T ratio(T a, T h) {
    return select(h == T(0), T(0), a / select(h == T(0), T(1), h));
  }
};

struct Sinc : FloatFunction {
  static constexpr double pi = 3.141592653589793;
  static constexpr auto name = "sinc";
  static constexpr auto doc = "sin(pi x) / (pi x) of each element, 1 at 0.";
  static constexpr Domain samples{-2, 2};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    const T angle = T(pi) * x, one = T(1);
    if constexpr (is_complex_v<T>)
      return select(x == T(0), one, math::sin(angle) / select(x == T(0), one, angle));
    else
      return select(angle == T(0), one, math::sin_pi(x) / select(angle == T(0), one, angle)) + T(0);  // no -0
  }
  // Near 0 by the series, the sum of (-1)^k 2k (πx)^(2k) / (2k+1)!, where the closed form would lose its
  // digits and, at 0, its further derivatives.
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    constexpr double terms[] = {-2.0 / 6,
                                4.0 / 120,
                                -6.0 / 5040,
                                8.0 / 362880,
                                -10.0 / 39916800,
                                12.0 / 6227020800,
                                -14.0 / 1307674368000,
                                16.0 / 355687428096000,
                                -18.0 / 121645100408832000};
    const auto size = apply<Abs>(x.value);
    const auto near = size <= std::remove_const_t<decltype(size)>(0.35);
    const T z = select(near, x.value, T(0)), t = T(pi * pi) * (z * z);
    T series = T(terms[8]);
    // Otherwise it stays a loop, and the loop around it is no vector one.
#pragma GCC unroll 8
    for (int k = 7; k >= 0; --k) series = series * t + T(terms[k]);
    return select(near, T(pi * pi) * z * series,
                  (cosine(x.value) - apply<Sinc>(x.value)) / select(near, T(1), x.value));
  }
  template <class T>
  ADJOINT_INLINE static T cosine(T x) {
    if constexpr (std::is_arithmetic_v<T>)
      return math::cos_pi(x);
    else
      return apply<Cos>(T(pi) * x);
  }
};

using Trigonometric =
    Family<Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, Asinh, Acosh, Atanh, Atan2, Hypot, Sinc>;

}  // namespace adjoint::inline ADJOINT_ISA
