// A call on batched tensors as its rule sees it, and what rules are made of.
//
// A rule is found in this order: the one that the operator states (`static constexpr auto batch =
// batching::leading`, or a function of its own that names the arguments it takes); where it states none, that
// of its types, if it has a single tensor and says by a Dim, Sizes or their like where dimensions are; else a
// loop over the samples, which is counted. A rule of an operator's own stands in its family's source, and is
// written in operators on the samples, or on the batched tensors. What computes it: transforms/batching.cpp.
// See Note: batching. Start reading at `BatchedTensor`; the plainest rule is `leading` (batching_call.cpp).
#pragma once

#include <functional>

#include "dispatch/operator.h"

namespace adjoint {

struct BatchLevel;  // transforms/batching.h

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

  bool batched(const Tensor& t) const;
  /// The samples, the batch in front; an unbatched tensor as it is.
  Tensor samples(const Tensor& t) const;
  /// The batch in front, of an unbatched tensor too.
  Tensor in_front(const Tensor& t) const;
  /// As many dimensions for each sample, by ones behind the batch; an unbatched tensor as it is, which
  /// broadcasts.
  Tensor with_rank(const Tensor& t, int64_t rank) const;
  /// The tensor without history of its own, to call operators on as the program does.
  Tensor bare(const Tensor& t) const;
  /// Any of the batched tensors, for errors.
  const Tensor& some_batched() const;
  /// Each sample draws random numbers of its own.
  bool draws_differ() const;
  /// These sizes, with the batch in front.
  Dims with_batch(IntList sizes) const;

  /// One result: with the batch in front, or one of the program's.
  void give(Tensor samples) { results.one = std::move(samples); }
  void give_finished(Tensor t) {
    results.one = std::move(t);
    finished = true;
  }
  /// Several, with the batch in front.
  void give(Tensors samples) {
    results.kind = Results::Kind::Tuple;
    results.many = std::move(samples);
  }
  void give_finished(Tensors all) {
    give(std::move(all));
    finished = true;
  }
};

namespace batching {
/// The batch, which is in front, joined with a dimension of the samples, whose elements follow one another
/// for each; and back.
Tensor joined(const Tensor& samples, int64_t dim);
Tensor parted(const BatchedCall& call, const Tensor& t, int64_t dim);
}  // namespace batching

struct BatchedTensor {
  const BatchedCall& call;
  /// As the program gave it, undefined where it is left out.
  const Tensor& tensor;
  BatchedTensor(const BatchedCall& c, const Tensor& t) : call(c), tensor(t) {}
  BatchedTensor(const BatchedCall& c, const Value& given);
  /// It is given.
  explicit operator bool() const { return tensor.defined(); }
  /// It stands for a batch; else it is the same for all samples.
  bool batched() const { return tensor.defined() && call.batched(tensor); }
  /// Of one sample.
  int64_t rank() const { return tensor.dim(); }
  IntList sizes() const { return tensor.sizes(); }
  // As of BatchedCall.
  Tensor samples() const { return call.samples(tensor); }
  Tensor in_front() const { return call.in_front(tensor); }
  Tensor joined(int64_t dim) const { return batching::joined(in_front(), dim); }
  Tensor with_rank(int64_t rank) const { return call.with_rank(tensor, rank); }
  Tensor bare() const { return call.bare(tensor); }
  /// As it is, where one may be left out.
  OptionalTensor optional() const { return OptionalTensor(tensor); }
};
template <Name argument>
struct Batched : BatchedTensor {};

namespace batching {
/// By the types of parameters, every tensor with the batch in front.
void by_types(BatchedCall& call);
/// Sample after sample; before each, `prepare`.
void loop(BatchedCall& call, const std::function<void()>& prepare = {});
/// The samples of all levels.
Tensor all_samples(Tensor t);
/// Whether each sample has its own: for rules that are written in operators. Not where it is undefined.
bool per_sample(const Tensor& t);
/// Refuse: the shape of what `op` makes depends on this tensor's values, which samples may have each their
/// own.
[[noreturn]] void needs_values(const Tensor& t, const char* op);
}  // namespace batching

/// Dimensions of size 1 after the batch, so many.
Tensor with_ones(const Tensor& samples, int64_t count);

}  // namespace adjoint
