// Bessel functions of orders 0 and 1, the modified ones plain and scaled, and Airy's function Ai with its derivative.
//
// I is a power series below 5, every term of which is positive, and Hankel's expansion (DLMF 10.40.1) from 20 on. K is its
// logarithmic series (10.31.2) below 1/4, and the same expansion from 20 on. Between these, both are the trapezoidal rule,
// whose error for such integrands is far below rounding, over
//     I_v(x) e^-x = 1/pi times the integral of e^(-2x sin^2(t/2)) cos(vt) from 0 to pi, in steps of pi/24     (10.32.1, .3)
//     K_v(x) e^x  = the integral of e^(-2x sinh^2(t/2)) cosh(vt) from 0 on, in steps of 5/32                  (10.32.9)
// J and Y are the C library's.
//
// Ai is K of order 1/3 right of 1/2 (9.6.2), Taylor's series from the nearest of the nodes 0, -1, ... -10, and the expansion
// in 1/zeta (9.7.9) left of them. What an exponential or a cosine would magnify, zeta = 2/3 |x|^(3/2), is kept to twice
// the precision. Start reading at `bessel_i`.
#pragma once

#include "bits.h"
#include "exponential.h"
#include "trigonometric.h"

namespace adjoint::inline ADJOINT_ISA::math {

/// The sum of (4v^2 - 1)(4v^2 - 9) ... / (k! (8x)^k), of alternating sign where `alternate`: Hankel's expansion for
/// x >= 20; mu = 4v^2.
inline double hankel_sum(double mu, double x, bool alternate) {
  const double z = (alternate ? 0.125 : -0.125) / x;
  double rest = 0, term = 1;
  for (double k = 1; k < 40; k += 1) {
    term *= (mu - (2 * k - 1) * (2 * k - 1)) * z / k;
    rest += term;
    if (abs(term) < 1e-18) break;
  }
  return 1 + rest;
}

struct CircleTable {
  static constexpr int count = 23;
  /// 2 sin^2(j pi/48) for j = 1 ...
  static constexpr double twice_sine_squared[count] = {
      0.008555138626189588, 0.034074173710931716, 0.07612046748871325, 0.13397459621556135,
      0.20664665970876483, 0.2928932188134525, 0.39123857099127934, 0.5, 0.6173165676349103,
      0.7411809548974793, 0.8694738077799484, 1.0, 1.1305261922200516, 1.2588190451025207,
      1.3826834323650898, 1.5, 1.6087614290087207, 1.7071067811865475, 1.7933533402912352,
      1.8660254037844386, 1.9238795325112867, 1.9659258262890682, 1.9914448613738105};
};

/// I_v(x) for v = 0 and 1; times e^-|x| where scaled.
inline double bessel_i(double x, int v, bool scaled) {
  if (x != x) return x;
  const double a = abs(x), sign = v && x < 0 ? -1 : 1;
  if (a < 5) {
    const double z = 0.25 * a * a;
    double sum = 1;
    for (double k = floor(10 + 1.4 * a); k > 0; k -= 1) sum = 1 + sum * (z / (k * (k + v)));
    if (v) sum *= 0.5 * x;
    return scaled ? sum * exp(-a) : sum;
  }
  if (a == infinity<double>) return scaled ? sign * 0.0 : sign * a;
  double y;
  if (a < 20) {
    // Of the integral of e^(-2a sin^2(t/2)) cos(vt) from 0 to pi over pi, the smallest terms first.
    y = 0.5 * exp(-2 * a) * (v ? -1 : 1);
    for (int j = CircleTable::count - 1; j >= 0; --j) {
      const double s = CircleTable::twice_sine_squared[j];
      y += (v ? 1 - s : 1.0) * exp(-a * s);
    }
    y = sign * (y + 0.5) / (CircleTable::count + 1);
  } else {
    y = sign * hankel_sum(4 * v, a, false) / sqrt(6.28318530717958647692 * a);
  }
  if (scaled) return y;
  if (a < 700) return y * exp(a);
  const double half = exp(0.5 * a);  // the square may be out of range where the result is not
  return half * y * half;
}

struct KernelTables {
  static constexpr int count = 38;
  /// 2 sinh^2(jh/2) and cosh(jh/3) for j = 1 ...
  static constexpr double twice_sinh_squared[count] = {
      0.01223188673846347, 0.049226785060219075, 0.11188972977761219, 0.20175369297560633,
      0.3210170862936161, 0.47259754236986296, 0.6602032911453254, 0.8884238771610158,
      1.1628424371359933, 1.4901722845593504, 1.878421142670689, 2.3370870435875206,
      2.877390686011465, 3.5125499358595405, 4.258103185141804, 5.132289479663686,
      6.156494714911002, 7.355774815752726, 8.759468698911235, 10.401916013575068,
      12.323297218797947, 14.57061654914727, 17.19885191565102, 20.272299872959398,
      23.866148555693112, 28.06831706393692, 32.98160629618837, 38.726213847251884,
      45.442674494970525, 53.29529821119678, 62.476189803723955, 73.20994852478785,
      85.75916261629655, 100.43083320909821, 117.5838847291032, 137.637945543135, 161.0836136522406,
      188.4944585700563};
  static constexpr double cosh_third[count] = {
      1.0013566434415362, 1.0054302547289997, 1.0122318867384634, 1.0217799942488424,
      1.0341004840150023, 1.049226785060219, 1.067199939378708, 1.0880687132943285,
      1.1118897297776122, 1.1387276220801243, 1.1686552091030187, 1.2017536929756063,
      1.2381128793800285, 1.2778314212198356, 1.3210170862936161, 1.3677870496999516,
      1.4182682117670742, 1.472597542369863, 1.5309224525684084, 1.5934011945765088,
      1.6602032911453255, 1.7315099955272402, 1.807514783267928, 1.8884238771610158,
      1.9744568067896853, 2.0658470041734103, 2.162842437135993, 2.2657062821134097,
      2.3747176382269792, 2.49017228455935, 2.612383482688007, 2.7416828266537956,
      2.878421142670689, 3.0229694410179486, 3.1757199226974513, 3.3370870435875206,
      3.5075086389806263, 3.6874471115561414};
};

/// K_v(x) e^x for x >= 0.2, by the trapezoidal rule or Hankel's expansion; v = thirds / 3.
inline double bessel_k_scaled(double x, int thirds) {
  if (x >= 20) return hankel_sum(4.0 * thirds * thirds / 9.0, x, true) * sqrt(1.57079632679489661923 / x);
  // The smallest terms first.
  int j = KernelTables::count - 1;
  while (x * KernelTables::twice_sinh_squared[j] > 45) --j;
  double sum = 0;
  for (; j >= 0; --j) {
    const double s = KernelTables::twice_sinh_squared[j], c = KernelTables::cosh_third[j];
    const double weight = thirds == 0 ? 1 : thirds == 1 ? c : thirds == 2 ? 2 * c * c - 1 : 1 + s;
    sum += weight * exp(-x * s);
  }
  return 0.15625 * (sum + 0.5);
}

/// K_v(x) for v = 0 and 1; times e^x where scaled.
inline double bessel_k(double x, int v, bool scaled) {
  if (!(x >= 0)) return not_a_number<double>;
  if (x == 0) return infinity<double>;
  if (x == infinity<double>) return 0;
  if (x >= 0.25) {
    const double y = bessel_k_scaled(x, 3 * v);
    return scaled ? y : y * exp(-x);
  }
  constexpr double gamma = 0.57721566490153286061;
  const double z = 0.25 * x * x, log_half = log(0.5 * x);
  // Sums of z^k / (k! (k + v)!) times numbers that rise by 1/k (and 1/(k + 1)).
  double term = 1, rest = 0, harmonic = v ? 1 - 2 * gamma : 0, sum = v ? harmonic : 0;
  for (double k = 1; k < 16; k += 1) {
    term *= z / (k * (k + v));
    harmonic += v ? 1 / k + 1 / (k + 1) : 1 / k;
    rest += term * harmonic;
  }
  sum += rest;
  const double y = v ? 1 / x + log_half * bessel_i(x, 1, false) - 0.25 * x * sum : sum - (log_half + gamma) * bessel_i(x, 0, false);
  return scaled ? y * exp(x) : y;
}

inline double bessel_j(double x, int v) { return v ? __builtin_j1(x) : __builtin_j0(x); }
inline double bessel_y(double x, int v) {
  if (!(x >= 0)) return not_a_number<double>;
  if (x == 0) return -infinity<double>;
  return v ? __builtin_y1(x) : __builtin_y0(x);
}

/// sin(x) / x, and its negative derivative, of which that is the difference of two terms.
inline double spherical_bessel_j0(double x) { return x == 0 ? 1 : abs(x) == infinity<double> ? 0 : sin(x) / x; }
inline double spherical_bessel_j1(double x) {
  if (abs(x) == infinity<double>) return 0;
  if (abs(x) > 1) return (sin(x) / x - cos(x)) / x;
  double sum = 1;
  const double z = -0.5 * x * x;
  for (double k = 9; k > 0; k -= 1) sum = 1 + sum * (z / (k * (2 * k + 3)));
  return sum * x / 3;
}

/// Ai(x), or its derivative.
inline double airy(double x, bool slope) {
  if (x != x) return x;
  if (abs(x) == infinity<double>) return x > 0 ? 0.0 : slope ? not_a_number<double> : 0.0;
  if (x < 0.5 && x > -10.5) {
    static constexpr double nodes[11][2] = {
        {0.3550280538878172, -0.2588194037928068}, 
        {0.5355608832923521, -0.01016056711664521}, 
        {0.22740742820168558, 0.618259020741691}, 
        {-0.37881429367765806, 0.3145837692165988}, 
        {-0.07026553294928951, -0.7906285753685813}, 
        {0.35076100902411433, 0.32719281855444315}, 
        {-0.3291451736298231, 0.3459354872813429}, 
        {0.18428083525050565, -0.7710081684101265}, 
        {-0.0527050503563862, 0.9355609381983065}, 
        {-0.022133721547341403, -0.9756639809263316}, 
        {0.04024123848644319, 0.99626504413279}};
    const double node = round(x), h = x - node;
    const int n = static_cast<int>(-node) < 0 ? 0 : static_cast<int>(-node);
    const double at = -n, step = n == -node ? h : x;
    // a_(k+2) = (at a_k + a_(k-1)) / ((k + 1) (k + 2))
    double before = 0, a = nodes[n][0], next = nodes[n][1], power = 1, value = 0, derivative = 0;
    for (double k = 0; k < 30; k += 1) {
      value += a * power;
      derivative += (k + 1) * next * power;
      const double after = (at * a + before) / ((k + 1) * (k + 2));
      before = a;
      a = next;
      next = after;
      power *= step;
    }
    return slope ? derivative : value;
  }
  const double y = abs(x), root = sqrt(y);
  // zeta = 2/3 y root, and what it was rounded by.
  const double root_error = -0.5 * (product_error(root, root, root * root) - (y - root * root)) / root;
  const double cube = y * root, cube_error = product_error(y, root, cube) + y * root_error;
  constexpr double third_high = 2.0 / 3.0, third_low = 0x1.5555555555555p-55;
  const double zeta = cube * third_high, low = product_error(cube, third_high, zeta) + cube_error * third_high + cube * third_low;
  if (x > 0) {
    const double decay = exp(-zeta) * (1 - low);
    if (decay == 0) return slope ? -0.0 : 0.0;
    return slope ? -0.18377629847393068 * y * bessel_k_scaled(zeta, 2) * decay
                 : 0.18377629847393068 * root * bessel_k_scaled(zeta, 1) * decay;
  }
  // Sums over even and odd k of u_k / zeta^k, or v_k, with signs that change every second time.
  double term = 1, even = 1, odd = 0;
  for (int k = 0; k < 40; ++k) {
    const double six = 6.0 * k;
    term *= (six + 5) * (six + 3) * (six + 1) / (216.0 * (k + 1) * (2 * k + 1)) / zeta;
    const double part = (slope ? -(six + 7) / (six + 5) : 1.0) * ((k + 1) & 2 ? -term : term);
    ((k + 1) & 1 ? odd : even) += part;
    if (term < 1e-17) break;
  }
  const double c = cos(zeta), s = sin(zeta);
  const double cosine = 0.70710678118654752440 * ((c - low * s) + (s + low * c)), sine = 0.70710678118654752440 * ((s + low * c) - (c - low * s));
  const double fourth = sqrt(root);
  return 0.56418958354775628695 * (slope ? fourth * (sine * even - cosine * odd) : (cosine * even + sine * odd) / fourth);
}

}  // namespace adjoint::inline ADJOINT_ISA::math
