// Leaves: where gradients end. The accumulator of a leaf adds what arrives to its `.grad`.
#include <algorithm>
#include <thread>

#include "autograd/arithmetic.h"
#include "autograd/meta.h"

namespace adjoint {

namespace {

std::atomic<uint64_t> next_hook{1};

// Belongs to its leaf's meta and serves as often as the leaf is recorded: in between it sleeps, with no owner and not
// owning its leaf. Awake it owns the leaf, as any node owns what it needs.
class AccumulateGrad final : public Node {
 public:
  AccumulateGrad() : Node(kFirst) {}

  /// Under the meta's lock: an owner for a sleeping accumulator, or one more for one awake; none while its last owner
  /// is letting go of it.
  Ref<Node> wake(const Tensor& leaf) {
    if (!leaf_.defined()) {
      leaf_ = leaf;
      if (!info.fits(leaf)) info.describe(leaf);
      refcount.store(1, std::memory_order_relaxed);
      return Ref<Node>::steal(this);
    }
    // Its count is raised only from one up: whoever took it to zero is on the way to `retire`.
    uint32_t n = refcount.load(std::memory_order_acquire);
    while (n != 0)
      if (refcount.compare_exchange_weak(n, n + 1, std::memory_order_acq_rel)) return Ref<Node>::steal(this);
    return {};
  }
  bool retire() noexcept override {
    AutogradMeta& m = *meta_of(leaf_);
    // What goes with the last owner goes after the lock: the leaf may end here, and this with it.
    Tensor leaf;
    std::unique_ptr<NodeExtras> extras(extras_.exchange(nullptr, std::memory_order_relaxed));
    std::lock_guard lock(m.lock);
    leaf = std::move(leaf_);
    return true;
  }
  std::string name() const override { return "AccumulateGrad"; }
  std::vector<SavedValue> saved() override { return {{"variable", leaf_, ""}}; }

  void apply(Gradients& in, Gradients&) override {
    Tensor g = std::move(in[0]);
    if (!g.defined()) return;
    AutogradMeta& m = *meta_of(leaf_);
    for (size_t i = 0; i < m.hooks.size(); ++i)
      if (Tensor changed = m.hooks[i].second(g); changed.defined()) g = std::move(changed);
    accumulate_gradient(leaf_, std::move(g));
    for (size_t i = 0; i < m.post_accumulate_hooks.size(); ++i) m.post_accumulate_hooks[i].second(leaf_);
  }

 private:
  Tensor leaf_;
};

}  // namespace

AutogradMeta& make_meta(TensorImpl* t) {
  if (AutogradMeta* m = t->meta.load(std::memory_order_acquire)) return *m;
  auto* fresh = new AutogradMeta;
  AutogradMeta* expected = nullptr;
  if (!t->meta.compare_exchange_strong(expected, fresh)) {
    delete fresh;
    return *expected;
  }
  return *fresh;
}

void destroy_meta(AutogradMeta* meta) noexcept { delete meta; }

Edge gradient_edge(const Tensor& t) {
  if (t->grad_fn) return {Ref<Node>::share(t->grad_fn), t->output_nr};
  if (!t.requires_grad()) return {};
  AutogradMeta& m = make_meta(t.get());
  for (;;) {
    {
      std::lock_guard lock(m.lock);
      if (!m.accumulator) m.accumulator.reset(new AccumulateGrad);
      if (Ref<Node> awake = static_cast<AccumulateGrad&>(*m.accumulator).wake(t)) return {std::move(awake), 0};
    }
    std::this_thread::yield();  // another thread is about to put it to sleep
  }
}

Tensor gradient(const Tensor& t) {
  AutogradMeta* m = meta_of(t);
  if (!m) return {};
  std::lock_guard lock(m->lock);
  return m->grad;
}

void accumulate_gradient(const Tensor& t, Tensor g) {
  AutogradMeta& m = make_meta(t.get());
  std::lock_guard lock(m.lock);
  if (!m.grad.defined()) m.grad = own_gradient(std::move(g), t);
  else if (thread_state.grad) m.grad = add_gradients(m.grad, g);
  else add_in_place(m.grad, g);
}

void set_gradient(const Tensor& t, Tensor grad) {
  if (grad.defined()) {
    if (!same(grad.sizes(), t.sizes()))
      fail("assigned grad has data of a different size: the gradient's shape is ", to_string(grad.sizes()),
           " and the tensor's is ", to_string(t.sizes()));
    if (grad.dtype() != t.dtype())
      fail<TypeError>("assigned grad has data of a different type: the gradient is ", name_of(grad.dtype()),
                      " and the tensor is ", name_of(t.dtype()));
    if (grad.get() == t.get()) fail("can't assign Variable as its own grad");
  } else if (!meta_of(t)) {
    return;
  }
  AutogradMeta& m = make_meta(t.get());
  Tensor old;
  std::lock_guard lock(m.lock);
  old = std::exchange(m.grad, std::move(grad));
}

void set_requires_grad(const Tensor& t, bool on) {
  if (!t.is_leaf()) {
    if (!on)
      fail("you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
           "subgraph that doesn't require differentiation use var_no_grad = var.detach().");
    return;
  }
  if (on && !is_differentiable(t.dtype()))
    fail("only Tensors of floating point and complex dtype can require gradients, but this one is ", name_of(t.dtype()),
         " of shape ", to_string(t.sizes()), "; convert it first, for example with .to(float32)");
  t->set(TensorImpl::kRequiresGrad, on);
}

void retain_grad(const Tensor& t) {
  if (!t.requires_grad()) fail("can't retain_grad on Tensor that has requires_grad=False");
  if (t.is_leaf() || t->is(TensorImpl::kRetainsGrad)) return;
  make_meta(t.get());
  NodeExtras& extras = t->grad_fn->make_extras();
  std::lock_guard lock(extras.mutex);
  extras.retainers.emplace_back(t->output_nr, t.get());
  t->set(TensorImpl::kRetainsGrad, true);
}

Tensor detach(const Tensor& t) {
  Tensor d = alias(t);
  d->flags |= t->flags & (TensorImpl::kView | TensorImpl::kMultiView | TensorImpl::kInference);
  return d;
}

uint64_t register_hook(const Tensor& t, GradientHook hook) {
  if (!t.requires_grad()) fail("cannot register a hook on a tensor that doesn't require gradient");
  const uint64_t id = next_hook++;
  if (t.is_leaf()) {
    make_meta(t.get()).hooks.emplace_back(id, std::move(hook));
  } else {
    NodeExtras& extras = t->grad_fn->make_extras();
    std::lock_guard lock(extras.mutex);
    extras.tensor_hooks.push_back({id, t->output_nr, std::move(hook)});
  }
  return id;
}

void remove_hook(const Tensor& t, uint64_t id) {
  if (t.is_leaf()) {
    if (AutogradMeta* m = meta_of(t)) std::erase_if(m->hooks, [&](auto& h) { return h.first == id; });
    if (AutogradMeta* m = meta_of(t)) std::erase_if(m->post_accumulate_hooks, [&](auto& h) { return h.first == id; });
  } else if (NodeExtras* e = t->grad_fn->extras()) {
    std::lock_guard lock(e->mutex);
    std::erase_if(e->tensor_hooks, [&](auto& h) { return h.id == id; });
  }
}

uint64_t register_post_accumulate_hook(const Tensor& t, std::function<void(const Tensor&)> hook) {
  if (!t.is_leaf() || !t.requires_grad())
    fail("post accumulate grad hooks cannot be registered on non-leaf tensors, nor on tensors that need no gradient");
  const uint64_t id = next_hook++;
  make_meta(t.get()).post_accumulate_hooks.emplace_back(id, std::move(hook));
  return id;
}

}  // namespace adjoint
