// Incomplete gamma functions, Riemann's and Hurwitz's zeta function, the scaled complement of the error function, and
// orthogonal polynomials.
//
// P(a, x) and Q(a, x), the shares of gamma's integral up to and from x, have the factor D = x^a e^-x / gamma(a + 1), which C.
// Loader's deviance keeps exact for large a ("Fast and accurate computation of binomial probabilities", 2000). P is its
// series below the turning point x = a, Q the continued fraction above (DLMF 8.11.4, 8.9.2); close to the turning point of
// a large a, both are N. Temme's uniform expansion (8.12.3). For small a and x, Q is 1 - P without the cancellation.
//
// An orthogonal polynomial and its derivatives follow from its recurrence, differentiated. Start reading at `incomplete_gamma`.
#pragma once

#include "error_function.h"
#include "gamma.h"

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
  return a * log(a / x) - gap;
}

/// log gamma(a) less its main terms (a - 1/2) log a - a + log(2 pi) / 2, for a >= 16 (DLMF 5.11.1).
inline double stirling_rest(double a) {
  const double z = 1 / (a * a);
  return (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z * (1.0 / 1188 - z * (691.0 / 360360 - z / 156)))))) / a;
}

/// gamma(a + 1), without rounding the argument, which large ones would magnify.
inline double factorial(double a) { return a < 1 ? __builtin_tgamma(a + 1) : a * __builtin_tgamma(a); }

/// x^a e^-x / gamma(a + 1), a > 0.
inline double gamma_factor(double a, double x) {
  if (x == 0 || (a < 16 && x > 2000)) return 0;
  if (a < 16 || (a < 140 && x < 0.7 * a)) {
    // In two halves: the power may vanish where the result does not, and the other way round.
    const double half = x > 600 ? exp(-0.5 * x) : 1;
    return pow(x, a) * half / factorial(a) * (x > 600 ? half : exp(-x));
  }
  return exp(-deviance(a, x) - stirling_rest(a)) / sqrt(6.28318530717958647692 * a);
}

/// log gamma(1 + a) for 0 <= a <= 1/2 and, less exactly, beyond.
inline double log_gamma_one_plus(double a) {
  if (a > 0.5) return lgamma(1 + a);
  // (zeta(k) - 1) / k for k = 2 ...
  static constexpr double rest[] = {
      0.3224670334241132, 0.0673523010531981, 0.020580808427784546, 0.007385551028673986,
      0.0028905103307415234, 0.001192753911703261, 0.0005096695247430425, 0.00022315475845357939,
      9.945751278180853e-05, 4.492623673813314e-05, 2.050721277567069e-05, 9.439488275268397e-06,
      4.374866789907488e-06, 2.039215753801366e-06, 9.55141213040742e-07, 4.492469198764566e-07,
      2.1207184805554665e-07, 1.0043224823968099e-07, 4.7698101693639804e-08,
      2.2711094608943164e-08, 1.0838659214896955e-08, 5.183475041970047e-09, 2.4836745438024785e-09,
      1.1921401405860912e-09, 5.731367241678862e-10, 2.7595228851242334e-10, 1.330476437424449e-10,
      6.4229645638381e-11, 3.1044247747322276e-11, 1.5021384080754142e-11, 7.275974480239079e-12,
      3.527742476575915e-12};
  double sum = 0;
  for (int k = 31; k >= 0; --k) sum = rest[k] - a * sum;
  return a * 0.42278433509846713939 - log1p(a) + a * a * sum;
}

/// Temme's expansion in 1/a for a >= 100 near x = a: P, or Q.
inline double gamma_near_turning_point(double a, double x, bool upper) {
  static constexpr double terms[7][14] = {
      {-0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073,
      0.0003527336860670194, -0.0001787551440329218, 3.919263178522438e-05, -2.185448510679992e-06,
      -1.85406221071516e-06, 8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09,
      1.0261809784240309e-08, -4.382036018453353e-09},
      {-0.001851851851851852, -0.003472222222222222, 0.0026455026455026454, -0.0009902263374485596,
      0.00020576131687242798, -4.018775720164609e-07, -1.8098550334489977e-05, 7.64916091608111e-06,
      -1.6120900894563446e-06, 4.647127802807434e-09, 1.378633446915721e-07,
      -5.752545603517705e-08},
      {0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049, 2.0093878600823047e-06,
      -0.0001073665322636516, 5.2923448829120125e-05, -1.2760635188618728e-05,
      3.423578734096138e-08, 1.3721957309062934e-06, -6.298992138380055e-07},
      {0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557,
      0.00026772063206283885, -7.561801671883977e-05, -2.396505113867297e-07,
      1.1082654115347302e-05, -5.6749528269915965e-06},
      {-0.0008618882909167117, 0.0007840392217200666, -0.0002990724803031902,
      -1.4638452578843418e-06, 6.641498215465122e-05, -3.968365047179435e-05},
      {-0.00033679855336635813, -6.972813758365857e-05, 0.0002772753244959392,
      -0.00019932570516188847},
      {0.0005313079364639922, -0.0005921664373536939, 0.0002708782096718045},};
  const double d = deviance(a, x), size = sqrt(2 * d / a), eta = x < a ? -size : size;
  double sum = 0;
  for (int k = 6; k >= 0; --k) {
    double row = 0;
    for (int n = 13; n >= 0; --n) row = row * eta + terms[k][n];
    sum = sum / a + row;
  }
  const double rest = exp(-d) / sqrt(6.28318530717958647692 * a) * sum, y = x < a ? -sqrt(d) : sqrt(d);
  return upper ? 0.5 * erfc(y) + rest : 0.5 * erfc(-y) - rest;
}

/// P(a, x), or Q(a, x) = 1 - P where `upper`.
inline double incomplete_gamma(double a, double x, bool upper) {
  if (!(a >= 0) || !(x >= 0)) return not_a_number<double>;
  const double none = upper ? 1 : 0, all = upper ? 0 : 1;
  if (a == infinity<double>) return x == infinity<double> ? not_a_number<double> : none;
  if (a == 0) return x == 0 ? not_a_number<double> : all;
  if (x == 0) return none;
  if (x == infinity<double>) return all;
  if (a >= 100 && abs(x - a) < 0.25 * a) return gamma_near_turning_point(a, x, upper);
  const bool small = x <= 1.1, by_q = small ? upper && (x <= 0.5 ? -0.4 / log(x) >= a : x * 1.1 >= a) : x > a;
  double result;
  if (!by_q) {
    double sum = 1, term = 1;
    for (double k = 1; k < 4000 && term > 1e-17 * sum; k += 1) sum += term *= x / (a + k);
    result = gamma_factor(a, x) * sum;
  } else if (small) {
    // 1 - x^a / gamma(1 + a) (1 + a sum of (-x)^n / (n! (a + n)))
    const double exponent = a * log(x) - log_gamma_one_plus(a);
    double sum = 0, term = 1;
    for (double n = 1; n < 40; n += 1) sum += (term *= -x / n) / (a + n);
    result = -expm1(exponent) - exp(exponent) * a * sum;
  } else {
    // Lentz's way through the fraction 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)).
    double b = x + 1 - a, c = 1e300, d = 1 / b, product = d;
    for (double k = 1; k < 4000; k += 1) {
      const double n = k * (a - k);
      b += 2;
      d = 1 / (n * d + b);
      c = b + n / c;
      const double factor = c * d;
      product *= factor;
      if (abs(factor - 1) < 1e-16) break;
    }
    result = gamma_factor(a, x) * a * product;
  }
  return by_q == upper ? result : 1 - result;
}

/// x^(a - 1) e^-x / gamma(a): the derivative of P by x.
inline double gamma_density(double a, double x) {
  if (!(a >= 0) || !(x >= 0)) return not_a_number<double>;
  if (x == 0) return a < 1 ? infinity<double> : a == 1 ? 1.0 : 0.0;
  if (x == infinity<double> || a == 0) return 0;
  if (a < 16 && x < 1) return a * exp(-x) * pow(x, a - 1) / factorial(a);
  return gamma_factor(a, x) * (a / x);
}

/// The sum of (q + k)^-s over k >= 0; NaN for s < 1, and for q < 0 where s is not whole.
inline double zeta(double s, double q) {
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
inline double erfcx(double x) {
  if (x != x) return x;
  if (x > 28) {
    const double z = 1 / (x * x);
    return 0.56418958354775628695 / x * (1 - z * (0.5 - z * (0.75 - z * (1.875 - z * (6.5625 - z * (29.53125 - z * 162.421875))))));
  }
  if (x >= 0.5) return erfcx_middle(x).value;
  if (x < -27) return infinity<double>;
  const double square = x * x, grown = exp(square);
  return (grown + grown * product_error(x, x, square)) * erfc(x);
}

/// Its derivative 2x erfcx x - 2 / sqrt(pi), whose terms cancel to the right: there the expansion of DLMF 7.12.1.
inline double erfcx_slope(double x) {
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

/// The `order`-th derivative of an orthogonal polynomial of degree n: 0 to 3 Chebyshev's T, U, V, W; 4 to 7 the same of 2x - 1;
/// 8, 9 Hermite's H and He; 10 Laguerre's L; 11 Legendre's P. By p_(k+1) = (A x + B) p_k - C p_(k-1).
inline double orthogonal_polynomial(double x, double degree, int kind, int order) {
  constexpr int most = 16;
  constexpr double largest = 1 << 24;
  if (x != x || degree != degree || order >= most || degree > largest) return not_a_number<double>;
  const int n = degree < 0 ? -1 : static_cast<int>(degree);
  const bool shifted = kind >= 4 && kind < 8;
  const double outer = shifted ? double(1 << order) : 1.0;
  if (shifted) {
    x = 2 * x - 1;
    kind -= 4;
  }
  if (n < 0) return 0;
  double before[most + 1] = {1}, p[most + 1] = {}, after[most + 1];
  const double slope = kind == 0 || kind == 9 || kind == 11 ? 1 : kind == 10 ? -1 : 2;
  p[0] = slope * x + (kind == 2 ? -1 : kind == 3 || kind == 10 ? 1 : 0);
  p[1] = slope;
  if (n == 0) return before[order];
  for (int k = 1; k < n; ++k) {
    double A = 2, B = 0, C = 1;
    if (kind == 8) C = 2.0 * k;
    else if (kind == 9) A = 1, C = k;
    else if (kind == 10) A = -1.0 / (k + 1), B = (2.0 * k + 1) / (k + 1), C = k / (k + 1.0);
    else if (kind == 11) A = (2.0 * k + 1) / (k + 1), C = k / (k + 1.0);
    for (int m = 0; m <= order; ++m) {
      after[m] = (A * x + B) * p[m] - C * before[m] + (m ? m * A * p[m - 1] : 0.0);
    }
    for (int m = 0; m <= order; ++m) before[m] = p[m], p[m] = after[m];
  }
  return outer * p[order];
}

}  // namespace adjoint::inline ADJOINT_ISA::math
