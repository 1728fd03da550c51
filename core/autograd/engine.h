// The reverse pass: runs the nodes that the roots lead to, in an order in which each gradient is complete
// before it is used. It happens on the calling thread, unless that asked for several (`Crew`); independent
// calls in several threads do not meet except at the leaves they share. Start reading at `run_backward` in
// engine.cpp.
#pragma once

#include "autograd/node.h"

namespace adjoint {

/// Those of tensors, and retained gradients.
void run_hooks_of_results(Node& node, NodeExtras& extras, Gradients& in, bool holomorphic);

/// Whether there are hooks of the node itself.
bool has_hooks(const Node& node);
/// Hooks of the node after its first ones, which its rule itself brought, by hooks of what was saved: they
/// see nothing of what arrived.
[[gnu::cold]] void run_late_hooks(NodeExtras& extras, Gradients& out, size_t before, size_t count);
/// Where anomalies are looked for: fails if a gradient that a node gave has NaN in it.
[[gnu::cold]] void refuse_nan(const Node& node, const Gradients& out);

struct BackwardOptions {
  bool retain_graph = false;
  bool create_graph = false;
  /// Add to `.grad` of the leaves (backward) or only capture (grad).
  bool accumulate = true;
};

/// Run the graph from `roots` with the given cotangents. With `inputs`, only what leads to them runs, and
/// their gradients are returned in order (undefined where unused).
Tensors run_backward(std::span<const Edge> roots, Tensors cotangents, std::span<const Edge> inputs,
                     const BackwardOptions& options);

/// Where a backward pass starts or ends: a tensor, or an edge of the graph whose tensor may be gone.
struct GraphEnd {
  Tensor tensor;
  Edge edge;
};

/// torch.autograd.backward and grad: cotangents that are undefined are implied for scalars.
Tensors backward(std::span<const GraphEnd> roots, TensorList cotangents, std::span<const GraphEnd> inputs,
                 const BackwardOptions& options, bool allow_unused);
Tensors backward(TensorList tensors, TensorList cotangents, TensorList inputs, const BackwardOptions& options,
                 bool allow_unused);

/// The node that runs in this thread, while anomalies are detected; else it may be null.
const Node* current_node();

/// The pass that runs in this thread: a number that no other has, or 0; whether it will come to a node; what
/// is to be done at its end.
uint64_t current_pass();
bool current_pass_is_selective();
bool current_pass_accumulates();
bool current_pass_captures(const Node& node, uint32_t input_nr);
/// Told by a node that stands for many: gradients came for some of its results alone. See autograd/reached.h.
void current_pass_is_parted();
/// Whether what nodes saved is freed as it runs.
bool current_pass_frees();
bool current_pass_is_shared();
/// The node whose rule runs, or null; and those that the pass runs, in order. For passes of one thread.
Ref<Node> current_node_of_pass();
std::vector<Ref<Node>> order_of_pass();
bool current_pass_runs(const Node* node, uint64_t sequence);
/// Where an edge leads in this pass: see autograd/many.h.
const Edge& current_pass_target(const Edge& edge);
void at_end_of_pass(std::function<void()> callback);

/// Whether passes look for NaN in what each node returns; and who is told of the node where one came up, or
/// where a rule failed. Set by the bindings.
extern std::atomic<bool> detecting_anomalies, checking_nan;
extern void (*report_anomaly)(const Node& node);

}  // namespace adjoint
