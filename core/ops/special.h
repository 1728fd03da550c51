// Special functions: the error function and its relatives, the gamma function's logarithm and its derivatives.
//
// Formulas: DLMF 7.2 (erf), 5.9 and 5.15 (polygamma). The n-th derivative of digamma is (-1)^(n+1) n! ζ(n+1, x) with
// Hurwitz's ζ, by Euler and Maclaurin (DLMF 25.11.28) for x > 0 and by reflection for x < 0.
#pragma once

#include "ops/exponential.h"

namespace adjoint::inline ADJOINT_ISA {

struct RealFunction : FloatFunction {
  static constexpr TypeSet types = types::floating;
};

struct Erf : RealFunction {
  static constexpr auto name = "erf";
  static constexpr auto doc = "Error function of each element.";
  template <class T> ADJOINT_INLINE static T forward(T x) { return math::erf(x); }
  template <class T> ADJOINT_INLINE static T derivative(First<T> x) { return T(1.12837916709551257390) * apply<Exp>(-(x.value * x.value)); }
};

struct Erfc : RealFunction {
  static constexpr auto name = "erfc";
  static constexpr auto doc = "1 - erf(x) for each element x, without cancellation.";
  template <class T> ADJOINT_INLINE static T forward(T x) { return math::erfc(x); }
  template <class T> ADJOINT_INLINE static T derivative(First<T> x) { return T(-1.12837916709551257390) * apply<Exp>(-(x.value * x.value)); }
};

struct Erfinv : RealFunction {
  static constexpr auto name = "erfinv";
  static constexpr auto doc = "Inverse of the error function, for elements in [-1, 1].";
  static constexpr Domain samples{-0.9, 0.9};
  template <class T> ADJOINT_INLINE static T forward(T x) { return math::erfinv(x); }
  template <class T> ADJOINT_INLINE static T derivative(Result<T> y) { return T(0.88622692545275801365) * apply<Exp>(y.value * y.value); }
};

struct Digamma;
struct Polygamma;

struct Lgamma : RealFunction {
  static constexpr auto name = "lgamma";
  static constexpr auto doc = "Logarithm of the absolute value of the gamma function of each element.";
  static constexpr Domain samples{0.4, 5};
  template <class T> ADJOINT_INLINE static T forward(T x) { return math::lgamma(x); }
  template <class T> ADJOINT_INLINE static T derivative(First<T> x) { return apply<Digamma>(x.value); }
};

struct Digamma : RealFunction {
  static constexpr auto name = "digamma";
  static constexpr auto aliases = "psi";
  static constexpr auto doc = "Derivative of lgamma at each element.";
  static constexpr Domain samples{0.4, 5};
  template <class T> ADJOINT_INLINE static T forward(T x) { return math::digamma(x); }
  template <class T> ADJOINT_INLINE static T derivative(First<T> x) { return apply<Polygamma>(x.value, T(1)); }
};

struct Polygamma : RealFunction {
  static constexpr auto name = "_polygamma";
  static constexpr auto doc = "The n-th derivative of digamma at each element, for n from 1 to 30; NaN for other n.";
  static constexpr auto parameters = "n=1";
  static constexpr Domain samples{0.4, 5};
  static constexpr int most = 30;

  template <class T> ADJOINT_INLINE static T forward(T x, T n) {
    if (!(n >= T(1) && n <= T(most))) return math::not_a_number<T>;
    return static_cast<T>(value(static_cast<double>(x), static_cast<int>(n)));
  }
  template <class T> ADJOINT_INLINE static T derivative(First<T> x, T n) { return apply<Polygamma>(x.value, n + T(1)); }

  static double value(double x, int n) {
    if (x > 0) return positive(x, n);
    if (x == math::floor(x)) return n & 1 ? math::infinity<double> : math::not_a_number<double>;
    if (!(x < 0)) return x;
    const double mirrored = positive(1 - x, n);
    return (n & 1 ? -mirrored : mirrored) - cotangent(x, n);
  }

  /// x > 0.
  static double positive(double x, int n) {
    const double s = n + 1;
    double factorial = 1, sum = 0;
    for (int k = 2; k <= n; ++k) factorial *= k;
    for (; x < 12 + n; x += 1) sum += math::pow(x, -s);
    // The rest of the sum: the integral, half the first term, and the corrections B_2j/(2j)! f^(2j-1).
    constexpr double bernoulli[] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6, -3617.0 / 510};
    const double first = math::pow(x, -s);
    sum += first * (x / (s - 1) + 0.5);
    double term = s * first / (2 * x);  // s (s+1) … (s+2j-2) x^(1-s-2j) / (2j)!
    for (int j = 0; j < 8; ++j) {
      sum += bernoulli[j] * term;
      const double k = 2 * j + 2;
      term *= (s + k - 1) * (s + k) / ((k + 1) * (k + 2) * x * x);
    }
    return n & 1 ? factorial * sum : -factorial * sum;
  }

  /// π times the n-th derivative of cot(πx): π^(n+1) P_n(cot πx) with P_0(c) = c, P_(k+1) = -(1 + c²) P_k'.
  static double cotangent(double x, int n) {
    const double angle = 3.14159265358979323846 * (x - math::round(x));
    const double c = math::cos(angle) / math::sin(angle);
    double p[most + 3] = {0, 1}, scale = 3.14159265358979323846;
    for (int k = 0; k < n; ++k) {
      double q[most + 3] = {};
      for (int i = 1; i <= k + 1; ++i) {
        q[i - 1] -= i * p[i];
        q[i + 1] -= i * p[i];
      }
      for (int i = 0; i <= k + 2; ++i) p[i] = q[i];
      scale *= 3.14159265358979323846;
    }
    double sum = 0;
    for (int i = n + 1; i >= 0; --i) sum = sum * c + p[i];
    return scale * sum;
  }
};

using Special = Family<Erf, Erfc, Erfinv, Lgamma, Digamma, Polygamma>;

}  // namespace adjoint::inline ADJOINT_ISA
