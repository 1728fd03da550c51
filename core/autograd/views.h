// Views and what a write in place does to history.
//
// A view knows its base, the first tensor of a chain of views; the base does not know its views. A write
// through a view gives the base a new history (`CopySlices`): what the base was before, with a part replaced
// by what was written. Every view remembers up to which version of the storage its own history is right
// (`view_version`), and when asked for it later (`history`), is recorded again as a view of the base as that
// now is. A write to the base itself is the same without the first step. Start reading at `write_history`.
//
// See Note: views and writes.
#pragma once

#include "autograd/meta.h"
#include "runtime/interrupt.h"

namespace adjoint {

/// A tensor that nodes own is left to them, and the program gets another, which keeps its identity from its
/// first view on.
void before_first_view(const Tensor& base);
/// Mark the results of a view operation that share its input's storage as views. `several`: the operation
/// returns a list.
void register_view(const Tensor& base, const Tensor& result, bool several);

/// What a view is a view of; undefined for other tensors.
Tensor base_of(const Tensor& t);

/// Record a view again whose base was written since.
void refresh_view(const Tensor& t);
inline bool is_stale(const Tensor& t) {
  return t->is(TensorImpl::kView) && t->view_version.load(std::memory_order_acquire) != t.version();
}
/// The node that made this tensor; null for a leaf. Views are brought up to date.
inline Node* history(const Tensor& t) {
  if (is_stale(t)) [[unlikely]]
    refresh_view(t);
  return t->grad_fn;
}
inline bool is_leaf(const Tensor& t) { return history(t) == nullptr; }

/// Refuses a write to `t` that differentiation cannot follow. Called before anything is changed. `recorded`
/// says that the write itself will be recorded, `one_value` that elements at one address would get the same
/// value.
void check_writable(const Tensor& t, const char* op, bool recorded, bool one_value = false);

/// What users call an operator that writes: copy_() for _copy, __setitem__() for _set_basic.
std::string name_of_write(const char* op);

/// Refuses a write to a tensor with two elements at one address.
void refuse_overlap(const Tensor& t, const char* op);

/// Whether any two elements of the tensor lie at one address, as after expand().
bool overlaps_itself(const Tensor& t);

/// Remember where the program is writing.
void note_write(const Tensor& t);
/// Where the last write came from; empty where that was not noted.
std::string line_of_write(const Tensor& t);

/// Before a write to memory that counts writes with another (see `recounted_storage`).
void count_write_of_both(Storage& storage);
/// The version, where it is counted with another as well.
uint32_t version_of_both(const Tensor& t);

/// After a write by an operator: the version goes up. The history of the tensor stays right until it is given
/// a new one; a view without one gets that of its base, if that has one by now.
inline void count_write(const Tensor& t, const char* op) {
  Storage& storage = *t->storage;
  if (storage.kind != Storage::Kind::External)
    storage.writer = op;
  else if (counter_of(storage)) [[unlikely]]
    count_write_of_both(storage);
  // A view that may not be written has no history that could follow.
  if (t->grad_fn && t->is(TensorImpl::kView) && !(t->flags & TensorImpl::kSpecialView) && !is_stale(t)) {
    storage.bump();
    t->view_version.store(t.version(), std::memory_order_release);
  } else if (!t->is(TensorImpl::kInference)) {
    storage.bump();
  }
  if (recording_lines.load(std::memory_order_relaxed)) [[unlikely]]
    note_write(t);
}

/// Write to `t` by f(), as `op`. Where the user ends it half way, `t` has been written too: what was saved of
/// it is out of date.
template <class F>
auto write(const Tensor& t, const char* op, F&& f) {
  try {
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      count_write(t, op);
    } else {
      auto result = f();
      count_write(t, op);
      return result;
    }
  } catch (const runtime::Interrupted&) {
    count_write(t, op);
    throw;
  }
}

/// What was written to `t` is result number `output_nr` of `node`. Nodes that saved `t` keep the old
/// identity: it is then another tensor.
void write_history(Tensor& t, Ref<Node> node, uint32_t output_nr);

/// Make `t` a leaf that needs no gradient. Nodes that saved it as an input refuse to use it.
void forget_in_place(const Tensor& t);

/// Where the gradient of what a write overwrites goes. Hooks of a view stay with the history that it had,
/// which is no part of the new one.
Edge edge_before_write(const Tensor& t);

/// Let `t` have the shape and the place in memory of a view of it, and that view's history: `op` in place.
void become_view(Tensor& t, const Tensor& view, const char* op);

/// Where `t` becomes the object of another language that `from` was; set by the bindings.
extern void (*move_wrapper)(TensorImpl* from, Tensor to);
/// Whether this very reference is the one that the object holds. Set by the bindings.
extern bool (*held_by_wrapper)(const Tensor& reference);

}  // namespace adjoint
