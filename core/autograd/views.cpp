#include "autograd/views.h"

#include <deque>

#include "autograd/arithmetic.h"
#include "transforms/interpreter.h"
#include "transforms/tangents.h"

namespace adjoint {

void (*move_wrapper)(TensorImpl*, Tensor) = nullptr;
bool (*held_by_wrapper)(const Tensor&) = nullptr;

namespace {

ViewImpl& as_view(const TensorImpl* t) { return *static_cast<ViewImpl*>(const_cast<TensorImpl*>(t)); }

// Called where `t` is being written (or, `indirectly`, was through its base), and should not be.
[[noreturn, gnu::cold]] void refuse_view(const Tensor& t, const char* op, bool indirectly) {
  const std::string shape = text(" The view has shape ", to_string(t.sizes()),
                                 op ? text("; it is written by ", name_of_write(op), ".") : ".");
  const std::string what = indirectly ? "its base or another view of its base has been modified inplace"
                                      : "is being modified inplace";
  const auto how = [&](const char* mode) {
    return text("A view was created in ", mode, " mode and ", what,
                mode == std::string_view("inference") ? " in normal mode." : " with grad mode enabled.");
  };
  const auto ambiguous = [&](const char* block) {
    return text(
        " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code "
        "by moving both the view and the inplace either both inside the ",
        block,
        " block (if you don't want the inplace to be tracked) or both outside (if you want the inplace to be "
        "tracked).");
  };
  std::string made_by = t->grad_fn ? t->grad_fn->name() : "";
  made_by.resize(std::min(made_by.rfind("Backward"), made_by.size()));
  const char* mode = t->is(TensorImpl::kInferenceView) ? "inference"
                     : t->is(TensorImpl::kNoGradView)  ? "no_grad"
                                                       : nullptr;
  std::string head =
      t->grad_fn && mode
          ? text("Output ", t->output_nr, " of ", made_by, " is a view of a view which was created in ", mode,
                 " mode and ", what, " with grad mode enabled.")
      : t->grad_fn ? text("Output ", t->output_nr, " of ", made_by, " is a view and ", what, ".")
      : t->is(TensorImpl::kInferenceView) ? how("inference")
                                          : how("no_grad");
  if (t->is(TensorImpl::kMultiView) && !mode)
    fail(head,
         " This view is the output of a function that returns multiple views. Such functions do not allow "
         "the output views to be modified inplace. You should replace the inplace operation by an "
         "out-of-place one.",
         shape);
  if (t->is(TensorImpl::kFunctionView))
    fail(head,
         " This view was created inside a custom Function (or because an input was returned as-is) and the "
         "autograd logic to handle view+inplace would override the custom backward associated with the "
         "custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix this by "
         "cloning the output of the custom Function.",
         shape);
  fail(head, ambiguous(t->is(TensorImpl::kInferenceView) ? "inference_mode" : "no_grad"), shape);
}

/// The base as it was, with a part replaced by another result.
class CopySlices final : public Node {
 public:
  CopySlices(const Tensor& base, const Tensor& view, Edge value) : part_(base, view) {
    edges_[0] = gradient_edge(base);
    edges_[1] = std::move(value);
    info.describe(base);
  }
  std::string name() const override { return "CopySlices"; }
  std::span<Edge> edges() override { return edges_; }

  void apply(Gradients& in, Gradients& out) override {
    if (cut_part(in[0], part_, !extras(), edges_[0] ? &out[0] : nullptr, edges_[1] ? &out[1] : nullptr))
      return;
    // The gradient, laid out like the base, so that the view is the same part of it.
    const Tensor g = laid_out_like_base(in[0], part_);
    const Tensor slice = replay_view(g, part_);
    if (edges_[1]) out[1] = owned(slice);
    if (!edges_[0]) return;
    write_zeros(slice);
    out[0] = g;
  }

 private:
  ViewPart part_;
  Edge edges_[2];
};

// Hooks, a gradient and their like stay with the tensor that they were given to; what transforms gave it does
// not.
bool has_more_than_transforms(const Tensor& t) {
  const AutogradMeta* meta = meta_of(t);
  return meta && !(t->flags & TensorImpl::kCarries && only_transforms(*meta));
}

// Nodes that saved `t` may own it, and may come to be owned by its new history: a cycle, if `t` kept its
// identity. They are left with the tensor as it was, which is all that they could use, and the program gets
// another.
bool may_replace_in_program(const Tensor& t) {
  return t->wrapper && t->storage->saved() && !has_more_than_transforms(t) && !t->storage->viewed() &&
         !t->is(TensorImpl::kOwnsWrapper);
}

// Whether nodes may own a tensor that is about to get its first view: from then on it keeps its identity. A
// leaf that needs a gradient gets no other history.
bool shared_with_nodes(const Tensor& t) {
  return t->refcount.load(std::memory_order_acquire) > 1 && !t->storage->viewed() &&
         !(t->flags & (TensorImpl::kView | TensorImpl::kInference)) &&
         (t->grad_fn || !t->is(TensorImpl::kRequiresGrad)) && !t->is(TensorImpl::kWrapped);
}
void replace_in_program(const Tensor& t) {
  if (!may_replace_in_program(t) || !held_by_wrapper(t)) return;
  const Tensor fresh = alias(t);
  share_tangents(fresh, t);
  if (t->grad_fn) set_history(fresh, Ref<Node>::share(t->grad_fn), t->output_nr);
  make_meta(fresh.get()).former = t;
  move_wrapper(t.get(), fresh);  // from now on, `t` is `fresh`
}

}  // namespace

ViewPart::ViewPart(const Tensor& base, const Tensor& view)
    : base_sizes(base.sizes()),
      base_strides(base.strides()),
      sizes(view.sizes()),
      strides(view.strides()),
      base_dtype(base.dtype()),
      dtype(view.dtype()),
      bytes(view->data - base->data) {
  if (base->storage == view->storage || owner_of_bytes(base->storage) == owner_of_bytes(view->storage))
    return;
  // The base's data were replaced: the view is the part that it was.
  const char* first = first_before_data(*base.get(), view->storage);
  if (!first)
    fail("a view of shape ", view.sizes(),
         " is no part of its base any more, which was given other memory since (by .data, set_() or "
         "resize_()) and has shape ",
         base.sizes(), " now", before_data(*base.get()).empty() ? "" : "; it was " + before_data(*base.get()),
         ". Make the view again, or detach() it before the write");
  bytes = view->data - first;
}

Tensor base_of(const Tensor& t) {
  if (!t->is(TensorImpl::kView)) return {};
  ViewImpl& v = as_view(t.get());
  std::lock_guard lock(v.lock);
  return v.base ? Tensor::share(v.base) : Tensor();
}

void before_first_view(const Tensor& base) {
  if (shared_with_nodes(base)) [[unlikely]]
    replace_in_program(base);
}

[[gnu::hot]] void register_view(const Tensor& base, const Tensor& result, bool several) {
  if (result->storage != base->storage || result.get() == base.get() || result->is(TensorImpl::kEmbedded) ||
      !as_view(result.get()).can_be_view)
    return;
  before_first_view(base);
  TensorImpl* root = base.get();
  uint32_t flags = TensorImpl::kView;
  if (root->flags & (TensorImpl::kView | TensorImpl::kInference)) [[unlikely]] {
    flags |= root->flags & (TensorImpl::kSpecialView | TensorImpl::kInference);
    if (root->is(TensorImpl::kInference)) {
      // It has no history to rewrite.
      result->flags |= TensorImpl::kInference;
      return;
    }
  }
  if (!thread_state.grad) [[unlikely]]
    flags |= thread_state.inference ? TensorImpl::kInferenceView : TensorImpl::kNoGradView;
  if (several) flags |= TensorImpl::kMultiView;
  Tensor first;
  if (root->is(TensorImpl::kView)) {
    first = base_of(base);
    if (!first.defined()) flags |= TensorImpl::kFunctionView, first = base;
  }
  ViewImpl& v = as_view(result.get());
  v.base = first.defined() ? first.detach() : Tensor::share(root).detach();
  v.storage->mark(Storage::kViewed);
  v.flags |= flags;
  v.view_version.store(v.version(), std::memory_order_relaxed);
}

namespace {
// The view as its base gives it now. A view that required a gradient before its base was detached goes on
// requiring one, which nobody gets.
Tensor recorded_again(const Tensor& base, const Tensor& view) {
  if (!is_differentiable(view.dtype())) return {};
  GradMode on(true);
  const ViewPart part(base, view);
  if (base.requires_grad()) return replay_view(base, part);
  const Tensor tracked = alias(base);
  tracked->set(TensorImpl::kRequiresGrad, true);
  const Tensor again = replay_view(tracked, part);
  const Node* end = gradient_edge(tracked).node.get();
  for (Node* node = again->grad_fn; node;) {
    Edge& next = node->edges()[0];
    if (next.node.get() == end) next = {};
    node = next.node.get();
  }
  return again;
}
}  // namespace

void refresh_view(const Tensor& t) {
  const Tensor base = base_of(t);
  if (!base.defined()) return;
  const uint32_t now = t.version();
  if (t->grad_fn || base.requires_grad()) {
    if (t->flags & TensorImpl::kSpecialView) refuse_view(t, nullptr, true);
    const Tensor again = recorded_again(base, t);
    ViewImpl& v = as_view(t.get());
    Ref<Node> old;  // dies after the lock
    std::lock_guard lock(v.lock);
    if (t->view_version.load(std::memory_order_acquire) == now) return;  // somebody else was first
    old = t->grad_fn ? Ref<Node>::share(t->grad_fn) : Ref<Node>();
    if (again.defined() && again->grad_fn)
      set_history(t, Ref<Node>::share(again->grad_fn), again->output_nr);
    else
      forget_history(t);
    t->view_version.store(now, std::memory_order_release);
  }  // else it stays out of date: the base may require a gradient later
}

bool overlaps_itself(const Tensor& t) {
  if (t.is_contiguous()) return false;
  const auto sizes = t.sizes(), strides = t.strides();
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] > 1 && strides[i] == 0) return true;
  return false;
}

std::string name_of_write(const char* op) {
  const std::string_view name(op);
  // In the table the writing form of an operator starts with an underscore; indexing has Python's name.
  if (name == "_set_basic") return "__setitem__()";
  if (name.find(' ') != name.npos) return op;
  return std::string(name.starts_with('_') ? name.substr(1) : name) + "_()";
}

void refuse_overlap(const Tensor& t, const char* op) {
  if (!t->is(TensorImpl::kContiguous) && overlaps_itself(t))
    fail("unsupported operation: ", name_of_write(op),
         ": more than one element of the written-to tensor refers to a single memory location. Its shape is ",
         t.sizes(), " with strides ", t.strides(),
         ". Please clone() the tensor before performing the operation.");
}

namespace {
// Refuse what a recorded write would make of the history of a leaf, or of a view that cannot follow.
void check_history(const Tensor& t, const char* op) {
  const bool item = std::string_view(op) == "_set_basic";  // a part of it is written, as through a view
  const auto refuse_leaf = [&](const char* which) {
    fail(which, " that requires grad is being used in an in-place operation: ", name_of_write(op),
         " on shape ", t.sizes(), ", ", name_of(t.dtype()),
         ". Write under no_grad() if the write is not to be differentiated, or to a clone() of the leaf if "
         "it is");
  };
  if (t->is(TensorImpl::kView)) {
    if (t->flags & TensorImpl::kSpecialView) refuse_view(t, op, false);
    const Tensor base = base_of(t);
    if (base.defined() && !base->grad_fn && (base->is(TensorImpl::kRequiresGrad) || t->grad_fn))
      refuse_leaf("a view of a leaf Variable");
    history(t);
  }
  if (t->is(TensorImpl::kRequiresGrad) && !t->grad_fn)
    refuse_leaf(item || t->is(TensorImpl::kView) ? "a view of a leaf Variable" : "a leaf Variable");
}
}  // namespace

void check_writable(const Tensor& t, const char* op, bool recorded, bool one_value) {
  if (!one_value) refuse_overlap(t, op);
  if (t->storage->readonly)
    fail<ValueError>(name_of_write(op),
                     ": the tensor's memory is read-only: it belongs to an array that may not be written. "
                     "clone() it first");
  if (t->is(TensorImpl::kInference) && !thread_state.inference) [[unlikely]]
    fail(
        "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get "
        "a normal tensor before doing inplace update. It was ",
        name_of_write(op), " on shape ", t.sizes(), ".");
  if (thread_state.grad && (recorded || t.requires_grad())) {
    check_history(t, op);
    // What is overwritten would keep its history, and its gradient be wrong without a word.
    if (!recorded && !thread_state.inference)
      fail<NotImplemented>(
          "the derivative of '", op,
          "', which writes a tensor that requires grad, is not implemented: write under no_grad()");
  }
  if (thread_state.watched) [[unlikely]]
    tell_write(t);
}

namespace {
// The lines of the latest writes, for the error that may come.
struct WrittenAt {
  const Storage* storage;
  uint32_t version;
  std::string line;
};
std::mutex written_mutex;
std::deque<WrittenAt> written;
constexpr size_t kMostWritten = 10000;
}  // namespace

void note_write(const Tensor& t) {
  if (!where_now) return;
  std::string line = where_now();
  std::lock_guard lock(written_mutex);
  written.push_back({t->storage, t.version(), std::move(line)});
  if (written.size() > kMostWritten) written.pop_front();
}

std::string line_of_write(const Tensor& t) {
  std::lock_guard lock(written_mutex);
  for (auto at = written.rbegin(); at != written.rend(); ++at)
    if (at->storage == t->storage && at->version == t.version()) return at->line;
  return "";
}

void write_history(Tensor& t, Ref<Node> node, uint32_t output_nr) {
  if (t->is(TensorImpl::kView)) {
    if (const Tensor base = base_of(t); base.defined()) {
      set_history(base, Ref<Node>::steal(new CopySlices(base, t, Edge{std::move(node), output_nr})), 0);
      t->view_version.store(t.version() - 1, std::memory_order_release);
      if (t->is(TensorImpl::kRetainsGrad)) refresh_view(t);
      return;
    }
  } else if (may_replace_in_program(t) && t->refcount.load(std::memory_order_acquire) > 2) {
    // (Two are the program's and the caller's: nodes may have died since they saved it.)
    const Tensor fresh = alias(t);
    fresh->flags |= t->flags & TensorImpl::kRequiresGrad;
    set_history(fresh, std::move(node), output_nr);
    move_wrapper(t.get(), fresh);
    t = fresh;
    return;
  }
  set_history(t, std::move(node), output_nr);
}

uint32_t version_of_both(const Tensor& t) {
  const Storage* other = counter_of(*t->storage);
  return other ? std::max(t.version(), other->version.load(std::memory_order_relaxed)) : t.version();
}
void count_write_of_both(Storage& storage) {
  Storage& other = *counter_of(storage);
  const uint32_t now = std::max(storage.version.load(std::memory_order_relaxed),
                                other.version.load(std::memory_order_relaxed));
  storage.version.store(now, std::memory_order_relaxed);
  other.version.store(now + 1, std::memory_order_relaxed);
}

void forget_in_place(const Tensor& t) {
  // The program's hooks stay with its tensor.
  auto hooks = hooks_of(t);
  Tensor leaf = t;
  if (may_replace_in_program(t)) {
    const bool had_history = t->grad_fn;
    move_wrapper(t.get(), leaf = alias(t));
    // Whoever saved it as an input is left with what no rule can use: memory at a version that it never had.
    if (had_history) {
      Ref<Storage> gone = recounted_storage(Ref<Storage>::share(t->storage), t.version() + 1, {});
      gone->checked = false;
      gone->detached = true;
      t->replace_storage(std::move(gone), t->data, t.dtype(), t.sizes(), t.strides().data());
    }
  } else {
    forget_history(t);
  }
  if (hooks.empty()) return;
  AutogradMeta& m = make_meta(leaf.get());
  std::lock_guard lock(m.lock);
  m.hooks = std::move(hooks);
  m.hooked.store(true, std::memory_order_release);
}

Edge edge_before_write(const Tensor& t) {
  Edge e = gradient_edge(t);
  if (!t->is(TensorImpl::kView) || !t->grad_fn || !t->grad_fn->extras()) return e;
  const Tensor base = base_of(t);
  if (!base.defined()) return e;
  GradMode on(true);
  return gradient_edge(replay_view(base, ViewPart(base, t)));
}

void become_view(Tensor& t, const Tensor& view, const char* op) {
  check_writable(t, op, view.requires_grad() && thread_state.grad, true);
  count_write(t, op);
  const bool has_base = base_of(t).defined();
  if (!has_base && view->grad_fn) write_history(t, Ref<Node>::share(view->grad_fn), view->output_nr);
  const Dims sizes(view.sizes()), strides(view.strides());
  t->set_geometry(sizes.span(), strides.data());
  t->data = view->data;
  // A view is another part of its base from now on, and recorded as that when it is asked.
  if (has_base) t->view_version.store(t.version() - 1, std::memory_order_release);
}

}  // namespace adjoint
