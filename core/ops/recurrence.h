// Recurrent layers: RNN, GRU and LSTM of one layer and direction, through all steps of their sequences.
//
// What the inputs give to each step, their product with the input weights, is an argument; so the gradient of
// these is that of one product. The way back likewise multiplies all steps' cotangents with all steps' states
// once. Cells and gates are results with gradients of their own: the gradient, written in recorded operators
// where it is recorded itself, is a function of them. Layers, directions and projections:
// adjoint/nn/rnn/functions.py. Kernels: kernels/recurrence.h.
#pragma once

#include "ops/contract/op.h"

namespace adjoint {

struct RecurrenceBackward;

namespace recurrence {
/// What a call of the operator made, and how.
struct Call {
  Tensor hidden, cell, weight, output, cells, gates;
  std::string kind;
  Dims sizes;
  bool reverse;
};
/// Gradients of input, hidden, cell, weight and bias: fused where nothing is recorded.
Tensors rule(const Tensor& g, const Tensor& g_cells, const Tensor& g_gates, const Call& call,
             Needs<RecurrenceBackward> needs);
}  // namespace recurrence

struct Recurrence : Structured {
  static constexpr auto name = "_recurrence";
  static void batch(BatchedCall& c, Batched<"input"> input, Batched<"hidden"> hidden, Batched<"cell"> cell,
                    Batched<"weight"> weight, Batched<"bias"> bias, Argument<Text, "kind"> kind,
                    Argument<IntList, "sizes"> sizes, Argument<bool, "reverse"> reverse);
  static constexpr auto doc =
      "A recurrent layer ('lstm', 'gru', 'tanh' or 'relu') from the product of its inputs with their "
      "weights, (steps, batch, gates), or (rows, gates) with the rows of each step in `sizes`. Gives each "
      "step's state, and for the way back its cell and gates.";
  static constexpr auto signature = "input, hidden, cell, weight, bias, kind, sizes, reverse";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{"(3, 2, 8), (2, 2), (2, 2), (8, 2), None, 'lstm', [], False",
                                        "(4, 8), (2, 2), (2, 2), (8, 2), None, 'lstm', [2, 1, 1], True",
                                        "(3, 2, 6), (2, 2), None, (6, 2), (6,), 'gru', [], True",
                                        "(4, 6), (2, 2), None, (6, 2), None, 'gru', [2, 1, 1], False",
                                        "(3, 2, 3), (2, 3), None, (3, 3), None, 'tanh', [], False",
                                        "(2, 1, 3), (1, 3), None, (3, 3), None, 'relu', [], True",
                                        "(3, 0, 8), (0, 2), (0, 2), (8, 2), None, 'lstm', [], False"};
  static constexpr auto returns = "output, cells, gates";
  static constexpr bool method = false;
  static std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& input, const Tensor& hidden,
                                                    OptionalTensor cell, const Tensor& weight,
                                                    OptionalTensor bias, Text kind, IntList sizes,
                                                    bool reverse);
  static constexpr auto vjp = JointRule{
      [](GradOf<"output"> g, GradOf<"cells"> g_cells, GradOf<"gates"> g_gates, Input<"hidden"> hidden,
         Input<"cell"> cell, Input<"weight"> weight, Output<"output"> output, Output<"cells"> cells,
         Output<"gates"> gates, Argument<Text, "kind"> kind, Argument<IntList, "sizes"> sizes,
         Argument<bool, "reverse"> reverse, Needs<RecurrenceBackward> needs) {
        return recurrence::rule(g, g_cells, g_gates,
                                {.hidden = hidden,
                                 .cell = cell,
                                 .weight = weight,
                                 .output = output,
                                 .cells = cells,
                                 .gates = gates,
                                 .kind = std::string(kind.value),
                                 .sizes = Dims(sizes.value),
                                 .reverse = reverse},
                                needs);
      }};
};

struct RecurrenceBackward : Structured {
  static constexpr auto name = "_recurrence_backward";
  static void batch(BatchedCall& c, Batched<"g"> g, Batched<"g_cells"> g_cells, Batched<"output"> output,
                    Batched<"cells"> cells, Batched<"gates"> gates, Batched<"hidden"> hidden,
                    Batched<"cell"> cell, Batched<"weight"> weight, Argument<Text, "kind"> kind,
                    Argument<IntList, "sizes"> sizes, Argument<bool, "reverse"> reverse,
                    Argument<int64_t, "needs"> needs);
  static constexpr auto doc =
      "The gradients of _recurrence in one pass, by the bits of `needs`: of the input, the states, the "
      "weight and the bias.";
  static constexpr auto signature =
      "g, g_cells, output, cells, gates, hidden, cell, weight, kind, sizes, reverse, needs";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{
      "(2, 2, 2), (2, 2, 2), (2, 2, 2), (2, 2, 2), (2, 2, 8), (2, 2), (2, 2), (8, 2), 'lstm', [], False, 31",
      "(3, 2), None, (3, 2), None, (3, 8), (2, 2), None, (6, 2), 'gru', [2, 1], True, 31",
      "None, (2, 0, 2), (2, 0, 2), (2, 0, 2), (2, 0, 8), (0, 2), (0, 2), (8, 2), 'lstm', [], False, 15",
      "(2, 2, 3), None, (2, 2, 3), None, None, (2, 3), None, (3, 3), 'tanh', [], False, 1"};
  static constexpr auto returns = "input, hidden, cell, weight, bias";
  static constexpr bool method = false;
  static std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> forward(
      OptionalTensor g, OptionalTensor g_cells, const Tensor& output, OptionalTensor cells,
      OptionalTensor gates, const Tensor& hidden, OptionalTensor cell, const Tensor& weight, Text kind,
      IntList sizes, bool reverse, int64_t needs);
};

using Recurrences = Family<Recurrence, RecurrenceBackward>;

}  // namespace adjoint
