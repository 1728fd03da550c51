// Attention by tiles: softmax(q kᵀ scale + mask) v without the matrix of weights.
#pragma once

#include <tuple>

#include "tensor/tensor.h"

namespace adjoint::kernels::attention {

/// What is asked for beside the tensors. A weight is left out with probability `dropout`, by random words
/// that are a function of seed, position and its place.
struct Options {
  bool causal;
  double scale, dropout;
  int64_t seed, position;
};

/// Of which arguments gradients are wanted; others are undefined.
struct Wanted {
  bool query, key, value, mask;
};

/// The sums of values, and of each query the logarithm of the sum of exponentials (float32 where the types
/// are half): -inf where it sees nothing, and the sum of values is 0. Leading dimensions broadcast.
std::tuple<Tensor, Tensor> forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                                   const Options& options, const char* op);
/// The cotangents of q, k, v and mask, each with all leading dimensions of the result (the mask with its
/// own). `g_log_sum` may be undefined.
std::tuple<Tensor, Tensor, Tensor, Tensor> backward(const Tensor& g, const Tensor& g_log_sum, const Tensor& q,
                                                    const Tensor& k, const Tensor& v, const Tensor& mask,
                                                    const Tensor& result, const Tensor& log_sum,
                                                    const Options& options, Wanted wanted, const char* op);
/// The factors that weights of this shape get by dropout: 0, or 1 / (1 - p).
Tensor factors(const Tensor& weights, const Options& options);

}  // namespace adjoint::kernels::attention
