// The loss of connectionist temporal classification (Graves et al., 2006), and its derivative.
#pragma once

#include "tensor/tensor.h"

namespace adjoint::kernels {

/// How targets are spelled: how many steps each sample has, how many letters, and which class is between
/// them.
struct Spelling {
  IntList steps, letters;
  int64_t blank;
  /// What is impossible counts 0, and so does its derivative; else an infinity, and NaN.
  bool zero_infinity;
};

/// log_probs is (…, T, N, C) and targets (…, N, S), of integers; the result is (…, N).
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Spelling& how, const char* op);
/// The derivative by log_probs times g, which is (…, N).
Tensor ctc_loss_backward(const Tensor& g, const Tensor& log_probs, const Tensor& targets, const Spelling& how,
                         const char* op);

}  // namespace adjoint::kernels
