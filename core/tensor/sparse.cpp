#include "tensor/sparse.h"

#include <algorithm>
#include <mutex>

#include "for_size.h"

namespace adjoint {

std::atomic<bool> sparse_in_use{false};

namespace {

struct Body {
  runtime::SmallLock lock;
  SparseParts parts;
};

Body& body_of(const Tensor& t) { return *static_cast<Body*>(owner_of_bytes(t->storage)->context); }

}  // namespace

const char* name_of(SparseLayout layout) {
  return layout == SparseLayout::Coo   ? "torch.sparse_coo"
         : layout == SparseLayout::Csr ? "torch.sparse_csr"
                                       : "torch.sparse_csc";
}

Tensor sparse_tensor(SparseParts parts, IntList sizes) {
  const DType dtype = parts.values.dtype();
  auto* body = new Body;
  body->parts = std::move(parts);
  Ref<Storage> storage = external_storage(nullptr, 0, [](void* b) { delete static_cast<Body*>(b); }, body);
  storage->layout = Storage::Layout::Sparse;
  storage->checked = false;
  sparse_in_use.store(true, std::memory_order_relaxed);
  // Strides that no elements in order have, so that nothing takes them for such.
  Dims strides(sizes.size(), 2);
  for (size_t d = sizes.size(); d-- > 1;)
    strides[d - 1] = static_cast<int64_t>(static_cast<uint64_t>(strides[d]) *
                                          static_cast<uint64_t>(std::max<int64_t>(1, sizes[d])));
  return over(std::move(storage), dtype, sizes, strides.span(), 0);
}

SparseParts sparse_parts(const Tensor& t) {
  need_own_memory(t, "a sparse tensor");
  Body& body = body_of(t);
  std::lock_guard lock(body.lock);
  return body.parts;
}

void set_sparse_parts(const Tensor& t, SparseParts parts) {
  Body& body = body_of(t);
  std::lock_guard lock(body.lock);
  std::swap(body.parts, parts);  // the old ones die after the lock
}

void refuse_sparse(const Tensor& t, const char* op) {
  const SparseLayout layout = sparse_parts(t).layout;
  fail<NotImplemented>("Could not run 'aten::", op, "' with arguments from the 'Sparse",
                       layout == SparseLayout::Coo ? "" : "Csr", "CPU' backend: ", op,
                       "() is not implemented for tensors of layout ", name_of(layout),
                       ", of which one has shape ", t.sizes(),
                       "; call it on x.to_dense(), or on x.values() where it is element by element");
}

}  // namespace adjoint
