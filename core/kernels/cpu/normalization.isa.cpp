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
    const T* p = x;
    T* o = y;
    for (int64_t r = 0; r < rows; ++r, p += n, o += n) {
      const Statistics<T> s = statistics(p, n, eps, centred);
      ADJOINT_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) {
        T v = (p[i] - s.mean) * s.scale;
        if constexpr (decltype(has_weight)::value) v *= weight[i];
        if constexpr (decltype(has_bias)::value) v += bias[i];
        o[i] = v;
      }
    }
  });
}

template <class T>
void rows_backward(const T* g, const T* x, const T* weight, T* gx, T* gw, T* gb, int64_t rows, int64_t n,
                   double eps, bool centred) {
  with_flags(weight, false, [=](auto has_weight, auto) {
    constexpr bool kWeight = decltype(has_weight)::value;
    for (int64_t r = 0; r < rows; ++r) {
      const T *p = x + r * n, *q = g + r * n;
      const Statistics<T> s = statistics(p, n, eps, centred);
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
    }
  });
}

/// With v and h less their means and a = mean(v xh), b = mean(h xh): r² (xh (3 a b - mean(v h)) - v b - h a).
template <class T>
void rows_twice(const T* v, const T* g, const T* x, const T* weight, T* out, int64_t rows, int64_t n,
                double eps, bool centred) {
  with_flags(weight, false, [=](auto has_weight, auto) {
    constexpr bool kWeight = decltype(has_weight)::value;
    for (int64_t r = 0; r < rows; ++r) {
      const T *p = x + r * n, *q = v + r * n, *d = g + r * n;
      const Statistics<T> s = statistics(p, n, eps, centred);
      const T m = s.mean, k = s.scale, part = T(1) / T(n);
      auto h = [d, weight](int64_t i) { return kWeight ? d[i] * weight[i] : d[i]; };
      T mv, mh, a, b;
      lane_sums<T>(n, mv, a, [q, p, m](int64_t i, T& x, T& y) {
        x += q[i];
        y += q[i] * (p[i] - m);
      });
      lane_sums<T>(n, mh, b, [h, p, m](int64_t i, T& x, T& y) {
        const T t = h(i);
        x += t;
        y += t * (p[i] - m);
      });
      mv = centred ? mv * part : T(0);
      mh = centred ? mh * part : T(0);
      a *= k * part;
      b *= k * part;
      const T both = lane_sum<T>(n, [q, h, mv, mh](int64_t i) { return (q[i] - mv) * (h(i) - mh); }) * part;
      const T along = (T(3) * a * b - both) * k, scale = k * k;
      T* o = out + r * n;
      ADJOINT_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) o[i] = scale * ((p[i] - m) * along - (q[i] - mv) * b - (h(i) - mh) * a);
    }
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
