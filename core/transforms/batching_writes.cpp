// Writes of a value for each sample to a tensor that was the same for all of them: it becomes batched.
#include <optional>

#include "autograd/arithmetic.h"
#include "autograd/views.h"
#include "for_size.h"
#include "kernels/copy.h"
#include "ops/part.h"
#include "ops/shape.h"
#include "ops/writing.h"
#include "transforms/batching.h"

namespace adjoint {

namespace {

/// The tensor as it was, as another one.
Tensor as_it_was(const Tensor& t) {
  Tensor old = alias(t);
  if (Node* node = history(t)) set_history(old, Ref<Node>::share(node), t->output_nr);
  return old;
}

/// The highest level below one at which the arguments after the first are batched; null without one.
const BatchLevel* level_below(uint64_t number, const Operator& op, const Value* arguments) {
  uint64_t highest = 0;
  each_tensor(op, arguments, [&](const Tensor& given, int i) {
    for (Tensor t = given; i && is_batched(t); t = samples_of(t))
      if (const uint64_t n = batch_level_of(t); n < number) highest = std::max(highest, n);
  });
  return highest ? open_batch_level(highest) : nullptr;
}

/// Let `t` stand for these samples, which lie as it does.
void stand_for(const Tensor& t, Tensor samples, const BatchLevel& level) {
  t->replace_storage(Ref<Storage>::share(samples->storage), samples->data, t.dtype(),
                     samples.sizes().subspan(1), samples.strides().subspan(1).data());
  t->set(TensorImpl::kContiguous, false);
  t->flags |= TensorImpl::kBatched;
  t->storage->mark(Storage::kSaved);  // see `batched`
  AutogradMeta& meta = make_meta(t.get());
  meta.samples = std::move(samples);
  meta.batch_level = level.number;
}

}  // namespace

void become_batched(const Tensor& t, const BatchLevel& level, const Operator& op, const Value* arguments) {
  const Tensor base = base_of(t);
  const Tensor& root = base.defined() ? base : t;
  if (is_batched(root) && base.defined() && batch_level_of(root) == level.number)
    fail(op.name, "(): a view of a batched tensor is not batched");
  if (!root->storage->made_inside(level.number))
    fail(
        "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` "
        "in extra_args that has more elements than `self`. This happened due to `other` being vmapped over "
        "but `self` not being vmapped over in a vmap. Please try to use out-of-place operators instead of "
        "inplace arithmetic. Here ",
        name_of_write(op.name), " would write a value for each of ", level.size,
        " samples to one tensor of shape ", t.sizes(), " that was made outside of vmap()");
  // Who else looks at this memory would go on seeing the old one.
  const uint32_t known = base.defined() ? 2 : 1;
  if (root->storage->refcount.load(std::memory_order_acquire) > known + is_batched(root) ||
      (base.defined() && is_batched(root)) || (base.defined() && t.dtype() != root.dtype()))
    throw PerSample(level.number, op.name,
                    text("vmap: ", name_of_write(op.name),
                         " writes a value for each sample to a tensor of shape ", to_string(t.sizes()),
                         " that is the same for all samples, and of which there are other views. Write to a "
                         "clone() of it"));
  // For each sample a copy of the memory, in which the tensor and its view lie as they did.
  int64_t span = root.numel() ? 1 : 0;
  for (size_t i = 0; i < root.sizes().size(); ++i)
    span += root.numel() ? (root.sizes()[i] - 1) * root.strides()[i] : 0;
  Dims sizes(root.sizes()), strides(root.strides());
  const Dims memory_sizes{level.size, span};
  sizes.insert(sizes.begin(), level.size);
  strides.insert(strides.begin(), span);
  Tensor memory = zeros(memory_sizes.span(), root.dtype());
  Tensor samples = over(Ref<Storage>::share(memory->storage), root.dtype(), sizes.span(), strides.span(), 0);
  memory.reset();
  const ViewPart part(root, t);
  const uint32_t version = root.version();
  samples = call<Copy>(samples, as_it_was(root));
  // What was saved of the old memory, and is written next, is never found at the version that it had.
  if (samples.version() < version) samples->storage->version.store(version, std::memory_order_relaxed);
  samples->storage->made_in = root->storage->made_in;
  if (!base.defined()) {
    // While nothing else looks at the samples: what they need for values that are batched further out, too.
    if (const BatchLevel* outer = arguments ? level_below(level.number, op, arguments) : nullptr;
        outer && !is_batched(samples) && samples->storage->made_inside(outer->number))
      become_batched(samples, *outer, op, arguments);
    return stand_for(root, std::move(samples), level);
  }
  Dims view_sizes(t.sizes()), view_strides(t.strides());
  view_sizes.insert(view_sizes.begin(), level.size);
  view_strides.insert(view_strides.begin(), span);
  Tensor view = call<AsStrided>(samples, view_sizes.span(), view_strides.span(),
                                std::optional<int64_t>(samples.offset() + part.bytes / root.itemsize()));
  const bool stale = is_stale(t);
  stand_for(root, std::move(samples), level);
  stand_for(t, std::move(view), level);
  t->storage->mark(Storage::kViewed);
  if (!stale) t->view_version.store(t.version(), std::memory_order_release);
}

}  // namespace adjoint
