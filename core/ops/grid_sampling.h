// Images read at the places of a grid: `grid_sample` (adjoint/nn/rearranging/grid.py).
//
// What is read at a place is a sum of the elements around it, with weights that depend on the place. The rows
// say how often the weights are differentiated along each dimension, and so are closed: the derivative of one
// by the grid is one of the next order, and the derivative by the image is the transpose.
#pragma once

#include "kernels/grid_sampling.h"
#include "ops/contract/op.h"

namespace adjoint {

namespace rules {
/// The gradient by the grid of what is read of `x`: where nothing is recorded, in one pass.
Tensor grid_slopes(const Tensor& g, const Tensor& x, const Tensor& grid, Text mode, Text padding, bool align,
                   IntList orders);
}  // namespace rules

struct GridSampleTransposed;

struct GridSample : Structured {
  static constexpr auto name = "_grid_sample";
  static constexpr auto recorded_as = [](Argument<IntList, "orders"> orders) {
    return orders.value.size() == 3 ? "grid_sampler_3d" : "grid_sampler_2d";
  };
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "Images (…, C, sizes) read at places (…, sizes, dimensions), the last dimension of the image first. "
      "orders: how "
      "often the weights are differentiated by the places along each dimension.";
  static constexpr auto signature = "input, grid, mode, padding_mode, align_corners, orders";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{
      "(1, 2, 4, 3), [[[[0.3, -0.4], [-1.2, 0.9], [0.77, 1.4]]]], 'bilinear', 'zeros', False, [0, 0]",
      "(1, 1, 4, 3), [[[[0.3, -0.4], [-1.2, 0.9], [0.77, 2.4]]]], 'bicubic', 'reflection', True, [0, 0]",
      "(1, 2, 2, 4, 3), [[[[[0.3, -0.4, 0.6], [-1.2, 0.9, 0.1]]]]], 'bilinear', 'border', True, [0, 0, 0]",
      "(1, 2, 4, 3), [[[[0.3, -0.4], [-0.7, 0.9]]]], 'bicubic', 'zeros', False, [1, 0]",
      "(1, 2, 3), [[[0.3, -0.45], [0.75, 0.95]]], 'nearest', 'border', False, [0, 0]",
      "(0, 1, 2, 2), (0, 3, 1, 2), 'bilinear', 'zeros', False, [0, 0]"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& input, const Tensor& grid, Text mode, Text padding_mode,
                        bool align_corners, IntList orders) {
    return kernels::grid_sample(
        input, grid, {.mode = mode, .padding = padding_mode, .align = align_corners, .orders = orders}, name);
  }
  static constexpr auto linear = LinearIn<"input">{};
  static Tensor rule(const Tensor& g, const Tensor& grid, IntList shape, Text mode, Text padding, bool align,
                     IntList orders);
  static constexpr auto vjp =
      Rules{[](Grad g, Input<"grid"> grid, Shape<"input"> s, Argument<Text, "mode"> mode,
               Argument<Text, "padding_mode"> padding, Argument<bool, "align_corners"> align,
               Argument<IntList, "orders"> orders) { return rule(g, grid, s, mode, padding, align, orders); },
            [](Grad g, Input<"input"> x, Input<"grid"> grid, Argument<Text, "mode"> mode,
               Argument<Text, "padding_mode"> padding, Argument<bool, "align_corners"> align,
               Argument<IntList, "orders"> orders) {
              return rules::grid_slopes(g, x, grid, mode, padding, align, orders);
            }};
};

struct GridSampleTransposed : Structured {
  static constexpr auto name = "_grid_sample_transposed";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "The transpose of _grid_sample, for images of these sizes: its gradient.";
  static constexpr auto signature = "g, grid, sizes, mode, padding_mode, align_corners, orders";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{
      "(1, 2, 1, 3), [[[[0.3, -0.4], [-1.2, 0.9], [0.77, 1.4]]]], [4, 3], 'bilinear', 'zeros', False, [0, 0]",
      "(1, 1, 1, 3), [[[[0.3, -0.4], [-1.2, 0.9], [0.77, 2.4]]]], [4, 3], 'bicubic', 'reflection', True, [0, "
      "1]",
      "(1, 1, 1, 1, 2), [[[[[0.3, -0.4, 0.6], [-0.2, 0.9, 0.1]]]]], [2, 4, 3], 'nearest', 'border', True, "
      "[0, 0, 0]",
      "(0, 1, 3, 1), (0, 3, 1, 2), [2, 2], 'bilinear', 'zeros', False, [0, 0]"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& g, const Tensor& grid, IntList sizes, Text mode, Text padding_mode,
                        bool align_corners, IntList orders) {
    return kernels::grid_sample_transposed(
        g, grid, sizes, {.mode = mode, .padding = padding_mode, .align = align_corners, .orders = orders},
        name);
  }
  static constexpr auto linear = LinearIn<"g">{};
  static constexpr auto vjp = Rules{
      [](Grad g, Input<"grid"> grid, Argument<Text, "mode"> mode, Argument<Text, "padding_mode"> padding,
         Argument<bool, "align_corners"> align, Argument<IntList, "orders"> orders) {
        return call<GridSample>(g, grid, mode.value, padding.value, align.value, orders.value);
      },
      [](Grad g, Input<"g"> x, Input<"grid"> grid, Argument<Text, "mode"> mode,
         Argument<Text, "padding_mode"> padding, Argument<bool, "align_corners"> align,
         Argument<IntList, "orders"> orders) {
        return rules::grid_slopes(x, g, grid, mode, padding, align, orders);
      }};
};

inline Tensor GridSample::rule(const Tensor& g, const Tensor& grid, IntList shape, Text mode, Text padding,
                               bool align, IntList orders) {
  return call<GridSampleTransposed>(g, grid, shape.last(orders.size()), mode, padding, align, orders);
}

struct GridSampleSlopes : Structured {
  static constexpr auto name = "_grid_sample_slopes";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "The gradient of _grid_sample by the grid, in one pass.";
  static constexpr auto signature = "g, input, grid, mode, padding_mode, align_corners, orders";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{
      "(1, 2, 1, 3), (1, 2, 4, 3), [[[[0.3, -0.4], [-1.2, 0.9], [0.77, 1.4]]]], 'bilinear', 'zeros', False, "
      "[0, 0]",
      "(2, 1, 1, 1), (2, 2, 4, 3), [[[[0.3, -0.4, 0.6]]]], 'bilinear', 'border', True, [0, 0, 0]",
      "(0, 1, 3, 1), (0, 1, 2, 2), (0, 3, 1, 2), 'bicubic', 'zeros', False, [1, 0]"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& g, const Tensor& input, const Tensor& grid, Text mode,
                        Text padding_mode, bool align_corners, IntList orders) {
    return kernels::grid_sample_slopes(
        g, input, grid, {.mode = mode, .padding = padding_mode, .align = align_corners, .orders = orders},
        name);
  }
};

using GridSampling = Family<GridSample, GridSampleTransposed, GridSampleSlopes>;

}  // namespace adjoint
