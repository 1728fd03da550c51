// Random numbers in a tensor, which may lie anyhow: each element is drawn in float32 or float64 and
// converted. Where the generator's numbers are torch's, elements are drawn in the order in which they lie in
// memory.
#pragma once

#include "runtime/random.h"
#include "tensor/tensor.h"

namespace adjoint::kernels {

/// In [low, high).
void draw_uniform(const Tensor& t, double low, double high, runtime::Generator* g);
void draw_normal(const Tensor& t, double mean, double deviation, runtime::Generator* g);
void draw_exponential(const Tensor& t, double rate, runtime::Generator* g);
/// 1 with probability p, else 0; or with that of each element of p, which is of the type of t, and refused
/// where it is none.
void draw_bernoulli(const Tensor& t, double p, runtime::Generator* g);
void draw_bernoulli_each(const Tensor& t, const Tensor& p, runtime::Generator* g);
enum class Transformed { LogNormal, Cauchy, Geometric };
void draw_transformed(const Tensor& t, Transformed kind, double a, double b, runtime::Generator* g);
/// Integers in low + [0, range), of all 64 bits where the range is 0; `whole` is all of a type.
void draw_integers(const Tensor& t, int64_t low, uint64_t range, bool whole, runtime::Generator* g);
/// The numbers below the length of int64 t.
void draw_permutation(const Tensor& t, runtime::Generator* g);
/// Columns of each row of weights, which are float64 and were of that type, or were `narrow`.
void draw_columns(const Tensor& t, const Tensor& weights, bool replacement, bool narrow,
                  runtime::Generator* g);

}  // namespace adjoint::kernels
