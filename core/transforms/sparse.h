// Calls that have a sparse tensor among their inputs: see Note: sparse tensors.
//
// The door sends them here, since the flag of such a tensor is one that it looks for (transformed.h). What
// gradients need on their way is done in the core; all else by the forms that another language has, written
// in recorded operators on indices and values; and what has no form is refused. Rows of the family Sparse
// alone pass: they know what sparse tensors are made of.
#pragma once

#include <span>

#include "dispatch/operator.h"
#include "tensor/sparse.h"

namespace adjoint {

/// Do a call, or refuse it in the operator's name.
void call_sparse(const Operator& op, std::span<const Value> arguments, Results& results);

/// An element-wise operator that writes, to a sparse tensor or of one. False where none of the tensors is
/// sparse.
bool written_sparse(const Call& call, Results& results);

/// Let `self`, a sparse tensor, have the indices and values of another, and its history; `op` in place.
void become_sparse(const Tensor& self, const Tensor& result, const char* op);

/// The same for one of another shape, such as the transpose: those that share the storage keep what they
/// have.
void become_sparse_view(const Tensor& self, const Tensor& view, const char* op);

/// The forms of another language; set by the bindings. False where there is none. Where `writes`, the first
/// argument is to be written, and the result is that.
extern bool (*sparse_form)(const Operator& op, std::span<const Value> arguments, bool writes,
                           Results& results);

}  // namespace adjoint
