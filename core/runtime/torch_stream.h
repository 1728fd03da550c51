// The random numbers of torch's generator on the CPU, bit for bit: programs written for torch then print
// torch's numbers.
//
// The words come from the Mersenne Twister mt19937 of Matsumoto and Nishimura (1998), seeded as they say;
// what is made of them follows what torch 2.13 was seen to do: which words a number takes, how it is rounded,
// where the method changes with the size (normal numbers: from 16 contiguous elements on). Numbers come one
// after another, in one thread. Where torch chooses among methods by the processor, this is the one of
// processors with AVX2 that are not Intel's: there torch draws bernoulli_ and exponential_ from another
// library's stream.
//
// Start reading at `word`, then `normal`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace adjoint::runtime {

class TorchStream {
 public:
  explicit TorchStream(uint64_t seed) { restart(seed); }
  void restart(uint64_t seed);
  uint64_t seed() const { return seed_; }

  static uint32_t tempered(uint32_t y) {
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
  }
  uint32_t word() {
    if (--left_ == 0) twist();
    return tempered(state_[next_++]);
  }
  /// As many words, one after another.
  void words(uint32_t* out, int64_t n);
  uint64_t long_word() {
    const uint64_t high = word();
    return high << 32 | word();
  }
  /// In [0, 1), of 24 or 53 bits.
  float unit_float() { return static_cast<float>(word() & 0xffffff) * 0x1p-24f; }
  double unit() { return static_cast<double>(long_word() & 0x1fffffffffffffu) * 0x1p-53; }

  /// The layout that torch's `get_state` has: 5056 bytes.
  std::vector<std::byte> state() const;
  /// Throws std::invalid_argument where they are not what `state` gives.
  void set_state(std::span<const std::byte> bytes);

  // --- Fills, in the order of the elements in memory. T is float or double ------------------------

  void uniform(float* out, int64_t n, double low, double high);
  void uniform(double* out, int64_t n, double low, double high);
  /// One element after another, by way of doubles; two make use of one pair of words.
  double normal(double mean, double deviation);
  /// At least 16 elements, in blocks of 16. `blockwise`: of 16-bit types, which take words for whole blocks
  /// only.
  void normal_blocks(float* out, int64_t n, double mean, double deviation, bool blockwise);
  void normal_blocks(double* out, int64_t n, double mean, double deviation, bool blockwise);
  double exponential(double rate);
  bool bernoulli(double p) { return unit() < p; }
  bool bernoulli(float p) { return unit_float() < p; }
  /// low plus a word modulo `range`, of 64 bits where the range has more than 28; 0 means all 2^64 integers.
  int64_t integer(int64_t low, uint64_t range) {
    if (range == 0) return static_cast<int64_t>(long_word());
    const uint64_t drawn = range >= uint64_t{1} << 28 ? long_word() % range : word() % range;
    return static_cast<int64_t>(static_cast<uint64_t>(low) + drawn);
  }
  /// A draw from Gamma(a, 1); `raised` is a + 1 as the type of the parameter rounds it. T is float or double.
  template <class T>
  double gamma(T a, T raised);
  double poisson(double rate);
  /// T as the parameters have it: acceptance depends on how it rounds.
  template <class T>
  T binomial(T count, T p);
  double log_normal(double mean, double deviation);
  double cauchy(double median, double sigma);
  double geometric(double p);
  void permutation(int64_t* out, int64_t n);
  /// As runtime::multinomial; `narrow`: the weights were floats, and so are the sums of them.
  void multinomial(const double* weights, int64_t rows, int64_t columns, int64_t samples, bool replacement,
                   bool narrow, int64_t* out);

 private:
  static constexpr int kWords = 624;
  void twist();
  template <class T>
  void make(T* out, int64_t n, T low, T high);

  uint64_t seed_ = 0;
  uint32_t state_[kWords] = {};
  int left_ = 1;
  uint32_t next_ = 0;
  std::optional<double> second_;  // of the pair of normal numbers
};

}  // namespace adjoint::runtime
