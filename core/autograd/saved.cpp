#include "autograd/saved.h"

#include <algorithm>

#include "autograd/arithmetic.h"
#include "autograd/views.h"
#include "dispatch/batched_call.h"
#include "kernels/launch.h"
#include "kernels/values.h"
#include "transforms/tangents.h"

namespace adjoint {

void SavedTensor::refuse_inference(const Tensor& t) {
  fail(
      "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode "
      "in computation tracked by autograd. To work around this, you can make a clone to get a normal tensor "
      "and use it in autograd, or use no_grad() instead of inference_mode(). The tensor is ",
      name_of(t.dtype()), " of shape ", t.sizes(), ".");
}

void SavedTensor::share_tangents_of(const Tensor& result) {
  if (tensor_.defined()) share_tangents(tensor_, result);
}

Tensor SavedTensor::save_aliased(const Tensor& t) {
  Tensor a = alias_with_tangents(t);
  // A part that a Function made of what it wrote: it has no history that could be brought up to date.
  if (is_stale(t) && t->flags & TensorImpl::kSpecialView) return a;
  if (!history(t) && t.requires_grad()) return t;  // a leaf
  if (t->grad_fn) set_history(a, Ref<Node>::share(t->grad_fn), t->output_nr);
  return a;
}

std::atomic<bool> checking_external{true};

uint32_t SavedTensor::external_stamp(const Tensor& t, Node* owner) {
  const uint32_t change = owner->object() ? 0 : change_by_data(*t.get());
  if (!t->storage->checked || !checking_external.load(std::memory_order_relaxed) || is_meta(t))
    return version_of_both(t) + change;
  const Tensor d = contents_in_order(batching::all_samples(t));
  return static_cast<uint32_t>(check<&kernels::stamp_of>(d, uint64_t{t.version()}) >> 32) + change;
}

void SavedTensor::refuse_written(Node* owner) const {
  const auto at = [](const std::string& line) { return line.empty() ? line : " (" + line + ")"; };
  const std::string saved_at = owner->line(), written_at = line_of_write(tensor_);
  const std::string head = text(
      "one of the variables needed for gradient computation has been modified by an inplace operation: [",
      name_of(tensor_.dtype()), " ", to_string(tensor_.sizes()), "], which is ",
      result_ ? "the result" : "an input", " of the operation that ", owner->name(), " differentiates",
      at(saved_at), ", ");
  const Storage& storage = *tensor_->storage;
  // Its own count of writes tells nothing where contents are compared.
  if (const uint32_t change = change_by_data(*tensor_.get()); change && !owner->object()) {
    const bool first = version_ == version_of_both(tensor_);
    fail("the size or type of one of the variables needed for gradient computation has changed: ",
         owner->name(), at(saved_at), " expected ", result_ ? "the result" : "an input",
         " of its operation as it was saved, ",
         first ? before_data(*tensor_.get()) : text("before its .data was replaced"), ", but found ",
         name_of(tensor_.dtype()), " of shape ", tensor_.sizes(),
         ". Setting .data (as Module.half() and Module.to() do) between forward and backward is right only "
         "where shape and dtype stay; run backward first, or compute the result again.");
  }
  if (storage.detached)
    fail(
        "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This is not "
        "supported, please use out-of-place `.detach()` instead. It is ",
        name_of(tensor_.dtype()), " of shape ", tensor_.sizes(), ", an input of the operation that ",
        owner->name(), " differentiates", at(saved_at));
  if (storage.checked && storage.kind == Storage::Kind::External)
    fail(head,
         "lies in memory that belongs to somebody else (a NumPy array, for example), and that was written "
         "since. Hint: make the tensor a copy (adjoint.tensor(array), or clone()), or write to the array "
         "after the backward pass. adjoint.autograd.graph.set_check_external(False) switches this check off");
  fail(head, "is at version ", tensor_.version(), "; expected version ", version_, " instead. It was ",
       storage.kind != Storage::Kind::External && storage.writer
           ? "last written by " + name_of_write(storage.writer)
           : "written since it was saved",
       at(written_at),
       ". Hint: clone() the tensor before the in-place operation, or use the out-of-place form.",
       saved_at.empty() && written_at.empty() ? " To see the source lines of both, run the program again "
                                                "after adjoint.autograd.graph.set_record_lines(True)."
                                              : "");
}

Tensor SavedTensor::with_history(Node* owner, uint32_t input_nr) const {
  Tensor t = alias(tensor_);
  if (tensor_->is(TensorImpl::kDual)) share_tangents(t, tensor_);
  if (is_differentiable(t.dtype())) set_history(t, Ref<Node>::share(owner), input_nr);
  return t;
}

void SavedTensor::keep_in(const SavedTensor& other, int64_t from) {
  Tensor t = alias(tensor_);
  Ref<Storage> storage = Ref<Storage>::share(other.tensor_->storage);
  t->data = other.tensor_->data + from;
  runtime::release_count(std::exchange(t->storage, storage.detach()));
  if (!result_ && tensor_->grad_fn) set_history(t, Ref<Node>::share(tensor_->grad_fn), tensor_->output_nr);
  tensor_ = std::move(t);
  version_ = other.version_;
}

void SavedTensor::pack(const Tensor& t, Node* owner, SavedHooks& hooks) {
  auto packed = std::make_shared<PackedTensor>();
  if (!result_ && t.requires_grad()) packed->edge = gradient_edge(t);
  GradMode off(false);
  const uint32_t before = t.version();
  packed->packed =
      hooks.pack(result_ ? alias_with_tangents(t) : t);  // by its history a result keeps its node
  if (t.version() != before)
    fail(
        "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook "
        "cannot be modified by in-place operations as this can lead to unexpected side-effects. Write to a "
        "clone() instead. The tensor has shape ",
        t.sizes(), " and was saved by ", owner->name(), ".");
  NodeExtras& extras = owner->make_extras();
  std::lock_guard lock(extras.mutex);
  extras.packed.emplace_back(this, std::move(packed));
  packed_ = true;
}

void SavedTensor::pack_now(Node* owner, SavedHooks& hooks) {
  if (packed_)
    fail(
        "Calling register_hooks on a saved tensor whose hooks have already been set. Try passing only one "
        "pair of hooks at a time.");
  if (!tensor_.defined()) owner->refuse_released();
  pack(tensor_, owner, hooks);
  tensor_.reset();
}

void Node::release_packed() {
  decltype(NodeExtras::packed) gone;  // die after the lock
  NodeExtras& e = *extras();
  std::lock_guard lock(e.mutex);
  gone.swap(e.packed);
}

std::shared_ptr<PackedTensor> SavedTensor::packed(Node* owner) const {
  NodeExtras* extras = owner->extras();
  if (!packed_ || !extras) return nullptr;
  std::lock_guard lock(extras->mutex);
  const auto at = std::ranges::find(extras->packed, this, [](const auto& entry) { return entry.first; });
  return at != extras->packed.end() ? at->second : nullptr;
}

Tensor SavedTensor::unpack_packed(Node* owner, uint32_t input_nr) const {
  const std::shared_ptr<PackedTensor> packed = this->packed(owner);
  if (!packed) owner->refuse_released();
  Tensor data = packed->packed->unpack();
  Edge edge =
      result_ ? Edge{Ref<Node>::share(owner), input_nr} : Edge{packed->edge.node, packed->edge.input_nr};
  if (!edge && !data.requires_grad()) return data;  // what the hook gave, itself
  Tensor t = alias_with_tangents(data);
  if (edge && is_differentiable(t.dtype())) set_history(t, std::move(edge.node), edge.input_nr);
  return t;
}

}  // namespace adjoint
