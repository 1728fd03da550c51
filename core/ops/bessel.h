// Bessel functions of orders 0 and 1, modified Bessel functions, and Airy's function.
//
// Derivatives: DLMF 10.6.3, 10.29.3, 10.51.2, 9.2.1. Values are computed in double for every type, by code that is compiled
// once (bessel.isa.cpp): few programs spend their time here. Users find them in `special`. Start reading at `RareFunction`.
#pragma once

#include "kernels/cpu/math/bessel.h"
#include "ops/special.h"

namespace adjoint::inline ADJOINT_ISA {

/// Not for users, who find them in `special`; `of` takes and gives double.
struct RareFunction : RealFunction {
  static constexpr bool inplace = false;
  static constexpr bool method = false;
};

/// y / x, and another number at 0.
template <class T> ADJOINT_INLINE T over(T y, T x, double at_zero) {
  const auto zero = x == T(0);
  return select(zero, T(at_zero), y / select(zero, T(1), x));
}

struct BesselJ1;
struct BesselJ0 : RareFunction {
  static constexpr auto name = "_bessel_j0";
  static constexpr auto doc = "The Bessel function of the first kind of order 0 at each element.";
  template <class T> static T forward(T x) { return T(math::bessel_j(double(x), 0)); }
  template <class T> static T derivative(First<T> x) { return -apply<BesselJ1>(x.value); }
};
struct BesselJ1 : RareFunction {
  static constexpr auto name = "_bessel_j1";
  static constexpr auto doc = "The Bessel function of the first kind of order 1 at each element.";
  template <class T> static T forward(T x) { return T(math::bessel_j(double(x), 1)); }
  template <class T> static T derivative(First<T> x, Result<T> y) { return apply<BesselJ0>(x.value) - over(y.value, x.value, 0.5); }
};

struct BesselY1;
struct BesselY0 : RareFunction {
  static constexpr auto name = "_bessel_y0";
  static constexpr auto doc = "The Bessel function of the second kind of order 0 at each element, NaN below 0.";
  static constexpr Domain samples{0.5, 5};
  template <class T> static T forward(T x) { return T(math::bessel_y(double(x), 0)); }
  template <class T> static T derivative(First<T> x) { return -apply<BesselY1>(x.value); }
};
struct BesselY1 : RareFunction {
  static constexpr auto name = "_bessel_y1";
  static constexpr auto doc = "The Bessel function of the second kind of order 1 at each element, NaN below 0.";
  static constexpr Domain samples{0.5, 5};
  template <class T> static T forward(T x) { return T(math::bessel_y(double(x), 1)); }
  template <class T> static T derivative(First<T> x, Result<T> y) { return apply<BesselY0>(x.value) - y.value / x.value; }
};

// --- Modified ----------------------------------------------------------------------------------------------------------

struct BesselI1;
struct BesselI0 : RealFunction {
  static constexpr auto name = "i0";
  static constexpr auto doc = "The modified Bessel function of the first kind of order 0 at each element.";
  template <class T> static T forward(T x) { return T(math::bessel_i(double(x), 0, false)); }
  template <class T> static T derivative(First<T> x) { return apply<BesselI1>(x.value); }
};
struct BesselI1 : RareFunction {
  static constexpr auto name = "_i1";
  static constexpr auto doc = "The modified Bessel function of the first kind of order 1 at each element.";
  template <class T> static T forward(T x) { return T(math::bessel_i(double(x), 1, false)); }
  template <class T> static T derivative(First<T> x, Result<T> y) { return apply<BesselI0>(x.value) - over(y.value, x.value, 0.5); }
};

/// 1 and -1 by the sign of x; 0 at 0.
template <class T> ADJOINT_INLINE T sign_of(T x) { return select(x > T(0), T(1), select(x < T(0), T(-1), T(0))); }

struct BesselI1Scaled;
struct BesselI0Scaled : RareFunction {
  static constexpr auto name = "_i0e";
  static constexpr auto doc = "i0(x) e^-|x| for each element x.";
  template <class T> static T forward(T x) { return T(math::bessel_i(double(x), 0, true)); }
  template <class T> static T derivative(First<T> x, Result<T> y) { return apply<BesselI1Scaled>(x.value) - sign_of(x.value) * y.value; }
};
struct BesselI1Scaled : RareFunction {
  static constexpr auto name = "_i1e";
  static constexpr auto doc = "i1(x) e^-|x| for each element x.";
  template <class T> static T forward(T x) { return T(math::bessel_i(double(x), 1, true)); }
  template <class T> static T derivative(First<T> x, Result<T> y) {
    return apply<BesselI0Scaled>(x.value) - sign_of(x.value) * y.value - over(y.value, x.value, 0.5);
  }
};

struct BesselK1;
struct BesselK0 : RareFunction {
  static constexpr auto name = "_modified_bessel_k0";
  static constexpr auto doc = "The modified Bessel function of the second kind of order 0 at each element, NaN below 0.";
  static constexpr Domain samples{0.3, 5};
  template <class T> static T forward(T x) { return T(math::bessel_k(double(x), 0, false)); }
  template <class T> static T derivative(First<T> x) { return -apply<BesselK1>(x.value); }
};
struct BesselK1 : RareFunction {
  static constexpr auto name = "_modified_bessel_k1";
  static constexpr auto doc = "The modified Bessel function of the second kind of order 1 at each element, NaN below 0.";
  static constexpr Domain samples{0.3, 5};
  template <class T> static T forward(T x) { return T(math::bessel_k(double(x), 1, false)); }
  template <class T> static T derivative(First<T> x, Result<T> y) { return -(apply<BesselK0>(x.value) + y.value / x.value); }
};

struct BesselK1Scaled;
struct BesselK0Scaled : RareFunction {
  static constexpr auto name = "_scaled_modified_bessel_k0";
  static constexpr auto doc = "modified_bessel_k0(x) e^x for each element x, NaN below 0.";
  static constexpr Domain samples{0.3, 5};
  template <class T> static T forward(T x) { return T(math::bessel_k(double(x), 0, true)); }
  template <class T> static T derivative(First<T> x, Result<T> y) { return y.value - apply<BesselK1Scaled>(x.value); }
};
struct BesselK1Scaled : RareFunction {
  static constexpr auto name = "_scaled_modified_bessel_k1";
  static constexpr auto doc = "modified_bessel_k1(x) e^x for each element x, NaN below 0.";
  static constexpr Domain samples{0.3, 5};
  template <class T> static T forward(T x) { return T(math::bessel_k(double(x), 1, true)); }
  template <class T> static T derivative(First<T> x, Result<T> y) { return y.value - apply<BesselK0Scaled>(x.value) - y.value / x.value; }
};

// --- Spherical, and Airy's ---------------------------------------------------------------------------------------------

struct SphericalBesselJ1;
struct SphericalBesselJ0 : RareFunction {
  static constexpr auto name = "_spherical_bessel_j0";
  static constexpr auto doc = "The spherical Bessel function sin(x) / x at each element, 1 at 0.";
  template <class T> static T forward(T x) { return T(math::spherical_bessel_j0(double(x))); }
  template <class T> static T derivative(First<T> x) { return -apply<SphericalBesselJ1>(x.value); }
};
struct SphericalBesselJ1 : RareFunction {
  static constexpr auto name = "_spherical_bessel_j1";
  static constexpr auto doc = "The spherical Bessel function of order 1 at each element.";
  template <class T> static T forward(T x) { return T(math::spherical_bessel_j1(double(x))); }
  template <class T> static T derivative(First<T> x, Result<T> y) {
    return apply<SphericalBesselJ0>(x.value) - T(2) * over(y.value, x.value, 0.33333333333333333333);
  }
};

struct AirySlope;
struct AiryAi : RareFunction {
  static constexpr auto name = "_airy_ai";
  static constexpr auto doc = "Airy's function Ai at each element.";
  template <class T> static T forward(T x) { return T(math::airy(double(x), false)); }
  template <class T> static T derivative(First<T> x) { return apply<AirySlope>(x.value); }
};
struct AirySlope : RareFunction {
  static constexpr auto name = "_airy_ai_slope";
  static constexpr auto doc = "The derivative of Airy's function Ai at each element.";
  template <class T> static T forward(T x) { return T(math::airy(double(x), true)); }
  template <class T> static T derivative(First<T> x) { return x.value * apply<AiryAi>(x.value); }
};

using Bessel = Family<BesselJ0, BesselJ1, BesselY0, BesselY1, BesselI0, BesselI1, BesselI0Scaled, BesselI1Scaled, BesselK0, BesselK1,
                      BesselK0Scaled, BesselK1Scaled, SphericalBesselJ0, SphericalBesselJ1, AiryAi, AirySlope>;

}  // namespace adjoint::inline ADJOINT_ISA
