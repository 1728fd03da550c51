// How a draw from the beta distribution moves with its first parameter.
//
// With I_x(a, b) = x^a y^b / (a B) S, where y = 1 - x and S is the sum of the products of (a + b + k) / (a +
// 1 + k) x over k < n (DLMF 8.17.8), dI/da is x^a y^b / (a B) (S (log x + ψ(a + b) - ψ(a + 1)) + dS/da), in
// which, up to the mean, both terms have one sign. Beyond the mean the same is done for I_y(b, a) = 1 -
// I_x(a, b), so that nothing cancels. For `single` numbers each sum serves some deviations further where it
// is the shorter one (a share of a Dirichlet draw of many is small, and y close to 1): what cancels there, a
// factor of 10⁵ at most, a double has to spare. Start reading at `beta_slope`.
#pragma once

#include "bits.h"

namespace adjoint::inline ADJOINT_ISA::math {

/// ψ(a + b) - ψ(a), for a and a + b > 0, without cancellation: by the recurrence up to 10, from there on by
/// the asymptotic series (DLMF 5.11.2), difference by difference.
inline double digamma_gap(double a, double b) {
  double sum = 0;
  for (; a < 10; ++a) sum += b / (a * (a + b));
  const double s = a + b, u = 1 / (a * a), v = 1 / (s * s);
  // u^k - v^k = (u - v) h, h = u^(k-1) + u^(k-2) v + …
  double h = 1, power = 1, series = 0;
  constexpr double coefficients[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                     1.0 / 132, -691.0 / 32760, 1.0 / 12,  -3617.0 / 8160};
  for (const double c : coefficients) {
    series += c * h;
    power *= v;
    h = u * h + power;
  }
  return sum + __builtin_log1p(b / a) + b / (2 * a * s) + b * (a + s) * u * v * series;
}

/// factor S + dS/da for the sum S of the products of (a + b + k) / (p + 1 + k) z, where p is a or b; NaN
/// where `most` terms are too few, or less than `share` of the larger term is left.
template <bool is_a>
double beta_series(double a, double b, double z, double factor, int most, double least, double share) {
  const double p = is_a ? a : b, s = a + b;
  double term = 1, slope = 0, sum = 1, by = 0;
  for (int n = 0; n < most; ++n) {
    const double over = s + n, under = p + 1 + n, inverse = 1 / (over * under),
                 ratio = over * over * inverse * z;
    slope += (is_a ? 1 - b : under) * inverse;
    term *= ratio;
    sum += term;
    by += term * slope;
    if (ratio < 1 && term * (abs(factor) + abs(slope)) < least * (1 - ratio) * abs(factor * sum + by))
      return abs(factor * sum + by) >= share * abs(by) ? factor * sum + by : not_a_number<double>;
  }
  return not_a_number<double>;
}

/// dx/da / (1 - x) of a draw x from Beta(a, b) where its probability stays: finite at x = 1, too.
[[gnu::noinline]] inline double beta_slope(double x, double a, double b, bool single) {
  if (!(a > 0 && b > 0 && x >= 0 && x <= 1)) return not_a_number<double>;
  const double y = 1 - x, least = single ? 1e-10 : 1e-17;
  if (x == 0) return 0;
  const double log_x = x > 0.5 ? __builtin_log1p(-y) : __builtin_log(x);
  const auto from_left = [&](int most, double share = 0) {
    return -x / a * beta_series<true>(a, b, x, log_x + digamma_gap(a + 1, b - 1), most, least, share);
  };
  const auto from_right = [&](int most, double share = 0) {
    return x / b * beta_series<false>(a, b, y, log_x + digamma_gap(a, b), most, least, share);
  };
  if (single) {
    const double z = x < y ? x : y, p = x < y ? a : b;
    if (z * (a + b) > p && z * (a + b) < p + 8 + 4 * __builtin_sqrt(p))
      if (const double slope = x < y ? from_left(1000, 1e-5) : from_right(1000, 1e-5); slope == slope)
        return slope;
  }
  // Where the better sum has too many terms (x and the mean are close to an end), the other one has few.
  constexpr int some = 20000, many = 100000;
  const bool left = x * (a + b) <= a;
  double slope = left ? from_left(some) : from_right(some);
  if (slope != slope) slope = left ? from_right(many) : from_left(many);
  if (slope == slope) return slope;
  // Both a and b are huge, and x is normal: m + z √(m (1 - m) / (s + 1)), up to 1 / s.
  const double s = a + b, m = a / s, n = b / s;
  return (n / s + (x - m) * ((1 - 2 * m) / (2 * a) - 0.5 / (s + 1))) / y;
}

}  // namespace adjoint::inline ADJOINT_ISA::math
