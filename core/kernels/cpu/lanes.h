// Folding many numbers side by side, in a form that compilers turn into vector code without being allowed to
// reorder sums: a fixed number of lanes, each with its own partial result, and a tree over the lanes at the
// end.
//
// `Step` says how one element enters a lane: `lane = step(lane, x, i)`; `Join` how two lanes become one.
// For files compiled per instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/math/math.h"

namespace adjoint::inline ADJOINT_ISA {

/// Lanes of short rows: a vector of the longest kind. Long ones take four of them, so that each lane adds up
/// few and no addition waits for the one before.
template <class T>
inline constexpr int kShort = sizeof(T) >= 4 ? 64 / sizeof(T) : 16;
/// Of T made from narrower elements: as many as fill a vector of those, where compilers then use whole
/// vectors.
template <class T, class E>
inline constexpr int kFrom = ADJOINT_LEVEL >= 4 && sizeof(T) > sizeof(E) ? 2 * kShort<T> : kShort<T>;
/// Vectors of a row that are worth putting so many more lanes together at the end.
inline constexpr int kLong = 16;

/// The lanes of a vector as one, by a tree.
template <int S, class T, class Join>
ADJOINT_INLINE T join_lanes(T* lane, Join join) {
#pragma GCC unroll 8
  for (int width = S / 2; width > 0; width /= 2) ADJOINT_INDEPENDENT
  for (int l = 0; l < width; ++l) lane[l] = join(lane[l], lane[l + width]);
  return lane[0];
}

/// join over S lanes of step(… step(identity, 0), …, n - 1), where n >= S: the last elements are taken by S
/// lanes that end with them, and of these only those that are new. `step` may be asked for an element whose
/// result is not used.
template <int S, class T, class Step, class Join>
ADJOINT_INLINE T fold_whole(int64_t n, T identity, Step step, Join join) {
  alignas(64) T lane[S];
  ADJOINT_INDEPENDENT
  for (int l = 0; l < S; ++l) lane[l] = step(identity, l);
  int64_t i = S;
  for (; i + S <= n; i += S) ADJOINT_INDEPENDENT
  for (int l = 0; l < S; ++l) lane[l] = step(lane[l], i + l);
  if (i < n) {
    const int64_t first = n - S;
    const int old = static_cast<int>(i - first);
    ADJOINT_INDEPENDENT
    for (int l = 0; l < S; ++l) {
      const T next = step(lane[l], first + l);
      lane[l] = l < old ? lane[l] : next;
    }
  }
  return join_lanes<S>(lane, join);
}

/// The same over V vectors of S lanes, where n >= V S. (Written as one row of lanes they would not stay in
/// registers.)
template <int V, int S, class T, class Step, class Join>
ADJOINT_INLINE T fold_long(int64_t n, T identity, Step step, Join join) {
  alignas(64) T lane[V][S];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) ADJOINT_INDEPENDENT
  for (int l = 0; l < S; ++l) lane[v][l] = step(identity, v * S + l);
  int64_t i = V * S;
  for (; i + V * S <= n; i += V * S)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) ADJOINT_INDEPENDENT
  for (int l = 0; l < S; ++l) lane[v][l] = step(lane[v][l], i + v * S + l);
#pragma GCC unroll 8
  for (int v = 1; v < V; ++v) ADJOINT_INDEPENDENT
  for (int l = 0; l < S; ++l) lane[0][l] = join(lane[0][l], lane[v][l]);
  for (; i + S <= n; i += S) ADJOINT_INDEPENDENT
  for (int l = 0; l < S; ++l) lane[0][l] = step(lane[0][l], i + l);
  if (i < n) {
    const int64_t first = n - S;
    const int old = static_cast<int>(i - first);
    ADJOINT_INDEPENDENT
    for (int l = 0; l < S; ++l) {
      const T next = step(lane[0][l], first + l);
      lane[0][l] = l < old ? lane[0][l] : next;
    }
  }
  return join_lanes<S>(lane[0], join);
}

/// The same for any n: over one vector's lanes where rows are short, over several vectors' where they are
/// long.
template <class T, int S = kShort<T>, class Step, class Join>
ADJOINT_INLINE T fold_lanes(int64_t n, T identity, Step step, Join join) {
  if (n < S / 2) {
    T a = identity;
    for (int64_t i = 0; i < n; ++i) a = step(a, i);
    return a;
  }
  if (n < S) return fold_whole<S / 2>(n, identity, step, join);
  if (n < kLong * S) return fold_whole<S>(n, identity, step, join);
  return fold_long<4, S>(n, identity, step, join);
}

/// The sum of f(i) over i < n in T; n is at most some thousands, so that rounding errors stay small.
template <class T, int S = kShort<T>, class F>
ADJOINT_INLINE T lane_sum(int64_t n, F f) {
  return fold_lanes<T, S>(n, T(0), [f](T a, int64_t i) { return a + f(i); }, [](T a, T b) { return a + b; });
}

/// Two sums over V vectors of S lanes, where n >= V S.
template <int V, int S, class T, class F>
ADJOINT_INLINE void sums_whole(int64_t n, T& first, T& second, F f) {
  alignas(64) T a[V][S] = {}, b[V][S] = {};
  int64_t i = 0;
  for (; i + V * S <= n; i += V * S)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) ADJOINT_INDEPENDENT
  for (int l = 0; l < S; ++l) f(i + v * S + l, a[v][l], b[v][l]);
#pragma GCC unroll 8
  for (int v = 1; v < V; ++v) ADJOINT_INDEPENDENT
  for (int l = 0; l < S; ++l) {
    a[0][l] += a[v][l];
    b[0][l] += b[v][l];
  }
  if constexpr (V > 1)
    for (; i + S <= n; i += S) ADJOINT_INDEPENDENT
  for (int l = 0; l < S; ++l) f(i + l, a[0][l], b[0][l]);
  if (i < n) {
    const int64_t last = n - S;
    const int old = static_cast<int>(i - last);
    ADJOINT_INDEPENDENT
    for (int l = 0; l < S; ++l) {
      T x = a[0][l], y = b[0][l];
      f(last + l, x, y);
      a[0][l] = l < old ? a[0][l] : x;
      b[0][l] = l < old ? b[0][l] : y;
    }
  }
  const auto join = [](T x, T y) { return x + y; };
  first = join_lanes<S>(a[0], join);
  second = join_lanes<S>(b[0], join);
}
/// Two sums in one pass: f(i, x, y) adds to x and to y, and does nothing else.
template <class T, class F>
ADJOINT_INLINE void lane_sums(int64_t n, T& first, T& second, F f) {
  constexpr int S = kShort<T>;
  if (n < S) {
    first = second = 0;
    for (int64_t i = 0; i < n; ++i) f(i, first, second);
  } else if (n < kLong * S)
    sums_whole<1, S>(n, first, second, f);
  else
    sums_whole<4, S>(n, first, second, f);
}

/// The larger of two; NaN if either is.
template <class T>
ADJOINT_INLINE T larger(T a, T b) {
  const T m = a > b ? a : b;  // one instruction, which gives b where either is NaN
  return a == a ? m : a;
}
template <class T>
ADJOINT_INLINE T smaller(T a, T b) {
  const T m = a < b ? a : b;
  return a == a ? m : a;
}
template <class T>
ADJOINT_INLINE T lowest() {
  if constexpr (T(0.5) == T(0)) {
    if constexpr (T(-1) > T(0))
      return T(0);
    else
      return T(T(1) << (8 * sizeof(T) - 2)) * T(-2);
  } else
    return -math::infinity<T>;
}
template <class T>
ADJOINT_INLINE T highest() {
  if constexpr (T(0.5) == T(0))
    return T(~lowest<T>());
  else
    return math::infinity<T>;
}

template <class T>
ADJOINT_INLINE T lane_max(const T* p, int64_t n) {
  return fold_lanes<T>(
      n, lowest<T>(), [p](T a, int64_t i) { return larger(a, p[i]); }, [](T a, T b) { return larger(a, b); });
}

/// `x` where it is finite, else 0: by what exponents are shifted.
template <class T>
ADJOINT_INLINE T finite_or_zero(T x) {
  return math::isfinite(x) ? x : T(0);
}

}  // namespace adjoint::inline ADJOINT_ISA
