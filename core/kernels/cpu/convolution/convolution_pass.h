// A pass of convolution: results on a grid from the planes of an image, and where they go. Which of the loops
// makes them is chosen by what share of their results is used. Start reading at `Pass`.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/convolution.h"
#include "kernels/cpu/convolution/convolution.h"
#include "kernels/cpu/convolution/convolution_plain.h"
#include "kernels/cpu/variants.h"
#include "runtime/parallel.h"
#include "runtime/scratch.h"

namespace adjoint::kernels::convolution {

using Geo = Geometry;

using runtime::Scratch;

/// The loops that make as many results at once as there are, or as few more as can be: by registers of 256
/// bits where these hold all of them.
template <class T>
const ConvolutionTable<T>& loops_for(int64_t results, int ConvolutionTable<T>::* at_once) {
  const auto& narrow = narrow_variant<ConvolutionTable<T>>();
  return results <= narrow.*at_once ? narrow : best_variant<ConvolutionTable<T>>();
}

/// Weights of `outputs` results, in blocks of `block`: [block][channel][tap][output]; zero where there is
/// none.
template <class T>
Scratch<T> pack(const T* w, int64_t outputs, int64_t output_step, int64_t channels, int64_t channel_step,
                const std::vector<int64_t>& taps, int64_t block) {
  const int64_t blocks = ceil_div(outputs, block), n = channels * static_cast<int64_t>(taps.size());
  std::vector<int64_t> places;
  places.reserve(static_cast<size_t>(n));
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t k : taps) places.push_back(c * channel_step + k);
  Scratch<T> packed(blocks * block * n + 1);
  runtime::parallel_for(0, blocks, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, block * n)),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t b = begin; b < end; ++b)
                            best_variant<ConvolutionTable<T>>().pack(
                                w + b * block * output_step, std::min(block, outputs - b * block),
                                output_step, n, places.data(), block, packed.get() + b * block * n);
                        });
  return packed;
}

/// One pass: results on a grid that lies in planes of `room`, and where they go.
template <class T>
struct Pass {
  int64_t channels, plane_step, outputs;
  std::vector<int64_t> offsets;
  Scratch<T> weights;
  int64_t grid[3], room[3];
  /// Of the first result, of one step along each dimension, of an output and of an image.
  int64_t to, to_step[3], output_step, image_step;

  /// Runs of neighbouring pixels, where results are made by `points`: where each begins in the planes, and in
  /// the results.
  int64_t run_length = 0, runs_of_image = 0;
  std::vector<int64_t> from, into;

  const ConvolutionTable<T>& loops() const { return loops_for<T>(outputs, &ConvolutionTable<T>::outputs); }
  /// Below this many, results are made one by one.
  static constexpr int64_t kFew = 3;
  int64_t block() const {
    const auto& table = loops();
    return run_length ? table.width : outputs < kFew ? 1 : table.outputs;
  }
  int64_t blocks() const { return ceil_div(outputs, block()); }
  int64_t plane() const { return Geo::volume(room); }
  int64_t length(int64_t images) const {
    return (images - 1) * plane() + ((grid[0] - 1) * room[1] + grid[1] - 1) * room[2] + grid[2];
  }
  int64_t line(int64_t images) const { return length(images) + loops().slack; }

  /// Whether lines or runs, of pixels of so many images at once: by what share of the results that are
  /// computed is used.
  void choose(int64_t images) {
    const auto& table = loops();
    if (!table.points || outputs < table.width / 2) return;
    const int64_t vector = table.width / 2, rows = grid[0] * grid[1],
                  parts = ceil_div(grid[2], table.longest);
    const int64_t each = ceil_div(grid[2], parts), runs = images * rows * parts,
                  at_once = std::min<int64_t>(6, table.pixels / each);
    const auto share = [](int64_t used, int64_t made) {
      return static_cast<double>(used) / static_cast<double>(made);
    };
    const double by_lines = share(images * rows * grid[2], ceil_div(length(images), vector) * vector) *
                            share(outputs, ceil_div(outputs, table.outputs) * table.outputs);
    const double by_runs = share(images * rows * grid[2], ceil_div(runs, at_once) * at_once * each) *
                           share(outputs, ceil_div(outputs, table.width) * table.width) *
                           share(at_once * each + table.pixels, 2 * table.pixels);
    if (by_runs < by_lines * kBetter) return;
    run_length = each;
    runs_of_image = rows * parts;
    for (int64_t n = 0; n < images; ++n)
      for (int64_t a = 0; a < grid[0]; ++a)
        for (int64_t h = 0; h < grid[1]; ++h)
          for (int64_t i = 0; i < parts; ++i) {
            const int64_t w = std::min(i * each, grid[2] - each);
            from.push_back(n * plane() + (a * room[1] + h) * room[2] + w);
            into.push_back(n * image_step + to + a * to_step[0] + h * to_step[1] + w * to_step[2]);
          }
  }
  static constexpr double kBetter = 1.1;

  void run_points(int64_t begin, int64_t end, int64_t images, const T* planes, const T* bias,
                  T* image) const {
    const auto& table = loops();
    const int64_t size = block(), taps = static_cast<int64_t>(offsets.size()), runs = images * runs_of_image;
    const int64_t at_once = std::min<int64_t>(6, table.pixels / run_length);
    for (int64_t b = begin; b < end; ++b) {
      T start[64] = {};
      const int64_t first = b * size, count = std::min(size, outputs - first);
      if (bias) std::copy_n(bias + first, count, start);
      for (int64_t r = 0; r < runs; r += at_once) {
        int64_t a[6], z[6];
        for (int64_t q = 0; q < at_once; ++q) {
          const size_t at = static_cast<size_t>(std::min(r + q, runs - 1));
          a[q] = from[at];
          z[q] = into[at];
        }
        table.points(run_length, channels, plane_step, planes, taps, offsets.data(),
                     weights.get() + b * size * channels * taps, start, a, image + first * output_step, z,
                     to_step[2], count, output_step);
      }
    }
  }

  /// Blocks [begin, end) of so many images; `lines` has room for block() lines.
  void run(int64_t begin, int64_t end, int64_t images, const T* planes, const T* bias, T* image,
           T* lines) const {
    if (run_length) return run_points(begin, end, images, planes, bias, image);
    const auto& table = loops();
    const int64_t size = block(), taps = static_cast<int64_t>(offsets.size());
    for (int64_t b = begin; b < end; ++b) {
      T start[16] = {};
      const int64_t first = b * size, count = std::min(size, outputs - first);
      if (bias) std::copy_n(bias + first, count, start);
      (size == 1 ? table.line : table.block)(length(images), channels, plane_step, planes, taps,
                                             offsets.data(), weights.get() + b * size * channels * taps,
                                             start, lines, line(images));
      for (int64_t o = 0; o < count; ++o)
        for (int64_t n = 0; n < images; ++n) {
          T* out = image + n * image_step + (first + o) * output_step + to;
          for (int64_t a = 0; a < grid[0]; ++a)
            table.spread(lines + o * line(images) + n * plane() + a * room[1] * room[2], room[2], grid[1],
                         grid[2], out + a * to_step[0], to_step[1], to_step[2]);
        }
    }
  }
};

/// Passes for each group of channels, over `together` images at once: these are shared among threads, or the
/// blocks of one where there are few. `channel` elements hold a channel of all these images, of which
/// fill(channel, image, to) makes one; so many that are read behind the last are zero.
template <class T, class Fill>
void run_passes(const Geo& s, const std::vector<std::vector<Pass<T>>>& passes, int64_t together,
                int64_t channels, int64_t channel, int64_t beyond, const Fill& fill, const T* bias,
                int64_t outputs, int64_t output, T* to) {
  const auto& table = best_variant<ConvolutionTable<T>>();
  const int64_t parts = ceil_div(s.images, together), items = parts * s.groups;
  int64_t lines = 0;
  for (const auto& p : passes[0]) lines = std::max(lines, p.run_length ? 1 : p.line(together) * p.block());
  const bool by_image = items >= runtime::get_num_threads();
  const int64_t work = together * channels * outputs * output * Geo::volume(s.kernel);
  const int64_t grain =
      by_image ? std::max<int64_t>(1, (int64_t{1} << 17) / std::max<int64_t>(1, work)) : items;
  beyond += table.slack;
  runtime::parallel_for(0, items, grain, [&](int64_t begin, int64_t end) {
    const Scratch<T> planes(channels * channel + beyond);
    std::fill_n(planes.get() + channels * channel, beyond, T(0));
    const Scratch<T> room(by_image ? lines : 1);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t group = i % s.groups, n0 = i / s.groups * together,
                    count = std::min(together, s.images - n0);
      // What the last image's taps read behind it.
      if (count < together) std::fill_n(planes.get(), channels * channel, T(0));
      runtime::parallel_for(0, channels, by_image ? channels : 16, [&](int64_t first, int64_t last) {
        for (int64_t c = first; c < last; ++c)
          for (int64_t n = 0; n < count; ++n)
            fill(((n0 + n) * s.groups + group) * channels + c, n, planes.get() + c * channel);
      });
      T* image = to + (n0 * s.groups + group) * outputs * output;
      const T* start = bias ? bias + group * outputs : nullptr;
      for (const auto& pass : passes[static_cast<size_t>(group)]) {
        if (by_image) {
          pass.run(0, pass.blocks(), count, planes.get(), start, image, room.get());
          continue;
        }
        runtime::parallel_for(0, pass.blocks(), 1, [&](int64_t first, int64_t last) {
          const Scratch<T> own(lines);
          pass.run(first, last, count, planes.get(), start, image, own.get());
        });
      }
    }
  });
}

}  // namespace adjoint::kernels::convolution
