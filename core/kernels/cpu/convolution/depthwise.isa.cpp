// The innermost loops of convolution where each output sees one channel, for one instruction set.
//
// A vector holds one pixel of as many channels as it has lanes, so that whatever stride, dilation and padding
// do, a tap is one multiplication of whole vectors, and none for the padding. Images whose channels are
// innermost lie so; of others a few planes are transposed on the way in and out.
#include "kernels/cpu/convolution/depthwise.h"

#include "for_loops.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/vectors.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

template <class T>
struct Convolve {
  const T *x, *w, *start;
  T* y;
  /// P neighbouring results.
  template <int P>
  ADJOINT_INLINE void tile(const DepthwisePart& part, int64_t from, int64_t to, int64_t lane) const {
    Vector<T> sum[P];
    const Vector<T> first = load(start + lane);
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) sum[p] = first;
    const T *at = x + from, *weights = w + lane;
    for (int64_t k = 0; k < part.count; ++k) {
      const Vector<T> v = load(weights + part.taps[k].weight);
      const T* pixel = at + part.taps[k].from;
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) sum[p] += v * load(pixel + p * part.from_pixel);
    }
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) store(y + to + p * part.to_pixel, sum[p]);
  }
};

template <class T>
struct Dots {
  const T* x;
  T* sums;
  const T* g;
  template <int P>
  ADJOINT_INLINE void tile(const DepthwisePart& part, int64_t from, int64_t to, int64_t lane) const {
    Vector<T> v[P];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) v[p] = load(g + to + p * part.to_pixel);
    const T* at = x + from;
    for (int64_t k = 0; k < part.count; ++k) {
      T* sum = sums + lane + part.taps[k].weight;
      const T* pixel = at + part.taps[k].from;
      Vector<T> s = v[0] * load(pixel);
#pragma GCC unroll 8
      for (int p = 1; p < P; ++p) s += v[p] * load(pixel + p * part.from_pixel);
      store(sum, load(sum) + s);
    }
  }
};

/// All channels of P neighbouring pixels: whole vectors, of which the last may overlap the one before it in
/// the images.
template <int P, class T, template <class> class Loop>
ADJOINT_INLINE void all_channels(const Loop<T>& loop, const DepthwisePart& part, int64_t channels,
                                 int64_t& from, int64_t& to) {
  for (int64_t c = 0; c < channels; c += kWidth<T>) {
    const int64_t channel = c + kWidth<T> <= channels ? c : channels - kWidth<T>;
    loop.template tile<P>(part, from + channel, to + channel, c);
  }
  from += P * part.from_pixel;
  to += P * part.to_pixel;
}

template <class T, template <class> class Loop>
ADJOINT_INLINE void over_parts(const Loop<T>& loop, const DepthwisePart* parts, int64_t count,
                               int64_t channels) {
  for (const DepthwisePart* part = parts; part < parts + count; ++part)
    for (int64_t i = 0; i < part->lines; ++i) {
      int64_t from = part->from + i * part->from_line, to = part->to + i * part->to_line, left = part->length;
      for (; left >= 8; left -= 8) all_channels<8>(loop, *part, channels, from, to);
      if (left & 4) all_channels<4>(loop, *part, channels, from, to);
      if (left & 2) all_channels<2>(loop, *part, channels, from, to);
      if (left & 1) all_channels<1>(loop, *part, channels, from, to);
    }
}

template <class T>
void convolve(const DepthwisePart* parts, int64_t count, int64_t channels, const T* x, const T* w,
              const T* start, T* y) {
  over_parts(Convolve<T>{x, w, start, y}, parts, count, channels);
}
template <class T>
void dots(const DepthwisePart* parts, int64_t count, int64_t channels, const T* x, T* sums, const T* g) {
  over_parts(Dots<T>{x, sums, g}, parts, count, channels);
}

template <class T>
void gather(const T* from, int64_t apart, int64_t planes, int64_t n, T* to) {
  constexpr int64_t W = kWidth<T>;
  const T* plane[W];
  for (int64_t l = 0; l < W; ++l) plane[l] = from + (l < planes ? l : planes - 1) * apart;
  if (n < W) {
    for (int64_t r = 0; r < n; ++r)
      for (int64_t l = 0; l < W; ++l) to[r * W + l] = plane[l][r];
    return;
  }
  // The last square may overlap the one before it.
  for (int64_t r = 0;; r = r + 2 * W <= n ? r + W : n - W) {
    Square<T> s;
#pragma GCC unroll 16
    for (int l = 0; l < W; ++l) s.v[l] = load(plane[l] + r);
    s.transpose();
#pragma GCC unroll 16
    for (int l = 0; l < W; ++l) store(to + (r + l) * W, s.v[l]);
    if (r + W >= n) return;
  }
}
template <class T>
void scatter(const T* from, int64_t n, int64_t planes, int64_t apart, T* to) {
  constexpr int64_t W = kWidth<T>;
  if (n < W) {
    for (int64_t l = 0; l < planes; ++l)
      for (int64_t r = 0; r < n; ++r) to[l * apart + r] = from[r * W + l];
    return;
  }
  for (int64_t r = 0;; r = r + 2 * W <= n ? r + W : n - W) {
    Square<T> s;
#pragma GCC unroll 16
    for (int l = 0; l < W; ++l) s.v[l] = load(from + (r + l) * W);
    s.transpose();
#pragma GCC unroll 16
    for (int l = 0; l < W; ++l)
      if (l < planes) store(to + l * apart + r, s.v[l]);
    if (r + W >= n) return;
  }
}

template <class T>
constexpr DepthwiseTable<T> table{.width = kWidth<T>,
                                  .convolve = &convolve<T>,
                                  .dots = &dots<T>,
                                  .gather = &gather<T>,
                                  .scatter = &scatter<T>};

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<DepthwiseTable<float>>, ADJOINT_LEVEL,
                                                   &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<DepthwiseTable<double>>, ADJOINT_LEVEL,
                                                    &table<double>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
