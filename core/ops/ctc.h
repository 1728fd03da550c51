// Connectionist temporal classification: `ctc_loss` (adjoint/nn/loss/ctc.py).
//
// The gradient makes the sums over time again and keeps nothing. `composed` says the same in operators.
#pragma once

#include "kernels/ctc.h"
#include "ops/contract/op.h"

namespace adjoint {

struct CtcLossBackward;

struct CtcLoss : Structured {
  static constexpr auto name = "_ctc_loss";
  static constexpr auto recorded_as = "ctc_loss";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "The negative logarithm of the probability of each target (N, S), of target_lengths letters, over all "
      "ways to spell "
      "it in log_probs (T, N, C), of input_lengths steps.";
  static constexpr auto signature = "log_probs, targets, input_lengths, target_lengths, blank, zero_infinity";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{"(4, 2, 3), [[1, 2], [1, 1]], [4, 3], [2, 2], 0, False",
                                        "(3, 3, 3), [[0, 1], [1, 1], [1, 0]], [3, 2, 3], [1, 2, 0], 2, True",
                                        "(2, 0, 3), index(0, 2, below=3), [], [], 0, False"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& log_probs, const Tensor& targets, IntList input_lengths,
                        IntList target_lengths, int64_t blank, bool zero_infinity) {
    return kernels::ctc_loss(
        log_probs, targets,
        {.steps = input_lengths, .letters = target_lengths, .blank = blank, .zero_infinity = zero_infinity},
        name);
  }
  static Tensor composed(const Tensor& log_probs, const Tensor& targets, IntList input_lengths,
                         IntList target_lengths, int64_t blank, bool zero_infinity);
  static constexpr auto vjp = FirstOrder{
      Rules{[](Grad g, Input<"log_probs"> x, Input<"targets"> targets,
               Argument<IntList, "input_lengths"> steps, Argument<IntList, "target_lengths"> letters,
               Argument<int64_t, "blank"> blank, Argument<bool, "zero_infinity"> zero) {
        return call<CtcLossBackward>(g, x, targets, steps.value, letters.value, blank.value, zero.value);
      }}};
};

struct CtcLossBackward : Structured {
  static constexpr auto name = "_ctc_loss_backward";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "The gradient of _ctc_loss, whose own is g.";
  static constexpr auto signature =
      "g, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples =
      Cases{"(2,), (4, 2, 3), [[1, 2], [1, 1]], [4, 3], [2, 2], 0, False",
            "(3,), (3, 3, 3), [[0, 1], [1, 1], [1, 0]], [3, 2, 3], [1, 2, 0], 2, True",
            "(0,), (2, 0, 3), index(0, 2, below=3), [], [], 0, False"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& g, const Tensor& log_probs, const Tensor& targets,
                        IntList input_lengths, IntList target_lengths, int64_t blank, bool zero_infinity) {
    return kernels::ctc_loss_backward(
        g, log_probs, targets,
        {.steps = input_lengths, .letters = target_lengths, .blank = blank, .zero_infinity = zero_infinity},
        name);
  }
};

using Ctc = Family<CtcLoss, CtcLossBackward>;

}  // namespace adjoint
