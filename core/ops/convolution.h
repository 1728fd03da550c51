// Convolution: images of one to three dimensions with many channels, and the two gradients of it.
//
// The product of an image and a weight, y[o] = Σ w[o, c, k] x[c, stride · p + dilation · k - padding], is
// linear in both. It and its two transposes, one for each factor, are closed under differentiation: each
// one's rules are the other two. Transposed convolution is the transpose for the image. Sizes are given per
// spatial dimension; what users call (adjoint/ops/convolution.py) checks them. Kernels:
// kernels/convolution.h.
#pragma once

#include "ops/contract/op.h"
#include "ops/product.h"

namespace adjoint {

namespace convolution {
/// The sum of g over all dimensions but the channels: recorded.
Tensor sum_to_bias(const Tensor& g);
}  // namespace convolution

/// A row that is reached through adjoint.nn.functional only.
struct ConvolutionRow : Structured {
  static constexpr bool method = false;
};

struct ConvolutionInput;
struct ConvolutionWeight;

struct Convolution : ConvolutionRow {
  static constexpr auto name = "_convolution";
  static void batch(BatchedCall& c, Batched<"self"> x, Batched<"weight"> w,
                    Argument<IntList, "stride"> stride, Argument<IntList, "padding"> padding,
                    Argument<IntList, "dilation"> dilation, Argument<int64_t, "groups"> groups,
                    Batched<"bias"> bias);
  static constexpr auto doc =
      "Images (N, C, …) convolved with weights (out, C / groups, …), plus a bias for each output.";
  static constexpr auto signature = "self, weight, stride, padding, dilation, groups, bias=None";
  static constexpr TypeSet types = types::numeric;
  static constexpr auto samples = Cases{
      "(2, 2, 5), (3, 2, 3), [1], [1], [1], 1, (3,)", "(1, 4, 5, 4), (2, 2, 3, 2), [2, 1], [1, 0], [1, 2], 2",
      "(1, 1, 3, 3, 3), (1, 1, 2, 2, 2), [1, 1, 1], [0, 0, 0], [1, 1, 1], 1",
      "(2, 3, 5), (3, 1, 3), [1], [1], [1], 3", "(0, 2, 5), (3, 2, 3), [1], [0], [1], 1, (3,)"};
  static Tensor forward(const Tensor& self, const Tensor& weight, IntList stride, IntList padding,
                        IntList dilation, int64_t groups, OptionalTensor bias);
  static constexpr auto linear = ProductAndSum<MultilinearIn<"self", "weight">, LinearIn<"bias">>{};
  static constexpr auto vjp =
      Rules{[](Grad g, Shape<"self"> s, Input<"weight"> w, Argument<IntList, "stride"> stride,
               Argument<IntList, "padding"> padding, Argument<IntList, "dilation"> dilation,
               Argument<int64_t, "groups"> groups) {
              return call<ConvolutionInput>(g, conjugate(w), IntList(s), stride.value, padding.value,
                                            dilation.value, groups.value);
            },
            [](Grad g, Input<"self"> x, Shape<"weight"> s, Argument<IntList, "stride"> stride,
               Argument<IntList, "padding"> padding, Argument<IntList, "dilation"> dilation,
               Argument<int64_t, "groups"> groups) {
              return call<ConvolutionWeight>(conjugate(x), g, IntList(s), stride.value, padding.value,
                                             dilation.value, groups.value);
            },
            [](Grad g) { return convolution::sum_to_bias(g); }};
};

struct ConvolutionInput : ConvolutionRow {
  static constexpr auto name = "_convolution_input";
  static constexpr auto recorded_as = "convolution";
  static void batch(BatchedCall& c, Batched<"self"> y, Batched<"weight"> w, Argument<IntList, "sizes"> sizes,
                    Argument<IntList, "stride"> stride, Argument<IntList, "padding"> padding,
                    Argument<IntList, "dilation"> dilation, Argument<int64_t, "groups"> groups);
  static constexpr auto doc =
      "The transpose of _convolution for the image: from results to images of the given sizes.";
  static constexpr auto signature = "self, weight, sizes, stride, padding, dilation, groups";
  static constexpr TypeSet types = types::numeric;
  static constexpr auto samples = Cases{"(2, 3, 5), (3, 2, 3), [2, 2, 5], [1], [1], [1], 1",
                                        "(1, 2, 3, 2), (2, 2, 3, 2), [1, 4, 5, 4], [2, 1], [1, 0], [1, 2], 2",
                                        "(0, 3, 3), (3, 2, 3), [0, 2, 5], [1], [0], [1], 1"};
  static Tensor forward(const Tensor& self, const Tensor& weight, IntList sizes, IntList stride,
                        IntList padding, IntList dilation, int64_t groups);
  static constexpr auto linear = MultilinearIn<"self", "weight">{};
  static constexpr auto vjp = Rules{
      [](Grad g, Input<"weight"> w, Argument<IntList, "stride"> stride, Argument<IntList, "padding"> padding,
         Argument<IntList, "dilation"> dilation, Argument<int64_t, "groups"> groups) {
        return call<Convolution>(g, conjugate(w), stride.value, padding.value, dilation.value, groups.value,
                                 OptionalTensor());
      },
      [](Grad g, Input<"self"> y, Shape<"weight"> s, Argument<IntList, "stride"> stride,
         Argument<IntList, "padding"> padding, Argument<IntList, "dilation"> dilation,
         Argument<int64_t, "groups"> groups) {
        return call<ConvolutionWeight>(g, conjugate(y), IntList(s), stride.value, padding.value,
                                       dilation.value, groups.value);
      }};
};

struct ConvolutionWeight : ConvolutionRow {
  static constexpr auto name = "_convolution_weight";
  static void batch(BatchedCall& c, Batched<"self"> x, Batched<"result"> y, Argument<IntList, "sizes"> sizes,
                    Argument<IntList, "stride"> stride, Argument<IntList, "padding"> padding,
                    Argument<IntList, "dilation"> dilation, Argument<int64_t, "groups"> groups);
  static constexpr auto doc =
      "The transpose of _convolution for the weight: from results to weights of the given sizes.";
  static constexpr auto signature = "self, result, sizes, stride, padding, dilation, groups";
  static constexpr TypeSet types = types::numeric;
  static constexpr auto samples = Cases{"(2, 2, 5), (2, 3, 5), [3, 2, 3], [1], [1], [1], 1",
                                        "(1, 4, 5, 4), (1, 2, 3, 2), [2, 2, 3, 2], [2, 1], [1, 0], [1, 2], 2",
                                        "(0, 2, 5), (0, 3, 3), [3, 2, 3], [1], [0], [1], 1"};
  static Tensor forward(const Tensor& self, const Tensor& result, IntList sizes, IntList stride,
                        IntList padding, IntList dilation, int64_t groups);
  static constexpr auto linear = MultilinearIn<"self", "result">{};
  static constexpr auto vjp = Rules{
      [](Grad g, Shape<"self"> s, Input<"result"> y, Argument<IntList, "stride"> stride,
         Argument<IntList, "padding"> padding, Argument<IntList, "dilation"> dilation,
         Argument<int64_t, "groups"> groups) {
        return call<ConvolutionInput>(conjugate(y), g, IntList(s), stride.value, padding.value,
                                      dilation.value, groups.value);
      },
      [](Grad g, Input<"self"> x, Argument<IntList, "stride"> stride, Argument<IntList, "padding"> padding,
         Argument<IntList, "dilation"> dilation, Argument<int64_t, "groups"> groups) {
        return call<Convolution>(conjugate(x), g, stride.value, padding.value, dilation.value, groups.value,
                                 OptionalTensor());
      }};
};

using Convolutions = Family<Convolution, ConvolutionInput, ConvolutionWeight>;

}  // namespace adjoint
