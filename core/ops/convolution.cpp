// What the rows of convolution make.
#include "ops/convolution.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "kernels/convolution.h"
#include "kernels/copy.h"
#include "kernels/memory_format.h"
#include "kernels/product.h"
#include "ops/arithmetic.h"
#include "ops/product.h"
#include "ops/reduction.h"
#include "ops/shape.h"
#include "tensor/checked.h"

namespace adjoint {

namespace kernel = kernels::convolution;

namespace {

kernel::Geometry geometry(IntList image, IntList weight, IntList stride, IntList padding, IntList dilation,
                          int64_t groups, const char* op) {
  const size_t n = image.size() - 2;
  if (image.size() < 3 || image.size() > 5 || weight.size() != image.size() || stride.size() != n ||
      padding.size() != n || dilation.size() != n)
    fail(op,
         "(): expected an image and a weight of 3 to 5 dimensions, and a number for each spatial one, but "
         "got ",
         to_string(image), " and ", to_string(weight));
  if (groups < 1 || image[1] != weight[1] * groups || weight[0] % groups)
    fail(op, "(): images of shape ", to_string(image), " do not fit weights of shape ", to_string(weight),
         " in ", groups, " groups");
  kernel::Geometry s{image[0], groups, weight[1], weight[0] / groups, {}, {}, {}, {}, {}, {}};
  for (size_t d = 0; d < 3; ++d) {
    const bool there = d + n >= 3;
    const size_t i = d + n - 3;
    s.image[d] = there ? image[2 + i] : 1;
    s.kernel[d] = there ? weight[2 + i] : 1;
    s.stride[d] = there ? stride[i] : 1;
    s.padding[d] = there ? padding[i] : 0;
    s.dilation[d] = there ? dilation[i] : 1;
    if (s.stride[d] < 1 || s.dilation[d] < 1 || s.padding[d] < 0)
      fail(op, "(): stride and dilation must be positive and padding not negative, but got ",
           to_string(stride), ", ", to_string(dilation), " and ", to_string(padding));
    if (s.kernel[d] < 1) fail(op, "(): a kernel needs a size, but the weight has shape ", to_string(weight));
    const int64_t padded = checked_add(s.image[d], checked_multiply(2, s.padding[d], op), op);
    const int64_t span = padded - 1 - checked_multiply(s.dilation[d], s.kernel[d] - 1, op);
    if (span < 0)
      fail(op, "(): Calculated padded input size is smaller than the kernel: image ", to_string(image),
           ", weight ", to_string(weight), ", padding ", to_string(padding), ", dilation ",
           to_string(dilation));
    s.result[d] = span / s.stride[d] + 1;
  }
  return s;
}

Dims with_spatial(int64_t a, int64_t b, const int64_t* spatial, size_t count) {
  Dims sizes(count + 2);
  sizes[0] = a;
  sizes[1] = b;
  for (size_t d = 0; d < count; ++d) sizes[2 + d] = spatial[3 - count + d];
  return sizes;
}

void need_one_type(const Tensor& a, const Tensor& b, const char* op) {
  if (a.dtype() != b.dtype())
    fail(op, "(): Input type (", name_of(a.dtype()), ") and weight type (", name_of(b.dtype()),
         ") should be the same");
}
void need_results(const Tensor& g, const kernel::Geometry& s, size_t rank, const char* op) {
  const Dims expected = with_spatial(s.images, s.groups * s.out, s.result, rank - 2);
  need_shape(g, expected.span(), "results", op);
}

/// Half types are computed in float32.
DType computed(DType t) { return t == DType::Float16 || t == DType::BFloat16 ? DType::Float32 : t; }
Tensor in(const Tensor& t) {
  return computed(t.dtype()) == t.dtype() ? dense(t) : copy_of(t, computed(t.dtype()));
}
Tensor back(const Tensor& t, DType dtype) { return t.dtype() == dtype ? t : copy_of(t, dtype); }

/// One tap that reads each pixel once: a product of matrices.
bool is_product(const kernel::Geometry& s) {
  for (int d = 0; d < 3; ++d)
    if (s.kernel[d] != 1 || s.stride[d] != 1 || s.padding[d] != 0) return false;
  return s.groups == 1 && s.in > 0 && s.out > 0;
}
Tensor matrices(const Tensor& t, int64_t count, int64_t rows, int64_t columns) {
  const int64_t sizes[] = {count, rows, columns}, strides[] = {rows * columns, columns, 1};
  return alias(t, sizes, strides, t.offset());
}
Tensor image_of(const Tensor& t, int64_t number, int64_t rows, int64_t columns) {
  const int64_t sizes[] = {rows, columns}, strides[] = {columns, 1};
  return alias(t, sizes, strides, t.offset() + number * rows * columns);
}
Tensor turned(const Tensor& t) {
  const int64_t sizes[] = {t.size(1), t.size(0)}, strides[] = {t.stride(1), t.stride(0)};
  return alias(t, sizes, strides, t.offset());
}
Tensor matrix(const Tensor& t, int64_t rows, int64_t columns, bool transposed) {
  const Tensor plain = image_of(t, 0, rows, columns);
  return transposed ? turned(plain) : plain;
}
/// Of images whose channels are innermost: a row for each pixel.
Tensor rows_of(const Tensor& t) { return image_of(t, 0, t.numel() / t.size(1), t.size(1)); }

/// Whether images whose channels are innermost, as in t, are taken as they lie.
bool by_pixels(kernel::Geometry& s, const Tensor& t) {
  s.pixels = kernels::channels_last(t) && computed(t.dtype()) == t.dtype() && t.numel() > 0 &&
             (is_product(s) || kernel::takes_pixels(s, t.dtype()));
  return s.pixels;
}

/// out = w x for each image, of so many pixels; a bias is what a row's sums start from.
void multiply_images(const Tensor& w, const Tensor& x, int64_t images, int64_t pixels, const Tensor& bias,
                     const Tensor& out) {
  if (out.numel() == 0) return;
  const int64_t rows[] = {w.size(0), pixels}, one_each[] = {1, 0}, batch[] = {images};
  const Tensor start = bias.defined() ? alias(bias, rows, one_each, bias.offset()) : Tensor();
  kernels::multiply(w, matrices(x, images, w.size(1), pixels), start,
                    matrices(out, images, w.size(0), pixels), batch);
}

/// In the order of the images or of the weight.
Tensor laid(const Tensor& images, const Tensor& weight, const Tensor& result) {
  return kernels::laid_like(kernels::channels_last(weight) ? weight : images, result);
}

}  // namespace

Tensor Convolution::forward(const Tensor& self, const Tensor& weight, IntList stride, IntList padding,
                            IntList dilation, int64_t groups, OptionalTensor bias) {
  need_one_type(self, weight, name);
  auto s = geometry(self.sizes(), weight.sizes(), stride, padding, dilation, groups, name);
  if (bias.defined()) {
    need_one_type(self, bias, name);
    if (bias.dim() != 1 || bias.size(0) != weight.size(0))
      fail(name, "(): expected a bias of ", weight.size(0), " elements, but got shape ", bias.sizes());
  }
  const Dims sizes = with_spatial(s.images, s.groups * s.out, s.result, self.sizes().size() - 2);
  const Tensor b = bias.defined() ? in(bias) : Tensor();
  if (by_pixels(s, self)) {
    const Tensor y = kernels::empty_channels_last(sizes.span(), self.dtype());
    if (is_product(s))
      kernels::multiply(rows_of(self), matrix(dense(weight), s.out, s.in, true), b, rows_of(y), {});
    else
      kernel::forward(s, self, dense(weight), b, y);
    return y;
  }
  const Tensor x = in(self), w = in(weight), y = empty(sizes.span(), x.dtype());
  if (is_product(s) && s.images > 0)
    multiply_images(matrix(w, s.out, s.in, false), x, s.images, s.volume(s.image), b, y);
  else
    kernel::forward(s, x, w, b, y);
  return laid(self, weight, back(y, self.dtype()));
}

Tensor ConvolutionInput::forward(const Tensor& self, const Tensor& weight, IntList sizes, IntList stride,
                                 IntList padding, IntList dilation, int64_t groups) {
  need_one_type(self, weight, name);
  auto s = geometry(sizes, weight.sizes(), stride, padding, dilation, groups, name);
  need_results(self, s, sizes.size(), name);
  if (by_pixels(s, self)) {
    const Tensor x = kernels::empty_channels_last(sizes, self.dtype());
    if (is_product(s))
      kernels::multiply(rows_of(self), matrix(dense(weight), s.out, s.in, false), Tensor(), rows_of(x), {});
    else
      kernel::input(s, self, dense(weight), x);
    return x;
  }
  const Tensor g = in(self), w = in(weight), x = empty(sizes, g.dtype());
  if (is_product(s) && s.images > 0)
    multiply_images(matrix(w, s.out, s.in, true), g, s.images, s.volume(s.image), Tensor(), x);
  else
    kernel::input(s, g, w, x);
  return laid(self, weight, back(x, self.dtype()));
}

Tensor ConvolutionWeight::forward(const Tensor& self, const Tensor& result, IntList sizes, IntList stride,
                                  IntList padding, IntList dilation, int64_t groups) {
  need_one_type(self, result, name);
  auto s = geometry(self.sizes(), sizes, stride, padding, dilation, groups, name);
  need_results(result, s, sizes.size(), name);
  if (kernels::channels_last(result) && by_pixels(s, self)) {
    const Tensor w = empty(sizes, self.dtype());
    if (is_product(s))
      kernels::multiply(turned(rows_of(result)), rows_of(self), Tensor(), matrix(w, s.out, s.in, false), {});
    else
      kernel::weight(s, self, result, w);
    return w;
  }
  const Tensor x = in(self), g = in(result), w = empty(sizes, x.dtype());
  if (is_product(s) && s.images > 0) {
    // Image after image, each product added to those before it.
    const int64_t pixels = s.volume(s.image);
    const Tensor sum = matrix(w, s.out, s.in, false);
    for (int64_t n = 0; n < s.images; ++n)
      kernels::multiply(image_of(g, n, s.out, pixels), turned(image_of(x, n, s.in, pixels)),
                        n ? sum : Tensor(), sum, {});
  } else {
    kernel::weight(s, x, g, w);
  }
  return back(w, self.dtype());
}

namespace convolution {

Tensor sum_to_bias(const Tensor& g) {
  Dims over;
  for (int64_t d = 0; d < g.dim(); ++d)
    if (d != 1) over.push_back(d);
  return call<Sum>(g, OptionalInts(over.span()), false, OptionalType());
}

}  // namespace convolution

// --- On batches -----------------------------------------------------------------------------------

// The batch is more images where only they are batched; with a weight for each sample, more groups of
// channels.

static constexpr int64_t kImages = 0, kChannels = 1;  // dimensions

void Convolution::batch(BatchedCall& c, Batched<"self"> x, Batched<"weight"> w,
                        Argument<IntList, "stride"> stride, Argument<IntList, "padding"> padding,
                        Argument<IntList, "dilation"> dilation, Argument<int64_t, "groups"> groups,
                        Batched<"bias"> bias) {
  const auto of = [&](const Tensor& image, const Tensor& weight, int64_t n,
                      const OptionalTensor& plain_bias) {
    return call<Convolution>(image, weight, stride, padding, dilation, n, plain_bias);
  };
  const OptionalTensor none;
  Tensor y;
  if (!w.batched()) {
    const bool plain = !bias.batched();
    if (!x.batched())
      y = of(x.tensor, w.tensor, groups, none);
    else
      y = batching::parted(c, of(x.joined(kImages), w.tensor, groups, plain ? bias.optional() : none),
                           kImages);
    if (plain) return c.give(y);
  } else {
    const bool one_image = !x.batched() && groups == 1;
    y = batching::parted(
        c, of(one_image ? x.tensor : x.joined(kChannels), w.joined(0), one_image ? 1 : groups * c.size, none),
        kChannels);
  }
  if (bias) {
    Dims sizes(static_cast<size_t>(x.rank()) + bias.batched(), 1);
    if (bias.batched()) sizes[0] = c.size;
    sizes[bias.batched() ? 2 : 1] = bias.tensor.numel();
    y = call<Add>(y, call<Reshape>(bias.samples(), sizes.span()));
  }
  c.give(y);
}

void ConvolutionInput::batch(BatchedCall& c, Batched<"self"> y, Batched<"weight"> w,
                             Argument<IntList, "sizes"> sizes, Argument<IntList, "stride"> stride,
                             Argument<IntList, "padding"> padding, Argument<IntList, "dilation"> dilation,
                             Argument<int64_t, "groups"> groups) {
  const bool own = w.batched();
  const int64_t dim = own ? kChannels : kImages;
  Dims all(sizes.value);
  all[static_cast<size_t>(dim)] *= c.size;
  c.give(
      batching::parted(c,
                       call<ConvolutionInput>(y.joined(dim), own ? w.joined(0) : w.tensor, all.span(), stride,
                                              padding, dilation, own ? groups * c.size : groups.value),
                       dim));
}

void ConvolutionWeight::batch(BatchedCall& c, Batched<"self"> x, Batched<"result"> y,
                              Argument<IntList, "sizes"> sizes, Argument<IntList, "stride"> stride,
                              Argument<IntList, "padding"> padding, Argument<IntList, "dilation"> dilation,
                              Argument<int64_t, "groups"> groups) {
  Dims all(sizes.value);
  all[0] *= c.size;
  c.give(batching::parted(c,
                          call<ConvolutionWeight>(x.joined(kChannels), y.joined(kChannels), all.span(),
                                                  stride, padding, dilation, groups * c.size),
                          0));
}

}  // namespace adjoint

ADJOINT_FAMILY(Convolutions)
