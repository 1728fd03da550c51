// Incomplete gamma functions, Riemann's and Hurwitz's zeta function, the scaled complement of the error
// function, and orthogonal polynomials.
//
// P(a, x) and Q(a, x), the shares of gamma's integral up to and from x, have the factor D = x^a e^-x /
// gamma(a + 1), which C. Loader's deviance keeps exact for large a ("Fast and accurate computation of
// binomial probabilities", 2000). P is its series below the turning point x = a, Q the continued fraction
// above (DLMF 8.11.4, 8.9.2); close to the turning point of a >= 20, both are N. Temme's uniform expansion
// (8.12.3). For small a and x, Q is 1 - P without the cancellation. Results for float take fewer terms of
// each.
//
// An orthogonal polynomial and its derivatives follow from its recurrence, differentiated. Powers and
// logarithms are the C library's, as in gamma.h. Start reading at `incomplete_gamma`.
#pragma once

#include "error_function.h"
#include "gamma.h"
#include "incomplete_coefficients.h"

namespace adjoint::inline ADJOINT_ISA::math {

/// a log(a / x) + x - a, the deviance, without cancellation.
inline double deviance(double a, double x) {
  const double gap = a - x;
  if (gap == 0) return 0;
  if (abs(gap) < 0.1 * (a + x)) {
    const double v = gap / (a + x);
    double sum = gap * v, power = 2 * a * v;
    for (double j = 3; j < 60; j += 2) {
      power *= v * v;
      const double before = sum;
      sum += power / j;
      if (sum == before) break;
    }
    return sum;
  }
  return a * __builtin_log(a / x) - gap;
}

/// log gamma(a) less its main terms (a - 1/2) log a - a + log(2 pi) / 2, for a >= 10 (DLMF 5.11.1).
inline double stirling_rest(double a) {
  const double z = 1 / (a * a);
  return (1.0 / 12 -
          z * (1.0 / 360 -
               z * (1.0 / 1260 -
                    z * (1.0 / 1680 - z * (1.0 / 1188 - z * (691.0 / 360360 -
                                                             z * (1.0 / 156 - z * (3617.0 / 122400)))))))) /
         a;
}

/// gamma(a + 1) for 0 <= a < 10.
inline double factorial(double a) {
  const double b = a < 1 ? a + 1 : a, n = floor(b);
  const double value =
      polynomial(b - (n + 0.5), coefficients::Incomplete::factorial[static_cast<int>(n) - 1]);
  return a < 1 ? value / b : value;
}

/// x^a e^-x / gamma(a + 1), a > 0.
[[gnu::noinline]] inline double gamma_factor(double a, double x) {
  if (x == 0 || (a < 16 && x > 2000)) return 0;
  // In two halves: the power may vanish where the result does not, and the other way round.
  if (a < 10) {
    const double half = x > 600 ? __builtin_exp(-0.5 * x) : 1;
    return __builtin_pow(x, a) * half / factorial(a) * (x > 600 ? half : __builtin_exp(-x));
  }
  const double scale = __builtin_exp(-stirling_rest(a)) / __builtin_sqrt(6.28318530717958647692 * a);
  if (a >= 140 || (a >= 16 && x > 0.7 * a)) return __builtin_exp(-deviance(a, x)) * scale;
  // (x / a)^a e^(a - x), with what the quotient and the difference were rounded by.
  const double ratio = x / a, low = -product_error(ratio, a, x) / x;
  const Pair<double> gap = two_sum(a, -x);
  const double half = __builtin_pow(ratio, 0.5 * a);
  return half * (__builtin_exp(gap.value) * half) * (scale + scale * (a * low + gap.error));
}

/// log gamma(1 + a) for 0 <= a <= 1/2 and, less exactly, beyond.
inline double log_gamma_one_plus(double a) {
  if (a > 0.5) return lgamma(1 + a);
  // (zeta(k) - 1) / k for k = 2 ...
  static constexpr double rest[] = {
      0.3224670334241132,     0.0673523010531981,     0.020580808427784546,   0.007385551028673986,
      0.0028905103307415234,  0.001192753911703261,   0.0005096695247430425,  0.00022315475845357939,
      9.945751278180853e-05,  4.492623673813314e-05,  2.050721277567069e-05,  9.439488275268397e-06,
      4.374866789907488e-06,  2.039215753801366e-06,  9.55141213040742e-07,   4.492469198764566e-07,
      2.1207184805554665e-07, 1.0043224823968099e-07, 4.7698101693639804e-08, 2.2711094608943164e-08,
      1.0838659214896955e-08, 5.183475041970047e-09,  2.4836745438024785e-09, 1.1921401405860912e-09,
      5.731367241678862e-10,  2.7595228851242334e-10, 1.330476437424449e-10,  6.4229645638381e-11,
      3.1044247747322276e-11, 1.5021384080754142e-11, 7.275974480239079e-12,  3.527742476575915e-12};
  double sum = 0;
  for (int k = 31; k >= 0; --k) sum = rest[k] - a * sum;
  return a * 0.42278433509846713939 - __builtin_log1p(a) + a * a * sum;
}

/// Temme's expansion in 1/a for a >= 20 near x = a: P, or Q.
inline double gamma_near_turning_point(double a, double x, bool upper, bool single) {
  using C = coefficients::Incomplete;
  const double d = deviance(a, x), size = __builtin_sqrt(2 * d / a), eta = x < a ? -size : size, z = 1 / a;
  double sum = polynomial(eta, C::temme2);
  if (!single) {
    const double high =
        polynomial(eta, C::temme7) +
        z * (polynomial(eta, C::temme8) + z * (polynomial(eta, C::temme9) + z * polynomial(eta, C::temme10)));
    const double middle =
        polynomial(eta, C::temme3) +
        z * (polynomial(eta, C::temme4) +
             z * (polynomial(eta, C::temme5) + z * (polynomial(eta, C::temme6) + z * high)));
    sum += z * middle;
  }
  sum = polynomial(eta, C::temme0) + z * (polynomial(eta, C::temme1) + z * sum);
  const double rest = __builtin_exp(-d) / __builtin_sqrt(6.28318530717958647692 * a) * sum,
               y = x < a ? -__builtin_sqrt(d) : __builtin_sqrt(d);
  return upper ? 0.5 * erfc(y) + rest : 0.5 * erfc(-y) - rest;
}

/// 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)) by the recurrence of its numerators and denominators, with
/// one quotient for several steps; what changes is then much more than what is missing.
inline double gamma_fraction(double a, double x, double tolerance) {
  double b = x + 1 - a, before = 1 / b;
#if !ADJOINT_HAS_FMA
  // Without fused steps that loses three bits where x is small: Steed's way, whose terms fall (A. R. Barnett
  // et al., 1974).
  if (tolerance < 1e-12) {
    double d = before, term = d, sum = d;
    for (double k = 1; k < 4000 && abs(term) > 1e-17 * sum; k += 1) {
      const double turned = -k * (a - k) * d;
      b += 2;
      d = 1 / (b - turned);
      term *= turned * d;
      sum += term;
    }
    return sum;
  }
#endif
  double p0 = 0, p1 = 1, q0 = 1, q1 = b;
  for (double k = 1; k < 4000;) {
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i, k += 1) {
      const double n = k * (a - k);
      b += 2;
      const double p2 = b * p1 + n * p0, q2 = b * q1 + n * q0;
      p0 = p1, p1 = p2, q0 = q1, q1 = q2;
    }
    const double down = 1 / q1, now = p1 * down;
    if (abs(now - before) <= tolerance * now) return now;
    before = now;
    p0 *= down, p1 = now, q0 *= down, q1 = 1;
  }
  return before;
}

/// P(a, x), or Q(a, x) = 1 - P where `upper`; to the precision of float where `single`.
[[gnu::noinline]] inline double incomplete_gamma(double a, double x, bool upper, bool single) {
  if (!(a >= 0) || !(x >= 0)) return not_a_number<double>;
  const double none = upper ? 1 : 0, all = upper ? 0 : 1;
  if (a == infinity<double>) return x == infinity<double> ? not_a_number<double> : none;
  if (a == 0) return x == 0 ? not_a_number<double> : all;
  if (x == 0) return none;
  if (x == infinity<double>) return all;
  if (a >= 20 && abs(x - a) < 0.25 * a) return gamma_near_turning_point(a, x, upper, single);
  const double tolerance = single ? 1e-10 : 1e-17;
  const bool small = x <= 1.1,
             by_q = small ? upper && (x <= 0.5 ? -0.4 / __builtin_log(x) >= a : x * 1.1 >= a) : x > a;
  double result;
  if (!by_q) {
    result = gamma_factor(a, x);
    // Four terms of the series for each quotient.
    double sum = 1, term = 1, n = a;
    for (int k = 0; k < 1000 && result != 0 && term > tolerance * sum; ++k) {
      const double n4 = n + 4, n34 = n4 * (n + 3), n234 = n34 * (n + 2), shared = term * x / (n234 * (n + 1));
      const double square = x * x;
      term = shared * square * x;
      sum += shared * (n234 + x * n34 + square * n4) + term;
      n = n4;
    }
    result *= sum;
  } else if (small) {
    // 1 - x^a / gamma(1 + a) (1 + a sum of (-x)^n / (n! (a + n)))
    const double exponent = a * __builtin_log(x) - log_gamma_one_plus(a);
    double sum = 0, term = 1;
    for (double n = 1; n < 40 && abs(term) > 0.1 * tolerance; n += 1) sum += (term *= -x / n) / (a + n);
    result = -__builtin_expm1(exponent) - __builtin_exp(exponent) * a * sum;
  } else {
    const double factor = gamma_factor(a, x);
    result = factor == 0 ? 0 : factor * a * gamma_fraction(a, x, single ? 1e-9 : 1e-15);
  }
  return by_q == upper ? result : 1 - result;
}

/// x^(a - 1) e^-x / gamma(a): the derivative of P by x.
[[gnu::noinline]] inline double gamma_density(double a, double x) {
  if (!(a >= 0) || !(x >= 0)) return not_a_number<double>;
  if (x == 0) return a < 1 ? infinity<double> : a == 1 ? 1.0 : 0.0;
  if (x == infinity<double> || a == 0) return 0;
  if (a < 10 && x < 1) return a * __builtin_exp(-x) * __builtin_pow(x, a - 1) / factorial(a);
  return gamma_factor(a, x) * (a / x);
}

/// The sum of (q + k)^-s over k >= 0; NaN for s < 1, and for q < 0 where s is not whole.
[[gnu::noinline]] inline double zeta(double s, double q) {
  if (s != s || q != q || s < 1) return not_a_number<double>;
  if (s == 1) return infinity<double>;
  if (q <= 0) {
    if (q == floor(q)) return infinity<double>;
    if (s != floor(s)) return not_a_number<double>;
    // The terms left of the pole are a difference of two sums.
    const double right = q - floor(q), sign = floor(0.5 * s) * 2 == s ? 1 : -1;
    return hurwitz_zeta(s, right, 1) + sign * (hurwitz_zeta(s, 1 - right, 1) - hurwitz_zeta(s, 1 - q, 1));
  }
  if (q == infinity<double>) return 0;
  if (s == infinity<double>) return q < 1 ? s : q == 1 ? 1.0 : 0.0;
  return hurwitz_zeta(s, q, 1);
}

/// e^(x^2) erfc x.
[[gnu::noinline]] inline double erfcx(double x) {
  if (x != x) return x;
  if (x > 28) {
    const double z = 1 / (x * x);
    return 0.56418958354775628695 / x *
           (1 - z * (0.5 - z * (0.75 - z * (1.875 - z * (6.5625 - z * (29.53125 - z * 162.421875))))));
  }
  if (x >= 0.5) return erfcx_middle(x).value;
  if (x < -27) return infinity<double>;
  const double square = x * x, grown = exp(square);
  return (grown + grown * product_error(x, x, square)) * erfc(x);
}

/// Its derivative 2x erfcx x - 2 / sqrt(pi), whose terms cancel to the right: there the expansion of
/// DLMF 7.12.1.
[[gnu::noinline]] inline double erfcx_slope(double x) {
  if (x < 7) return 2 * x * erfcx(x) - 1.12837916709551257390;
  const double z = -0.5 / x / x;
  double sum = 0, term = 1;
  for (double k = 1; k < 60; k += 2) {
    term *= k * z;
    sum += term;
    if (abs(term) < 1e-17 * abs(sum)) break;
  }
  return 1.12837916709551257390 * sum;
}

/// p_(k+1) = (A x + B) p_k - C p_(k-1) of an orthogonal polynomial: 0 to 3 Chebyshev's T, U, V, W; 8, 9
/// Hermite's H and He; 10 Laguerre's L; 11 Legendre's P.
struct Recurrence {
  double A, B, C;
};
ADJOINT_INLINE Recurrence recurrence(int kind, int k) {
  if (kind == 8) return {2, 0, 2.0 * k};
  if (kind == 9) return {1, 0, double(k)};
  if (kind < 8) return {2, 0, 1};
  const double next = 1.0 / (k + 1);
  return kind == 10 ? Recurrence{-next, (2.0 * k + 1) * next, k * next}
                    : Recurrence{(2.0 * k + 1) * next, 0, k * next};
}
/// p_1 is slope x + offset.
ADJOINT_INLINE double first_slope(int kind) {
  return kind == 0 || kind == 9 || kind == 11 ? 1 : kind == 10 ? -1 : 2;
}
ADJOINT_INLINE double first_offset(int kind) { return kind == 2 ? -1 : kind == 3 || kind == 10 ? 1 : 0; }
constexpr double most_degree = 1 << 24;

/// The `order`-th derivative of an orthogonal polynomial of degree n; the kinds 4 to 7 are 0 to 3 at 2x - 1.
[[gnu::noinline]] inline double orthogonal_polynomial(double x, double degree, int kind, int order) {
  constexpr int most = 16;
  if (x != x || degree != degree || order >= most || degree > most_degree) return not_a_number<double>;
  const int n = degree <= -1 ? -1 : static_cast<int>(degree);
  const bool shifted = kind >= 4 && kind < 8;
  const double outer = shifted ? double(1 << order) : 1.0;
  if (shifted) {
    x = 2 * x - 1;
    kind -= 4;
  }
  if (n < 0) return 0;
  double before[most + 1] = {1}, p[most + 1] = {}, after[most + 1];
  p[1] = first_slope(kind);
  p[0] = p[1] * x + first_offset(kind);
  if (n == 0) return before[order];
  for (int k = 1; k < n; ++k) {
    const Recurrence r = recurrence(kind, k);
    for (int m = 0; m <= order; ++m)
      after[m] = (r.A * x + r.B) * p[m] - r.C * before[m] + (m ? m * r.A * p[m - 1] : 0.0);
    for (int m = 0; m <= order; ++m) before[m] = p[m], p[m] = after[m];
  }
  return outer * p[order];
}

/// The polynomials of one degree >= 0 at n places, which share the recurrence's numbers.
template <class T>
[[gnu::noinline]] void orthogonal_polynomials(T* out, const T* in, double degree, int kind, std::int64_t n) {
  constexpr std::int64_t block = 128;
  double x[block], before[block], p[block];
  const bool shifted = kind >= 4 && kind < 8;
  if (shifted) kind -= 4;
  const int last = static_cast<int>(degree);
  const double slope = first_slope(kind), offset = first_offset(kind);
  for (std::int64_t at = 0; at < n; at += block) {
    const std::int64_t m = n - at < block ? n - at : block;
    for (std::int64_t i = 0; i < m; ++i) {
      x[i] = shifted ? 2 * double(in[at + i]) - 1 : double(in[at + i]);
      before[i] = x[i] == x[i] ? 1.0 : x[i];
      p[i] = last > 0 ? slope * x[i] + offset : before[i];
    }
    for (int k = 1; k < last; ++k) {
      const Recurrence r = recurrence(kind, k);
      for (std::int64_t i = 0; i < m; ++i) {
        const double after = (r.A * x[i] + r.B) * p[i] - r.C * before[i];
        before[i] = p[i];
        p[i] = after;
      }
    }
    for (std::int64_t i = 0; i < m; ++i) out[at + i] = T(p[i]);
  }
}

}  // namespace adjoint::inline ADJOINT_ISA::math
