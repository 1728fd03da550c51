// Draws by rejection: gamma, Poisson, binomial; each element from a stream of its own or, where a generator
// is given, which must be one of torch's numbers, one after another from that.
#pragma once

#include "runtime/random.h"
#include "tensor/tensor.h"

namespace adjoint {

namespace kernels {

Tensor sample_gamma(const Tensor& concentration, int64_t seed, int64_t position,
                    runtime::Generator* generator, const char* op);
Tensor sample_poisson(const Tensor& rate, int64_t seed, int64_t position, runtime::Generator* generator,
                      const char* op);
Tensor sample_binomial(const Tensor& count, const Tensor& prob, int64_t seed, int64_t position,
                       runtime::Generator* generator, const char* op);
/// The derivative of a gamma draw by its concentration, at fixed probability.
Tensor gamma_draw_derivative(const Tensor& concentration, const Tensor& draw, const char* op);

}  // namespace kernels
}  // namespace adjoint
