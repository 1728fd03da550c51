// What elements are to their neighbours, in row-major order: their differences.
#pragma once

#include "ops/op.h"

namespace adjoint {

struct Ediff1d : Structured {
  static constexpr auto name = "_ediff1d";
  static constexpr auto doc = "The differences of neighbours, as if the tensor were flat.";
  static constexpr auto signature = "self";
  static constexpr TypeSet types = types::numeric;
  static constexpr auto samples = Cases{"(3, 4)", "(5,)", "(1,)", "()", "(0, 3)"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& self);
  static void batch(BatchedCall& c, Batched<"self"> self);
  static constexpr auto linear = LinearIn<"self">{};
  static Tensor gradient(const Tensor& g, IntList sizes);
  static constexpr auto vjp = Rules{[](Grad g, Shape<"self"> s) { return gradient(g, s); }};
};

using Neighbours = Family<Ediff1d>;

}  // namespace adjoint
