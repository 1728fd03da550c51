// The forward rule of an operator that says nothing of it: its reverse rule, transposed.
//
// The reverse rule is g ↦ Jᴴ g, written in recorded operators. So it is run, recorded, on a placeholder for
// g; and a reverse pass through what that recorded, from the rule's results with the inputs' tangents t to
// the placeholder, is t ↦ (Jᴴ)ᴴ t = J t. What the rule read of the inputs keeps its history, so that the
// tangent can be differentiated as well.
#include <utility>

#include "autograd/arguments.h"
#include "autograd/arithmetic.h"
#include "autograd/engine.h"
#include "autograd/meta.h"
#include "dispatch/rule_node.h"
#include "for_size.h"
#include "transforms/forward.h"

namespace adjoint {

namespace {

/// Stands behind an input that needs no gradient, so that it has an edge. No pass wants anything of it.
class Placeholder final : public Node {
 public:
  std::string name() const override { return "ForwardModeInput"; }
  void apply(Gradients&, Gradients&) override {}
};

Ref<Node> placeholder(const Tensor& t) {
  auto node = Ref<Node>::steal(new Placeholder);
  node->info.describe(t);
  return node;
}

/// What a program does with its own graph is off as well. Who looks on goes on, and may be taken out
/// meanwhile.
struct OwnGraph : OwnRecording {
  OwnGraph() {
    thread_state.holomorphic = false;
    thread_state.saved_hooks = nullptr;
  }
  ~OwnGraph() { thread_state.holomorphic = before.holomorphic; }
};

}  // namespace

Tensors transposed_tangents(const DualCall& call) {
  const Operator& op = call.op;
  if (!op.rules)
    fail<NotImplemented>(
        "Trying to use forward AD with ", op.name,
        " that does not support it because it has not been implemented yet: the operator has no derivative. "
        "Compute it on detached tensors, or write an autograd.Function with a jvp");
  const RuleTable& table = *op.rules;
  const bool recorded = call.is_recorded();
  Tensors tangents(call.results.size());
  OwnGraph own;
  // The arguments, of which just those with a tangent lead anywhere.
  Tensors inputs = call.primals;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensor& t = inputs[i];
    if (!t.defined()) continue;
    const bool wanted = call.tangents[i].defined();
    if (t->is(TensorImpl::kInference) || (wanted && !t.requires_grad())) t = alias_with_tangents(t);
    if (wanted && !t.requires_grad()) set_history(t, placeholder(t), 0);
  }
  // What the rule reads: with history only if that is asked for.
  Tensors read = inputs;
  for (Tensor& t : read)
    if (!recorded && t.defined() && t.requires_grad()) t = alias_with_tangents(t);
  uint32_t wanted = 0;
  for (size_t p = 0; p < op.kinds.size(); ++p)
    for (size_t i = call.first[p]; i < call.first[p + 1]; ++i)
      wanted |= uint32_t{call.tangents[i].defined()} << p;
  const std::vector<Value> given = call.with(inputs), given_read = call.with(read);
  // The node of the call, its result known already: what it saves of that has outer levels' tangents.
  Ref<Node> owner = RuleNode::make(table, given.data(), wanted);
  auto& node = static_cast<RuleNode&>(*owner);
  Tensors results = call.results;
  for (Tensor& t : results)
    if (t.defined() && t->is(TensorImpl::kInference)) t = alias_with_tangents(t);
  node.set_results(static_cast<uint16_t>(results.size()));
  node.keep(given_read.data(), results);
  for (const SavedValue& s : node.saved())
    if (s.slot && s.slot->is_result()) {
      s.slot->share_tangents_of(results[s.output_nr]);
      if (!recorded) s.slot->forget_owner();
    }
  const std::span<Edge> edges = node.edges();
  const size_t edge_count = edges.size();
  std::vector<bool> leads(edge_count);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (call.tangents[i].defined()) leads[node.edge_of_tensor(i)] = true;
  for (size_t e = 0; e < edge_count; ++e)
    if (!leads[e]) edges[e] = {};
  // The rule, at placeholders for the gradients of the results.
  std::vector<Edge> ends;
  std::vector<size_t> which;
  Gradients in(results.size()), out(edge_count);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) continue;
    node.set_result(static_cast<uint32_t>(i), results[i]);
    if (!is_differentiable(results[i].dtype())) continue;
    const Tensor g = expanded_zero(results[i]);
    g->flags |= TensorImpl::kRequiresGrad;
    in[i] = g;
    ends.push_back(gradient_edge(g));
    which.push_back(i);
  }
  node.apply(in, out);
  std::vector<Edge> roots;
  Tensors seeds;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!call.tangents[i].defined()) continue;
    const size_t e = node.edge_of_tensor(i);
    if (!out[e].defined()) continue;
    ResultInfo info;
    info.describe(inputs[i]);
    const Tensor g = fit_gradient(out[e], info, node, e);
    if (!g.requires_grad()) continue;
    roots.push_back(gradient_edge(g));
    seeds.push_back(call.tangents[i]);
  }
  if (roots.empty()) return tangents;
  BackwardOptions options;
  options.create_graph = recorded;
  options.accumulate = false;
  // In this thread alone: the caller may hold a lock that others wait for.
  struct InOneThread {
    bool before = std::exchange(thread_state.parallel_backward, false);
    ~InOneThread() { thread_state.parallel_backward = before; }
  } in_one_thread;
  Tensors found = run_backward(roots, std::move(seeds), ends, options);
  for (size_t i = 0; i < found.size(); ++i) tangents[which[i]] = std::move(found[i]);
  return tangents;
}

}  // namespace adjoint
