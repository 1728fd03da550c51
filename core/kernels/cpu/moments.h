// Mean and variance in one walk: the loops of a fold (kernels/cpu/reduction.isa.cpp) for one instruction set.
//
// A block's mean first, then the squares of the distances from it, then Chan's formula to join two blocks:
// T. F. Chan, G. H. Golub, R. J. LeVeque, Algorithms for computing the sample variance (1983).
#pragma once

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/reduction.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

// Elements that are added up in T before they go into the accumulator.
constexpr int64_t kBlock = 1024;
// Rows that moments and sums of exponentials take in at a time: twice over, so that they should stay in the
// cache.
constexpr int64_t kRows = 16;

ADJOINT_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

template <class T>
struct RealPart {
  using type = T;
};
template <class T>
struct RealPart<Complex<T>> {
  using type = T;
};
template <class T>
using real_part_t = typename RealPart<T>::type;

template <class T>
struct MomentsFold {
  using W = wide_t<T>;
  using A = MomentsOf<W>;
  ADJOINT_INLINE static double norm(double x) { return x * x; }
  ADJOINT_INLINE static double norm(Complex<double> z) { return z.re * z.re + z.im * z.im; }
  template <class X>
  ADJOINT_INLINE static auto squared(X x) {
    if constexpr (requires { x.re; })
      return x.re * x.re + x.im * x.im;
    else
      return x * x;
  }
  /// Whether float held these squares with too few digits, or not at all. Of equal elements there are none.
  template <class X>
  ADJOINT_INLINE static int32_t lost(X squares) {
    if constexpr (sizeof(X) == sizeof(double))
      return 0;
    else
      return int32_t(!((squares > X(1e-28)) & (squares < X(1e37))));
  }
  ADJOINT_INLINE static int32_t differ(T x, T y) {
    if constexpr (requires { x.re; })
      return int32_t((x.re != y.re) | (x.im != y.im));
    else
      return int32_t(x != y);
  }
  /// The moments of a block in double.
  [[gnu::noinline]] static A again(const T* p, int64_t stride, int64_t n) {
    int32_t varies = 0;
    if (stride == 1)
      for (int64_t i = 0; i < n; ++i) varies |= differ(p[i], p[0]);
    else
      for (int64_t i = 0; i < n; ++i) varies |= differ(p[i * stride], p[0]);
    W mean = W(p[0]);
    if (!varies) return {double(n), mean, 0.0};
    double squares = 0;
    for (int64_t i = 1; i < n; ++i) mean = mean + W(p[i * stride]);
    mean = mean / double(n);
    for (int64_t i = 0; i < n; ++i) squares += norm(W(p[i * stride]) - mean);
    return {double(n), mean, squares};
  }
  ADJOINT_INLINE static A join(A a, A b) {
    const double n = a.count + b.count, share = n > 0 ? b.count / n : 0;
    const W d = b.mean - a.mean;
    // The plain mean of two equally large blocks, and a mean that is exact for one empty block.
    return {n, a.count > 0 ? a.mean + d * share : b.mean,
            a.squares + b.squares + norm(d) * (a.count * share)};
  }

  static void rows(void* acc, const void* from, int64_t row_stride, int64_t rows, int64_t n, int64_t,
                   double) {
    A* a = static_cast<A*>(acc);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t at = 0; at < n; at += 2 * kBlock) {
        const T* p = static_cast<const T*>(from) + r * row_stride + at;
        const int64_t m = least(2 * kBlock, n - at);
        const W mean = W(lane_sum<T>(m, [p](int64_t i) { return p[i]; })) / double(m);
        const T c = T(mean);
        const T shift = lane_sum<T>(m, [p, c](int64_t i) { return p[i] - c; });
        const auto squares = lane_sum<real_part_t<T>>(m, [p, c](int64_t i) { return squared(p[i] - c); });
        if (lost(squares)) [[unlikely]] {
          a[r] = join(a[r], again(p, 1, m));
          continue;
        }
        const W off = W(shift) / double(m);
        const double s = double(squares) - norm(off) * double(m);
        a[r] = join(a[r], {double(m), W(c) + off, s < 0 ? 0.0 : s});
      }
  }

  static void columns(void* acc, const void* from, int64_t s, int64_t rows, int64_t columns, int64_t,
                      double) {
    A* a = static_cast<A*>(acc);
    constexpr int64_t kTile = 256;
    for (int64_t tile = 0; tile < columns; tile += kTile) {
      const int64_t width = least(kTile, columns - tile);
      T mean[kTile], off[kTile];
      real_part_t<T> squares[kTile];
      // What was found so far, each by itself; all columns have the counts of the first.
      double count = a[tile].count, spread[kTile];
      W centre[kTile];
      for (int64_t j = 0; j < width; ++j) {
        centre[j] = a[tile + j].mean;
        spread[j] = a[tile + j].squares;
      }
      for (int64_t r = 0; r < rows; r += kRows) {
        const int64_t m = least(kRows, rows - r);
        const T* p = static_cast<const T*>(from) + r * s + tile;
        for (int64_t j = 0; j < width; ++j) mean[j] = p[j];
        for (int64_t k = 1; k < m; ++k) ADJOINT_INDEPENDENT
        for (int64_t j = 0; j < width; ++j) mean[j] = mean[j] + p[k * s + j];
        const real_part_t<T> scale = real_part_t<T>(1) / real_part_t<T>(m);
        for (int64_t j = 0; j < width; ++j) {
          mean[j] = mean[j] * scale;
          off[j] = T(0);
          squares[j] = 0;
        }
        for (int64_t k = 0; k < m; ++k) ADJOINT_INDEPENDENT
        for (int64_t j = 0; j < width; ++j) {
          const T d = p[k * s + j] - mean[j];
          off[j] = off[j] + d;
          squares[j] = squares[j] + squared(d);
        }
        int32_t any = 0;
        for (int64_t j = 0; j < width; ++j) any |= lost(squares[j]);
        // As `join` does.
        const double all = count + double(m), share = double(m) / all, weight = count * share;
        const auto take = [&](int64_t j) __attribute__((always_inline)) {
          const W o = W(off[j]) / double(m), here = W(mean[j]) + o, d = here - centre[j];
          const double q = double(squares[j]) - norm(o) * double(m);
          centre[j] = count > 0 ? centre[j] + d * share : here;
          spread[j] = spread[j] + (q < 0 ? 0.0 : q) + norm(d) * weight;
        };
        if (any) [[unlikely]] {
          for (int64_t j = 0; j < width; ++j) {
            if (!lost(squares[j])) {
              take(j);
              continue;
            }
            const A joined = join({count, centre[j], spread[j]}, again(p + j, s, m));
            centre[j] = joined.mean;
            spread[j] = joined.squares;
          }
        } else {
          ADJOINT_INDEPENDENT
          for (int64_t j = 0; j < width; ++j) take(j);
        }
        count = all;
      }
      for (int64_t j = 0; j < width; ++j) a[tile + j] = {count, centre[j], spread[j]};
    }
  }
};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
