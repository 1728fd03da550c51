// Layer normalisation for one instruction set.
//
// With xh = (x - mean) r, r = 1 / sqrt(var + eps) and h = g weight, the gradient of x is
// r (h - mean(h) - xh mean(h xh)); that of the weight is g xh, of the bias g, summed over slices.
#include "kernels/cpu/normalization.h"

#include "for_loops.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/variants.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

template <class T>
struct Statistics {
  T mean, scale;
};

/// Of one run: the sums go over blocks, whose results add up in double.
template <class T>
ADJOINT_INLINE Statistics<T> statistics(const T* x, int64_t n, double eps, bool centred) {
  constexpr int64_t kBlock = 4096;
  double sum = 0, squares = 0, off = 0;
  for (int64_t at = 0; centred && at < n; at += kBlock) {
    const T* p = x + at;
    sum += double(lane_sum<T>(n - at < kBlock ? n - at : kBlock, [p](int64_t i) { return p[i]; }));
  }
  const T mean = T(sum / double(n));
  for (int64_t at = 0; at < n; at += kBlock) {
    const T* p = x + at;
    const int64_t m = n - at < kBlock ? n - at : kBlock;
    squares += double(lane_sum<T>(m, [p, mean](int64_t i) { return (p[i] - mean) * (p[i] - mean); }));
  }
  off = sum / double(n) - double(mean);
  const double variance = squares / double(n) - off * off;
  return {mean, T(1.0 / __builtin_sqrt((variance > 0           ? variance
                                        : variance != variance ? variance
                                                               : 0.0) +
                                       eps))};
}

/// Rows whose statistics are found together: code that has them once for all loops over rows.
constexpr int64_t kTogether = 16;
template <class T>
[[gnu::noinline]] void statistics_of(const T* x, int64_t rows, int64_t n, double eps, bool centred,
                                     Statistics<T>* found) {
  for (int64_t r = 0; r < rows; ++r) found[r] = statistics(x + r * n, n, eps, centred);
}
/// f(row, statistics) for each, which find the row in cache.
template <class T, class F>
ADJOINT_INLINE void each_row(const T* x, int64_t rows, int64_t n, double eps, bool centred, F f) {
  Statistics<T> found[kTogether];
  const int64_t few = n > 512 ? 1 : n > 256 ? 4 : kTogether;
  for (int64_t at = 0; at < rows; at += few) {
    const int64_t m = rows - at < few ? rows - at : few;
    statistics_of(x + at * n, m, n, eps, centred, found);
    for (int64_t r = 0; r < m; ++r) f(at + r, found[r]);
  }
}

struct Yes {
  static constexpr bool value = true;
};
struct No {
  static constexpr bool value = false;
};
/// Whether to multiply by a weight, to add a bias: known to the compiler, so that loops have no branch.
template <class F>
ADJOINT_INLINE void with_flags(bool weight, bool bias, F f) {
  if (weight && bias)
    f(Yes{}, Yes{});
  else if (weight)
    f(Yes{}, No{});
  else if (bias)
    f(No{}, Yes{});
  else
    f(No{}, No{});
}

template <class T>
void rows(const T* x, const T* weight, const T* bias, T* y, int64_t rows, int64_t n, double eps,
          bool centred) {
  with_flags(weight, bias, [=](auto has_weight, auto has_bias) {
    each_row(x, rows, n, eps, centred, [=](int64_t r, Statistics<T> s) {
      const T* p = x + r * n;
      T* o = y + r * n;
      ADJOINT_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) {
        T v = (p[i] - s.mean) * s.scale;
        if constexpr (decltype(has_weight)::value) v *= weight[i];
        if constexpr (decltype(has_bias)::value) v += bias[i];
        o[i] = v;
      }
    });
  });
}

template <class T>
void rows_backward(const T* g, const T* x, const T* weight, T* gx, T* gw, T* gb, int64_t rows, int64_t n,
                   double eps, bool centred) {
  with_flags(weight, false, [=](auto has_weight, auto) {
    constexpr bool kWeight = decltype(has_weight)::value;
    each_row(x, rows, n, eps, centred, [=](int64_t r, Statistics<T> s) {
      const T *p = x + r * n, *q = g + r * n;
      const T m = s.mean, k = s.scale;
      if (gx) {
        auto h = [q, weight](int64_t i) { return kWeight ? q[i] * weight[i] : q[i]; };
        T a, b;
        lane_sums<T>(n, a, b, [h, p, m](int64_t i, T& x, T& y) {
          const T v = h(i);
          x += v;
          y += v * (p[i] - m);
        });
        a = centred ? a / T(n) : T(0);
        b *= k / T(n);
        T* o = gx + r * n;
        ADJOINT_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) o[i] = k * ((h(i) - a) - (p[i] - m) * k * b);
      }
      if (gw && gb) {
        ADJOINT_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) {
          gw[i] += q[i] * ((p[i] - m) * k);
          gb[i] += q[i];
        }
      } else if (gw) {
        ADJOINT_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) gw[i] += q[i] * ((p[i] - m) * k);
      } else if (gb) {
        ADJOINT_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) gb[i] += q[i];
      }
    });
  });
}

/// With v and h less their means and a = mean(v xh), b = mean(h xh): r² (xh (3 a b - mean(v h)) - v b - h a).
template <class T>
void rows_twice(const T* v, const T* g, const T* x, const T* weight, T* out, int64_t rows, int64_t n,
                double eps, bool centred) {
  each_row(x, rows, n, eps, centred, [=](int64_t r, Statistics<T> s) {
    const T *p = x + r * n, *d = g + r * n;
    T* const o = out + r * n;
    const T m = s.mean, k = s.scale, part = T(1) / T(n);
    // The result's place holds h until the end, where there is a weight.
    const T* const of[] = {v + r * n, weight ? o : d};
    ADJOINT_INDEPENDENT
    for (int64_t i = 0; weight && i < n; ++i) o[i] = d[i] * weight[i];
    T mean[2], along[2];
#pragma GCC unroll 1
    for (int which = 0; which < 2; ++which) {
      const T* const q = of[which];
      lane_sums<T>(n, mean[which], along[which], [q, p, m](int64_t i, T& sum, T& product) {
        sum += q[i];
        product += q[i] * (p[i] - m);
      });
      mean[which] = centred ? mean[which] * part : T(0);
      along[which] *= k * part;
    }
    const T *const q = of[0], *const h = of[1];
    const T mq = mean[0], mh = mean[1], a = along[0], b = along[1];
    const T both = lane_sum<T>(n, [q, h, mq, mh](int64_t i) { return (q[i] - mq) * (h[i] - mh); }) * part;
    const T by_x = (T(3) * a * b - both) * k, scale = k * k;
    ADJOINT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) o[i] = scale * ((p[i] - m) * by_x - (q[i] - mq) * b - (h[i] - mh) * a);
  });
}

template <class T>
constexpr NormalizationTable<T> table{&rows<T>, &rows_backward<T>, &rows_twice<T>};

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<NormalizationTable<float>>, ADJOINT_LEVEL,
                                                   &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<NormalizationTable<double>>, ADJOINT_LEVEL,
                                                    &table<double>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
