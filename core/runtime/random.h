// Random numbers: a generator is a seed and a position (or torch's generator, torch_stream.h), and every fill
// is a function of both and of the element's index. So the numbers are the same for any number of threads,
// and a saved state is two integers.
//
// A fill of n elements takes the positions that it needs from the generator, under its lock, and then
// computes without one: concurrent fills never share numbers, though which gets which depends on who comes
// first.
//
// Nor do the numbers depend on the processor's instruction set (random_fill.cpp says by which flags).
//
// Start reading at `Generator`, then philox.h, then random_fill.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/philox.h"
#include "runtime/torch_stream.h"

namespace adjoint::runtime {

class Generator {
 public:
  static constexpr uint64_t default_seed = 67280421310721;
  static constexpr size_t state_bytes = 16;
  using State = std::vector<std::byte>;
  /// Which numbers: those that depend on a counter alone, or torch's, one after another (torch_stream.h).
  enum class Kind { Counter, Torch };

  explicit Generator(uint64_t seed = default_seed, Kind kind = default_kind());
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  /// Starts the sequence of this seed from its beginning.
  void manual_seed(uint64_t seed);
  /// Takes a seed from the system's source of randomness and returns it.
  uint64_t seed();
  uint64_t initial_seed() const;

  Kind kind() const;
  /// Starts the sequence of another kind at the same seed.
  void set_kind(Kind kind);
  /// The kind of generators that are made without one.
  static Kind default_kind();
  static void set_default_kind(Kind kind);

  /// Seed and position, little-endian (`state_bytes`); of torch's numbers, what torch gives.
  State state() const;
  /// Throws std::invalid_argument where it is not the state of a generator of this kind.
  void set_state(std::span<const std::byte> bytes);

  /// Takes the next `blocks` blocks of four words for the caller.
  philox::Stream reserve(uint64_t blocks);

  /// f(TorchStream&), under the generator's lock, where that is its kind; else false.
  template <class F>
  bool draw_torch(F&& f) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (torch_) f(*torch_);
    return torch_ != nullptr;
  }

 private:
  mutable std::mutex mutex_;
  philox::Stream stream_;
  std::unique_ptr<TorchStream> torch_;
};

/// The generator of this thread, if it has one of its own, else the process's. Like any other, that may be
/// used by several threads.
Generator& default_generator();
/// That of this thread alone; null where it has none.
Generator* generator_here();
/// Give this thread a generator of its own; null takes it away. Returns the one before. Owns nothing.
Generator* use_generator(Generator* generator);

// Fills of contiguous arrays. T is float or double where nothing else is said. Bad parameters throw
// std::runtime_error before anything is written.

/// In [lo, hi), or all lo where both are equal.
template <class T>
void fill_uniform(Generator& generator, T* out, int64_t n, T lo, T hi);

/// By the transform of Box and Muller.
template <class T>
void fill_normal(Generator& generator, T* out, int64_t n, T mean, T deviation);

/// -log(u) / rate, always above zero; rate > 0.
template <class T>
void fill_exponential(Generator& generator, T* out, int64_t n, T rate);

/// In [lo, hi), by the upper half of a 128-bit product: no value is favoured by more than (hi - lo) / 2^64.
void fill_randint(Generator& generator, int64_t* out, int64_t n, int64_t lo, int64_t hi);

/// All 64 bits random.
void fill_bits(Generator& generator, uint64_t* out, int64_t n);

/// 1 with probability p, to within 2^-32, else 0. T: float, double, bool, and integers of 8 to 64 bits.
template <class T>
void fill_bernoulli(Generator& generator, T* out, int64_t n, double p);

/// With a probability of its own for each element. P: float, double.
template <class T, class P>
void fill_bernoulli_each(Generator& generator, T* out, const P* p, int64_t n);

/// 0 .. n-1 in random order.
void random_permutation(Generator& generator, int64_t* out, int64_t n);

/// Draws `samples` column numbers for each row of `weights` (rows x columns), into rows x samples. Weights
/// need not sum to one. Without replacement each row needs `samples` positive weights.
void multinomial(Generator& generator, const double* weights, int64_t rows, int64_t columns, int64_t samples,
                 bool replacement, int64_t* out);

}  // namespace adjoint::runtime
