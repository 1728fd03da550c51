// The largest elements of windows, one plane after the other, or of all channels of a window where these lie
// side by side. A NaN counts as largest; of equals the first is taken, and of several NaN the last.
#include "kernels/pooling.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/pooling.h"
#include "kernels/cpu/variants.h"
#include "runtime/parallel.h"
#include "tensor/access.h"

namespace adjoint::kernels::pooling {

namespace {

/// The taps [low, high) of window `i` along dimension d that lie within the image; `start` is where tap 0
/// lies.
struct Span {
  int64_t start, low, high;
  Span(const Windows& s, int d, int64_t i) : start(i * s.stride[d] - s.padding[d]) {
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

using Spans = std::vector<Span>;

template <class T>
void plane(const Windows& s, const Spans& columns, const T* x, T* values, int64_t* positions) {
  // The windows that are whole along the row lie side by side.
  std::pair<int64_t, int64_t> inner{0, 0};
  if (std::is_same_v<T, float> || std::is_same_v<T, double>)
    if (s.image[0] * s.image[1] * s.image[2] < int64_t{1} << 31) {
      const auto is_whole = [&](int64_t c) {
        return columns[static_cast<size_t>(c)].low == 0 &&
               columns[static_cast<size_t>(c)].high == s.kernel[2];
      };
      while (inner.first < s.result[2] && !is_whole(inner.first)) ++inner.first;
      for (inner.second = inner.first; inner.second < s.result[2] && is_whole(inner.second);) ++inner.second;
    }
  // Where the taps of a window lie, beside its first: of one that is whole along the row, and of one that is
  // not.
  std::vector<int64_t> whole, part;
  const auto list = [&](const Span& z, const Span& y, int64_t low, int64_t high, std::vector<int64_t>& to) {
    to.clear();
    for (int64_t i = z.low; i < z.high; ++i)
      for (int64_t j = y.low; j < y.high; ++j)
        for (int64_t k = low; k < high; ++k)
          to.push_back((i * s.dilation[0] * s.image[1] + j * s.dilation[1]) * s.image[2] + k * s.dilation[2]);
  };
  for (int64_t a = 0; a < s.result[0]; ++a) {
    const Span z(s, 0, a);
    for (int64_t b = 0; b < s.result[1]; ++b, values += s.result[2], positions += s.result[2]) {
      const Span y(s, 1, b);
      whole.clear();  // and filled where a window is so: taps of the others may be any number
      const auto lines = [&](int64_t from, int64_t to) {
        if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
          best_variant<PoolingTable<T>>().row(
              x, (z.start * s.image[1] + y.start) * s.image[2] + columns[static_cast<size_t>(from)].start,
              s.stride[2], to - from, static_cast<int64_t>(whole.size()), whole.data(), values + from,
              positions + from);
      };
      for (int64_t c = 0; c < s.result[2]; ++c) {
        const Span& w = columns[static_cast<size_t>(c)];
        const bool all = w.low == 0 && w.high == s.kernel[2];
        if (all && whole.empty()) list(z, y, 0, s.kernel[2], whole);
        if (c == inner.first && inner.second > c) {
          lines(c, inner.second);
          c = inner.second - 1;
          continue;
        }
        if (!all) list(z, y, w.low, w.high, part);
        const std::vector<int64_t>& taps = all ? whole : part;
        const int64_t first = (z.start * s.image[1] + y.start) * s.image[2] + w.start;
        int64_t at = first + taps[0];
        for (size_t t = 1; t < taps.size(); ++t) at = beats(x[first + taps[t]], x[at]) ? first + taps[t] : at;
        values[c] = x[at];
        positions[c] = at;
      }
    }
  }
}

/// All channels of an image, whose pixels hold them side by side.
template <class T>
void pixels(const Windows& s, const Spans& columns, const T* x, T* values, int64_t* positions) {
  const int64_t n = s.channels;
  for (int64_t a = 0; a < s.result[0]; ++a) {
    const Span za(s, 0, a);
    for (int64_t b = 0; b < s.result[1]; ++b) {
      const Span yb(s, 1, b);
      for (int64_t c = 0; c < s.result[2]; ++c, values += n, positions += n) {
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
                std::fill_n(positions, n, at);
                continue;
              }
              for (int64_t l = 0; l < n; ++l) {
                const bool larger = beats(from[l], values[l]);
                values[l] = larger ? from[l] : values[l];
                positions[l] = larger ? at : positions[l];
              }
            }
      }
    }
  }
}

}  // namespace

void max(const Windows& s, const Tensor& x, const Tensor& values, const Tensor& positions) {
  const int64_t image = s.image[0] * s.image[1] * s.image[2],
                result = s.result[0] * s.result[1] * s.result[2];
  int64_t work = std::max<int64_t>(1, result);
  for (int d = 0; d < 3; ++d) work *= std::min(s.kernel[d], s.image[d]);
  const Access access(x);
  if (access)
    visit(x.dtype(), [&]<class T>(TypeTag<T>) {
      if constexpr (is_complex_v<T>)
        fail("max_pool: not implemented for ", name_of(x.dtype()));
      else {
        Spans columns;
        for (int64_t c = 0; c < s.result[2]; ++c) columns.emplace_back(s, 2, c);
        const int64_t n = s.channels;
        runtime::parallel_for(0, s.planes / n, std::max<int64_t>(1, 16384 / (work * n)),
                              [&](int64_t begin, int64_t end) {
                                for (int64_t i = begin; i < end; ++i)
                                  (n == 1 ? plane<T> : pixels<T>)(s, columns, x.data<T>() + i * n * image,
                                                                  values.data<T>() + i * n * result,
                                                                  positions.data<int64_t>() + i * n * result);
                              });
      }
    });
}

}  // namespace adjoint::kernels::pooling
