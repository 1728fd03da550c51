// Hooks of a node's results, as gradients for these have arrived. Start reading at `run_hooks_of_results`.
#include "autograd/arithmetic.h"
#include "autograd/engine.h"
#include "autograd/meta.h"

namespace adjoint {

bool (*leads_on)(const Node& node, uint32_t input_nr) = nullptr;

void run_hooks_of_results(Node& node, NodeExtras& extras, Gradients& in, bool holomorphic) {
  // One of its results may have nothing to do with what the pass is at.
  const bool many = node.readers.load(std::memory_order_relaxed) == kStandsForMany;
  const auto passed = [&](uint32_t input_nr) {
    return many && !(in[input_nr].defined() && leads_on(node, input_nr));
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

}  // namespace adjoint
