// Bessel functions of orders 0 and 1, modified Bessel functions, and Airy's function.
//
// Derivatives: DLMF 10.6.3, 10.29.3, 10.51.2, 9.2.1. Values are computed in double for every type, by one
// loop for all of them
// (`double_block`, ops/contract/loops.h). Users find them in `special`. Start reading at `Values`.
#pragma once

#include "kernels/cpu/math/bessel.h"
#include "ops/special.h"

namespace adjoint::inline ADJOINT_ISA {

/// The value at x of an operator that states
///     in_double(x)  the value at regular x, and any number at others: without branches
///     regular(x)    whether it is that
///     rare(x)       the value elsewhere
/// and, where float has a shorter way, in_float(x), which is right everywhere.
template <class Op>
[[gnu::noinline]] double value_of(double x) {
  return Op::regular(x) ? Op::in_double(x) : Op::rare(x);
}
template <class Op, class Kind>
struct Values : Kind {
  template <class T>
  static T forward(T x) {
    if constexpr (std::is_same_v<T, float> && requires { Op::in_float(x); })
      return Op::in_float(x);
    else
      return T(value_of<Op>(double(x)));
  }
};

/// Not for users, who find them in `special`; `of` takes and gives double.
struct RareFunction : RealFunction {
  static constexpr bool in_vectors = false;
  static constexpr bool inplace = false;
  static constexpr bool method = false;
};

/// y / x, and another number at 0 and where a subnormal y has lost its digits.
template <class T>
ADJOINT_INLINE T over(T y, T x, double at_zero) {
  constexpr double small = 1e-37;
  const T ratio = y / select(x == T(0), T(1), x);
  return select(x > T(small), ratio, select(x < T(-small), ratio, T(at_zero)));
}

struct BesselJ1;
struct BesselJ0 : Values<BesselJ0, RareFunction> {
  static constexpr auto name = "_bessel_j0";
  static constexpr auto doc = "The Bessel function of the first kind of order 0 at each element.";
  ADJOINT_INLINE static double in_double(double x) { return math::bessel_j<0>(x); }
  ADJOINT_INLINE static bool regular(double x) { return math::abs(x) <= math::trigonometric_range; }
  static double rare(double x) { return math::bessel_j_large<0>(x); }
  template <class T>
  static T derivative(First<T> x) {
    return -apply<BesselJ1>(x.value);
  }
};
struct BesselJ1 : Values<BesselJ1, RareFunction> {
  static constexpr auto name = "_bessel_j1";
  static constexpr auto doc = "The Bessel function of the first kind of order 1 at each element.";
  ADJOINT_INLINE static double in_double(double x) { return math::bessel_j<1>(x); }
  ADJOINT_INLINE static bool regular(double x) { return math::abs(x) <= math::trigonometric_range; }
  static double rare(double x) { return math::bessel_j_large<1>(x); }
  template <class T>
  static T derivative(First<T> x, Result<T> y) {
    return apply<BesselJ0>(x.value) - over(y.value, x.value, 0.5);
  }
};

struct BesselY1;
struct BesselY0 : Values<BesselY0, RareFunction> {
  static constexpr auto name = "_bessel_y0";
  static constexpr auto doc =
      "The Bessel function of the second kind of order 0 at each element, NaN below 0.";
  static constexpr Domain samples{0.5, 5};
  ADJOINT_INLINE static double in_double(double x) { return math::bessel_y<0>(x); }
  ADJOINT_INLINE static bool regular(double x) { return x > 0 && x <= math::trigonometric_range; }
  static double rare(double x) { return math::bessel_y_large<0>(x); }
  template <class T>
  static T derivative(First<T> x) {
    return -apply<BesselY1>(x.value);
  }
};
struct BesselY1 : Values<BesselY1, RareFunction> {
  static constexpr auto name = "_bessel_y1";
  static constexpr auto doc =
      "The Bessel function of the second kind of order 1 at each element, NaN below 0.";
  static constexpr Domain samples{0.5, 5};
  ADJOINT_INLINE static double in_double(double x) { return math::bessel_y<1>(x); }
  ADJOINT_INLINE static bool regular(double x) { return x > 0 && x <= math::trigonometric_range; }
  static double rare(double x) { return math::bessel_y_large<1>(x); }
  template <class T>
  static T derivative(First<T> x, Result<T> y) {
    return apply<BesselY0>(x.value) - y.value / x.value;
  }
};

// --- Modified -------------------------------------------------------------------------------------

struct BesselI1;
struct BesselI0 : Values<BesselI0, RealFunction> {
  static constexpr bool in_vectors = false;
  static constexpr auto name = "i0";
  static constexpr auto doc = "The modified Bessel function of the first kind of order 0 at each element.";
  ADJOINT_INLINE static double in_double(double x) { return math::bessel_i<0, false>(x); }
  ADJOINT_INLINE static bool regular(double x) { return math::abs(x) < 700; }
  static double rare(double x) { return math::bessel_i_large<0>(x); }
  template <class T>
  static T derivative(First<T> x) {
    return apply<BesselI1>(x.value);
  }
};
struct BesselI1 : Values<BesselI1, RareFunction> {
  static constexpr auto name = "_i1";
  static constexpr auto doc = "The modified Bessel function of the first kind of order 1 at each element.";
  ADJOINT_INLINE static double in_double(double x) { return math::bessel_i<1, false>(x); }
  ADJOINT_INLINE static bool regular(double x) { return math::abs(x) < 700; }
  static double rare(double x) { return math::bessel_i_large<1>(x); }
  template <class T>
  static T derivative(First<T> x, Result<T> y) {
    return apply<BesselI0>(x.value) - over(y.value, x.value, 0.5);
  }
};

/// 1 and -1 by the sign of x; 0 at 0.
template <class T>
ADJOINT_INLINE T sign_of(T x) {
  return select(x > T(0), T(1), select(x < T(0), T(-1), T(0)));
}

struct BesselI1Scaled;
struct BesselI0Scaled : Values<BesselI0Scaled, RareFunction> {
  static constexpr auto name = "_i0e";
  static constexpr auto doc = "i0(x) e^-|x| for each element x.";
  ADJOINT_INLINE static double in_double(double x) { return math::bessel_i<0, true>(x); }
  ADJOINT_INLINE static bool regular(double x) { return x == x; }
  static double rare(double x) { return x; }
  ADJOINT_INLINE static float in_float(float x) { return math::bessel_i<0, true>(x); }
  template <class T>
  static T derivative(First<T> x, Result<T> y) {
    return apply<BesselI1Scaled>(x.value) - sign_of(x.value) * y.value;
  }
};
struct BesselI1Scaled : Values<BesselI1Scaled, RareFunction> {
  static constexpr auto name = "_i1e";
  static constexpr auto doc = "i1(x) e^-|x| for each element x.";
  ADJOINT_INLINE static double in_double(double x) { return math::bessel_i<1, true>(x); }
  ADJOINT_INLINE static bool regular(double x) { return x == x; }
  static double rare(double x) { return x; }
  ADJOINT_INLINE static float in_float(float x) { return math::bessel_i<1, true>(x); }
  template <class T>
  static T derivative(First<T> x, Result<T> y) {
    return apply<BesselI0Scaled>(x.value) - sign_of(x.value) * y.value - over(y.value, x.value, 0.5);
  }
};

struct BesselK1;
struct BesselK0 : Values<BesselK0, RareFunction> {
  static constexpr auto name = "_modified_bessel_k0";
  static constexpr auto doc =
      "The modified Bessel function of the second kind of order 0 at each element, NaN below 0.";
  static constexpr Domain samples{0.3, 5};
  ADJOINT_INLINE static double in_double(double x) { return math::bessel_k<0, false>(x); }
  ADJOINT_INLINE static bool regular(double x) { return x > 0 && x <= math::Bits<double>::largest; }
  static double rare(double x) { return math::bessel_k_end(x); }
  template <class T>
  static T derivative(First<T> x) {
    return -apply<BesselK1>(x.value);
  }
};
struct BesselK1 : Values<BesselK1, RareFunction> {
  static constexpr auto name = "_modified_bessel_k1";
  static constexpr auto doc =
      "The modified Bessel function of the second kind of order 1 at each element, NaN below 0.";
  static constexpr Domain samples{0.3, 5};
  ADJOINT_INLINE static double in_double(double x) { return math::bessel_k<1, false>(x); }
  ADJOINT_INLINE static bool regular(double x) { return x > 0 && x <= math::Bits<double>::largest; }
  static double rare(double x) { return math::bessel_k_end(x); }
  template <class T>
  static T derivative(First<T> x, Result<T> y) {
    return -(apply<BesselK0>(x.value) + y.value / x.value);
  }
};

struct BesselK1Scaled;
struct BesselK0Scaled : Values<BesselK0Scaled, RareFunction> {
  static constexpr auto name = "_scaled_modified_bessel_k0";
  static constexpr auto doc = "modified_bessel_k0(x) e^x for each element x, NaN below 0.";
  static constexpr Domain samples{0.3, 5};
  ADJOINT_INLINE static double in_double(double x) { return math::bessel_k<0, true>(x); }
  ADJOINT_INLINE static bool regular(double x) { return x > 0 && x <= math::Bits<double>::largest; }
  static double rare(double x) { return math::bessel_k_end(x); }
  template <class T>
  static T derivative(First<T> x, Result<T> y) {
    return y.value - apply<BesselK1Scaled>(x.value);
  }
};
struct BesselK1Scaled : Values<BesselK1Scaled, RareFunction> {
  static constexpr auto name = "_scaled_modified_bessel_k1";
  static constexpr auto doc = "modified_bessel_k1(x) e^x for each element x, NaN below 0.";
  static constexpr Domain samples{0.3, 5};
  ADJOINT_INLINE static double in_double(double x) { return math::bessel_k<1, true>(x); }
  ADJOINT_INLINE static bool regular(double x) { return x > 0 && x <= math::Bits<double>::largest; }
  static double rare(double x) { return math::bessel_k_end(x); }
  template <class T>
  static T derivative(First<T> x, Result<T> y) {
    return y.value - apply<BesselK0Scaled>(x.value) - y.value / x.value;
  }
};

// --- Spherical, and Airy's ------------------------------------------------------------------------

struct SphericalBesselJ1;
struct SphericalBesselJ0 : Values<SphericalBesselJ0, RareFunction> {
  static constexpr auto name = "_spherical_bessel_j0";
  static constexpr auto doc = "The spherical Bessel function sin(x) / x at each element, 1 at 0.";
  ADJOINT_INLINE static double in_double(double x) { return math::spherical_bessel_j0(x); }
  ADJOINT_INLINE static bool regular(double x) { return math::abs(x) <= math::trigonometric_range; }
  static double rare(double x) { return math::spherical_bessel_j0_large(x); }
  template <class T>
  static T derivative(First<T> x) {
    return -apply<SphericalBesselJ1>(x.value);
  }
};
struct SphericalBesselJ1 : RareFunction {
  static constexpr auto name = "_spherical_bessel_j1";
  static constexpr auto doc =
      "The spherical Bessel function of order 1 at each element. An element at a time: ranges have formulas "
      "of their own.";
  template <class T>
  static T forward(T x) {
    return T(math::spherical_bessel_j1(double(x)));
  }
  template <class T>
  static T derivative(First<T> x, Result<T> y) {
    return apply<SphericalBesselJ0>(x.value) - T(2) * over(y.value, x.value, 0.33333333333333333333);
  }
};

struct AirySlope;
struct AiryAi : RareFunction {
  static constexpr auto name = "_airy_ai";
  static constexpr auto doc =
      "Airy's function Ai at each element. An element at a time: ranges have formulas of their own.";
  template <class T>
  static T forward(T x) {
    return T(math::airy<false>(double(x)));
  }
  template <class T>
  static T derivative(First<T> x) {
    return apply<AirySlope>(x.value);
  }
};
struct AirySlope : RareFunction {
  static constexpr auto name = "_airy_ai_slope";
  static constexpr auto doc =
      "The derivative of Airy's function Ai at each element. An element at a time: ranges have formulas of "
      "their own.";
  template <class T>
  static T forward(T x) {
    return T(math::airy<true>(double(x)));
  }
  template <class T>
  static T derivative(First<T> x) {
    return x.value * apply<AiryAi>(x.value);
  }
};

using Bessel = Family<BesselJ0, BesselJ1, BesselY0, BesselY1, BesselI0, BesselI1, BesselI0Scaled,
                      BesselI1Scaled, BesselK0, BesselK1, BesselK0Scaled, BesselK1Scaled, SphericalBesselJ0,
                      SphericalBesselJ1, AiryAi, AirySlope>;

}  // namespace adjoint::inline ADJOINT_ISA
