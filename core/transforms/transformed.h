// Calls of which an input carries what a transform gave it: tangents (forward mode), or a batch in place of
// one tensor; and calls on another device than the CPU, which `transformed` does again in the scope of that
// device.
//
// The door looks at its inputs' flags. A call with tangents it hands to `transformed`, which does it without
// them, level by level finds the tangents of the results (transforms/forward.h), and comes back through the
// door by `call_plain`. Batches are no concern here: the door computes them where it would call the kernel,
// recorded like any other call. In this order a level of either kind may be opened inside of any other: a
// dual tensor may stand for a batch, and its tangents do then; a batch never is one of dual tensors
// (`through_tangents`). Writes in place of operators that have no form of their own for it, and to `out=`,
// are the call and then a `_copy` (`write_transformed`).
#pragma once

#include <functional>
#include <span>

#include "dispatch/operator.h"

namespace adjoint {

/// Whether a call with these flags among its inputs' is to be shown to `transformed`. A view has no flag of
/// its own where its base got a tangent later; so while levels are open, views are looked at.
inline bool may_be_transformed(unsigned flags) {
  return flags & (TensorImpl::kTransformed | TensorImpl::kView) &&
         (flags & TensorImpl::kTransformed || thread_state.dual_level);
}

/// Do a call with its transforms. False where it turns out to need none: the door goes on.
bool transformed(const Operator& op, std::span<const Value> arguments, Results& results);

/// The call as if no input carried anything. The results have no tangents.
void call_plain(const Operator& op, std::span<const Value> arguments, Results& results);

/// Whether a tensor carries anything that counts: a write of it, or to it, is done by `write_transformed`.
bool is_transformed(const Tensor& t);
/// Write a result to `to` with tangents and batches and, while recording, history. Returns what stands for
/// `to` from now on.
Tensor write_transformed(const Tensor& to, const Tensor& value);

}  // namespace adjoint
