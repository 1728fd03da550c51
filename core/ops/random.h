// Random numbers: drawn from a generator into a new tensor, or over the elements of one.
//
// A draw advances its generator (the thread's own where none is given), so that these rows alone are not
// functions of their arguments. Draws from distributions that need rejection are: see ops/sampling.h. What
// users call is in adjoint/_tensor/random.py. The fills: runtime/random.h. Start reading at `Rand`.
#pragma once

#include "ops/contract/op.h"

namespace adjoint {

/// A row that users reach through a function of their own.
struct RandomRow : Structured {
  static constexpr bool differentiable = false;
  static constexpr bool method = false;
};

/// Writes its first argument, which loses its history: what is drawn does not depend on what was there.
struct RandomWrite : Structured {
  static constexpr bool writes = true;
  static constexpr bool method = false;
  static Tensor overwritten(const Tensor& g);
  static constexpr auto vjp = Rules{[](Grad g) { return overwritten(g); }};
};

struct Rand : RandomRow {
  static constexpr auto name = "_rand";
  static constexpr auto doc = "Numbers drawn evenly from [0, 1), complex ones in both parts.";
  static constexpr auto signature = "size, *, dtype=None, generator=None";
  static constexpr auto samples = Cases{"[2, 3]", "[0, 3], dtype=complex128, generator=None"};
  static Tensor forward(Into into, Sizes size, OptionalType dtype, OptionalGenerator generator);
};

struct RandLike : RandomRow {
  static constexpr auto name = "_rand_like";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "As _rand, with the shape, the type and the order of dimensions in memory of a tensor.";
  static constexpr auto signature = "self|input, *, generator=None";
  static constexpr TypeSet types = types::field;
  static constexpr auto samples = Cases{"(2, 3)", "(0, 3), generator=None"};
  static Tensor forward(const Tensor& self, OptionalGenerator generator);
};

struct Randn : RandomRow {
  static constexpr auto name = "_randn";
  static constexpr auto doc =
      "Numbers drawn from a normal distribution; each part of complex ones has half the variance.";
  static constexpr auto signature = "size, *, dtype=None, generator=None";
  static constexpr auto samples = Cases{"[2, 3]", "[4], dtype=complex128, generator=None", "[0, 3]"};
  static Tensor forward(Into into, Sizes size, OptionalType dtype, OptionalGenerator generator);
};

struct RandnAbout : RandomRow {
  static constexpr auto name = "_randn_about";
  static constexpr auto doc = "As _randn, with a mean and a standard deviation.";
  static constexpr auto signature = "size, mean, std, *, dtype=None, generator=None";
  static constexpr auto samples =
      Cases{"[2, 3], 1.0, 2.0", "[4], 2.0, 0.5, dtype=complex128, generator=None"};
  static Tensor forward(Into into, Sizes size, double mean, double std, OptionalType dtype,
                        OptionalGenerator generator);
};

struct RandnLike : RandomRow {
  static constexpr auto name = "_randn_like";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "As _randn, with the shape, the type and the order of dimensions in memory of a tensor.";
  static constexpr auto signature = "self|input, *, generator=None";
  static constexpr TypeSet types = types::field;
  static constexpr auto samples = Cases{"(2, 3)", "(0, 3), generator=None"};
  static Tensor forward(const Tensor& self, OptionalGenerator generator);
};

struct RandInt : RandomRow {
  static constexpr auto name = "_randint";
  static constexpr auto doc = "Integers drawn evenly from low up to but without high.";
  static constexpr auto signature = "size, low, high, dtype, generator=None";
  static constexpr auto samples = Cases{"[2, 3], -2, 5, int64", "[0, 3], 0, 1, float32, generator=None"};
  static Tensor forward(Into into, Sizes size, int64_t low, int64_t high, DType dtype,
                        OptionalGenerator generator);
};

struct RandIntLike : RandomRow {
  static constexpr auto name = "_randint_like";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "As _randint, with the shape, the type and the order of dimensions in memory of a tensor.";
  static constexpr auto signature = "self, low, high, generator=None";
  static constexpr auto samples = Cases{"(2, 3), 0, 2", "(0, 3), 0, 1, generator=None"};
  static Tensor forward(const Tensor& self, int64_t low, int64_t high, OptionalGenerator generator);
};

struct BernoulliEach : RandomRow {
  static constexpr auto name = "_bernoulli_each";
  static constexpr auto batch = batching::from_values;
  static constexpr auto doc = "Ones and zeros: 1 with the probability that each element is.";
  static constexpr auto signature = "self, generator=None";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{"unit(2, 3)", "unit(0, 3), generator=None"};
  static Tensor forward(const Tensor& self, OptionalGenerator generator);
};

struct BernoulliLike : RandomRow {
  static constexpr auto name = "_bernoulli_like";
  static constexpr auto batch = batching::from_values;
  static constexpr auto doc =
      "Ones with probability p, and zeros, with the shape, the type and the order of dimensions in memory of "
      "a tensor.";
  static constexpr auto signature = "self, p, generator=None";
  static constexpr auto samples = Cases{"(2, 3), 0.5", "(0, 3), 0.5, generator=None"};
  static Tensor forward(const Tensor& self, double p, OptionalGenerator generator);
};

struct RandPerm : RandomRow {
  static constexpr auto name = "_randperm";
  static constexpr auto doc = "The integers from 0 to n - 1 in random order.";
  static constexpr auto signature = "n, dtype, generator=None";
  static constexpr auto samples = Cases{"5, int64", "0, int32, generator=None"};
  static Tensor forward(Into into, int64_t n, DType dtype, OptionalGenerator generator);
};

struct Multinomial : RandomRow {
  static constexpr auto name = "_multinomial";
  static constexpr auto doc = "Indices drawn in proportion to the weights in each row.";
  static constexpr auto signature = "self, num_samples, replacement, generator=None";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples =
      Cases{"positive(2, 4), 3, False", "positive(4), 6, True, generator=None", "positive(0, 3), 2, True"};
  static Tensor forward(Into into, const Tensor& self, int64_t num_samples, bool replacement,
                        OptionalGenerator generator);
};

// --- In place -------------------------------------------------------------------------------------

struct Uniform : RandomWrite {
  static constexpr auto name = "_uniform";
  static constexpr auto doc = "Write numbers drawn evenly from [low, high).";
  static constexpr auto signature = "self, low, high, generator=None";
  static constexpr TypeSet types = types::field;
  static constexpr auto samples = Cases{"(2, 3), -1.0, 3.0", "(0, 3), 0.0, 1.0, generator=None"};
  static Tensor forward(const Tensor& self, double low, double high, OptionalGenerator generator);
};

struct Normal : RandomWrite {
  static constexpr auto name = "_normal";
  static constexpr auto doc = "Write numbers drawn from a normal distribution.";
  static constexpr auto signature = "self, mean, std, generator=None";
  static constexpr TypeSet types = types::field;
  static constexpr auto samples = Cases{"(2, 3), 1.0, 2.0", "(0, 3), 0.0, 1.0, generator=None"};
  static Tensor forward(const Tensor& self, double mean, double std, OptionalGenerator generator);
};

struct ExponentialFill : RandomWrite {
  static constexpr auto name = "_exponential";
  static constexpr auto doc = "Write numbers drawn from the exponential distribution of a rate.";
  static constexpr auto signature = "self, rate, generator=None";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{"(2, 3), 2.0", "(0, 3), 1.0, generator=None"};
  static Tensor forward(const Tensor& self, double rate, OptionalGenerator generator);
};

struct TransformedFill : RandomWrite {
  static constexpr auto name = "_fill_transformed";
  static constexpr auto doc =
      "Write draws that torch makes of one number after another: kind 0, log-normal of mean a and deviation "
      "b; 1, Cauchy's of median a and scale b; 2, geometric of probability a.";
  static constexpr auto signature = "self, kind, a, b, generator=None";
  static constexpr auto samples = Cases{"(2, 3), 0, 0.5, 2.0", "(2, 3), 1, 0.5, 2.0", "(2, 3), 2, 0.5, 0.0",
                                        "(0, 3), 1, 0.0, 1.0, generator=None"};
  static Tensor forward(const Tensor& self, int64_t kind, double a, double b, OptionalGenerator generator);
};

struct RandomIntegers : RandomWrite {
  static constexpr auto name = "_random";
  static constexpr auto doc =
      "Write integers drawn evenly from low up to but without high; up to all that the type holds, where "
      "that is not given.";
  static constexpr auto signature = "self, low, high=None, generator=None";
  static constexpr auto samples = Cases{"(2, 3), 0, 2", "(0, 3), 0, 1, generator=None"};
  static Tensor forward(const Tensor& self, int64_t low, std::optional<int64_t> high,
                        OptionalGenerator generator);
};

struct Bernoulli : RandomWrite {
  static constexpr auto name = "_bernoulli";
  static constexpr auto doc = "Write ones with probability p, and zeros.";
  static constexpr auto signature = "self, p, generator=None";
  static constexpr auto samples = Cases{"(2, 3), 0.5", "(0, 3), 0.5, generator=None"};
  static Tensor forward(const Tensor& self, double p, OptionalGenerator generator);
};

using RandomNumbers = Family<Rand, RandLike, Randn, RandnAbout, RandnLike, RandInt, RandIntLike,
                             BernoulliEach, BernoulliLike, RandPerm, Multinomial, Uniform, Normal,
                             ExponentialFill, TransformedFill, RandomIntegers, Bernoulli>;

}  // namespace adjoint
