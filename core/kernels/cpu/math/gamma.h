// The logarithm of the gamma function and its derivatives. What is computed one element at a time takes
// powers from the C library, whose tables are quicker than code without branches.
#pragma once

#include "bits.h"
#include "exponential.h"
#include "runtime/system.h"
#include "trigonometric.h"

namespace adjoint::inline ADJOINT_ISA::math {

constexpr double stirling_series[] = {1.0 / 12,   -1.0 / 360,      1.0 / 1260, -1.0 / 1680,
                                      1.0 / 1188, -691.0 / 360360, 1.0 / 156};

ADJOINT_INLINE double lgamma(double x) { return runtime::system::log_gamma(x); }
ADJOINT_INLINE float lgamma(float x) {
  // In double, where nothing near the zeros is lost: ten steps of the recurrence, as one product, to
  // Stirling's series (DLMF 5.11.1), and reflection left of 0.
  const double a = x, y = select(a < 0.0, 1.0 - a, abs(a)), b = select(y < 10.0, y, 1.0);
  const double steps = ((b * (b + 1.0)) * ((b + 2.0) * (b + 3.0))) * ((b + 4.0) * (b + 5.0)) *
                       (((b + 6.0) * (b + 7.0)) * ((b + 8.0) * (b + 9.0)));
  const double z = select(y < 10.0, y + 10.0, y), r = 1.0 / z, l = log(z),
               product = select(y < 10.0, steps, 1.0);
  const double main =
      z * (l - 1.0) - 0.5 * l + (0.91893853320467274178 + r * polynomial(r * r, stirling_series));
  const double rest =
      log(select(a < 0.0, 3.14159265358979323846 * product, 1.0) / select(a < 0.0, abs(sin_pi(a)), product));
  const double value = select(a == 1.0 || a == 2.0, 0.0, rest + select(a < 0.0, -main, main));
  return float(select(abs(a) < infinity<double>, value, abs(a)));
}

/// log gamma(x) for x >= 0, given the polynomial of log gamma(1 + f) = f (f - 1) P(f - 1/2): below 10 the
/// recurrence leads to [1, 2), with its steps as one product, beyond is Stirling's series.
template <int N>
ADJOINT_INLINE double lgamma_of_positive(double x, const double (&c)[N]) {
  const double b = select(x < 10.0, x, 1.0), f = b - floor(b), r = 1.0 / x;
  double product = select(x < 1.0, x, 1.0);
#pragma GCC unroll 8
  for (int k = 1; k < 9; ++k) product *= select(b >= k + 1.0, b - k, 1.0);
  const double l = log(select(x < 10.0, product, x));
  const double below = f * (f - 1.0) * polynomial(f - 0.5, c) + select(x < 1.0, -l, l);
  const double above =
      (x - 0.5) * (l - 1.0) + (0.41893853320467274178 + r * polynomial(r * r, stirling_series));
  return select(x < 10.0, below, above);
}
/// Whether reflection gives log gamma(x): its two terms cancel beside the zeros left of 0, which lie at
/// -2.46, -2.75, -3.14 and so on, ever closer to the poles.
ADJOINT_INLINE bool reflects(double x) {
  const bool few = x > -2.0 && x < -1e-300,
             many = x < -8.0 && x > -1e15 && (x < -30.0 || abs(x - round(x)) > 0.02);
  return x >= 0.0 || few || many;
}
/// log gamma of n numbers, which may be written over.
template <class T>
[[gnu::noinline]] void lgamma_of_all(T* out, const T* in, std::int64_t n) {
  using P = coefficients::Polynomials<double>;
  constexpr std::int64_t block = 256;
  T x[block];
  for (std::int64_t at = 0; at < n; at += block, in += block, out += block) {
    const std::int64_t m = n - at < block ? n - at : block;
    std::int64_t others = 0, rare = 0;
    for (std::int64_t i = 0; i < m; ++i) {
      x[i] = in[i];
      others += x[i] >= T(0) ? 0 : 1;
    }
    if constexpr (sizeof(T) == 4) {
      if (others == 0)
        for (std::int64_t i = 0; i < m; ++i) out[i] = T(lgamma_of_positive(x[i], P::log_gamma_short));
      else
        for (std::int64_t i = 0; i < m; ++i) out[i] = lgamma(x[i]);
    } else if (others == 0) {
      for (std::int64_t i = 0; i < m; ++i) out[i] = lgamma_of_positive(x[i], P::log_gamma);
    } else {
      for (std::int64_t i = 0; i < m; ++i) {
        const double right = lgamma_of_positive(select(x[i] < 0.0, 1.0 - x[i], x[i]), P::log_gamma);
        out[i] = select(x[i] < 0.0, log(3.14159265358979323846 / abs(sin_pi(x[i]))) - right, right);
        rare += reflects(x[i]) ? 0 : 1;
      }
      for (std::int64_t i = 0; rare != 0 && i < m; ++i)
        if (!reflects(x[i])) out[i] = lgamma(x[i]);
    }
  }
}

/// The derivative of log gamma: from 10 on Stirling's series (DLMF 5.11.2); below, the recurrence leads to
/// [1, 2], where the zero x0 = high + low is a factor; reflection for x < 0. Beside the zeros left of 0 the
/// error is small against the two terms of the reflection, not against their sum.
ADJOINT_INLINE double digamma(double x) {
  if (x == 0) return copysign(__builtin_inf(), -x);
  double reflected = 0, low_x = 0;
  if (x < 0) {
    if (x == floor(x)) return __builtin_nan("");
    reflected = -3.14159265358979323846 * (cos_pi(x) / sin_pi(x));
    const Pair<double> mirrored = two_sum(1.0, -x);
    x = mirrored.value;
    low_x = mirrored.error;
  }
  if (x < 10) {
    double sum = 0;
    if (x < 1) {
      sum = -1 / x;
      x += 1;
    }
    for (; x >= 2; x -= 1) sum += 1 / (x - 1);
    constexpr double high = 0x1.762d86356be3fp+0, low = 0x1.b86a722197829p-54;
    const double base =
        ((x - high) - (low - low_x)) * polynomial(x - 1.5, coefficients::Polynomials<double>::digamma);
    return reflected + (sum + base);
  }
  const double r = 1 / (x * x);
  const double series =
      r *
      (1.0 / 12 -
       r * (1.0 / 120 - r * (1.0 / 252 - r * (1.0 / 240 - r * (1.0 / 132 - r * (691.0 / 32760 - r / 12))))));
  return reflected + (log(x) - (0.5 / x + series));
}
ADJOINT_INLINE float digamma(float x) { return float(digamma(double(x))); }

/// The derivative of digamma: nine terms of the sum of 1/(x + k)^2, by pairs, then Euler's and Maclaurin's
/// formula (DLMF 5.15.8); reflection for x < 0.
ADJOINT_INLINE double trigamma(double x) {
  const double y = select(x < 0.0, 1.0 - x, x), b = select(y < 9.0, y, 9.0);
  const auto pair = [](double a) {
    const double c = a + 1.0, product = a * c;
    return (a * a + c * c) / (product * product);
  };
  const double terms = 1.0 / (b * b) + (pair(b + 1.0) + (pair(b + 3.0) + (pair(b + 5.0) + pair(b + 7.0))));
  const double r = 1.0 / select(y < 9.0, y + 9.0, y), z = r * r;
  static constexpr double bernoulli[] = {1.0 / 6,       -1.0 / 30, 1.0 / 42,      -1.0 / 30,    5.0 / 66,
                                         -691.0 / 2730, 7.0 / 6,   -3617.0 / 510, 43867.0 / 798};
  const double rest = r + (0.5 * z + r * z * polynomial(z, bernoulli));
  const double value = select(y < 9.0, terms + rest, rest);
  const double s = sin_pi(x), far = 3.14159265358979323846 / s;
  return select(x < 0.0, select(x == -infinity<double>, infinity<double>, far * far - value), value);
}
ADJOINT_INLINE float trigamma(float x) { return float(trigamma(double(x))); }

/// Hurwitz's zeta function, the sum of (x + k)^-s over k >= 0, times factor: terms up to where Euler's and
/// Maclaurin's formula (DLMF 25.11.28) holds to full precision, then that. For s > 1 and x > 0. The
/// factor, a factorial, keeps small powers from vanishing before they are multiplied. `low` is what x was
/// rounded by, where the first term, the largest, feels it.
[[gnu::noinline]] inline double hurwitz_zeta(double s, double x, double factor, double low = 0) {
  // x^-p times the factor, whichever is extreme.
  const auto power = [factor](double x, double p) {
    if (p < 40 && x > 1e-6 && x < 1e6) {
      if (p == 1) return factor / x;
      if (p == 2) return factor / (x * x);
      return p == 3 ? factor / (x * x * x) : factor * __builtin_pow(x, -p);
    }
    const double half = floor(0.5 * p);
    return (factor * __builtin_pow(x, -half)) * __builtin_pow(x, half - p);
  };
  double sum = 0;
  for (const double enough = 0.75 * limit(s, 2.0, 280.0) + 7; x < enough; x += 1) {
    double term = power(x, s);
    if (low != 0 && sum == 0) term -= term * (s * low / x);
    sum += term;
    if (term <= sum * 0x1p-60) return sum;
  }
  // Bernoulli's numbers B_2j over (2j)!
  static constexpr double scaled_bernoulli[] = {
      0.08333333333333333,   -0.001388888888888889,  3.306878306878307e-05,  -8.267195767195768e-07,
      2.08767569878681e-08,  -5.284190138687493e-10, 1.3382536530684679e-11, -3.3896802963225827e-13,
      8.586062056277845e-15, -2.174868698558062e-16, 5.5090028283602295e-18, -1.3954464685812522e-19};
  // In units of x^(1-s), which is in range wherever the result is.
  const double r = 1 / x, z = r * r;
  double series = 0, term = s * z;
  for (int j = 0; j < 12; ++j) {
    series += scaled_bernoulli[j] * term;
    term *= (s + (2 * j + 1)) * (s + (2 * j + 2)) * z;
  }
  return sum + power(x, s - 1) * (1 / (s - 1) + (0.5 * r + series));
}

/// The n-th derivative of digamma, (-1)^(n+1) n! zeta(n + 1, x), n >= 1. Left of 0 the terms of the sum lie
/// on both sides of a pole: those right of it are a zeta of the distance to the pole, those left of it a
/// difference of two.
[[gnu::noinline]] inline double polygamma(double x, double n) {
  if (x != x) return x;
  const double s = n + 1;
  const bool odd = round(0.5 * n) != 0.5 * n;
  double factorial = 1;
  for (double k = 2; k <= n && k <= 171; k += 1) factorial *= k;
  if (x == infinity<double>) return odd ? 0.0 : -0.0;
  if (x > 0) return odd ? hurwitz_zeta(s, x, factorial) : -hurwitz_zeta(s, x, factorial);
  // A pole; of even order it has the sign of its right side, as torch has it.
  if (x == floor(x)) return odd ? infinity<double> : -infinity<double>;
  const double r = x - round(x);  // exact
  const Pair<double> far = fast_two_sum(1.0, -abs(r));
  const double near = hurwitz_zeta(s, abs(r), factorial),
               rest = hurwitz_zeta(s, far.value, factorial, far.error);
  const double above = r > 0 ? near : rest;
  const double below = (r > 0 ? rest : near) - hurwitz_zeta(s, 1 - x, factorial);
  return odd ? above + below : below - above;
}

}  // namespace adjoint::inline ADJOINT_ISA::math
