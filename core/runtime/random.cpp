// The generator, and what needs more than one loop: permutations and draws by weight. See random.h; the loops
// themselves are in random_fill.cpp.
#include "runtime/random.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/parallel.h"
#include "runtime/random_fill.h"

namespace adjoint::runtime {

namespace {
constinit std::atomic<Generator::Kind> kind_of_new = Generator::Kind::Counter;
}

Generator::Kind Generator::default_kind() { return kind_of_new.load(std::memory_order_relaxed); }
void Generator::set_default_kind(Kind kind) { kind_of_new.store(kind, std::memory_order_relaxed); }

Generator::Generator(uint64_t seed, Kind kind)
    : stream_{seed, 0}, torch_(kind == Kind::Torch ? new TorchStream(seed) : nullptr) {}

Generator::Kind Generator::kind() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return torch_ ? Kind::Torch : Kind::Counter;
}

void Generator::set_kind(Kind kind) {
  const uint64_t seed = initial_seed();
  const std::lock_guard<std::mutex> lock(mutex_);
  stream_ = {seed, 0};
  torch_.reset(kind == Kind::Torch ? new TorchStream(seed) : nullptr);
}

void Generator::manual_seed(uint64_t seed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  stream_ = {seed, 0};
  if (torch_) torch_->restart(seed);
}

namespace {
uint64_t system_seed() {
  std::random_device device;
  const uint64_t high = device();
  return high << 32 | device();
}
}  // namespace

uint64_t Generator::seed() {
  const uint64_t seed = system_seed();
  manual_seed(seed);
  return seed;
}

uint64_t Generator::initial_seed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return torch_ ? torch_->seed() : stream_.seed;
}

Generator::State Generator::state() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (torch_) return torch_->state();
  State bytes(state_bytes);
  for (size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::byte>(stream_.seed >> (8 * i));
    bytes[8 + i] = static_cast<std::byte>(stream_.block >> (8 * i));
  }
  return bytes;
}

void Generator::set_state(std::span<const std::byte> bytes) {
  if (draw_torch([&](TorchStream& stream) { stream.set_state(bytes); })) return;
  if (bytes.size() != state_bytes) {
    throw std::invalid_argument("the state of a generator has " + std::to_string(state_bytes) +
                                " bytes, got " + std::to_string(bytes.size()));
  }
  philox::Stream stream{0, 0};
  for (size_t i = 0; i < 8; ++i) {
    stream.seed |= static_cast<uint64_t>(bytes[i]) << (8 * i);
    stream.block |= static_cast<uint64_t>(bytes[8 + i]) << (8 * i);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  stream_ = stream;
}

philox::Stream Generator::reserve(uint64_t blocks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (torch_) return {torch_->long_word(), 0};  // a sequence of its own
  const philox::Stream taken = stream_;
  stream_.block += blocks;
  return taken;
}

namespace {
thread_local Generator* own = nullptr;
}

Generator& default_generator() {
  // Outlives every static object. Begins at a seed of the system's, so that runs without a seed differ.
  static Generator* const generator = new Generator(system_seed());
  return own ? *own : *generator;
}
Generator* generator_here() { return own; }
Generator* use_generator(Generator* generator) { return std::exchange(own, generator); }

namespace {

constexpr int64_t grain = 512;  // groups: some tens of microseconds

int64_t groups_of(int64_t n, int64_t per_group) { return n / per_group + (n % per_group != 0); }

/// Takes the positions for n elements and calls run(part) for parts of them, in parallel where it pays.
template <class Run>
void in_parts(Generator& generator, int64_t n, int64_t per_group, Run&& run) {
  if (n <= 0) return;
  const int64_t groups = groups_of(n, per_group);
  const philox::Stream stream = generator.reserve(static_cast<uint64_t>(groups) * philox::lanes);
  parallel_for(0, groups, grain,
               [&](int64_t first, int64_t last) { run(fill::Part{stream, first, last, n}); });
}

template <class T>
constexpr int64_t per_group = sizeof(T) == 4 ? fill::narrow : fill::wide;

std::string text(double x) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g", x);
  return buffer;
}

}  // namespace

template <class T>
void fill_uniform(Generator& generator, T* out, int64_t n, T lo, T hi) {
  if (!(lo <= hi) || !std::isfinite(hi - lo)) {
    throw std::runtime_error("uniform: expected finite from <= to with a finite distance, got from=" +
                             text(static_cast<double>(lo)) + ", to=" + text(static_cast<double>(hi)));
  }
  in_parts(generator, n, per_group<T>, [&](const fill::Part& part) { fill::uniform(part, out, lo, hi); });
}

template <class T>
void fill_normal(Generator& generator, T* out, int64_t n, T mean, T deviation) {
  if (!(deviation >= 0)) {
    throw std::runtime_error("normal expects std >= 0.0, but found std " +
                             text(static_cast<double>(deviation)));
  }
  in_parts(generator, n, per_group<T>,
           [&](const fill::Part& part) { fill::normal(part, out, mean, deviation); });
}

template <class T>
void fill_exponential(Generator& generator, T* out, int64_t n, T rate) {
  if (!(rate > 0)) {
    throw std::runtime_error("exponential expects lambda > 0.0, but found lambda=" +
                             text(static_cast<double>(rate)));
  }
  in_parts(generator, n, per_group<T>,
           [&](const fill::Part& part) { fill::exponential(part, out, 1 / rate); });
}

template void fill_uniform(Generator&, float*, int64_t, float, float);
template void fill_uniform(Generator&, double*, int64_t, double, double);
template void fill_normal(Generator&, float*, int64_t, float, float);
template void fill_normal(Generator&, double*, int64_t, double, double);
template void fill_exponential(Generator&, float*, int64_t, float);
template void fill_exponential(Generator&, double*, int64_t, double);

void fill_randint(Generator& generator, int64_t* out, int64_t n, int64_t lo, int64_t hi) {
  if (lo >= hi) {
    throw std::runtime_error("randint expects from < to, but found from=" + std::to_string(lo) +
                             " >= to=" + std::to_string(hi));
  }
  const uint64_t range = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo);
  in_parts(generator, n, fill::wide, [&](const fill::Part& part) { fill::integers(part, out, lo, range); });
}

void fill_bits(Generator& generator, uint64_t* out, int64_t n) {
  in_parts(generator, n, fill::wide, [&](const fill::Part& part) { fill::bits64(part, out); });
}

namespace {

/// Words below this mean 1; 2^32, which all are below, for p = 1.
uint64_t threshold(double p) { return static_cast<uint64_t>(p * 0x1p32 + 0.5); }

void check_probability(double p) {
  if (!(p >= 0 && p <= 1))
    throw std::runtime_error("bernoulli expects p to be in [0, 1], but found p=" + text(p));
}

/// Calls run(words, begin, end): the random words of elements [begin, end).
template <class Run>
void with_words(Generator& generator, int64_t n, Run&& run) {
  in_parts(generator, n, fill::narrow, [&](const fill::Part& part) {
    constexpr int64_t step = 16;
    uint32_t words[step * fill::narrow];
    for (int64_t first = part.first; first < part.last; first += step) {
      const int64_t last = std::min(first + step, part.last);
      const philox::Stream stream{part.stream.seed,
                                  part.stream.block + static_cast<uint64_t>(first) * philox::lanes};
      fill::bits32({stream, 0, last - first, (last - first) * fill::narrow}, words);
      run(words, first * fill::narrow, std::min(last * fill::narrow, n));
    }
  });
}

}  // namespace

template <class T>
void fill_bernoulli(Generator& generator, T* out, int64_t n, double p) {
  check_probability(p);
  const uint64_t limit = threshold(p);
  with_words(generator, n, [&](const uint32_t* words, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = static_cast<T>(words[i - begin] < limit);
  });
}

template <class T, class P>
void fill_bernoulli_each(Generator& generator, T* out, const P* p, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (!(p[i] >= 0 && p[i] <= 1)) [[unlikely]]
      check_probability(static_cast<double>(p[i]));
  }
  with_words(generator, n, [&](const uint32_t* words, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      out[i] = static_cast<T>(words[i - begin] < threshold(static_cast<double>(p[i])));
    }
  });
}

#define ADJOINT_BERNOULLI(T)                                                \
  template void fill_bernoulli(Generator&, T*, int64_t, double);            \
  template void fill_bernoulli_each(Generator&, T*, const float*, int64_t); \
  template void fill_bernoulli_each(Generator&, T*, const double*, int64_t);
ADJOINT_BERNOULLI(float)
ADJOINT_BERNOULLI(double)
ADJOINT_BERNOULLI(bool)
ADJOINT_BERNOULLI(uint8_t)
ADJOINT_BERNOULLI(int8_t)
ADJOINT_BERNOULLI(int16_t)
ADJOINT_BERNOULLI(int32_t)
ADJOINT_BERNOULLI(int64_t)
#undef ADJOINT_BERNOULLI

/// Fisher and Yates: position i swaps with one of 0 .. i.
void random_permutation(Generator& generator, int64_t* out, int64_t n) {
  if (n <= 0) return;
  const philox::Stream stream =
      generator.reserve(static_cast<uint64_t>(groups_of(n, fill::wide)) * philox::lanes);
  for (int64_t i = 0; i < n; ++i) out[i] = i;
  constexpr int64_t step = 16 * fill::wide;
  uint64_t bits[step];
  for (int64_t begin = 0; begin < n; begin += step) {
    const int64_t count = std::min(step, n - begin);
    const philox::Stream here{stream.seed,
                              stream.block + static_cast<uint64_t>(begin / fill::wide) * philox::lanes};
    fill::bits64({here, 0, groups_of(count, fill::wide), count}, bits);
    for (int64_t i = begin; i < begin + count; ++i) {
      const double fraction = static_cast<double>(bits[i - begin] >> 11) * 0x1p-53;
      const int64_t j = std::min(static_cast<int64_t>(fraction * static_cast<double>(i + 1)), i);
      std::swap(out[i], out[j]);
    }
  }
}

namespace {

/// The number of positive weights of a row; throws on one that is no weight.
int64_t check_weights(const double* weights, int64_t row, int64_t columns) {
  int64_t positive = 0;
  double sum = 0;
  for (int64_t c = 0; c < columns; ++c) {
    if (!(weights[c] >= 0) || std::isinf(weights[c])) {
      throw std::runtime_error(
          "multinomial: the probability tensor contains either inf, nan or an element < 0: " +
          text(weights[c]) + " in row " + std::to_string(row) + ", column " + std::to_string(c));
    }
    positive += weights[c] > 0;
    sum += weights[c];
  }
  if (positive == 0 || std::isinf(sum)) {
    throw std::runtime_error("multinomial: invalid multinomial distribution: the probabilities of row " +
                             std::to_string(row) + " sum to " + text(sum));
  }
  return positive;
}

/// The column where the running sum passes u * total; never one of weight zero.
void draw_with_replacement(philox::Stream stream, const double* weights, int64_t columns, int64_t samples,
                           int64_t* out) {
  std::vector<double> running(static_cast<size_t>(columns)), draws(static_cast<size_t>(samples));
  double sum = 0;
  int64_t last = 0;
  for (int64_t c = 0; c < columns; ++c) {
    running[static_cast<size_t>(c)] = sum += weights[c];
    if (weights[c] > 0) last = c;
  }
  fill::uniform({stream, 0, groups_of(samples, fill::wide), samples}, draws.data(), 0.0, 1.0);
  for (int64_t i = 0; i < samples; ++i) {
    const auto at = std::upper_bound(running.begin(), running.end(), draws[static_cast<size_t>(i)] * sum);
    out[i] = std::min<int64_t>(at - running.begin(), last);
  }
}

/// Each column arrives after an exponential time of rate `weight`; the first ones are drawn (Efraimidis and
/// Spirakis).
void draw_without_replacement(philox::Stream stream, const double* weights, int64_t columns, int64_t samples,
                              int64_t* out) {
  std::vector<double> arrival(static_cast<size_t>(columns));
  fill::exponential({stream, 0, groups_of(columns, fill::wide), columns}, arrival.data(), 1.0);
  std::vector<int64_t> order;
  for (int64_t c = 0; c < columns; ++c) {
    arrival[static_cast<size_t>(c)] /= weights[c];
    if (weights[c] > 0) order.push_back(c);
  }
  std::partial_sort(order.begin(), order.begin() + samples, order.end(), [&](int64_t a, int64_t b) {
    const double x = arrival[static_cast<size_t>(a)], y = arrival[static_cast<size_t>(b)];
    return x < y || (x == y && a < b);
  });
  std::copy_n(order.begin(), samples, out);
}

}  // namespace

void multinomial(Generator& generator, const double* weights, int64_t rows, int64_t columns, int64_t samples,
                 bool replacement, int64_t* out) {
  if (rows <= 0 || samples <= 0) return;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t positive = check_weights(weights + row * columns, row, columns);
    if (!replacement && positive < samples) {
      throw std::runtime_error("multinomial: cannot draw " + std::to_string(samples) +
                               " columns without replacement from row " + std::to_string(row) +
                               ", of which " + std::to_string(positive) + " have a positive probability");
    }
  }
  const uint64_t blocks =
      static_cast<uint64_t>(groups_of(replacement ? samples : columns, fill::wide)) * philox::lanes;
  const philox::Stream stream = generator.reserve(blocks * static_cast<uint64_t>(rows));
  const int64_t row_grain = 1 + 16384 / (columns + samples);
  parallel_for(0, rows, row_grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const philox::Stream own{stream.seed, stream.block + static_cast<uint64_t>(row) * blocks};
      const auto draw = replacement ? draw_with_replacement : draw_without_replacement;
      draw(own, weights + row * columns, columns, samples, out + row * samples);
    }
  });
}

}  // namespace adjoint::runtime
