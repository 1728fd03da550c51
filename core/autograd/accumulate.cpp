// Leaves: where gradients end. The accumulator of a leaf adds what arrives to its `.grad`.
#include <algorithm>
#include <cctype>

#include "autograd/arithmetic.h"
#include "autograd/engine.h"
#include "autograd/many.h"
#include "autograd/views.h"
#include "tensor/device.h"
#include "tensor/sparse.h"
#include "transforms/batching.h"
#include "transforms/interpreter.h"
#include "transforms/tangents.h"

namespace adjoint {

namespace {

std::atomic<uint64_t> next_hook{1};

/// The right to compute the next gradient, once no other thread has it. In a call inside of another of this
/// thread, which has it, nothing changes.
class Update {
 public:
  explicit Update(AutogradMeta& meta) : meta_(meta) {
    for (;;) {
      const void* other;
      {
        std::lock_guard lock(meta.lock);
        other = meta.updating.load(std::memory_order_acquire);
        nested_ = other == &thread_state || other == waited_for(&thread_state);
        if (!other) meta.updating.store(&thread_state, std::memory_order_relaxed);
        if (!other || nested_) {
          before = meta.grad;
          return;
        }
      }
      const void* const odd = waited_for(other);
      if (other != odd && !meta.updating.compare_exchange_strong(other, odd)) continue;
      const auto wait = [&] { meta.updating.wait(odd, std::memory_order_acquire); };
      while_others_run ? while_others_run(wait) : wait();
    }
  }
  ~Update() {
    if (nested_) return;
    const void* const last = meta_.updating.exchange(nullptr, std::memory_order_release);
    if (last != &thread_state) [[unlikely]]
      meta_.updating.notify_all();
  }
  Update(const Update&) = delete;

  Tensor before;

 private:
  static const void* waited_for(const void* thread) {
    return reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(thread) | 1);
  }
  AutogradMeta& meta_;
  bool nested_ = false;
};

class AccumulateGrad final : public LeafNode {
 public:
  using LeafNode::LeafNode;
  std::string name() const override { return "AccumulateGrad"; }
  std::vector<SavedValue> saved() override { return {{.name = "variable", .tensor = Tensor::share(leaf)}}; }

  // Hooks are told that nothing was accumulated.
  bool wants_undefined() const override {
    return leaf->meta.load(std::memory_order_acquire)->hooked.load(std::memory_order_acquire);
  }

  void apply(Gradients& in, Gradients&) override {
    Tensor g = std::move(in[0]);
    // The leaf may have been switched off since it was recorded.
    const Tensor variable = Tensor::share(leaf);
    if (!variable.requires_grad()) return;
    AutogradMeta& m = *meta_of(variable);
    if (g.defined()) accumulate_gradient(variable, std::move(g));
    if (!m.hooked.load(std::memory_order_acquire)) return;
    for (auto& hook : runtime::copied(m.lock, m.post_accumulate_hooks)) hook.second(variable);
  }
};

/// Take out the hooks that `gone` names. They die after the lock: they may own anything, and want other locks
/// for it.
template <class Lock, class Hooks, class Gone>
void remove(Lock& mutex, Hooks& hooks, const Gone& gone) {
  Hooks removed;
  std::lock_guard lock(mutex);
  for (size_t i = 0; i < hooks.size();) {
    if (gone(hooks[i])) {
      removed.push_back(std::move(hooks[i]));
      hooks.erase(hooks.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

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

namespace {

/// f(node, extras, number), locked: with whom hooks of a tensor that has a history are kept, and it as one
/// that retains its gradient.
template <class F>
auto at_its_node(const TensorImpl* t, F f) {
  Node* node = t->grad_fn;
  uint32_t number = t->output_nr;
  for (;;) {
    NodeExtras& extras = node->make_extras();
    std::lock_guard lock(extras.mutex);
    if (!is_replaced(*node)) return f(*node, extras, number);
    const Edge& e = many_in_one.load(std::memory_order_relaxed)->replacement(*node, number);
    node = e.node.get();
    number = e.input_nr;
  }
}

/// A node that was replaced may have them besides.
template <class F>
void at_its_nodes(const TensorImpl* t, F f) {
  const Node* node = t->grad_fn;
  uint32_t number = t->output_nr;
  for (;;) {
    if (NodeExtras* const extras = node->extras()) {
      std::lock_guard lock(extras->mutex);
      f(*extras);
    }
    if (!is_replaced(*node)) return;
    const Edge& e = many_in_one.load(std::memory_order_relaxed)->replacement(*node, number);
    node = e.node.get();
    number = e.input_nr;
  }
}

/// Out of those that retain their gradient.
void take_out(const TensorImpl* t) {
  at_its_nodes(t, [t](NodeExtras& extras) {
    std::erase_if(extras.retainers, [t](const auto& r) { return r.second == t; });
  });
}

}  // namespace

void release_meta(TensorImpl* t) noexcept {
  if (t->is(TensorImpl::kDual)) drop_tangents(t);
  // Out of the list of retainers first: until then a pass may write the gradient. (A tensor in one has a
  // meta.)
  if (t->grad_fn && t->is(TensorImpl::kRetainsGrad)) take_out(t);
  runtime::release_count(t->meta.load(std::memory_order_acquire));
}
void release_node(Node* node) noexcept { release_count(node); }

void forget_history(const Tensor& t) {
  if (t->is(TensorImpl::kRetainsGrad)) move_retainer(t, nullptr, 0);
  Node* old = std::exchange(t->grad_fn, nullptr);
  t->output_nr = 0;
  t->set(TensorImpl::kRequiresGrad, false);
  t->set(TensorImpl::kRetainsGrad, false);
  if (old) release_count(old);
}

namespace {
/// What gradients look like that arrive at a leaf.
[[gnu::noinline]] void describe_end(LeafNode& end, const Tensor& t, const AutogradMeta& m) {
  const GradientType type = m.gradient_type.load(std::memory_order_acquire);
  const bool other = type != kTypeOfLeaf && type != kAnyType;
  // Written only where it changes: other threads may be reading it.
  if (other && end.info.dtype() == DType(type) && same(end.info.sizes(), t.sizes())) return;
  end.info.describe(t);
  end.info.any_type = type == kAnyType;
  if (other) end.info.set_dtype(DType(type));
}
}  // namespace

[[gnu::hot]] Edge gradient_edge(const Tensor& t) {
  if (is_stale(t)) [[unlikely]]
    refresh_view(t);
  if (t->grad_fn) return {Ref<Node>::share(t->grad_fn), t->output_nr};
  // A view made without a history has none to follow, and is no leaf of its own, whatever its base requires.
  if (!t->is(TensorImpl::kRequiresGrad)) return {};
  AutogradMeta& m = make_meta(t.get());
  LeafNode* end = m.accumulator.load(std::memory_order_acquire);
  if (!end) [[unlikely]] {
    auto fresh = std::make_unique<AccumulateGrad>(t.get());
    describe_end(*fresh, t, m);
    if (m.accumulator.compare_exchange_strong(end, fresh.get(), std::memory_order_acq_rel))
      end = fresh.release();
  }
  if (!end->info.fits(t)) [[unlikely]]
    describe_end(*end, t, m);
  return {Ref<Node>::share(end), 0};
}

void renew_accumulator(const Tensor& t) {
  AutogradMeta* m = meta_of(t);
  LeafNode* old = m ? m->accumulator.load(std::memory_order_acquire) : nullptr;
  if (!old) return;
  auto fresh = std::make_unique<AccumulateGrad>(t.get());
  describe_end(*fresh, t, *m);
  if (!m->accumulator.compare_exchange_strong(old, fresh.get(), std::memory_order_acq_rel)) return;
  fresh.release()->former.reset(old);
}

void run_leaf_hooks(LeafNode& node, Tensor& g) {
  AutogradMeta& m = *node.leaf->meta.load(std::memory_order_acquire);
  if (!m.hooked.load(std::memory_order_acquire)) return;
  // Copies run: a hook may add and remove hooks, itself among them, and so may other threads.
  for (auto& hook : runtime::copied(m.lock, m.hooks))
    if (Tensor changed = hook.second(g); changed.defined())
      g = entering_gradient(std::move(changed), node.info, node, 0);
}

namespace {
// "double" and "Double", as torch writes the types of gradients.
std::string type_words(DType type, bool capital) {
  std::string name = type == DType::Float32   ? "float"
                     : type == DType::Float64 ? "double"
                     : type == DType::Float16 ? "half"
                                              : name_of(type);
  if (capital) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name;
}
}  // namespace

/// Nullopt: any.
static std::optional<DType> type_of_gradient(const Tensor& t) {
  const GradientType type = gradient_type_of(t);
  if (type == kAnyType) return {};
  return type == kTypeOfLeaf ? t.dtype() : DType(type);
}

std::optional<DType> gradient_type(const Tensor& t) {
  if (!is_leaf(t)) fail("grad_dtype can only be accessed on leaf tensors. This one has shape ", t.sizes());
  return type_of_gradient(t);
}

void set_gradient_type(const Tensor& t, std::optional<DType> type) {
  if (!is_leaf(t)) fail("grad_dtype can only be set on leaf tensors. This one has shape ", t.sizes());
  if (const Tensor g = gradient(t); type && g.defined() && g.dtype() != *type)
    fail("Cannot set grad_dtype to '", type_words(*type, true),
         "' because there is already a gradient with dtype '", type_words(g.dtype(), false),
         "'. Clear the gradient first (.grad = None), or give the dtype that it has");
  AutogradMeta& m = make_meta(t.get());
  m.gradient_type.store(type ? GradientType(*type) : kAnyType, std::memory_order_release);
  if (LeafNode* end = m.accumulator.load(std::memory_order_acquire)) describe_end(*end, t, m);
}

Tensor gradient(const Tensor& t) {
  AutogradMeta* m = meta_of(t);
  if (!m) return {};
  std::lock_guard lock(m->lock);
  return m->grad;
}

void (*while_others_run)(const std::function<void()>&) = nullptr;

template <class Next>
static void update(AutogradMeta& m, const Next& next) {
  for (;;) {
    // What is replaced dies after the lock, and after the update: it may be the last owner of anything.
    Update now(m);
    Tensor after = next(now.before);
    if (after.get() == now.before.get()) return;
    std::lock_guard lock(m.lock);
    if (m.grad.get() != now.before.get()) continue;
    m.grad.swap(after);
    return;
  }
}

void update_gradient(AutogradMeta& m, const std::function<Tensor(const Tensor&)>& next) { update(m, next); }

/// Where a gradient goes that is the first of its leaf; undefined: nowhere in particular, or it carries more
/// than its elements.
static Tensor home_of(AutogradMeta& m, const Tensor& g) {
  if (!m.hooked.load(std::memory_order_acquire) || thread_state.grad || g->flags & TensorImpl::kTransformed ||
      is_sparse(g))
    return {};
  std::lock_guard lock(m.lock);
  return m.home.defined() && same(m.home.sizes(), g.sizes()) && m.home.dtype() == g.dtype() ? m.home
                                                                                            : Tensor();
}

[[gnu::hot]] void accumulate_gradient(const Tensor& t, Tensor g) {
  if ((g->flags ^ t->flags) & TensorImpl::kNotAsTheyLie) [[unlikely]] {
    if (device_of(g) != device_of(t)) g = moved_to(std::move(g), device_of(t));
    refuse_gradient_per_sample(t, g);
  }
  AutogradMeta& m = make_meta(t.get());
  update(m, [&](const Tensor& before) -> Tensor {
    if (!before.defined()) {
      if (Tensor home = home_of(m, g); home.defined()) [[unlikely]] {
        write_gradient(home, g);
        return home;
      }
      return g = own_gradient(g, t);
    }
    // A dense gradient takes no place among indices.
    if (thread_state.grad || ((before->flags ^ g->flags) & TensorImpl::kElsewhere && is_sparse(before)))
      return add_gradients(before, g);
    add_in_place(before, g);
    return before;
  });
  if (thread_state.watched) [[unlikely]]
    tell_gradient(t, "backward", gradient(t));
}

void set_gradient_home(const Tensor& t, Tensor home) {
  if (home.defined() && (!same(home.sizes(), t.sizes()) || home.dtype() != t.dtype() ||
                         device_of(home) != device_of(t) || home.requires_grad()))
    fail("the place of a gradient is a tensor like its leaf, of shape ", t.sizes(), " and ",
         name_of(t.dtype()), ", but it has shape ", home.sizes(), " and ", name_of(home.dtype()));
  AutogradMeta& m = make_meta(t.get());
  std::lock_guard lock(m.lock);  // what was there dies after it
  m.home.swap(home);
}

void set_gradient(const Tensor& t, Tensor grad) {
  if (grad.defined()) {
    if (!same(grad.sizes(), t.sizes()))
      fail("attempting to assign a gradient of size '", grad.sizes(), "' to a tensor of size '", t.sizes(),
           "'. Please ensure that the gradient and the tensor are the same size (assigned grad has data of a "
           "different size)");
    if (device_of(grad) != device_of(t))
      fail("attempting to assign a gradient with device type '", name_of(device_of(grad)),
           "' to a tensor with device type '", name_of(device_of(t)),
           "'. Please ensure that the gradient and the tensor are on the same device");
    if (const auto type = type_of_gradient(t); type && grad.dtype() != *type)
      fail(
          "attempting to assign a gradient with dtype '", type_words(grad.dtype(), false),
          "' to a tensor with grad_dtype '", type_words(*type, true),
          "'. The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype): the gradient "
          "is ",
          name_of(grad.dtype()), " and the tensor ", name_of(t.dtype()),
          "; convert it with .to(), or set grad_dtype to its dtype, or to None to allow any");
    if (grad.get() == t.get()) fail("can't assign Variable as its own grad");
  } else if (!meta_of(t)) {
    return;
  }
  tell_gradient(t, "grad", grad);
  AutogradMeta& m = make_meta(t.get());
  Tensor old;
  std::lock_guard lock(m.lock);
  old = std::exchange(m.grad, std::move(grad));
}

void set_requires_grad(const Tensor& t, bool on) {
  if (!is_leaf(t)) {
    if (!on)
      fail(
          "you can only change requires_grad flags of leaf variables. If you want to use a computed variable "
          "in a subgraph that doesn't require differentiation use var_no_grad = var.detach(). This one has "
          "shape ",
          t.sizes(), " and was made by the operation that ", t->grad_fn->name(), " differentiates");
    return;
  }
  if (on && !is_differentiable(t.dtype()))
    fail("only Tensors of floating point and complex dtype can require gradients, but this one is ",
         name_of(t.dtype()), " of shape ", t.sizes(),
         " (only Tensors of floating point dtype can require gradients, complex ones included); convert it "
         "first, for example with .to(float32)");
  if (on && t->is(TensorImpl::kInference) && !thread_state.inference)
    fail("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed. Its shape is ",
         t.sizes(), "; clone() it first");
  t->set(TensorImpl::kRequiresGrad, on);
}

void retain_grad(const Tensor& t) {
  if (!t.requires_grad()) fail("can't retain_grad on Tensor that has requires_grad=False");
  if (is_leaf(t) || t->is(TensorImpl::kRetainsGrad)) return;
  make_meta(t.get());
  at_its_node(t.get(), [&](Node&, NodeExtras& extras, uint32_t number) {
    extras.retainers.emplace_back(number, t.get());
  });
  t->set(TensorImpl::kRetainsGrad, true);
}

void move_retainer(const Tensor& t, Node* node, uint32_t output_nr) {
  take_out(t.get());
  if (!node) return;
  NodeExtras& extras = node->make_extras();
  std::lock_guard lock(extras.mutex);
  extras.retainers.emplace_back(output_nr, t.get());
}

Tensor detach(const Tensor& t) {
  Tensor d = t->is(TensorImpl::kBatched) ? detached_batch(t) : alias(t);
  d->flags |= t->flags & TensorImpl::kInference;
  return d;
}

uint64_t register_hook(const Tensor& t, GradientHook hook) {
  if (!t.requires_grad()) fail("cannot register a hook on a tensor that doesn't require gradient");
  const uint64_t id = next_hook++;
  if (is_leaf(t)) {
    AutogradMeta& m = make_meta(t.get());
    std::lock_guard lock(m.lock);
    m.hooks.emplace_back(id, std::move(hook));
    m.hooked.store(true, std::memory_order_release);
  } else {
    at_its_node(t.get(), [&](const Node& node, NodeExtras& extras, uint32_t number) {
      auto& hooks = extras.tensor_hooks;
      // Where one node stands for many, hooks of what was made last come first, as they do with nodes of
      // their own.
      const auto at = stands_for_many(node)
                          ? std::ranges::find_if(hooks, [&](const auto& h) { return h.input_nr < number; })
                          : hooks.end();
      hooks.insert(at, {id, number, std::move(hook)});
    });
  }
  return id;
}

void remove_hook(const Tensor& t, uint64_t id) {
  if (is_leaf(t)) {
    AutogradMeta* m = meta_of(t);
    if (!m) return;
    remove(m->lock, m->hooks, [&](auto& h) { return h.first == id; });
    remove(m->lock, m->post_accumulate_hooks, [&](auto& h) { return h.first == id; });
  } else {
    decltype(NodeExtras::tensor_hooks) gone;  // they die after the lock
    at_its_nodes(t.get(), [&](NodeExtras& extras) {
      for (auto& h : extras.tensor_hooks)
        if (h.id == id) gone.push_back(std::move(h));
      std::erase_if(extras.tensor_hooks, [&](const auto& h) { return h.id == id; });
    });
  }
}

std::vector<std::pair<uint64_t, GradientHook>> hooks_of(const Tensor& t) {
  std::vector<std::pair<uint64_t, GradientHook>> found;
  if (is_leaf(t)) {
    if (AutogradMeta* m = meta_of(t)) found = runtime::copied(m->lock, m->hooks);
  } else if (t->grad_fn->extras() || is_replaced(*t->grad_fn)) {
    at_its_node(t.get(), [&](const Node&, const NodeExtras& extras, uint32_t number) {
      for (const auto& h : extras.tensor_hooks)
        if (h.input_nr == number) found.emplace_back(h.id, h.hook);
    });
  }
  return found;
}

uint64_t register_post_accumulate_hook(const Tensor& t, std::function<void(const Tensor&)> hook) {
  if (!t.requires_grad()) fail("cannot register a hook on a tensor that doesn't require gradient");
  if (!is_leaf(t))
    fail(
        "post accumulate grad hooks cannot be registered on non-leaf tensors: use register_hook() or "
        "retain_grad()");
  const uint64_t id = next_hook++;
  AutogradMeta& m = make_meta(t.get());
  std::lock_guard lock(m.lock);
  m.post_accumulate_hooks.emplace_back(id, std::move(hook));
  m.hooked.store(true, std::memory_order_release);
  return id;
}

}  // namespace adjoint
