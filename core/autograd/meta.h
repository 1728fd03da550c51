// What a tensor carries for differentiation when it is a leaf, retains its gradient, or has hooks.
#pragma once

#include "autograd/node.h"
#include "runtime/lock.h"

namespace adjoint {

struct AutogradMeta {
  /// Guards `grad` and `accumulator`: concurrent backward passes over shared parameters lose no update.
  runtime::SmallLock lock;
  Tensor grad;
  /// Made when the leaf is first recorded. Its count is that of the graph's edges to it: zero while it sleeps.
  std::unique_ptr<Node> accumulator;
  std::vector<std::pair<uint64_t, GradientHook>> hooks;
  std::vector<std::pair<uint64_t, std::function<void(const Tensor&)>>> post_accumulate_hooks;
};

AutogradMeta& make_meta(TensorImpl* t);
void destroy_meta(AutogradMeta* meta) noexcept;
inline AutogradMeta* meta_of(const Tensor& t) { return t->meta.load(std::memory_order_acquire); }

/// Where the gradient of this tensor goes: its grad_fn, or for a leaf its accumulator. Empty when none is wanted.
Edge gradient_edge(const Tensor& t);

/// Make `t` result number `output_nr` of `node`.
inline void set_history(const Tensor& t, const Ref<Node>& node, uint32_t output_nr) {
  Node* old = t->grad_fn;
  t->grad_fn = Ref<Node>(node).detach();
  t->output_nr = output_nr;
  t->flags |= TensorImpl::kRequiresGrad;
  if (old) release_count(old);
}

Tensor gradient(const Tensor& t);
void set_gradient(const Tensor& t, Tensor grad);
/// Add to `.grad` as the leaf's accumulator would.
void accumulate_gradient(const Tensor& t, Tensor g);
void set_requires_grad(const Tensor& t, bool on);
void retain_grad(const Tensor& t);
Tensor detach(const Tensor& t);

/// Call `hook` with the gradient of `t` when it is known; a defined result replaces it.
uint64_t register_hook(const Tensor& t, GradientHook hook);
void remove_hook(const Tensor& t, uint64_t id);
uint64_t register_post_accumulate_hook(const Tensor& t, std::function<void(const Tensor&)> hook);

}  // namespace adjoint
