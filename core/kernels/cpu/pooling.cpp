// The largest elements of windows, one plane after the other. A NaN counts as largest.
#include "kernels/pooling.h"

#include <algorithm>

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

template <class T>
void plane(const Windows& s, const T* x, T* values, int64_t* positions) {
  const auto larger = [](auto a, auto b) {
    if constexpr (is_floating_v<T>)
      return a > b || a != a;
    else
      return a > b;
  };
  const auto number = [](T v) {
    if constexpr (is_half_v<T>)
      return static_cast<float>(v);
    else
      return v;
  };
  for (int64_t a = 0; a < s.result[0]; ++a) {
    const Span za(s, 0, a);
    for (int64_t b = 0; b < s.result[1]; ++b) {
      const Span yb(s, 1, b);
      for (int64_t c = 0; c < s.result[2]; ++c) {
        const Span xc(s, 2, c);
        int64_t best =
            ((za.start + za.low * s.dilation[0]) * s.image[1] + yb.start + yb.low * s.dilation[1]) *
                s.image[2] +
            xc.start + xc.low * s.dilation[2];
        auto most = number(x[best]);
        for (int64_t i = za.low; i < za.high; ++i)
          for (int64_t j = yb.low; j < yb.high; ++j) {
            const int64_t row =
                ((za.start + i * s.dilation[0]) * s.image[1] + yb.start + j * s.dilation[1]) * s.image[2] +
                xc.start;
            for (int64_t k = xc.low; k < xc.high; ++k) {
              const int64_t at = row + k * s.dilation[2];
              const auto v = number(x[at]);
              if (larger(v, most)) {
                most = v;
                best = at;
              }
            }
          }
        *values++ = x[best];
        *positions++ = best;
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
    else
      runtime::parallel_for(0, s.planes, std::max<int64_t>(1, 16384 / work), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          plane(s, x.data<T>() + i * image, values.data<T>() + i * result,
                positions.data<int64_t>() + i * result);
      });
  });
}

}  // namespace adjoint::kernels::pooling
