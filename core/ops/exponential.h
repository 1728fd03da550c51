// Exponentials and logarithms, and what is built from them: sigmoid, softplus, logaddexp, xlogy.
//
// Derivatives are the textbook ones (DLMF 4.2, 4.4), from the result where that spares the input. Formulas
// that choose among branches keep the argument of the branch not chosen finite.
#pragma once

#include "ops/arithmetic.h"

namespace adjoint::inline ADJOINT_ISA {

struct IsInf;

struct Exp : FloatFunction {
  static constexpr auto name = "exp";
  static constexpr auto doc = "e to the power of each element.";
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::exp(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Result<T> y) {
    return y.value;
  }
};

struct Exp2 : FloatFunction {
  static constexpr auto name = "exp2";
  static constexpr auto doc = "2 to the power of each element.";
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::exp2(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Result<T> y) {
    return T(0.69314718055994530942) * y.value;
  }
};

struct Expm1 : FloatFunction {
  static constexpr auto name = "expm1";
  static constexpr auto doc = "e^x - 1 for each element x, without cancellation near 0.";
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::expm1(x);
  }
  // Not y + 1, which loses the digits of small slopes.
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return apply<Exp>(x.value);
  }
};

struct Log : FloatFunction {
  static constexpr auto name = "log";
  static constexpr auto doc = "Natural logarithm of each element.";
  static constexpr Domain samples{0.2, 4};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::log(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return T(1) / x.value;
  }
};

struct Log2 : FloatFunction {
  static constexpr auto name = "log2";
  static constexpr auto doc = "Logarithm to base 2 of each element.";
  static constexpr Domain samples{0.2, 4};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::log2(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return T(1.44269504088896340736) / x.value;
  }
};

struct Log10 : FloatFunction {
  static constexpr auto name = "log10";
  static constexpr auto doc = "Logarithm to base 10 of each element.";
  static constexpr Domain samples{0.2, 4};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::log10(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return T(0.43429448190325182765) / x.value;
  }
};

struct Log1p : FloatFunction {
  static constexpr auto name = "log1p";
  static constexpr auto doc = "log(1 + x) for each element x, without cancellation near 0.";
  static constexpr Domain samples{-0.8, 4};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::log1p(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return T(1) / (T(1) + x.value);
  }
};

struct Sigmoid : FloatFunction {
  static constexpr auto name = "sigmoid";
  static constexpr auto aliases = "expit";
  static constexpr auto doc = "1 / (1 + e^-x) for each element x.";
  static constexpr Domain samples{-4, 4};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::sigmoid(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Result<T> y) {
    return y.value * (T(1) - y.value);
  }
};

struct Logit : FloatFunction {
  static constexpr auto name = "logit";
  static constexpr auto doc =
      "log(x / (1 - x)) for each element x, limited to [eps, 1 - eps] first where eps is given.";
  static constexpr auto parameters = "eps=None";
  /// Nothing compares with it, so nothing is limited: as if it were given, too.
  static double absent(int, DType) { return std::numeric_limits<double>::quiet_NaN(); }
  static constexpr TypeSet types = types::floating;
  static constexpr Domain samples{0.1, 0.9};
  template <class T>
  ADJOINT_INLINE static T forward(T x, T eps) {
    const T z = select(x < eps, eps, select(x > T(1) - eps, T(1) - eps, x));
    // Beside its zero at 1/2 the quotient is near 1, and what it is short of 1 is known better.
    const auto middle = math::abs(z - T(0.5)) < T(0.25);
    return select(middle, math::log1p(T(2) * (z - T(0.5)) / (T(1) - z)), math::log(z / (T(1) - z)));
  }
  // Where a limit holds, 0; without one, NaN where there is no value.
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> x, T eps) {
    const auto limited = x.value < eps || x.value > T(1) - eps,
               outside = limited || x.value < T(0) || x.value > T(1);
    const T inner = select(outside, T(0.5), x.value);
    return select(outside, select(limited, T(0), T(math::not_a_number<double>)),
                  g.value / (inner * (T(1) - inner)));
  }
};

struct Softplus : FloatFunction {
  static constexpr auto name = "softplus";
  static constexpr auto doc =
      "log(1 + e^(beta x)) / beta for each element x; x itself where beta x is above threshold.";
  static constexpr auto parameters = "beta=1.0, threshold=20.0";
  static constexpr TypeSet types = types::floating;
  template <class T>
  ADJOINT_INLINE static T forward(T x, T beta, T threshold) {
    const T z = x * beta;
    return select(z > threshold, x, math::softplus1(z) / beta);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x, T beta, T threshold) {
    const T z = x.value * beta;
    // At the threshold the second derivative is that of the right side.
    return select(z > threshold, T(1), apply<Sigmoid>(select(z >= threshold, T(threshold), z)));
  }
};

/// a - b in a sum of exponentials; 0 where both are the same infinity, which share evenly.
template <class T>
ADJOINT_INLINE T exponent_gap(T a, T b) {
  return select(a == b && apply<IsInf>(a), T(0), a - b);
}

struct LogAddExp : Binary {
  static constexpr bool in_vectors = true;
  static constexpr auto name = "logaddexp";
  static constexpr auto doc =
      "log(e^self + e^other) without overflow; of complex numbers, the one with the larger real part stands "
      "before.";
  static constexpr bool promotes_integers = true;
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    if constexpr (is_complex_v<T>) {
      const T high = select(a.re < b.re, b, a), low = select(a.re < b.re, a, b);
      return select(low.re == -math::infinity<real_t<T>>, high, high + math::log1p(math::exp(low - high)));
    } else {
      const T gap = exponent_gap(a, b);
      return select(a < b, b, a) + math::log1p(math::exp(-math::abs(gap)));
    }
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, First<T> a, Second<T> b) {
    return apply<Sigmoid>(exponent_gap(a.value, b.value));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, First<T> a, Second<T> b) {
    return apply<Sigmoid>(exponent_gap(b.value, a.value));
  }
};

struct LogAddExp2 : Binary {
  static constexpr bool in_vectors = true;
  static constexpr auto name = "logaddexp2";
  static constexpr auto doc = "log2(2^self + 2^other) without overflow.";
  static constexpr TypeSet types = types::floating;
  static constexpr bool promotes_integers = true;
  static constexpr double ln2 = 0.69314718055994530942, log2_e = 1.44269504088896340736;
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    const T gap = exponent_gap(a, b);
    return select(a < b, b, a) + T(log2_e) * math::log1p(math::exp2(-math::abs(gap)));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, First<T> a, Second<T> b) {
    return apply<Sigmoid>(T(ln2) * exponent_gap(a.value, b.value));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, First<T> a, Second<T> b) {
    return apply<Sigmoid>(T(ln2) * exponent_gap(b.value, a.value));
  }
};

struct Xlogy : Binary {
  static constexpr bool in_vectors = true;
  static constexpr auto name = "xlogy";
  static constexpr auto doc = "self * log(other), 0 where self is 0 and other is not NaN.";
  static constexpr TypeSet types = types::floating;
  static constexpr bool promotes_integers = true;
  static constexpr Domain samples{0.3, 3};
  template <class T>
  ADJOINT_INLINE static T forward(T x, T y) {
    return select(x == T(0) && y == y, T(0), x * math::log(y));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, First<T> x, Second<T> y) {
    return apply<Log>(select(x.value == T(0) && y.value <= T(0), T(1), y.value));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, First<T> x, Second<T> y) {
    return x.value / select(x.value == T(0) && y.value == T(0), T(1), y.value);
  }
};

struct Xlog1py : Binary {
  static constexpr bool in_vectors = true;
  static constexpr auto name = "_xlog1py";
  static constexpr auto doc = "self * log1p(other), 0 where self is 0 and other is not NaN.";
  static constexpr TypeSet types = types::floating;
  static constexpr bool promotes_integers = true;
  static constexpr bool inplace = false;
  static constexpr bool method = false;
  static constexpr Domain samples{-0.6, 3};
  template <class T>
  ADJOINT_INLINE static T forward(T x, T y) {
    return select(x == T(0) && y == y, T(0), x * math::log1p(y));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, First<T> x, Second<T> y) {
    return apply<Log1p>(select(x.value == T(0) && y.value <= T(-1), T(0), y.value));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, First<T> x, Second<T> y) {
    return x.value / select(x.value == T(0) && y.value == T(-1), T(1), T(1) + y.value);
  }
};

struct Entr : FloatFunction {
  static constexpr auto name = "_entr";
  static constexpr auto doc = "-x log(x) of each element x: 0 at 0, -inf below.";
  static constexpr TypeSet types = types::floating;
  static constexpr bool inplace = false;
  static constexpr bool method = false;
  static constexpr Domain samples{0.2, 4};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return select(x > T(0), -(x * math::log(x)),
                  select(x == T(0), T(0), select(x != x, x, -math::infinity<T>)));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return select(x.value < T(0), T(math::not_a_number<double>), T(-1) - apply<Log>(x.value));
  }
};

/// The parts of frexp.
struct BinaryExponent : Unary {
  static constexpr auto name = "_binary_exponent";
  static constexpr auto doc =
      "The e of x = m 2^e with 1/2 <= |m| < 1 for each element x, as a fraction; 0 for 0, infinities and "
      "NaN.";
  static constexpr TypeSet types = types::floating;
  static constexpr bool inplace = false;
  static constexpr bool method = false;
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::exponent_of(x);
  }
  template <class T>
  static Zero derivative(First<T>) {
    return {};
  }
};
struct BinaryMantissa : Unary {
  static constexpr bool in_vectors = true;
  static constexpr auto name = "_binary_mantissa";
  static constexpr auto doc =
      "The m of x = m 2^e with 1/2 <= |m| < 1 for each element x; 0, infinities and NaN as they are.";
  static constexpr TypeSet types = types::floating;
  static constexpr bool inplace = false;
  static constexpr bool method = false;
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::mantissa_of(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return apply<Exp2>(-apply<BinaryExponent>(x.value));
  }
};

using Exponential = Family<BinaryExponent, BinaryMantissa, Exp, Exp2, Expm1, Log, Log2, Log10, Log1p, Sigmoid,
                           Logit, Softplus, LogAddExp, LogAddExp2, Xlogy, Xlog1py, Entr>;

}  // namespace adjoint::inline ADJOINT_ISA
