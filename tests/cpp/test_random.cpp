// Tests of core/runtime/random.h: known answers, the same numbers for any number of threads, and
// distributions by their moments and frequencies, with bounds of five standard errors (the seeds are fixed,
// so nothing fails by chance).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "check.h"
#include "runtime/parallel.h"
#include "runtime/random.h"

using namespace adjoint::runtime;

namespace {

/// From the test vectors that the authors of Philox publish.
void test_known_answers() {
  philox::Group group;
  philox::generate({0, 0}, 0, group);
  CHECK(group.word[0][0] == 0x6627e8d5 && group.word[1][0] == 0xe169c58d);
  CHECK(group.word[2][0] == 0xbc57ac4c && group.word[3][0] == 0x9b00dbd8);
  // Lanes are consecutive blocks, and positions carry into the counter's upper half.
  philox::Group later;
  philox::generate({7, 0xFFFFFFF5}, 0, group);
  philox::generate({7, 0x100000000}, 0, later);
  CHECK(group.word[0][11] == later.word[0][0] && group.word[3][12] == later.word[3][1]);
}

template <class T, class Fill>
std::vector<T> filled(int threads, size_t n, Fill&& fill) {
  set_num_threads(threads);
  Generator generator(123);
  std::vector<T> numbers(n);
  fill(generator, numbers.data(), static_cast<int64_t>(n));
  return numbers;
}

template <class T, class Fill>
void same_for_any_threads(Fill&& fill) {
  const size_t n = 300001;
  const std::vector<T> one = filled<T>(1, n, fill);
  CHECK(one == filled<T>(2, n, fill) && one == filled<T>(5, n, fill));
  // A shorter array begins with the same numbers.
  const std::vector<T> few = filled<T>(1, 77, fill);
  CHECK(std::equal(few.begin(), few.end(), one.begin()));
}

template <class T>
std::vector<T> moments(const std::vector<T>& x) {
  std::vector<double> sum(5, 0.0);
  for (T value : x) {
    double power = 1;
    for (double& s : sum) {
      s += power;
      power *= static_cast<double>(value);
    }
  }
  std::vector<T> mean;
  for (double s : sum) mean.push_back(static_cast<T>(s / static_cast<double>(x.size())));
  return mean;
}

template <class T>
void test_real_distributions() {
  const auto uniform = [](Generator& g, T* out, int64_t n) { fill_uniform(g, out, n, T(-1), T(3)); };
  const auto normal = [](Generator& g, T* out, int64_t n) { fill_normal(g, out, n, T(0), T(1)); };
  const auto exponential = [](Generator& g, T* out, int64_t n) { fill_exponential(g, out, n, T(2)); };
  same_for_any_threads<T>(uniform);
  same_for_any_threads<T>(normal);
  same_for_any_threads<T>(exponential);

  const size_t n = 1000000;
  const auto u = filled<T>(2, n, uniform);
  CHECK(*std::min_element(u.begin(), u.end()) >= -1 && *std::max_element(u.begin(), u.end()) < 3);
  CHECK(check::close(moments(u)[1], 1.0, 0, 5 * 1.1547e-3) &&
        check::close(moments(u)[2], 7.0 / 3, 0, 5 * 2.4e-3));

  const auto z = filled<T>(2, n, normal);
  CHECK(check::close(moments(z)[1], 0, 0, 5e-3) && check::close(moments(z)[2], 1, 0, 5 * 1.42e-3));
  CHECK(check::close(moments(z)[3], 0, 0, 5 * 3.9e-3) && check::close(moments(z)[4], 3, 0, 5 * 9.8e-3));
  double within[4] = {}, product = 0;
  for (size_t i = 0; i < n; ++i) {
    for (int s = 1; s <= 3; ++s) within[s] += std::abs(z[i]) < static_cast<T>(s);
    if (i >= 16)
      product += static_cast<double>(z[i]) * static_cast<double>(z[i - 16]);  // the other of a pair
  }
  CHECK(check::close(within[1] / n, 0.6826895, 0, 2.4e-3) &&
        check::close(within[2] / n, 0.9544997, 0, 1.1e-3));
  CHECK(check::close(within[3] / n, 0.9973002, 0, 2.6e-4) && std::abs(product / n) < 5e-3);
  CHECK(*std::max_element(z.begin(), z.end()) > 4.5 && *std::min_element(z.begin(), z.end()) < -4.5);

  const auto e = filled<T>(2, n, exponential);
  CHECK(*std::min_element(e.begin(), e.end()) > 0 && check::close(moments(e)[1], 0.5, 0, 2.5e-3));
  CHECK(check::close(moments(e)[2], 0.5, 0, 5 * 1.2e-3));

  Generator g;
  T x[3] = {7, 7, 7};
  fill_uniform(g, x, 2, T(4), T(4));
  CHECK(x[0] == 4 && x[1] == 4 && x[2] == 7);
  fill_normal(g, x, 2, T(5), T(0));
  CHECK(x[0] == 5 && x[1] == 5 && x[2] == 7);
  const T next = std::nextafter(T(1), T(2));
  for (int i = 0; i < 100; ++i) {
    fill_uniform(g, x, 1, T(1), next);
    CHECK(x[0] == 1);
  }
  CHECK_THROWS(std::runtime_error, fill_uniform(g, x, 1, T(2), T(1)));
  CHECK_THROWS(std::runtime_error, fill_uniform(g, x, 1, T(0), T(NAN)));
  CHECK_THROWS(std::runtime_error, fill_normal(g, x, 1, T(0), T(-1)));
  CHECK_THROWS(std::runtime_error, fill_exponential(g, x, 1, T(0)));
}

/// The numbers are what the words say, to within a few roundings: the functions fitted in random_fill.cpp,
/// against the C library's.
void test_accuracy() {
  Generator g(5), words(5);
  const int64_t n = 64000;
  std::vector<double> wide(n);
  std::vector<float> narrow(n);
  std::vector<uint64_t> bits(2 * n);
  fill_normal(g, wide.data(), n, 0.0, 1.0);
  fill_bits(words, bits.data(), n);
  double worst = 0;
  for (size_t group = 0; group < n / 32; ++group) {
    for (size_t l = 0; l < 16; ++l) {
      const uint64_t a = bits[group * 32 + l], b = bits[group * 32 + 16 + l];
      const double u = (static_cast<double>((a >> 37 << 26) | (static_cast<uint32_t>(a) >> 6)) + 1) * 0x1p-53;
      const long double angle = static_cast<long double>(b) * 0x1p-64L * 6.283185307179586476925L;
      const double radius = std::sqrt(-2 * std::log(u));
      worst = std::max(
          {worst, std::abs(wide[group * 32 + l] - radius * static_cast<double>(std::cos(angle))) / radius,
           std::abs(wide[group * 32 + 16 + l] - radius * static_cast<double>(std::sin(angle))) / radius});
    }
  }
  CHECK(worst < 1e-15);

  g.manual_seed(6);
  words.manual_seed(6);
  fill_exponential(g, wide.data(), n, 1.0);
  fill_bits(words, bits.data(), n);
  worst = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t a = bits[i];
    const double u = (static_cast<double>((a >> 37 << 26) | (static_cast<uint32_t>(a) >> 6)) + 1) * 0x1p-53;
    worst = std::max(worst, std::abs(wide[i] / -std::log(u) - 1));
  }
  CHECK(worst < 1e-15);

  g.manual_seed(6);
  fill_exponential(g, narrow.data(), n, 1.0f);
  worst = 0;
  for (size_t group = 0; group < n / 64; ++group) {
    for (size_t k = 0; k < 64; ++k) {
      const uint64_t pair = bits[group * 32 + k / 32 * 16 + k % 16];
      const uint32_t w = static_cast<uint32_t>(k / 16 % 2 ? pair : pair >> 32);
      const float u = static_cast<float>(w >> 1) * 0x1p-31f + 0x1p-32f;
      if (u < 1)
        worst = std::max(worst, std::abs(narrow[group * 64 + k] / -std::log(static_cast<double>(u)) - 1));
    }
  }
  CHECK(worst < 4e-7);
}

void test_integers() {
  same_for_any_threads<int64_t>(
      [](Generator& g, int64_t* out, int64_t n) { fill_randint(g, out, n, -3, 5); });
  std::vector<int64_t> x(800000);
  Generator g(1);
  fill_randint(g, x.data(), 800000, -3, 5);
  int64_t counts[8] = {};
  bool inside = true;
  for (int64_t value : x) {
    inside = inside && value >= -3 && value < 5;
    if (inside) ++counts[value + 3];
  }
  CHECK(inside);
  for (int64_t count : counts) CHECK(std::abs(count - 100000) < 5 * 296);
  fill_randint(g, x.data(), 1000, INT64_MIN, INT64_MAX);
  CHECK(*std::min_element(x.begin(), x.begin() + 1000) < INT64_MIN / 2);
  CHECK(*std::max_element(x.begin(), x.begin() + 1000) > INT64_MAX / 2);
  fill_randint(g, x.data(), 10, 9, 10);
  CHECK(std::all_of(x.begin(), x.begin() + 10, [](int64_t v) { return v == 9; }));
  CHECK_THROWS(std::runtime_error, fill_randint(g, x.data(), 1, 5, 5));
}

void test_bernoulli() {
  same_for_any_threads<float>([](Generator& g, float* out, int64_t n) { fill_bernoulli(g, out, n, 0.3); });
  Generator g(2);
  const size_t n = 1000000;
  std::vector<float> x(n);
  fill_bernoulli(g, x.data(), n, 0.3);
  CHECK(check::close(moments(x)[1], 0.3, 0, 5 * 4.6e-4));
  std::vector<uint8_t> b(1000);
  fill_bernoulli(g, b.data(), 1000, 1.0);
  CHECK(std::count(b.begin(), b.end(), 1) == 1000);
  fill_bernoulli(g, b.data(), 1000, 0.0);
  CHECK(std::count(b.begin(), b.end(), 0) == 1000);
  std::vector<double> p(n);
  for (size_t i = 0; i < n; ++i) p[i] = i % 2 ? 0.9 : 0.0;
  fill_bernoulli_each(g, x.data(), p.data(), n);
  bool never = true;
  for (size_t i = 0; i < n; i += 2) never = never && x[i] == 0;
  CHECK(never && check::close(moments(x)[1], 0.45, 0, 5 * 2.2e-4));
  CHECK_THROWS(std::runtime_error, fill_bernoulli(g, x.data(), 1, 1.5));
  p[7] = NAN;
  CHECK_THROWS(std::runtime_error, fill_bernoulli_each(g, x.data(), p.data(), n));
}

void test_permutation() {
  Generator g(3);
  for (int64_t n : {0, 1, 2, 31, 32, 33, 512, 513, 5000}) {
    std::vector<int64_t> x(static_cast<size_t>(n));
    random_permutation(g, x.data(), n);
    std::sort(x.begin(), x.end());
    bool all = true;
    for (int64_t i = 0; i < n; ++i) all = all && x[static_cast<size_t>(i)] == i;
    CHECK(all);
  }
  int64_t counts[24] = {};
  for (int i = 0; i < 48000; ++i) {
    int64_t x[4];
    random_permutation(g, x, 4);
    int64_t rank = 0;
    for (int a = 0; a < 4; ++a) {
      int64_t below = 0;
      for (int b = a + 1; b < 4; ++b) below += x[b] < x[a];
      rank = rank * (4 - a) + below;
    }
    ++counts[rank];
  }
  for (int64_t count : counts) CHECK(std::abs(count - 2000) < 5 * 44);
}

void test_multinomial() {
  const double weights[8] = {1, 0, 3, 4, 0, 0, 5, 0};
  std::vector<int64_t> drawn(2 * 80000);
  Generator g(4);
  multinomial(g, weights, 2, 4, 80000, true, drawn.data());
  CHECK(std::abs(std::count(drawn.begin(), drawn.begin() + 80000, 0) - 10000) < 5 * 94);
  CHECK(std::abs(std::count(drawn.begin(), drawn.begin() + 80000, 2) - 30000) < 5 * 137);
  CHECK(std::count(drawn.begin(), drawn.begin() + 80000, 1) == 0);
  CHECK(std::count(drawn.begin() + 80000, drawn.end(), 2) == 80000);

  // Without replacement: the first draw follows the weights, and no column comes twice.
  const int64_t rows = 80000;
  std::vector<double> many;
  for (int64_t r = 0; r < rows; ++r) many.insert(many.end(), weights, weights + 4);
  std::vector<int64_t> sets[2];
  for (int threads : {1, 2}) {
    set_num_threads(threads);
    Generator same(9);
    sets[threads - 1].resize(static_cast<size_t>(rows * 3));
    multinomial(same, many.data(), rows, 4, 3, false, sets[threads - 1].data());
  }
  CHECK(sets[0] == sets[1]);
  int64_t first[4] = {};
  bool distinct = true;
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
    const int64_t* row = sets[0].data() + 3 * r;
    ++first[row[0]];
    distinct = distinct && row[0] != row[1] && row[1] != row[2] && row[0] != row[2];
  }
  CHECK(distinct && first[1] == 0 && std::abs(first[0] - 10000) < 5 * 94 &&
        std::abs(first[3] - 40000) < 5 * 142);
  int64_t out[4];
  CHECK_THROWS(std::runtime_error, multinomial(g, weights, 1, 4, 4, false, out));
  for (double bad : {-1.0, double(NAN), double(INFINITY)}) {
    const double wrong[2] = {1, bad};
    CHECK_THROWS(std::runtime_error, multinomial(g, wrong, 1, 2, 1, true, out));
  }
  const double zero[2] = {0, 0};
  CHECK_THROWS(std::runtime_error, multinomial(g, zero, 1, 2, 1, true, out));
}

void test_generator() {
  Generator g(42);
  double a[50], b[50];
  fill_uniform(g, a, 50, 0.0, 1.0);
  const Generator::State state = g.state();
  fill_uniform(g, a, 50, 0.0, 1.0);
  Generator other;
  other.set_state(state);
  CHECK(other.initial_seed() == 42);
  fill_uniform(other, b, 50, 0.0, 1.0);
  CHECK(std::memcmp(a, b, sizeof a) == 0);
  g.manual_seed(42);
  fill_uniform(g, b, 50, 0.0, 1.0);
  CHECK(std::memcmp(a, b, sizeof a) != 0);
  CHECK(g.seed() == g.initial_seed() && g.seed() != g.seed());
  CHECK_THROWS(std::invalid_argument, g.set_state(std::span(state).first(15)));
  CHECK(&default_generator() == &default_generator());
  CHECK(Generator().initial_seed() == Generator::default_seed);
  // The default one begins at a seed of the system, which it tells.
  Generator same(default_generator().initial_seed());
  fill_uniform(same, a, 50, 0.0, 1.0);
  fill_uniform(default_generator(), b, 50, 0.0, 1.0);
  CHECK(std::memcmp(a, b, sizeof a) == 0);
}

}  // namespace

int main() {
  test_known_answers();
  test_real_distributions<float>();
  test_real_distributions<double>();
  test_accuracy();
  test_integers();
  test_bernoulli();
  test_permutation();
  test_multinomial();
  test_generator();
  return check::result();
}
