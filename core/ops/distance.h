// Distances of the rows of one matrix from the rows of another: `cdist` where p is 1, 2 or infinity.
//
// Neither values nor first derivatives make a table of all differences; what they are composed of does.
#pragma once

#include "kernels/distance.h"
#include "ops/contract/op.h"

namespace adjoint {

struct CdistBackward;

struct Cdist : Structured {
  static constexpr auto name = "_cdist";
  static constexpr auto recorded_as = "cdist";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "The p-norm distance of each row of one matrix from each row of another; p is 1, 2 or infinity.";
  static constexpr auto signature = "x1, x2, p";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples =
      Cases{"(3, 4), (5, 4), 2.0", "(2, 3, 5), (2, 1, 5), 1.0", "(3, 4), (2, 4), inf", "(0, 4), (2, 4), 2.0",
            "(19, 40), (3, 40), 2.0"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& x1, const Tensor& x2, double p) {
    return kernels::distances(x1, x2, p, name);
  }
  static Tensor composed(const Tensor& x1, const Tensor& x2, double p);
  // The largest difference has no kernel.
  static constexpr auto vjp = FirstOrder{JointRule{[](Grad g, Input<"x1"> x1, Input<"x2"> x2, Output<> result,
                                                      Argument<double, "p"> p, Needs<CdistBackward> needs) {
    return p > 2 ? Tensors() : call_all<CdistBackward>(g, x1, x2, result, p.value, needs.bits);
  }}};
};

struct CdistBackward : Structured {
  static constexpr auto name = "_cdist_backward";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "The gradients of _cdist for p = 1 and 2: of x1 and of x2, by the bits of `needs`.";
  static constexpr auto signature = "g, x1, x2, result, p, needs";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{"(3, 5), (3, 4), (5, 4), positive(3, 5), 2.0, 3",
                                        "(2, 3, 1), (2, 3, 5), (2, 1, 5), positive(2, 3, 1), 1.0, 3",
                                        "(0, 2), (0, 4), (2, 4), positive(0, 2), 2.0, 3",
                                        "(19, 3), (19, 40), (3, 40), positive(19, 3), 2.0, 3"};
  static constexpr auto returns = "x1, x2";
  static std::tuple<Tensor, Tensor> forward(const Tensor& g, const Tensor& x1, const Tensor& x2,
                                            const Tensor& result, double p, int64_t needs);
};

using Distance = Family<Cdist, CdistBackward>;

}  // namespace adjoint
