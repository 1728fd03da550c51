// The door of structured operators, which every call of one passes: families' and those that programs
// declare.
//
// What it must know of the operator stands in the row; what it is called with, in the boxed arguments. In
// order: who sees calls, what carries tangents or is elsewhere (transformed.h: `before`), which inputs need a
// gradient, whether what is written may be; the computation, or that of a batch; the marks of views, and the
// node. Start reading at `pass_door`.
#include "autograd/arithmetic.h"
#include "autograd/views.h"
#include "dispatch/rule_node.h"
#include "transforms/batching.h"
#include "transforms/transformed.h"

namespace adjoint {

namespace {

/// f of each tensor in the lists that the operator writes.
template <class F>
void each_written(const Operator& row, const Value* arguments, F&& f) {
  for (uint32_t mask = row.writes_lists; mask; mask &= mask - 1)
    for (const Tensor& t : arguments[std::countr_zero(mask)].tensors()) f(t);
}

/// What writes asks of its first argument, or of the lists that it writes.
void check_written(const Operator& row, const Value* arguments, bool tracked) {
  if (row.writes) check_writable(*arguments[0].tensor, row.name, tracked, row.writes_one_value && !tracked);
  each_written(row, arguments, [&](const Tensor& t) { check_writable(t, row.name, false); });
}

}  // namespace

[[gnu::hot]] void pass_door(const Operator& row, const Value* arguments, Results& results,
                            bool past_transforms) {
  runtime::check_no_lock(row.name);
  const Call call{row, CallForm::Function, {arguments, row.kinds.size()}, {}};
  unsigned flags = 0;
  uint32_t wanted = 0;
  each_tensor(row, arguments, [&](const Tensor& t, int i) {
    flags |= t->flags;
    wanted |= uint32_t{t.requires_grad()} << i;
  });
  if (row.writes_lists && flags & TensorImpl::kCarries) [[unlikely]]
    fail<NotImplemented>(
        row.name,
        "(): tensors that carry tangents, or stand for a batch, are not written in one call with others");
  if (before(call, flags, past_transforms, results)) [[unlikely]]
    return;
  bool tracked = wanted && thread_state.grad && !row.constant;
  // As in torch, what was made in inference mode has no history, nor have views of it.
  if (row.view && tracked) tracked = !(*arguments[0].tensor)->is(TensorImpl::kInference);
  const bool in_place = row.writes || row.writes_lists;
  // A write changes what its inputs are: their edges are taken before it.
  Ref<Node> owner;
  if (in_place) {
    // Integers take the values, and no history. A recorded write gives each of its elements a gradient, so
    // that two at one address would count twice.
    tracked = tracked && row.writes && is_differentiable(arguments[0].tensor->dtype());
    check_written(row, arguments, tracked);
    if (tracked && row.rules) owner = node_before_write(*row.rules, arguments, wanted);
  }
  const auto compute = [&] {
    if (row.writes)
      write(*arguments[0].tensor, row.name, [&] { row.compute(row, arguments, results); });
    else
      row.compute(row, arguments, results);
  };
  bool seen = false;
  if (stands_for_batch(flags) || (row.draws && thread_state.batch_level)) [[unlikely]] {
    compute_batched(row, call.arguments, results);
  } else if (thread_state.watched) [[unlikely]] {
    seen = compute_observed(call, results, compute);
  } else {
    const NoInterpretation inner;
    compute();
  }
  const std::span<const Tensor> made = results.all();
  each_written(row, arguments, [&](const Tensor& t) { count_write(t, row.name); });
  if (row.view)
    for (const Tensor& t : made) register_view(*arguments[0].tensor, t, results.kind == Results::Kind::List);
  if (seen) [[unlikely]]
    tell_computed(call, made);
  if (!tracked) return;
  record(row.rules ? *row.rules : *row.refusal, wanted, arguments, made, std::move(owner),
         row.writes ? &results.one : nullptr);
}

}  // namespace adjoint
