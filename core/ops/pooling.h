// Pooling by the maximum: the largest element of each window of an image, and where it lies.
//
// The positions, counted in row-major order over an image's spatial dimensions, are a result of their own;
// the derivative puts gradients there. Averages are convolutions (adjoint/nn/pooling/functions.py). Kernel:
// kernels/pooling.h.
#pragma once

#include "ops/contract/op.h"

namespace adjoint {

namespace pooling {
/// The largest elements, and where they lie, or an undefined tensor.
std::tuple<Tensor, Tensor> max(const Tensor& self, IntList kernel, IntList stride, IntList padding,
                               IntList dilation, IntList result, bool with_positions, const char* op);
/// Zeros of the given shape with g added at the positions of each image: recorded.
Tensor max_rule(const Tensor& g, const Tensor& positions, IntList sizes);
}  // namespace pooling

struct MaxPool : Structured {
  static constexpr auto name = "_max_pool";
  static constexpr auto recorded_as = [](Argument<IntList, "kernel"> kernel) {
    return kernel.value.size() == 3 ? "max_pool3d_with_indices" : "max_pool2d_with_indices";
  };
  static void batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "kernel"> kernel,
                    Argument<IntList, "stride"> stride, Argument<IntList, "padding"> padding,
                    Argument<IntList, "dilation"> dilation, Argument<IntList, "result"> result);
  static constexpr auto doc =
      "The largest element of each window of images (N, C, …), with `result` windows, and where it lies; a "
      "stride of "
      "0 is for windows that share the image evenly, whatever the kernel.";
  static constexpr auto signature = "self, kernel, stride, padding, dilation, result";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples =
      Cases{"(1, 2, 5), [3], [2], [1], [1], [3]", "(1, 2, 4, 5), [2, 2], [2, 1], [0, 0], [1, 2], [2, 3]",
            "(1, 1, 2, 3, 2), [2, 2, 2], [1, 1, 1], [0, 0, 0], [1, 1, 1], [1, 2, 1]",
            "(1, 2, 5, 7), [1, 1], [0, 0], [0, 0], [1, 1], [3, 2]", "(0, 2, 5), [3], [2], [1], [1], [3]"};
  static constexpr auto returns = "values, indices";
  static constexpr bool method = false;
  static constexpr auto gradient_keeps_history = KeepsHistory::Always;
  static std::tuple<Tensor, Tensor> forward(const Tensor& self, IntList kernel, IntList stride,
                                            IntList padding, IntList dilation, IntList result) {
    return pooling::max(self, kernel, stride, padding, dilation, result, true, name);
  }
  static constexpr auto vjp = Rules{[](GradOf<"values"> g, Shape<"self"> s, Output<"indices"> positions) {
    return pooling::max_rule(g, positions, s);
  }};
};

struct MaxPoolValues : Structured {
  static constexpr auto name = "_max_pool_values";
  static constexpr auto recorded_as = MaxPool::recorded_as;
  static void batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "kernel"> kernel,
                    Argument<IntList, "stride"> stride, Argument<IntList, "padding"> padding,
                    Argument<IntList, "dilation"> dilation, Argument<IntList, "result"> result);
  static constexpr auto doc =
      "The values of _max_pool alone, in less time; its derivative finds where they lie.";
  static constexpr auto signature = "self, kernel, stride, padding, dilation, result";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples = MaxPool::samples;
  static constexpr bool method = false;
  static constexpr auto gradient_keeps_history = KeepsHistory::Always;
  static Tensor forward(const Tensor& self, IntList kernel, IntList stride, IntList padding, IntList dilation,
                        IntList result) {
    return std::get<0>(pooling::max(self, kernel, stride, padding, dilation, result, false, name));
  }
  static constexpr auto vjp =
      Rules{[](Grad g, Input<"self"> x, Argument<IntList, "kernel"> kernel,
               Argument<IntList, "stride"> stride, Argument<IntList, "padding"> padding,
               Argument<IntList, "dilation"> dilation, Argument<IntList, "result"> result) {
        const Tensors found =
            call_all<MaxPool>(x, kernel.value, stride.value, padding.value, dilation.value, result.value);
        return pooling::max_rule(g, found[1], x.sizes());
      }};
};

using Pooling = Family<MaxPool, MaxPoolValues>;

}  // namespace adjoint
