// The blocks of images that a kernel passes over: `unfold` and `fold` of adjoint.nn.functional, linear, and
// each other's transposes.
#pragma once

#include "kernels/blocks.h"
#include "ops/contract/op.h"

namespace adjoint {

struct FoldBlocks;

struct UnfoldBlocks : Structured {
  static constexpr auto name = "_unfold_blocks";
  static constexpr auto recorded_as = "im2col";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "The blocks of images that a kernel passes over, as columns: (…, C, H, W) to (…, C · kernel, blocks).";
  static constexpr auto signature = "self, kernel, dilation, padding, stride";
  static constexpr auto samples =
      Cases{"(2, 3, 4, 5), [2, 3], [1, 1], [0, 0], [1, 1]", "(1, 2, 5, 6), [2, 2], [2, 1], [1, 2], [2, 3]",
            "(0, 2, 3, 3), [2, 2], [1, 1], [0, 0], [1, 1]"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& self, IntList kernel, IntList dilation, IntList padding,
                        IntList stride) {
    return kernels::unfold(
        self, {.kernel = kernel, .dilation = dilation, .padding = padding, .stride = stride}, name);
  }
  static constexpr auto linear = LinearIn<"self">{};
  static Tensor rule(const Tensor& g, IntList shape, IntList kernel, IntList dilation, IntList padding,
                     IntList stride);
  static constexpr auto vjp = Rules{
      [](Grad g, Shape<"self"> s, Argument<IntList, "kernel"> kernel, Argument<IntList, "dilation"> dilation,
         Argument<IntList, "padding"> padding, Argument<IntList, "stride"> stride) {
        return rule(g, s, kernel.value, dilation.value, padding.value, stride.value);
      }};
};

struct FoldBlocks : Structured {
  static constexpr auto name = "_fold_blocks";
  static constexpr auto recorded_as = "col2im";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "The transpose of _unfold_blocks, for images of this height and width.";
  static constexpr auto signature = "self, size, kernel, dilation, padding, stride";
  static constexpr auto samples = Cases{"(2, 18, 9), [4, 5], [2, 3], [1, 1], [0, 0], [1, 1]",
                                        "(1, 8, 9), [5, 6], [2, 2], [2, 1], [1, 2], [2, 3]",
                                        "(0, 8, 4), [3, 3], [2, 2], [1, 1], [0, 0], [1, 1]"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& self, IntList size, IntList kernel, IntList dilation, IntList padding,
                        IntList stride) {
    return kernels::fold(
        self, size, {.kernel = kernel, .dilation = dilation, .padding = padding, .stride = stride}, name);
  }
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<IntList, "kernel"> kernel, Argument<IntList, "dilation"> dilation,
               Argument<IntList, "padding"> padding, Argument<IntList, "stride"> stride) {
        return call<UnfoldBlocks>(g, kernel.value, dilation.value, padding.value, stride.value);
      }};
};

inline Tensor UnfoldBlocks::rule(const Tensor& g, IntList shape, IntList kernel, IntList dilation,
                                 IntList padding, IntList stride) {
  return call<FoldBlocks>(g, shape.last(2), kernel, dilation, padding, stride);
}

using Blocks = Family<UnfoldBlocks, FoldBlocks>;

}  // namespace adjoint
