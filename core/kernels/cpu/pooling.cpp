// The largest elements of windows, one plane after the other, or of all channels of a window where these lie
// side by side. A NaN counts as largest; of equals the first is taken, and of several NaN the last.
#include "kernels/pooling.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/pooling.h"
#include "kernels/cpu/variants.h"
#include "kernels/launch.h"
#include "runtime/parallel.h"

namespace adjoint::kernels::pooling {

namespace {

/// The taps [low, high) of window `i` along dimension d that lie within the image; `start` is where tap 0
/// lies.
struct Span {
  int64_t start, low, high;
  Span(const Windows& s, int d, int64_t i) : start(i * s.stride[d] - s.padding[d]) {
    if (!s.stride[d]) {  // as many windows as asked for, which share the dimension as evenly as they can
      start = i * s.image[d] / s.result[d];
      low = 0;
      high = ((i + 1) * s.image[d] + s.result[d] - 1) / s.result[d] - start;
      return;
    }
    const int64_t step = s.dilation[d];
    low = start >= 0 ? 0 : (-start - 1) / step + 1;
    high = start >= s.image[d] ? 0 : std::min(s.kernel[d], (s.image[d] - 1 - start) / step + 1);
  }
};

/// Whether a later element takes an earlier one's place.
template <class T>
bool beats(T later, T earlier) {
  using N = std::conditional_t<is_half_v<T>, float, T>;
  const N v = static_cast<N>(later), most = static_cast<N>(earlier);
  if constexpr (is_floating_v<T>) return (v > most) | (v != v);
  return v > most;
}

/// What the planes of an image have in common: the windows along a row, of which [first, last) are whole.
struct Columns : std::vector<Span> {
  int64_t first = 0, last = 0;
  /// All of them lie side by side along the row, or overlap, without a step.
  bool shared = false;
  Columns(const Windows& s, bool vectors) {
    for (int64_t c = 0; c < s.result[2]; ++c) emplace_back(s, 2, c);
    if (!vectors || s.image[0] * s.image[1] * s.image[2] >= int64_t{1} << 31) return;
    shared = !s.stride[2];
    if (shared) return;
    const auto is_whole = [&](int64_t c) {
      const Span& w = (*this)[static_cast<size_t>(c)];
      return w.low == 0 && w.high == s.kernel[2];
    };
    while (first < s.result[2] && !is_whole(first)) ++first;
    for (last = first; last < s.result[2] && is_whole(last);) ++last;
  }
};

/// Where the taps of whole windows lie, beside the first: of the rows that were last asked for. And the
/// largest of each column.
template <class T>
struct Taps : std::vector<int64_t> {
  int64_t of[4] = {-1, -1, -1, -1};
  std::vector<T> line;
  std::vector<int64_t> places;
};

/// Windows that share the columns of some rows: first the largest of each column, then of each window.
template <class T>
void share(const Windows& s, const Columns& columns, Taps<T>& taps, const T* x, int64_t row, T* values,
           int64_t* positions) {
  taps.line.resize(static_cast<size_t>(s.image[2]));
  if (positions) taps.places.resize(taps.line.size());
  best_variant<PoolingTable<T>>().row(x, row, 1, s.image[2], static_cast<int64_t>(taps.size()), taps.data(),
                                      taps.line.data(), positions ? taps.places.data() : nullptr);
  for (int64_t c = 0; c < s.result[2]; ++c) {
    const Span& w = columns[static_cast<size_t>(c)];
    const T* line = taps.line.data() + w.start;
    T most = line[0];
    for (int64_t k = 1; k < w.high; ++k) most = beats(line[k], most) ? line[k] : most;
    values[c] = most;
    if (!positions) continue;
    const int64_t* places = taps.places.data() + w.start;
    int64_t at = -1;
    for (int64_t k = 0; k < w.high; ++k) {
      const bool last = most != most && line[k] != line[k], first = line[k] == most;
      if (last ? places[k] > at : first && (at < 0 || places[k] < at)) at = places[k];
    }
    positions[c] = at;
  }
}

template <class F>
void each_tap(const Windows& s, const Span& z, const Span& y, int64_t low, int64_t high, const F& f) {
  for (int64_t i = z.low; i < z.high; ++i)
    for (int64_t j = y.low; j < y.high; ++j)
      for (int64_t k = low; k < high; ++k)
        f((i * s.dilation[0] * s.image[1] + j * s.dilation[1]) * s.image[2] + k * s.dilation[2]);
}

template <class T>
void plane(const Windows& s, const Columns& columns, Taps<T>& whole, const T* x, T* values,
           int64_t* positions) {
  for (int64_t a = 0; a < s.result[0]; ++a) {
    const Span z(s, 0, a);
    for (int64_t b = 0; b < s.result[1]; ++b) {
      const Span y(s, 1, b);
      const int64_t row = (z.start * s.image[1] + y.start) * s.image[2];
      const auto find_taps = [&](int64_t columns_of) {
        const int64_t rows[] = {z.low, z.high, y.low, y.high};
        if (std::ranges::equal(whole.of, rows)) return;
        whole.clear();
        std::ranges::copy(rows, whole.of);
        each_tap(s, z, y, 0, columns_of, [&](int64_t t) { whole.push_back(t); });
      };
      bool shared = false;
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
        if (columns.shared) {
          find_taps(1);
          share(s, columns, whole, x, row, values, positions);
          shared = true;
        }
      for (int64_t c = 0; c < s.result[2] && !shared; ++c) {
        const Span& w = columns[static_cast<size_t>(c)];
        const int64_t first = row + w.start;
        if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
          if (c == columns.first && columns.last > c) {
            find_taps(s.kernel[2]);
            best_variant<PoolingTable<T>>().row(x, first, s.stride[2], columns.last - c,
                                                static_cast<int64_t>(whole.size()), whole.data(), values + c,
                                                positions ? positions + c : nullptr);
            c = columns.last - 1;
            continue;
          }
        int64_t at = -1;
        T most{};
        each_tap(s, z, y, w.low, w.high, [&](int64_t t) {
          const T v = x[first + t];
          if (at >= 0 && !beats(v, most)) return;
          most = v;
          at = first + t;
        });
        values[c] = most;
        if (positions) positions[c] = at;
      }
      values += s.result[2];
      if (positions) positions += s.result[2];
    }
  }
}

/// All channels of an image, whose pixels hold them side by side.
template <class T>
void pixels(const Windows& s, const Columns& columns, const T* x, T* values, int64_t* positions) {
  const int64_t n = s.channels;
  for (int64_t a = 0; a < s.result[0]; ++a) {
    const Span za(s, 0, a);
    for (int64_t b = 0; b < s.result[1]; ++b) {
      const Span yb(s, 1, b);
      for (int64_t c = 0; c < s.result[2]; ++c, values += n, positions += positions ? n : 0) {
        const Span& xc = columns[static_cast<size_t>(c)];
        bool first = true;
        for (int64_t i = za.low; i < za.high; ++i)
          for (int64_t j = yb.low; j < yb.high; ++j)
            for (int64_t k = xc.low; k < xc.high; ++k, first = false) {
              const int64_t at =
                  ((za.start + i * s.dilation[0]) * s.image[1] + yb.start + j * s.dilation[1]) * s.image[2] +
                  xc.start + k * s.dilation[2];
              const T* from = x + at * n;
              if (first) {
                std::copy_n(from, n, values);
                if (positions) std::fill_n(positions, n, at);
                continue;
              }
              for (int64_t l = 0; l < n; ++l) {
                const bool larger = beats(from[l], values[l]);
                values[l] = larger ? from[l] : values[l];
                if (positions) positions[l] = larger ? at : positions[l];
              }
            }
      }
    }
  }
}

}  // namespace

static void pool(const Tensor& values, const Tensor& positions, const Windows& s, const Tensor& x) {
  const int64_t image = s.image[0] * s.image[1] * s.image[2],
                result = s.result[0] * s.result[1] * s.result[2];
  int64_t work = std::max<int64_t>(1, result);
  for (int d = 0; d < 3; ++d) work *= std::min(s.kernel[d], s.image[d]);
  visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (is_complex_v<T>)
      refuse_dtype(x.dtype(), "max_pool");
    else {
      const Columns columns(s, std::is_same_v<T, float> || std::is_same_v<T, double>);
      const int64_t n = s.channels;
      const auto grain = std::max<int64_t>(1, 16384 / (work * n));
      runtime::parallel_for(0, s.planes / n, grain, [&](int64_t begin, int64_t end) {
        Taps<T> taps;
        for (int64_t i = begin; i < end; ++i) {
          const T* from = x.data<T>() + i * n * image;
          T* to = values.data<T>() + i * n * result;
          int64_t* at = positions.defined() ? positions.data<int64_t>() + i * n * result : nullptr;
          n == 1 ? plane(s, columns, taps, from, to, at) : pixels(s, columns, from, to, at);
        }
      });
    }
  });
}

void max(const Windows& s, const Tensor& x, const Tensor& values, const Tensor& positions) {
  on<&pool>(Out(values), Out(positions), s, x);
}

}  // namespace adjoint::kernels::pooling
