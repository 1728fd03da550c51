// The ground floor of the scalar mathematics: inlining, bit patterns, constants, exact products.
//
// Two rules hold for the whole folder.
//  1. Everything is forced inline and lives in a namespace named after the instruction set (ADJOINT_ISA), and
//  nothing
//     calls a template of the standard library. The same header is compiled several times with different
//     machine flags; a weak symbol shared between those copies would let the linker run AVX-512 code on an
//     old machine.
//  2. Hot functions have no branches: both sides are computed and one is selected, so that a loop over an
//  array
//     turns into vector code. Conversions between integer and floating point go through the bits of a float
//     to which a large constant was added, since AVX2 has no instruction for doubles.
//
// The compiler may contract a*b+c into one rounding (-ffp-contract=fast), and must keep the order of all
// else: never compile this folder with -ffast-math. Where contraction would break an exact trick, the code
// says so.
//
// Start reading in exponential.h; this file is vocabulary.
#pragma once

#include <cstdint>

#ifndef ADJOINT_ISA
#define ADJOINT_ISA portable
#endif

#ifndef ADJOINT_INLINE
#define ADJOINT_INLINE [[gnu::always_inline]] inline
#endif

// Before a loop: no iteration reads what another writes, so that it may be done in vectors.
#if defined(__clang__)
#define ADJOINT_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define ADJOINT_INDEPENDENT _Pragma("GCC ivdep")
#endif

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__AVX512F__)
#define ADJOINT_HAS_FMA 1
#else
#define ADJOINT_HAS_FMA 0
#endif

namespace adjoint::inline ADJOINT_ISA::math {

/// The layout of T. Bit arithmetic is unsigned, so that what overflows in a lane that is not selected is
/// defined.
template <class T>
struct Bits;
template <>
struct Bits<float> {
  using Unsigned = std::uint32_t;
  static constexpr int mantissa = 23;
  static constexpr Unsigned bias = 127;
  static constexpr Unsigned one = 0x3f800000;
  static constexpr float shift =
      0x1.8p23f;  ///< x + shift rounds x to an integer and keeps it in the low bits
  static constexpr float smallest_normal = 0x1p-126f;
  static constexpr float largest = 0x1.fffffep127f;
};
template <>
struct Bits<double> {
  using Unsigned = std::uint64_t;
  static constexpr int mantissa = 52;
  static constexpr Unsigned bias = 1023;
  static constexpr Unsigned one = 0x3ff0000000000000;
  static constexpr double shift = 0x1.8p52;
  static constexpr double smallest_normal = 0x1p-1022;
  static constexpr double largest = 0x1.fffffffffffffp1023;
};
template <class T>
using Unsigned = typename Bits<T>::Unsigned;

template <class T>
inline constexpr T infinity = T(__builtin_inf());
template <class T>
inline constexpr T not_a_number = T(__builtin_nan(""));

ADJOINT_INLINE std::uint32_t to_bits(float x) { return __builtin_bit_cast(std::uint32_t, x); }
ADJOINT_INLINE std::uint64_t to_bits(double x) { return __builtin_bit_cast(std::uint64_t, x); }
ADJOINT_INLINE float from_bits(std::uint32_t b) { return __builtin_bit_cast(float, b); }
ADJOINT_INLINE double from_bits(std::uint64_t b) { return __builtin_bit_cast(double, b); }

/// c ? a : b, both already computed.
template <class T>
ADJOINT_INLINE T select(bool c, T a, T b) {
  return c ? a : b;
}

ADJOINT_INLINE float abs(float x) { return __builtin_fabsf(x); }
ADJOINT_INLINE double abs(double x) { return __builtin_fabs(x); }
ADJOINT_INLINE float copysign(float x, float s) { return __builtin_copysignf(x, s); }
ADJOINT_INLINE double copysign(double x, double s) { return __builtin_copysign(x, s); }

ADJOINT_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }
ADJOINT_INLINE double sqrt(double x) { return __builtin_sqrt(x); }

template <class T>
ADJOINT_INLINE bool isnan(T x) {
  return x != x;
}
template <class T>
ADJOINT_INLINE bool isinf(T x) {
  return abs(x) == infinity<T>;
}
template <class T>
ADJOINT_INLINE bool isfinite(T x) {
  return abs(x) <= Bits<T>::largest;
}

/// Coefficients First ... First + Count - 1 of c at x, given the powers x, x^2, x^4, x^8, x^16.
template <int First, int Count, class T>
ADJOINT_INLINE T estrin(const T* c, T x, T x2, T x4, T x8, T x16) {
  if constexpr (Count == 1) {
    return c[First];
  } else {
    constexpr int half = Count <= 2 ? 1 : Count <= 4 ? 2 : Count <= 8 ? 4 : Count <= 16 ? 8 : 16;
    const T power = half == 1 ? x : half == 2 ? x2 : half == 4 ? x4 : half == 8 ? x8 : x16;
    return estrin<First + half, Count - half>(c, x, x2, x4, x8, x16) * power +
           estrin<First, half>(c, x, x2, x4, x8, x16);
  }
}
/// The polynomial with coefficients c, lowest first, at x. Halves are evaluated side by side (Estrin's
/// scheme): a loop over an array is bound by the depth of this tree, not by the number of its operations.
/// Where code is compiled for size, by Horner's scheme.
template <class T, int N>
ADJOINT_INLINE T polynomial(T x, const T (&c)[N]) {
#ifdef __OPTIMIZE_SIZE__
  T y = c[N - 1];
  for (int k = N - 2; k >= 0; --k) y = y * x + c[k];
  return y;
#endif
  const T x2 = x * x, x4 = x2 * x2, x8 = x4 * x4;
  return estrin<0, N>(c, x, x2, x4, x8, x8 * x8);
}

/// (polynomial(x, c) - c[0]) / x.
template <class T, int N>
ADJOINT_INLINE T polynomial_tail(T x, const T (&c)[N]) {
#ifdef __OPTIMIZE_SIZE__
  T y = c[N - 1];
  for (int k = N - 2; k > 0; --k) y = y * x + c[k];
  return y;
#endif
  const T x2 = x * x, x4 = x2 * x2, x8 = x4 * x4;
  return estrin<1, N - 1>(c, x, x2, x4, x8, x8 * x8);
}

/// An integer n in two's complement as 2^n, for -bias < n <= bias.
template <class T>
ADJOINT_INLINE T power_of_two(Unsigned<T> n) {
  return from_bits((n + Bits<T>::bias) << Bits<T>::mantissa);
}

/// x + y = value + error, exactly.
template <class T>
struct Pair {
  T value, error;
};
/// Knuth's exact sum, for summands of any order of magnitude.
template <class T>
ADJOINT_INLINE Pair<T> two_sum(T x, T y) {
  const T s = x + y;
  const T z = s - x;
  return {s, (x - (s - z)) + (y - z)};
}
/// The same where |x| >= |y| or x is zero.
template <class T>
ADJOINT_INLINE Pair<T> fast_two_sum(T x, T y) {
  const T s = x + y;
  return {s, y - (s - x)};
}
/// x*y - p, where p is x*y rounded: exact with a fused multiply-add, by Dekker's splitting without.
ADJOINT_INLINE double product_error(double x, double y, double p) {
#if ADJOINT_HAS_FMA
  return __builtin_fma(x, y, -p);
#else
  const double cx = 0x1.0000002p27 * x, cy = 0x1.0000002p27 * y;
  const double xh = cx - (cx - x), yh = cy - (cy - y), xl = x - xh, yl = y - yh;
  return ((xh * yh - p) + xh * yl + xl * yh) + xl * yl;
#endif
}
ADJOINT_INLINE float product_error(float x, float y, float p) {
#if ADJOINT_HAS_FMA
  return __builtin_fmaf(x, y, -p);
#endif
  return float(double(x) * double(y) - double(p));
}

}  // namespace adjoint::inline ADJOINT_ISA::math
