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
  return T(1) + (r + r * r * horner(r, coefficients::Polynomials<T>::exp));
}

/// e^x.
template <class T>
ADJOINT_INLINE T exp(T x) {
  using E = Exponential<T>;
  const Reduced<T> d = reduce_exponent(limit(x, E::lowest, E::highest));
  return scale(exp_reduced(d.r), d.n);
}

/// e^x / 2 for x in the range where it is normal and finite: one multiplication less, and no overflow before
/// 2 e^x.
template <class T>
ADJOINT_INLINE T half_exp_normal(T x) {
  const Reduced<T> d = reduce_exponent(x);
  return exp_reduced(d.r) * power_of_two<T>(d.n - 1);
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
  const T tail = d.r * d.r * horner(d.r, coefficients::Polynomials<T>::exp) + d.error;
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
  return f * f * (f * horner(f, coefficients::Polynomials<float>::log) - 0.5f);
}
ADJOINT_INLINE double log_rest(double f) {
  const double s = f / (2.0 + f), z = s * s, half_square = 0.5 * f * f;
  const double ratio = z * horner(z, coefficients::Polynomials<double>::log_ratio);
  return s * (half_square + ratio) - half_square;
}

/// Splits a positive finite x.
template <class T>
ADJOINT_INLINE LogParts<T> log_parts(T x) {
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
  return {e, f, log_rest(f), exponent - B::bias};
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
  const T scaled = c * power_of_two<T>(Unsigned<T>(0) - p.n);
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

/// x^y as C99 defines it. In float through double: 2^(y log2 x), whose exponent is below 2^8 and has 53 bits.
ADJOINT_INLINE float pow(float x, float y) {
  const float a = abs(x);
  float p = float(exp2(double(y) * log2(double(a))));
  p = select(a == 1.0f || y == 0.0f, 1.0f, p);
  const float half = 0.5f * y;
  const bool whole = round(y) == y, odd = whole && round(half) != half;
  p = select(odd, copysign(p, x), p);
  p = select(x < 0.0f && a < infinity<float> && !whole, not_a_number<float>, p);
  return select((x != x || y != y) && x != 1.0f && y != 0.0f, x + y, p);
}
ADJOINT_INLINE double pow(double x, double y) { return __builtin_pow(x, y); }

}  // namespace adjoint::inline ADJOINT_ISA::math
