// Bessel functions of orders 0 and 1, the modified ones plain and scaled, and Airy's function Ai with its
// derivative.
//
// All are polynomials on pieces (bessel_coefficients.py):
//     I  of x^2 / 4 below 8, every term of which is positive; e^x / sqrt(x) times one of 1/x beyond
//     K  with its logarithm split off (DLMF 10.31.2) below 1; e^-x / sqrt(x) times ones of 1/x up to 4 and
//     beyond J  on pieces of length 2 below 8; beyond, modulus and phase (10.17.3) with ones of 1/x^2 Y  with
//     its logarithm split off (10.8.2) below 2, and like J beyond Ai on pieces of length 1 from -9 to
//     2; 9.7.5 right of them and 9.7.9 left, with ones of 1/zeta and 1/zeta^2
// These have no branches but where arguments are rare: a `Values` says which are `regular`, a loop computes
// all as if they were, and then mends the others one by one. Of Ai, what an exponential or a cosine would
// magnify, zeta = 2/3 |x|^(3/2), is kept to twice the precision. Start reading at `bessel_i`.
#pragma once

#include "bessel_coefficients.h"
#include "bits.h"
#include "exponential.h"
#include "trigonometric.h"

namespace adjoint::inline ADJOINT_ISA::math {

using BesselTables = coefficients::Bessel<double>;

/// The number of the piece [2n, 2n + 2] in which x from 0 to 8 lies, and x less its middle.
struct Piece {
  double n, h;
};
ADJOINT_INLINE Piece piece_of(double x) {
  const double n = ((0.5 * x - 0.5) + Bits<double>::shift) - Bits<double>::shift;
  return {n, x - (2.0 * n + 1.0)};
}
/// Row n of a table of polynomials at h. All are computed: that takes less time than to gather the
/// coefficients of one.
template <int Last, int Rows, int N>
ADJOINT_INLINE double row_polynomial(double h, const double (&table)[Rows][N], double n) {
#ifdef __OPTIMIZE_SIZE__
  return polynomial(h, table[n > 0 ? static_cast<int>(n) : 0]);
#endif
  const double y = polynomial(h, table[Last]);
  if constexpr (Last == 0)
    return y;
  else
    return select(n > Last - 0.5, y, row_polynomial<Last - 1>(h, table, n));
}

/// The polynomial c0 or c1 at x, by a number known at compile time.
template <int which, class T, int N, int M>
ADJOINT_INLINE T either(T x, const T (&c0)[N], const T (&c1)[M]) {
  if constexpr (which)
    return polynomial(x, c1);
  else
    return polynomial(x, c0);
}

// --- Modified -------------------------------------------------------------------------------------

/// I_v(x) for v = 0 and 1, |x| < 700 or, scaled by e^-|x|, any finite x.
template <int v, bool scaled, class T>
ADJOINT_INLINE T bessel_i(T x) {
  using P = coefficients::Bessel<T>;
  const T edge = sizeof(T) == 4 ? T(4) : T(8), a = abs(x);
  const auto low = a < edge;
  const T b = select(low, a, edge), z = T(0.25) * b * b, t = T(1) / select(low, edge, a);
  const T near = v ? T(0.5) * b * polynomial(z, P::i1_near) : polynomial(z, P::i0_near);
  const T far = either<v>(t - T(0.5) / edge, P::i0_far, P::i1_far) * sqrt(T(0.15915494309189533577) * t);
  T y;
  if (scaled)
    y = select(low, near * exp(-b), far);
  else
    y = select(low, near, far * exp(a));
  return v ? copysign(y, x) : y;
}
/// The same for the others, whose e^x may be out of range where the result is not.
template <int v>
[[gnu::noinline]] inline double bessel_i_large(double x) {
  if (x != x) return x;
  const double a = abs(x), half = exp(0.5 * a),
               y = a < 1000 ? half * bessel_i<v, true>(a) * half : infinity<double>;
  return v ? copysign(y, x) : y;
}

/// K_v(x) for v = 0 and 1, times e^x where scaled; x > 0 and 1/x in range.
template <int v, bool scaled>
ADJOINT_INLINE double bessel_k(double x) {
  using P = BesselTables;
  const bool low = x < 1.0;
  const double b = select(low, x, 1.0), z = 0.25 * b * b;
  const double l = log(b) - 0.11593151565841244881;  // log(x / 2) + gamma
  const double near = v ? 1.0 / b + 0.5 * b * (l * polynomial(z, P::i1_near) - polynomial(z, P::k1_near))
                        : polynomial(z, P::k0_near) - l * polynomial(z, P::i0_near);
  const double c = select(low, 1.0, x), t = 1.0 / c;
  const double middle = either<v>(t - 0.625, P::k0_middle, P::k1_middle);
  const double last = either<v>(select(t < 0.25, t, 0.25), P::k0_far, P::k1_far);
  const double far = select(x < 4.0, middle, last) * sqrt(1.57079632679489661923 / c);
  return select(low, near, far) * exp(select(low == scaled, select(low, x, -x), 0.0));
}
/// The same at the ends.
inline double bessel_k_end(double x) {
  if (!(x >= 0)) return not_a_number<double>;
  return x < 1 ? infinity<double> : 0.0;
}

// --- J and Y --------------------------------------------------------------------------------------

/// J_v(x), or Y_v(x), for x >= 8.
template <int v, bool second>
ADJOINT_INLINE double bessel_phase(double x, Angle<double> angle) {
  using P = BesselTables;
  const double inverse = 1.0 / x, t = inverse * inverse;
  const double p = either<v>(t, P::p0, P::p1), q = either<v>(t, P::q0, P::q1) * inverse;
  const double s = sin_from(angle, 0.0), c = cos_from(angle), sum = s + c, difference = s - c;
  // The phase is x - pi/4 or x - 3pi/4; sum and difference are sqrt(2) its cosine and sine.
  double y;
  if (v == 0)
    y = second ? p * difference + q * sum : p * sum - q * difference;
  else
    y = second ? q * difference - p * sum : p * difference + q * sum;
  return sqrt(0.31830988618379067154 * inverse) * y;
}

/// J_v(x) for |x| <= trigonometric_range.
template <int v>
ADJOINT_INLINE double bessel_j(double x) {
  const double a = abs(x);
  const bool low = a < 8.0;
  const Piece at = piece_of(select(low, a, 7.5));
  const double near = v ? a * row_polynomial<3>(at.h, BesselTables::j1, at.n)
                        : row_polynomial<3>(at.h, BesselTables::j0, at.n);
  const double b = select(low, 8.0, a), far = bessel_phase<v, false>(b, reduce_angle_in_range(b));
  const double y = select(low, near, far);
  return v ? y * copysign(1.0, x) : y;
}
/// J_v(x) beyond.
template <int v>
[[gnu::noinline]] inline double bessel_j_large(double x) {
  if (x != x) return x;
  const double a = abs(x);
  if (a == infinity<double>) return 0;
  const double y = bessel_phase<v, false>(a, reduce_angle(a));
  return v && x < 0 ? -y : y;
}

/// Y_v(x) for 0 < x <= trigonometric_range.
template <int v>
ADJOINT_INLINE double bessel_y(double x) {
  using P = BesselTables;
  const double two_over_pi = 0.63661977236758134308;
  const double b = select(x < 2.0, x, 2.0), z = 0.25 * b * b;
  const double l = log(b) - 0.11593151565841244881, h = b - 1.0;
  const double near = v ? b * (l * polynomial(h, P::j1[0]) - 0.5 * polynomial(z, P::y1_near)) - 1.0 / b
                        : l * polynomial(h, P::j0[0]) + polynomial(z, P::y0_near);
  const Piece at = piece_of(select(x <= 2.0, 2.5, select(x < 8.0, x, 7.5)));
  const double middle =
      v ? row_polynomial<2>(at.h, P::y1, at.n - 1.0) : row_polynomial<2>(at.h, P::y0, at.n - 1.0);
  const double c = select(x < 8.0, 8.0, x), far = bessel_phase<v, true>(c, reduce_angle_in_range(c));
  return select(x <= 2.0, two_over_pi * near, select(x < 8.0, middle, far));
}
template <int v>
[[gnu::noinline]] inline double bessel_y_large(double x) {
  if (!(x >= 0)) return not_a_number<double>;
  if (x < 1) return -infinity<double>;
  if (x == infinity<double>) return 0;
  return bessel_phase<v, true>(x, reduce_angle(x));
}

// --- Spherical, and Airy's ------------------------------------------------------------------------

/// sin(x) / x for |x| <= trigonometric_range.
ADJOINT_INLINE double spherical_bessel_j0(double x) {
  return select(x == 0.0, 1.0, sin_in_range(x) / select(x == 0.0, 1.0, x));
}
[[gnu::noinline]] inline double spherical_bessel_j0_large(double x) {
  return x != x ? x : isinf(x) ? 0.0 : sin(x) / x;
}

[[gnu::noinline]] inline double spherical_bessel_j1(double x) {
  if (x != x) return x;
  if (abs(x) == infinity<double>) return 0;
  if (abs(x) > 1) return (sin(x) / x - cos(x)) / x;
  double sum = 1;
  const double z = -0.5 * x * x;
  for (double k = 9; k > 0; k -= 1) sum = 1 + sum * (z / (k * (2 * k + 3)));
  return sum * x / 3;
}

/// Ai(x), or its derivative.
template <bool slope>
[[gnu::noinline]] inline double airy(double x) {
  using P = BesselTables;
  if (x != x) return x;
  if (abs(x) == infinity<double>) return x > 0 ? 0.0 : slope ? not_a_number<double> : 0.0;
  if (x < 2 && x > -9) {
    const double left = floor(x), h = x - (left + 0.5);
    const double (&c)[18] = P::airy[static_cast<int>(left) + 9];
    if (!slope) return polynomial(h, c);
    double y = 0;
    for (int k = 17; k > 0; --k) y = y * h + k * c[k];
    return y;
  }
  const double y = abs(x), root = sqrt(y);
  // Far on the right e^-zeta is 0; far on the left zeta is infinite, and its sine and cosine are not known.
  if (x > 1000) return slope ? -0.0 : 0.0;
  if (x < -1e200) return slope ? not_a_number<double> : 0.0;
  // zeta = 2/3 y root, and what it was rounded by.
  const double root_error = -0.5 * (product_error(root, root, root * root) - (y - root * root)) / root;
  const double cube = y * root, cube_error = product_error(y, root, cube) + y * root_error;
  constexpr double third_high = 2.0 / 3.0, third_low = 0x1.5555555555555p-55;
  const double zeta = cube * third_high,
               low = product_error(cube, third_high, zeta) + cube_error * third_high + cube * third_low;
  const double inverse = 1 / zeta, fourth = sqrt(root);
  if (x > 0) {
    const double decay = exp(-zeta) * (1 - low);
    if (decay == 0) return slope ? -0.0 : 0.0;
    const double sum =
        0.28209479177387814347 * either<slope>(inverse, P::airy_right_value, P::airy_right_slope);
    return slope ? -sum * fourth * decay : sum / fourth * decay;
  }
  const double t = inverse * inverse;
  const double even = either<slope>(t, P::airy_even_value, P::airy_even_slope);
  const double odd = either<slope>(t, P::airy_odd_value, P::airy_odd_slope) * inverse;
  // The rounding of a large zeta is no small angle.
  const double c = cos(zeta) * cos(low) - sin(zeta) * sin(low),
               s = sin(zeta) * cos(low) + cos(zeta) * sin(low);
  const double cosine = 0.70710678118654752440 * (c + s), sine = 0.70710678118654752440 * (s - c);
  return 0.56418958354775628695 *
         (slope ? fourth * (sine * even - cosine * odd) : (cosine * even + sine * odd) / fourth);
}

}  // namespace adjoint::inline ADJOINT_ISA::math
