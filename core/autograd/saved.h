// A tensor kept for the backward pass, with the version it had.
//
// A node's own result is kept as an alias without history, since a pointer back to the node would be a cycle; it
// gets its history again when it is unpacked for a recorded backward.
#pragma once

#include "autograd/node.h"

namespace adjoint {

class SavedTensor {
 public:
  SavedTensor() = default;
  void save(const Tensor& t, bool is_result) {
    if (t->flags & (TensorImpl::kInference | TensorImpl::kView)) prepare(t);
    version_ = t.version();
    result_ = is_result;
    tensor_ = is_result ? alias(t) : t;
    saved_ = true;
  }
  bool saved() const { return saved_; }
  bool is_result() const { return result_; }
  void release() { tensor_.reset(); }

  /// The tensor as it was kept, without history: for rules that are not recorded.
  TensorImpl* lend(Node* owner) const {
    if (!tensor_.defined()) owner->refuse_released();
    if (tensor_.version() != version_) refuse_written(owner);
    return tensor_.get();
  }

  /// The tensor; refused when it was freed or written since. `input_nr` is which result of `owner` it is.
  Tensor unpack(Node* owner, uint32_t input_nr = 0) const {
    if (!saved_) return {};
    if (!tensor_.defined()) owner->refuse_released();
    if (tensor_.version() != version_) refuse_written(owner);
    return result_ && thread_state.grad ? with_history(owner, input_nr) : tensor_;
  }

 private:
  static void prepare(const Tensor& t);
  [[noreturn]] void refuse_written(Node* owner) const;
  Tensor with_history(Node* owner, uint32_t input_nr) const;

  Tensor tensor_;
  uint32_t version_ = 0;
  bool result_ = false;
  bool saved_ = false;

 public:
  /// For the owner: which of its values this is.
  uint8_t which = 0;
};

}  // namespace adjoint
