// Special functions: the error function and its relatives, the gamma function's logarithm and its
// derivatives, the normal distribution.
//
// Formulas: DLMF 7.2 (erf), 5.9 and 5.15 (polygamma). Values hold to a few units in the last place over the
// whole domain, tails included, and so do first derivatives: where the textbook's would magnify a rounding
// error, another form is said.
#pragma once

#include "ops/exponential.h"

namespace adjoint::inline ADJOINT_ISA {

struct RealFunction : FloatFunction {
  static constexpr TypeSet types = types::floating;
};

/// e^(-x²): as elements with the square to twice the precision, which the exponential would magnify.
template <class T>
ADJOINT_INLINE T exp_minus_square(T x) {
  if constexpr (std::is_arithmetic_v<T>)
    return math::exp_minus_square(x);
  else
    return apply<Exp>(-(x * x));
}

struct Erf : RealFunction {
  static constexpr auto name = "erf";
  static constexpr auto doc = "Error function of each element.";
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::erf(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return T(1.12837916709551257390) * exp_minus_square(x.value);
  }
};

struct Erfc : RealFunction {
  static constexpr auto name = "erfc";
  static constexpr auto doc = "1 - erf(x) for each element x, without cancellation.";
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::erfc(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return T(-1.12837916709551257390) * exp_minus_square(x.value);
  }
};

struct Erfinv : RealFunction {
  static constexpr auto name = "erfinv";
  static constexpr auto doc = "Inverse of the error function, for elements in [-1, 1].";
  static constexpr Domain samples{-0.9, 0.9};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::erfinv(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x);
};

struct Digamma;
struct Trigamma;
struct Polygamma;

struct Lgamma : RealFunction {
  static constexpr bool in_vectors = false;
  static constexpr auto name = "lgamma";
  static constexpr auto doc = "Logarithm of the absolute value of the gamma function of each element.";
  static constexpr Domain samples{0.4, 5};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::lgamma(x);
  }
  template <class T>
  static void all(T* out, const T* x, int64_t n) {
    math::lgamma_of_all(out, x, n);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return apply<Digamma>(x.value);
  }
};

struct Digamma : RealFunction {
  static constexpr bool in_vectors = false;
  static constexpr auto name = "digamma";
  static constexpr auto aliases = "psi";
  static constexpr auto doc = "Derivative of lgamma at each element.";
  static constexpr Domain samples{0.4, 5};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::digamma(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return apply<Trigamma>(x.value);
  }
};

struct Trigamma : RealFunction {
  static constexpr bool in_vectors = false;
  static constexpr auto name = "_trigamma";
  static constexpr auto doc =
      "The derivative of digamma at each element. An element at a time: its own derivative is polygamma.";
  static constexpr Domain samples{0.4, 5};
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::trigamma(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return apply<Polygamma>(x.value, T(2));
  }
};

struct Polygamma : RealFunction {
  static constexpr bool in_vectors = false;
  static constexpr auto name = "_polygamma";
  static constexpr auto doc =
      "The n-th derivative of digamma at each element, for whole n from 1. An element at a time: its powers "
      "are the C library's.";
  static constexpr auto parameters = "n=1";
  static constexpr Domain samples{0.4, 5};
  template <class T>
  ADJOINT_INLINE static T forward(T x, T n) {
    return static_cast<T>(math::polygamma(static_cast<double>(x), static_cast<double>(n)));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x, T n) {
    return apply<Polygamma>(x.value, n + T(1));
  }
};

// --- The normal distribution ----------------------------------------------------------------------

/// Not for users, who find them in `special`.
struct NormalFunction : RealFunction {
  static constexpr bool inplace = false;
  static constexpr bool method = false;
};

struct Ndtr : NormalFunction {
  static constexpr auto name = "_ndtr";
  static constexpr auto doc = "The normal distribution function of each element.";
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::ndtr(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    if constexpr (std::is_arithmetic_v<T>)
      return T(0.39894228040143267794) * math::exp_minus_half_square(x.value);
    else
      return T(0.39894228040143267794) * apply<Exp>(T(-0.5) * (x.value * x.value));
  }
};

struct NormalHazard : NormalFunction {
  static constexpr auto name = "_normal_hazard";
  static constexpr auto doc =
      "The derivative of log_ndtr: the normal density over the distribution function of each element.";
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::normal_hazard(x);
  }
  // -y (x + y), which cancels far to the left: there the series in 1/x² that follows from DLMF 7.12.1.
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x, Result<T> y) {
    const auto far = x.value < T(-20);
    const T u = T(1) / select(far, x.value, T(-20)), z = u * u;
    return select(far, z * (T(1) - z * (T(6) - z * (T(50) - z * T(518)))) - T(1),
                  -(y.value * (x.value + select(far, T(0), y.value))));
  }
};

struct LogNdtr : NormalFunction {
  static constexpr auto name = "_log_ndtr";
  static constexpr auto doc =
      "The logarithm of the normal distribution function of each element, also where that vanishes.";
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return math::log_ndtr(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return apply<NormalHazard>(x.value);
  }
};

/// The derivative of ndtri where it is y at p <= 1/2: the density is p times the hazard, which does not
/// magnify the rounding of y. At p = 0 it is infinite, and so are its own derivatives.
template <class T>
ADJOINT_INLINE T inverse_slope(T y, T p) {
  const auto end = p == T(0);
  const auto at_end = [&] {
    if constexpr (std::is_arithmetic_v<T>)
      return T(math::infinity<double>);
    else {
      const T z = select(end, y, T(0));
      return apply<Exp>(z * z);
    }
  };
  return select(end, at_end(), T(1) / (select(end, T(1), p) * apply<NormalHazard>(select(end, T(-1), y))));
}

struct Ndtri : NormalFunction {
  static constexpr auto name = "_ndtri";
  static constexpr auto doc = "The inverse of the normal distribution function, for elements in [0, 1].";
  static constexpr Domain samples{0.05, 0.95};
  template <class T>
  ADJOINT_INLINE static T forward(T p) {
    return math::ndtri(p);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> p, Result<T> y) {
    const auto left = p.value < T(0.5);
    return inverse_slope(select(left, y.value, -y.value), select(left, p.value, T(1) - p.value));
  }
};

template <class T>
ADJOINT_INLINE T Erfinv::derivative(First<T> x) {
  // The square and the exponential of a float's result would cost digits.
  if constexpr (std::is_same_v<T, float>) return math::erfinv_slope(x.value);
  const T y = apply<Erfinv>(x.value);
  // erfinv(x) is ndtri((1 + x) / 2) over the root of 2.
  const T root(1.41421356237309504880);
  const auto left = x.value < T(0);
  return T(0.35355339059327376220) *
         inverse_slope(root * select(left, y, -y), T(0.5) * (T(1) + select(left, x.value, -x.value)));
}

using Special =
    Family<Erf, Erfc, Erfinv, Lgamma, Digamma, Trigamma, Polygamma, Ndtr, NormalHazard, LogNdtr, Ndtri>;

}  // namespace adjoint::inline ADJOINT_ISA
