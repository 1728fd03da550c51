// Calls of which an input carries what a transform gave it: tangents (forward mode), or a batch in place of
// one tensor; and calls on another device than the CPU, which `transformed` does again in the scope of that
// device.
//
// The door looks at its inputs' flags. A call with tangents it hands to `transformed`, which does it without
// them, level by level finds the tangents of the results (transforms/forward.h), and comes back through the
// door by `call_plain`. Batches are no concern here: the door computes them where it would call the kernel,
// recorded like any other call. In this order a level of either kind may be opened inside of any other: a
// dual tensor may stand for a batch, and its tangents do then; a batch is one of dual tensors only where
// vmap() was given them recorded, since nodes keep them (`through_tangents`). Writes in place of operators
// that have no form of their own for it, and to `out=`, are the call and then a `_copy`
// (`write_transformed`).
#pragma once

#include <functional>
#include <span>

#include "transforms/interpreter.h"

namespace adjoint {

/// Whether a call with these flags among its inputs' is to be shown to `transformed`. A view has no flag of
/// its own where its base got a tangent later; so while levels are open, views are looked at.
inline bool may_be_transformed(unsigned flags) {
  return flags & (TensorImpl::kTransformed | TensorImpl::kView) &&
         (flags & TensorImpl::kTransformed || thread_state.dual_level);
}

/// Do a call with its transforms. False where it turns out to need none: the door goes on. So it does where a
/// call writes what carries something: by `write_transformed`, after the checks of a write.
bool transformed(const Call& call, Results& results);

/// What comes before the computation of every call, of whichever kind its operator is: whether its results
/// are there already, since an interpreter made them, or a transform did because of what the call's tensors
/// carry or where they are. `flags`: those of all its tensors. `past_transforms`: the call comes from a
/// transform, which has dealt with that.
inline bool before(const Call& call, unsigned flags, bool past_transforms, Results& results) {
  if (thread_state.watched && interpreted(call, results)) [[unlikely]]
    return true;
  return may_be_transformed(flags) && !past_transforms && transformed(call, results);
}

/// The call as if no input carried anything. The results have no tangents.
void call_plain(const Operator& op, std::span<const Value> arguments, Results& results);

/// Whether a tensor carries anything that counts: a write of it, or to it, is done by `write_transformed`.
bool is_transformed(const Tensor& t);
/// Write a result to `to` with tangents and batches and, while recording, history. Returns what stands for
/// `to` from now on.
Tensor write_transformed(const Tensor& to, const Tensor& value);

}  // namespace adjoint
