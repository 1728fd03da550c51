// Distances for one instruction set: differences are taken in registers, so that what lies close together
// keeps its digits, as it would not where squares are taken apart into products.
//
// Rows of y become columns of a panel; a tile of rows of x meets a panel as in a product of matrices, with a
// subtraction more. Gradients go along the rows: a tile of rows of x meets one row of y after the other.
// Start reading at `panel`.
#include "kernels/cpu/distance.h"

#include "for_loops.h"
#include "for_narrow.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/vectors.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

/// Vectors beside each other, and rows below each other, in a tile: what the registers hold.
constexpr int kVectors = 2, kRows = ADJOINT_LEVEL >= 4 ? 8 : 4;

struct Root {
  template <class V>
  ADJOINT_INLINE static V add(V a, V d) {
    return a + d * d;
  }
  template <class V>
  ADJOINT_INLINE static V pulled(V d) {
    return d;
  }
};
struct Sum {
  template <class V>
  ADJOINT_INLINE static V add(V a, V d) {
    return a + (d < 0 ? -d : d);
  }
  template <class V>
  ADJOINT_INLINE static V pulled(V d) {
    const V one = V{} + 1, zero{};
    return d > zero ? one : d < zero ? -one : d - d;  // a NaN stays
  }
};
struct Largest {
  template <class V>
  ADJOINT_INLINE static V add(V a, V d) {
    const V size = d < 0 ? -d : d, most = a > size ? a : size;
    return a == a ? most : a;
  }
};

template <class M, int Rows, class T>
ADJOINT_INLINE void tile(const T* x, const T* packed, int64_t d, T* out, int64_t stride, int64_t count) {
  using V = Vector<T>;
  constexpr int W = kWidth<T>;
  V sum[Rows][kVectors] = {};
  for (int64_t k = 0; k < d; ++k, packed += kVectors * W) {
    V y[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) y[v] = load<T>(packed + v * W);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = M::add(sum[r][v], y[v] - x[r * d + k]);
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r, out += stride) {
    alignas(64) T line[kVectors * W];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) store<T>(line + v * W, sum[r][v]);
    if constexpr (std::is_same_v<M, Root>) ADJOINT_INDEPENDENT
    for (int i = 0; i < kVectors * W; ++i) line[i] = math::sqrt(line[i]);
    if (count == kVectors * W)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) store<T>(out + v * W, load<T>(line + v * W));
    else
      for (int64_t i = 0; i < count; ++i) out[i] = line[i];
  }
}

template <class M, class T>
void tiles(const T* x, int64_t n, const T* packed, int64_t count, int64_t d, T* out, int64_t stride) {
  int64_t i = 0;
  for (; i + kRows <= n; i += kRows) tile<M, kRows>(x + i * d, packed, d, out + i * stride, stride, count);
  for (; i < n; ++i) tile<M, 1>(x + i * d, packed, d, out + i * stride, stride, count);
}

template <class T>
void panel(Metric metric, const T* x, int64_t n, const T* y, int64_t count, int64_t d, T* packed, T* out,
           int64_t stride) {
  constexpr int64_t L = kVectors * kWidth<T>;
  for (int64_t j = 0; j < L; ++j)
    for (int64_t k = 0; k < d; ++k) packed[k * L + j] = j < count ? y[j * d + k] : T(0);
  if (metric == Metric::Root)
    tiles<Root>(x, n, packed, count, d, out, stride);
  else if (metric == Metric::Sum)
    tiles<Sum>(x, n, packed, count, d, out, stride);
  else
    tiles<Largest>(x, n, packed, count, d, out, stride);
}

template <class M, int Rows, int Vectors, class T>
ADJOINT_INLINE void pull_tile(const T* x, const T* y, int64_t m, int64_t width, const T* share, int64_t row,
                              int64_t column, T* to) {
  using V = Vector<T>;
  constexpr int W = kWidth<T>;
  V own[Rows][Vectors], sum[Rows][Vectors] = {};
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) own[r][v] = load<T>(x + r * width + v * W);
  for (int64_t j = 0; j < m; ++j, y += width, share += column) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      const V other = load<T>(y + v * W);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) sum[r][v] += M::pulled(own[r][v] - other) * share[r * row];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) store<T>(to + r * width + v * W, sum[r][v]);
}

template <class M, int Rows, class T>
ADJOINT_INLINE void pull_rows(const T* x, const T* y, int64_t m, int64_t width, const T* share, int64_t row,
                              int64_t column, T* to) {
  constexpr int W = kWidth<T>;
  int64_t k = 0;
  for (; k + 2 * W <= width; k += 2 * W)
    pull_tile<M, Rows, 2>(x + k, y + k, m, width, share, row, column, to + k);
  if (k < width) pull_tile<M, Rows, 1>(x + k, y + k, m, width, share, row, column, to + k);
}

template <class M, class T>
void pull_all(const T* x, int64_t n, const T* y, int64_t m, int64_t width, const T* share, int64_t row,
              int64_t column, T* to) {
  constexpr int R = 4;
  int64_t i = 0;
  for (; i + R <= n; i += R)
    pull_rows<M, R>(x + i * width, y, m, width, share + i * row, row, column, to + i * width);
  for (; i < n; ++i)
    pull_rows<M, 1>(x + i * width, y, m, width, share + i * row, row, column, to + i * width);
}

template <class T>
void pull(Metric metric, const T* x, int64_t n, const T* y, int64_t m, int64_t width, const T* share,
          int64_t row, int64_t column, T* to) {
  if (metric == Metric::Root)
    pull_all<Root>(x, n, y, m, width, share, row, column, to);
  else
    pull_all<Sum>(x, n, y, m, width, share, row, column, to);
}

template <class T>
void shares(const T* g, const T* distance, int64_t n, T* to) {
  ADJOINT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) to[i] = distance[i] == 0 ? T(0) : g[i] / distance[i];
}

template <class T>
constexpr DistanceTable<T> table{.panel_rows = kVectors * kWidth<T>,
                                 .lanes = kWidth<T>,
                                 .panel = &panel<T>,
                                 .pull = &pull<T>,
                                 .shares = &shares<T>};

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<DistanceTable<float>>, ADJOINT_LEVEL,
                                                   &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<DistanceTable<double>>, ADJOINT_LEVEL,
                                                    &table<double>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
