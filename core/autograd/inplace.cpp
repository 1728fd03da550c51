#include "autograd/inplace.h"

namespace adjoint {

bool overlaps_itself(const Tensor& t) {
  if (t.is_contiguous()) return false;
  const auto sizes = t.sizes(), strides = t.strides();
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] > 1 && strides[i] == 0) return true;
  return false;
}

void check_writable(const Tensor& t, const char* op, bool recorded) {
  if (!t->is(TensorImpl::kContiguous) && overlaps_itself(t))
    fail("unsupported operation: ", op, "_(): more than one element of the written-to tensor refers to a single memory "
         "location. Its shape is ", to_string(t.sizes()), " with strides ", to_string(t.strides()),
         ". Please clone() the tensor before performing the operation.");
  if (t->storage->readonly)
    fail<ValueError>(op, "_(): the tensor's memory is read-only: it belongs to an array that may not be written. clone() it first");
  if (!thread_state.grad) return;
  if (t.requires_grad() && t.is_leaf()) {
    if (t->is(TensorImpl::kView))
      fail("a view of a leaf Variable that requires grad is being used in an in-place operation: ", op, "_() on shape ",
           to_string(t.sizes()), ". Write under no_grad(), or clone() the leaf first");
    fail("a leaf Variable that requires grad is being used in an in-place operation: ", op, "_() on shape ",
         to_string(t.sizes()), ". Write under no_grad(), or clone() the leaf first");
  }
  if (t->is(TensorImpl::kView) && t->grad_fn && !t->grad_fn->edges().empty()) {
    const Node* from = t->grad_fn->edges()[0].node.get();
    if (from && from->name() == "AccumulateGrad")
      fail("a view of a leaf Variable that requires grad is being used in an in-place operation: ", op, "_() on shape ",
           to_string(t.sizes()), ". Write under no_grad(), or clone() the leaf first");
  }
  // A write through a view would have to rewrite the history of its base and of the other views.
  if (t->is(TensorImpl::kView) && (recorded || t.requires_grad()))
    fail<NotImplemented>(op, "_(): a recorded in-place write through a view (shape ", to_string(t.sizes()),
                         ") is not supported yet, since the history of its base would have to be rewritten. Write to the "
                         "base by indexing (base[...] = value), or use the out-of-place form");
}

}  // namespace adjoint
