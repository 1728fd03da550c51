// Recurrent layers: RNN, GRU and LSTM of one layer and direction, through all steps of their sequences.
//
// All steps' inputs are multiplied by their weights at once, and on the way back all steps' cotangents with
// all steps' states. Kept are the gates, and of the products with the inputs nothing: `composed`, which says
// the same in operators, begins at the inputs. Gradients are a kernel; recorded, they take the derivatives of
// one step, which are diagonals, from the composition (Note: adding an operator). Layers, directions and
// projections: adjoint/nn/rnn/functions.py. Kernels: kernels/recurrence.h.
#pragma once

#include "ops/contract/op.h"

namespace adjoint {

struct RecurrenceBackward;

namespace recurrence {
/// What its rule takes.
struct Call {
  Tensor g, g_cells, g_gates, output, cells, gates, input, hidden, cell, w_ih, w_hh, b_ih, b_hh;
  Text kind;
  IntList sizes;
  bool reverse;
};
/// The gradients of all tensors. `w_ih` and `b_ih`: whether these need one.
Tensors rule(const Call& call, Needs<RecurrenceBackward> needs, bool w_ih, bool b_ih);
}  // namespace recurrence

struct Recurrence : Structured {
  static constexpr auto name = "_recurrence";
  static void batch(BatchedCall& c, Batched<"input"> input, Batched<"hidden"> hidden, Batched<"cell"> cell,
                    Batched<"w_ih"> w_ih, Batched<"w_hh"> w_hh, Batched<"b_ih"> b_ih, Batched<"b_hh"> b_hh,
                    Argument<Text, "kind"> kind, Argument<IntList, "sizes"> sizes,
                    Argument<bool, "reverse"> reverse);
  static constexpr auto doc =
      "A recurrent layer ('lstm', 'gru', 'tanh' or 'relu') over inputs (steps, batch, features), or (rows, "
      "features) with the rows of each step in `sizes`. Gives each step's state, and for the way back its "
      "cell and gates. Only a GRU has a b_hh; others add theirs to b_ih.";
  static constexpr auto signature = "input, hidden, cell, w_ih, w_hh, b_ih, b_hh, kind, sizes, reverse";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples =
      Cases{"(3, 2, 3), (2, 2), (2, 2), (8, 3), (8, 2), (8,), None, 'lstm', [], False",
            "(4, 1), (2, 2), (2, 2), (8, 1), (8, 2), None, None, 'lstm', [2, 1, 1], True",
            "(3, 2, 2), (2, 2), None, (6, 2), (6, 2), (6,), (6,), 'gru', [], True",
            "(4, 2), (2, 2), None, (6, 2), (6, 2), None, None, 'gru', [2, 1, 1], False",
            "(3, 2, 2), (2, 3), None, (3, 2), (3, 3), (3,), None, 'tanh', [], False",
            "(2, 1, 2), (1, 3), None, (3, 2), (3, 3), None, None, 'relu', [], True",
            "(3, 0, 2), (0, 2), (0, 2), (8, 2), (8, 2), None, None, 'lstm', [], False"};
  static constexpr auto returns = "output, cells, gates";
  static constexpr bool method = false;
  static std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& input, const Tensor& hidden,
                                                    OptionalTensor cell, const Tensor& w_ih,
                                                    const Tensor& w_hh, OptionalTensor b_ih,
                                                    OptionalTensor b_hh, Text kind, IntList sizes,
                                                    bool reverse);
  static std::tuple<Tensor, Tensor, Tensor> composed(const Tensor& input, const Tensor& hidden,
                                                     OptionalTensor cell, const Tensor& w_ih,
                                                     const Tensor& w_hh, OptionalTensor b_ih,
                                                     OptionalTensor b_hh, Text kind, IntList sizes,
                                                     bool reverse);
  static constexpr auto vjp =
      JointRule{[](GradOf<"output"> g, GradOf<"cells"> g_cells, GradOf<"gates"> g_gates, Input<"input"> input,
                   Input<"hidden"> hidden, Input<"cell"> cell, Input<"w_ih"> w_ih, Input<"w_hh"> w_hh,
                   Input<"b_ih"> b_ih, Input<"b_hh"> b_hh, Output<"output"> output, Output<"cells"> cells,
                   Output<"gates"> gates, Argument<Text, "kind"> kind, Argument<IntList, "sizes"> sizes,
                   Argument<bool, "reverse"> reverse, Needs<RecurrenceBackward> needs, Needed<"w_ih"> of_w_ih,
                   Needed<"b_ih"> of_b_ih) {
        return recurrence::rule({g, g_cells, g_gates, output, cells, gates, input, hidden, cell, w_ih, w_hh,
                                 b_ih, b_hh, kind, sizes, reverse},
                                needs, of_w_ih, of_b_ih);
      }};
};

struct RecurrenceBackward : Structured {
  static constexpr auto name = "_recurrence_backward";
  static void batch(BatchedCall& c, Batched<"g"> g, Batched<"g_cells"> g_cells, Batched<"output"> output,
                    Batched<"cells"> cells, Batched<"gates"> gates, Batched<"hidden"> hidden,
                    Batched<"cell"> cell, Batched<"w_hh"> w_hh, Argument<Text, "kind"> kind,
                    Argument<IntList, "sizes"> sizes, Argument<bool, "reverse"> reverse,
                    Argument<int64_t, "needs"> needs);
  static constexpr auto doc =
      "The gradients of _recurrence in one pass, by the bits of `needs`: of the products of the inputs, the "
      "states, and the weight and bias of the recurrence.";
  static constexpr auto signature =
      "g, g_cells, output, cells, gates, hidden, cell, w_hh, kind, sizes, reverse, needs";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{
      "(2, 2, 2), (2, 2, 2), (2, 2, 2), (2, 2, 2), (2, 2, 8), (2, 2), (2, 2), (8, 2), 'lstm', [], False, 31",
      "(3, 2), None, (3, 2), None, (3, 8), (2, 2), None, (6, 2), 'gru', [2, 1], True, 31",
      "None, (2, 0, 2), (2, 0, 2), (2, 0, 2), (2, 0, 8), (0, 2), (0, 2), (8, 2), 'lstm', [], False, 15",
      "(2, 2, 3), None, (2, 2, 3), None, None, (2, 3), None, (3, 3), 'tanh', [], False, 1"};
  static constexpr auto returns = "input, hidden, cell, w_hh, b_hh";
  static constexpr bool method = false;
  static std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> forward(
      OptionalTensor g, OptionalTensor g_cells, const Tensor& output, OptionalTensor cells,
      OptionalTensor gates, const Tensor& hidden, OptionalTensor cell, const Tensor& w_hh, Text kind,
      IntList sizes, bool reverse, int64_t needs);
};

using Recurrences = Family<Recurrence, RecurrenceBackward>;

}  // namespace adjoint
