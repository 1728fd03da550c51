// Sine, cosine, tangent, and the inverses.
//
// x is reduced to r = x - k pi/2 with |r| <= pi/4; the quadrant k mod 4 says whether a sine or a cosine of r
// is wanted and with which sign. Both polynomials are evaluated and one result is selected. There are two
// reductions:
//
//  - `sin_in_range` and `cos_in_range` subtract k pi/2 in parts (Cody and Waite), which is right for |x| <=
//  100000;
//  - `sin`, `cos` and `tan` are right for every x. They multiply the integer mantissa of x by those bits of
//  2/pi that
//    matter (Payne and Hanek: higher bits contribute whole turns, lower ones nothing), found in a table by
//    the exponent of x. A table look-up vectorises as a gather, so large arguments need no second pass over
//    an array.
//
// The inverses use odd polynomials near 0 and the identities atan x = pi/2 - atan 1/x and
// asin x = pi/2 - 2 asin sqrt((1-x)/2) elsewhere.
//
// Formulas: Cody and Waite (1980), chapter 8; M. Payne and R. Hanek, Radian reduction for trigonometric
// functions (1983). Where to start: `reduce_angle`.
#pragma once

#include "coefficients.h"
#include "rounding.h"

/// Numbers that are the same for all instruction sets: see turns.cpp.
namespace adjoint::turns {

/// 2/pi * 2^s mod 4 in parts, where x = mantissa * 2^s, for each exponent from that of 1/2 on.
struct FloatTurns {
  double high[130], low[130];
};
struct DoubleTurns {
  double high[1026], middle[1026], low[1026];
};
extern const FloatTurns of_float;
extern const DoubleTurns of_double;

}  // namespace adjoint::turns

namespace adjoint::inline ADJOINT_ISA::math {

/// |x| = (4n + quadrant) pi/2 + r + error, or the same for x itself.
template <class T>
struct Angle {
  T r, error;
  std::uint32_t quadrant;  ///< only the last two bits count
};

constexpr double half_pi = 0x1.921fb54442d18p+0, half_pi_low = 0x1.1a62633145c07p-54;
constexpr double quarter_pi = 0x1.921fb54442d18p-1;

/// max(exponent, least) - least: without a branch that the compiler could follow to a conditional load.
ADJOINT_INLINE std::int32_t table_index(std::int32_t exponent, std::int32_t least) {
  const std::int32_t i = exponent - least;
  return i & ~(i >> 31);
}

/// x*y + u*v and x*y - u*v. Which product is part of a fused operation is said on aarch64: left to GCC, it is
/// one of them in loops over vectors, and the other over what is left, so that bits would depend on an
/// element's place. On x86-64 it chooses the same in both.
ADJOINT_INLINE double sum_of_products(double x, double y, double u, double v) {
#if defined(__ARM_FEATURE_FMA)
  return __builtin_fma(u, v, x * y);
#else
  return x * y + u * v;
#endif
}
template <class T>
ADJOINT_INLINE T difference_of_products(T x, T y, T u, T v) {
#if defined(__ARM_FEATURE_FMA)
  return sizeof(T) == sizeof(float) ? T(__builtin_fmaf(-float(u), float(v), float(x * y)))
                                    : T(__builtin_fma(-double(u), double(v), double(x * y)));
#else
  return x * y - u * v;
#endif
}

/// Reduces any x; an infinity or NaN gives NaN. Mind the sign: for |x| >= pi/4 it is |x| that is reduced.
ADJOINT_INLINE Angle<double> reduce_angle_double(float x) {
  const bool small = abs(x) < float(quarter_pi);
  const std::uint32_t bits = to_bits(x);
  const std::int32_t i = table_index(std::int32_t((bits >> 23) & 0xff), 126);
  const double m = double(from_bits((bits & 0x7fffff) | 0x4b000000u));
  // m < 2^24 and the 29 bits of the high part make an exact product; the low part's is below 1/8.
  const double high = m * turns::of_float.high[i], low = m * turns::of_float.low[i];
  const double k = (high + low + Bits<double>::shift) - Bits<double>::shift;
  const double r = ((high - k) + low) * half_pi;
  // Adding x - x makes NaN of an infinity.
  return {small ? double(abs(x)) : r + double(x - x), 0.0, small ? 0u : std::uint32_t(std::int32_t(k))};
}
ADJOINT_INLINE Angle<float> reduce_angle(float x) {
  const Angle<double> a = reduce_angle_double(x);
  return {float(a.r), 0.0f, a.quadrant};
}
ADJOINT_INLINE Angle<double> reduce_angle(double x) {
  const bool small = abs(x) < quarter_pi;
  const std::uint64_t bits = to_bits(x);
  const std::int32_t i = table_index(std::int32_t((bits >> 52) & 0x7ff), 1022);
  const double m = from_bits((bits & 0xfffffffffffff) | 0x4330000000000000u);
  const double t1 = turns::of_double.high[i], t2 = turns::of_double.middle[i], t3 = turns::of_double.low[i];
  // m * (t1 + t2 + t3) modulo 4 as an exact sum of ever smaller terms, whole numbers taken out as they
  // appear.
  const double p1 = m * t1, e1 = product_error(m, t1, p1);
  const double p2 = m * t2, e2 = product_error(m, t2, p2);
  const double k1 = round(p1);
  const Pair<double> s1 = two_sum(p1 - k1, e1);
  const Pair<double> s2 = two_sum(s1.value, p2);
  const double k2 = round(s2.value);
  const Pair<double> d = two_sum(s1.error, s2.error);
  const Pair<double> g = two_sum(d.value, e2);
  const Pair<double> f = two_sum(s2.value - k2, g.value);
  const double f_low = f.error + (d.error + (g.error + m * t3));
  const double high = f.value * half_pi;
  const double low =
      product_error(f.value, half_pi, high) + sum_of_products(f.value, half_pi_low, f_low, half_pi);
  const double turns = (k1 - 4.0 * round(0.25 * k1)) + k2;
  // The quadrant through the low bits of the shift constant: AVX2 converts no double to a 64-bit integer.
  const std::uint32_t quadrant = std::uint32_t(to_bits(turns + Bits<double>::shift));
  const Pair<double> r = fast_two_sum(high, low);
  return {small ? abs(x) : r.value + (x - x), small ? 0.0 : r.error, small ? 0u : quadrant};
}

/// Reduces |x| <= 100000 with its sign.
ADJOINT_INLINE Angle<double> reduce_angle_in_range(double x) {
  // pi/2 in three parts; the first two have 33 bits, so that their products with k < 2^20 are exact.
  const double shifted = x * 0x1.45f306dc9c883p-1 + Bits<double>::shift;
  const double k = shifted - Bits<double>::shift;
  const double a = x - k * 0x1.921fb544p+0;
  const double w = k * 0x1.0b4611a6p-34;
  const double b = a - w;
  const double c = k * 0x1.3198a2e037073p-69 - ((a - b) - w);
  const double r = b - c;
  return {r, (b - r) - c, std::uint32_t(to_bits(shifted))};
}
ADJOINT_INLINE Angle<float> reduce_angle_in_range(float x) {
#if ADJOINT_HAS_FMA
  // With fused multiply-adds x - k P1 is exact for the whole first part of pi/2, and so is the error of the
  // second.
  const float shifted = x * 0x1.45f306p-1f + Bits<float>::shift;
  const float k = shifted - Bits<float>::shift;
  const float a = __builtin_fmaf(k, -0x1.921fb6p+0f, x);
  const float r = __builtin_fmaf(k, 0x1.777a5cp-25f, a);
  const float error = __builtin_fmaf(k, 0x1.777a5cp-25f, a - r);
  return {r, __builtin_fmaf(k, 0x1.ee59dap-50f, error), to_bits(shifted)};
#else
  const double wide = double(x);
  const double k = (wide * 0x1.45f306dc9c883p-1 + Bits<double>::shift) - Bits<double>::shift;
  const double r = (wide - k * 0x1.921fb544p+0) - k * 0x1.0b4611a626331p-34;
  return {float(r), 0.0f, std::uint32_t(std::int32_t(k))};
#endif
}

/// sin(r + error) for |r| <= pi/4, as a main part and the rest.
template <class T>
ADJOINT_INLINE Pair<T> sin_reduced(Angle<T> a) {
  const T z = a.r * a.r;
  return {a.r, a.error + a.r * z * polynomial(z, coefficients::Polynomials<T>::sin)};
}
template <class T>
ADJOINT_INLINE Pair<T> cos_reduced(Angle<T> a) {
  const T z = a.r * a.r, half = T(0.5) * z, w = T(1) - half;
  return {w,
          ((T(1) - w) - half) +
              difference_of_products(z * z, polynomial(z, coefficients::Polynomials<T>::cos), a.r, a.error)};
}

/// y with the sign flipped where bit 1 of the quadrant is set, and again where `negative`.
template <class T>
ADJOINT_INLINE T with_sign(T y, std::uint32_t quadrant, T negative) {
  constexpr int top = int(sizeof(T)) * 8 - 1;
  constexpr Unsigned<T> sign = Unsigned<T>(1) << top;
  return from_bits(to_bits(y) ^ ((Unsigned<T>(quadrant & 2) << (top - 1)) ^ (to_bits(negative) & sign)));
}
template <class T>
ADJOINT_INLINE T sin_from(Angle<T> a, T negative) {
  const Pair<T> s = sin_reduced(a), c = cos_reduced(a);
  const bool odd = (a.quadrant & 1) != 0;
  return with_sign(select(odd, c.value + c.error, s.value + s.error), a.quadrant, negative);
}
template <class T>
ADJOINT_INLINE T cos_from(Angle<T> a) {
  const Pair<T> s = sin_reduced(a), c = cos_reduced(a);
  const bool odd = (a.quadrant & 1) != 0;
  return with_sign(select(odd, s.value + s.error, c.value + c.error), a.quadrant + 1, T(0));
}

/// The largest |x| for which sin_in_range and cos_in_range are accurate.
constexpr double trigonometric_range = 100000.0;
template <class T>
ADJOINT_INLINE T sin_in_range(T x) {
  const T y = sin_from(reduce_angle_in_range(x), T(0));
  return select(abs(x) < T(0x1p-28), x, y);  // keeps -0
}
template <class T>
ADJOINT_INLINE T cos_in_range(T x) {
  return cos_from(reduce_angle_in_range(x));
}

/// sin x for every x.
template <class T>
ADJOINT_INLINE T sin(T x) {
  return sin_from(reduce_angle(x), x);
}
/// cos x for every x.
template <class T>
ADJOINT_INLINE T cos(T x) {
  return cos_from(reduce_angle(x));
}

/// The tangent as the quotient of sine and cosine, each with its low part.
ADJOINT_INLINE double tan_from(Angle<double> a) {
  const Pair<double> s = sin_reduced(a), c = cos_reduced(a);
  const Pair<double> sine = fast_two_sum(s.value, s.error), cosine = fast_two_sum(c.value, c.error);
  const bool odd = (a.quadrant & 1) != 0;
  const Pair<double> n{select(odd, -cosine.value, sine.value), select(odd, -cosine.error, sine.error)};
  const Pair<double> d{select(odd, sine.value, cosine.value), select(odd, sine.error, cosine.error)};
  const double inverse = 1.0 / d.value, q = n.value * inverse, p = q * d.value;
  const double rest = ((n.value - p) - product_error(q, d.value, p)) + (n.error - q * d.error);
  return q + rest * inverse;
}
/// The same within 2^-50, for a result in float.
ADJOINT_INLINE double tan_from_rough(Angle<double> a) {
  const double z = a.r * a.r;
  const double sine = a.r + a.r * z * polynomial(z, coefficients::Polynomials<double>::sin);
  const double cosine = 1.0 - 0.5 * z + z * z * polynomial(z, coefficients::Polynomials<double>::cos);
  const bool odd = (a.quadrant & 1) != 0;
  return select(odd, -cosine, sine) / select(odd, sine, cosine);
}

/// tan x for every x.
ADJOINT_INLINE double tan(double x) {
  const double y = tan_from(reduce_angle(x));
  return with_sign(select(abs(x) < 0x1p-28, abs(x), y), 0, x);
}
ADJOINT_INLINE float tan(float x) { return with_sign(float(tan_from_rough(reduce_angle_double(x))), 0, x); }

/// tan x for |x| <= trigonometric_range.
ADJOINT_INLINE double tan_in_range(double x) {
  return select(abs(x) < 0x1p-28, x, tan_from(reduce_angle_in_range(x)));
}
ADJOINT_INLINE float tan_in_range(float x) {
  return select(x == 0.0f, x, float(tan_from_rough(reduce_angle_in_range(double(x)))));
}

/// out[i] = full(x[i]) for a function that is faster near 0: blocks without an element beyond `range` take
/// `fast`. This keeps both loops vector code; x and out may be the same array. Example:
///   map_in_range(x, out, n, [](auto v) { return sin_in_range(v); }, [](auto v) { return sin(v); });
template <class T, class Fast, class Full>
ADJOINT_INLINE void map_in_range(const T* x, T* out, long n, Fast fast, Full full) {
  constexpr long block = 512;
  for (long start = 0; start < n; start += block) {
    const long end = n - start < block ? n : start + block;
    Unsigned<T> beyond = 0;  // NaN does not count: both functions pass it on
    for (long i = start; i < end; ++i) beyond += abs(x[i]) > T(trigonometric_range) ? 1 : 0;
    if (beyond == 0) {
      for (long i = start; i < end; ++i) out[i] = fast(x[i]);
    } else {
      for (long i = start; i < end; ++i) out[i] = full(x[i]);
    }
  }
}

/// pi/2 and pi as sums of two numbers.
template <class T>
struct Pi;
template <>
struct Pi<float> {
  static constexpr float half = 0x1.921fb6p+0f, half_low = -0x1.777a5cp-25f;
};
template <>
struct Pi<double> {
  static constexpr double half = half_pi, half_low = half_pi_low;
};

/// atan a for 0 <= a <= 1.
template <class T>
ADJOINT_INLINE T atan_unit(T a) {
  const T z = a * a;
  return a + a * z * polynomial(z, coefficients::Polynomials<T>::atan);
}

/// atan x.
template <class T>
ADJOINT_INLINE T atan(T x) {
  const T a = abs(x);
  const bool large = a > T(1);
  const T r = atan_unit(select(large, T(1) / a, a));
  return copysign(select(large, Pi<T>::half - (r - Pi<T>::half_low), r), x);
}

/// The angle of the point (x, y), in [-pi, pi].
template <class T>
ADJOINT_INLINE T atan2(T y, T x) {
  const T ax = abs(x), ay = abs(y);
  const bool steep = ay > ax;
  const T low = select(steep, ax, ay), high = select(steep, ay, ax);
  // Equal magnitudes, 0/0 and inf/inf among them: a quotient of 1, or of 0 at the origin.
  const T a = select(low == high, select(high == T(0), T(0), T(1)), low / high);
  const T r = atan_unit(a);
  const bool left = to_bits(x) >> (sizeof(T) * 8 - 1);
  // r is measured from the nearest half axis: k pi/2 + r or k pi/2 - r.
  const T k = select(steep, T(1), select(left, T(2), T(0)));
  const T signed_r = select(steep != left, -r, r);
  const T angle = k * Pi<T>::half + (signed_r + k * Pi<T>::half_low);
  return select(x != x || y != y, x + y, copysign(angle, y));
}

/// sin(pi x) and cos(pi x), exact in relative terms beside their zeros; infinities give NaN.
template <class T>
ADJOINT_INLINE T alternate(T whole, T y) {
  const T half = T(0.5) * whole;
  return select(round(half) != half, -y, y);
}
template <class T>
ADJOINT_INLINE T sin_pi(T x) {
  const T whole = round(x);
  return alternate(whole, sin_in_range((x - whole) * T(3.14159265358979323846)));
}
template <class T>
ADJOINT_INLINE T cos_pi(T x) {
  const T whole = round(x), r = x - whole;
  // From the nearer zero.
  const T far = T(0.5) - abs(r);
  const T y = select(abs(r) > T(0.25), sin_in_range(far * T(3.14159265358979323846)),
                     cos_in_range(r * T(3.14159265358979323846)));
  return alternate(whole, y);
}

/// asin s for 0 <= s <= 1/2, less s.
template <class T>
ADJOINT_INLINE T asin_rest(T s, T z) {
  return s * z * polynomial(z, coefficients::Polynomials<T>::asin);
}

template <class T>
ADJOINT_INLINE T asin(T x) {
  const T a = abs(x);
  const bool large = a > T(0.5);
  const T z = select(large, T(0.5) - T(0.5) * a, a * a);
  const T s = select(large, sqrt(z), a);
  const T rest = asin_rest(s, z);
  const T outer = (Pi<T>::half - T(2) * s) - (T(2) * rest - Pi<T>::half_low);
  return copysign(select(large, outer, s + rest), x);
}

template <class T>
ADJOINT_INLINE T acos(T x) {
  const T a = abs(x);
  const bool large = a > T(0.5);
  const T z = select(large, T(0.5) - T(0.5) * a, a * a);
  const T s = select(large, sqrt(z), x);
  const T rest = asin_rest(s, z);
  const T middle = Pi<T>::half - (s + (rest - Pi<T>::half_low));
  const T right = T(2) * (s + rest);
  const T left = T(2) * (Pi<T>::half - (s + (rest - Pi<T>::half_low)));
  return select(large, select(x < T(0), left, right), middle);
}

}  // namespace adjoint::inline ADJOINT_ISA::math
