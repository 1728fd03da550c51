// Convolution on planes that are padded once.
//
// For float and double an image's channels are copied into planes with room for the padding, one plane for
// each remainder of a coordinate by the stride (its phase), so that one step to the next result is one step
// in a plane. A tap is then an offset into a channel, whatever the stride and the dilation, and the loops of
// convolution.isa.cpp run over pixels in one line. Where images are small, the planes of several lie behind
// each other, and the line goes on from one to the next. The gradient of the image is the same pass the other
// way, once for each phase of the image. Where each output sees one channel, there is a way of its own
// (convolution_depthwise.h). Other types take plain loops. Start reading at `forward`, at the end.
#include "kernels/convolution.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <vector>

#include "for_size.h"
#include "kernels/cpu/convolution/convolution.h"
#include "kernels/cpu/convolution/convolution_depthwise.h"
#include "kernels/cpu/convolution/convolution_pass.h"
#include "kernels/cpu/convolution/convolution_plain.h"
#include "kernels/cpu/convolution/convolution_planes.h"
#include "kernels/cpu/convolution/convolution_product.h"
#include "kernels/cpu/variants.h"
#include "kernels/launch.h"
#include "runtime/parallel.h"

namespace adjoint::kernels::convolution {

namespace {

template <class T>
constexpr bool has_planes = std::is_same_v<T, float> || std::is_same_v<T, double>;
template <class T>
void forward_by_planes(const Geo& s, const T* x, const T* w, const T* bias, T* y) {
  const Planes planes(s, 0);
  const int64_t taps = Geo::volume(s.kernel), image = Geo::volume(s.image), result = Geo::volume(s.result);
  std::vector<int64_t> all(static_cast<size_t>(taps));
  for (int64_t k = 0; k < taps; ++k) all[static_cast<size_t>(k)] = k;
  std::vector<std::vector<Pass<T>>> passes(static_cast<size_t>(s.groups));
  for (int64_t g = 0; g < s.groups; ++g) {
    Pass<T> p{};
    p.channels = s.in;
    p.plane_step = planes.channel();
    p.outputs = s.out;
    p.offsets = planes.offsets;
    std::copy_n(s.result, 3, p.grid);
    std::copy_n(planes.room, 3, p.room);
    p.to = 0;
    p.to_step[2] = 1;
    p.to_step[1] = s.result[2];
    p.to_step[0] = s.result[1] * s.result[2];
    p.output_step = result;
    p.image_step = s.groups * s.out * result;
    p.choose(planes.images);
    p.weights = pack(w + g * s.out * s.in * taps, s.out, s.in * taps, s.in, taps, all, p.block());
    passes[static_cast<size_t>(g)].push_back(std::move(p));
  }
  run_passes(
      s, passes, planes.images, s.in, planes.channel(), planes.beyond,
      [&](int64_t c, int64_t n, T* to) { planes.fill(s, x + c * image, n, to); }, bias, s.out, result, y);
}

template <class T>
void input_by_planes(const Geo& s, const T* g, const T* w, T* x) {
  const int64_t taps = Geo::volume(s.kernel), image = Geo::volume(s.image), result = Geo::volume(s.result);
  // Pixel stride · m + r of the image takes tap k from result m + (r + padding - dilation · k) / stride.
  int64_t before[3], room[3], phases[3];
  for (int d = 0; d < 3; ++d) {
    phases[d] = std::min(s.stride[d], s.image[d]);
    before[d] =
        -std::min<int64_t>(0, floor_div(s.padding[d] - s.dilation[d] * (s.kernel[d] - 1), s.stride[d]));
    room[d] = before[d] + ceil_div(s.image[d], s.stride[d]) + (s.stride[d] - 1 + s.padding[d]) / s.stride[d];
  }
  const int64_t first[] = {-before[0], -before[1], -before[2]}, ones[] = {1, 1, 1};
  int64_t shared[3] = {};
  for (int d = 1; d < 3; ++d) room[d] -= shared[d] = zeros_around(s.result[d], first[d], 1, room[d]);
  const int64_t at_once = together(s.images, Geo::volume(room));
  std::vector<std::vector<Pass<T>>> passes(static_cast<size_t>(s.groups));
  for (int64_t group = 0; group < s.groups; ++group)
    each(phases, [&](int64_t r0, int64_t r1, int64_t r2) {
      const int64_t r[] = {r0, r1, r2};
      Pass<T> p{};
      p.channels = s.out;
      p.plane_step = at_once * Geo::volume(room);
      p.outputs = s.in;
      std::vector<int64_t> used;
      int64_t number = 0;
      each(s.kernel, [&](int64_t a, int64_t b, int64_t c) {
        const int64_t k[] = {a, b, c};
        int64_t offset = 0;
        bool meets = true;
        for (int d = 0; d < 3; ++d) {
          const int64_t at = r[d] + s.padding[d] - s.dilation[d] * k[d], shift = floor_div(at, s.stride[d]);
          meets = meets && shift * s.stride[d] == at;
          offset = offset * room[d] + before[d] + shift;
        }
        if (meets) {
          p.offsets.push_back(offset);
          used.push_back(number);
        }
        ++number;
      });
      int64_t step = 1;
      for (int d = 2; d >= 0; --d) {
        p.grid[d] = ceil_div(s.image[d] - r[d], s.stride[d]);
        p.room[d] = room[d];
        p.to += r[d] * step;
        p.to_step[d] = s.stride[d] * step;
        step *= s.image[d];
      }
      p.output_step = image;
      p.image_step = s.groups * s.in * image;
      p.choose(at_once);
      p.weights = pack(w + group * s.out * s.in * taps, s.in, taps, s.out, s.in * taps, used, p.block());
      passes[static_cast<size_t>(group)].push_back(std::move(p));
    });
  run_passes(
      s, passes, at_once, s.out, at_once * Geo::volume(room), shared[1] * room[2] + shared[2],
      [&](int64_t c, int64_t n, T* to) {
        fill_plane(g + c * result, s.result, first, ones, room, to + n * Geo::volume(room));
      },
      static_cast<const T*>(nullptr), s.in, image, x);
}

template <class T>
void weight_by_planes(const Geo& s, const T* x, const T* g, T* w) {
  const auto& table = loops_for<T>(s.out, &ConvolutionTable<T>::width);
  const Planes planes(s, 1);
  const int64_t taps = Geo::volume(s.kernel), image = Geo::volume(s.image), result = Geo::volume(s.result);
  const int64_t channels = s.groups * s.in, width = table.width, rows = s.in * taps;
  const int64_t blocks = ceil_div(s.out, width), channel = planes.channel();
  // As many images at once as fit into some megabytes; as many rows of results as stay in the nearest cache.
  const int64_t at_once =
      std::clamp<int64_t>((int64_t{1} << 22) / std::max<int64_t>(1, channels * channel), 1, s.images);
  const int64_t strip = std::max<int64_t>(1, 160 / std::max<int64_t>(1, s.result[2]));
  const bool whole = s.result[0] == 1 && strip >= s.result[1];
  const int64_t several = whole ? std::max<int64_t>(1, strip / std::max<int64_t>(1, s.result[1])) : 1;
  std::vector<int64_t> offsets(static_cast<size_t>(rows)), in_order(static_cast<size_t>(strip * s.result[2]));
  std::iota(in_order.begin(), in_order.end(), 0);
  for (int64_t c = 0; c < s.in; ++c)
    for (int64_t k = 0; k < taps; ++k)
      offsets[static_cast<size_t>(c * taps + k)] = c * channel + planes.offsets[static_cast<size_t>(k)];
  const int64_t beyond = planes.beyond + table.slack;
  const Scratch<T> padded(at_once * channels * channel + beyond);
  std::fill_n(padded.get() + at_once * channels * channel, beyond, T(0));
  const Scratch<T> sums(s.groups * blocks * rows * width);
  std::fill_n(sums.get(), s.groups * blocks * rows * width, T(0));
  for (int64_t n0 = 0; n0 < s.images; n0 += at_once) {
    const int64_t n1 = std::min(s.images, n0 + at_once);
    runtime::parallel_for(0, (n1 - n0) * channels,
                          std::max<int64_t>(1, 32768 / std::max<int64_t>(1, channel)),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t i = begin; i < end; ++i)
                              planes.fill(s, x + (n0 * channels + i) * image, 0, padded.get() + i * channel);
                          });
    runtime::parallel_for(0, s.groups * blocks, 1, [&](int64_t begin, int64_t end) {
      const int64_t room = std::min(strip, s.result[1]) * s.result[2] * several * width;
      const Scratch<T> slice(room);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t group = i / blocks, first = i % blocks * width, count = std::min(width, s.out - first);
        for (int64_t n = n0; n < n1; n += several) {
          const int64_t images = std::min(several, n1 - n);
          for (int64_t a = 0; a < s.result[0]; ++a)
            for (int64_t h = 0; h < s.result[1]; h += strip) {
              const int64_t high = std::min(strip, s.result[1] - h), pixels = high * s.result[2];
              for (int64_t m = 0; m < images; ++m) {
                const T* from = g + (((n + m) * s.groups + group) * s.out + first) * result +
                                (a * s.result[1] + h) * s.result[2];
                table.pack(from, count, result, pixels, in_order.data(), width,
                           slice.get() + m * pixels * width);
              }
              table.sums(images, channels * channel, high, s.result[2], planes.room[2],
                         padded.get() + ((n - n0) * channels + group * s.in) * channel +
                             (a * planes.room[1] + h) * planes.room[2],
                         rows, offsets.data(), slice.get(), sums.get() + i * rows * width);
            }
        }
      }
    });
  }
  for (int64_t i = 0; i < s.groups * blocks; ++i) {
    const int64_t first = i % blocks * width;
    table.unpack(sums.get() + i * rows * width, width, rows, std::min(width, s.out - first), rows,
                 w + (i / blocks * s.out + first) * rows);
  }
}

/// Of few outputs for each group: the results lie in planes like the image's, with zeros between, so that a
/// weight is the product of two lines.
template <class T>
void weight_by_lines(const Geo& s, const T* x, const T* g, T* w) {
  const auto& table = best_variant<ConvolutionTable<T>>();
  const Planes planes(s, 0);
  const int64_t taps = Geo::volume(s.kernel), image = Geo::volume(s.image), result = Geo::volume(s.result);
  const int64_t channel = planes.channel(), g_size = planes.images * planes.plane,
                readable = channel + planes.beyond + table.slack;
  // Up to the last result that lies in its plane: the image is not read beyond its own.
  int64_t line = g_size - planes.plane + 1;
  const int64_t steps[] = {planes.room[1] * planes.room[2], planes.room[2], 1};
  for (int d = 0; d < 3; ++d) line += (std::min(s.result[d], planes.room[d]) - 1) * steps[d];
  const int64_t none[] = {0, 0, 0}, ones[] = {1, 1, 1};
  std::atomic<bool> exact = true;
  share(s.groups * s.in, s.images * taps * s.out * planes.plane, [&](int64_t i) {
    const int64_t group = i / s.in;
    const Scratch<T> x_planes(readable), g_planes(g_size + table.slack), lanes(taps * table.slack);
    std::vector<double> totals(static_cast<size_t>(s.out * taps));
    for (int64_t n0 = 0; n0 < s.images; n0 += planes.images) {
      const int64_t count = std::min(planes.images, s.images - n0);
      // What is filled is written whole.
      const int64_t kept = count < planes.images ? 0 : channel, g_kept = count < planes.images ? 0 : g_size;
      std::memset(x_planes.get() + kept, 0, static_cast<size_t>(readable - kept) * sizeof(T));
      for (int64_t n = 0; n < count; ++n)
        planes.fill(s, x + ((n0 + n) * s.groups * s.in + i) * image, n, x_planes.get());
      for (int64_t o = 0; o < s.out; ++o) {
        std::memset(g_planes.get() + g_kept, 0,
                    static_cast<size_t>(g_size + table.slack - g_kept) * sizeof(T));
        for (int64_t n = 0; n < count; ++n)
          fill_plane(g + (((n0 + n) * s.groups + group) * s.out + o) * result, s.result, none, ones,
                     planes.room, g_planes.get() + n * planes.plane);
        std::fill_n(lanes.get(), taps * table.slack, T(0));
        table.dots(line, x_planes.get(), taps, planes.offsets.data(), g_planes.get(), lanes.get());
        table.totals(taps, lanes.get(), &totals[static_cast<size_t>(o * taps)]);
      }
    }
    for (int64_t o = 0; o < s.out; ++o)
      for (int64_t k = 0; k < taps; ++k) {
        const double v = totals[static_cast<size_t>(o * taps + k)];
        w[((group * s.out + o) * s.in + i % s.in) * taps + k] = static_cast<T>(v);
        if (v != v) exact = false;
      }
  });
  // A zero between may have met what is not finite.
  if (!exact) weight_plainly(s, x, g, w);
}

/// f(TypeTag<T>) with the type of a result, if there is anything to compute.
template <class F>
void with_type(const Tensor& result, const F& f) {
  if (result.numel() == 0) return;
  visit(result.dtype(), [&]<class T>(TypeTag<T> tag) {
    if constexpr (!std::is_same_v<T, bool> && !is_half_v<T>)
      f(tag);
    else
      refuse_dtype(result.dtype(), "convolution");
  });
}

}  // namespace

bool takes_pixels(const Geometry& s, DType dtype) {
  const int64_t width = dtype == DType::Float32   ? loops_over_channels<float>(s.groups).width
                        : dtype == DType::Float64 ? loops_over_channels<double>(s.groups).width
                                                  : 0;
  return width && s.in == 1 && s.out == 1 && s.groups >= width && s.image[0] == 1 && s.kernel[0] == 1 &&
         s.result[0] == 1 && !s.padding[0];
}

static void convolve(const Tensor& y, const Geometry& s, const Tensor& x, const Tensor& w,
                     const Tensor& bias) {
  with_type(y, [&]<class T>(TypeTag<T>) {
    const T *px = x.data<T>(), *pw = w.data<T>(), *b = bias.defined() ? bias.data<T>() : nullptr;
    if constexpr (has_planes<T>) {
      if (s.pixels) return Pixels<T>{s}.convolve(false, px, pw, b, y.data<T>());
      (sees_one_channel<T>(s)  ? forward_depthwise<T>
       : is_wide<T>(s, 8, 128) ? forward_as_product<T>
                               : forward_by_planes<T>)(s, px, pw, b, y.data<T>());
    } else {
      forward_plainly(s, px, pw, b, y.data<T>());
    }
  });
}

static void convolve_back(const Tensor& x, const Geometry& s, const Tensor& g, const Tensor& w) {
  with_type(x, [&]<class T>(TypeTag<T>) {
    const T *pg = g.data<T>(), *pw = w.data<T>();
    if constexpr (has_planes<T>) {
      if (s.pixels) return Pixels<T>{s}.convolve(true, pg, pw, nullptr, x.data<T>());
      (sees_one_channel<T>(s) ? input_depthwise<T>
       : is_wide<T>(s, 8, 64) ? input_as_product<T>
                              : input_by_planes<T>)(s, pg, pw, x.data<T>());
    } else {
      input_plainly(s, pg, pw, x.data<T>());
    }
  });
}

static void correlate(const Tensor& w, const Geometry& s, const Tensor& x, const Tensor& g) {
  with_type(w, [&]<class T>(TypeTag<T>) {
    const T *px = x.data<T>(), *pg = g.data<T>();
    if constexpr (has_planes<T>) {
      if (s.pixels) return Pixels<T>{s}.weight(px, pg, w.data<T>());
      // Few outputs would leave most of a vector idle.
      const bool few = s.out * 4 < best_variant<ConvolutionTable<T>>().width;
      (sees_one_channel<T>(s)  ? weight_depthwise<T>
       : is_wide<T>(s, 1, 128) ? weight_as_product<T>
       : few                   ? weight_by_lines<T>
                               : weight_by_planes<T>)(s, px, pg, w.data<T>());
    } else {
      weight_plainly(s, px, pg, w.data<T>());
    }
  });
}

void forward(const Geometry& s, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y) {
  on<&convolve>(Out(y), s, x, w, bias);
}
void input(const Geometry& s, const Tensor& g, const Tensor& w, const Tensor& x) {
  on<&convolve_back>(Out(x), s, g, w);
}
void weight(const Geometry& s, const Tensor& x, const Tensor& g, const Tensor& w) {
  on<&correlate>(Out(w), s, x, g);
}

}  // namespace adjoint::kernels::convolution
