// Convolution where each output sees one channel: depthwise convolution, averages, and first layers of one
// channel.
//
// With so little to do for each plane, what it costs to lay it out decides. So a vector holds a pixel of as
// many planes as it has lanes, channels or images, and the loops of depthwise.isa.cpp meet just the taps that
// lie in the image: no padding, no results that nobody asked for, whatever the stride. Images whose channels
// are innermost lie so already; of others as many planes as there are lanes are transposed, a band of rows at
// a time, which stays in the cache. Start reading at `Plan`.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/cpu/convolution/convolution_pass.h"
#include "kernels/cpu/convolution/depthwise.h"
#include "kernels/cpu/variants.h"

namespace adjoint::kernels::convolution {

/// The taps that results along one dimension meet: result i reads `at[t]` + i · step with tap `number[t]`, if
/// that lies within.
struct Reads {
  int64_t step;
  std::vector<int64_t> at, number;
  /// Results from `first` on that meet the taps [low, high).
  struct Stretch {
    int64_t first, count;
    size_t low, high;
  };
  std::vector<Stretch> stretches(int64_t results, int64_t source) const {
    std::vector<Stretch> all;
    for (int64_t i = 0; i < results; ++i) {
      // Places of taps increase or decrease.
      const auto within = [&](size_t t) { return i * step + at[t] >= 0 && i * step + at[t] < source; };
      size_t low = 0, high = at.size();
      while (low < high && !within(low)) ++low;
      while (low < high && !within(high - 1)) --high;
      if (!all.empty() && all.back().low == low && all.back().high == high)
        ++all.back().count;
      else
        all.push_back({i, 1, low, high});
    }
    return all;
  }
};

/// Results of dimension d from `first` on, beside an image of which `from` is the first that is there.
inline Reads forward_reads(const Geo& s, int d, int64_t first, int64_t from) {
  Reads r{s.stride[d], {}, {}};
  for (int64_t k = 0; k < s.kernel[d]; ++k) {
    r.at.push_back(first * s.stride[d] + k * s.dilation[d] - s.padding[d] - from);
    r.number.push_back(k);
  }
  return r;
}
/// Every stride-th pixel from `first` on, beside results of which `from` is the first that is there.
inline Reads transposed_reads(const Geo& s, int d, int64_t first, int64_t from) {
  Reads r{1, {}, {}};
  for (int64_t k = 0; k < s.kernel[d]; ++k) {
    const int64_t at = first + s.padding[d] - s.dilation[d] * k, shift = floor_div(at, s.stride[d]);
    if (shift * s.stride[d] != at) continue;
    r.at.push_back(shift - from);
    r.number.push_back(k);
  }
  return r;
}

/// Rows of results, the rows that they read, and what meets what. Distances are multiples of `pixel` and of
/// `lanes`, the numbers between neighbouring pixels and taps.
struct Band {
  int64_t row, rows, from_row, from_rows;
  std::vector<DepthwisePart> parts;
  std::vector<std::vector<DepthwiseTap>> taps;

  /// Results on a grid of which a step lies `to_step` pixels apart, the first at `to`; `sources` images
  /// behind each other are summed.
  void add(const Geo& s, const Reads& down, const Reads& along, int64_t grid_rows, int64_t grid_columns,
           int64_t columns, int64_t to, const int64_t* to_step, int64_t to_columns, int64_t sources,
           int64_t pixel, int64_t lanes) {
    for (const auto& r : down.stretches(grid_rows, from_rows))
      for (const auto& c : along.stretches(grid_columns, columns)) {
        std::vector<DepthwiseTap> list;
        for (int64_t o = 0; o < sources; ++o)
          for (size_t a = r.low; a < r.high; ++a)
            for (size_t b = c.low; b < c.high; ++b)
              list.push_back({((o * from_rows + down.at[a]) * columns + along.at[b]) * pixel,
                              ((o * s.kernel[1] + down.number[a]) * s.kernel[2] + along.number[b]) * lanes});
        DepthwisePart p{};
        p.from = (r.first * down.step * columns + c.first * along.step) * pixel;
        p.to = (to + r.first * to_step[0] * to_columns + c.first * to_step[1]) * pixel;
        p.lines = r.count;
        p.length = c.count;
        p.from_pixel = along.step * pixel;
        p.from_line = down.step * columns * pixel;
        p.to_pixel = to_step[1] * pixel;
        p.to_line = to_step[0] * to_columns * pixel;
        if (p.length < p.lines) {
          std::swap(p.lines, p.length);
          std::swap(p.from_pixel, p.from_line);
          std::swap(p.to_pixel, p.to_line);
        }
        parts.push_back(p);
        taps.push_back(std::move(list));
      }
  }
  void finish() {
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].taps = taps[i].data();
      parts[i].count = static_cast<int64_t>(taps[i].size());
    }
  }
  int64_t count() const { return static_cast<int64_t>(parts.size()); }
};

/// Bands that together make all results, or, transposed, all images: the rows of one and what they read stay
/// in the cache.
inline std::vector<Band> bands(const Geo& s, bool transposed, int64_t rows_at_once, int64_t pixel,
                               int64_t lanes) {
  const int64_t* made = transposed ? s.image : s.result;
  const int64_t* read = transposed ? s.result : s.image;
  std::vector<Band> all;
  for (int64_t row = 0; row < made[1]; row += rows_at_once) {
    const int64_t rows = std::min(rows_at_once, made[1] - row), last = row + rows - 1,
                  reach = (s.kernel[1] - 1) * s.dilation[1];
    const int64_t low =
        transposed ? floor_div(row + s.padding[1] - reach, s.stride[1]) : row * s.stride[1] - s.padding[1];
    const int64_t high =
        transposed ? floor_div(last + s.padding[1], s.stride[1]) : last * s.stride[1] - s.padding[1] + reach;
    Band b{row, rows, std::clamp<int64_t>(low, 0, read[1]), 0, {}, {}};
    b.from_rows = std::clamp<int64_t>(high + 1, b.from_row, read[1]) - b.from_row;
    const int64_t once[] = {1, 1}, apart[] = {s.stride[1], s.stride[2]};
    if (!transposed)
      b.add(s, forward_reads(s, 1, row, b.from_row), forward_reads(s, 2, 0, 0), rows, s.result[2], s.image[2],
            0, once, s.result[2], 1, pixel, lanes);
    else
      for (int64_t i = 0; i < std::min(s.stride[1], rows); ++i)
        for (int64_t j = 0; j < std::min(s.stride[2], s.image[2]); ++j)
          b.add(s, transposed_reads(s, 1, row + i, b.from_row), transposed_reads(s, 2, j, 0),
                ceil_div(rows - i, s.stride[1]), ceil_div(s.image[2] - j, s.stride[2]), s.result[2],
                i * s.image[2] + j, apart, s.image[2], s.out, pixel, lanes);
    b.finish();
    all.push_back(std::move(b));
  }
  return all;
}

/// Whether the way of this file is the faster one.
template <class T>
bool sees_one_channel(const Geo& s) {
  return s.in == 1 && s.image[0] == 1 && s.kernel[0] == 1 && s.result[0] == 1 && !s.padding[0] &&
         s.images * s.groups * 2 >= best_variant<DepthwiseTable<T>>().width;
}

/// Planes (image, group), as many as there are lanes at once, through bands of rows. Lane l of block b
/// belongs to the plane b · width + l, and so blocks that are `period` apart have the same weights.
template <class T>
struct Plan {
  const Geo& s;
  const DepthwiseTable<T>& table = best_variant<DepthwiseTable<T>>();
  int64_t width = table.width, taps = Geo::volume(s.kernel), image = Geo::volume(s.image),
          result = Geo::volume(s.result);
  int64_t planes = s.images * s.groups, blocks = ceil_div(planes, width),
          period = s.groups / std::gcd(s.groups, width);
  std::vector<Band> all;
  int64_t from_room = 0, to_room = 0;

  Plan(const Geo& geo, bool transposed) : s(geo) {
    // What a row needs of both sides, for all its outputs, in some share of the second-level cache.
    const int64_t row =
        (s.stride[1] * s.image[2] + s.out * s.result[2]) * width * static_cast<int64_t>(sizeof(T));
    const int64_t rows = std::max<int64_t>(s.kernel[1], (int64_t{1} << 18) / std::max<int64_t>(1, row)) *
                         (transposed ? s.stride[1] : 1);
    all = bands(s, transposed, rows, width, width);
    for (const Band& b : all) {
      from_room = std::max(from_room, b.from_rows * (transposed ? s.out * s.result[2] : s.image[2]) * width);
      to_room = std::max(to_room, b.rows * (transposed ? s.image[2] : s.result[2]) * width);
    }
  }
  int64_t here(int64_t block) const { return std::min(width, planes - block * width); }
  /// Which of its group's lanes of weights a lane has, in numbers [block of a period][output][tap][lane].
  template <class F>
  void each_weight(const F& f) const {
    for (int64_t b = 0; b < std::min(period, blocks); ++b)
      for (int64_t o = 0; o < s.out; ++o)
        for (int64_t l = 0; l < width; ++l)
          f(((b % period) * s.out + o) * taps * width + l, (b * width + l) % s.groups * s.out + o);
  }
  Scratch<T> packed(const T* w) const {
    Scratch<T> lanes(std::min(period, blocks) * s.out * taps * width);
    each_weight([&](int64_t at, int64_t output) {
      for (int64_t k = 0; k < taps; ++k) lanes[at + k * width] = w[output * taps + k];
    });
    return lanes;
  }
  const T* weights(const Scratch<T>& lanes, int64_t block, int64_t output) const {
    return lanes.get() + (block % period * s.out + output) * taps * width;
  }
  int64_t grain() const {
    return std::max<int64_t>(1, 65536 / std::max<int64_t>(1, s.out * taps * result * width));
  }
};

template <class T>
void forward_depthwise(const Geo& s, const T* x, const T* w, const T* bias, T* y) {
  const Plan<T> plan(s, false);
  const Scratch<T> lanes = plan.packed(w);
  const int64_t width = plan.width;
  runtime::parallel_for(0, plan.blocks, plan.grain(), [&](int64_t begin, int64_t end) {
    const Scratch<T> from(plan.from_room), to = Scratch<T>(plan.to_room);
    T start[64] = {};
    for (int64_t i = begin; i < end; ++i)
      for (const Band& b : plan.all) {
        plan.table.gather(x + i * width * plan.image + b.from_row * s.image[2], plan.image, plan.here(i),
                          b.from_rows * s.image[2], from.get());
        for (int64_t o = 0; o < s.out; ++o) {
          if (bias)
            for (int64_t l = 0; l < width; ++l) start[l] = bias[(i * width + l) % s.groups * s.out + o];
          plan.table.convolve(b.parts.data(), b.count(), width, from.get(), plan.weights(lanes, i, o), start,
                              to.get());
          plan.table.scatter(to.get(), b.rows * s.result[2], plan.here(i), s.out * plan.result,
                             y + (i * width * s.out + o) * plan.result + b.row * s.result[2]);
        }
      }
  });
}

template <class T>
void input_depthwise(const Geo& s, const T* g, const T* w, T* x) {
  const Plan<T> plan(s, true);
  const Scratch<T> lanes = plan.packed(w);
  const int64_t width = plan.width;
  runtime::parallel_for(0, plan.blocks, plan.grain(), [&](int64_t begin, int64_t end) {
    const Scratch<T> from(plan.from_room), to = Scratch<T>(plan.to_room);
    const T start[64] = {};
    for (int64_t i = begin; i < end; ++i)
      for (const Band& b : plan.all) {
        const int64_t n = b.from_rows * s.result[2];
        for (int64_t o = 0; o < s.out; ++o)
          plan.table.gather(g + (i * width * s.out + o) * plan.result + b.from_row * s.result[2],
                            s.out * plan.result, plan.here(i), n, from.get() + o * n * width);
        plan.table.convolve(b.parts.data(), b.count(), width, from.get(), plan.weights(lanes, i, 0), start,
                            to.get());
        plan.table.scatter(to.get(), b.rows * s.image[2], plan.here(i), plan.image,
                           x + i * width * plan.image + b.row * s.image[2]);
      }
  });
}

template <class T>
void weight_depthwise(const Geo& s, const T* x, const T* g, T* w) {
  const Plan<T> plan(s, false);
  const int64_t width = plan.width, numbers = s.out * plan.taps * width;
  // Results whose products are added up in lanes, before these are added up in double precision.
  constexpr int64_t kMost = 1024;
  // Where few blocks have weights of their own, the others are shared out in a way that does not depend on
  // threads.
  const int64_t own = std::min(plan.period, plan.blocks),
                shares = std::clamp<int64_t>(4 / own, 1, ceil_div(plan.blocks, own));
  std::vector<double> totals(static_cast<size_t>(own * shares * numbers));
  runtime::parallel_for(
      0, own * shares, std::max<int64_t>(1, plan.grain() * own * shares / plan.blocks),
      [&](int64_t begin, int64_t end) {
        const Scratch<T> from(plan.from_room), to = Scratch<T>(plan.to_room), sums = Scratch<T>(numbers);
        for (int64_t item = begin; item < end; ++item) {
          int64_t summed = 0;
          std::fill_n(sums.get(), numbers, T(0));
          // Of the last block some lanes have no plane.
          const auto add_up = [&](int64_t lanes) {
            for (int64_t k = 0; k < numbers; k += width)
              for (int64_t l = 0; l < lanes; ++l)
                totals[static_cast<size_t>(item * numbers + k + l)] += static_cast<double>(sums[k + l]);
            std::fill_n(sums.get(), numbers, T(0));
            summed = 0;
          };
          for (int64_t i = item; i < plan.blocks; i += own * shares)
            for (const Band& b : plan.all) {
              const int64_t here = plan.here(i), n = b.rows * s.result[2];
              if (summed && (summed + n > kMost || here < width)) add_up(width);
              plan.table.gather(x + i * width * plan.image + b.from_row * s.image[2], plan.image, here,
                                b.from_rows * s.image[2], from.get());
              for (int64_t o = 0; o < s.out; ++o) {
                plan.table.gather(g + (i * width * s.out + o) * plan.result + b.row * s.result[2],
                                  s.out * plan.result, here, n, to.get());
                plan.table.dots(b.parts.data(), b.count(), width, from.get(),
                                sums.get() + o * plan.taps * width, to.get());
              }
              summed += n;
              if (here < width) add_up(here);
            }
          if (summed) add_up(width);
        }
      });
  for (int64_t k = own * numbers; k < own * shares * numbers; ++k)
    totals[static_cast<size_t>(k % (own * numbers))] += totals[static_cast<size_t>(k)];
  std::vector<double> of_outputs(static_cast<size_t>(s.groups * s.out * plan.taps));
  plan.each_weight([&](int64_t at, int64_t output) {
    for (int64_t k = 0; k < plan.taps; ++k)
      of_outputs[static_cast<size_t>(output * plan.taps + k)] += totals[static_cast<size_t>(at + k * width)];
  });
  std::copy(of_outputs.begin(), of_outputs.end(), w);
}

// --- Channels innermost
// ---------------------------------------------------------------------------------------------

/// The loops for so many channels that lie side by side: those whose vectors they fill.
template <class T>
const DepthwiseTable<T>& loops_over_channels(int64_t channels) {
  const auto& widest = best_variant<DepthwiseTable<T>>();
  return channels < widest.width ? narrow_variant<DepthwiseTable<T>>() : widest;
}

/// Bands of images whose channels are innermost, in parallel.
template <class T>
struct Pixels {
  const Geo& s;
  const DepthwiseTable<T>& table = loops_over_channels<T>(s.groups);
  int64_t channels = s.groups, width = table.width, lanes = ceil_div(channels, width) * width,
          taps = Geo::volume(s.kernel);

  /// Channels of the lanes: the last vector may overlap the one before it.
  int64_t channel(int64_t lane) const {
    return std::min(lane / width * width, channels - width) + lane % width;
  }
  /// [tap][lane] of [channel][tap].
  Scratch<T> packed(const T* w, int64_t count) const {
    Scratch<T> all(count * lanes);
    for (int64_t k = 0; k < count; ++k)
      for (int64_t l = 0; l < lanes; ++l) all[k * lanes + l] = w ? w[channel(l) * count + k] : T(0);
    return all;
  }
  void convolve(bool transposed, const T* from, const T* w, const T* bias, T* to) const {
    const Scratch<T> weights = packed(w, taps), start = packed(bias, 1);
    const int64_t made = transposed ? Geo::volume(s.image) : Geo::volume(s.result),
                  read = transposed ? Geo::volume(s.result) : Geo::volume(s.image);
    const int64_t made_row = transposed ? s.image[2] : s.result[2],
                  read_row = transposed ? s.result[2] : s.image[2];
    const std::vector<Band> all =
        bands(s, transposed,
              std::max<int64_t>(s.stride[1], 65536 / std::max<int64_t>(1, channels * made_row * taps)),
              channels, lanes);
    const int64_t count = static_cast<int64_t>(all.size());
    runtime::parallel_for(0, s.images * count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Band& b = all[static_cast<size_t>(i % count)];
        table.convolve(b.parts.data(), b.count(), channels,
                       from + (i / count * read + b.from_row * read_row) * channels, weights.get(),
                       start.get(), to + (i / count * made + b.row * made_row) * channels);
      }
    });
  }
  void weight(const T* x, const T* g, T* w) const {
    const std::vector<Band> all = bands(s, false, s.result[1], channels, lanes);
    const Scratch<T> sums(taps * lanes);
    std::vector<double> totals(static_cast<size_t>(taps * lanes));
    const int64_t vectors = channels / width;
    runtime::parallel_for(
        0, vectors,
        std::max<int64_t>(1, 65536 / std::max<int64_t>(1, s.images * Geo::volume(s.result) * taps * width)),
        [&](int64_t begin, int64_t end) {
          const int64_t first = begin * width, last = end == vectors ? lanes : end * width,
                        here = std::min(last, channels) - first;
          for (int64_t n = 0; n < s.images; ++n) {
            for (int64_t k = 0; k < taps; ++k)
              std::fill_n(sums.get() + k * lanes + first, last - first, T(0));
            table.dots(all[0].parts.data(), all[0].count(), here,
                       x + n * Geo::volume(s.image) * channels + first, sums.get() + first,
                       g + n * Geo::volume(s.result) * channels + first);
            for (int64_t k = 0; k < taps; ++k)
              for (int64_t l = k * lanes + first; l < k * lanes + last; ++l)
                totals[static_cast<size_t>(l)] += static_cast<double>(sums[l]);
          }
        });
    for (int64_t l = 0; l < lanes; ++l)
      for (int64_t k = 0; k < taps; ++k)
        w[channel(l) * taps + k] = static_cast<T>(totals[static_cast<size_t>(k * lanes + l)]);
  }
};

}  // namespace adjoint::kernels::convolution
