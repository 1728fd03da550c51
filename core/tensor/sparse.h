// Sparse tensors: a shape and a type over indices and values, without elements of their own. See Note: sparse
// tensors.
//
// A sparse tensor is a TensorImpl whose storage holds no bytes but `SparseParts`, and says so by its
// layout. So the flag `kElsewhere` leads every call with one away from the kernels, which
// would read memory that is not there (transforms/sparse.h), and calls without any pay nothing. Start reading
// at `SparseParts`.
#pragma once

#include "tensor/tensor.h"

namespace adjoint {

enum class SparseLayout : uint8_t { Coo, Csr, Csc };
inline constexpr int kSparseLayouts = 3;
/// torch.sparse_coo
const char* name_of(SparseLayout layout);

/// What a sparse tensor is made of; tensors without history.
struct SparseParts {
  SparseLayout layout = SparseLayout::Coo;
  /// COO: whether every position is named once, in row-major order.
  bool coalesced = false;
  /// COO: (sparse dimensions, entries) of int64. CSR and CSC: where the entries of each row, or column,
  /// begin.
  Tensor indices;
  /// CSR and CSC: the column, or row, of each entry. Undefined for COO.
  Tensor others;
  /// (entries, dense dimensions…)
  Tensor values;

  int64_t entries() const { return values.size(0); }
  int64_t sparse_dim() const { return layout == SparseLayout::Coo ? indices.size(0) : 2; }
};

/// Whether there ever was a sparse tensor.
extern std::atomic<bool> sparse_in_use;

inline bool is_sparse(const TensorImpl* t) {
  return t->is(TensorImpl::kElsewhere) && t->storage->layout == Storage::Layout::Sparse;
}
inline bool is_sparse(const Tensor& t) { return is_sparse(t.get()); }

/// A new one of a shape; its parts are taken as they are.
Tensor sparse_tensor(SparseParts parts, IntList sizes);
SparseParts sparse_parts(const Tensor& t);
/// Let a sparse tensor, and all that share its storage, have other parts of the same type.
void set_sparse_parts(const Tensor& t, SparseParts parts);

/// Refuse `op` in torch's words.
[[noreturn]] void refuse_sparse(const Tensor& t, const char* op);

}  // namespace adjoint
