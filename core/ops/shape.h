// Shapes and views: a new tensor over the same bytes, or the bytes in another order.
#pragma once

#include "ops/op.h"

namespace adjoint {

/// The gradient summed over the dimensions that broadcasting added or stretched: recorded.
Tensor sum_to_shape(const Tensor& g, IntList sizes);

struct Expand : Structured {
  static constexpr auto name = "expand";
  static constexpr auto doc = "A view with dimensions of size 1 repeated to the given sizes; -1 keeps a size.";
  static constexpr auto signature = "self, size";
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self, IntList size);
  static constexpr auto vjp = Rules{[](Grad g, Shape<0> s) { return sum_to_shape(g, s); }};
};

struct Reshape : Structured {
  static constexpr auto name = "reshape";
  static constexpr auto doc = "The elements in row-major order under another shape: a view where the layout allows, else a copy.";
  static constexpr auto signature = "self, shape";
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self, IntList shape);
  static constexpr auto vjp = Rules{[](Grad g, Shape<0> s) { return call<Reshape>(g, IntList(s)); }};
};

struct To : Structured {
  static constexpr auto name = "_to_type";
  static constexpr auto doc = "A copy in another type.";
  static constexpr auto signature = "self, dtype";
  static Tensor forward(const Tensor& self, DType dtype);
  static constexpr auto vjp = Rules{[](Grad g, Shape<0> s) { return call<To>(g, s.dtype); }};
};

using ShapeOps = Family<Expand, Reshape, To>;

}  // namespace adjoint

#include "ops/reduction.h"
