// Joining tensors: end to end along a dimension, or along a new one.
//
// The type of the result is what the inputs promote to. Start reading at `Cat`.
#pragma once

#include "ops/contract/op.h"

namespace adjoint {

/// The parts of g that belong to tensors of the given sizes, laid end to end along `dim`. Recorded.
Tensors cut_gradient(const Tensor& g, const ListSizes& sizes, int64_t dim);

struct Cat : Structured {
  static constexpr auto name = "cat";
  static constexpr bool out_converts = true;
  static constexpr auto batch = batching::leading;
  static constexpr auto aliases = "concat, concatenate";
  static constexpr auto doc = "Concatenate tensors along an existing dimension; all other sizes must match.";
  static constexpr auto signature = "tensors, dim=0";
  static constexpr auto samples =
      Cases{"[(2, 3), (1, 3)]", "[(2, 3), (2, 1), (2, 0)], dim=-1", "[(0,), (2, 3)]"};
  static constexpr bool method = false;
  static Tensor forward(Into into, TensorList tensors, Dim dim);
  static constexpr auto linear = LinearIn<"tensors">{};
  static constexpr auto vjp = JointRule{
      [](Grad g, ListSizes sizes, Argument<int64_t, "dim"> dim) { return cut_gradient(g, sizes, dim); }};
};

struct Unbind;

struct Stack : Structured {
  static constexpr auto name = "stack";
  static constexpr bool out_converts = true;
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "Stack tensors of one shape along a new dimension.";
  static constexpr auto signature = "tensors, dim=0";
  static constexpr auto samples =
      Cases{"[(2, 3), (2, 3)]", "[(2, 3), (2, 3), (2, 3)], dim=-1", "[(), ()]", "[(0, 2), (0, 2)], dim=1"};
  static constexpr bool method = false;
  static Tensor forward(Into into, TensorList tensors, NewDim dim);
  static Tensors gradient(const Tensor& g, int64_t dim);
  static constexpr auto linear = LinearIn<"tensors">{};
  static constexpr auto vjp =
      JointRule{[](Grad g, Argument<int64_t, "dim"> dim) { return gradient(g, dim); }};
};

using Joining = Family<Cat, Stack>;

}  // namespace adjoint
