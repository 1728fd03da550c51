// Losses put together from recorded operators, what the fused ones are composed of, and their rules.
#include "ops/loss.h"

#include "autograd/meta.h"
#include "dispatch/family.h"
#include "for_size.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/comparison.h"
#include "ops/indexing.h"
#include "ops/reduction.h"
#include "ops/selection.h"
#include "ops/shape.h"
#include "ops/softmax.h"
#include "ops/sparse.h"
#include "ops/spread.h"

namespace adjoint {

namespace {

Tensor summed(const Tensor& t, int64_t dim, bool keepdim) {
  return call<Sum>(t, OptionalInts(IntList(&dim, 1)), keepdim, OptionalType());
}

Tensor reduced(const Tensor& loss, kernels::Reduce reduce) {
  if (reduce == kernels::Reduce::None) return loss;
  return reduce == kernels::Reduce::Mean ? call<Mean>(loss, OptionalInts(), false, OptionalType())
                                         : call<Sum>(loss, OptionalInts(), false, OptionalType());
}

/// A tensor with one element per class, shaped to broadcast against scores of which dimension `dim` is the
/// classes.
Tensor per_class(const Tensor& weight, const Tensor& scores, int64_t dim) {
  Dims shape(scores.sizes().size(), 1);
  shape[static_cast<size_t>(dim)] = weight.numel();
  return call<Reshape>(weight, IntList(shape.data(), shape.size()));
}

/// Where a class counts.
Tensor counts(const Tensor& target, int64_t ignore) {
  return call<NotEqual>(as_type(target, DType::Int64), wrap_number(Scalar(ignore), DType::Int64));
}
int64_t dim_of_classes(const Tensor& scores) { return scores.dim() == 1 ? 0 : 1; }

}  // namespace

namespace compose {

Tensor cross_entropy(const Tensor& self, const Tensor& target, const Tensor& weight, Text reduction,
                     int64_t ignore, double smoothing, const char* op) {
  if (!is_differentiable(target.dtype()))
    return call<ClassCrossEntropy>(self, target, OptionalTensor(weight), reduction, ignore, smoothing);
  const kernels::Reduce reduce = kernels::reduce_of(reduction, op);
  if (self.dim() > 1 && target.dim() > 0 && self.size(0) != target.size(0))
    fail<ValueError>(op, "(): Expected input batch_size (", self.size(0), ") to match target batch_size (",
                     target.size(0), "); the shapes are ", self.sizes(), " and ", target.sizes());
  if (self.dim() == 0 || !same(self.sizes(), target.sizes()))
    fail(op, "(): expected target dtype to be Long or Byte, but got ", type_name_of(target.dtype()),
         ": probabilities have the shape of the input, ", self.sizes(), ", and not ", target.sizes());
  if (ignore >= 0) fail(op, "(): ignore_index is not supported for floating point target");
  if (!self.is_floating() || !target.is_floating())
    fail(op, "(): Expected floating point type for target with class probabilities, got ",
         name_of(target.dtype()), " beside input of ", name_of(self.dtype()));
  if (!(smoothing >= 0 && smoothing <= 1))
    fail(op, "(): label_smoothing must be between 0.0 and 1.0. Got: ", smoothing);
  const int64_t dim = self.dim() == 1 ? 0 : 1, classes = self.size(dim);
  if (weight.defined() && (weight.dim() != 1 || weight.numel() != classes))
    fail(op, "(): weight tensor should be defined either for all ", classes,
         " classes or no classes but got weight tensor of shape: ", weight.sizes());
  Recorded q(target);
  if (smoothing > 0)
    q = q * number(1 - smoothing, target) + number(smoothing / static_cast<double>(classes), target);
  if (weight.defined()) q = q * Recorded(per_class(weight, self, dim));
  const Recorded terms = q * Recorded(call<LogSoftmax>(self, dim, OptionalType()));
  if (classes == 0 && reduce == kernels::Reduce::Mean)
    return reduced(terms.tensor, reduce);  // NaN: nothing divided by no classes
  const Tensor loss = (-Recorded(summed(terms.tensor, dim, false))).tensor;
  return reduced(loss, reduce);
}

Tensor mse_loss(const Tensor& self, const Tensor& target, Text reduction, const char* op) {
  const kernels::Reduce reduce = kernels::reduce_of(reduction, op);
  if (reduce != kernels::Reduce::None && self.dtype() == target.dtype() && self.is_floating() &&
      same(self.sizes(), target.sizes()))
    return call<SquaredDistance>(self, target, reduce == kernels::Reduce::Mean);
  const Recorded d = Recorded(self) - Recorded(target);
  return reduced(apply<Square>(d).tensor, reduce);
}

Tensor bce_with_logits(const Tensor& self, const Tensor& target, const Tensor& weight,
                       const Tensor& pos_weight, Text reduction, const char* op) {
  const kernels::Reduce reduce = kernels::reduce_of(reduction, op);
  if (!same(self.sizes(), target.sizes()))
    fail<ValueError>(op, "(): Target size (", target.sizes(), ") must be the same as input size (",
                     self.sizes(), ")");
  if (!self.is_floating() || !target.is_floating())
    fail(op, "(): expected floating-point scores and targets, but got ", name_of(self.dtype()), " and ",
         name_of(target.dtype()), "; convert them, for example with .float()");
  const Tensor positive = pos_weight.defined() ? pos_weight : number(1, self).tensor;
  Recorded loss = call<BceTerms>(self, target, positive);
  if (weight.defined()) loss = loss * Recorded(weight);
  return reduced(as_type(loss.tensor, target.dtype()), reduce);  // in the type of the targets, as torch's
}

}  // namespace compose

// --- What fused losses are composed of ------------------------------------------------------------

Tensor NllLoss::composed(const Tensor& input, const Tensor& target, OptionalTensor weight, Text reduction,
                         int64_t ignore) {
  const kernels::Reduce reduce = kernels::reduce_of(reduction, name);
  const int64_t dim = dim_of_classes(input);
  const Tensor kept = counts(target, ignore), zero = wrap_number(Scalar(0.0), DType::Float64),
               at = as_type(call<Where>(kept, target, wrap_number(Scalar(0), DType::Int64)), DType::Int64),
               picked = call<Squeeze>(call<Gather>(as_type(input, compute_dtype(input.dtype())), dim,
                                                   call<Unsqueeze>(at, dim), false),
                                      OptionalDims(IntList(&dim, 1)));
  const Recorded each(weight.defined() ? as_type(call<Take>(weight, at), picked.dtype())
                                       : full(target.sizes(), Scalar(1), picked.dtype()));
  const Recorded loss = select(kept, -Recorded(picked) * each, zero);
  if (reduce == kernels::Reduce::None) return as_type(loss.tensor, input.dtype());
  const Recorded sum = reduced(loss.tensor, kernels::Reduce::Sum);
  if (reduce == kernels::Reduce::Sum) return as_type(sum.tensor, input.dtype());
  const Recorded total = reduced(select(kept, each, zero).tensor, kernels::Reduce::Sum);
  return as_type((sum / total).tensor, input.dtype());
}

Tensor ClassCrossEntropy::composed(const Tensor& input, const Tensor& target, OptionalTensor weight,
                                   Text reduction, int64_t ignore, double smoothing) {
  const int64_t dim = dim_of_classes(input);
  const Tensor x = as_type(input, compute_dtype(input.dtype())),
               logs = call<LogSoftmax>(x, dim, OptionalType());
  if (smoothing == 0) return as_type(call<NllLoss>(logs, target, weight, reduction, ignore), input.dtype());
  const kernels::Reduce reduce = kernels::reduce_of(reduction, name);
  const Text none = "none";
  const Tensor weighted =
      weight.defined() ? call<Mul>(logs, as_type(per_class(weight, x, dim), x.dtype())) : logs;
  const Recorded own(call<NllLoss>(logs, target, weight, none, ignore)),
      all = select(counts(target, ignore), summed(weighted, dim, false),
                   wrap_number(Scalar(0.0), DType::Float64)),
      each = own * number(1 - smoothing, x) - all * number(smoothing / double(x.size(dim)), x);
  Recorded loss(reduced(each.tensor, reduce == kernels::Reduce::None ? reduce : kernels::Reduce::Sum));
  if (reduce == kernels::Reduce::Mean)
    loss =
        loss / Recorded(call<NllLoss>(full(x.sizes(), Scalar(-1), x.dtype()), target, weight, "sum", ignore));
  return as_type(loss.tensor, input.dtype());
}

Tensor SquaredDistance::composed(const Tensor& input, const Tensor& target, bool mean) {
  return reduced(apply<Square>(Recorded(input) - Recorded(target)).tensor,
                 mean ? kernels::Reduce::Mean : kernels::Reduce::Sum);
}

namespace rules {

Tensor squared_distance(const Tensor& g, const Tensor& self, const Tensor& target, bool mean) {
  const double scale = mean ? 2 / static_cast<double>(self.numel()) : 2;
  return call<CentredTimes>(self, target, (Recorded(g) * number(scale, g)).tensor);
}

Tensor sparse_embedding(const Tensor& g, const Tensor& indices, int64_t rows, int64_t padding) {
  return sparse_rows(g, indices, rows, padding);
}
/// Each row over how often the indices name it: ones looked up backwards are counts of rows.
Tensor over_frequency(const Tensor& g, const Tensor& indices, int64_t rows) {
  Dims shape(indices.sizes());
  shape.push_back(1);
  const Tensor ones = full(shape.span(), Scalar(1), compute_dtype(g.dtype())),
               counts = call<EmbeddingBackward>(ones, indices, rows, int64_t{-1});
  const Recorded each(call<Embedding>(counts, indices, int64_t{-1}, false, false));
  return as_type((Recorded(g) / each).tensor, g.dtype());
}
Tensor padded_embedding(const Tensor& g, const Tensor& indices, int64_t padding) {
  const Recorded rows(call<Embedding>(g, indices, int64_t{-1}, false, false));
  if (padding < 0) return rows.tensor;
  Dims shape(indices.sizes());
  shape.push_back(1);
  const Tensor at = call<Reshape>(indices, IntList(shape.data(), shape.size()));
  return select(Recorded(call<Equal>(at, wrap_number(Scalar(padding), DType::Int64))), number(0, g), rows)
      .tensor;
}

}  // namespace rules

// --- On batches -----------------------------------------------------------------------------------

namespace {

/// A loss of classes: the batch joins the rows, for each of which it is found; and what its reduction is
/// then.
struct Classes {
  const BatchedCall& c;
  const BatchedTensor &target, &weight;
  int64_t ignore;
  bool one_row = target.rank() == 0;

  Tensor rows(const BatchedTensor& t) const { return one_row ? t.in_front() : t.joined(0); }
  Tensor split_rows(const Tensor& t) const { return one_row ? t : batching::parted(c, t, 0); }
  /// All dimensions but the batch.
  Tensor total(const Tensor& t) const {
    Dims dims;
    for (int64_t d = 1; d < t.dim(); ++d) dims.push_back(d);
    return dims.empty() ? t : call<Sum>(t, OptionalDims(dims.span()), false, OptionalType());
  }
  /// What a mean divides by: the weights of the rows that count.
  Tensor divisor(IntList sizes, DType dtype) const {
    return total(split_rows(call<NllLoss>(full(sizes, Scalar(-1), dtype), rows(target), weight.optional(),
                                          Text("none"), ignore)));
  }
  /// The gradient for each row.
  Tensor spread(const BatchedTensor& g, Text reduction, IntList sizes, DType dtype) const {
    if (reduction == "none") return rows(g);
    Tensor one = g.in_front();
    if (reduction == "mean") one = call<Div>(one, divisor(sizes, dtype));
    if (one_row) return one;
    const Tensor t = target.in_front();
    return batching::joined(call<Expand>(with_ones(one, t.dim() - 1), t.sizes()), 0);
  }
};

}  // namespace

void CrossEntropyBackward::batch(BatchedCall& c, Batched<"g"> g, Batched<"input"> input,
                                 Batched<"target"> target, Batched<"weight"> weight,
                                 Argument<Text, "reduction"> reduction,
                                 Argument<int64_t, "ignore_index"> ignore,
                                 Argument<double, "label_smoothing"> smoothing) {
  if (weight.batched()) return batching::loop(c);
  const Classes k{c, target, weight, ignore};
  const Tensor x = k.rows(input), of_rows = k.spread(g, reduction, x.sizes(), x.dtype());
  c.give(k.split_rows(
      call<CrossEntropyBackward>(of_rows, x, k.rows(target), weight.optional(), "none", ignore, smoothing)));
}

void NllLoss::batch(BatchedCall& c, Batched<"input"> input, Batched<"target"> target,
                    Batched<"weight"> weight, Argument<Text, "reduction"> reduction,
                    Argument<int64_t, "ignore_index"> ignore) {
  if (weight.batched()) return batching::composed(c);
  const Classes k{c, target, weight, ignore};
  const Tensor x = k.rows(input),
               each = k.split_rows(call<NllLoss>(x, k.rows(target), weight.optional(), "none", ignore));
  if (reduction.value == "none") return c.give(each);
  const Tensor sum = k.total(each);
  c.give(reduction.value == "sum" ? sum : call<Div>(sum, k.divisor(x.sizes(), x.dtype())));
}

void NllLossBackward::batch(BatchedCall& c, Batched<"g"> g, Argument<IntList, "size"> size,
                            Batched<"target"> target, Batched<"weight"> weight,
                            Argument<Text, "reduction"> reduction, Argument<int64_t, "ignore_index"> ignore) {
  if (weight.batched()) return batching::loop(c);
  const Classes k{c, target, weight, ignore};
  Dims sizes = k.one_row ? c.with_batch(size) : Dims(size.value);
  if (!k.one_row) sizes[0] *= c.size;
  const Tensor of_rows = k.spread(g, reduction, sizes.span(), g.tensor.dtype());
  c.give(k.split_rows(
      call<NllLossBackward>(of_rows, sizes.span(), k.rows(target), weight.optional(), "none", ignore)));
}

void Embedding::batch(BatchedCall& c, Batched<"weight"> weight, Batched<"indices"> indices,
                      Argument<int64_t, "padding_idx"> padding,
                      Argument<bool, "scale_grad_by_freq"> by_frequency) {
  if (!weight.batched())
    return c.give(call<Embedding>(weight.tensor, indices.samples(), padding, by_frequency, false));
  const Tensor only[] = {indices.bare()};
  const Tensor rows = call<Index>(weight.bare(), TensorList(only));
  // What is recorded outside of the batch sees no padding.
  if (padding < 0) return c.give_finished(rows);
  c.give_finished(call<Where>(call<Unsqueeze>(counts(only[0], padding), int64_t{-1}), rows, detach(rows)));
}

void EmbeddingBackward::batch(BatchedCall& c, Batched<"g"> g, Batched<"indices"> indices,
                              Argument<int64_t, "rows"> rows, Argument<int64_t, "padding_idx"> padding) {
  const Tensor only[] = {indices.bare()};
  Tensor each = g.bare();
  if (padding >= 0)
    each = call<Where>(call<Unsqueeze>(counts(only[0], padding), int64_t{-1}), each,
                       scalar_tensor(Scalar(0), each.dtype()));
  const int64_t sizes[] = {rows, each.size(-1)};
  c.give_finished(call<PutIndex>(each, IntList(sizes), TensorList(only)));
}

}  // namespace adjoint

ADJOINT_FAMILY(Losses)
