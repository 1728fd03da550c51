// The C++ library in one include: tensors, every operator, recording, gradients.
//
//     const Tensor w = parameter(filled_somehow);
//     const Tensor loss = op<Sum>(call<Square>(call<Tanh>(call<Mul>(x, w))), {}, false, {});
//     backward(loss);
//     { GradMode off(false); call<Copy>(w, step(w, gradient(w))); }
//
// An operator is called by the struct that declares it (ops/<family>.h): `call<Op>(…)` converts its
// arguments, numbers beside tensors included; `op<Op>(…)` takes the very types of `Op::forward`, so that {}
// can stand for "not given", and gives all results. Both pass the one door: they promote, broadcast, record.
// Formulas may be written with + - * / on `Recorded`. Nothing here repeats what the rooms say:
// tensor/tensor.h has creation, autograd/meta.h what a leaf carries (gradient, hooks), autograd/engine.h the
// pass itself, runtime/ threads, memory and random numbers.
//
// Link the CMake target adjoint_core. Start reading at `parameter`.
#pragma once

#include <array>

#include "autograd/engine.h"
#include "autograd/meta.h"
#include "autograd/views.h"
#include "dispatch/operator.h"
#include "kernels/copy.h"
#include "runtime/allocator.h"
#include "runtime/parallel.h"
#include "runtime/random.h"
#include "tensor/tensor.h"

// Every header of ops/ that declares a family, as the build finds them.
#include "operators.inc"

namespace adjoint {

/// Sizes, strides or dimensions written in place: zeros(dims(2, 3), DType::Float32). Lives for the
/// expression.
template <class... I>
constexpr std::array<int64_t, sizeof...(I)> dims(I... i) {
  return {static_cast<int64_t>(i)...};
}

/// A structured operator with arguments of just its types: op<Sum>(x, {}, false, {}).
template <class Op>
  requires(!IsElementwise<Op>)
inline constexpr auto op = &Door<Op>::call;

/// A tensor of given values in row-major order.
template <class T>
Tensor tensor_of(std::span<const T> values, IntList sizes, DType dtype) {
  if (product(sizes) != static_cast<int64_t>(values.size()))
    fail<ValueError>("tensor_of: ", values.size(), " values do not fill the shape ", to_string(sizes));
  Tensor t = empty(sizes, dtype);
  for (size_t i = 0; i < values.size(); ++i)
    write_element(t.bytes() + static_cast<int64_t>(i) * t.itemsize(), dtype, Scalar(values[i]));
  return t;
}

/// The tensor itself, from now on a leaf that asks for its gradient.
inline Tensor parameter(Tensor t) {
  set_requires_grad(t, true);
  return t;
}

/// Add d y / d leaf to the gradient of every leaf that y depends on. `cotangent` may be left out for a single
/// number.
inline void backward(const Tensor& y, const Tensor& cotangent = {}, const BackwardOptions& options = {}) {
  BackwardOptions o = options;
  o.accumulate = true;
  o.retain_graph |= o.create_graph;
  backward({&y, 1}, {&cotangent, 1}, {}, o, false);
}

/// The gradients of y by `inputs`, in order. With create_graph they can be differentiated again.
inline Tensors grad(const Tensor& y, TensorList inputs, const BackwardOptions& options = {},
                    const Tensor& cotangent = {}) {
  BackwardOptions o = options;
  o.accumulate = false;
  o.retain_graph |= o.create_graph;
  return backward({&y, 1}, {&cotangent, 1}, inputs, o, false);
}

}  // namespace adjoint
