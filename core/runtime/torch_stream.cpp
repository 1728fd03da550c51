// See torch_stream.h. Multiplications and additions are fused where torch's are, and only there: this file is
// compiled with -ffp-contract=off.
#include "runtime/torch_stream.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <string>

#include "runtime/philox.h"
#include "runtime/system.h"

namespace adjoint::runtime {

void TorchStream::restart(uint64_t seed) {
  seed_ = seed;
  uint32_t x = state_[0] = static_cast<uint32_t>(seed);
  for (uint32_t i = 1; i < kWords; ++i) x = state_[i] = 1812433253u * (x ^ x >> 30) + i;
  left_ = 1;
  next_ = 0;
  second_.reset();
}

namespace {

/// The next words in place: each of three old ones, of which one lies `far` further on.
ADJOINT_RANDOM_INLINE uint32_t twisted(uint32_t word, uint32_t next, uint32_t far) {
  const uint32_t y = (word & 0x80000000u) | (next & 0x7fffffffu);
  return far ^ y >> 1 ^ ((uint32_t{0} - (next & 1)) & 0x9908b0dfu);
}
ADJOINT_VECTOR_CLONES void twist_words(uint32_t* state) {
  constexpr int words = 624, far = 397, wrapped = words - far;
  for (int i = 0; i < wrapped; ++i) state[i] = twisted(state[i], state[i + 1], state[i + far]);
  for (int i = wrapped; i < words - 1; ++i) state[i] = twisted(state[i], state[i + 1], state[i - wrapped]);
  state[words - 1] = twisted(state[words - 1], state[0], state[far - 1]);
}

ADJOINT_VECTOR_CLONES void temper_words(const uint32_t* state, uint32_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = TorchStream::tempered(state[i]);
}

// What rounds to the upper bound becomes the lower one.
ADJOINT_VECTOR_CLONES void make_uniform(const uint32_t* words, float* out, int64_t n, float from, float to) {
  const float width = to - from;
  for (int64_t i = 0; i < n; ++i) {
    const float x =
        __builtin_fmaf(static_cast<float>(static_cast<int32_t>(words[i] & 0xffffff)) * 0x1p-24f, width, from);
    out[i] = x == to ? from : x;
  }
}
ADJOINT_VECTOR_CLONES void make_uniform(const uint32_t* words, double* out, int64_t n, double from,
                                        double to) {
  const double width = to - from;
  for (int64_t i = 0; i < n; ++i) {
    // An integer below 2^52 in the low bits of 2^52, or of 2^84, is that many units above it.
    const double high =
        std::bit_cast<double>(uint64_t{words[2 * i] & 0x1fffffu} | 0x4530000000000000u) - 0x1p84;
    const double low = std::bit_cast<double>(uint64_t{words[2 * i + 1]} | 0x4330000000000000u) - 0x1p52;
    const double x = __builtin_fma((high + low) * 0x1p-53, width, from);
    out[i] = x == to ? from : x;
  }
}

/// Numbers that are made at once, from words that stay in the nearest cache.
constexpr int64_t kAtOnce = 1024;

}  // namespace

void TorchStream::twist() {
  twist_words(state_);
  left_ = kWords;
  next_ = 0;
}

void TorchStream::words(uint32_t* out, int64_t n) {
  while (n > 0) {
    if (left_ == 1) {
      twist();
      ++left_;
    }
    const int64_t some = std::min<int64_t>(n, left_ - 1);
    temper_words(state_ + next_, out, some);
    left_ -= static_cast<int>(some);
    next_ += static_cast<uint32_t>(some);
    out += some;
    n -= some;
  }
}

// --- The state ------------------------------------------------------------------------------------

namespace {

/// The fields of the layout, by the bytes at which they lie.
constexpr size_t kStateBytes = 5056, kLeft = 8, kSeeded = 12, kNext = 16, kStateAt = 24, kSecond = 5024,
                 kHasSecond = 5040;

template <class T>
void put(std::vector<std::byte>& to, size_t at, T value) {
  std::memcpy(to.data() + at, &value, sizeof value);
}
template <class T>
T get(std::span<const std::byte> from, size_t at) {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

}  // namespace

std::vector<std::byte> TorchStream::state() const {
  std::vector<std::byte> bytes(kStateBytes);
  put(bytes, 0, seed_);
  put(bytes, kLeft, int32_t{left_});
  put(bytes, kSeeded, int32_t{1});
  put(bytes, kNext, uint64_t{next_});
  for (size_t i = 0; i < kWords; ++i) put(bytes, kStateAt + 8 * i, uint64_t{state_[i]});
  put(bytes, kSecond, second_.value_or(0));
  put(bytes, kHasSecond, int32_t{second_.has_value()});
  return bytes;
}

void TorchStream::set_state(std::span<const std::byte> bytes) {
  if (bytes.size() != kStateBytes)
    throw std::runtime_error("RNG state is wrong size: the state of a generator of torch's numbers has " +
                             std::to_string(kStateBytes) + " bytes, got " + std::to_string(bytes.size()));
  const auto left = get<int32_t>(bytes, kLeft);
  const auto next = get<uint64_t>(bytes, kNext);
  if (left < 1 || left > kWords || next > kWords ||
      (left > 1 && next + static_cast<uint64_t>(left) > kWords + 1))
    throw std::invalid_argument("not the state of a generator of torch's numbers: its position is " +
                                std::to_string(next) + ", and " + std::to_string(left) + " words are left");
  seed_ = get<uint64_t>(bytes, 0);
  left_ = left;
  next_ = static_cast<uint32_t>(next);
  for (size_t i = 0; i < kWords; ++i)
    state_[i] = static_cast<uint32_t>(get<uint64_t>(bytes, kStateAt + 8 * i));
  second_.reset();
  if (get<int32_t>(bytes, kHasSecond)) second_ = get<double>(bytes, kSecond);
}

// --- Fills ----------------------------------------------------------------------------------------

template <class T>
void TorchStream::make(T* out, int64_t n, T low, T high) {
  constexpr int64_t each = sizeof(T) / sizeof(uint32_t);
  uint32_t drawn[kAtOnce * each];
  for (int64_t i = 0; i < n; i += kAtOnce) {
    const int64_t some = std::min(kAtOnce, n - i);
    words(drawn, some * each);
    make_uniform(drawn, out + i, some, low, high);
  }
}
void TorchStream::uniform(float* out, int64_t n, double low, double high) {
  make(out, n, static_cast<float>(low), static_cast<float>(high));
}
void TorchStream::uniform(double* out, int64_t n, double low, double high) { make(out, n, low, high); }

double TorchStream::normal(double mean, double deviation) {
  double drawn;
  if (second_) {
    drawn = *second_;
    second_.reset();
  } else {
    const double turn = unit(), u = unit();
    const double radius = std::sqrt(-2 * std::log1p(-u)), angle = 2 * std::numbers::pi * turn;
    second_ = radius * std::sin(angle);
    drawn = radius * std::cos(angle);
  }
  return std::fma(drawn, deviation, mean);
}

namespace {

constexpr int kLanes = 8;

// Logarithm, sine and cosine of single precision as the Cephes library has them (Moshier, 1984-2000), with
// each product that is added to something fused into the sum.

ADJOINT_RANDOM_INLINE float log_of(float x) {
  const int32_t bits = std::bit_cast<int32_t>(x);
  float e = static_cast<float>((bits >> 23) - 127) + 1;
  float m = std::bit_cast<float>((bits & ~0x7f800000) | std::bit_cast<int32_t>(0.5f));
  const bool low = m < std::numbers::sqrt2_v<float> / 2;
  const float more = low ? m : 0;
  m = m - 1;
  e = e - (low ? 1.0f : 0.0f);
  m = m + more;
  const float z = m * m;
  float y = __builtin_fmaf(7.0376836292e-2f, m, -1.1514610310e-1f);
  y = __builtin_fmaf(y, m, 1.1676998740e-1f);
  y = __builtin_fmaf(y, m, -1.2420140846e-1f);
  y = __builtin_fmaf(y, m, 1.4249322787e-1f);
  y = __builtin_fmaf(y, m, -1.6668057665e-1f);
  y = __builtin_fmaf(y, m, 2.0000714765e-1f);
  y = __builtin_fmaf(y, m, -2.4999993993e-1f);
  y = __builtin_fmaf(y, m, 3.3333331174e-1f);
  y = __builtin_fmaf(y * m, z, e * -2.12194440e-4f);
  y = __builtin_fmaf(-0.5f, z, y);
  return __builtin_fmaf(e, 0.693359375f, m + y);
}

ADJOINT_RANDOM_INLINE void circle(float x, float& sine, float& cosine) {
  const int32_t octant = (static_cast<int32_t>(x * 1.27323954473516f) + 1) & ~1;
  const float y = static_cast<float>(octant);
  x = __builtin_fmaf(y, -0.78515625f, x);
  x = __builtin_fmaf(y, -2.4187564849853515625e-4f, x);
  x = __builtin_fmaf(y, -3.77489497744594108e-8f, x);
  const float z = x * x;
  float c = __builtin_fmaf(2.443315711809948e-5f, z, -1.388731625493765e-3f);
  c = __builtin_fmaf(c, z, 4.166664568298827e-2f);
  c = __builtin_fmaf(c * z, z, -0.5f * z) + 1;
  float s = __builtin_fmaf(-1.9515295891e-4f, z, 8.3321608736e-3f);
  s = __builtin_fmaf(s, z, -1.6666654611e-1f);
  s = __builtin_fmaf(s * z, x, x);
  // Exchanged and with signs by masks, since a branch would keep the loop scalar.
  const uint32_t place = static_cast<uint32_t>(octant), exchanged = uint32_t{0} - (place >> 1 & 1);
  const uint32_t sine_bits = std::bit_cast<uint32_t>(s), cosine_bits = std::bit_cast<uint32_t>(c),
                 both = (sine_bits ^ cosine_bits) & exchanged;
  sine = std::bit_cast<float>(sine_bits ^ both ^ (place >> 2 & 1) << 31);
  cosine = std::bit_cast<float>(cosine_bits ^ both ^ ((place + 2) >> 2 & 1) << 31);
}

/// Each sixteen numbers of [0, 1) become normal: the first half gives the radii, the second the angles.
ADJOINT_VECTOR_CLONES void make_normal(float* block, int64_t n, float mean, float deviation) {
  for (; n > 0; n -= 2 * kLanes, block += 2 * kLanes)
    for (int i = 0; i < kLanes; ++i) {
      const float radius = __builtin_sqrtf(-2.0f * log_of(1.0f - block[i]));
      float sine, cosine;
      circle(2 * std::numbers::pi_v<float> * block[i + kLanes], sine, cosine);
      block[i] = __builtin_fmaf(radius * cosine, deviation, mean);
      block[i + kLanes] = __builtin_fmaf(radius * sine, deviation, mean);
    }
}
void make_normal(double* block, int64_t n, double mean, double deviation) {
  for (; n > 0; n -= 2 * kLanes, block += 2 * kLanes)
    for (int i = 0; i < kLanes; ++i) {
      const double radius = std::sqrt(-2 * std::log(1 - block[i])),
                   angle = 2 * std::numbers::pi * block[i + kLanes];
      block[i] = std::fma(radius * std::cos(angle), deviation, mean);
      block[i + kLanes] = std::fma(radius * std::sin(angle), deviation, mean);
    }
}

template <class T>
void fill_blocks(TorchStream& stream, T* out, int64_t n, T mean, T deviation, bool blockwise) {
  constexpr int64_t block = 2 * kLanes;
  const int64_t rest = n % block, whole = n - rest;
  for (int64_t i = 0; i < whole; i += kAtOnce) {
    const int64_t some = std::min(kAtOnce, whole - i);
    stream.uniform(out + i, some, 0, 1);
    make_normal(out + i, some, mean, deviation);
  }
  if (rest == 0) return;
  if (!blockwise) stream.uniform(out + whole, rest, 0, 1);
  // The last block anew, so that it is whole.
  stream.uniform(out + n - block, block, 0, 1);
  make_normal(out + n - block, block, mean, deviation);
}

}  // namespace

void TorchStream::normal_blocks(float* out, int64_t n, double mean, double deviation, bool blockwise) {
  fill_blocks(*this, out, n, static_cast<float>(mean), static_cast<float>(deviation), blockwise);
}
void TorchStream::normal_blocks(double* out, int64_t n, double mean, double deviation, bool blockwise) {
  fill_blocks(*this, out, n, mean, deviation, blockwise);
}

double TorchStream::exponential(double rate) { return -1 / rate * std::log1p(-unit()); }

double TorchStream::log_normal(double mean, double deviation) { return std::exp(normal(mean, deviation)); }
double TorchStream::cauchy(double median, double sigma) {
  return std::fma(sigma, std::tan(std::numbers::pi * (unit() - 0.5)), median);
}
double TorchStream::geometric(double p) { return std::ceil(std::log(unit()) / std::log1p(-p)); }

// G. Marsaglia and W. W. Tsang (2000), with a third of single precision.
template <class T>
double TorchStream::gamma(T a, T raised) {
  double scale = 1;
  if (a < 1) {
    if (a == 0) return 0;
    scale = std::pow(1 - unit(), static_cast<double>(1 / a));
    a = raised;
  }
  const double d = static_cast<double>(a - static_cast<T>(1.0f / 3.0f)), c = 1 / std::sqrt(9 * d);
  for (;;) {
    double x, y;
    do {
      x = normal(0, 1);
      y = 1 + c * x;
    } while (y <= 0);
    const double v = y * y * y, u = 1 - unit(), square = x * x;
    if (u < 1 - static_cast<double>(0.0331f) * square * square ||
        std::log(u) < 0.5 * square + d * (1 - v + std::log(v)))
      return scale * d * v;
  }
}
template double TorchStream::gamma(float, float);
template double TorchStream::gamma(double, double);

namespace {

double log_factorial(double k) { return system::log_gamma(k + 1); }
/// log k! less Stirling's formula.
template <class T>
T stirling_rest(T k) {
  constexpr double known[] = {
      0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
      0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287};
  if (k <= 9) return static_cast<T>(known[static_cast<size_t>(k)]);
  const T square = (k + 1) * (k + 1);
  return static_cast<T>((1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1));
}

}  // namespace

// W. Hörmann, The transformed rejection method for generating Poisson random variables (1993); below 10,
// products of uniform numbers.
double TorchStream::poisson(double rate) {
  if (rate == 0) return 0;
  if (rate < 10) {
    const double least = std::exp(-rate);
    double product = unit(), k = 0;
    for (; product > least; ++k) product *= unit();
    return k;
  }
  const double root = std::sqrt(rate), log_rate = std::log(rate);
  const double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), certain = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = unit() - 0.5, v = unit(), us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= certain) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b) <=
        -rate + k * log_rate - log_factorial(k))
      return k;
  }
}

// W. Hörmann, The generation of binomial random variates (1993); with few successes, the gaps between them,
// which are geometric.
template <class T>
T TorchStream::binomial(T count, T p) {
  if (!(count > 0) || !(p > 0)) return p != p || count != count ? static_cast<T>(std::nan("")) : 0;
  if (p >= 1) return count;
  if (p > static_cast<T>(0.5)) return count - binomial(count, 1 - p);
  if (count * p < 10) {
    const T log_failure = std::log1p(-p);
    T tried = 0, k = 0;
    for (;; ++k) {
      tried += std::ceil(std::log(static_cast<T>(unit())) / log_failure);
      if (tried > count) return k;
    }
  }
  const T deviation = std::sqrt(count * p * (1 - p));
  const T b = static_cast<T>(1.15 + 2.53 * deviation), a = static_cast<T>(-0.0873 + 0.0248 * b + 0.01 * p),
          centre = static_cast<T>(count * p + 0.5);
  const T certain = static_cast<T>(0.92 - 4.2 / b), odds = p / (1 - p),
          alpha = static_cast<T>((2.83 + 5.1 / b) * deviation);
  const T m = std::floor((count + 1) * p);
  for (;;) {
    const T u = static_cast<T>(unit() - 0.5);
    T v = static_cast<T>(unit());
    const T us = static_cast<T>(0.5 - std::abs(u)), k = std::floor((2 * a / us + b) * u + centre);
    if (us >= static_cast<T>(0.07) && v <= certain) return k;
    if (k < 0 || k > count) continue;
    v = std::log(v * alpha / (a / (us * us) + b));
    const double bound = (m + 0.5) * std::log((m + 1) / (odds * (count - m + 1))) +
                         (count + 1) * std::log((count - m + 1) / (count - k + 1)) +
                         (k + 0.5) * std::log(odds * (count - k + 1) / (k + 1)) + stirling_rest(m) +
                         stirling_rest(count - m) - stirling_rest(k) - stirling_rest(count - k);
    if (v <= static_cast<T>(bound)) return k;
  }
}
template float TorchStream::binomial(float, float);
template double TorchStream::binomial(double, double);

void TorchStream::permutation(int64_t* out, int64_t n) {
  std::iota(out, out + n, int64_t{0});
  const bool wide = n >= UINT32_MAX / 20;
  for (int64_t i = 0; i < n - 1; ++i) {
    const uint64_t drawn = (wide ? long_word() : word()) % static_cast<uint64_t>(n - i);
    std::swap(out[i], out[i + static_cast<int64_t>(drawn)]);
  }
}

void TorchStream::multinomial(const double* weights, int64_t rows, int64_t columns, int64_t samples,
                              bool replacement, bool narrow, int64_t* out) {
  const auto rounded = [narrow](double x) { return narrow ? static_cast<double>(static_cast<float>(x)) : x; };
  std::vector<double> keys(static_cast<size_t>(columns));
  if (replacement && samples > 1) {
    for (int64_t r = 0; r < rows; ++r, weights += columns) {
      double sum = 0;
      for (int64_t c = 0; c < columns; ++c) keys[static_cast<size_t>(c)] = sum = rounded(sum + weights[c]);
      for (double& key : keys) key = rounded(key / sum);
      keys.back() = 1;
      for (int64_t s = 0; s < samples; ++s) *out++ = std::ranges::lower_bound(keys, unit()) - keys.begin();
    }
    return;
  }
  // The largest of weights over exponential draws, after all rows have drawn.
  std::vector<double> all(static_cast<size_t>(rows * columns));
  for (double& q : all) q = rounded(exponential(1));
  std::vector<int64_t> order(static_cast<size_t>(columns));
  for (int64_t r = 0; r < rows; ++r, weights += columns) {
    for (int64_t c = 0; c < columns; ++c)
      keys[static_cast<size_t>(c)] = rounded(weights[c] / all[static_cast<size_t>(r * columns + c)]);
    std::iota(order.begin(), order.end(), int64_t{0});
    std::partial_sort(order.begin(), order.begin() + samples, order.end(), [&](int64_t a, int64_t b) {
      return keys[static_cast<size_t>(a)] > keys[static_cast<size_t>(b)] ||
             (keys[static_cast<size_t>(a)] == keys[static_cast<size_t>(b)] && a < b);
    });
    out = std::copy_n(order.begin(), samples, out);
  }
}

}  // namespace adjoint::runtime
