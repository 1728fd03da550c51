#include "autograd/arguments.h"

#include <algorithm>
#include <set>
#include <utility>

#include "autograd/engine.h"
#include "autograd/many.h"
#include "autograd/views.h"
#include "transforms/tangents.h"

namespace adjoint {

namespace {

/// Hands gradients of an argument on to what it stands for.
class ArgumentNode final : public Node {
 public:
  ArgumentNode(const Tensor& x, const Tensor& argument) : edge_(gradient_edge(x)) { info.describe(argument); }
  std::string name() const override { return "AliasBackward0"; }
  std::span<Edge> edges() override { return {&edge_, 1}; }
  void apply(Gradients& in, Gradients& out) override { out[0] = in[0]; }

 private:
  Edge edge_;
};

/// Nodes that were seen: open addressing.
class Seen {
 public:
  /// Whether it is new.
  bool add(const Node* node) {
    if (used_ * 2 >= slots_.size()) grow();
    const Node*& slot = find(node);
    if (slot) return false;
    slot = node;
    ++used_;
    return true;
  }

 private:
  const Node*& find(const Node* node) {
    size_t i = (reinterpret_cast<uintptr_t>(node) * 0x9e3779b97f4a7c15ull) >> 20;
    while (slots_[i & (slots_.size() - 1)] && slots_[i & (slots_.size() - 1)] != node) ++i;
    return slots_[i & (slots_.size() - 1)];
  }
  void grow() {
    std::vector<const Node*> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Node* node : old)
      if (node) find(node) = node;
  }
  std::vector<const Node*> slots_ = std::vector<const Node*>(64);
  size_t used_ = 0;
};

}  // namespace

namespace {

/// `t`, which stands for `x`, becomes an argument.
Tensor made_argument(Tensor t, const Tensor& x, bool continued) {
  if (continued && x.requires_grad())
    set_history(t, Ref<Node>::steal(new ArgumentNode(x, t)), 0);
  else
    t->flags |= TensorImpl::kRequiresGrad;
  return t;
}

/// For its scope, gradients have the history that they have.
struct WithinComposition {
  const bool before = std::exchange(thread_state.within_composition, true);
  ~WithinComposition() { thread_state.within_composition = before; }
};

}  // namespace

Tensor argument_for(const Tensor& x, bool continued) {
  if (!is_differentiable(x.dtype()))
    fail(
        "only Tensors of floating point dtype can require gradients: an argument of a function that is to be "
        "differentiated by it is ",
        name_of(x.dtype()), " of shape ", x.sizes(), "; convert it first, for example with .to(float32)");
  Tensor t = batch_for_argument(x);
  if (!t.defined()) t = alias_with_tangents(x);
  return made_argument(std::move(t), x, continued);
}

bool is_argument(const Tensor& t, const Tensor& x) {
  if (!t->is(TensorImpl::kRequiresGrad) || t->storage != x->storage) return false;
  return !t->grad_fn || dynamic_cast<const ArgumentNode*>(t->grad_fn);
}

void finish_arguments(TensorList arguments) {
  for (const Tensor& t : arguments)
    if (!t->grad_fn) t->set(TensorImpl::kRequiresGrad, false);
}

void resume_arguments(TensorList arguments) {
  for (const Tensor& t : arguments) t->set(TensorImpl::kRequiresGrad, true);
}

bool leads_beyond(std::span<const Edge> roots, TensorList own) {
  Seen seen;
  std::set<std::pair<const Node*, uint32_t>> results;  // of nodes that stand for many
  std::vector<std::pair<Node*, uint32_t>> next;
  const auto visit = [&](const Edge& edge) {
    if (!edge) return false;
    Node* const node = edge.node.get();
    if (stands_for_many(*node) ? !results.emplace(node, edge.input_nr).second : !seen.add(node)) return false;
    if (node->sequence != Node::kFirst) {
      next.emplace_back(node, edge.input_nr);
      return false;
    }
    const TensorImpl* leaf = static_cast<const LeafNode*>(node)->leaf;
    if (!leaf->is(TensorImpl::kRequiresGrad)) return false;
    return std::none_of(own.begin(), own.end(), [&](const Tensor& t) { return t.get() == leaf; });
  };
  bool beyond = false;
  for (const Edge& root : roots) beyond = beyond || visit(resolved(root));
  while (!beyond && !next.empty()) {
    const auto [node, input_nr] = next.back();
    next.pop_back();
    each_edge_of(*node, input_nr, [&](const Edge& edge) { beyond = beyond || visit(edge); });
  }
  return beyond;
}

namespace {

/// Asks f(tensor) of a tensor and of each of its tangents, until one is true.
template <class F>
bool any_part(const Tensor& t, const F& f) {
  if (f(t)) return true;
  if (!may_have_tangents(t)) return false;
  uint64_t number = 0;
  for (Ref<DualLevel> level; (level = level_above(t, number)); number = level->number)
    if (any_part(tangent_of(t, *level), f)) return true;
  return false;
}

bool leads_beyond(const Tensor& t, TensorList own) {
  const Edge edge = gradient_edge(t);
  return leads_beyond({&edge, 1}, own);
}

}  // namespace

bool asks_for_gradients(const Tensor& t) {
  return any_part(t, [](const Tensor& part) { return part.requires_grad(); });
}

bool tangents_lead_beyond(TensorList roots, TensorList own) {
  return std::any_of(roots.begin(), roots.end(), [&](const Tensor& root) {
    return any_part(root, [&](const Tensor& part) {
      return part.get() != root.get() && part.requires_grad() && leads_beyond(part, own);
    });
  });
}

Tensor result_of(const Tensor& t, TensorList own, bool continued) {
  const auto loses = [&](const Tensor& part) {
    return part.requires_grad() && !(continued && leads_beyond(part, own));
  };
  if (!any_part(t, loses)) return t;
  if (may_have_tangents(t))
    return through_tangents(t, [&](const Tensor& part) { return loses(part) ? alias(part) : part; });
  return alias(t);
}

Tensors pull_back(TensorList arguments, uint32_t wanted, TensorList cotangents,
                  runtime::FunctionRef<Tensors(const Tensors&)> f) {
  BackwardOptions options;
  options.create_graph = options.retain_graph = thread_state.grad;
  options.accumulate = false;
  Tensors own(arguments.begin(), arguments.end()), seeds, gradients(own.size());
  std::vector<Edge> roots, ends;
  {
    const OwnRecording recording;
    for (size_t i = 0; i < own.size(); ++i) {
      Tensor& t = own[i];
      if (!t.defined()) continue;
      const bool varied = wanted >> i & 1;
      if (varied || (t.requires_grad() && !options.create_graph)) t = alias_with_tangents(t);
      if (!varied) continue;
      t = made_argument(std::move(t), arguments[i], options.create_graph);
      ends.push_back(gradient_edge(t));
    }
    const Tensors results = f(own);
    for (size_t i = 0; i < cotangents.size(); ++i) {
      if (!cotangents[i].defined() || !results[i].requires_grad()) continue;
      roots.push_back(gradient_edge(results[i]));
      seeds.push_back(cotangents[i]);
    }
  }
  if (roots.empty()) return gradients;
  const WithinComposition within;
  Tensors found = run_backward(roots, std::move(seeds), ends, options);
  for (size_t i = 0, k = 0; i < own.size(); ++i) {
    if (!own[i].defined() || !(wanted >> i & 1)) continue;
    gradients[i] = std::move(found[k++]);
    finish_arguments({&own[i], 1});
  }
  return gradients;
}

}  // namespace adjoint
