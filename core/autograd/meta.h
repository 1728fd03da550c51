// What a tensor carries for differentiation when it is a leaf, retains its gradient, or has hooks.
#pragma once

#include "autograd/node.h"
#include "runtime/lock.h"

namespace adjoint {

class TangentLink;  // transforms/tangents.h

/// The type that a leaf's gradient has: its own unless the program said otherwise. A value of `DType`, or one
/// of these.
using GradientType = uint8_t;
inline constexpr GradientType kTypeOfLeaf = 255, kAnyType = 254;

struct AutogradMeta {
  /// The tensor, and passes that are adding to its gradient while it dies.
  std::atomic<uint32_t> refcount{1};
  /// Guards all but the atomics: see `update_gradient`.
  runtime::SmallLock lock;
  /// The thread that is computing the next `grad`, by the address of its state, odd where others wait for it;
  /// null when none is.
  std::atomic<const void*> updating{nullptr};
  /// Whether there was ever a hook: spares the leaves without any a second lock.
  std::atomic<bool> hooked{false};
  std::atomic<GradientType> gradient_type{kTypeOfLeaf};
  Tensor grad;
  /// Where the first gradient goes, if the program made a place for it (and a hook, which says that there is
  /// more to look at than a gradient).
  Tensor home;
  /// Owned; made when the leaf is first recorded.
  std::atomic<LeafNode*> accumulator{nullptr};
  std::vector<std::pair<uint64_t, GradientHook>> hooks;
  /// What the program's object stood for before it got this tensor: another thread may be reading it.
  Tensor former;
  std::vector<std::pair<uint64_t, std::function<void(const Tensor&)>>> post_accumulate_hooks;
  /// Owned, innermost level first: see transforms/tangents.h.
  TangentLink* tangents = nullptr;
  /// Of a tensor that stands for a batch: all samples, and the vmap() that it belongs to. See
  /// transforms/batching.h.
  Tensor samples;
  uint64_t batch_level = 0;
  static void destroy(AutogradMeta* meta) noexcept { delete meta; }
  ~AutogradMeta() { delete accumulator.load(std::memory_order_relaxed); }
};

AutogradMeta& make_meta(TensorImpl* t);
inline AutogradMeta* meta_of(const Tensor& t) { return t->meta.load(std::memory_order_acquire); }

/// Where the gradient of this tensor goes: its grad_fn, or for a leaf its accumulator. Empty when none is
/// wanted.
Edge gradient_edge(const Tensor& t);

/// Let a leaf have another accumulator from now on, since it stands for other memory.
void renew_accumulator(const Tensor& t);

/// Call the hooks of a leaf with the gradient that arrived, which they may replace.
void run_leaf_hooks(LeafNode& node, Tensor& g);

/// Take `t` out of the list of its grad_fn, and into that of `node`, if any: who retains its gradient.
void move_retainer(const Tensor& t, Node* node, uint32_t output_nr);

/// Make `t` result number `output_nr` of `node`.
inline void set_history(const Tensor& t, Ref<Node> node, uint32_t output_nr) {
  Node* old = t->grad_fn;
  if (t->is(TensorImpl::kRetainsGrad)) [[unlikely]]
    move_retainer(t, node.get(), output_nr);
  t->grad_fn = node.detach();
  t->output_nr = static_cast<uint16_t>(output_nr);  // a node has no more results
  t->flags |= TensorImpl::kRequiresGrad;
  if (old) release_count(old);
}

/// Make `t` a leaf that needs no gradient.
void forget_history(const Tensor& t);

Tensor gradient(const Tensor& t);
void set_gradient(const Tensor& t, Tensor grad);
/// What `grad_dtype` was set to.
inline GradientType gradient_type_of(const Tensor& t) {
  const AutogradMeta* m = meta_of(t);
  return m ? m->gradient_type.load(std::memory_order_acquire) : kTypeOfLeaf;
}
/// The type that gradients of a leaf are converted to; none: they stay as they are.
std::optional<DType> gradient_type(const Tensor& t);
void set_gradient_type(const Tensor& t, std::optional<DType> type);
/// Let `.grad` become next(what it is now), which may be the same tensor, written. The operators of `next`
/// run without the lock held; meanwhile other updates wait, so that none is lost. Where the program set
/// another gradient meanwhile, `next` is called again, unless it wrote into the old one: then it came before.
/// In nested calls of one thread the inner goes first.
void update_gradient(AutogradMeta& meta, const std::function<Tensor(const Tensor&)>& next);
/// How a thread waits for another's update: it lets go of what the other may need. Set by the bindings.
extern void (*while_others_run)(const std::function<void()>& wait);
/// Let the first gradient of a leaf be written to `home`, a tensor like it; undefined: to memory of its own.
void set_gradient_home(const Tensor& t, Tensor home);
/// Add to `.grad` as the leaf's accumulator would.
void accumulate_gradient(const Tensor& t, Tensor g);
void set_requires_grad(const Tensor& t, bool on);
void retain_grad(const Tensor& t);
Tensor detach(const Tensor& t);
/// Inside of a vmap(), what stands for x there as an argument: each sample has a gradient of its own.
/// Undefined elsewhere.
Tensor batch_for_argument(const Tensor& x);
/// That of a tensor that stands for a batch.
Tensor detached_batch(const Tensor& t);

/// Call `hook` with the gradient of `t` when it is known; a defined result replaces it.
uint64_t register_hook(const Tensor& t, GradientHook hook);
void remove_hook(const Tensor& t, uint64_t id);
std::vector<std::pair<uint64_t, GradientHook>> hooks_of(const Tensor& t);
uint64_t register_post_accumulate_hook(const Tensor& t, std::function<void(const Tensor&)> hook);

}  // namespace adjoint
