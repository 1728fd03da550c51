// What the rows of pooling make, and their rules.
#include "ops/pooling.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/memory_format.h"
#include "kernels/pooling.h"
#include "ops/indexing.h"
#include "ops/shape.h"

namespace adjoint {

namespace pooling {

std::tuple<Tensor, Tensor> max(const Tensor& self, IntList kernel, IntList stride, IntList padding,
                               IntList dilation, IntList result, bool with_positions, const char* name) {
  const size_t n = kernel.size();
  if (n < 1 || n > 3 || self.sizes().size() != n + 2 || stride.size() != n || padding.size() != n ||
      dilation.size() != n || result.size() != n)
    fail(name, "(): expected images of 3 to 5 dimensions and a number for each spatial one, but got shape ",
         self.sizes(), " and kernel ", to_string(kernel));
  kernels::pooling::Windows s{};
  if (kernels::channels_innermost(self) && !kernels::channels_last(self))
    return max(kernels::with_channels_last(self), kernel, stride, padding, dilation, result, with_positions,
               name);
  const bool last = kernels::channels_last(self);
  s.planes = self.size(0) * self.size(1);
  s.channels = last ? self.size(1) : 1;
  Dims sizes(self.sizes());
  for (size_t d = 0; d < 3; ++d) {
    const bool there = d + n >= 3;
    const size_t i = d + n - 3;
    s.image[d] = there ? self.sizes()[2 + i] : 1;
    s.kernel[d] = there ? kernel[i] : 1;
    s.stride[d] = there ? stride[i] : 1;
    s.padding[d] = there ? padding[i] : 0;
    s.dilation[d] = there ? dilation[i] : 1;
    s.result[d] = there ? result[i] : 1;
    const bool adaptive = there && stride[i] == 0;
    if (adaptive && s.result[d] > 0) {  // a regular one where that is the same
      s.padding[d] = 0, s.dilation[d] = 1;
      if (s.image[d] % s.result[d] == 0) s.kernel[d] = s.stride[d] = s.image[d] / s.result[d];
    }
    if (there) sizes[2 + i] = result[i];
    if (s.kernel[d] < 1 || s.stride[d] < (adaptive ? 0 : 1) || s.dilation[d] < 1 || s.padding[d] < 0 ||
        s.result[d] < 1 || s.image[d] < 1)
      fail(name, "(): kernel, stride, dilation and sizes must be positive and padding not negative");
    if (adaptive) continue;
    // Products of what a program gives may be beyond 64 bits.
    using Wide = __int128;
    const Wide span = Wide{s.kernel[d] - 1} * s.dilation[d] + 1;
    if (span >> 62)
      fail(name, "(): a window of kernel ", to_string(kernel), " and dilation ", to_string(dilation),
           " is larger than any image");
    if (s.padding[d] > span / 2)
      fail(name, "(): pad should be at most half of effective kernel size, but got pad=", s.padding[d],
           ", kernel_size=", s.kernel[d], " and dilation=", s.dilation[d]);
    // The last window begins within the image or in front of it, so there are about as many as fit: as
    // padding is, the image's size at most. Some tap of each must meet the image, and those in front of it
    // are few, then.
    const auto start_of = [&](int64_t i) { return Wide{i} * s.stride[d] - s.padding[d]; };
    const auto meets = [&](int64_t i) {
      const Wide start = start_of(i), tap = start >= 0 ? 0 : (-start + s.dilation[d] - 1) / s.dilation[d];
      return tap < s.kernel[d] && start + tap * s.dilation[d] < s.image[d];
    };
    bool all = start_of(s.result[d] - 2) + span <= Wide{s.image[d]} + s.padding[d] && meets(s.result[d] - 1);
    for (int64_t i = 0; all && i < s.result[d] && start_of(i) < 0; ++i) all = meets(i);
    if (!all)
      fail(name, "(): a window lies outside of the image of shape ", self.sizes(), ": kernel ",
           to_string(kernel), ", stride ", to_string(stride), ", padding ", to_string(padding), ", dilation ",
           to_string(dilation), ", ", to_string(result), " windows");
  }
  const auto room = [&](DType dtype) {
    return last ? kernels::empty_channels_last(sizes.span(), dtype) : empty(sizes.span(), dtype);
  };
  const Tensor values = room(self.dtype()), positions = with_positions ? room(DType::Int64) : Tensor();
  kernels::pooling::max(s, last ? self : dense(self), values, positions);
  return {values, positions};
}

Tensor max_rule(const Tensor& g, const Tensor& positions, IntList sizes) {
  const int64_t planes = sizes[0] * sizes[1], image = product(sizes.subspan(2)),
                windows = product(positions.sizes().subspan(2));
  const int64_t flat[] = {planes, windows}, whole[] = {planes, image};
  const Tensor there = call<PutAlong>(call<Reshape>(g, IntList(flat)), IntList(whole), int64_t{1},
                                      call<Reshape>(positions, IntList(flat)));
  return call<Reshape>(there, sizes);
}

}  // namespace pooling

// --- On batches -----------------------------------------------------------------------------------

// The batch is more images.

void MaxPool::batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "kernel"> kernel,
                    Argument<IntList, "stride"> stride, Argument<IntList, "padding"> padding,
                    Argument<IntList, "dilation"> dilation, Argument<IntList, "result"> result) {
  if (self.rank() != static_cast<int64_t>(kernel.value.size()) + 2) return batching::loop(c);
  Tensors all = call_all<MaxPool>(self.joined(0), kernel, stride, padding, dilation, result);
  for (Tensor& t : all) t = batching::parted(c, t, 0);
  c.give(std::move(all));
}

void MaxPoolValues::batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "kernel"> kernel,
                          Argument<IntList, "stride"> stride, Argument<IntList, "padding"> padding,
                          Argument<IntList, "dilation"> dilation, Argument<IntList, "result"> result) {
  if (self.rank() != static_cast<int64_t>(kernel.value.size()) + 2) return batching::loop(c);
  c.give(
      batching::parted(c, call<MaxPoolValues>(self.joined(0), kernel, stride, padding, dilation, result), 0));
}

}  // namespace adjoint

ADJOINT_FAMILY(Pooling)
