// The largest elements of windows, one plane after the other. A NaN counts as largest.
#include "kernels/pooling.h"

#include <algorithm>
#include <utility>
#include <vector>

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
    low = start >= 0 ? 0 : (-start + step - 1) / step;
    high = start >= s.image[d] ? 0 : std::min(s.kernel[d], (s.image[d] - 1 - start) / step + 1);
  }
};

/// The larger of what was found and a tap, for each window of a row. Windows that a tap misses lie at the ends.
template <class T>
struct Row {
  std::vector<Span> spans;  // along the last dimension
  /// For each tap along it the windows [first, last) that it meets.
  std::vector<std::pair<int64_t, int64_t>> windows;

  explicit Row(const Windows& s) {
    for (int64_t c = 0; c < s.result[2]; ++c) spans.emplace_back(s, 2, c);
    for (int64_t k = 0; k < s.kernel[2]; ++k) {
      const auto met = [k](const Span& w) { return w.low <= k && k < w.high; };
      const auto first = std::find_if(spans.begin(), spans.end(), met);
      windows.emplace_back(first - spans.begin(), std::find_if_not(first, spans.end(), met) - spans.begin());
    }
  }
};

template <class T>
void plane(const Windows& s, const Row<T>& row, const T* x, T* values, int64_t* positions) {
  using N = std::conditional_t<is_half_v<T>, float, T>;
  const int64_t n = s.result[2], step = s.stride[2];
  for (int64_t a = 0; a < s.result[0]; ++a) {
    const Span za(s, 0, a);
    for (int64_t b = 0; b < s.result[1]; ++b, values += n, positions += n) {
      const Span yb(s, 1, b);
      bool first = true;
      for (int64_t i = za.low; i < za.high; ++i)
        for (int64_t j = yb.low; j < yb.high; ++j, first = false) {
          const int64_t line = ((za.start + i * s.dilation[0]) * s.image[1] + yb.start + j * s.dilation[1]) * s.image[2];
          if (first)
            for (int64_t c = 0; c < n; ++c) {
              const Span& w = row.spans[static_cast<size_t>(c)];
              positions[c] = line + w.start + w.low * s.dilation[2];
              values[c] = x[positions[c]];
            }
          for (int64_t k = 0; k < s.kernel[2]; ++k) {
            const auto [begin, end] = row.windows[static_cast<size_t>(k)];
            int64_t at = line + k * s.dilation[2] - s.padding[2] + begin * step;
            for (int64_t c = begin; c < end; ++c, at += step) {
              const N v = static_cast<N>(x[at]), most = static_cast<N>(values[c]);
              bool larger = v > most;
              if constexpr (is_floating_v<T>) larger |= v != v;
              values[c] = larger ? x[at] : values[c];
              positions[c] = larger ? at : positions[c];
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
  const int64_t work = std::max<int64_t>(1, result * s.kernel[0] * s.kernel[1] * s.kernel[2]);
  const Access access(x);
  if (access) visit(x.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (is_complex_v<T>)
      fail("max_pool: not implemented for ", name_of(x.dtype()));
    else {
      const Row<T> row(s);
      runtime::parallel_for(0, s.planes, std::max<int64_t>(1, 16384 / work), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          plane(s, row, x.data<T>() + i * image, values.data<T>() + i * result,
                positions.data<int64_t>() + i * result);
      });
    }
  });
}

}  // namespace adjoint::kernels::pooling
