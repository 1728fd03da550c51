// Convolution of small images with many channels, as products of matrices.
//
// Where weights are many and pixels few, laying out the weights is what the loops over planes spend their
// time on. A product (product.isa.cpp) takes them as they lie, outputs by taps of channels, and packs pixels
// instead, which it picks from padded planes; the matrix of taps by pixels is never made. The gradient of the
// image goes the other way: products for each tap, which are added to the pixels that they belong to. Start
// reading at `is_wide`.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/convolution/convolution_planes.h"
#include "kernels/cpu/product.h"

namespace adjoint::kernels::convolution {

/// Whether the way of this file is the faster one, which it is of so many pixels of results at least and at
/// most.
template <class T>
bool is_wide(const Geo& s, int64_t least, int64_t most) {
  const int64_t pixels = s.images * Geo::volume(s.result);
  return best_variant<ProductTable<T>>().multiply_picked && s.out >= 64 && s.in >= 64 && pixels >= least &&
         pixels <= most;
}

/// Some images, in padded planes [channel][phase][image], and where their taps and results lie.
template <class T>
struct Wide {
  const Geo& s;
  int64_t taps = Geo::volume(s.kernel), image = Geo::volume(s.image), result = Geo::volume(s.result);
  /// Images at once: some megabytes of planes.
  int64_t at_once =
      std::clamp<int64_t>((int64_t{1} << 21) / std::max<int64_t>(1, s.in*(image + result)), 1, s.images);
  Planes planes{s, at_once};
  std::vector<int64_t> of_taps, of_pixels;

  explicit Wide(const Geo& geo) : s(geo) {
    for (int64_t c = 0; c < s.in; ++c)
      for (int64_t k = 0; k < taps; ++k)
        of_taps.push_back(c * planes.channel() + planes.offsets[static_cast<size_t>(k)]);
    for (int64_t n = 0; n < at_once; ++n)
      each(s.result, [&](int64_t a, int64_t h, int64_t w) {
        of_pixels.push_back(n * planes.plane + (a * planes.room[1] + h) * planes.room[2] + w);
      });
  }
  Scratch<T> room() const {
    constexpr int64_t kReadable = 16;
    const int64_t beyond = planes.beyond + kReadable, size = s.in * planes.channel();
    Scratch<T> all(size + beyond);
    std::fill_n(all.get() + size, beyond, T(0));
    return all;
  }
  void fill(const T* x, int64_t n0, int64_t count, int64_t group, T* to) const {
    // What the last image's taps read behind it.
    if (count < at_once) std::fill_n(to, s.in * planes.channel(), T(0));
    runtime::parallel_for(0, s.in, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, planes.channel())),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t c = begin; c < end; ++c)
                              for (int64_t n = 0; n < count; ++n)
                                planes.fill(s, x + (((n0 + n) * s.groups + group) * s.in + c) * image, n,
                                            to + c * planes.channel());
                          });
  }
  /// f(first image, images, group) for what is done at once.
  template <class F>
  void each_part(const F& f) const {
    for (int64_t group = 0; group < s.groups; ++group)
      for (int64_t n0 = 0; n0 < s.images; n0 += at_once) f(n0, std::min(at_once, s.images - n0), group);
  }
  /// Between results as they lie and [output][image][pixel].
  template <class U, class F>
  void each_result(U* y, int64_t n0, int64_t count, int64_t group, const F& f) const {
    for (int64_t n = 0; n < count; ++n)
      for (int64_t o = 0; o < s.out; ++o)
        f(y + (((n0 + n) * s.groups + group) * s.out + o) * result, (o * count + n) * result);
  }
};

template <class T>
void forward_as_product(const Geo& s, const T* x, const T* w, const T* bias, T* y) {
  const Wide<T> wide(s);
  const Scratch<T> planes = wide.room(), made = Scratch<T>(s.out * wide.at_once * wide.result);
  const int64_t depth = s.in * wide.taps;
  wide.each_part([&](int64_t n0, int64_t count, int64_t group) {
    wide.fill(x, n0, count, group, planes.get());
    multiply_picked<T>(s.out, count * wide.result, depth, {w + group * s.out * depth, depth, 1},
                       {planes.get(), wide.of_taps.data(), wide.of_pixels.data()},
                       bias ? bias + group * s.out : nullptr, 1, 0, made.get());
    wide.each_result(y, n0, count, group,
                     [&](T* to, int64_t from) { std::copy_n(made.get() + from, wide.result, to); });
  });
}

template <class T>
void weight_as_product(const Geo& s, const T* x, const T* g, T* w) {
  const Wide<T> wide(s);
  const Scratch<T> planes = wide.room(), results = Scratch<T>(s.out * wide.at_once * wide.result);
  const int64_t depth = s.in * wide.taps;
  wide.each_part([&](int64_t n0, int64_t count, int64_t group) {
    wide.fill(x, n0, count, group, planes.get());
    wide.each_result(g, n0, count, group,
                     [&](const T* from, int64_t to) { std::copy_n(from, wide.result, results.get() + to); });
    T* sum = w + group * s.out * depth;
    multiply_picked<T>(s.out, depth, count * wide.result, {results.get(), count * wide.result, 1},
                       {planes.get(), wide.of_pixels.data(), wide.of_taps.data()}, n0 ? sum : nullptr, depth,
                       1, sum);
  });
}

template <class T>
void input_as_product(const Geo& s, const T* g, const T* w, T* x) {
  const Wide<T> wide(s);
  const auto& table = best_variant<ConvolutionTable<T>>();
  const auto multiply = best_variant<ProductTable<T>>().multiply;
  const Scratch<T> results(s.out * wide.at_once * wide.result);
  const int64_t depth = s.in * wide.taps;
  wide.each_part([&](int64_t n0, int64_t count, int64_t group) {
    wide.each_result(g, n0, count, group,
                     [&](const T* from, int64_t to) { std::copy_n(from, wide.result, results.get() + to); });
    const int64_t columns = count * wide.result;
    // Channels of which the products stay in the second-level cache.
    const int64_t channels = std::clamp<int64_t>(65536 / (wide.taps * columns), 1, s.in);
    // The rows of weights lie so that they may evict each other.
    const bool copies = columns > 64;
    runtime::parallel_for(0, ceil_div(s.in, channels), 1, [&](int64_t begin, int64_t end) {
      const Scratch<T> products(channels * wide.taps * columns),
          scratch = Scratch<T>(copies ? kProductScratch : 1);
      for (int64_t b = begin; b < end; ++b) {
        const int64_t first = b * channels, here = std::min(channels, s.in - first);
        multiply(here * wide.taps, columns, s.out, {w + group * s.out * depth + first * wide.taps, 1, depth},
                 {results.get(), columns, 1}, nullptr, 0, 1, products.get(), columns,
                 copies ? scratch.get() : nullptr);
        for (int64_t c = 0; c < here; ++c)
          for (int64_t n = 0; n < count; ++n) {
            T* to = x + (((n0 + n) * s.groups + group) * s.in + first + c) * wide.image;
            std::fill_n(to, wide.image, T(0));
            const T* from = products.get() + (c * wide.taps * count + n) * wide.result;
            each(s.kernel, [&](int64_t i, int64_t j, int64_t k) {
              each_block(s, i, j, k, [&](int64_t p, int64_t q, int64_t rows, int64_t length) {
                table.add(from + p, s.result[2], rows, length, to + q, s.stride[1] * s.image[2], s.stride[2]);
              });
              from += columns;
            });
          }
      }
    });
  });
}

}  // namespace adjoint::kernels::convolution
