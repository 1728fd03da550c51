// Losses and embeddings on batches: the batch joins the rows where the target alone or the input is batched.
#include "dispatch/batched_call.h"
#include "for_size.h"
#include "ops/arithmetic.h"
#include "ops/comparison.h"
#include "ops/indexing.h"
#include "ops/loss.h"
#include "ops/reduction.h"
#include "ops/selection.h"
#include "ops/shape.h"

namespace adjoint::batching {

namespace {

/// A loss of classes, with the batch among the rows, for each row; and what its reduction is then.
struct Classes {
  BatchedCall& c;
  int target;  // which argument; the weight comes next
  bool one_row = c.rank(target) == 0;

  Tensor rows(const Tensor& t) const { return one_row ? c.in_front(t) : joined(c.in_front(t), 0); }
  OptionalTensor weight() const {
    return c.has(target + 1) ? OptionalTensor(c.tensor(target + 1)) : OptionalTensor();
  }
  Tensor split_rows(const Tensor& t) const { return one_row ? t : parted(c, t, 0); }
  /// All dimensions but the batch.
  Tensor total(const Tensor& t) const {
    Dims dims;
    for (int64_t d = 1; d < t.dim(); ++d) dims.push_back(d);
    return dims.empty() ? t : call<Sum>(t, OptionalDims(dims.span()), false, OptionalType());
  }
  /// What a mean divides by: the weights of the rows that count.
  Tensor divisor(IntList sizes, DType dtype, int64_t ignore) const {
    const Tensor minus_one = full(sizes, Scalar(-1), dtype);
    return total(
        split_rows(call<NllLoss>(minus_one, rows(c.tensor(target)), weight(), Text("none"), ignore)));
  }
  Tensor reduced(const Tensor& each, Text reduction, const Tensor& of) const {
    if (reduction == "none") return split_rows(each);
    const Tensor sum = total(split_rows(each));
    return reduction == "sum" ? sum : call<Div>(sum, divisor(of.sizes(), of.dtype(), ignore()));
  }
  /// The gradient for each row.
  Tensor spread(const Tensor& g, Text reduction, IntList sizes, DType dtype) const {
    if (reduction == "none") return rows(g);
    Tensor one = c.in_front(g);
    if (reduction == "mean") one = call<Div>(one, divisor(sizes, dtype, ignore()));
    if (one_row) return one;
    Tensor t = c.in_front(c.tensor(target));
    return joined(call<Expand>(with_ones(one, t.dim() - 1), t.sizes()), 0);
  }
  int64_t ignore() const { return c.integer(target + 3); }
};

}  // namespace

void cross_entropy(BatchedCall& c) {
  const Classes k{c, 1};
  if (c.batched(2)) return composed(c);
  const Tensor x = k.rows(c.tensor(0));
  const Tensor each =
      call<ClassCrossEntropy>(x, k.rows(c.tensor(1)), k.weight(), Text("none"), k.ignore(), c.number(5));
  c.give(k.reduced(each, c.given[3].text(), x));
}

void cross_entropy_backward(BatchedCall& c) {
  const Classes k{c, 2};
  if (c.batched(3)) return loop(c);
  const Tensor x = k.rows(c.tensor(1));
  const Tensor g = k.spread(c.tensor(0), c.given[4].text(), x.sizes(), x.dtype());
  c.give(k.split_rows(call<CrossEntropyBackward>(g, x, k.rows(c.tensor(2)), k.weight(), Text("none"),
                                                 k.ignore(), c.number(6))));
}

void nll_loss(BatchedCall& c) {
  const Classes k{c, 1};
  if (c.batched(2)) return composed(c);
  const Tensor x = k.rows(c.tensor(0));
  c.give(k.reduced(call<NllLoss>(x, k.rows(c.tensor(1)), k.weight(), Text("none"), k.ignore()),
                   c.given[3].text(), x));
}

void nll_loss_backward(BatchedCall& c) {
  const Classes k{c, 2};
  if (c.batched(3)) return loop(c);
  Dims sizes(c.ints(1));
  if (k.one_row)
    sizes.insert(sizes.begin(), c.size);
  else
    sizes[0] *= c.size;
  const Tensor g = k.spread(c.tensor(0), c.given[4].text(), sizes.span(), c.tensor(0).dtype());
  c.give(k.split_rows(
      call<NllLossBackward>(g, sizes.span(), k.rows(c.tensor(2)), k.weight(), Text("none"), k.ignore())));
}

void embedding(BatchedCall& c) {
  if (!c.batched(0)) return c.give(call<Embedding>(c.tensor(0), c.samples(1), c.integer(2), false));
  const Tensor only[] = {c.bare(1)};
  c.give_finished(call<Index>(c.bare(0), TensorList(only)));
}

void embedding_backward(BatchedCall& c) {
  Tensor g = c.bare(0);
  const Tensor indices = c.bare(1);
  const int64_t padding = c.integer(3);
  if (padding >= 0) {
    const Tensor used = call<NotEqual>(indices, scalar_tensor(Scalar(padding), indices.dtype()));
    g = call<Mul>(g, call<To>(call<Unsqueeze>(used, -1), g.dtype()));
  }
  const int64_t sizes[] = {c.integer(2), g.size(-1)};
  const Tensor only[] = {indices};
  c.give_finished(call<PutIndex>(g, IntList(sizes), TensorList(only)));
}

}  // namespace adjoint::batching
