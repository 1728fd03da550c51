// Blocks of images: each element of a kernel makes a row of the result, which is a part of the image with a
// step between rows and columns; those of the padding are 0.
#include "kernels/blocks.h"

#include <algorithm>

#include "kernels/cpu/with_number.h"
#include "kernels/launch.h"
#include "kernels/slices.h"
#include "tensor/checked.h"

namespace adjoint::kernels {

namespace {

struct Blocks {
  int64_t planes = 1, channels, height, width, kernel[2], dilation[2], padding[2], stride[2], count[2];
  int64_t volume, blocks;

  Blocks(IntList leading, IntList size, const Passing& how, const char* op)
      : channels(leading.back()), height(size[0]), width(size[1]) {
    for (const IntList& pair : {how.kernel, how.dilation, how.padding, how.stride})
      if (pair.size() != 2) fail(op, "(): expected two numbers of each option, but got ", to_string(pair));
    planes = product(leading);
    for (size_t d = 0; d < 2; ++d) {
      kernel[d] = how.kernel[d], dilation[d] = how.dilation[d], padding[d] = how.padding[d],
      stride[d] = how.stride[d];
      if (kernel[d] < 1 || dilation[d] < 1 || stride[d] < 1 || padding[d] < 0 || size[d] < 0)
        fail(op,
             "(): kernel_size, dilation and stride must be greater than zero and padding not negative, but "
             "got ",
             to_string(how.kernel), ", ", to_string(how.dilation), ", ", to_string(how.stride), " and ",
             to_string(how.padding));
      const int64_t span = checked_add(checked_multiply(dilation[d], kernel[d] - 1, op), 1, op),
                    room = checked_add(size[d], checked_multiply(2, padding[d], op), op);
      count[d] = room < span ? 0 : (room - span) / stride[d] + 1;
      if (count[d] < 1)
        fail(op, "(): the array of sliding blocks has no rows or columns: size ", to_string(size),
             ", kernel ", to_string(how.kernel), ", dilation ", to_string(how.dilation), ", padding ",
             to_string(how.padding), ", stride ", to_string(how.stride));
    }
    volume = checked_multiply(kernel[0], kernel[1], op);
    blocks = checked_multiply(count[0], count[1], op);
  }
  /// f(row of the image, row of the result) for those inside; the windows [first, last) along them are
  /// inside, too, and the first of these is at `column`.
  template <class T, class X, class F>
  void each_row(int64_t k, X* image, T* row, const F& f) const {
    const int64_t i = k / kernel[1] * dilation[0] - padding[0], j = k % kernel[1] * dilation[1] - padding[1];
    const int64_t first = std::min(count[1], j >= 0 ? 0 : (-j - 1) / stride[1] + 1),
                  last = j >= width ? first : std::clamp((width - 1 - j) / stride[1] + 1, first, count[1]);
    for (int64_t r = 0; r < count[0]; ++r, row += count[1]) {
      const int64_t y = i + r * stride[0];
      const bool inside = y >= 0 && y < height && first < last;
      f(inside ? image + y * width + j + first * stride[1] : nullptr, row, inside ? first : count[1], last);
    }
  }
};

Dims sizes_of(IntList leading, int64_t a, int64_t b) {
  Dims sizes(leading);
  sizes.back() = a;
  sizes.push_back(b);
  return sizes;
}

}  // namespace

static void take_blocks(const Tensor& y, const Tensor& x, const Blocks& b) {
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    runtime::parallel_for(
        0, b.planes * b.volume, std::max<int64_t>(1, 32768 / b.blocks), [&](int64_t begin, int64_t end) {
          for (int64_t p = begin; p < end; ++p)
            b.each_row(p % b.volume, x.data<T>() + p / b.volume * b.height * b.width,
                       y.data<T>() + p * b.blocks, [&](const T* from, T* to, int64_t first, int64_t last) {
                         std::fill_n(to, first, T(0));
                         if (!from) return;
                         if (b.stride[1] == 1)
                           std::copy_n(from, last - first, to + first);
                         else
                           for (int64_t c = first; c < last; ++c) to[c] = from[(c - first) * b.stride[1]];
                         std::fill(to + last, to + b.count[1], T(0));
                       });
        });
  });
}

Tensor unfold(const Tensor& given, const Passing& how, const char* op) {
  const IntList s = given.sizes();
  if (s.size() < 3) fail(op, "(): expected images (…, C, H, W), but got shape ", to_string(s));
  const IntList leading = s.first(s.size() - 2);
  const Blocks b(leading, s.last(2), how, op);
  const Tensor x = dense(given),
               y = empty(sizes_of(leading, checked_multiply(b.channels, b.volume, op), b.blocks).span(),
                         given.dtype());
  if (y.numel()) on<&take_blocks>(Out(y), x, b);
  return y;
}

static void add_blocks(const Tensor& x, const Tensor& y, const Blocks& b) {
  with_number(y.dtype(), [&]<class T>(TypeTag<T>) {
    runtime::parallel_for(
        0, b.planes, std::max<int64_t>(1, 32768 / (b.blocks * b.volume)), [&](int64_t begin, int64_t end) {
          for (int64_t p = begin; p < end; ++p)
            for (int64_t k = 0; k < b.volume; ++k)
              b.each_row(k, x.data<T>() + p * b.height * b.width, y.data<T>() + (p * b.volume + k) * b.blocks,
                         [&](T* to, const T* from, int64_t first, int64_t last) {
                           if (!to) return;
                           if (b.stride[1] == 1)
                             for (int64_t i = first; i < last; ++i) to[i - first] += from[i];
                           else
                             for (int64_t i = first; i < last; ++i) to[(i - first) * b.stride[1]] += from[i];
                         });
        });
  });
}

Tensor fold(const Tensor& given, IntList size, const Passing& how, const char* op) {
  const IntList s = given.sizes();
  if (s.size() < 2 || size.size() != 2)
    fail(op, "(): expected blocks (…, C, N) and two sizes of images, but got shape ", to_string(s), " and ",
         to_string(size));
  const IntList leading = s.first(s.size() - 1);
  Dims of(leading);
  const Blocks all(leading, size, how, op);
  if (leading.back() % all.volume || s.back() != all.blocks)
    fail(op, "(): expected blocks of ", all.volume, " elements for each channel, ", all.blocks,
         " of them, but got shape ", to_string(s));
  of.back() /= all.volume;
  const Blocks b(of.span(), size, how, op);
  const DType c = is_differentiable(given.dtype()) ? compute_dtype(given.dtype()) : DType::Int64;
  Dims shape = sizes_of(of.span(), b.channels, b.height);
  shape.push_back(b.width);
  const Tensor y = dense_as(given, c), x = zeros(shape.span(), c);
  if (y.numel()) on<&add_blocks>(Out(x), y, b);
  return as_dtype(x, given.dtype());
}

}  // namespace adjoint::kernels
