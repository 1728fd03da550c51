// A call on batched tensors as its rule sees it, and the rules that need no more than the types of
// parameters.
//
// A rule is found in this order: the one that the operator states (`static constexpr auto batch =
// batching::leading`); where it states none, that of its types, if it has a single tensor and says by a Dim,
// Sizes or their like where dimensions are; else a loop over the samples, which is counted. See Note:
// batching. Start reading at `leading`.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "transforms/batching.h"

namespace adjoint {

class BatchedCall {
 public:
  BatchedCall(const Operator& op, std::span<const Value> given, const BatchLevel& level);

  const Operator& op;
  const std::span<const Value> given;
  const BatchLevel& level;
  /// Samples in the batch.
  const int64_t size;
  /// What the rule makes, with the batch in front.
  Results results;
  /// The results are tensors of the program already, batched or not.
  bool finished = false;

  bool has(int i) const {
    return given[i].present && (op.kinds[i]->form != Form::Tensor || given[i].tensor->defined());
  }
  const Tensor& tensor(int i) const { return *given[i].tensor; }
  bool batched(const Tensor& t) const {
    return t->is(TensorImpl::kBatched) && batch_level_of(t) == level.number;
  }
  bool batched(int i) const { return has(i) && batched(tensor(i)); }
  int64_t rank(int i) const { return tensor(i).dim(); }
  /// The samples, the batch in front; an unbatched tensor as it is.
  Tensor samples(const Tensor& t) const { return batched(t) ? samples_of(t) : t; }
  Tensor samples(int i) const { return samples(tensor(i)); }
  /// The batch in front, of an unbatched tensor too.
  Tensor in_front(const Tensor& t) const;
  Tensor in_front(int i) const { return in_front(tensor(i)); }
  /// As many dimensions for each sample, by ones behind the batch; an unbatched tensor as it is, which
  /// broadcasts.
  Tensor with_rank(const Tensor& t, int64_t rank) const;
  /// The tensor without history of its own, to call operators on as the program does.
  Tensor bare(int i) const;
  OptionalTensor bare_optional(int i) const { return has(i) ? OptionalTensor(bare(i)) : OptionalTensor(); }
  /// Any of the batched tensors, for errors.
  const Tensor& some_batched() const;
  /// An argument of another form.
  int64_t integer(int i) const { return given[i].i; }
  bool boolean(int i) const { return given[i].b; }
  double number(int i) const { return given[i].d; }
  IntList ints(int i) const { return given[i].ints(); }

  /// One result: with the batch in front, or one of the program's.
  void give(Tensor samples) { results.one = std::move(samples); }
  void give_finished(Tensor t) {
    results.one = std::move(t);
    finished = true;
  }
};

namespace batching {
/// By the types of parameters, every tensor with the batch in front.
void by_types(BatchedCall& call);
/// Sample after sample; before each, `prepare`.
void loop(BatchedCall& call, const std::function<void()>& prepare = {});
/// Two neighbouring dimensions made one, and one made the batch and the rest of it.
Tensor joined(const Tensor& t, int64_t dim);
Tensor parted(const BatchedCall& call, const Tensor& t, int64_t dim);
}  // namespace batching

/// A dimension of size 1 behind the batch, so many times.
Tensor with_ones(const Tensor& samples, int64_t count);

}  // namespace adjoint
