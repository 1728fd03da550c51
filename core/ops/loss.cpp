// Losses put together from recorded operators, and the rules of the fused ones.
#include "ops/loss.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/comparison.h"
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

/// What each class of each row counts in the loss.
Tensor class_weights(const Tensor& self, int64_t dim, const Tensor& target, const Tensor& weight,
                     const kernels::ClassLoss& options) {
  const auto [reduce, ignore, smoothing] = options;
  const Tensor ones = full(target.sizes(), Scalar(1), self.dtype());
  Recorded q = -Recorded(
      call<NllLossBackward>(ones, Sizes(self.sizes()), target, OptionalTensor(weight), Text("none"), ignore));
  const Recorded sum(call<Sum>(q.tensor, OptionalInts(), false, OptionalType()));
  const Recorded total = select(Recorded(call<Equal>(sum.tensor, number(0, self).tensor)), number(1, self),
                                sum);  // where all are ignored
  if (smoothing > 0) {
    Dims shape(self.sizes());
    shape[static_cast<size_t>(dim)] = 1;
    const Tensor counts =
        call<To>(call<NotEqual>(target, wrap_number(Scalar(ignore), DType::Int64)), self.dtype());
    const Recorded rows(call<Reshape>(counts, IntList(shape.data(), shape.size())));
    const Tensor each = weight.defined() ? per_class(weight, self, dim) : number(1, self).tensor;
    q = q * number(1 - smoothing, self) +
        rows * Recorded(each) * number(smoothing / static_cast<double>(self.size(dim)), self);
  }
  return (reduce == kernels::Reduce::Mean ? q / total : q).tensor;
}

}  // namespace

namespace compose {

Tensor cross_entropy(const Tensor& self, const Tensor& target, const Tensor& weight, Text reduction,
                     int64_t ignore, double smoothing, const char* op) {
  if (!is_differentiable(target.dtype()))
    return call<ClassCrossEntropy>(self, target, OptionalTensor(weight), reduction, ignore, smoothing);
  const kernels::Reduce reduce = kernels::reduce_of(reduction, op);
  if (self.dim() > 1 && target.dim() > 0 && self.size(0) != target.size(0))
    fail<ValueError>(op, "(): Expected input batch_size (", self.size(0), ") to match target batch_size (",
                     target.size(0), "); the shapes are ", to_string(self.sizes()), " and ",
                     to_string(target.sizes()));
  if (self.dim() == 0 || !same(self.sizes(), target.sizes()))
    fail(op, "(): expected target dtype to be Long or Byte, but got ", type_name_of(target.dtype()),
         ": probabilities have the shape of the input, ", to_string(self.sizes()), ", and not ",
         to_string(target.sizes()));
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
         " classes or no classes but got weight tensor of shape: ", to_string(weight.sizes()));
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
    fail<ValueError>(op, "(): Target size (", to_string(target.sizes()), ") must be the same as input size (",
                     to_string(self.sizes()), ")");
  const Tensor positive = pos_weight.defined() ? pos_weight : number(1, self).tensor;
  Recorded loss = call<BceTerms>(self, target, positive);
  if (weight.defined()) loss = loss * Recorded(weight);
  return reduced(loss.tensor, reduce);
}

}  // namespace compose

namespace rules {

Tensor cross_entropy(const Tensor& g, const Tensor& self, const Tensor& target, const Tensor& weight,
                     Text reduction, int64_t ignore, double smoothing) {
  if (!recording())
    return call<CrossEntropyBackward>(g, self, target, OptionalTensor(weight), reduction, ignore, smoothing);
  // The loss is -sum(q log softmax(x)) with constants q: its gradient is softmax(x) sum(q) - q.
  const kernels::Reduce reduce = kernels::reduce_of(reduction, "cross_entropy");
  const int64_t dim = self.dim() == 1 ? 0 : 1;
  const Tensor q = class_weights(self, dim, target, weight, {reduce, ignore, smoothing});
  Recorded upper(g);
  if (reduce == kernels::Reduce::None) {
    Dims shape(self.sizes());
    shape[static_cast<size_t>(dim)] = 1;
    upper = call<Reshape>(g, IntList(shape.data(), shape.size()));
  }
  const Recorded p(call<Softmax>(self, dim, OptionalType()));
  return (upper * (p * Recorded(summed(q, dim, true)) - Recorded(q))).tensor;
}

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
