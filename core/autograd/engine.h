// The reverse pass: runs the nodes that the roots lead to, in an order in which each gradient is complete before it
// is used. Everything happens on the calling thread; independent calls in several threads do not meet except at
// the leaves they share. Start reading at `run_backward` in engine.cpp.
#pragma once

#include "autograd/node.h"

namespace adjoint {

struct BackwardOptions {
  bool retain_graph = false;
  bool create_graph = false;
  /// Add to `.grad` of the leaves (backward) or only capture (grad).
  bool accumulate = true;
};

/// Run the graph from `roots` with the given cotangents. With `inputs`, only what leads to them runs, and their
/// gradients are returned in order (undefined where unused).
Tensors run_backward(std::span<const Edge> roots, Tensors cotangents, std::span<const Edge> inputs,
                     const BackwardOptions& options);

/// `tensors` with `cotangents` (undefined ones are implied for scalars): torch.autograd.backward and grad.
Tensors backward(TensorList tensors, TensorList cotangents, TensorList inputs, const BackwardOptions& options,
                 bool allow_unused);

/// Polled now and then during a long pass; may throw (Ctrl-C). Set by the bindings.
extern void (*poll_interrupt)();

}  // namespace adjoint
