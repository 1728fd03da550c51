// The loops of normalisation by channels for one instruction set. Sums go in the type of the elements over
// some thousands of a run, or sixty-four of a column, and in double over these.
#include "kernels/cpu/channel_norm.h"

#include "for_loops.h"
#include "for_narrow.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/variants.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

constexpr int64_t kBlock = 4096, kRows = 64;

ADJOINT_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

template <class T>
void moments(const T* x, int64_t n, double* mean, double* squares) {
  double sum = 0, all = 0;
  for (int64_t at = 0; at < n; at += kBlock)
    sum += double(lane_sum<T>(least(kBlock, n - at), [x, at](int64_t i) { return x[at + i]; }));
  const T m = T(sum / double(n));
  for (int64_t at = 0; at < n; at += kBlock) {
    const T* p = x + at;
    all += double(lane_sum<T>(least(kBlock, n - at), [p, m](int64_t i) { return (p[i] - m) * (p[i] - m); }));
  }
  const double off = sum / double(n) - double(m);
  *mean = sum / double(n);
  *squares = all - off * off * double(n);
}

template <class T>
void column_moments(const T* x, int64_t rows, int64_t stride, int64_t columns, double* mean,
                    double* squares) {
  T sum[kChannelColumns], m[kChannelColumns];
  for (int64_t j = 0; j < columns; ++j) mean[j] = squares[j] = 0;
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t n = least(kRows, rows - first);
    const T* p = x + first * stride;
    for (int64_t j = 0; j < columns; ++j) sum[j] = 0;
    for (int64_t k = 0; k < n; ++k) ADJOINT_INDEPENDENT
    for (int64_t j = 0; j < columns; ++j) sum[j] += p[k * stride + j];
    for (int64_t j = 0; j < columns; ++j) {
      m[j] = sum[j] / T(n);
      sum[j] = 0;
    }
    for (int64_t k = 0; k < n; ++k) ADJOINT_INDEPENDENT
    for (int64_t j = 0; j < columns; ++j) sum[j] += (p[k * stride + j] - m[j]) * (p[k * stride + j] - m[j]);
    // What `first` rows gave, and what these give, put together.
    const double share = double(n) / double(first + n);
    for (int64_t j = 0; j < columns; ++j) {
      const double off = double(m[j]) - mean[j];
      mean[j] += off * share;
      squares[j] += double(sum[j]) + off * off * double(first) * share;
    }
  }
}

void join(const double* means, const double* squares, int64_t n, double rows, double* mean,
          double* all_squares) {
  const double m = lane_sum<double>(n, [means](int64_t i) { return means[i]; }) / double(n);
  *all_squares = lane_sum<double>(n, [=](int64_t i) {
    const double off = means[i] - m;
    return squares[i] + off * off * rows;
  });
  *mean = m;
}

template <class T>
void scale(const T* x, T* y, int64_t n, T mean, T scale, T shift) {
  ADJOINT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale + shift;
}
template <class T>
void column_scale(const T* x, T* y, int64_t rows, int64_t stride, int64_t columns, const T* mean,
                  const T* scale, const T* shift) {
  for (int64_t k = 0; k < rows; ++k, x += stride, y += stride) ADJOINT_INDEPENDENT
  for (int64_t j = 0; j < columns; ++j) y[j] = (x[j] - mean[j]) * scale[j] + shift[j];
}

template <class T>
void sums(const T* g, const T* x, int64_t n, T mean, double* of_g, double* of_gx) {
  double a = 0, b = 0;
  for (int64_t at = 0; at < n; at += kBlock) {
    const T *p = g + at, *q = x + at;
    T s, t;
    lane_sums<T>(least(kBlock, n - at), s, t, [p, q, mean](int64_t i, T& u, T& v) {
      u += p[i];
      v += p[i] * (q[i] - mean);
    });
    a += double(s);
    b += double(t);
  }
  *of_g = a;
  *of_gx = b;
}
template <class T>
void column_sums(const T* g, const T* x, int64_t rows, int64_t stride, int64_t columns, const T* mean,
                 double* of_g, double* of_gx) {
  T s[kChannelColumns], t[kChannelColumns];
  for (int64_t j = 0; j < columns; ++j) of_g[j] = of_gx[j] = 0;
  for (int64_t first = 0; first < rows; first += kRows) {
    for (int64_t j = 0; j < columns; ++j) s[j] = t[j] = 0;
    for (int64_t k = first; k < least(rows, first + kRows); ++k) ADJOINT_INDEPENDENT
    for (int64_t j = 0; j < columns; ++j) {
      s[j] += g[k * stride + j];
      t[j] += g[k * stride + j] * (x[k * stride + j] - mean[j]);
    }
    for (int64_t j = 0; j < columns; ++j) {
      of_g[j] += double(s[j]);
      of_gx[j] += double(t[j]);
    }
  }
}

template <class T>
void back(const T* g, const T* x, T* gx, int64_t n, T mean, T scale, T slope, T shift) {
  ADJOINT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) gx[i] = g[i] * scale + ((x[i] - mean) * slope + shift);
}
template <class T>
void column_back(const T* g, const T* x, T* gx, int64_t rows, int64_t stride, int64_t columns, const T* mean,
                 const T* scale, const T* slope, const T* shift) {
  for (int64_t k = 0; k < rows; ++k, g += stride, x += stride, gx += stride) ADJOINT_INDEPENDENT
  for (int64_t j = 0; j < columns; ++j) gx[j] = g[j] * scale[j] + ((x[j] - mean[j]) * slope[j] + shift[j]);
}

template <class T>
constexpr ChannelNormTable<T> table{&moments<T>,     &column_moments<T>, &join,
                                    &scale<T>,       &column_scale<T>,   &sums<T>,
                                    &column_sums<T>, &back<T>,           &column_back<T>};

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<ChannelNormTable<float>>, ADJOINT_LEVEL,
                                                   &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<ChannelNormTable<double>>, ADJOINT_LEVEL,
                                                    &table<double>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
