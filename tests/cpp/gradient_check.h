// Derivatives against finite differences, for any function of tensors: start at `gradients_agree`.
//
// With a fixed cotangent v the function becomes the real number L = Re <v, f(x)>, whose gradient the engine
// must give; each element of each input is moved along the real and, where it is complex, the imaginary axis.
// A second derivative is the first derivative of the gradient as the engine computes it with create_graph.
#pragma once

#include <functional>

#include "autograd/engine.h"
#include "autograd/meta.h"
#include "check.h"
#include "kernels/copy.h"

namespace check {

using adjoint::Tensor;
using adjoint::Tensors;
using Function = std::function<Tensor(const Tensors&)>;

/// Numbers that look random, in [-1, 1], the same in every run.
inline double wave(int64_t i, int64_t seed) {
  return std::sin(1.7 * static_cast<double>(i) + 0.9 * static_cast<double>(seed) + 0.3);
}

inline Tensor filled(adjoint::IntList sizes, adjoint::DType dtype, int64_t seed, double scale = 1,
                     double offset = 0) {
  Tensor t = adjoint::empty(sizes, dtype);
  for (int64_t i = 0; i < t.numel(); ++i)
    adjoint::write_element(t.bytes() + i * t.itemsize(), dtype,
                           adjoint::is_complex(dtype)
                               ? adjoint::Scalar(adjoint::Complex<double>(offset + scale * wave(i, seed),
                                                                          scale * wave(i, seed + 7)))
                               : adjoint::Scalar(offset + scale * wave(i, seed)));
  return t;
}

inline double inner(const Tensor& v, const Tensor& y) {
  const Tensor a = adjoint::dense(v), b = adjoint::dense(y);
  double sum = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const auto p = adjoint::read_element(a.bytes() + i * a.itemsize(), a.dtype()).as_complex();
    const auto q = adjoint::read_element(b.bytes() + i * b.itemsize(), b.dtype()).as_complex();
    sum += p.re * q.re + p.im * q.im;
  }
  return sum;
}

/// Copies that ask for a gradient.
inline Tensors leaves(const Tensors& inputs) {
  Tensors out;
  for (const Tensor& t : inputs) {
    out.push_back(adjoint::copy_of(t));
    adjoint::set_requires_grad(out.back(), true);
  }
  return out;
}

inline Tensors gradients(const Tensor& y, const Tensor& v, const Tensors& inputs, bool create_graph) {
  adjoint::BackwardOptions options;
  options.create_graph = create_graph;
  options.retain_graph = create_graph;
  options.accumulate = false;
  const Tensor ys[] = {y}, vs[] = {v};
  return adjoint::backward(ys, vs, inputs, options, true);
}

/// Whether the gradient of f agrees with central differences at `inputs` (float64 or complex128).
inline bool gradients_agree(const Function& f, const Tensors& inputs, int order = 1,
                            double tolerance = 2e-6) {
  const Tensors x = leaves(inputs);
  const Tensor y = f(x);
  const Tensor v = filled(y.sizes(), y.dtype(), 3);
  bool good = y.requires_grad();
  if (!good) std::fprintf(stderr, "  the result has no gradient\n");
  const Tensors g = good ? gradients(y, v, x, false) : Tensors(x.size());
  const double h = 1e-5;
  for (size_t k = 0; good && k < inputs.size(); ++k) {
    const bool complex = inputs[k].is_complex();
    if (g[k].defined() && !adjoint::same(g[k].sizes(), inputs[k].sizes())) good = false;
    const Tensor found =
        g[k].defined() ? adjoint::dense(g[k]) : adjoint::zeros(inputs[k].sizes(), inputs[k].dtype());
    for (int64_t i = 0; good && i < inputs[k].numel(); ++i) {
      const auto d = adjoint::read_element(found.bytes() + i * found.itemsize(), found.dtype()).as_complex();
      for (int axis = 0; axis < (complex ? 2 : 1); ++axis) {
        double ends[2];
        for (int end = 0; end < 2; ++end) {
          Tensors moved = leaves(inputs);
          auto z = adjoint::read_element(moved[k].bytes() + i * moved[k].itemsize(), moved[k].dtype())
                       .as_complex();
          (axis ? z.im : z.re) += end ? -h : h;
          adjoint::write_element(moved[k].bytes() + i * moved[k].itemsize(), moved[k].dtype(),
                                 complex ? adjoint::Scalar(z) : adjoint::Scalar(z.re));
          ends[end] = inner(v, f(moved));
        }
        const double slope = (ends[0] - ends[1]) / (2 * h), have = axis ? d.im : d.re;
        if (!(std::abs(slope - have) <= tolerance * (1 + std::abs(slope)))) {
          std::fprintf(stderr, "  order %d, input %zu, element %lld: %.9g by differences, %.9g by the rule\n",
                       order, k, static_cast<long long>(i), slope, have);
          good = false;
        }
      }
    }
  }
  return good;
}

/// The same for the gradient itself, as a function of all inputs.
inline bool second_derivatives_agree(const Function& f, const Tensors& inputs, double tolerance = 2e-6) {
  bool good = true;
  for (size_t k = 0; k < inputs.size(); ++k) {
    auto gradient = [&](const Tensors& x) {
      const Tensor y = f(x);
      const Tensor v = filled(y.sizes(), y.dtype(), 5);
      Tensor g = gradients(y, v, x, true)[k];
      return g.defined() ? g : adjoint::zeros(inputs[k].sizes(), inputs[k].dtype());
    };
    if (!gradient(leaves(inputs)).requires_grad()) continue;  // constant
    good &= gradients_agree(gradient, inputs, 2, tolerance);
  }
  return good;
}

inline bool derivatives_agree(const Function& f, const Tensors& inputs, double tolerance = 2e-6) {
  return gradients_agree(f, inputs, 1, tolerance) && second_derivatives_agree(f, inputs, tolerance);
}

}  // namespace check
