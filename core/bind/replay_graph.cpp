// The graph of a recorded call, as the recorder looks at it: what is in it, how its results depend on each
// other, and passes through it. Start reading at `bind_replay_graph`.
#include <ranges>
#include <set>
#include <tuple>

#include "autograd/meta.h"
#include "autograd/views.h"
#include "bind/caster.h"
#include "bind/context.h"
#include "bind/node_object.h"
#include "bind/replay_paths.h"
#include "for_size.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

using namespace replay;

/// Whether what a node saved was freed: something is saved, and was claimed. See ReadLock.
bool is_freed(const Node& n) { return (n.readers.load(std::memory_order_relaxed) & 3) == 3; }

/// Why a backward pass from `roots` to `inputs` cannot be run for recording, "" where it can; the code of
/// Python that would run in it, (context, Function) or (hook, None); whether it may come to what is freed;
/// and the hooks of roots, (number, hook), which no pass that is recorded runs.
std::tuple<std::string, nb::list, bool, nb::list> code_of_graph(const std::vector<Tensor>& roots,
                                                                const std::vector<Tensor>& inputs) {
  std::set<const Node*> ends, seen;
  bool freed = false;
  for (const Tensor& t : inputs)
    if (const Edge e = gradient_edge(t)) {
      ends.insert(e.node.get());
      freed = freed || !e.node->edges().empty();  // nobody looks there
    }
  std::vector<Ref<Node>> open;
  std::vector<Edge> begin;
  const auto visit = [&](const Ref<Node>& node) {
    if (node && seen.insert(node.get()).second) open.push_back(node);
  };
  for (const Tensor& t : roots) {
    begin.push_back(gradient_edge(t));
    visit(begin.back().node);
  }
  nb::list code, of_roots;
  const auto no = [&](std::string reason) { return std::tuple(std::move(reason), code, freed, of_roots); };
  while (!open.empty()) {
    const Ref<Node> node = std::move(open.back());
    open.pop_back();
    if (ends.contains(node.get())) continue;
    freed = freed || is_freed(*node);
    if (node->sequence == Node::kFirst) return no("a tensor inside of it requires grad that is no input");
    if (void* const context = node->object()) {
      const nb::object held = nb::steal(wrap_context(node));
      code.append(nb::make_tuple(held, nb::borrow(context_of(static_cast<PyObject*>(context))->function)));
    }
    for (const nb::object& rule : rules_of_program(*node)) code.append(nb::make_tuple(rule, nb::none()));
    if (const NodeExtras* e = node->extras()) {
      bool others = !e->prehooks.empty() || !e->posthooks.empty() || !e->packed.empty();
      for (const auto& [nr, impl] : e->retainers)
        others = others || std::ranges::none_of(roots, [&](const Tensor& t) { return t.get() == impl; });
      for (const auto& h : e->tensor_hooks) {
        const auto function = function_of(h.hook);
        others = others || !function;
        if (!function) continue;
        const auto root =
            std::ranges::find_if(begin, [&](const Edge& e) { return leads_to({node, h.input_nr}, e); });
        const nb::object hook = nb::borrow(function.get());
        if (root == begin.end())
          code.append(nb::make_tuple(hook, nb::none()));
        else
          of_roots.append(nb::make_tuple(root - begin.begin(), hook));
      }
      if (others) return no(text("a tensor or node (", node->name(), ") inside of it has hooks"));
    }
    for (const Edge& e : node->edges()) visit(e.node);
  }
  return no("");
}

/// The graph of a recorded call's results, cut where gradients meet.
struct CutGraph {
  std::vector<Tensor> roots;
  Cut cut;
};

std::vector<Edge> edges_to(const std::vector<Tensor>& tensors) {
  std::vector<Edge> edges;
  for (const Tensor& t : tensors) edges.push_back(gradient_edge(t));
  return edges;
}

/// What a pass from a group's points brings, apart, and for which end or point each is.
nb::tuple pass_of_group(const CutGraph& graph, uint32_t group, nb::list seeds) {
  Tensors given;
  for (nb::handle g : seeds) given.push_back(g.is_none() ? Tensor() : unwrap(g.ptr()));
  const GradMode off(false);
  // Recorded gradients are nobody's, and hooks of results belong to the program's passes.
  struct Aside {
    const std::vector<Tensor>& roots;
    std::vector<bool> retain;
    std::vector<std::pair<NodeExtras*, std::vector<NodeExtras::TensorHook>>> hooks;
    explicit Aside(const std::vector<Tensor>& r) : roots(r) {
      for (const Tensor& t : roots) {
        retain.push_back(t->is(TensorImpl::kRetainsGrad));
        if (retain.back()) move_retainer(t, nullptr, 0);
        NodeExtras* const extras = t->grad_fn ? t->grad_fn->extras() : nullptr;
        if (!extras) continue;
        std::lock_guard lock(extras->mutex);
        hooks.emplace_back(extras, extras->tensor_hooks);
        std::erase_if(extras->tensor_hooks, [&](const auto& h) { return h.input_nr == t->output_nr; });
      }
    }
    ~Aside() {
      for (size_t i = 0; i < roots.size(); ++i)
        if (retain[i]) move_retainer(roots[i], roots[i]->grad_fn, roots[i]->output_nr);
      for (auto& [extras, all] : hooks | std::views::reverse) {
        std::lock_guard lock(extras->mutex);
        extras->tensor_hooks.swap(all);
      }
    }
  } aside(graph.roots);
  const Cut::Brought brought = graph.cut.pass(group, given);
  nb::list gradients;
  for (const Tensor& g : brought.gradients) gradients.append(g.defined() ? nb::steal(wrap(g)) : nb::none());
  return nb::make_tuple(gradients, brought.of);
}

/// All nodes that edges lead to, and all edges that stand there.
struct Reached {
  std::vector<Node*> nodes;
  std::set<std::pair<const Node*, uint32_t>> edges;
  explicit Reached(std::span<const Edge> begin) {
    const auto none = [&](const Edge& e) { return e && (edges.emplace(e.node.get(), e.input_nr), false); };
    nodes = nodes_from(begin, none);
  }
  bool has(const Edge& e) const { return edges.contains({e.node.get(), e.input_nr}); }
};

/// The node that would refuse a pass through these first, since what it saved was freed; null where there is
/// none, or code of Python's is among them, which refuses as it likes.
const Node* first_spent(const std::vector<Node*>& nodes) {
  const Node* first = nullptr;
  for (Node* const n : nodes) {
    if (n->object()) return nullptr;
    if (is_freed(*n) && (!first || n->sequence > first->sequence)) first = n;
  }
  return first;
}
std::vector<Edge> edges_of(const Node& node) {
  std::vector<Edge> edges;
  for (const Edge& e : const_cast<Node&>(node).edges()) edges.push_back(copy_of(e));
  return edges;
}

/// Whether passes from roots to ends are sure to come to a node that was freed.
bool is_spent(const std::vector<Tensor>& roots, const std::vector<Tensor>& ends) {
  std::vector<Edge> begin;
  for (const Tensor& t : roots) begin.push_back(gradient_edge(t));
  const Node* const first = first_spent(Reached(begin).nodes);
  if (!first) return false;
  const Reached behind(edges_of(*first));
  return std::ranges::any_of(ends, [&](const Tensor& t) { return behind.has(gradient_edge(t)); });
}

/// What is to be known of a graph before passes are run: `code_of_graph`, with `is_spent`.
nb::tuple look_at_graph(const std::vector<Tensor>& roots, const std::vector<Tensor>& inputs) {
  const auto [reason, code, may_be_freed, hooks] = code_of_graph(roots, inputs);
  const bool spent = reason.empty() && may_be_freed && is_spent(roots, inputs);
  return nb::make_tuple(reason, code, spent, hooks);
}

/// What a pass from a root to each end says: a text, "" where it gives a gradient, None where the root does
/// not lead there.
nb::list errors_of_graph(const Tensor& root, const Tensor& seed, const std::vector<Tensor>& ends) {
  nb::list errors;
  const GradMode off(false);
  std::vector<GraphEnd> begin, end(1);
  begin.push_back({{}, gradient_edge(root)});
  BackwardOptions options;
  options.retain_graph = true;
  options.accumulate = false;
  const auto text_of = [](auto&& f) {
    try {
      f();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const Edge from = gradient_edge(root);
  const Reached all({&from, 1});
  const Node* const first = first_spent(all.nodes);
  const Reached behind(first ? edges_of(*first) : std::vector<Edge>());
  // A pass that is only tried runs no hook of the program's.
  const bool hooked = std::ranges::any_of(ends, paths::is_hooked);
  const std::string spent = first ? text_of([&] { first->refuse_released(); }) : "";
  for (const Tensor& t : ends) {
    Edge to = gradient_edge(t);
    if (!all.has(to)) {
      errors.append(nb::none());
    } else if (behind.has(to)) {
      errors.append(spent);
    } else if (hooked) {
      errors.append("");
    } else {
      end[0] = {{}, std::move(to)};
      bool found = true;
      const std::string text =
          text_of([&] { found = backward(begin, Tensors{seed}, end, options, true)[0].defined(); });
      errors.append(found ? nb::object(nb::cast(text)) : nb::none());
    }
  }
  return errors;
}

/// Of tensors that a call leaves, the places of those of which more is to be said than where they lie: of
/// classes of their own, with attributes or gradients, views, and with a history after the first `returned`.
std::vector<size_t> uncommon(nb::list tensors, size_t returned) {
  std::vector<size_t> found;
  size_t k = 0;
  for (nb::handle o : tensors) {
    const Tensor& t = unwrap(o.ptr());
    const bool common = Py_TYPE(o.ptr()) == tensor_type && !reinterpret_cast<TensorObject*>(o.ptr())->dict &&
                        !t->is(TensorImpl::kView) && (!meta_of(t) || !gradient(t).defined()) &&
                        (k < returned || !t.requires_grad());
    if (!common) found.push_back(k);
    ++k;
  }
  return found;
}

/// Whether gradients go on from a tensor, or end there: not from a view that was made without recording,
/// although it requires one where its base does.
bool takes_gradients(const Tensor& t) {
  if (!t->is(TensorImpl::kView) || t->is(TensorImpl::kRequiresGrad)) return t.requires_grad();
  return t.requires_grad() && ((is_stale(t) && t->flags & TensorImpl::kSpecialView) || history(t));
}

}  // namespace

Cut* cut_of(nb::handle graph) { return &nb::cast<CutGraph&>(graph).cut; }

void bind_replay_graph(nb::module_& m) {
  m.def("_errors_of_graph", &errors_of_graph);
  m.def("_uncommon", &uncommon);
  m.def("_takes_gradients", &takes_gradients);
  m.def("_look_at_graph", &look_at_graph);
  nb::class_<CutGraph>(m, "_Cut", "The graph of a recorded call's results, in groups.")
      .def("__init__",
           [](CutGraph* c, std::vector<Tensor> roots, std::vector<uint32_t> numbers, std::vector<Tensor> ends,
              std::vector<uint32_t> by, uint32_t outputs, uint64_t before) {
             Cut cut(edges_to(roots), std::move(numbers), edges_to(ends), std::move(by), outputs, before);
             new (c) CutGraph{std::move(roots), std::move(cut)};
           })
      .def_prop_ro("groups", [](const CutGraph& c) { return c.cut.groups; })
      .def("run", &pass_of_group);
}

}  // namespace adjoint::bind
