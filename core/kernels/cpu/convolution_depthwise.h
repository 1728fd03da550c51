// Convolution where each output sees one channel, of images that are small: depthwise convolution, and averages.
//
// With so little to do for each plane, padding it row by row would take most of the time. So rows stay where they are,
// without gaps, and a tap is again an offset into the plane as one line; what the offset takes from a neighbouring row
// in place of the padding is made zero beforehand, in a copy of the plane for each tap along the row, by a mask that all
// planes share. Rows above and below are zeros before and behind each copy. A line of results is then as long as the plane
// and lies as it does in the image: of results with a stride, those between are computed and left out. The transposes take
// results with zeros between them in place of the image. Start reading at `Shifted`.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "kernels/cpu/convolution.h"
#include "kernels/cpu/convolution_pass.h"
#include "kernels/cpu/variants.h"

namespace adjoint::kernels::convolution {

/// Copies of a plane of `rows` by `columns`, one for each tap along a row, and where in them each tap reads the first result.
template <class T>
struct Shifted {
  int64_t n, taps, copies, before, apart;
  std::vector<int64_t> offsets;
  Memory<T> masks;

  /// Tap (k, l) reads image[i + down[k]][j + right[l]] for a result at (i, j) of as many rows and columns.
  Shifted(int64_t rows, int64_t columns, const std::vector<int64_t>& down, const std::vector<int64_t>& right)
      : n(rows * columns), taps(static_cast<int64_t>(down.size() * right.size())), copies(static_cast<int64_t>(right.size())), masks(memory<T>(n * copies)) {
    int64_t least = 0, most = 0;
    for (int64_t k : down)
      for (int64_t l : right) {
        least = std::min(least, k * columns + l);
        most = std::max(most, k * columns + l);
      }
    before = -least;
    apart = before + n + most + best_variant<ConvolutionTable<T>>().slack;
    for (int64_t k : down)
      for (int64_t l = 0; l < copies; ++l) offsets.push_back(l * apart + before + k * columns + right[static_cast<size_t>(l)]);
    for (int64_t l = 0; l < copies; ++l) {
      const int64_t by = right[static_cast<size_t>(l)], low = std::clamp<int64_t>(by, 0, columns), high = std::clamp<int64_t>(columns + by, low, columns);
      for (int64_t i = 0; i < rows; ++i) {
        T* row = masks.get() + l * n + i * columns;
        std::memset(row, 0, static_cast<size_t>(columns) * sizeof(T));
        std::memset(row + low, 0xff, static_cast<size_t>(high - low) * sizeof(T));
      }
    }
  }
  int64_t size() const { return copies * apart; }
  /// Room for the copies of so many planes, with the zeros before and behind each.
  Memory<T> room(int64_t planes) const {
    Memory<T> all = memory<T>(planes * size());
    std::memset(all.get(), 0, static_cast<size_t>(planes * size()) * sizeof(T));
    return all;
  }
  void fill(const T* image, T* to) const { best_variant<ConvolutionTable<T>>().shift(image, n, copies, masks.get(), to + before, apart); }
};

/// Where taps read along dimension d, beside a result: in the image, or, for the transpose, in results with zeros between.
inline std::vector<int64_t> reads(const Geo& s, int d, bool transpose) {
  std::vector<int64_t> all;
  for (int64_t k = 0; k < s.kernel[d]; ++k) {
    const int64_t at = k * s.dilation[d] - s.padding[d];
    all.push_back(transpose ? -at : at);
  }
  return all;
}

/// Whether the way of this file is the faster one.
template <class T>
bool sees_one_channel(const Geo& s) {
  if (s.in != 1 || s.out >= Pass<T>::kFew || s.image[0] != 1 || s.kernel[0] != 1 || s.result[0] != 1 || s.padding[0]) return false;
  for (int d = 1; d < 3; ++d)
    if ((s.result[d] - 1) * s.stride[d] >= s.image[d]) return false;
  // Copies stay in the nearest cache.
  constexpr int64_t kNear = 24576 / sizeof(T);
  return s.kernel[2] * Geo::volume(s.image) <= kNear;
}
template <class T>
bool all_finite(const T* p, int64_t n) {
  T sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += p[i] * T(0);
  return sum == T(0);
}

/// Results with zeros between, as far apart as in the image: `to` holds zeros but for the results of another plane.
template <class T>
void put_apart(const Geo& s, const T* g, T* to) {
  const int64_t columns = s.image[2], step = s.stride[2], down = s.stride[1] * columns;
  if (step == 1 && down == s.result[2]) {
    std::memcpy(to, g, static_cast<size_t>(Geo::volume(s.result)) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < s.result[1]; ++i, to += down)
    for (int64_t j = 0; j < s.result[2]; ++j) to[j * step] = *g++;
}

template <class T>
void forward_depthwise(const Geo& s, const T* x, const T* w, const T* bias, T* y) {
  const auto& table = best_variant<ConvolutionTable<T>>();
  const Shifted<T> shifted(s.image[1], s.image[2], reads(s, 1, false), reads(s, 2, false));
  const int64_t taps = shifted.taps, result = Geo::volume(s.result), columns = s.image[2], step = s.stride[2];
  const bool dense = s.stride[1] == 1, as_it_lies = dense && step == 1 && s.result[2] == columns;
  const int64_t length = dense ? (s.result[1] - 1) * columns + (s.result[2] - 1) * step + 1 : (s.result[2] - 1) * step + 1;
  runtime::parallel_for(0, s.images * s.groups, std::max<int64_t>(1, 65536 / (taps * shifted.n)), [&](int64_t begin, int64_t end) {
    const Memory<T> copies = shifted.room(1), line = memory<T>(length + table.slack);
    for (int64_t i = begin; i < end; ++i) {
      shifted.fill(x + i * shifted.n, copies.get());
      for (int64_t o = 0; o < s.out; ++o) {
        const int64_t output = i % s.groups * s.out + o;
        const T start = bias ? bias[output] : T(0);
        T* to = y + (i * s.out + o) * result;
        const auto run = [&](const T* from, T* results) { table.line(length, 1, 0, from, taps, shifted.offsets.data(), w + output * taps, &start, results, 0); };
        // What is written behind a plane must be written again.
        if (as_it_lies && ((end - i) * s.out - o - 1) * result >= table.slack) {
          run(copies.get(), to);
          continue;
        }
        for (int64_t r = 0; r < s.result[1]; ++r, to += s.result[2]) {
          if (!dense || r == 0) run(copies.get() + r * s.stride[1] * columns, line.get());
          const T* from = line.get() + (dense ? r * columns : 0);
          for (int64_t j = 0; j < s.result[2]; ++j) to[j] = from[j * step];
        }
      }
    }
  });
}

template <class T>
void input_depthwise(const Geo& s, const T* g, const T* w, T* x) {
  const auto& table = best_variant<ConvolutionTable<T>>();
  const Shifted<T> shifted(s.image[1], s.image[2], reads(s, 1, true), reads(s, 2, true));
  const int64_t taps = shifted.taps, n = shifted.n, result = Geo::volume(s.result);
  runtime::parallel_for(0, s.images * s.groups, std::max<int64_t>(1, 65536 / (taps * n)), [&](int64_t begin, int64_t end) {
    const Memory<T> copies = shifted.room(s.out), apart = memory<T>(n), line = memory<T>(n + table.slack);
    std::memset(apart.get(), 0, static_cast<size_t>(n) * sizeof(T));
    const T start = T(0);
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t o = 0; o < s.out; ++o) {
        const T* from = g + (i * s.out + o) * result;
        if (result != n) put_apart(s, from, apart.get());
        shifted.fill(result == n ? from : apart.get(), copies.get() + o * shifted.size());
      }
      const bool last = (end - i - 1) * n < table.slack;
      T* to = last ? line.get() : x + i * n;
      table.line(n, s.out, shifted.size(), copies.get(), taps, shifted.offsets.data(), w + i % s.groups * s.out * taps, &start, to, 0);
      if (last) std::memcpy(x + i * n, to, static_cast<size_t>(n) * sizeof(T));
    }
  });
}

template <class T>
void weight_depthwise(const Geo& s, const T* x, const T* g, T* w) {
  const auto& table = best_variant<ConvolutionTable<T>>();
  const Shifted<T> shifted(s.image[1], s.image[2], reads(s, 1, false), reads(s, 2, false));
  const int64_t taps = shifted.taps, n = shifted.n, result = Geo::volume(s.result), lanes = taps * table.slack;
  // Images whose products go into lanes before these are added up.
  const int64_t most = std::max<int64_t>(1, 256 * table.slack / n);
  std::atomic<bool> exact = true;
  runtime::parallel_for(0, s.groups, std::max<int64_t>(1, 65536 / (taps * n * std::max<int64_t>(1, s.images))), [&](int64_t begin, int64_t end) {
    const Memory<T> copies = shifted.room(1), apart = memory<T>(n + table.slack), sums = memory<T>(s.out * lanes);
    std::memset(apart.get(), 0, static_cast<size_t>(n + table.slack) * sizeof(T));
    std::vector<double> totals(static_cast<size_t>(s.out * taps));
    for (int64_t i = begin; i < end; ++i) {
      std::fill(totals.begin(), totals.end(), 0.0);
      for (int64_t first = 0; first < s.images; first += most) {
        std::memset(sums.get(), 0, static_cast<size_t>(s.out * lanes) * sizeof(T));
        for (int64_t image = first; image < std::min(s.images, first + most); ++image) {
          const int64_t plane = image * s.groups + i;
          shifted.fill(x + plane * n, copies.get());
          for (int64_t o = 0; o < s.out; ++o) {
            put_apart(s, g + (plane * s.out + o) * result, apart.get());
            table.dots(n, copies.get(), taps, shifted.offsets.data(), apart.get(), sums.get() + o * lanes);
          }
        }
        table.totals(s.out * taps, sums.get(), totals.data());
      }
      for (int64_t k = 0; k < s.out * taps; ++k) {
        const double v = totals[static_cast<size_t>(k)];
        w[i * s.out * taps + k] = static_cast<T>(v);
        if (v != v) exact = false;
      }
    }
  });
  // A zero between may have met what is not finite.
  if (!exact) weight_plainly(s, x, g, w);
}

}  // namespace adjoint::kernels::convolution
