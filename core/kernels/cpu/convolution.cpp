// Convolution on planes that are padded once.
//
// For float and double an image's channels are copied into planes with room for the padding, one plane for
// each remainder of a coordinate by the stride (its phase), so that one step to the next result is one step
// in a plane. A tap is then an offset into a channel, whatever the stride and the dilation, and the loops of
// convolution.isa.cpp run over pixels in one line. The gradient of the image is the same pass the other way,
// once for each phase of the image. Other types take plain loops. Start reading at `forward`, at the end.
#include "for_size.h"
#include "kernels/convolution.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cpu/convolution.h"
#include "kernels/cpu/variants.h"
#include "runtime/parallel.h"

namespace adjoint::kernels::convolution {

namespace {

using Geo = Geometry;
template <class T>
constexpr bool has_planes = std::is_same_v<T, float> || std::is_same_v<T, double>;
template <class T>
using Memory = std::unique_ptr<T[]>;
template <class T>
Memory<T> memory(int64_t n) {
  return Memory<T>(new T[static_cast<size_t>(n)]);
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// Rounded down, for any a.
int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/// f(k0, k1, k2) for each place of a box, the last one fastest.
template <class F>
void each(const int64_t* size, const F& f) {
  for (int64_t a = 0; a < size[0]; ++a)
    for (int64_t b = 0; b < size[1]; ++b)
      for (int64_t c = 0; c < size[2]; ++c) f(a, b, c);
}

// --- Passes over padded planes
// -----------------------------------------------------------------------------------

/// Copies `size` of an image, from coordinates first + i · step, into a plane of `room`; around it zeros.
template <class T>
void fill_plane(const T* image, const int64_t* size, const int64_t* first, const int64_t* step,
                const int64_t* room, T* to) {
  // The coordinates i of the plane that lie within the image.
  int64_t low[3], high[3];
  for (int d = 0; d < 3; ++d) {
    low[d] = std::clamp<int64_t>(first[d] >= 0 ? 0 : ceil_div(-first[d], step[d]), 0, room[d]);
    high[d] = std::clamp<int64_t>(floor_div(size[d] - 1 - first[d], step[d]) + 1, low[d], room[d]);
  }
  for (int64_t a = 0; a < room[0]; ++a)
    for (int64_t b = 0; b < room[1]; ++b, to += room[2]) {
      if (a < low[0] || a >= high[0] || b < low[1] || b >= high[1]) {
        std::fill_n(to, room[2], T(0));
        continue;
      }
      const T* row =
          image + ((first[0] + a * step[0]) * size[1] + first[1] + b * step[1]) * size[2] + first[2];
      std::fill_n(to, low[2], T(0));
      if (step[2] == 1)
        std::copy(row + low[2], row + high[2], to + low[2]);
      else
        for (int64_t c = low[2]; c < high[2]; ++c) to[c] = row[c * step[2]];
      std::fill(to + high[2], to + room[2], T(0));
    }
}

/// An image's phases that some tap reads, and where each tap reads them.
struct Planes {
  int64_t room[3], plane, phases = 0;
  std::vector<int64_t> first;  // three for each phase
  std::vector<int64_t> offsets;

  explicit Planes(const Geo& s) {
    for (int d = 0; d < 3; ++d) room[d] = s.result[d] + (s.kernel[d] - 1) * s.dilation[d] / s.stride[d];
    plane = Geo::volume(room);
    each(s.kernel, [&](int64_t a, int64_t b, int64_t c) {
      const int64_t k[] = {a, b, c};
      int64_t shift[3], begin[3];
      for (int d = 0; d < 3; ++d) {
        const int64_t at = k[d] * s.dilation[d];
        shift[d] = at / s.stride[d];
        begin[d] = at % s.stride[d] - s.padding[d];
      }
      int64_t phase = 0;
      while (phase < phases && !std::equal(begin, begin + 3, &first[static_cast<size_t>(phase * 3)])) ++phase;
      if (phase == phases) {
        first.insert(first.end(), begin, begin + 3);
        ++phases;
      }
      offsets.push_back(phase * plane + (shift[0] * room[1] + shift[1]) * room[2] + shift[2]);
    });
  }
  int64_t channel() const { return phases * plane; }
  template <class T>
  void fill(const Geo& s, const T* image, T* to) const {
    for (int64_t p = 0; p < phases; ++p)
      fill_plane(image, s.image, &first[static_cast<size_t>(p * 3)], s.stride, room, to + p * plane);
  }
};

/// Weights of `outputs` results, in blocks of `block`: [block][channel][tap][output]; zero where there is
/// none.
template <class T>
Memory<T> pack(const T* w, int64_t outputs, int64_t output_step, int64_t channels, int64_t channel_step,
               const std::vector<int64_t>& taps, int64_t block) {
  const int64_t blocks = ceil_div(outputs, block);
  Memory<T> packed = memory<T>(blocks * block * channels * static_cast<int64_t>(taps.size()) + 1);
  T* to = packed.get();
  for (int64_t b = 0; b < blocks; ++b)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t k : taps)
        for (int64_t o = b * block; o < (b + 1) * block; ++o)
          *to++ = o < outputs ? w[o * output_step + c * channel_step + k] : T(0);
  return packed;
}

/// One pass: results on a grid that lies in planes of `room`, and where they go.
template <class T>
struct Pass {
  int64_t channels, plane_step, outputs;
  std::vector<int64_t> offsets;
  Memory<T> weights;
  int64_t grid[3], room[3];
  /// Of the first result, and of one step along each dimension.
  int64_t to, to_step[3], output_step;

  /// Below this many, results are made one by one.
  static constexpr int64_t kFew = 3;
  int64_t block() const { return outputs < kFew ? 1 : best_variant<ConvolutionTable<T>>().outputs; }
  int64_t blocks() const { return ceil_div(outputs, block()); }
  int64_t length() const { return ((grid[0] - 1) * room[1] + grid[1] - 1) * room[2] + grid[2]; }
  int64_t line() const { return length() + best_variant<ConvolutionTable<T>>().slack; }

  /// Blocks [begin, end) of one image; `lines` has room for block() lines.
  void run(int64_t begin, int64_t end, const T* planes, const T* bias, T* image, T* lines) const {
    const auto& table = best_variant<ConvolutionTable<T>>();
    const int64_t size = block(), taps = static_cast<int64_t>(offsets.size());
    for (int64_t b = begin; b < end; ++b) {
      T start[16] = {};
      const int64_t first = b * size, count = std::min(size, outputs - first);
      if (bias) std::copy_n(bias + first, count, start);
      (size == 1 ? table.line : table.block)(length(), channels, plane_step, planes, taps, offsets.data(),
                                             weights.get() + b * size * channels * taps, start, lines,
                                             line());
      for (int64_t o = 0; o < count; ++o) {
        T* out = image + (first + o) * output_step + to;
        for (int64_t a = 0; a < grid[0]; ++a)
          for (int64_t h = 0; h < grid[1]; ++h) {
            const T* from = lines + o * line() + (a * room[1] + h) * room[2];
            T* row = out + a * to_step[0] + h * to_step[1];
            if (to_step[2] == 1)
              std::copy_n(from, grid[2], row);
            else
              for (int64_t i = 0; i < grid[2]; ++i) row[i * to_step[2]] = from[i];
          }
      }
    }
  }
};

/// Passes for each image and group: images are shared among threads, or the blocks of one where there are
/// few.
template <class T, class Fill>
void run_passes(const Geo& s, const std::vector<std::vector<Pass<T>>>& passes, int64_t channels,
                int64_t channel, const Fill& fill, const T* bias, int64_t outputs, int64_t output, T* to) {
  const auto& table = best_variant<ConvolutionTable<T>>();
  const int64_t items = s.images * s.groups;
  int64_t lines = 0;
  for (const auto& p : passes[0]) lines = std::max(lines, p.line() * p.block());
  const bool by_image = items >= runtime::get_num_threads();
  const int64_t work = channels * outputs * output * Geo::volume(s.kernel);
  const int64_t grain =
      by_image ? std::max<int64_t>(1, (int64_t{1} << 17) / std::max<int64_t>(1, work)) : items;
  runtime::parallel_for(0, items, grain, [&](int64_t begin, int64_t end) {
    const Memory<T> planes = memory<T>(channels * channel + table.slack);
    std::fill_n(planes.get() + channels * channel, table.slack, T(0));
    const Memory<T> room = memory<T>(by_image ? lines : 1);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t group = i % s.groups;
      for (int64_t c = 0; c < channels; ++c) fill(i * channels + c, planes.get() + c * channel);
      T* image = to + i * outputs * output;
      const T* start = bias ? bias + group * outputs : nullptr;
      for (const auto& pass : passes[static_cast<size_t>(group)]) {
        if (by_image) {
          pass.run(0, pass.blocks(), planes.get(), start, image, room.get());
          continue;
        }
        runtime::parallel_for(0, pass.blocks(), 1, [&](int64_t first, int64_t last) {
          const Memory<T> own = memory<T>(lines);
          pass.run(first, last, planes.get(), start, image, own.get());
        });
      }
    }
  });
}

template <class T>
void forward_by_planes(const Geo& s, const T* x, const T* w, const T* bias, T* y) {
  const Planes planes(s);
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
    p.weights = pack(w + g * s.out * s.in * taps, s.out, s.in * taps, s.in, taps, all, p.block());
    std::copy_n(s.result, 3, p.grid);
    std::copy_n(planes.room, 3, p.room);
    p.to = 0;
    p.to_step[2] = 1;
    p.to_step[1] = s.result[2];
    p.to_step[0] = s.result[1] * s.result[2];
    p.output_step = result;
    passes[static_cast<size_t>(g)].push_back(std::move(p));
  }
  run_passes(
      s, passes, s.in, planes.channel(), [&](int64_t c, T* to) { planes.fill(s, x + c * image, to); }, bias,
      s.out, result, y);
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
  std::vector<std::vector<Pass<T>>> passes(static_cast<size_t>(s.groups));
  for (int64_t group = 0; group < s.groups; ++group)
    each(phases, [&](int64_t r0, int64_t r1, int64_t r2) {
      const int64_t r[] = {r0, r1, r2};
      Pass<T> p{};
      p.channels = s.out;
      p.plane_step = Geo::volume(room);
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
      p.weights = pack(w + group * s.out * s.in * taps, s.in, taps, s.out, s.in * taps, used, p.block());
      int64_t step = 1;
      for (int d = 2; d >= 0; --d) {
        p.grid[d] = ceil_div(s.image[d] - r[d], s.stride[d]);
        p.room[d] = room[d];
        p.to += r[d] * step;
        p.to_step[d] = s.stride[d] * step;
        step *= s.image[d];
      }
      p.output_step = image;
      passes[static_cast<size_t>(group)].push_back(std::move(p));
    });
  run_passes(
      s, passes, s.out, Geo::volume(room),
      [&](int64_t c, T* to) { fill_plane(g + c * result, s.result, first, ones, room, to); },
      static_cast<const T*>(nullptr), s.in, image, x);
}

template <class T>
void weight_by_planes(const Geo& s, const T* x, const T* g, T* w) {
  const auto& table = best_variant<ConvolutionTable<T>>();
  const Planes planes(s);
  const int64_t taps = Geo::volume(s.kernel), image = Geo::volume(s.image), result = Geo::volume(s.result);
  const int64_t channels = s.groups * s.in, width = table.width, rows = s.in * taps;
  const int64_t blocks = ceil_div(s.out, width), channel = planes.channel();
  // As many images at once as fit into some megabytes; as many rows of results as stay in the nearest cache.
  const int64_t at_once =
      std::clamp<int64_t>((int64_t{1} << 22) / std::max<int64_t>(1, channels * channel), 1, s.images);
  const int64_t strip = std::max<int64_t>(1, 160 / std::max<int64_t>(1, s.result[2]));
  std::vector<int64_t> offsets(static_cast<size_t>(rows));
  for (int64_t c = 0; c < s.in; ++c)
    for (int64_t k = 0; k < taps; ++k)
      offsets[static_cast<size_t>(c * taps + k)] = c * channel + planes.offsets[static_cast<size_t>(k)];
  const Memory<T> padded = memory<T>(at_once * channels * channel + table.slack);
  const Memory<T> sums = memory<T>(s.groups * blocks * rows * width);
  std::fill_n(sums.get(), s.groups * blocks * rows * width, T(0));
  for (int64_t n0 = 0; n0 < s.images; n0 += at_once) {
    const int64_t n1 = std::min(s.images, n0 + at_once);
    runtime::parallel_for(0, (n1 - n0) * channels,
                          std::max<int64_t>(1, 32768 / std::max<int64_t>(1, channel)),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t i = begin; i < end; ++i)
                              planes.fill(s, x + (n0 * channels + i) * image, padded.get() + i * channel);
                          });
    runtime::parallel_for(0, s.groups * blocks, 1, [&](int64_t begin, int64_t end) {
      const Memory<T> slice = memory<T>(strip * s.result[2] * width);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t group = i / blocks, first = i % blocks * width, count = std::min(width, s.out - first);
        if (count < width) std::fill_n(slice.get(), strip * s.result[2] * width, T(0));
        for (int64_t n = n0; n < n1; ++n)
          for (int64_t a = 0; a < s.result[0]; ++a)
            for (int64_t h = 0; h < s.result[1]; h += strip) {
              const int64_t high = std::min(strip, s.result[1] - h), pixels = high * s.result[2];
              const T* from =
                  g + ((n * s.groups + group) * s.out + first) * result + (a * s.result[1] + h) * s.result[2];
              for (int64_t p0 = 0; p0 < pixels; p0 += 16)
                for (int64_t o = 0; o < count; ++o)
                  for (int64_t p = p0; p < std::min(p0 + 16, pixels); ++p)
                    slice[p * width + o] = from[o * result + p];
              table.sums(high, s.result[2], planes.room[2],
                         padded.get() + ((n - n0) * channels + group * s.in) * channel +
                             (a * planes.room[1] + h) * planes.room[2],
                         rows, offsets.data(), slice.get(), sums.get() + i * rows * width);
            }
      }
    });
  }
  for (int64_t o = 0; o < s.groups * s.out; ++o) {
    const int64_t group = o / s.out, local = o % s.out;
    const T* from = sums.get() + (group * blocks + local / width) * rows * width + local % width;
    for (int64_t r = 0; r < rows; ++r) w[o * rows + r] = from[r * width];
  }
}

// --- Plain loops, for every type
// -----------------------------------------------------------------------------------

/// f(row of results, row of the image, count, step) for each row of results that tap (a, b, c) reaches.
template <class F>
void each_row(const Geo& s, int64_t a, int64_t b, int64_t c, const F& f) {
  const int64_t shift = c * s.dilation[2] - s.padding[2], step = s.stride[2];
  const int64_t low = std::min(s.result[2], shift >= 0 ? 0 : ceil_div(-shift, step));
  const int64_t high = std::min(s.result[2], floor_div(s.image[2] - 1 - shift, step) + 1);
  if (high <= low) return;
  for (int64_t d = 0; d < s.result[0]; ++d) {
    const int64_t z = d * s.stride[0] + a * s.dilation[0] - s.padding[0];
    if (z < 0 || z >= s.image[0]) continue;
    for (int64_t h = 0; h < s.result[1]; ++h) {
      const int64_t y = h * s.stride[1] + b * s.dilation[1] - s.padding[1];
      if (y < 0 || y >= s.image[1]) continue;
      f((d * s.result[1] + h) * s.result[2] + low, (z * s.image[1] + y) * s.image[2] + low * step + shift,
        high - low, step);
    }
  }
}

/// f(output, channel) pairs in parallel over `count` planes.
template <class F>
void share(int64_t count, int64_t work, const F& f) {
  runtime::parallel_for(0, count, std::max<int64_t>(1, 65536 / std::max<int64_t>(1, work)),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) f(i);
                        });
}

template <class T>
void forward_plainly(const Geo& s, const T* x, const T* w, const T* bias, T* y) {
  const int64_t taps = Geo::volume(s.kernel), image = Geo::volume(s.image), result = Geo::volume(s.result);
  const int64_t all = s.groups * s.out;
  share(s.images * all, s.in * taps * result, [&](int64_t i) {
    T* to = y + i * result;
    const T* weight = w + i % all * s.in * taps;
    const T* from = x + (i / all * s.groups + i % all / s.out) * s.in * image;
    std::fill_n(to, result, bias ? bias[i % all] : T(0));
    for (int64_t c = 0; c < s.in; ++c, from += image)
      each(s.kernel, [&](int64_t a, int64_t b, int64_t k) {
        const T v = *weight++;
        each_row(s, a, b, k, [&](int64_t p, int64_t q, int64_t n, int64_t step) {
          for (int64_t j = 0; j < n; ++j) to[p + j] = static_cast<T>(to[p + j] + v * from[q + j * step]);
        });
      });
  });
}

template <class T>
void input_plainly(const Geo& s, const T* g, const T* w, T* x) {
  const int64_t taps = Geo::volume(s.kernel), image = Geo::volume(s.image), result = Geo::volume(s.result);
  const int64_t all = s.groups * s.in;
  share(s.images * all, s.out * taps * result, [&](int64_t i) {
    T* to = x + i * image;
    const int64_t group = i % all / s.in;
    std::fill_n(to, image, T(0));
    for (int64_t o = 0; o < s.out; ++o) {
      const T* weight = w + ((group * s.out + o) * s.in + i % s.in) * taps;
      const T* from = g + ((i / all * s.groups + group) * s.out + o) * result;
      each(s.kernel, [&](int64_t a, int64_t b, int64_t k) {
        const T v = *weight++;
        each_row(s, a, b, k, [&](int64_t p, int64_t q, int64_t n, int64_t step) {
          for (int64_t j = 0; j < n; ++j)
            to[q + j * step] = static_cast<T>(to[q + j * step] + v * from[p + j]);
        });
      });
    }
  });
}

template <class T>
void weight_plainly(const Geo& s, const T* x, const T* g, T* w) {
  const int64_t taps = Geo::volume(s.kernel), image = Geo::volume(s.image), result = Geo::volume(s.result);
  share(s.groups * s.out * s.in, s.images * taps * result, [&](int64_t i) {
    const int64_t output = i / s.in, channel = output / s.out * s.in + i % s.in;
    T* to = w + i * taps;
    each(s.kernel, [&](int64_t a, int64_t b, int64_t k) {
      T sum(0);
      for (int64_t n = 0; n < s.images; ++n) {
        const T* from = x + (n * s.groups * s.in + channel) * image;
        const T* result_of = g + (n * s.groups * s.out + output) * result;
        each_row(s, a, b, k, [&](int64_t p, int64_t q, int64_t count, int64_t step) {
          T part[8] = {};
          int64_t j = 0;
          for (; j + 8 <= count; j += 8)
            for (int l = 0; l < 8; ++l)
              part[l] = static_cast<T>(part[l] + result_of[p + j + l] * from[q + (j + l) * step]);
          for (; j < count; ++j) part[0] = static_cast<T>(part[0] + result_of[p + j] * from[q + j * step]);
          for (int l = 0; l < 8; ++l) sum = static_cast<T>(sum + part[l]);
        });
      }
      *to++ = sum;
    });
  });
}

template <class F>
void with_type(DType dtype, const F& f) {
  visit(dtype, [&]<class T>(TypeTag<T> tag) {
    if constexpr (!std::is_same_v<T, bool> && !is_half_v<T>)
      f(tag);
    else
      fail("convolution: not implemented for ", name_of(dtype));
  });
}

}  // namespace

void forward(const Geometry& s, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y) {
  if (y.numel() == 0) return;
  with_type(y.dtype(), [&]<class T>(TypeTag<T>) {
    const T* b = bias.defined() ? bias.data<T>() : nullptr;
    if constexpr (has_planes<T>)
      forward_by_planes(s, x.data<T>(), w.data<T>(), b, y.data<T>());
    else
      forward_plainly(s, x.data<T>(), w.data<T>(), b, y.data<T>());
  });
}

void add_bias(const Tensor& bias, const Tensor& y) {
  with_type(y.dtype(), [&]<class T>(TypeTag<T>) {
    const int64_t pixels = y.size(2);
    share(y.size(0) * y.size(1), pixels, [&](int64_t i) {
      T* row = y.data<T>() + i * pixels;
      const T b = bias.data<T>()[i % y.size(1)];
      for (int64_t j = 0; j < pixels; ++j) row[j] = static_cast<T>(row[j] + b);
    });
  });
}

void input(const Geometry& s, const Tensor& g, const Tensor& w, const Tensor& x) {
  if (x.numel() == 0) return;
  with_type(x.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (has_planes<T>)
      input_by_planes(s, g.data<T>(), w.data<T>(), x.data<T>());
    else
      input_plainly(s, g.data<T>(), w.data<T>(), x.data<T>());
  });
}

void weight(const Geometry& s, const Tensor& x, const Tensor& g, const Tensor& w) {
  if (w.numel() == 0) return;
  with_type(w.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (has_planes<T>) {
      // Few outputs would leave most of a vector idle.
      if (s.out * 4 >= best_variant<ConvolutionTable<T>>().width)
        return weight_by_planes(s, x.data<T>(), g.data<T>(), w.data<T>());
    }
    weight_plainly(s, x.data<T>(), g.data<T>(), w.data<T>());
  });
}

}  // namespace adjoint::kernels::convolution
