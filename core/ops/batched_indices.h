// Reading and writing by index on batches: what the rules of both families are made of.
//
// Indices of one dimension that differ from sample to sample name rows of all samples laid end to end
// (`along`). Advanced indexing gets the batch as one more dimension, and a vector that counts the samples as
// its index where others differ from sample to sample (`Positions`). Start reading there.
#pragma once

#include <functional>

#include "ops/contract/op.h"

namespace adjoint::batching {

/// Where the indices of a call lie, and what its shape for one sample is.
struct Positions {
  const BatchedCall& c;
  Tensors indices;     // as the samples are indexed
  Dims common;         // what the indices broadcast to
  int64_t before = 0;  // dimensions in front of those, in the result for one sample
  bool together = true, each = false;
  int first = -1;

  /// Indices of a tensor of these sizes for each sample.
  Positions(const BatchedCall& call, IntList sizes, TensorList given);
  /// From how indexing lays out the samples to the batch in front, and back.
  Tensor order(const Tensor& t, bool back) const;
  /// The shape for one sample, of a tensor of the given sizes.
  Dims shape(IntList sizes) const;
};

/// Values that are to be written to a place of this rank, each sample's with as many dimensions: they may
/// have fewer, and more, of size 1.
Tensor values_of_rank(const BatchedTensor& values, int64_t rank);
/// With the batch in front and expanded to these sizes for each sample.
Tensor filled(const BatchedTensor& values, IntList sizes);

/// A call that takes slices along a dimension by a vector of indices.
struct Along {
  Tensor self;
  int64_t dim = 0;
  Tensor index;
  Tensor other;  // of slices, or a value for all of them; may be undefined
  Dims shape;    // of the result, where it is given
};
/// Of such a call on batches: `compute` makes it on all samples. Indices may count from the end where
/// `from_end` says so.
void along(BatchedCall& c, const BatchedTensor& self, int64_t dim, const BatchedTensor& index,
           const BatchedTensor* other, const IntList* shape, bool from_end,
           const std::function<Tensor(const Along&)>& compute);

}  // namespace adjoint::batching
