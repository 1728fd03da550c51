// Element-wise halves of the gradients of reductions: an input, what it was reduced to, and the gradient of
// that meet by broadcasting, in one pass; and the terms of a loss. Being operators, they bring their own
// derivatives.
#pragma once

#include "ops/activation.h"
#include "ops/contract/op.h"
#include "ops/exponential.h"

namespace adjoint::inline ADJOINT_ISA {

/// Not for users: called by the rules of reductions.
struct SpreadOp : Ternary {
  static constexpr bool inplace = false;
};

struct CentredTimes : SpreadOp {
  static constexpr auto name = "_centred_times";
  static constexpr auto doc = "(self - other) * third: the gradient of a variance.";
  template <class T>
  ADJOINT_INLINE static T forward(T x, T mean, T g) {
    return (x - mean) * g;
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, Third<T> g) {
    return g.value;
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, Third<T> g) {
    return -g.value;
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<2>, First<T> x, Second<T> mean) {
    return x.value - mean.value;
  }
};

struct ExpTimes : SpreadOp {
  static constexpr bool in_vectors = true;
  static constexpr auto name = "_exp_times";
  static constexpr auto doc =
      "exp(self - other) * third: the gradient of a logarithm of summed exponentials.";
  // Where all elements were -inf, so is what they were reduced to, and none has a share.
  template <class T>
  ADJOINT_INLINE static T forward(T x, T total, T g) {
    if constexpr (is_complex_v<T>)
      return math::exp(x - select(total.re == -math::infinity<real_t<T>>, T(0), total)) * g;
    else
      return math::exp(x - (total == -math::infinity<T> ? T(0) : total)) * g;
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, Result<T> y) {
    return y.value;
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, Result<T> y) {
    return -y.value;
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<2>, First<T> x, Second<T> total) {
    return apply<ExpTimes>(x.value, total.value, T(1));
  }
};

struct MinusExpTimes : SpreadOp {
  static constexpr bool in_vectors = true;
  static constexpr auto name = "_minus_exp_times";
  static constexpr auto doc =
      "-exp(self) * other * third: how the gradient of log_softmax depends on its result.";
  static constexpr TypeSet types = types::floating;
  template <class T>
  ADJOINT_INLINE static T forward(T x, T a, T b) {
    return -math::exp(x) * (a * b);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, Result<T> y) {
    return y.value;
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, First<T> x, Third<T> b) {
    return apply<MinusExpTimes>(x.value, T(1), b.value);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<2>, First<T> x, Second<T> a) {
    return apply<MinusExpTimes>(x.value, a.value, T(1));
  }
};

struct WhereEqual : SpreadOp {
  static constexpr auto name = "_where_equal";
  static constexpr auto doc =
      "third where self equals other, else 0: the gradient of an extreme. A NaN as other equals NaN; or, if "
      "not nan_equals, makes everything NaN.";
  static constexpr auto parameters = "nan_equals=1.0";
  static constexpr TypeSet types = types::floating;
  template <class T>
  ADJOINT_INLINE static T forward(T x, T extreme, T g, T nan_equals) {
    const T elsewhere = extreme == extreme || nan_equals != T(0) ? T(0) : extreme;
    return x == extreme || (x != x && extreme != extreme && nan_equals != T(0)) ? g : elsewhere;
  }
  template <class T>
  static Zero derivative(Wrt<0>, T) {
    return {};
  }
  template <class T>
  static Zero derivative(Wrt<1>, T) {
    return {};
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<2>, First<T> x, Second<T> extreme, T nan_equals) {
    return apply<WhereEqual>(x.value, extreme.value, T(1), nan_equals);
  }
};

struct RatioOrZero : Binary {
  static constexpr auto name = "_ratio_or_zero";
  static constexpr auto doc = "self / other, and 0 where other is 0: the gradient of a norm at its kink.";
  static constexpr bool inplace = false;
  static constexpr Domain samples{0.5, 3};
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    const bool zero = b == T(0);
    return select(zero, T(0), a / select(zero, T(1), b));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, Second<T> b) {
    return apply<RatioOrZero>(T(1), b.value);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, Second<T> b, Result<T> q) {
    return -apply<RatioOrZero>(q.value, b.value);
  }
};

struct BceTerms : SpreadOp {
  static constexpr bool in_vectors = true;
  static constexpr auto name = "_bce_terms";
  static constexpr auto doc =
      "The terms of binary cross-entropy: logits self, targets other, weights of the positives third.";
  static constexpr TypeSet types = types::floating;
  // With s the sigmoid, -log s(x) = softplus(-x) and -log(1 - s(x)) = x + softplus(-x).
  template <class T>
  ADJOINT_INLINE static T forward(T x, T t, T p) {
    // One product in each sum, so that every loop fuses the same one.
    const T right = math::softplus1(-x);
    return (T(1) - t) * x + ((p - T(1)) * t * right + right);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, First<T> x, Second<T> t, Third<T> p) {
    return (T(1) - t.value) - (T(1) + (p.value - T(1)) * t.value) * apply<Sigmoid>(-x.value);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, First<T> x, Third<T> p) {
    return -x.value - (p.value - T(1)) * apply<LogSigmoid>(x.value);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<2>, First<T> x, Second<T> t) {
    return -t.value * apply<LogSigmoid>(x.value);
  }
};

/// Quadratic where the inputs are near, linear elsewhere: see `nn.functional`.
struct KinkedLoss : Binary {
  static constexpr bool inplace = false;
  static constexpr bool method = false;
  static constexpr bool promotes_integers = true;
  static constexpr TypeSet types = types::floating;
  /// The sign of d, 0 at 0.
  template <class T>
  ADJOINT_INLINE static T side(T d) {
    return select(d > T(0), T(1), select(d < T(0), T(-1), d));
  }
};

struct SmoothL1 : KinkedLoss {
  static constexpr auto name = "_smooth_l1";
  static constexpr auto doc = "With d = self - other: d² / (2 beta) where |d| < beta, else |d| - beta / 2.";
  static constexpr auto parameters = "beta=1.0";
  template <class T>
  ADJOINT_INLINE static T forward(T x, T y, T beta) {
    const T d = x - y, size = math::abs(d);
    return select(size < beta, (d * d) * (T(0.5) / beta), size - T(0.5) * beta);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, First<T> x, Second<T> y, T beta) {
    const T d = x.value - y.value;
    return select(apply<Abs>(d) < beta, d / beta, side(d));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, First<T> x, Second<T> y, T beta) {
    return -derivative(Wrt<0>{}, x, y, beta);
  }
};

struct Huber : KinkedLoss {
  static constexpr auto name = "_huber";
  static constexpr auto doc =
      "With d = self - other: d² / 2 where |d| < delta, else delta (|d| - delta / 2).";
  static constexpr auto parameters = "delta=1.0";
  template <class T>
  ADJOINT_INLINE static T forward(T x, T y, T delta) {
    const T d = x - y, size = math::abs(d);
    return select(size < delta, T(0.5) * (d * d), delta * (size - T(0.5) * delta));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, First<T> x, Second<T> y, T delta) {
    const T d = x.value - y.value;
    return select(apply<Abs>(d) < delta, d, delta * side(d));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, First<T> x, Second<T> y, T delta) {
    return -derivative(Wrt<0>{}, x, y, delta);
  }
};

using Spread =
    Family<CentredTimes, ExpTimes, MinusExpTimes, WhereEqual, RatioOrZero, BceTerms, SmoothL1, Huber>;

}  // namespace adjoint::inline ADJOINT_ISA
