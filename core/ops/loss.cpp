// Losses put together from recorded operators, what the fused ones are composed of, and their rules.
#include "ops/loss.h"

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
  if (ignore >= 0) fail(op, "(): ignore_index is not supported for floating point target, but got ", ignore);
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
  const Tensor positive = pos_weight.defined() ? pos_weight : number(1, self).tensor;
  Recorded loss = call<BceTerms>(self, target, positive);
  if (weight.defined()) loss = loss * Recorded(weight);
  return reduced(loss.tensor, reduce);
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
Tensor padded_embedding(const Tensor& g, const Tensor& indices, int64_t padding) {
  const Recorded rows(call<Embedding>(g, indices, int64_t{-1}, false));
  if (padding < 0) return rows.tensor;
  Dims shape(indices.sizes());
  shape.push_back(1);
  const Tensor at = call<Reshape>(indices, IntList(shape.data(), shape.size()));
  return select(Recorded(call<Equal>(at, wrap_number(Scalar(padding), DType::Int64))), number(0, g), rows)
      .tensor;
}

}  // namespace rules
}  // namespace adjoint

ADJOINT_FAMILY(Losses)
