// Softmax for one instruction set: largest element, exponentials and their sum, scaling. Down columns the
// same three passes run over a narrow tile whose accumulators live in registers.
#include "kernels/cpu/softmax.h"

#include "for_loops.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/variants.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

template <class T>
struct Rows {
  // Short rows several at a time, a pass after the other: what one row waits for, the next ones fill.
  static constexpr int64_t kTogether = 8, kShortRow = 512;

  static void forward(const T* x, T* y, int64_t rows, int64_t n, const T* scale, bool log) {
    const int64_t together = n <= kShortRow ? kTogether : 1;
    for (int64_t row = 0; row < rows; row += together, x += together * n, y += together * n) {
      const int64_t m = rows - row < together ? rows - row : together;
      T max[kTogether], sum[kTogether];
      for (int64_t r = 0; r < m; ++r) max[r] = lane_max(x + r * n, n);
      if (log) {
        for (int64_t r = 0; r < kTogether; ++r) sum[r] = T(1);
        for (int64_t r = 0; r < m; ++r) {
          const T *p = x + r * n, shift = max[r];
          sum[r] = lane_sum<T>(n, [p, shift](int64_t i) { return math::exp(p[i] - shift); });
        }
        ADJOINT_INDEPENDENT
        for (int64_t r = 0; r < kTogether; ++r) sum[r] = math::log(sum[r]);
        for (int64_t r = 0; r < m; ++r) ADJOINT_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) y[r * n + i] = (x[r * n + i] - max[r]) - sum[r];
      } else {
        for (int64_t r = 0; r < m; ++r) ADJOINT_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) y[r * n + i] = math::exp(x[r * n + i] - max[r]);
        for (int64_t r = 0; r < m; ++r) {
          const T* p = y + r * n;
          sum[r] = lane_sum<T>(n, [p](int64_t i) { return p[i]; });
        }
        for (int64_t r = 0; r < m; ++r) {
          const T factor = (scale ? scale[row + r] : T(1)) / sum[r];
          ADJOINT_INDEPENDENT
          for (int64_t i = 0; i < n; ++i) y[r * n + i] *= factor;
        }
      }
    }
  }

  static void backward(const T* g, const T* y, T* gx, int64_t rows, int64_t n, bool log) {
    for (int64_t r = 0; r < rows; ++r, g += n, y += n, gx += n) {
      if (log) {
        const T sum = lane_sum<T>(n, [g](int64_t i) { return g[i]; });
        ADJOINT_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) gx[i] = g[i] - math::exp(y[i]) * sum;
      } else {
        const T mean = lane_sum<T>(n, [g, y](int64_t i) { return g[i] * y[i]; });
        ADJOINT_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) gx[i] = y[i] * (g[i] - mean);
      }
    }
  }
};

// Rows that are added up before they go into the total, so that rounding errors stay small.
constexpr int64_t kRows = 64;

/// W columns where W > 0, known to the compiler; else `width` of them.
template <class T, int64_t W>
struct Tile {
  static constexpr int64_t kWidth = W > 0 ? W : kSoftmaxColumns;

  /// sum[j] of term(k, j) over the rows k.
  template <class F>
  ADJOINT_INLINE static void total(T* sum, int64_t n, int64_t width, F term) {
    for (int64_t j = 0; j < width; ++j) sum[j] = 0;
    for (int64_t first = 0; first < n; first += kRows) {
      const int64_t last = first + kRows < n ? first + kRows : n;
      T part[kWidth];
      for (int64_t j = 0; j < width; ++j) part[j] = 0;
      for (int64_t k = first; k < last; ++k) ADJOINT_INDEPENDENT
      for (int64_t j = 0; j < width; ++j) part[j] += term(k, j);
      for (int64_t j = 0; j < width; ++j) sum[j] += part[j];
    }
  }

  static void forward(const T* x, T* y, int64_t n, int64_t stride, int64_t columns, const T* scale,
                      bool log) {
    const int64_t width = W > 0 ? W : columns;
    T max[kWidth], sum[kWidth];
    for (int64_t j = 0; j < width; ++j) max[j] = lowest<T>();
    for (int64_t k = 0; k < n; ++k) ADJOINT_INDEPENDENT
    for (int64_t j = 0; j < width; ++j) max[j] = larger(max[j], x[k * stride + j]);
    if (log) {
      total(sum, n, width, [&](int64_t k, int64_t j) { return math::exp(x[k * stride + j] - max[j]); });
      for (int64_t j = 0; j < width; ++j) sum[j] = math::log(sum[j]);
      for (int64_t k = 0; k < n; ++k) ADJOINT_INDEPENDENT
      for (int64_t j = 0; j < width; ++j) y[k * stride + j] = (x[k * stride + j] - max[j]) - sum[j];
      return;
    }
    total(sum, n, width,
          [&](int64_t k, int64_t j) { return y[k * stride + j] = math::exp(x[k * stride + j] - max[j]); });
    for (int64_t j = 0; j < width; ++j) sum[j] = (scale ? scale[j] : T(1)) / sum[j];
    for (int64_t k = 0; k < n; ++k) ADJOINT_INDEPENDENT
    for (int64_t j = 0; j < width; ++j) y[k * stride + j] *= sum[j];
  }

  static void backward(const T* g, const T* y, T* gx, int64_t n, int64_t stride, int64_t columns, bool log) {
    const int64_t width = W > 0 ? W : columns;
    T sum[kWidth];
    if (log) {
      total(sum, n, width, [&](int64_t k, int64_t j) { return g[k * stride + j]; });
      for (int64_t k = 0; k < n; ++k) ADJOINT_INDEPENDENT
      for (int64_t j = 0; j < width; ++j)
        gx[k * stride + j] = g[k * stride + j] - math::exp(y[k * stride + j]) * sum[j];
      return;
    }
    total(sum, n, width, [&](int64_t k, int64_t j) { return g[k * stride + j] * y[k * stride + j]; });
    for (int64_t k = 0; k < n; ++k) ADJOINT_INDEPENDENT
    for (int64_t j = 0; j < width; ++j) gx[k * stride + j] = y[k * stride + j] * (g[k * stride + j] - sum[j]);
  }
};

template <class T>
void columns_forward(const T* x, T* y, int64_t n, int64_t stride, int64_t columns, const T* scale, bool log) {
  if (columns == kSoftmaxColumns)
    Tile<T, kSoftmaxColumns>::forward(x, y, n, stride, columns, scale, log);
  else
    Tile<T, 0>::forward(x, y, n, stride, columns, scale, log);
}
template <class T>
void columns_backward(const T* g, const T* y, T* gx, int64_t n, int64_t stride, int64_t columns, bool log) {
  if (columns == kSoftmaxColumns)
    Tile<T, kSoftmaxColumns>::backward(g, y, gx, n, stride, columns, log);
  else
    Tile<T, 0>::backward(g, y, gx, n, stride, columns, log);
}

template <class T>
constexpr SoftmaxTable<T> table{&Rows<T>::forward, &columns_forward<T>, &Rows<T>::backward,
                                &columns_backward<T>};

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<SoftmaxTable<float>>, ADJOINT_LEVEL,
                                                   &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<SoftmaxTable<double>>, ADJOINT_LEVEL,
                                                    &table<double>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
