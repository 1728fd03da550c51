// Hooks of a node's results, as gradients for these have arrived. Start reading at `run_hooks_of_results`.
#include "autograd/arithmetic.h"
#include "autograd/engine.h"
#include "autograd/many.h"
#include "autograd/meta.h"
#include "for_size.h"

namespace adjoint {

std::atomic<const ManyInOne*> many_in_one{nullptr};
std::atomic<uint32_t> passes_by_many{0};

void run_hooks_of_results(Node& node, NodeExtras& extras, Gradients& in, bool holomorphic) {
  // One of its results may have nothing to do with what the pass is at.
  const bool many = stands_for_many(node) || is_replaced(node);
  const auto passed = [&](uint32_t input_nr) {
    return many &&
           !(in[input_nr].defined() && many_in_one.load(std::memory_order_relaxed)->leads_on(node, input_nr));
  };
  // Copies run: a hook may add and remove hooks, itself among them, and so may other threads.
  for (auto& h : runtime::copied(extras.mutex, extras.tensor_hooks)) {
    if (passed(h.input_nr)) continue;
    Tensor& g = in[h.input_nr];
    if (Tensor changed = h.hook(g); changed.defined())
      g = entering_gradient(std::move(changed), node.result(h.input_nr), node, h.input_nr);
  }
  // A tensor that retains its gradient takes itself out before it dies: under the lock, those listed are
  // alive, and with them the places of their gradients.
  std::vector<std::pair<uint32_t, Ref<AutogradMeta>>> retainers;
  {
    std::lock_guard alive(extras.mutex);
    for (auto [input_nr, impl] : extras.retainers)
      if (in[input_nr].defined() && !passed(input_nr))
        retainers.emplace_back(input_nr,
                               Ref<AutogradMeta>::share(impl->meta.load(std::memory_order_acquire)));
  }
  for (auto& [input_nr, meta] : retainers) {
    const Tensor g = holomorphic ? conjugate_of(in[input_nr]) : in[input_nr];
    // A copy: what arrived goes on, and may be the caller's own.
    update_gradient(
        *meta, [&](const Tensor& before) { return before.defined() ? add_gradients(before, g) : owned(g); });
  }
}

bool has_hooks(const Node& node) {
  NodeExtras* extras = node.extras();
  if (!extras) return false;
  std::lock_guard lock(extras->mutex);
  return !extras->prehooks.empty() || !extras->posthooks.empty();
}

void run_late_hooks(NodeExtras& extras, Gradients& out, size_t before, size_t count) {
  const auto hooks = runtime::copied(extras.mutex, extras.posthooks);
  const Gradients nothing(count);
  for (size_t i = before; i < hooks.size(); ++i) hooks[i].second(out, nothing);
}

void refuse_nan(const Node& node, const Gradients& out) {
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i].defined() && has_nan(out[i])) {
      if (report_anomaly) report_anomaly(node);
      const std::string line = node.line();
      fail("Function '", node.name(), "' returned nan values in its ", i, "th output.",
           line.empty() ? "" : text(" The forward call was made here: ", line));
    }
}

namespace {

/// f(node, result, input_nr) of what took the place of each result of a node that was replaced.
template <class F>
void at_replacements(const Node& node, F f) {
  const ManyInOne& many = *many_in_one.load(std::memory_order_relaxed);
  const uint32_t n = many.results(node);
  for (uint32_t i = 0; i < n; ++i)
    if (const Edge& e = resolved(many.replacement(node, i))) f(*e.node, i, e.input_nr);
}

// Hooks of a node that stands for many, at what took the place of one result: they see its gradient alone.
NodePrehook of_result(NodePrehook hook, size_t results, uint32_t i, uint32_t input_nr) {
  return [=, hook = std::move(hook)](Gradients& in) {
    Gradients all(results);
    all[i] = in[input_nr];
    hook(all);
    in[input_nr] = std::move(all[i]);
  };
}
NodePosthook of_result(NodePosthook hook, size_t results, uint32_t i, uint32_t input_nr) {
  return [=, hook = std::move(hook)](Gradients& out, const Gradients& in) {
    Gradients all(results);
    all[i] = in[input_nr];
    hook(out, all);
  };
}

template <class Hook>
void set_at(Node& node, std::vector<std::pair<uint64_t, Hook>> NodeExtras::* list, uint64_t id, Hook hook) {
  NodeExtras& extras = node.make_extras();
  {
    std::lock_guard lock(extras.mutex);
    if (!is_replaced(node)) {
      (extras.*list).emplace_back(id, std::move(hook));
      return;
    }
  }
  at_replacements(node, [&](Node& to, uint32_t i, uint32_t input_nr) {
    set_at(to, list, id, of_result(hook, node.num_inputs, i, input_nr));
  });
}

}  // namespace

void set_node_hook(Node& node, uint64_t id, NodePrehook hook) {
  set_at(node, &NodeExtras::prehooks, id, std::move(hook));
}
void set_node_hook(Node& node, uint64_t id, NodePosthook hook) {
  set_at(node, &NodeExtras::posthooks, id, std::move(hook));
}

void remove_node_hook(Node& node, uint64_t id) {
  if (NodeExtras* const extras = node.extras()) {
    // They die after the lock.
    decltype(extras->prehooks) pre;
    decltype(extras->posthooks) post;
    std::lock_guard lock(extras->mutex);
    const auto take = [id](auto& from, auto& to) {
      for (auto& hook : from)
        if (hook.first == id) to.push_back(std::move(hook));
      std::erase_if(from, [id](const auto& hook) { return hook.first == id; });
    };
    take(extras->prehooks, pre);
    take(extras->posthooks, post);
  }
  if (is_replaced(node))
    at_replacements(node, [id](Node& to, uint32_t, uint32_t) { remove_node_hook(to, id); });
}

void give_hooks(Node& node, bool keeps) {
  NodeExtras* const extras = node.extras();
  if (!extras) return;
  // They die after the lock.
  decltype(extras->tensor_hooks) tensor_hooks;
  decltype(extras->prehooks) prehooks;
  decltype(extras->posthooks) posthooks;
  std::lock_guard lock(extras->mutex);
  tensor_hooks = extras->tensor_hooks;
  prehooks = extras->prehooks;
  posthooks = extras->posthooks;
  const auto to = [&](uint32_t result, auto&& f) {
    const Edge& e = resolved(many_in_one.load(std::memory_order_relaxed)->replacement(node, result));
    if (!e) return;
    NodeExtras& there = e.node->make_extras();
    std::lock_guard lock(there.mutex);
    f(there, e.input_nr);
  };
  for (const auto& h : tensor_hooks)
    to(h.input_nr, [&](NodeExtras& there, uint32_t input_nr) {
      auto& hooks = there.tensor_hooks;  // in the order in which they were set
      const auto at = std::ranges::find_if(hooks, [&](const auto& other) { return other.id > h.id; });
      hooks.insert(at, {h.id, input_nr, h.hook});
    });
  for (const auto& [nr, tensor] : extras->retainers)
    to(nr, [&](NodeExtras& there, uint32_t input_nr) { there.retainers.emplace_back(input_nr, tensor); });
  at_replacements(node, [&](Node& there, uint32_t i, uint32_t input_nr) {
    for (const auto& [id, hook] : prehooks)
      set_node_hook(there, id, of_result(hook, node.num_inputs, i, input_nr));
    for (const auto& [id, hook] : posthooks)
      set_node_hook(there, id, of_result(hook, node.num_inputs, i, input_nr));
  });
  if (keeps) return;
  extras->tensor_hooks.clear();
  extras->prehooks.clear();
  extras->posthooks.clear();
}

}  // namespace adjoint
