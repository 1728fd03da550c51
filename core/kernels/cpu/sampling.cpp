// Draws by rejection, an element at a time, each from a stream of its own; all in double precision. Start at
// `Stream`.
#include "kernels/sampling.h"

#include <algorithm>
#include <cmath>

#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/cpu/math/math.h"
#include "kernels/cpu/sampling.h"
#include "kernels/cpu/variants.h"
#include "kernels/launch.h"
#include "runtime/parallel.h"
#include "runtime/philox.h"

namespace adjoint {
namespace {

constexpr int64_t kAbreast = SamplingTable::kAbreast;
/// Blocks of each element that are made beside its neighbours': most draws need no more.
constexpr uint32_t kMade = 2;

/// The random numbers of one element: blocks of its own in a space of counters that fills never use.
class Stream {
 public:
  /// `made`: the first blocks of this and its neighbours (SamplingTable::words), from this one's on.
  Stream(uint64_t seed, uint64_t block, const uint64_t* made) : seed_(seed), block_(block), made_(made) {}

  /// In (0, 1), with 53 digits.
  double uniform() {
    if (used_ == 2) refill();
    const double u = (static_cast<double>(words_[used_++] >> 11) + 0.5) * 0x1p-53;
    return u;
  }
  /// By the transform of Box and Muller; the second number is dropped.
  double normal() {
    const double r = std::sqrt(-2 * std::log(uniform()));
    return r * std::cos(6.283185307179586 * uniform());
  }

 private:
  void refill() {
    // A key for each attempt: the element's counter stays, so that no two elements meet.
    if (attempt_++ < kMade)
      std::copy_n(made_ + (attempt_ - 1) * 2 * kAbreast, 2, words_);
    else
      runtime::philox::generate_one({seed_, block_}, attempt_, words_);
    used_ = 0;
  }

  uint64_t seed_, block_;
  const uint64_t* made_;
  uint32_t attempt_ = 0;
  uint64_t words_[2];
  int used_ = 2;
};

double gamma_draw(double a, Stream& random) {
  if (!(a > 0)) return a == 0 ? 0 : std::nan("");
  if (std::isinf(a)) return a;
  double scale = 1;
  if (a < 1) {
    scale = std::pow(random.uniform(), 1 / a);
    a += 1;
  }
  const double d = a - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal(), t = 1 + c * x;
    if (t <= 0) continue;
    const double v = t * t * t, u = random.uniform();
    if (u < 1 - 0.0331 * x * x * x * x || std::log(u) < 0.5 * x * x + d * (1 - v + std::log(v)))
      return scale * d * v;
  }
}

double log_factorial(double k) { return math::lgamma(k + 1); }

double poisson_draw(double rate, Stream& random) {
  if (!(rate >= 0)) return std::nan("");
  if (rate == 0 || std::isinf(rate)) return rate;
  if (rate > 1e15)
    return std::floor(rate + std::sqrt(rate) * random.normal() +
                      0.5);  // neighbours differ by less than a unit
  if (rate < 10) {
    const double least = std::exp(-rate);
    double product = random.uniform();
    int64_t k = 0;
    for (; product > least; ++k) product *= random.uniform();
    return static_cast<double>(k);
  }
  const double root = std::sqrt(rate), log_rate = std::log(rate);
  const double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  const double log_inverse_alpha = std::log(1.1239 + 1.1328 / (b - 3.4)), certain = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = random.uniform() - 0.5, v = random.uniform(), us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= certain) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v) + log_inverse_alpha - std::log(a / (us * us) + b) <=
        -rate + k * log_rate - log_factorial(k))
      return k;
  }
}

double binomial_draw(double n, double p, Stream& random) {
  if (!(n >= 0) || std::isinf(n) || !(p >= 0 && p <= 1)) return std::nan("");
  n = std::floor(n);
  if (n > 1e15)
    return std::min(n, std::max(0.0, std::floor(n * p + std::sqrt(n * p * (1 - p)) * random.normal() + 0.5)));
  if (p > 0.5) return n - binomial_draw(n, 1 - p, random);
  if (n == 0 || p == 0) return 0;
  if (n * p < 10) {
    // The gaps between successes are geometric.
    const double log_failure = std::log1p(-p);
    double tried = 0;
    for (int64_t k = 0;; ++k) {
      tried += std::ceil(std::log(random.uniform()) / log_failure);
      if (tried > n) return static_cast<double>(k);
    }
  }
  const double deviation = std::sqrt(n * p * (1 - p));
  const double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p, centre = n * p + 0.5;
  const double certain = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * deviation;
  const double log_odds = std::log(p / (1 - p)), m = std::floor((n + 1) * p);
  const double at_mode = log_factorial(m) + log_factorial(n - m);
  for (;;) {
    const double u = random.uniform() - 0.5, v = random.uniform(), us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + centre);
    if (us >= 0.07 && v <= certain) return k;
    if (k < 0 || k > n) continue;
    if (std::log(v * alpha / (a / (us * us) + b)) <=
        at_mode - log_factorial(k) - log_factorial(n - k) + (k - m) * log_odds)
      return k;
  }
}

// dx/da of a draw x from Gamma(a, 1). With P = x^a e^-x S(a, x) / Γ(a), where S is the sum of x^n / (a (a+1)
// … (a+n)), it is -x (S (log x - ψ(a)) + dS/da); above the mean the same of Q, by its continued fraction
// (DLMF 8.7.1, 8.9.2). For `single` numbers the sum serves some deviations further: what cancels there, a
// factor of 10⁵ at most, a double has to spare, and sums of several elements are made side by side.

bool has_series(double a, double x, bool single) {
  return a > 0 && a <= 1e6 && x > 0 && x < (single ? a + 8 + 4 * std::sqrt(a) : a + 1);
}

double gamma_derivative_beyond(double a, double x) {
  if (!(a > 0) || !(x >= 0)) return std::nan("");
  if (x == 0) return 0;
  if (a > 1e6) {
    // x = a + z √a + (z² - 1) / 3 + …
    const double root = std::sqrt(a), z0 = (x - a) / root, z = (x - a - (z0 * z0 - 1) / 3) / root;
    return 1 + z / (2 * root);
  }
  const double turn = std::log(x) - math::digamma(a);
  // Γ(a, x) = x^a e^-x / (x + 1 - a - 1 (1 - a) / (x + 3 - a - …)), by Lentz's method with its derivative by
  // a.
  const double tiny = 1e-300;
  double b = x + 1 - a, db = -1;
  double c = 1 / tiny, dc = 0, d = 1 / b, dd = -db / (b * b), h = d, dh = dd;
  for (int i = 1; i < 100000; ++i) {
    const double an = -i * (i - a), dan = i;
    b += 2;
    const double q = an * d + b, dq = dan * d + an * dd + db;
    const double r = b + an / c, dr = db + dan / c - an * dc / (c * c);
    d = 1 / (std::abs(q) < tiny ? tiny : q);
    dd = -dq * d * d;
    c = std::abs(r) < tiny ? tiny : r;
    dc = dr;
    const double step = d * c, dstep = dd * c + d * dc;
    dh = dh * step + h * dstep;
    h *= step;
    if (std::abs(step - 1) < 1e-16 && std::abs(dstep) < 1e-15 * std::abs(dh / h)) break;
  }
  return x * (h * turn + dh);
}

/// draw(stream, value, other value) for each element.
template <class F>
void draw_each(const Tensor& out, const Tensor& in, const Tensor& other, int64_t seed, int64_t position,
               const F& draw) {
  const auto words = best_variant<SamplingTable>().words;
  const uint64_t key = static_cast<uint64_t>(seed);
  const double* const more = other.defined() ? other.data<double>() : nullptr;
  runtime::parallel_for(0, out.numel(), 512, [&](int64_t begin, int64_t end) {
    uint64_t made[kMade * 2 * kAbreast];
    for (int64_t first = begin; first < end; first += kAbreast) {
      const uint64_t block = static_cast<uint64_t>(position) + static_cast<uint64_t>(first);
      for (uint32_t k = 0; k < kMade; ++k) words(key, block, k + 1, made + k * 2 * kAbreast);
      for (int64_t i = first; i < std::min(end, first + kAbreast); ++i) {
        Stream random(key, block + static_cast<uint64_t>(i - first), made + 2 * (i - first));
        out.data<double>()[i] = draw(random, in.data<double>()[i], more ? more[i] : 0);
      }
    }
  });
}

/// The same in the type of `t`. `draw` holds numbers alone.
template <class F>
Tensor each(const Tensor& t, const Tensor& other, int64_t seed, int64_t position, const F& draw) {
  const Tensor out = empty(t.sizes(), DType::Float64);
  on<&draw_each<F>>(Out(out), copy_of(t, DType::Float64),
                    other.defined() ? copy_of(other, DType::Float64) : other, seed, position, draw);
  return t.dtype() == DType::Float64 ? out : copy_of(out, t.dtype());
}

template <class F>
void draw_in_turn(const Tensor& out, const Tensor& in, const Tensor& other, runtime::Generator* generator,
                  const char* op, const F& draw) {
  const double* const more = other.defined() ? other.data<double>() : nullptr;
  const auto draw_all = [&]<class T>(runtime::TorchStream& stream, const T* from, T* to) {
    for (int64_t i = 0; i < out.numel(); ++i)
      to[i] = static_cast<T>(draw(stream, from[i], static_cast<T>(more ? more[i] : 0)));
  };
  const bool drawn = generator->draw_torch([&](runtime::TorchStream& stream) {
    if (out.dtype() == DType::Float64)
      draw_all(stream, in.data<double>(), out.data<double>());
    else
      draw_all(stream, in.data<float>(), out.data<float>());
  });
  if (!drawn) fail(op, "(): expected a generator of torch's numbers");
}

/// draw(stream, value, other value) for each element, one after another, in the type in which torch computes.
template <class F>
Tensor in_turn(const Tensor& t, const Tensor& other, runtime::Generator* generator, const char* op,
               const F& draw) {
  const DType type = t.dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
  const Tensor out = empty(t.sizes(), type);
  on<&draw_in_turn<F>>(Out(out), copy_of(t, type), other.defined() ? copy_of(other, DType::Float64) : other,
                       generator, op, draw);
  return t.dtype() == type ? out : copy_of(out, t.dtype());
}

/// The smallest positive normal number: a draw of a continuous positive distribution is never zero.
double least_of(DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return 6.103515625e-05;
    case DType::Float64:
      return 2.2250738585072014e-308;
    default:
      return 1.1754943508222875e-38;
  }
}

}  // namespace

namespace kernels {

Tensor sample_gamma(const Tensor& concentration, int64_t seed, int64_t position,
                    runtime::Generator* generator, const char* op) {
  need_floating(concentration.dtype(), op);
  const DType type = concentration.dtype();
  const double least = least_of(type);
  if (generator)
    return in_turn(concentration, {}, generator, op, [=]<class T>(runtime::TorchStream& stream, T a, T) {
      const T raised = type == DType::Float16    ? T(Half(float(a + 1)))
                       : type == DType::BFloat16 ? T(BFloat16(float(a + 1)))
                                                 : a + 1;
      return std::max(stream.gamma(a, raised), least);
    });
  return each(concentration, {}, seed, position, [=](Stream& random, double a, double) {
    const double x = gamma_draw(a, random);
    return x < least ? least : x;
  });
}

Tensor sample_poisson(const Tensor& rate, int64_t seed, int64_t position, runtime::Generator* generator,
                      const char* op) {
  need_floating(rate.dtype(), op);
  const auto need = [](double r) {
    if (r < 0) fail("invalid Poisson rate, expected rate to be non-negative, but got ", r);
  };
  if (generator)
    return in_turn(rate, {}, generator, op, [=](runtime::TorchStream& stream, double r, double) {
      need(r);
      return stream.poisson(r);
    });
  return each(rate, {}, seed, position, [=](Stream& random, double r, double) {
    need(r);
    return poisson_draw(r, random);
  });
}

Tensor sample_binomial(const Tensor& count, const Tensor& prob, int64_t seed, int64_t position,
                       runtime::Generator* generator, const char* op) {
  need_floating(count.dtype(), op);
  if (prob.dtype() != count.dtype())
    fail("binomial only supports floating-point dtypes for count and prob of one type, got ",
         name_of(count.dtype()), " and ", name_of(prob.dtype()));
  if (!same(count.sizes(), prob.sizes()))
    fail(op, "(): count of shape ", count.sizes(), " and prob of shape ", prob.sizes(),
         " must have one shape");
  if (generator)
    return in_turn(count, prob, generator, op,
                   []<class T>(runtime::TorchStream& stream, T n, T p) { return stream.binomial(n, p); });
  return each(count, prob, seed, position,
              [](Stream& random, double n, double p) { return binomial_draw(n, p, random); });
}

static void differentiate_draws(const Tensor& out, const Tensor& a, const Tensor& x, bool single) {
  constexpr int L = kAbreast;
  const auto& table = best_variant<SamplingTable>();
  const double *all_a = a.data<double>(), *all_x = x.data<double>();
  double* const to = out.data<double>();
  runtime::parallel_for(0, out.numel(), 512, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += L) {
      const int64_t count = std::min<int64_t>(L, end - i);
      double from[L], at[L], turn[L], least[L], sums[L];
      for (int l = 0; l < L; ++l) {
        // Others take their places with a sum of one term.
        const bool sums_up = l < count && has_series(all_a[i + l], all_x[i + l], single);
        from[l] = sums_up ? all_a[i + l] : 1;
        at[l] = sums_up ? all_x[i + l] : 0;
        turn[l] = sums_up ? std::log(at[l]) - math::digamma(from[l]) : 0;
        least[l] = !single ? 1e-17 : at[l] < from[l] + 1 ? 1e-10 : 1e-14;
      }
      table.series(from, at, turn, least, sums);
      for (int64_t l = 0; l < count; ++l)
        to[i + l] = at[l] > 0 ? sums[l] : gamma_derivative_beyond(all_a[i + l], all_x[i + l]);
    }
  });
}

Tensor gamma_draw_derivative(const Tensor& concentration, const Tensor& draw, const char* op) {
  need_floating(concentration.dtype(), op);
  if (!same(concentration.sizes(), draw.sizes()))
    fail(op, "(): shapes ", concentration.sizes(), " and ", draw.sizes(), " must be the same");
  const Tensor a = copy_of(concentration, DType::Float64), x = copy_of(draw, DType::Float64),
               out = empty(a.sizes(), DType::Float64);
  on<&differentiate_draws>(Out(out), a, x, concentration.dtype() != DType::Float64);
  return concentration.dtype() == DType::Float64 ? out : copy_of(out, concentration.dtype());
}

}  // namespace kernels
}  // namespace adjoint
