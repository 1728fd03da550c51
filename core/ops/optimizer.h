// The steps of optimisers: all parameters of a group, with their gradients and states, in one call that
// writes them in place.
//
// Formulas and loops: kernels/cpu/optimizer.h. A step is made for all parameters or for none: nothing is
// written before everything is checked, and an interrupt waits. What users call is in adjoint/optim/. Start
// reading at `SgdStep`.
#pragma once

#include "ops/contract/op.h"

namespace adjoint {

/// Lists of tensors, one for each parameter; lists of states that the options do not ask for are empty. The
/// result are the parameters.
struct OptimizerRow : Structured {
  static constexpr TypeSet types = types::bit(DType::Float32) | types::bit(DType::Float64);
  static constexpr bool differentiable = false;
  static constexpr bool method = false;
};

struct SgdStep : OptimizerRow {
  static constexpr auto name = "_sgd_step";
  static constexpr auto doc = "One step of gradient descent, with momentum where there are buffers for it.";
  static constexpr auto signature =
      "params, grads, momentum_buffers, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, "
      "maximize=False";
  static constexpr auto samples =
      Cases{"[(3, 4), (), (0, 2)], [(3, 4), (), (0, 2)], [], 0.1",
            "[(3, 4), (5,)], [(3, 4), (5,)], [(3, 4), (5,)], 0.1, 0.9, 0.5, 0.25, False, True",
            "[(3,)], [(3,)], [(3,)], 0.1, 0.9, 0.0, 0.0, True"};
  static constexpr auto writes_lists = ArgumentSet<"params", "momentum_buffers">{};
  static Tensors forward(TensorList params, TensorList grads, TensorList momentum_buffers, double lr,
                         double momentum, double dampening, double weight_decay, bool nesterov,
                         bool maximize);
};

struct AdamStep : OptimizerRow {
  static constexpr auto name = "_adam_step";
  static constexpr auto doc =
      "One step of Adam, or of AdamW (`decoupled`); the steps taken are float32 numbers, one for each "
      "parameter.";
  static constexpr auto signature =
      "params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, lr, beta1, beta2, eps, "
      "weight_decay=0.0, decoupled=False, maximize=False";
  static constexpr auto samples = Cases{
      "[(3, 4), ()], [(3, 4), ()], [(3, 4), ()], [unit(3, 4), unit()], [], [float32(2.0), float32(3.0)], "
      "0.1, 0.9, 0.99, 1e-8",
      "[(3, 4)], [(3, 4)], [(3, 4)], [unit(3, 4)], [unit(3, 4)], [float32(0.0)], 0.1, 0.9, 0.99, 1e-8, 0.25, "
      "True, True",
      "[(0, 2)], [(0, 2)], [(0, 2)], [(0, 2)], [], [float32(0.0)], 0.1, 0.9, 0.99, 1e-8, 0.25"};
  static constexpr auto writes_lists =
      ArgumentSet<"params", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs", "steps">{};
  static Tensors forward(TensorList params, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
                         TensorList max_exp_avg_sqs, TensorList steps, double lr, double beta1, double beta2,
                         double eps, double weight_decay, bool decoupled, bool maximize);
};

struct RmspropStep : OptimizerRow {
  static constexpr auto name = "_rmsprop_step";
  static constexpr auto doc =
      "One step of RMSprop, centred where there are mean gradients, with momentum where there are buffers.";
  static constexpr auto signature =
      "params, grads, square_avgs, grad_avgs, momentum_buffers, steps, lr, alpha, eps, weight_decay=0.0, "
      "momentum=0.0, maximize=False";
  static constexpr auto samples = Cases{
      "[(3, 4), ()], [(3, 4), ()], [positive(3, 4), positive()], [], [], [float32(2.0), float32(3.0)], 0.1, "
      "0.9, 1e-8",
      "[(2,)], [(2,)], [positive(2)], [[0.1, 0.2]], [(2,)], [float32(0.0)], 0.1, 0.9, 1e-2, 0.25, 0.9, True"};
  static constexpr auto writes_lists =
      ArgumentSet<"params", "square_avgs", "grad_avgs", "momentum_buffers", "steps">{};
  static Tensors forward(TensorList params, TensorList grads, TensorList square_avgs, TensorList grad_avgs,
                         TensorList momentum_buffers, TensorList steps, double lr, double alpha, double eps,
                         double weight_decay, double momentum, bool maximize);
};

struct ProgramStep : OptimizerRow {
  static constexpr auto name = "_program_step";
  static constexpr auto doc =
      "One step by instructions over blocks of elements, five numbers each: which (`_C.step_operations`), "
      "the register written, three that are read. Registers: the parameter, the gradient, three states, the "
      "numbers, others.";
  static constexpr auto signature = "params, grads, firsts, seconds, thirds, steps, program, numbers";
  static constexpr auto samples = Cases{
      "[(3, 4), (), (0, 2)], [(3, 4), (), (0, 2)], [], [], [], [float32(0.0), float32(1.0), float32(0.0)], "
      "[3, 6, 1, 5, 5, 4, 0, 6, 5, 0], [0.5]",
      "[(3, 4), (300,)], [(3, 4), (300,)], [(3, 4), (300,)], [(3, 4), (300,)], [(3, 4), (300,)], "
      "[float32(0.0), float32(1.0)], [3, 7, 1, 1, 1, 8, 8, 1, 0, 0, 1, 7, 7, 8, 8, 7, 9, 7, 7, 7, 5, 9, 2, "
      "9, 9, 10, 8, 3, 4, 4, 6, 8, 8, 5, 5, 11, 8, 8, 9, 3, 0, 4, 1, 1, 1, 9, 10, 4, 4, 4, 2, 0, 0, 8, 8, 3, "
      "10, 10, 6, 6, 1, 0, 0, 10, 10], [0.5, 0.25]"};
  static constexpr auto writes_lists = ArgumentSet<"params", "firsts", "seconds", "thirds", "steps">{};
  static Tensors forward(TensorList params, TensorList grads, TensorList firsts, TensorList seconds,
                         TensorList thirds, TensorList steps, IntList program, FloatList numbers);
};

using Optimizer = Family<SgdStep, AdamStep, RmspropStep, ProgramStep>;

}  // namespace adjoint
