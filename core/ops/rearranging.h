// Copies of a tensor's elements in another order or number: flipped, rolled, repeated, cut to a triangle,
// padded.
//
// All are linear, so that a rule needs shapes and arguments and no values. Start reading at `Flip`.
#pragma once

#include "ops/contract/op.h"

namespace adjoint {

/// The gradient of a tensor that was repeated `repeats` times along each dimension. Recorded.
Tensor sum_repeats(const Tensor& g, IntList sizes, IntList repeats);
/// `values` with ones in front, or as given, so that there is one for each of `ndim` dimensions.
Dims padded_with_ones(IntList values, size_t ndim);
Dims negated(IntList values);

struct Flip : Structured {
  static constexpr auto name = "flip";
  static constexpr auto doc = "A copy with the order of elements along the given dimensions reversed.";
  static constexpr auto signature = "self, dims";
  static constexpr auto samples = Cases{"(3, 4), [0]", "(3, 4), [0, -1]", "(0, 3), [1]", "(), []"};
  static Tensor forward(Into into, const Tensor& self, DimList dims);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<IntList, "dims"> dims) { return call<Flip>(g, dims.value); }};
};

struct Roll : Structured {
  static constexpr auto name = "roll";
  static constexpr auto doc =
      "A copy with the elements moved along dimensions, those that fall off coming in at the other end. "
      "Without dimensions the tensor is rolled as if it were flat.";
  static constexpr auto signature = "self, shifts, dims=()";
  static constexpr auto samples = Cases{"(3, 4), [5]", "(3, 4), [1, -2], [0, -1]", "(0, 3), [1], [1]"};
  static Tensor forward(const Tensor& self, IntList shifts, DimList dims);
  static void batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "shifts"> shifts,
                    Argument<IntList, "dims"> dims);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<IntList, "shifts"> shifts, Argument<IntList, "dims"> dims) {
        return call<Roll>(g, negated(shifts.value).span(), dims.value);
      }};
};

struct Repeat : Structured {
  static void batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "repeats"> repeats);
  static constexpr auto name = "repeat";
  static constexpr auto doc = "Repeat the tensor along each dimension.";
  static constexpr auto signature = "self, repeats";
  static constexpr auto samples =
      Cases{"(3, 4), [2, 1]", "(3,), [2, 2]", "(3, 4), [0, 1]", "(), [2]", "(0, 3), [2, 1]"};
  static constexpr bool function = false;
  static Tensor forward(const Tensor& self, Repeats repeats);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp = Rules{[](Grad g, Shape<"self"> s, Argument<IntList, "repeats"> repeats) {
    return sum_repeats(g, s, repeats.value);
  }};
};

struct Tile : Structured {
  static constexpr auto name = "tile";
  static constexpr auto recorded_as = "repeat";
  static constexpr auto doc = "Repeat the tensor along its last dimensions, as many as numbers are given.";
  static constexpr auto signature = "self, dims";
  static constexpr auto samples = Cases{"(3, 4), [2]", "(3,), [2, 2]", "(0, 3), [2, 1]"};
  static Tensor forward(const Tensor& self, Repeats dims) {
    return Repeat::forward(self, padded_with_ones(dims, self.sizes().size()).span());
  }
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp = Rules{[](Grad g, Shape<"self"> s, Argument<IntList, "dims"> dims) {
    return sum_repeats(g, s, padded_with_ones(dims.value, s.sizes.size()).span());
  }};
};

struct RepeatInterleave : Structured {
  static constexpr auto name = "_repeat_interleave";
  static constexpr auto doc = "Each slice along a dimension repeated the same number of times.";
  static constexpr auto signature = "self, repeats, dim";
  static constexpr auto samples = Cases{"(3, 4), 2, 0", "(3, 4), 2, -1", "(3, 4), 0, 1", "(0, 3), 2, 1"};
  static Tensor forward(const Tensor& self, int64_t repeats, Dim dim);
  static Tensor gradient(const Tensor& g, IntList sizes, int64_t repeats, int64_t dim);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Shape<"self"> s, Argument<int64_t, "repeats"> repeats, Argument<int64_t, "dim"> dim) {
        return gradient(g, s, repeats, dim);
      }};
};

struct RepeatInterleaveEach : Structured {
  static constexpr auto name = "_repeat_interleave_each";
  static void batch(BatchedCall& c, Batched<"self"> self, Batched<"repeats"> repeats,
                    Argument<int64_t, "dim"> dim);
  static constexpr auto doc = "Each slice along a dimension repeated as often as a vector of integers says.";
  static constexpr auto signature = "self, repeats, dim";
  static constexpr auto samples =
      Cases{"(3, 4), [2, 0, 1], 0", "(2, 3), [1, 2, 0], -1", "(0, 3), [1, 2, 0], 1"};
  static Tensor forward(const Tensor& self, const Tensor& repeats, Dim dim);
  /// For each slice of the result, which one of the input it is.
  static Tensor sources(const Tensor& repeats, int64_t size);
  static Tensor gradient(const Tensor& g, IntList sizes, const Tensor& repeats, int64_t dim);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Shape<"self"> s, Input<"repeats"> repeats, Argument<int64_t, "dim"> dim) {
        return gradient(g, s, repeats, dim);
      }};
};

struct Tril : Structured {
  static constexpr auto name = "tril";
  static constexpr auto batch = batching::leading;
  static constexpr bool inplace = true;
  static constexpr auto doc = "The lower triangle of matrices up to a diagonal, zero above it.";
  static constexpr auto signature = "self, diagonal=0";
  static constexpr auto samples = Cases{"(3, 4)", "(3, 3), diagonal=1", "(2, 3, 3), diagonal=-1", "(0, 3)"};
  static Tensor forward(Into into, const Tensor& self, int64_t diagonal);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<int64_t, "diagonal"> diagonal) { return call<Tril>(g, diagonal.value); }};
};

struct Triu : Structured {
  static constexpr auto name = "triu";
  static constexpr auto batch = batching::leading;
  static constexpr bool inplace = true;
  static constexpr auto doc = "The upper triangle of matrices from a diagonal on, zero below it.";
  static constexpr auto signature = "self, diagonal=0";
  static constexpr auto samples = Cases{"(3, 4)", "(3, 3), diagonal=1", "(2, 3, 3), diagonal=-1", "(0, 3)"};
  static Tensor forward(Into into, const Tensor& self, int64_t diagonal);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<int64_t, "diagonal"> diagonal) { return call<Triu>(g, diagonal.value); }};
};

struct DiagEmbed : Structured {
  static constexpr auto name = "diag_embed";
  static constexpr auto doc =
      "Diagonal matrices: the last dimension of the input on a diagonal, zero elsewhere.";
  static constexpr auto signature = "self, offset=0, dim1=-2, dim2=-1";
  static constexpr auto samples =
      Cases{"(3,)", "(2, 3), offset=1", "(2, 3), offset=-1, dim1=0, dim2=2", "(2, 0)"};
  static Tensor forward(const Tensor& self, int64_t offset, NewDim dim1, NewDim dim2);
  static Tensor gradient(const Tensor& g, int64_t offset, int64_t dim1, int64_t dim2);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<int64_t, "offset"> offset, Argument<int64_t, "dim1"> a,
               Argument<int64_t, "dim2"> b) { return gradient(g, offset, a, b); }};
};

struct ConstantPad : Structured {
  static constexpr auto name = "constant_pad_nd";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "The tensor with a border of one value: `pad` holds numbers before and after, from the last dimension "
      "on; negative ones cut off.";
  static constexpr auto signature = "self, pad, value=0";
  static constexpr auto samples = Cases{"(3, 4), [1, 2]", "(3, 4), [1, -1, 0, 2], value=2", "(0, 3), [1, 1]"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& self, IntList pad, Scalar value);
  static constexpr auto vjp = Rules{[](Grad g, Argument<IntList, "pad"> pad) {
    return call<ConstantPad>(g, negated(pad.value).span(), Scalar(0));
  }};
};

struct OwnPadTransposed;

struct OwnPad : Structured {
  static constexpr auto name = "_own_pad";
  static constexpr auto recorded_as = "pad";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "The tensor with a border of its own elements, reflected ('reflect'), repeated ('replicate') or "
      "wrapped around "
      "('circular'); `pad` as of constant_pad_nd.";
  static constexpr auto signature = "self, pad, mode";
  static constexpr auto samples = Cases{"(3, 4), [1, 2], 'reflect'", "(2, 3, 4), [-1, 3, 2, 0], 'replicate'",
                                        "(2, 3, 4), [2, 1, 0, -1], 'circular'",
                                        "(2, 3, 2), [0, 0, 1, 2], 'reflect'", "(0, 3), [1, 1], 'replicate'"};
  static constexpr bool method = false;
  static constexpr auto gradient_keeps_history = KeepsHistory::Always;
  static Tensor forward(const Tensor& self, IntList pad, Text mode);
  static constexpr auto linear = LinearIn<"self">{};
  static Tensor rule(const Tensor& g, IntList shape, IntList pad, Text mode);
  static constexpr auto vjp =
      Rules{[](Grad g, Shape<"self"> s, Argument<IntList, "pad"> pad, Argument<Text, "mode"> mode) {
        return rule(g, s, pad.value, mode.value);
      }};
};

struct OwnPadTransposed : Structured {
  static constexpr auto name = "_own_pad_transposed";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "The transpose of _own_pad, for tensors whose last dimensions had these sizes: its gradient.";
  static constexpr auto signature = "g, sizes, pad, mode";
  static constexpr TypeSet types = types::field;
  static constexpr auto samples =
      Cases{"(3, 7), [4], [1, 2], 'reflect'", "(2, 5, 6), [3, 4], [-1, 3, 2, 0], 'replicate'",
            "(2, 2, 7), [3, 4], [2, 1, 0, -1], 'circular'", "(0, 5), [3], [1, 1], 'replicate'"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& g, IntList sizes, IntList pad, Text mode);
  static constexpr auto linear = LinearIn<"g">{};
  static constexpr auto vjp = Rules{[](Grad g, Argument<IntList, "pad"> pad, Argument<Text, "mode"> mode) {
    return call<OwnPad>(g, pad.value, mode.value);
  }};
};

inline Tensor OwnPad::rule(const Tensor& g, IntList shape, IntList pad, Text mode) {
  return call<OwnPadTransposed>(g, shape.last(pad.size() / 2), pad, mode);
}

/// For the derivatives of derivatives: `keep_history` in autograd/arithmetic.h.
struct Attach : Structured {
  static constexpr auto name = "_attach";
  static void batch(BatchedCall& c, Batched<"self"> self, Batched<"other"> other);
  static constexpr auto doc =
      "A copy of self that counts as a function of other too, with the derivative 0; and so does its "
      "gradient.";
  static constexpr auto signature = "self, other";
  static constexpr auto samples = Cases{"(3, 4), (2,)", "(), (0,)"};
  static constexpr bool method = false;
  static constexpr auto gradient_keeps_history = KeepsHistory::IfConstant;
  static Tensor forward(const Tensor& self, const Tensor& other);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g) { return Tensor(g); }, [](Shape<"other"> s) { return zeros(s, s.dtype); }};
};

struct PixelUnshuffle;
struct PixelShuffle : Structured {
  static constexpr auto name = "_pixel_shuffle";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "Channels become pixels: (..., C r^2, H, W) to (..., C, H r, W r) for the factor r.";
  static constexpr auto signature = "self, factor";
  static constexpr auto samples = Cases{"(2, 8, 3, 2), 2", "(9, 1, 2), 3", "(0, 4, 2, 3), 2"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& self, int64_t factor);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<int64_t, "factor"> factor) { return call<PixelUnshuffle>(g, factor.value); }};
};

struct PixelUnshuffle : Structured {
  static constexpr auto name = "_pixel_unshuffle";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "Pixels become channels: (..., C, H r, W r) to (..., C r^2, H, W) for the factor r.";
  static constexpr auto signature = "self, factor";
  static constexpr auto samples = Cases{"(2, 2, 6, 4), 2", "(1, 3, 6), 3", "(0, 1, 4, 6), 2"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& self, int64_t factor);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<int64_t, "factor"> factor) { return call<PixelShuffle>(g, factor.value); }};
};

using Rearranging =
    Family<Attach, Flip, Roll, Repeat, Tile, RepeatInterleave, RepeatInterleaveEach, Tril, Triu, DiagEmbed,
           ConstantPad, OwnPad, OwnPadTransposed, PixelShuffle, PixelUnshuffle>;

}  // namespace adjoint
