// Normalisation and its gradients: over the last dimensions (kernels/cpu/normalization.cpp), and by channels
// (kernels/cpu/channel_norm.cpp).
#pragma once

#include <tuple>

#include "tensor/tensor.h"

namespace adjoint {

namespace kernels {

/// What is not `centred` is divided by its root mean square alone.
Tensor layer_norm(const Tensor& self, IntList normalized_shape, const Tensor& weight, const Tensor& bias,
                  double eps, const char* op, bool centred = true);
/// Of which arguments gradients are wanted; others are undefined.
struct WantedOfNorm {
  bool input = false, weight = false, bias = false;
};
/// Gradients of the input, the weight and the bias. The weight is asked for by the input's alone.
std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& g, const Tensor& self,
                                                       const Tensor& weight, int64_t dims, double eps,
                                                       WantedOfNorm wanted, bool centred = true);

/// The gradient by the input of the sum of `v` times the gradient of the input above, which `g` gives.
Tensor layer_norm_twice(const Tensor& v, const Tensor& g, const Tensor& self, const Tensor& weight,
                        int64_t dims, double eps, bool centred, const char* op);

/// Images (N, C, …), standardised over the channels of each of `groups` groups of an image, or, without
/// groups, over the batch for each channel, or by a mean and a variance that are given for each channel; then
/// scaled and shifted for each channel. Also the mean and the variance of each group, (N, groups) or (C),
/// where they were found.
std::tuple<Tensor, Tensor, Tensor> channel_norm(const Tensor& self, const Tensor& weight, const Tensor& bias,
                                                const Tensor& mean, const Tensor& variance, int64_t groups,
                                                double eps, const char* op);
/// Gradients as of layer_norm_backward, from the statistics that channel_norm gave, or was given: these are
/// `fixed`.
std::tuple<Tensor, Tensor, Tensor> channel_norm_backward(const Tensor& g, const Tensor& self,
                                                         const Tensor& weight, const Tensor& mean,
                                                         const Tensor& variance, int64_t groups, double eps,
                                                         bool fixed, WantedOfNorm wanted, const char* op);

}  // namespace kernels
}  // namespace adjoint
