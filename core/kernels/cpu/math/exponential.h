// Exponentials, logarithms and what is built from them: sigmoid, softplus, powers.
//
// e^x: write x = n log 2 + r with |r| <= log(2)/2 (Cody and Waite: log 2 in two parts, so that n times the
// first is exact); then e^x = 2^n e^r, e^r by a polynomial. The power of two is applied in two halves, which
// gives subnormal results and overflow their right value without a branch.
//
// log x: write x = 2^e m with sqrt(1/2) <= m < sqrt(2) and f = m - 1, an exact difference; then log x = e log
// 2 + f + rest(f). In float the rest is a polynomial in f; in double it is written with s = f / (2 + f), for
// which log(1+f) = log((1+s)/(1-s)) has a short odd series. The other bases scale f and the rest apart, to
// keep f exact.
//
// Formulas: W. J. Cody and W. Waite, Software Manual for the Elementary Functions (1980); P. T. P. Tang,
// Table-driven implementation of the logarithm function (1990), section 2. Coefficients: coefficients.py.
#pragma once

#include "coefficients.h"
#include "rounding.h"

namespace adjoint::inline ADJOINT_ISA::math {

template <class T>
struct Exponential;
template <>
struct Exponential<float> {
  static constexpr float log2_e = 0x1.715476p+0f;
  static constexpr float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
  static constexpr float ln2 = 0x1.62e43p-1f;
  static constexpr float lowest = -104.0f, highest = 89.0f;  ///< beyond, e^x is 0 or infinite
  static constexpr float lowest2 = -151.0f, highest2 = 129.0f;
  static constexpr float lowest_minus_1 = -20.0f;  ///< beyond, e^x - 1 is -1
};
template <>
struct Exponential<double> {
  static constexpr double log2_e = 0x1.71547652b82fep+0;
  static constexpr double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;
  static constexpr double ln2 = 0x1.62e42fefa39efp-1;
  static constexpr double lowest = -746.0, highest = 710.0;
  static constexpr double lowest2 = -1076.0, highest2 = 1025.0;
  static constexpr double lowest_minus_1 = -40.0;
};

ADJOINT_INLINE std::int32_t signed_bits(float x) { return __builtin_bit_cast(std::int32_t, x); }
ADJOINT_INLINE std::int64_t signed_bits(double x) { return __builtin_bit_cast(std::int64_t, x); }

/// x limited to [low, high]; NaN stays.
template <class T>
ADJOINT_INLINE T limit(T x, T low, T high) {
  x = select(x < low, low, x);
  return select(x > high, high, x);
}

/// y * 2^n for any n that a result may need, rounded once.
template <class T>
ADJOINT_INLINE T scale(T y, Unsigned<T> n) {
  // The half of n without an arithmetic shift, which AVX2 lacks for 64 bits.
  const Unsigned<T> half = ((n + 8192) >> 1) - 4096;
  return y * power_of_two<T>(half) * power_of_two<T>(n - half);
}

/// x = n log 2 + r + error.
template <class T>
struct Reduced {
  T r, error;
  Unsigned<T> n;
};
template <class T>
ADJOINT_INLINE Reduced<T> reduce_exponent(T x) {
  using E = Exponential<T>;
  const T shifted = x * E::log2_e + Bits<T>::shift;
  const T k = shifted - Bits<T>::shift;
  const T high = x - k * E::ln2_high;
  const T r = high - k * E::ln2_low;
  return {r, (high - r) - k * E::ln2_low, to_bits(shifted) - to_bits(Bits<T>::shift)};
}

/// e^r for |r| <= log(2)/2.
template <class T>
ADJOINT_INLINE T exp_reduced(T r) {
  return T(1) + (r + r * r * polynomial(r, coefficients::Polynomials<T>::exp));
}

/// The same with n at most `top`, through its bits: one instruction, where a limit on x that keeps NaN is
/// three. An x beyond gives a large r, hence a large polynomial. There is no lower limit.
template <class T>
ADJOINT_INLINE Reduced<T> reduce_exponent_below(T x, int top) {
  using E = Exponential<T>;
  const auto bits = signed_bits(x * E::log2_e + Bits<T>::shift), bound = signed_bits(Bits<T>::shift + T(top));
  const T shifted = from_bits(Unsigned<T>(bits < bound ? bits : bound));
  const T k = shifted - Bits<T>::shift;
  return {(x - k * E::ln2_high) - k * E::ln2_low, T(0), to_bits(shifted) - to_bits(Bits<T>::shift)};
}

/// e^x.
template <class T>
ADJOINT_INLINE T exp(T x) {
  const Reduced<T> d = reduce_exponent_below(x, int(Bits<T>::bias) + 2);
  return select(x < Exponential<T>::lowest, T(0), scale(exp_reduced(d.r), d.n));
}

/// e^x / 2 for 0 <= x <= highest + 1: no two-sided scaling, and no overflow before that of the half.
template <class T>
ADJOINT_INLINE T half_exp_normal(T x) {
  const Reduced<T> d = reduce_exponent(x);
  return T(2) * (exp_reduced(d.r) * power_of_two<T>(d.n - 2));
}

/// 2^x.
template <class T>
ADJOINT_INLINE T exp2(T x) {
  using E = Exponential<T>;
  const T y = limit(x, E::lowest2, E::highest2);
  const T shifted = y + Bits<T>::shift;
  const T r = (y - (shifted - Bits<T>::shift)) * E::ln2;
  return scale(exp_reduced(r), to_bits(shifted) - to_bits(Bits<T>::shift));
}

/// (e^x - 1) / 2 as an unevaluated sum of two, the second below an ulp of the first.
template <class T>
ADJOINT_INLINE Pair<T> half_expm1(T x) {
  using E = Exponential<T>;
  const Reduced<T> d = reduce_exponent(limit(x, E::lowest_minus_1, E::highest));
  const T tail = d.r * d.r * polynomial(d.r, coefficients::Polynomials<T>::exp) + d.error;
  const T h = power_of_two<T>(d.n - 1);  // 2^n / 2: finite where 2^n is not
  const T hr = h * d.r;
  const Pair<T> sum = fast_two_sum(h - T(0.5), hr);
  return {sum.value, sum.error + h * tail};
}

/// e^x - 1, exact in relative terms near 0.
template <class T>
ADJOINT_INLINE T expm1(T x) {
  const Pair<T> half = half_expm1(x);
  const bool tiny = abs(x) < Bits<T>::smallest_normal;
  return select(tiny, x, T(2) * (half.value + half.error));
}

/// log x = e log 2 + f + rest, f exact.
template <class T>
struct LogParts {
  T e, f, rest;
  Unsigned<T> n;
};

template <class T>
struct Logarithm;
template <>
struct Logarithm<float> {
  static constexpr std::uint32_t root_half = 0x3f3504f3;  ///< the bits of sqrt(1/2)
  static constexpr float lift = 0x1p23f;
  static constexpr float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
  static constexpr float log2_e = 0x1.715476p+0f, log2_e_minus_1 = 0x1.c551dap-2f;
  static constexpr float log10_e = 0x1.bcb7b2p-2f, log10_e_minus_half = -0x1.0d213ap-4f;
  static constexpr float log10_2_high = 0x1.344p-2f, log10_2_low = 0x1.3509f8p-18f;
};
template <>
struct Logarithm<double> {
  static constexpr std::uint64_t root_half = 0x3fe6a09e667f3bcd;
  static constexpr double lift = 0x1p52;
  static constexpr double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;
  static constexpr double log2_e = 0x1.71547652b82fep+0, log2_e_minus_1 = 0x1.c551d94ae0bf8p-2;
  static constexpr double log10_e = 0x1.bcb7b1526e50ep-2, log10_e_minus_half = -0x1.0d213ab646bc7p-4;
  static constexpr double log10_2_high = 0x1.34413509f78p-2, log10_2_low = 0x1.fef311f12b358p-46;
};

/// log(1+f) - f.
ADJOINT_INLINE float log_rest(float f) {
  return f * f * (f * polynomial(f, coefficients::Polynomials<float>::log) - 0.5f);
}
ADJOINT_INLINE double log_rest(double f) {
  const double s = f / (2.0 + f), z = s * s, half_square = 0.5 * f * f;
  const double ratio = z * polynomial(z, coefficients::Polynomials<double>::log_ratio);
  return s * (half_square + ratio) - half_square;
}

/// Splits a positive finite x; the rest is still 0.
template <class T>
ADJOINT_INLINE LogParts<T> split_exponent(T x) {
  using L = Logarithm<T>;
  using B = Bits<T>;
  const bool subnormal = x < B::smallest_normal;
  const Unsigned<T> i = to_bits(select(subnormal, x * L::lift, x)) + (B::one - L::root_half);
  // The exponent becomes a floating-point number through the low bits of `shift`: no 64-bit conversion is
  // needed.
  const Unsigned<T> exponent = i >> B::mantissa;
  const T e = from_bits(exponent + to_bits(B::shift)) - (B::shift + T(B::bias)) -
              select(subnormal, T(B::mantissa), T(0));
  const Unsigned<T> fraction = i & ((Unsigned<T>(1) << B::mantissa) - 1);
  const T f = from_bits(fraction + L::root_half) - T(1);
  return {e, f, T(0), exponent - B::bias};
}
template <class T>
ADJOINT_INLINE LogParts<T> log_parts(T x) {
  LogParts<T> p = split_exponent(x);
  p.rest = log_rest(p.f);
  return p;
}

/// x = mantissa * 2^exponent with 1/2 <= |mantissa| < 1; 0, infinities and NaN are their own mantissa, with
/// exponent 0.
template <class T>
ADJOINT_INLINE T exponent_of(T x) {
  using B = Bits<T>;
  const T a = abs(x);
  const bool subnormal = a < B::smallest_normal;
  const Unsigned<T> bits = to_bits(select(subnormal, a * Logarithm<T>::lift, a));
  const T e = from_bits((bits >> B::mantissa) + to_bits(B::shift)) - (B::shift + T(B::bias - 1)) -
              select(subnormal, T(B::mantissa), T(0));
  return select(a > T(0) && a <= B::largest, e, T(0));
}
template <class T>
ADJOINT_INLINE T mantissa_of(T x) {
  using B = Bits<T>;
  const T a = abs(x);
  const Unsigned<T> bits = to_bits(select(a < B::smallest_normal, a * Logarithm<T>::lift, a));
  const T m =
      from_bits((bits & ((Unsigned<T>(1) << B::mantissa) - 1)) | (Unsigned<T>(B::bias - 1) << B::mantissa));
  return select(a > T(0) && a <= B::largest, copysign(m, x), x);
}

/// The value of a logarithm where x is not positive and finite.
template <class T>
ADJOINT_INLINE T log_special(T x, T y) {
  y = select(x == T(0), -infinity<T>, y);
  y = select(x < T(0), not_a_number<T>, y);
  return select(x < infinity<T>, y, select(x == infinity<T>, x, x + x));
}

/// log x.
template <class T>
ADJOINT_INLINE T log(T x) {
  using L = Logarithm<T>;
  const LogParts<T> p = log_parts(x);
  return log_special(x, p.e * L::ln2_high + (p.f + (p.rest + p.e * L::ln2_low)));
}

template <class T>
ADJOINT_INLINE T log2(T x) {
  using L = Logarithm<T>;
  const LogParts<T> p = log_parts(x);
  return log_special(x, p.e + (p.f + (p.f * L::log2_e_minus_1 + p.rest * L::log2_e)));
}

template <class T>
ADJOINT_INLINE T log10(T x) {
  using L = Logarithm<T>;
  const LogParts<T> p = log_parts(x);
  const T small = p.f * L::log10_e_minus_half + (p.rest * L::log10_e + p.e * L::log10_2_low);
  return log_special(x, p.e * L::log10_2_high + (T(0.5) * p.f + small));
}

/// log(u + c) for u positive, normal and finite and |c| below an ulp of u.
template <class T>
ADJOINT_INLINE T log_sum(T u, T c) {
  using L = Logarithm<T>;
  const LogParts<T> p = log_parts(u);
  // log(u + c) - log u = c/u = 2^-e c / (1 + f); 1 - f is near enough to the reciprocal for a term this
  // small.
  // The largest u has no such power; there c is 0.
  const T scaled = select(c == T(0), T(0), c * power_of_two<T>(Unsigned<T>(0) - p.n));
  const T correction = scaled - scaled * p.f;
  return p.e * L::ln2_high + (p.f + (p.rest + (correction + p.e * L::ln2_low)));
}

/// log(1 + x), exact in relative terms near 0.
template <class T>
ADJOINT_INLINE T log1p(T x) {
  const Pair<T> u = two_sum(T(1), x);
  const T y = log_sum(u.value, select(abs(x) < T(0x1p60), u.error, T(0)));
  return select(abs(x) < Bits<T>::smallest_normal, x, log_special(u.value, y));
}

/// 1 / (1 + e^-x), with the exponential that cannot overflow: e^x / (1 + e^x) where x < 0.
template <class T>
ADJOINT_INLINE T sigmoid(T x) {
  const T e = exp(-abs(x));
  return select(x < T(0), e, T(1)) / (T(1) + e);
}

/// log(1 + e^x).
template <class T>
ADJOINT_INLINE T softplus1(T x) {
  return select(x < T(0), T(0), x) + log1p(exp(-abs(x)));
}

/// log(1 / (1 + e^-x)).
template <class T>
ADJOINT_INLINE T log_sigmoid(T x) {
  return -softplus1(-x);
}

/// Completes p = |x|^y, right for finite arguments and x != 0, to C99's pow.
template <class T>
ADJOINT_INLINE T pow_special(T x, T y, T p) {
  const T a = abs(x);
  p = select(a == T(0) || a == infinity<T>, select((a == T(0)) == (y < T(0)), infinity<T>, T(0)), p);
  p = select(a == T(1) || y == T(0), T(1), p);
  const T half = T(0.5) * y;
  const bool whole = round(y) == y, odd = whole && round(half) != half;
  p = select(odd, copysign(p, x), p);
  p = select(x < T(0) && a < infinity<T> && !whole, not_a_number<T>, p);
  return select((x != x || y != y) && x != T(1) && y != T(0), x + y, p);
}

/// x^y as C99 defines it. In float through double: 2^(y log2 x), whose exponent is below 2^8 and has 53 bits.
ADJOINT_INLINE float pow(float x, float y) {
  const LogParts<double> d = log_parts(double(abs(x)));
  using L = Logarithm<double>;
  const double log2_x = d.e + (d.f + (d.f * L::log2_e_minus_1 + d.rest * L::log2_e));
  return pow_special(x, y, float(exp2(double(y) * log2_x)));
}

/// In double the logarithm needs 65 bits: an error of it is multiplied by up to 709. The series of
/// log((1+s)/(1-s)) is summed with its first two terms as pairs of numbers.
ADJOINT_INLINE double pow(double x, double y) {
  using L = Logarithm<double>;
  using E = Exponential<double>;
  const LogParts<double> a = split_exponent(abs(x));
  const Pair<double> d = fast_two_sum(2.0, a.f);
  const double inverse = 1.0 / d.value, s = a.f * inverse, sd = s * d.value;
  const double s_low = (((a.f - sd) - product_error(s, d.value, sd)) - s * d.error) * inverse;
  const double z = s * s, z_low = product_error(s, s, z) + 2.0 * s * s_low;
  const Pair<double> t =
      fast_two_sum(0x1.5555555555555p-1, z * polynomial(z, coefficients::Polynomials<double>::log_tail));
  const double t_low = t.error + 0x1.5555555555555p-55;
  const double w = z * t.value, w_low = product_error(z, t.value, w) + (z * t_low + z_low * t.value);
  const double v = s * w, v_low = product_error(s, w, v) + (s * w_low + s_low * w);
  const Pair<double> l = fast_two_sum(2.0 * s, v);
  const Pair<double> h = two_sum(a.e * L::ln2_high, l.value);
  const double h_low = h.error + (l.error + (2.0 * s_low + v_low) + a.e * L::ln2_low);
  // Beyond 2^70 the power has long been 0, 1 or infinite.
  const double power = limit(y, -0x1p70, 0x1p70), product = power * h.value;
  const double low = product_error(power, h.value, product) + power * h_low;
  const double limited = limit(product, E::lowest, E::highest);
  const Reduced<double> r = reduce_exponent(limited);
  // 1 + r as a pair: what follows is small enough for powers that are numbers to be exact.
  const Pair<double> linear = fast_two_sum(1.0, r.r);
  const double rest = r.r * r.r * polynomial(r.r, coefficients::Polynomials<double>::exp);
  const double correction = (linear.value + rest) * (r.error + select(limited == product, low, 0.0));
  const double result = scale(linear.value + (linear.error + (rest + correction)), r.n);
  return pow_special(x, y, result);
}

/// The cube root: an approximation for the mantissa, then two steps of Halley's method.
ADJOINT_INLINE double cbrt(double x) {
  const double a = abs(x);
  const LogParts<double> p = split_exponent(a);
  // |x| = 2^(3k) m with 1/2 < m < 8.
  const double k = floor((p.e + 0.5) * 0x1.5555555555555p-2);
  const double exponent = p.e - 3.0 * k;
  const double m = (1.0 + p.f) * select(exponent > 1.5, 4.0, select(exponent > 0.5, 2.0, 1.0));
  double y = polynomial(m, coefficients::Polynomials<double>::cube_root);
  double t = y * y * y;
  y = y * ((t + 2.0 * m) / (2.0 * t + m));
  const double square = y * y, square_low = product_error(y, y, square);
  t = square * y;
  const double difference = ((t - m) + product_error(square, y, t)) + square_low * y;
  y = y - y * (difference / (3.0 * m));
  const double result =
      y * power_of_two<double>(to_bits(k + Bits<double>::shift) - to_bits(Bits<double>::shift));
  return copysign(select(a == 0.0 || !(a < infinity<double>), a, result), x);
}
ADJOINT_INLINE float cbrt(float x) { return float(cbrt(double(x))); }

}  // namespace adjoint::inline ADJOINT_ISA::math
