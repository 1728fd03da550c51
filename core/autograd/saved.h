// A tensor kept for the backward pass, with the version it had.
//
// A node's own result is kept as an alias without history, since a pointer back to the node would be a cycle;
// it gets its history again when it is unpacked for a recorded backward. A view, and a tensor that has views,
// is kept as an alias with the history that it has now: a write may give it another, which may own this node.
// With hooks set for the thread, what is kept is what they make of the tensor, beside its place in the graph;
// that lies in the node's extras.
#pragma once

#include "autograd/node.h"

namespace adjoint {

/// What a hook made of a tensor.
class Packed {
 public:
  virtual ~Packed() = default;
  virtual Tensor unpack() = 0;
  /// For the language of the hook: what it made, and the hook that makes the tensor again.
  virtual void* value() const { return nullptr; }
  virtual void* how() const { return nullptr; }
};

/// Packs tensors as they are saved. One per entry of the stack of hooks.
class SavedHooks {
 public:
  virtual ~SavedHooks() = default;
  virtual std::unique_ptr<Packed> pack(const Tensor& t) = 0;
};

/// A packed tensor, and the history that it gets when unpacked.
struct PackedTensor {
  std::unique_ptr<Packed> packed;
  Edge edge;
};

/// Whether memory that others own (NumPy's, for one) is compared when it is used again: nobody tells of
/// writes to it.
extern std::atomic<bool> checking_external;

class SavedTensor {
 public:
  SavedTensor() = default;
  /// Keep `t` for `owner`. A result of the node itself is marked as such.
  void save(const Tensor& t, bool is_result, Node* owner) {
    if (t->is(TensorImpl::kInference)) [[unlikely]]
      refuse_inference(t);
    version_ = stamp(t, owner);
    result_ = is_result;
    saved_ = true;
    if (thread_state.saved_hooks && !t.is_wrapped()) [[unlikely]]
      return pack(t, owner, *thread_state.saved_hooks);
    if (is_result)
      tensor_ = alias(t);  // its tangents come later: see `share_tangents_of`
    else if (t->flags & (TensorImpl::kView | TensorImpl::kRetainsGrad) || t->storage->viewed())
      tensor_ = save_aliased(t);
    else {
      t->storage->mark(Storage::kSaved);
      tensor_ = t;
    }
  }
  bool saved() const { return saved_; }
  bool is_result() const { return result_; }
  bool is_packed() const { return packed_; }
  /// What hooks made of it; null where there were none, or it was freed.
  std::shared_ptr<PackedTensor> packed(Node* owner) const;
  void release() { tensor_.reset(); }
  int64_t bytes() const { return tensor_.defined() ? tensor_.numel() * tensor_.itemsize() : 0; }
  /// Let the node's own result be unpacked without history, as for a rule that is not recorded.
  void forget_owner() { result_ = false; }
  /// What was kept, whether it was written since or not; undefined where it was freed, or hooks have it.
  const Tensor& kept() const { return tensor_; }
  /// Whether that is there, and was not written since.
  bool is_as_kept(Node* owner) const { return tensor_.defined() && stamp(tensor_, owner) == version_; }
  /// Keep the same elements as they lie in the memory of another's tensor, so many bytes from where that
  /// begins, at the version that it had there.
  void keep_in(const SavedTensor& other, int64_t from);
  /// The node's own result got its tangents.
  void share_tangents_of(const Tensor& result);
  /// Let hooks have what is saved.
  void pack_now(Node* owner, SavedHooks& hooks);

  /// The tensor as it was kept, without history: for rules that are not recorded. Not for packed ones.
  TensorImpl* lend(Node* owner) const {
    if (!tensor_.defined()) owner->refuse_released();
    if (stamp(tensor_, owner) != version_) refuse_written(owner);
    return tensor_.get();
  }

  /// The tensor; refused when it was freed or written since. `input_nr` is which result of `owner` it is.
  /// A result has its history where that is asked for.
  Tensor unpack(Node* owner, uint32_t input_nr = 0, bool history = thread_state.grad) const {
    if (!saved_) return {};
    if (packed_) [[unlikely]]
      return unpack_packed(owner, input_nr);
    if (!tensor_.defined()) owner->refuse_released();
    if (stamp(tensor_, owner) != version_) refuse_written(owner);
    return result_ && history ? with_history(owner, input_nr) : tensor_;
  }

 private:
  /// What changes with the tensor: its version; for memory that others own, a checksum too; and where its
  /// data were replaced, its shape and type, but for programs' own rules (Functions), which see what they
  /// get.
  static uint32_t stamp(const Tensor& t, Node* owner) {
    return t->storage->kind == Storage::Kind::External ? external_stamp(t, owner) : t.version();
  }
  static uint32_t external_stamp(const Tensor& t, Node* owner);
  [[noreturn]] static void refuse_inference(const Tensor& t);
  /// The same values and history as another tensor, which no write will change; a leaf is itself.
  static Tensor save_aliased(const Tensor& t);
  void pack(const Tensor& t, Node* owner, SavedHooks& hooks);
  [[noreturn]] void refuse_written(Node* owner) const;
  Tensor with_history(Node* owner, uint32_t input_nr) const;
  Tensor unpack_packed(Node* owner, uint32_t input_nr) const;

  Tensor tensor_;
  uint32_t version_ = 0;
  bool result_ = false;
  bool saved_ = false;
  bool packed_ = false;

 public:
  /// For the owner: which of its values this is.
  uint8_t which = 0;
};

}  // namespace adjoint
