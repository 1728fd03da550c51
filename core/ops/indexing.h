// Reading elements by index: what x[…] is made of, and gather with its relatives. Writing is in
// ops/writing.h.
//
// Basic indexing (integers, slices, new axes) is one view operator, whatever the mixture. Advanced indexing
// takes a list with one tensor or nothing per dimension: tensors of integers broadcast with each other, masks
// stand for the positions where they hold. The result's index dimensions stand where the indexed ones stood,
// or in front when those are not neighbours. Start reading at `BasicIndex`; Python's side is
// bind/indexing.cpp.
#pragma once

#include "ops/contract/op.h"
#include "ops/part.h"

namespace adjoint {

/// What one entry of a basic index does. In a spec each entry is four numbers: kind, start, step, length.
enum class Pick : int64_t {
  Integer,  // the slice at `start`: the dimension goes
  Slice,    // `length` indices from `start`, every `step`
  NewAxis,  // a dimension of size 1
};
/// The part that a spec picks; checked. Dimensions that the spec does not reach are kept.
Part picked_part(const Part& whole, IntList spec);

// Gradients of reads by masks and by flat positions. Recorded.
Tensor masked_select_gradient(const Tensor& g, IntList sizes, const Tensor& mask);
Tensor take_gradient(const Tensor& g, IntList sizes, const Tensor& index);

struct BasicIndex : Structured {
  static constexpr auto name = "_basic_index";
  static constexpr auto doc = "The view that a mixture of integers, slices and new axes picks.";
  static constexpr auto signature = "self, spec";
  static constexpr auto samples =
      Cases{"(3, 4), [0, 1, 0, 0]", "(3, 4), [1, 0, 2, 2, 2, 0, 0, 0, 0, 3, 0, 0]", "(3, 4), [1, 1, 1, 0]",
            "(), [2, 0, 0, 0]", "(0, 3), [1, 0, 1, 0, 0, 1, 0, 0]"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self, IndexSpec spec);
  /// Named for the last thing that the index does, as if its entries were operators of their own.
  static constexpr auto recorded_as = [](Argument<IntList, "spec"> given) {
    const IntList spec = given;
    for (size_t i = spec.size(); i >= 4; i -= 4) {
      if (spec[i - 4] == static_cast<int64_t>(Pick::Integer)) return "select";
      if (spec[i - 4] == static_cast<int64_t>(Pick::NewAxis)) return "unsqueeze";
      if (spec[i - 3] != 0 || spec[i - 2] != 1) break;
    }
    return "slice";
  };
  static constexpr auto vjp = Rules{[](Grad g, Shape<"self"> s, Argument<IntList, "spec"> spec) {
    return put_part(g, s, picked_part(whole(s), spec.value));
  }};
};

// Reads by index are linear, and so are the operators of their gradients: zeros with a tensor added where a
// read with the same indices would look. Each is the other's rule.
struct PutIndex;
struct PutSlices;
struct PutAlong;

struct Index : Structured {
  static constexpr auto name = "_index";
  static void batch(BatchedCall& c, Batched<"self"> self, Argument<OptionalTensorList, "indices"> indices);
  static constexpr auto doc =
      "Elements at the positions that tensors of integers, or masks, name; one or None per dimension.";
  static constexpr auto signature = "self, indices";
  static constexpr auto samples = Cases{"(3, 4), [[0, 2, 0], None]",   "(3, 4), [None, index(2, 2, below=4)]",
                                        "(3, 4), [mask(3, 4)]",        "(3, 4, 2), [[0, 2], None, [-1, 1]]",
                                        "(3, 4), [index(0, below=3)]", "(3, 4), [mask(3), None]"};
  static constexpr bool crosses_devices = true;
  static Tensor forward(const Tensor& self, OptionalTensorList indices);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp = Rules{[](Grad g, Shape<"self"> s, InputList indices) {
    return call<PutIndex>(g, IntList(s), TensorList(indices));
  }};
};

struct PutIndex : Structured {
  static constexpr auto name = "_put_index";
  static void batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "shape"> shape,
                    Argument<OptionalTensorList, "indices"> indices);
  static constexpr auto doc =
      "Zeros of the given shape, with a tensor added at the positions that index tensors, or masks, name.";
  static constexpr auto signature = "self, shape, indices";
  static constexpr auto samples =
      Cases{"(3, 4), [3, 4], [[0, 2, 0], None]", "(3, 2, 2), [3, 4], [None, index(2, 2, below=4)]",
            "(2,), [2, 2], [[[True, False], [False, True]]]", "(0, 4), [3, 4], [index(0, below=3)]"};
  static constexpr bool crosses_devices = true;
  static Tensor forward(const Tensor& self, Sizes shape, OptionalTensorList indices);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, InputList indices) { return call<Index>(g, TensorList(indices)); }};
};

struct IndexSelect : Structured {
  static constexpr auto name = "index_select";
  static void batch(BatchedCall& c, Batched<"self"> self, Argument<int64_t, "dim"> dim,
                    Batched<"index"> index);
  static constexpr auto doc = "Select slices along a dimension by a vector of indices.";
  static constexpr auto signature = "self, dim, index";
  static constexpr auto samples = Cases{"(3, 4), 0, [2, 0, 2]", "(3, 4), -1, index(5, below=4)",
                                        "(3, 4), 1, index(0, below=4)", "(), 0, [0]"};
  static Tensor forward(Into into, const Tensor& self, Dim dim, const Tensor& index);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Shape<"self"> s, Argument<int64_t, "dim"> dim, Input<"index"> index) {
        return call<PutSlices>(g, IntList(s), dim.value, index);
      }};
};

struct PutSlices : Structured {
  static constexpr auto name = "_put_slices";
  static void batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "shape"> shape,
                    Argument<int64_t, "dim"> dim, Batched<"index"> index);
  static constexpr auto doc =
      "Zeros of the given shape, with slices added where a vector of integers says along a dimension.";
  static constexpr auto signature = "self, shape, dim, index";
  static constexpr auto samples = Cases{"(3, 4), [3, 4], 0, [2, 0, 2]", "(3, 2), [3, 4], 1, [3, 1]",
                                        "(0, 4), [3, 4], 0, index(0, below=3)"};
  static Tensor forward(const Tensor& self, Sizes shape, Dim dim, const Tensor& index);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp = Rules{[](Grad g, Argument<int64_t, "dim"> dim, Input<"index"> index) {
    return call<IndexSelect>(g, dim.value, index);
  }};
};

struct Gather : Structured {
  static constexpr auto name = "gather";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "Gather elements along a dimension: each index replaces that coordinate of its own position.";
  static constexpr auto signature = "self, dim, index, *, sparse_grad=False";
  static constexpr auto samples =
      Cases{"(3, 4), 0, index(2, 4, below=3)", "(3, 4), -1, index(3, 5, below=4), sparse_grad=False",
            "(3, 4), 0, index(0, 4, below=3)", "(), 0, index(below=1)"};
  static Tensor forward(Into into, const Tensor& self, Dim dim, const Tensor& index, bool sparse_grad);
  static constexpr auto linear = LinearIn<"self">{};
  static Tensor gradient(const Tensor& g, IntList sizes, int64_t dim, const Tensor& index, bool sparse);
  static constexpr auto vjp = Rules{
      [](Grad g, Shape<"self"> s, Argument<int64_t, "dim"> dim, Input<"index"> index,
         Argument<bool, "sparse_grad"> sparse) { return gradient(g, s, dim.value, index, sparse.value); }};
};

struct PutAlong : Structured {
  static constexpr auto name = "_put_along";
  static void batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "shape"> shape);
  static constexpr auto doc =
      "Zeros of the given shape, with the elements of a tensor added where `index` says along one dimension.";
  static constexpr auto signature = "self, shape, dim, index";
  static constexpr auto samples =
      Cases{"(2, 4), [3, 4], 0, index(2, 4, below=3)", "(3, 5), [3, 4], 1, index(3, 5, below=4)",
            "(0, 4), [3, 4], 0, index(0, 4, below=3)"};
  static Tensor forward(const Tensor& self, Sizes shape, Dim dim, const Tensor& index);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp = Rules{[](Grad g, Argument<int64_t, "dim"> dim, Input<"index"> index) {
    return call<Gather>(g, dim.value, index, false);
  }};
};

struct Take : Structured {
  static constexpr auto name = "take";
  static void batch(BatchedCall& c, Batched<"self"> self, Batched<"index"> index);
  static constexpr auto doc = "Elements of the flattened tensor at the given positions.";
  static constexpr auto signature = "self, index";
  static constexpr auto samples =
      Cases{"(3, 4), index(2, 3, below=12)", "(3, 4), [-1, 0]", "(0,), index(0, below=1)"};
  static Tensor forward(Into into, const Tensor& self, const Tensor& index);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Shape<"self"> s, Input<"index"> index) { return take_gradient(g, s, index); }};
};

struct MaskedSelect : Structured {
  static constexpr auto name = "masked_select";
  static constexpr auto batch = batching::dynamic;
  static constexpr auto doc =
      "Select the elements where a mask is true, in row-major order, as a vector. The two broadcast.";
  static constexpr auto signature = "self, mask";
  static constexpr auto samples =
      Cases{"(3, 4), mask(3, 4)", "(3, 4), mask(4)", "(4,), mask(3, 1)", "(0, 3), mask(3)", "(), mask()"};
  static Tensor forward(const Tensor& self, const Tensor& mask);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Shape<"self"> s, Input<"mask"> mask) { return masked_select_gradient(g, s, mask); }};
};

struct Nonzero : Structured {
  static constexpr auto name = "_nonzero";
  static constexpr auto batch = batching::dynamic;
  static constexpr auto doc = "The positions of the nonzero elements, in row-major order: one row each.";
  static constexpr auto signature = "self";
  static constexpr auto samples = Cases{"[[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]]", "(3, 4)", "()", "(0, 3)"};
  static constexpr bool differentiable = false;
  static Tensor forward(Into into, const Tensor& self);
};

using Indexing = Family<BasicIndex, Index, PutIndex, IndexSelect, PutSlices, Gather, PutAlong, Take,
                        MaskedSelect, Nonzero>;

}  // namespace adjoint
