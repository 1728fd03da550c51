// Draws from distributions that need rejection: gamma, Poisson, binomial. A draw is a function of its
// parameters and of where the generator stands (a seed and a position, which the caller reserves), so that
// these rows are as pure as any other; element i takes its numbers from a stream of its own. Given a
// generator of torch's numbers, elements draw from it one after another. Kernels: kernels/sampling.h.
#pragma once

#include "kernels/sampling.h"
#include "ops/contract/op.h"

namespace adjoint {

namespace rules {
Tensor gamma_draw(const Tensor& g, const Tensor& concentration, const Tensor& draw);
Tensor dirichlet_draw(const Tensor& g, const Tensor& concentration, const Tensor& draw);
/// Zero: what is drawn moves in steps.
Tensor no_slope(const Tensor& g);
}  // namespace rules

inline runtime::Generator* given(OptionalGenerator g) { return g ? &*g : nullptr; }

struct GammaDrawDerivative : Structured {
  static constexpr auto name = "_standard_gamma_grad";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "The derivative of a draw from Gamma(self, 1) by self where its probability stays: -(dF/da) / f (M. "
      "Figurnov et al., Implicit reparameterization gradients, 2018).";
  static constexpr auto signature = "self, output";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{"positive(3, 4), positive(3, 4)", "positive(0, 3), positive(0, 3)"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& self, const Tensor& output) {
    return kernels::gamma_draw_derivative(self, output, name);
  }
};

struct SampleGamma : Structured {
  static constexpr auto name = "_sample_gamma";
  static constexpr auto batch = batching::draws;
  static constexpr auto doc =
      "Draws from Gamma(self, 1) (G. Marsaglia and W. W. Tsang, A simple method for generating gamma "
      "variables, 2000).";
  static constexpr auto signature = "self, seed, position, generator=None";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{"positive(3, 4), 5, 0", "positive(0, 3), 5, 0, generator=None"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& self, int64_t seed, int64_t position, OptionalGenerator generator) {
    return kernels::sample_gamma(self, seed, position, given(generator), "_standard_gamma");
  }
  static constexpr auto vjp =
      Rules{[](Grad g, Input<"self"> a, Output<> x) { return rules::gamma_draw(g, a, x); }};
};

struct DirichletDraw : Structured {
  static constexpr auto name = "_dirichlet_draw";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "The draws in output, from Dirichlet(self) along the last dimension, with the derivative by self that "
      "each "
      "has where the others keep their shares and its probability stays: that of a beta variable, pathwise.";
  static constexpr auto signature = "self, output";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{"positive(3, 4), unit(3, 4)", "positive(0, 3), positive(0, 3)"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& self, const Tensor& output);
  static constexpr auto vjp =
      Rules{[](Grad g, Input<"self"> a, Output<> x) { return rules::dirichlet_draw(g, a, x); },
            [](Grad g) -> Tensor { return g; }};
};

struct SamplePoisson : Structured {
  static constexpr auto name = "_sample_poisson";
  static constexpr auto batch = batching::draws;
  static constexpr auto doc =
      "Draws from Poisson(self); from 10 on by W. Hörmann, The transformed rejection method for generating "
      "Poisson random variables (1993).";
  static constexpr auto signature = "self, seed, position, generator=None";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{"positive(3, 4), 5, 0", "positive(0, 3), 5, 0, generator=None"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& self, int64_t seed, int64_t position, OptionalGenerator generator) {
    return kernels::sample_poisson(self, seed, position, given(generator), "poisson");
  }
  static constexpr auto vjp = Rules{[](Grad g) { return rules::no_slope(g); }};
};

struct SampleBinomial : Structured {
  static constexpr auto name = "_sample_binomial";
  static constexpr auto batch = batching::draws;
  static constexpr auto doc =
      "Draws from Binomial(self, prob); with many successes by W. Hörmann, The generation of binomial random "
      "variates (1993).";
  static constexpr auto signature = "self, prob, seed, position, generator=None";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples =
      Cases{"[4.0, 5.0, 6.0], unit(3), 5, 0", "positive(0, 3), unit(0, 3), 5, 0, generator=None"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& self, const Tensor& prob, int64_t seed, int64_t position,
                        OptionalGenerator generator) {
    return kernels::sample_binomial(self, prob, seed, position, given(generator), "binomial");
  }
  static constexpr auto vjp =
      Rules{[](Grad g) { return rules::no_slope(g); }, [](Grad g) { return rules::no_slope(g); }};
};

using Sampling = Family<GammaDrawDerivative, SampleGamma, DirichletDraw, SamplePoisson, SampleBinomial>;

}  // namespace adjoint
