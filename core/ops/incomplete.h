// Functions of two arguments that series and recurrences define: incomplete gamma functions, Hurwitz's zeta
// function, orthogonal polynomials; and the scaled complement of the error function.
//
// Derivatives by the first argument of the gamma and zeta functions have no closed form, and are refused by
// name. The order of a polynomial is a whole number, and what is constant between whole numbers has the
// derivative 0. Values are computed in double for every type, by code that is compiled once. Users find them
// in `special`. Start reading at `IncompleteGammaFunction`.
#pragma once

#include "kernels/cpu/math/beta.h"
#include "kernels/cpu/math/incomplete.h"
#include "ops/bessel.h"

namespace adjoint::inline ADJOINT_ISA {

struct RareBinary : Binary {
  static constexpr TypeSet types = types::floating;
  static constexpr bool promotes_integers = true;
  static constexpr bool inplace = false;
  static constexpr bool method = false;
};

struct GammaDensity : RareBinary {
  static constexpr auto name = "_gamma_density";
  static constexpr auto doc =
      "x^(a - 1) e^-x / gamma(a) for the elements a of self and x of other: the derivative of igamma by x. "
      "An element at a time: its power is the C library's.";
  static constexpr Domain samples{0.4, 5};
  template <class T>
  static T forward(T a, T x) {
    return T(math::gamma_density(double(a), double(x)));
  }
  template <class T>
  static T derivative(Wrt<1>, First<T> a, Second<T> x, Result<T> y) {
    return y.value * ((a.value - T(1)) / x.value - T(1));
  }
};

struct IncompleteGammaFunction : RareBinary {
  static constexpr bool inplace = true;
  static constexpr bool method = true;
  static constexpr Domain samples{0.4, 5};
};

struct Igamma : IncompleteGammaFunction {
  static constexpr auto name = "igamma";
  static constexpr auto doc =
      "The regularised lower incomplete gamma function P(a, x) of the elements a of self and x of other. "
      "An element at a time: how many terms a sum or a fraction takes depends on it.";
  template <class T>
  static T forward(T a, T x) {
    return T(math::incomplete_gamma(double(a), double(x), false, std::is_same_v<T, float>));
  }
  template <class T>
  static T derivative(Wrt<1>, First<T> a, Second<T> x) {
    return apply<GammaDensity>(a.value, x.value);
  }
};

struct Igammac : IncompleteGammaFunction {
  static constexpr auto name = "igammac";
  static constexpr auto doc =
      "The regularised upper incomplete gamma function Q(a, x) of the elements a of self and x of other. "
      "An element at a time: how many terms a sum or a fraction takes depends on it.";
  template <class T>
  static T forward(T a, T x) {
    return T(math::incomplete_gamma(double(a), double(x), true, std::is_same_v<T, float>));
  }
  template <class T>
  static T derivative(Wrt<1>, First<T> a, Second<T> x) {
    return -apply<GammaDensity>(a.value, x.value);
  }
};

struct Zeta : RareBinary {
  static constexpr auto name = "_zeta";
  static constexpr auto doc =
      "Hurwitz's zeta function, the sum of (q + k)^-x over k >= 0, of the elements x of self and q of other. "
      "An element at a time: its powers are the C library's.";
  static constexpr Domain samples{1.5, 5};
  template <class T>
  static T forward(T s, T q) {
    return T(math::zeta(double(s), double(q)));
  }
  template <class T>
  static T derivative(Wrt<1>, First<T> s, Second<T> q) {
    return -s.value * apply<Zeta>(s.value + T(1), q.value);
  }
};

struct DirichletSlope : Ternary {
  static constexpr auto name = "_dirichlet_slope";
  static constexpr auto doc =
      "How a draw x, an element of self, from Beta(a, b) moves with a where its probability stays, over 1 - "
      "x: "
      "-(dI/da) / f / (1 - x). An element at a time: the length of the series is the element's.";
  static constexpr auto inputs = "self, a, b";
  static constexpr TypeSet types = types::floating;
  static constexpr Domain samples{0.1, 0.9};
  static constexpr bool inplace = false;
  static constexpr bool method = false;
  template <class T>
  static T forward(T x, T a, T b) {
    return T(math::beta_slope(double(x), double(a), double(b), std::is_same_v<T, float>));
  }
};

struct OrthogonalPolynomial : RareBinary {
  static constexpr auto name = "_orthogonal_polynomial";
  static constexpr auto doc =
      "An orthogonal polynomial of the degrees in other at the elements of self, or one of its derivatives: "
      "see orthogonal_polynomial in core. An element at a time: the degree is the number of steps.";
  static constexpr auto parameters = "kind=0, order=0";
  template <class T>
  static bool uniform(T* out, const T* x, T degree, int64_t n, T kind, T order) {
    if (!(order == 0 && degree >= 0 && degree <= T(math::most_degree))) return false;
    math::orthogonal_polynomials(out, x, double(degree), static_cast<int>(kind), n);
    return true;
  }
  template <class T>
  static T forward(T x, T n, T kind, T order) {
    return T(
        math::orthogonal_polynomial(double(x), double(n), static_cast<int>(kind), static_cast<int>(order)));
  }
  template <class T>
  static T derivative(Wrt<0>, First<T> x, Second<T> n, T kind, T order) {
    return apply<OrthogonalPolynomial>(x.value, n.value, kind, order + T(1));
  }
  template <class T>
  static Zero derivative(Wrt<1>, First<T>, T, T) {
    return {};
  }
};

struct ErfcxSlope;
struct Erfcx : RareFunction {
  static constexpr auto name = "_erfcx";
  static constexpr auto doc =
      "e^(x^2) erfc(x) for each element x, also where that power is out of range. "
      "An element at a time: ranges have formulas of their own.";
  template <class T>
  static T forward(T x) {
    return T(math::erfcx(double(x)));
  }
  template <class T>
  static T derivative(First<T> x) {
    return apply<ErfcxSlope>(x.value);
  }
};
struct ErfcxSlope : RareFunction {
  static constexpr auto name = "_erfcx_slope";
  static constexpr auto doc =
      "The derivative of erfcx at each element. An element at a time: ranges have formulas of their own.";
  template <class T>
  static T forward(T x) {
    return T(math::erfcx_slope(double(x)));
  }
  template <class T>
  static T derivative(First<T> x, Result<T> y) {
    return T(2) * (apply<Erfcx>(x.value) + x.value * y.value);
  }
};

using Incomplete =
    Family<GammaDensity, Igamma, Igammac, Zeta, DirichletSlope, OrthogonalPolynomial, Erfcx, ErfcxSlope>;

}  // namespace adjoint::inline ADJOINT_ISA
