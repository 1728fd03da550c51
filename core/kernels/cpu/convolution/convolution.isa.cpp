// The innermost loops of convolution for one instruction set.
//
// Both read an image that lies in padded planes, through a list of offsets, one for each tap: neither a
// matrix of patches nor a special case for a stride or a dilation. `block` keeps a tile of results in
// registers, so many outputs times three vectors of neighbouring pixels, `points` some pixels times two
// vectors of outputs, which wastes none where rows are short; `sums`, the gradient of the weight, keeps so
// many taps times two vectors of outputs, and `dots`, that of a few outputs, so many taps. Where rows of the
// padded image meet, pixels are computed that nobody asked for.
#include "kernels/cpu/convolution/convolution.h"

#include "kernels/cpu/variants.h"
#include "kernels/cpu/vectors.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

#if ADJOINT_LEVEL >= 4
constexpr int kOutputs = 8, kRows = 12, kPixels = 14, kLongest = 7;
#elif ADJOINT_LEVEL >= 3
constexpr int kOutputs = 4, kRows = 6, kPixels = 6, kLongest = 6;
#else
constexpr int kOutputs = 4, kRows = 6, kPixels = 6, kLongest = 6;
#endif
constexpr int kVectors = 3;

/// O outputs of P vectors of pixels.
template <class T, int O, int P>
ADJOINT_INLINE void tile(int64_t channels, int64_t plane, const T* x, int64_t taps, const int64_t* offsets,
                         const T* weights, const T* start, T* to, int64_t to_step) {
  Vector<T> sum[O][P];
#pragma GCC unroll 16
  for (int o = 0; o < O; ++o)
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) sum[o][p] = start[o] - Vector<T>{};
  for (int64_t c = 0; c < channels; ++c, x += plane)
    for (int64_t k = 0; k < taps; ++k, weights += O) {
      const T* at = x + offsets[k];
      Vector<T> v[P];
#pragma GCC unroll 16
      for (int p = 0; p < P; ++p) v[p] = load(at + p * kWidth<T>);
#pragma GCC unroll 16
      for (int o = 0; o < O; ++o) {
        const Vector<T> w = weights[o] - Vector<T>{};
#pragma GCC unroll 16
        for (int p = 0; p < P; ++p) sum[o][p] += w * v[p];
      }
    }
#pragma GCC unroll 16
  for (int o = 0; o < O; ++o)
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) store(to + o * to_step + p * kWidth<T>, sum[o][p]);
}

template <class T, int O, int P>
void lines(int64_t length, int64_t channels, int64_t plane, const T* x, int64_t taps, const int64_t* offsets,
           const T* weights, const T* start, T* to, int64_t to_step) {
  constexpr int W = kWidth<T>;
  int64_t p = 0;
  for (; length - p > (P - 1) * W; p += P * W)
    tile<T, O, P>(channels, plane, x + p, taps, offsets, weights, start, to + p, to_step);
  for (; length - p > W; p += 2 * W)
    tile<T, O, 2>(channels, plane, x + p, taps, offsets, weights, start, to + p, to_step);
  if (length > p) tile<T, O, 1>(channels, plane, x + p, taps, offsets, weights, start, to + p, to_step);
}

#if ADJOINT_LEVEL >= 3
/// Q runs of L pixels, two vectors of outputs.
template <class T, int L, int Q>
void points_of(int64_t channels, int64_t plane, const T* x, int64_t taps, const int64_t* offsets,
               const T* weights, const T* start, const int64_t* from, T* y, const int64_t* to, int64_t step,
               int64_t outputs, int64_t output_step) {
  constexpr int W = kWidth<T>;
  Vector<T> sum[Q * L][2];
#pragma GCC unroll 16
  for (int i = 0; i < Q * L; ++i) {
    sum[i][0] = load(start);
    sum[i][1] = load(start + W);
  }
  const T* run[Q];
#pragma GCC unroll 16
  for (int q = 0; q < Q; ++q) run[q] = x + from[q];
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t k = 0; k < taps; ++k, weights += 2 * W) {
      const Vector<T> left = load(weights), right = load(weights + W);
      const int64_t at = offsets[k];
#pragma GCC unroll 16
      for (int q = 0; q < Q; ++q)
#pragma GCC unroll 16
        for (int l = 0; l < L; ++l) {
          const Vector<T> v = run[q][at + l] - Vector<T>{};
          sum[q * L + l][0] += v * left;
          sum[q * L + l][1] += v * right;
        }
    }
#pragma GCC unroll 16
    for (int q = 0; q < Q; ++q) run[q] += plane;
  }
  T made[Q * L][2 * W];
#pragma GCC unroll 16
  for (int i = 0; i < Q * L; ++i) {
    store(&made[i][0], sum[i][0]);
    store(&made[i][W], sum[i][1]);
  }
  for (int64_t o = 0; o < outputs; ++o, y += output_step)
    for (int q = 0; q < Q; ++q)
      for (int l = 0; l < L; ++l) y[to[q] + l * step] = made[q * L + l][o];
}

template <class T, int L>
constexpr auto points_at_once = &points_of < T,
               L, kPixels / L<6 ? kPixels / L : 6>;

template <class T>
void points(int64_t length, int64_t channels, int64_t plane, const T* x, int64_t taps, const int64_t* offsets,
            const T* weights, const T* start, const int64_t* from, T* y, const int64_t* to, int64_t step,
            int64_t outputs, int64_t output_step) {
  constexpr decltype(points_at_once<T, 1>) of[] = {
      points_at_once<T, 1>, points_at_once<T, 2>, points_at_once<T, 3>,       points_at_once<T, 4>,
      points_at_once<T, 5>, points_at_once<T, 6>, points_at_once<T, kLongest>};
  of[length - 1](channels, plane, x, taps, offsets, weights, start, from, y, to, step, outputs, output_step);
}
#else
template <class T>
constexpr decltype(ConvolutionTable<T>::points) points = nullptr;
#endif

template <class T, int R>
void sums_of(int64_t images, int64_t image, int64_t rows, int64_t columns, int64_t pitch, const T* start,
             const int64_t* offsets, const T* g, T* to) {
  constexpr int W = kWidth<T>;
  Vector<T> sum[R][2];
  int64_t at[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    at[r] = offsets[r];
    sum[r][0] = load(to + r * 2 * W);
    sum[r][1] = load(to + r * 2 * W + W);
  }
  for (int64_t n = 0; n < images; ++n, start += image) {
    const T* x = start;
    for (int64_t h = 0; h < rows; ++h, x += pitch)
      for (int64_t w = 0; w < columns; ++w, g += 2 * W) {
        const Vector<T> left = load(g), right = load(g + W);
        const T* q = x + w;
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
          const Vector<T> v = q[at[r]] - Vector<T>{};
          sum[r][0] += v * left;
          sum[r][1] += v * right;
        }
      }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    store(to + r * 2 * W, sum[r][0]);
    store(to + r * 2 * W + W, sum[r][1]);
  }
}

template <class T>
void sums(int64_t images, int64_t image, int64_t rows, int64_t columns, int64_t pitch, const T* x,
          int64_t count, const int64_t* offsets, const T* g, T* to) {
  constexpr int W = kWidth<T>;
  int64_t r = 0;
  for (; r + kRows <= count; r += kRows)
    sums_of<T, kRows>(images, image, rows, columns, pitch, x, offsets + r, g, to + r * 2 * W);
  for (; r + 3 <= count; r += 3)
    sums_of<T, 3>(images, image, rows, columns, pitch, x, offsets + r, g, to + r * 2 * W);
  for (; r < count; ++r)
    sums_of<T, 1>(images, image, rows, columns, pitch, x, offsets + r, g, to + r * 2 * W);
}

template <class T, int K>
ADJOINT_INLINE void dots_of(int64_t length, const T* x, const int64_t* offsets, const T* g, T* lanes) {
  Vector<T> sum[K];
  for (int k = 0; k < K; ++k) sum[k] = load(lanes + k * kWidth<T>);
  for (int64_t p = 0; p < length; p += kWidth<T>) {
    const Vector<T> v = load(g + p);
#pragma GCC unroll 16
    for (int k = 0; k < K; ++k) sum[k] += v * load(x + offsets[k] + p);
  }
  for (int k = 0; k < K; ++k) store(lanes + k * kWidth<T>, sum[k]);
}

template <class T>
void dots(int64_t length, const T* x, int64_t taps, const int64_t* offsets, const T* g, T* lanes) {
  int64_t k = 0;
  for (; k + 9 <= taps; k += 9) dots_of<T, 9>(length, x, offsets + k, g, lanes + k * kWidth<T>);
  for (; k + 4 <= taps; k += 4) dots_of<T, 4>(length, x, offsets + k, g, lanes + k * kWidth<T>);
  for (; k < taps; ++k) dots_of<T, 1>(length, x, offsets + k, g, lanes + k * kWidth<T>);
}

template <class T>
void totals(int64_t taps, const T* lanes, double* to) {
  for (int64_t k = 0; k < taps; ++k, lanes += kWidth<T>) {
    double part[kWidth<T>];
    for (int l = 0; l < kWidth<T>; ++l) part[l] = double(lanes[l]);
#pragma GCC unroll 4
    for (int half = kWidth<T> / 2; half > 0; half /= 2)
      for (int l = 0; l < half; ++l) part[l] += part[l + half];
    to[k] += part[0];
  }
}

template <class T>
ADJOINT_INLINE void zeros(int64_t n, T* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = T(0);
}

/// Some numbers of a row: rows are short, and vectors may overlap.
template <class T>
ADJOINT_INLINE void copy_row(int64_t n, const T* from, T* to) {
  typedef T Four __attribute__((vector_size(4 * sizeof(T)), aligned(alignof(T)), may_alias));
  const auto move = [=](int64_t i) {
    *reinterpret_cast<Four*>(to + i) = *reinterpret_cast<const Four*>(from + i);
  };
  if (n >= kWidth<T>) {
    for (int64_t i = 0; i + kWidth<T> <= n; i += kWidth<T>) store(to + i, load(from + i));
    store(to + n - kWidth<T>, load(from + n - kWidth<T>));
  } else if (n >= 4) {
    for (int64_t i = 0; i + 4 <= n; i += 4) move(i);
    move(n - 4);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  }
}

template <class T>
void fill(const T* image, int64_t apart, int64_t step, int64_t low, int64_t high, int64_t rows, int64_t left,
          int64_t right, int64_t columns, T* to) {
  zeros(low * columns, to);
  for (int64_t h = low; h < high; ++h) {
    const T* from = image + h * apart;
    T* row = to + h * columns;
    for (int64_t i = 0; i < left; ++i) row[i] = T(0);
    if (step == 1)
      copy_row(right - left, from + left, row + left);
    else
      for (int64_t i = left; i < right; ++i) row[i] = from[i * step];
    for (int64_t i = right; i < columns; ++i) row[i] = T(0);
  }
  if (high < rows) zeros((rows - high) * columns, to + high * columns);
}

template <class T>
void spread(const T* from, int64_t pitch, int64_t rows, int64_t columns, T* to, int64_t to_row,
            int64_t to_column) {
  for (int64_t h = 0; h < rows; ++h, from += pitch, to += to_row) {
    if (to_column == 1)
      copy_row(columns, from, to);
    else
      for (int64_t i = 0; i < columns; ++i) to[i * to_column] = from[i];
  }
}

template <class T>
void add(const T* from, int64_t pitch, int64_t rows, int64_t columns, T* to, int64_t to_row,
         int64_t to_column) {
  typedef T Four __attribute__((vector_size(4 * sizeof(T)), aligned(alignof(T)), may_alias));
  for (int64_t h = 0; h < rows; ++h, from += pitch, to += to_row) {
    int64_t i = 0;
    if (to_column == 1) {
      for (; i + kWidth<T> <= columns; i += kWidth<T>) store(to + i, load(to + i) + load(from + i));
      for (; i + 4 <= columns; i += 4)
        *reinterpret_cast<Four*>(to + i) += *reinterpret_cast<const Four*>(from + i);
    }
    for (; i < columns; ++i) to[i * to_column] += from[i];
  }
}

/// Row i of `to`, `to_apart` from the next, is what stands at i in the rows of `from`: as many as a vector
/// has numbers.
template <class T>
ADJOINT_INLINE void transpose(const T* from, int64_t apart, T* to, int64_t to_apart) {
  Square<T> s;
#pragma GCC unroll 16
  for (int i = 0; i < kWidth<T>; ++i) s.v[i] = load(from + i * apart);
  s.transpose();
#pragma GCC unroll 16
  for (int i = 0; i < kWidth<T>; ++i) store(to + i * to_apart, s.v[i]);
}

/// Rows of a transposition that are read or written at once: some lines of the cache.
constexpr int64_t kAtOnce = 16;

template <class T>
void pack(const T* from, int64_t outputs, int64_t apart, int64_t n, const int64_t* places, int64_t width,
          T* to) {
  constexpr int64_t W = kWidth<T>;
  for (int64_t r0 = 0; r0 < n; r0 += kAtOnce, places += kAtOnce, to += kAtOnce * width) {
    const int64_t rows = n - r0 < kAtOnce ? n - r0 : kAtOnce;
    int64_t o = 0;
    // Where the rows are neighbours, which increase.
    if (rows == kAtOnce && places[kAtOnce - 1] - places[0] == kAtOnce - 1)
      for (; o + W <= outputs; o += W)
        for (int64_t r = 0; r < kAtOnce; r += W)
          transpose(from + o * apart + places[r], apart, to + r * width + o, width);
    for (; o < outputs; ++o)
      for (int64_t r = 0; r < rows; ++r) to[r * width + o] = from[o * apart + places[r]];
    for (; o < width; ++o)
      for (int64_t r = 0; r < rows; ++r) to[r * width + o] = T(0);
  }
}
template <class T>
void unpack(const T* from, int64_t width, int64_t n, int64_t outputs, int64_t apart, T* to) {
  constexpr int64_t W = kWidth<T>;
  for (int64_t r0 = 0; r0 < n; r0 += kAtOnce, from += kAtOnce * width, to += kAtOnce) {
    const int64_t rows = n - r0 < kAtOnce ? n - r0 : kAtOnce;
    int64_t o = 0;
    if (rows == kAtOnce)
      for (; o + W <= outputs; o += W)
        for (int64_t r = 0; r < kAtOnce; r += W)
          transpose(from + r * width + o, width, to + o * apart + r, apart);
    for (; o < outputs; ++o)
      for (int64_t r = 0; r < rows; ++r) to[o * apart + r] = from[r * width + o];
  }
}

template <class T>
constexpr ConvolutionTable<T> table{.outputs = kOutputs,
                                    .slack = kWidth<T>,
                                    .block = &lines<T, kOutputs, kVectors>,
                                    .line = &lines<T, 1, 8>,
                                    .width = 2 * kWidth<T>,
                                    .pixels = kPixels,
                                    .longest = kLongest,
                                    .points = points<T>,
                                    .sums = &sums<T>,
                                    .pack = &pack<T>,
                                    .unpack = &unpack<T>,
                                    .fill = &fill<T>,
                                    .spread = &spread<T>,
                                    .add = &add<T>,
                                    .dots = &dots<T>,
                                    .totals = &totals<T>};

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<ConvolutionTable<float>>, ADJOINT_LEVEL,
                                                   &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<ConvolutionTable<double>>, ADJOINT_LEVEL,
                                                    &table<double>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
