// What stands for a tensor inside of a function that is differentiated by it, and what comes out of that
// function.
//
// adjoint.func.grad(f)(x) gives f not `x` but an *argument*: another tensor over the same memory, which f
// sees as a leaf. It has no history of its own, unless gradients are wanted for `x` outside; then its history
// leads on to `x`, through a node by which the pass can tell the two apart. Results keep their history only
// where it leads to more than the arguments: to what f captured, to arguments of functions further out. When
// f has returned, its arguments are finished: nobody outside asks for them, so they count for nothing. So
// functions nest without levels. Start reading at `argument_for`; `pull_back` is all of it for functions of
// the core.
#pragma once

#include "autograd/node.h"
#include "runtime/function_ref.h"

namespace adjoint {

/// What stands for `x` inside. `continued`: where gradients are wanted for `x`, they shall reach it.
Tensor argument_for(const Tensor& x, bool continued);

/// Whether `t` still is what `argument_for` made of `x`: neither written in place, recorded, detached, nor
/// given other memory (`.data =`).
bool is_argument(const Tensor& t, const Tensor& x);

/// The function has returned. Passes still find an argument that has no history of its own, by its edge.
void finish_arguments(TensorList arguments);
/// A pass begins, which may run parts of the function again (checkpoints): its arguments count until they are
/// finished anew.
void resume_arguments(TensorList arguments);

/// Whether gradients that set out at `roots` reach any leaf that wants one and is not one of `own`.
bool leads_beyond(std::span<const Edge> roots, TensorList own);

/// The same of their tangents, which a pass backward hands on.
bool tangents_lead_beyond(TensorList roots, TensorList own);
/// Whether a tensor or one of its tangents requires a gradient.
bool asks_for_gradients(const Tensor& t);

/// What the outside gets of a result: `t`, without its history where that leads to nothing but `own`, or is
/// not `continued`; and its tangents likewise.
Tensor result_of(const Tensor& t, TensorList own, bool continued);

/// For its scope, calls are recorded, whatever the program has switched: it does not see this graph.
struct OwnRecording {
  const ThreadState before = thread_state;
  OwnRecording() {
    thread_state.grad = true;
    thread_state.inference = false;
    thread_state.flags_of_new &= ~uint32_t{TensorImpl::kInference};
    if (!before.grad) thread_state.saved_hooks = nullptr;
  }
  ~OwnRecording() {
    thread_state.grad = before.grad;
    thread_state.inference = before.inference;
    thread_state.flags_of_new = before.flags_of_new;
    thread_state.saved_hooks = before.saved_hooks;
  }
};

/// The gradients of f by those of its arguments that are `wanted` (bits), from those of its results, of which
/// some may be undefined. Where recording is on, they are recorded, as functions of arguments and
/// `cotangents`. f gets all arguments, and calls operators.
Tensors pull_back(TensorList arguments, uint32_t wanted, TensorList cotangents,
                  runtime::FunctionRef<Tensors(const Tensors&)> f);

}  // namespace adjoint
