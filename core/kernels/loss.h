// Losses over classes, squared distance and embedding: one pass over the elements each.
#pragma once

#include <string_view>

#include "tensor/tensor.h"

namespace adjoint {

namespace kernels {

enum class Reduce : uint8_t { None, Mean, Sum };
Reduce reduce_of(std::string_view reduction, const char* op);

/// Options of losses over classes.
struct ClassLoss {
  Reduce reduce;
  int64_t ignore;
  double smoothing;
};
/// Cross-entropy of logits (or of log-probabilities: nll) with class indices.
Tensor class_loss(const Tensor& self, const Tensor& target, const Tensor& weight, const ClassLoss& options,
                  bool logits, const char* op);
Tensor class_loss_backward(const Tensor& g, const Tensor& self, const Tensor& target, const Tensor& weight,
                           const ClassLoss& options);
Tensor nll_backward(const Tensor& g, IntList sizes, const Tensor& target, const Tensor& weight,
                    const ClassLoss& options);
/// Mean or sum of (self - target)² for operands of one shape and type.
Tensor squared_distance(const Tensor& self, const Tensor& target, bool mean);
Tensor embedding(const Tensor& weight, const Tensor& indices, const char* op);
Tensor embedding_backward(const Tensor& g, const Tensor& indices, int64_t rows, int64_t padding);

}  // namespace kernels
}  // namespace adjoint
