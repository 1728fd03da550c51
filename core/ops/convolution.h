// Convolution: images of one to three dimensions with many channels, and the two gradients of it.
//
// The product of an image and a weight, y[o] = Σ w[o, c, k] x[c, stride · p + dilation · k - padding], is linear
// in both. It and its two transposes, one for each factor, are closed under differentiation: each one's rules are
// the other two. Transposed convolution is the transpose for the image. Sizes are given per spatial dimension;
// what users call (adjoint/nn/_convolution.py) checks them. Kernels: kernels/convolution.h.
#pragma once

#include "ops/op.h"

namespace adjoint {

namespace convolution {
// The rules; all are recorded under create_graph.
Tensors forward_rule(const Tensor& g, const Tensor& x, const Tensor& w, IntList stride, IntList padding,
                     IntList dilation, int64_t groups, Needs needs);
Tensors input_rule(const Tensor& h, const Tensor& g, const Tensor& w, IntList stride, IntList padding,
                   IntList dilation, int64_t groups, Needs needs);
Tensors weight_rule(const Tensor& v, const Tensor& x, const Tensor& g, IntList stride, IntList padding,
                    IntList dilation, int64_t groups, Needs needs);
}  // namespace convolution

/// A row that is reached through adjoint.nn.functional only.
struct ConvolutionRow : Structured {
  static constexpr bool method = false;
};

struct Convolution : ConvolutionRow {
  static constexpr auto name = "_convolution";
  static constexpr auto doc = "Images (N, C, …) convolved with weights (out, C / groups, …), plus a bias for each output.";
  static constexpr auto signature = "self, weight, stride, padding, dilation, groups, bias=None";
  static Tensor forward(const Tensor& self, const Tensor& weight, IntList stride, IntList padding,
                        IntList dilation, int64_t groups, OptionalTensor bias);
  static constexpr auto vjp =
      JointRule{[](Grad g, Input<0> x, Input<1> w, Argument<IntList, 2> stride, Argument<IntList, 3> padding,
                   Argument<IntList, 4> dilation, Argument<int64_t, 5> groups, Needs needs) {
        return convolution::forward_rule(g, x, w, stride, padding, dilation, groups, needs);
      }};
};

struct ConvolutionInput : ConvolutionRow {
  static constexpr auto name = "_convolution_input";
  static constexpr auto doc = "The transpose of _convolution for the image: from results to images of the given sizes.";
  static constexpr auto signature = "self, weight, sizes, stride, padding, dilation, groups";
  static Tensor forward(const Tensor& self, const Tensor& weight, IntList sizes, IntList stride,
                        IntList padding, IntList dilation, int64_t groups);
  static constexpr auto vjp =
      JointRule{[](Grad h, Input<0> g, Input<1> w, Argument<IntList, 3> stride, Argument<IntList, 4> padding,
                   Argument<IntList, 5> dilation, Argument<int64_t, 6> groups, Needs needs) {
        return convolution::input_rule(h, g, w, stride, padding, dilation, groups, needs);
      }};
};

struct ConvolutionWeight : ConvolutionRow {
  static constexpr auto name = "_convolution_weight";
  static constexpr auto doc = "The transpose of _convolution for the weight: from results to weights of the given sizes.";
  static constexpr auto signature = "self, result, sizes, stride, padding, dilation, groups";
  static Tensor forward(const Tensor& self, const Tensor& result, IntList sizes, IntList stride,
                        IntList padding, IntList dilation, int64_t groups);
  static constexpr auto vjp =
      JointRule{[](Grad v, Input<0> x, Input<1> g, Argument<IntList, 3> stride, Argument<IntList, 4> padding,
                   Argument<IntList, 5> dilation, Argument<int64_t, 6> groups, Needs needs) {
        return convolution::weight_rule(v, x, g, stride, padding, dilation, groups, needs);
      }};
};

using Convolutions = Family<Convolution, ConvolutionInput, ConvolutionWeight>;

}  // namespace adjoint
