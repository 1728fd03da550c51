// What the rest of the bindings asks about tensors that stand for a batch.
#pragma once

#include <nanobind/nanobind.h>

#include "transforms/batching.h"

namespace adjoint::bind {

/// Raise the error by which a vmap() goes on sample by sample.
void set_per_sample_error(const PerSample& e);
/// Whether a tensor, or the samples that it stands for, need a gradient.
bool requires_grad_at_any_level(const Tensor& t);
/// Function.apply as if no argument were batched.
nanobind::object apply_past_batching(nanobind::handle cls, nanobind::tuple args);
/// Whether what the program sees of it is row-major.
bool lies_in_order(const Tensor& t);

}  // namespace adjoint::bind
