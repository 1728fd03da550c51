// What optimisers' steps need of their lists.
#include "ops/optimizer.h"

#include <algorithm>

#include "dispatch/family.h"
#include "for_size.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/launch.h"

namespace adjoint {

namespace {

void check_lists(const char* op, TensorList params, TensorList grads, std::span<const TensorList> states,
                 TensorList steps) {
  const size_t n = params.size();
  const auto fits = [n](TensorList list) { return list.empty() || list.size() == n; };
  bool fit = grads.size() == n && fits(steps);
  for (const TensorList& list : states) fit &= fits(list);
  if (!fit)
    fail<ValueError>(op, "(): the lists of gradients and states are not as long as that of the ", n,
                     " parameters");
  for (size_t i = 0; i < n; ++i) {
    const Tensor& p = params[i];
    if (p.dtype() != DType::Float32 && p.dtype() != DType::Float64)
      fail<TypeError>(op, "(): parameter ", i, " is of type ", name_of(p.dtype()),
                      ", not float32 or float64");
    const auto need = [&](const Tensor& t) {
      if (!t.defined() || t.dtype() != p.dtype() || !same(t.sizes(), p.sizes()))
        fail(op, "(): the gradient and the state of parameter ", i,
             " must be tensors of its type and shape, ", name_of(p.dtype()), " ", p.sizes());
    };
    need(grads[i]);
    for (const TensorList& list : states)
      if (!list.empty()) need(list[i]);
    if (!steps.empty() && (steps[i].numel() != 1 || steps[i].dtype() != DType::Float32))
      fail(op, "(): the number of steps of parameter ", i, " must be a float32 tensor of one element");
  }
}

/// Take a step by a routine, of lists that fit; the states that it writes are three.
template <auto routine, class... X>
Tensors stepped(const char* op, TensorList params, TensorList grads, const TensorList (&states)[3],
                TensorList steps, const X&... options) {
  check_lists(op, params, grads, states, steps);
  if (!params.empty())
    on<routine>(Outs(params), Outs(states[0]), Outs(states[1]), Outs(states[2]), Outs(steps), grads,
                options...);
  return Tensors(params.begin(), params.end());
}

}  // namespace

Tensors SgdStep::forward(TensorList params, TensorList grads, TensorList momentum_buffers, double lr,
                         double momentum, double dampening, double weight_decay, bool nesterov,
                         bool maximize) {
  const double kept = momentum_buffers.empty() ? 0.0 : momentum;
  return stepped<&kernels::sgd_step>(name, params, grads, {momentum_buffers}, {},
                                     kernels::SgdOptions{.lr = lr,
                                                         .momentum = kept,
                                                         .dampening = dampening,
                                                         .weight_decay = weight_decay,
                                                         .nesterov = nesterov,
                                                         .maximize = maximize});
}

Tensors AdamStep::forward(TensorList params, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
                          TensorList max_exp_avg_sqs, TensorList steps, double lr, double beta1, double beta2,
                          double eps, double weight_decay, bool decoupled, bool maximize) {
  if (exp_avgs.size() != params.size() || exp_avg_sqs.size() != params.size())
    fail<ValueError>(name, "(): a parameter lacks its averages");
  return stepped<&kernels::adam_step>(name, params, grads, {exp_avgs, exp_avg_sqs, max_exp_avg_sqs}, steps,
                                      kernels::AdamOptions{.lr = lr,
                                                           .beta1 = beta1,
                                                           .beta2 = beta2,
                                                           .eps = eps,
                                                           .weight_decay = weight_decay,
                                                           .decoupled = decoupled,
                                                           .maximize = maximize});
}

Tensors RmspropStep::forward(TensorList params, TensorList grads, TensorList square_avgs,
                             TensorList grad_avgs, TensorList momentum_buffers, TensorList steps, double lr,
                             double alpha, double eps, double weight_decay, double momentum, bool maximize) {
  if (square_avgs.size() != params.size()) fail<ValueError>(name, "(): a parameter lacks its averages");
  const double kept = momentum_buffers.empty() ? 0.0 : momentum;
  return stepped<&kernels::rmsprop_step>(name, params, grads, {square_avgs, grad_avgs, momentum_buffers},
                                         steps,
                                         kernels::RmspropOptions{.lr = lr,
                                                                 .alpha = alpha,
                                                                 .eps = eps,
                                                                 .weight_decay = weight_decay,
                                                                 .momentum = kept,
                                                                 .maximize = maximize});
}

Tensors ProgramStep::forward(TensorList params, TensorList grads, TensorList firsts, TensorList seconds,
                             TensorList thirds, TensorList steps, IntList program, FloatList numbers) {
  using P = kernels::StepProgram;
  const int64_t first_other = P::kFirstNumber + static_cast<int64_t>(numbers.size());
  if (program.size() % P::kWords != 0 || first_other > P::kRegisters)
    fail<ValueError>(name, "(): instructions are ", P::kWords, " numbers each, and at most ",
                     P::kRegisters - P::kFirstNumber, " numbers enter");
  bool known[P::kRegisters] = {true, true, !firsts.empty(), !seconds.empty(), !thirds.empty()};
  std::fill(known + P::kFirstNumber, known + first_other, true);
  for (size_t k = 0; k < program.size(); k += P::kWords) {
    const auto word = program.subspan(k, P::kWords);
    bool fits = word[0] >= 0 && word[0] < static_cast<int64_t>(kernels::StepOperation::End);
    for (const int64_t r : word.subspan(2)) fits = fits && r >= 0 && r < P::kRegisters && known[r];
    const int64_t to = word[1];
    fits = fits && to >= 0 && to < P::kRegisters && to != 1 &&
           (to < P::kFirstNumber ? known[to] : to >= first_other);
    if (!fits)
      fail<ValueError>(name, "(): instruction ", k / P::kWords,
                       " names an operation or a register that is not there");
    known[to] = true;
  }
  return stepped<&kernels::program_step>(name, params, grads, {firsts, seconds, thirds}, steps,
                                         IntList(program), std::span<const double>(numbers));
}

}  // namespace adjoint

ADJOINT_FAMILY(Optimizer)
