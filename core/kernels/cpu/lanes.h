// Folding many numbers side by side, in a form that compilers turn into vector code without being allowed to reorder
// sums: a fixed number of lanes, each with its own partial result, and a tree over the lanes at the end.
//
// `Step` says how one element enters a lane: `lane = step(lane, x, i)`; `Join` how two lanes become one.
// For files compiled per instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/math/math.h"

namespace adjoint::inline ADJOINT_ISA {

template <class T> inline constexpr int kLanes = 512 / sizeof(T);

/// join over the lanes of step(… step(identity, 0), …, n - 1).
template <class T, class Step, class Join>
ADJOINT_INLINE T fold_lanes(int64_t n, T identity, Step step, Join join) {
  constexpr int64_t L = kLanes<T>;
  if (n < 8) {
    T a = identity;
    for (int64_t i = 0; i < n; ++i) a = step(a, i);
    return a;
  }
  alignas(64) T lane[L];
  int64_t width = L;
  if (n < L) {  // only the lanes that are used
    while (width / 2 >= n) width /= 2;
    for (int64_t l = 0; l < width; ++l) lane[l] = identity;
#pragma GCC ivdep
    for (int64_t l = 0; l < n; ++l) lane[l] = step(lane[l], l);
  } else {
    for (int64_t l = 0; l < L; ++l) lane[l] = identity;
    int64_t i = 0;
    for (; i + L <= n; i += L) {
      if constexpr (requires { step.ahead(i); }) step.ahead(i);
#pragma GCC ivdep
      for (int64_t l = 0; l < L; ++l) lane[l] = step(lane[l], i + l);
    }
    const int64_t rest = n - i;
#pragma GCC ivdep
    for (int64_t l = 0; l < rest; ++l) lane[l] = step(lane[l], i + l);
  }
  for (width /= 2; width > 0; width /= 2) {
#pragma GCC ivdep
    for (int64_t l = 0; l < width; ++l) lane[l] = join(lane[l], lane[l + width]);
  }
  return lane[0];
}

/// The sum of f(i) over i < n in T; n is at most some thousands, so that rounding errors stay small.
template <class T, class F> ADJOINT_INLINE T lane_sum(int64_t n, F f) {
  return fold_lanes<T>(n, T(0), [f](T a, int64_t i) { return a + f(i); }, [](T a, T b) { return a + b; });
}

/// The sum of f(p[i]) over a run that comes from memory, row after row: what lies some lines ahead is asked for before the
/// processor, which starts anew at every page, would ask.
template <class T, class E, class F> ADJOINT_INLINE T stream_sum(const E* p, int64_t n, F f) {
  struct Step {
    const E* p;
    F f;
    ADJOINT_INLINE T operator()(T a, int64_t i) const { return a + f(p[i]); }
    ADJOINT_INLINE void ahead(int64_t i) const {
      constexpr int kLine = 64;
      const char* at = reinterpret_cast<const char*>(p + i) + 1536;
      for (int64_t b = 0; b < static_cast<int64_t>(kLanes<T> * sizeof(E)); b += kLine) __builtin_prefetch(at + b);
    }
  };
  return fold_lanes<T>(n, T(0), Step{p, f}, [](T a, T b) { return a + b; });
}

/// Two sums in one pass: f(i, x, y) adds to x and to y.
template <class T, class F> ADJOINT_INLINE void lane_sums(int64_t n, T& first, T& second, F f) {
  constexpr int64_t L = kLanes<T> / 2;
  alignas(64) T a[L] = {}, b[L] = {};
  int64_t i = 0;
  for (; i + L <= n; i += L)
#pragma GCC ivdep
    for (int64_t l = 0; l < L; ++l) f(i + l, a[l], b[l]);
  for (int64_t l = 0; i < n; ++i, ++l) f(i, a[l], b[l]);
  for (int64_t width = L / 2; width > 0; width /= 2)
#pragma GCC ivdep
    for (int64_t l = 0; l < width; ++l) {
      a[l] += a[l + width];
      b[l] += b[l + width];
    }
  first = a[0];
  second = b[0];
}

/// The larger of two; NaN if either is.
template <class T> ADJOINT_INLINE T larger(T a, T b) {
  const T m = a > b ? a : b;  // one instruction, which gives b where either is NaN
  return a == a ? m : a;
}
template <class T> ADJOINT_INLINE T smaller(T a, T b) {
  const T m = a < b ? a : b;
  return a == a ? m : a;
}
template <class T> ADJOINT_INLINE T lowest() {
  if constexpr (T(0.5) == T(0)) {
    if constexpr (T(-1) > T(0)) return T(0);
    else return T(T(1) << (8 * sizeof(T) - 2)) * T(-2);
  } else return -math::infinity<T>;
}
template <class T> ADJOINT_INLINE T highest() {
  if constexpr (T(0.5) == T(0)) return T(~lowest<T>());
  else return math::infinity<T>;
}

template <class T> ADJOINT_INLINE T lane_max(const T* p, int64_t n) {
  return fold_lanes<T>(n, lowest<T>(), [p](T a, int64_t i) { return larger(a, p[i]); }, [](T a, T b) { return larger(a, b); });
}

/// `x` where it is finite, else 0: by what exponents are shifted.
template <class T> ADJOINT_INLINE T finite_or_zero(T x) { return math::isfinite(x) ? x : T(0); }

}  // namespace adjoint::inline ADJOINT_ISA
