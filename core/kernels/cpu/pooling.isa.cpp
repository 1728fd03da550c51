// Rows of windows that lie within the image, for one instruction set: some neighbours at once, in a vector of
// the largest so far and one of where they lie.
#include "kernels/cpu/pooling.h"

#include <type_traits>
#include <utility>

#include "for_loops.h"
#include "for_narrow.h"
#include "kernels/cpu/math/math.h"
#include "kernels/cpu/variants.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

/// N numbers, S (0: any `step`) apart; none beyond the last is read.
template <int N, int S, class V, class T, int... L>
ADJOINT_INLINE void load(const T* p, int64_t step, V& to, std::integer_sequence<int, L...>) {
  if constexpr (S == 0) {
    to = V{p[L * step]...};
    return;
  }
  typedef T Given __attribute__((vector_size(N * sizeof(T)), aligned(alignof(T)), may_alias));
  to = *reinterpret_cast<const Given*>(p);
  if constexpr (S == 2) {
    const V high = *reinterpret_cast<const Given*>(p + N - 1);
    to = __builtin_shufflevector(to, high, (L < N / 2 ? 2 * L : 2 * L + 1)...);
  } else if constexpr (S == 3) {
    const V middle = *reinterpret_cast<const Given*>(p + N),
            high = *reinterpret_cast<const Given*>(p + 2 * N - 2);
    to = __builtin_shufflevector(to, middle, (3 * L < 2 * N ? 3 * L : 0)...);
    to = __builtin_shufflevector(to, high, (3 * L < 2 * N ? L : 3 * L - N + 2)...);
  }
}

/// Without positions (null) the largest alone.
template <int N, int S, class T>
ADJOINT_INLINE void some(const T* x, int64_t first, int64_t step, int64_t taps, const int64_t* offsets,
                         T* values, int64_t* positions) {
  using Int = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  typedef T V __attribute__((vector_size(N * sizeof(T))));
  typedef Int Places __attribute__((vector_size(N * sizeof(T))));
  typedef int64_t Long __attribute__((vector_size(N * sizeof(int64_t))));
  constexpr auto lanes = std::make_integer_sequence<int, N>();
  V best, v;
  load<N, S>(x + first + offsets[0], step, best, lanes);
  if (!positions) {
    for (int64_t t = 1; t < taps; ++t) {
      load<N, S>(x + first + offsets[t], step, v, lanes);
      best = ((v > best) | (v != v)) ? v : best;
    }
    __builtin_memcpy(values, &best, sizeof best);
    return;
  }
  Places at = static_cast<Int>(offsets[0]) - Places{};
  for (int64_t t = 1; t < taps; ++t) {
    load<N, S>(x + first + offsets[t], step, v, lanes);
    const Places larger = (v > best) | (v != v);
    best = larger ? v : best;
    at = larger ? static_cast<Int>(offsets[t]) - Places{} : at;
  }
  Long place = __builtin_convertvector(at, Long);
  [&]<int... L>(std::integer_sequence<int, L...>)
      __attribute__((always_inline)) { place += Long{(first + L * step)...}; }(lanes);
  __builtin_memcpy(values, &best, sizeof best);
  __builtin_memcpy(positions, &place, sizeof place);
}

/// The last vector may overlap the one before it.
template <int N, int S, class T>
ADJOINT_INLINE void all(const T* x, int64_t first, int64_t any, int64_t n, int64_t taps,
                        const int64_t* offsets, T* values, int64_t* positions) {
  const int64_t step = S ? S : any;
  for (int64_t c = 0; c < n; c += N) {
    const int64_t at = c + N <= n ? c : n - N;
    if (positions)
      some<N, S>(x, first + at * step, step, taps, offsets, values + at, positions + at);
    else
      some<N, S, T>(x, first + at * step, step, taps, offsets, values + at, nullptr);
  }
}

template <class T>
void row(const T* x, int64_t first, int64_t step, int64_t n, int64_t taps, const int64_t* offsets, T* values,
         int64_t* positions) {
#ifndef __OPTIMIZE_SIZE__
  if (step == 1 && n >= 8) return all<8, 1>(x, first, step, n, taps, offsets, values, positions);
  if (step == 2 && n >= 8) return all<8, 2>(x, first, step, n, taps, offsets, values, positions);
  if (step == 1 && n >= 4) return all<4, 1>(x, first, step, n, taps, offsets, values, positions);
  if (step == 2 && n >= 4) return all<4, 2>(x, first, step, n, taps, offsets, values, positions);
  if (step == 3 && n >= 8) return all<8, 3>(x, first, step, n, taps, offsets, values, positions);
  if (step == 3 && n >= 4) return all<4, 3>(x, first, step, n, taps, offsets, values, positions);
  if (n >= 8) return all<8, 0>(x, first, step, n, taps, offsets, values, positions);
  if (n >= 4) return all<4, 0>(x, first, step, n, taps, offsets, values, positions);
#endif
  for (int64_t c = 0; c < n; ++c, first += step) {
    int64_t at = first + offsets[0];
    for (int64_t t = 1; t < taps; ++t) {
      const T v = x[first + offsets[t]];
      at = ((v > x[at]) | (v != v)) ? first + offsets[t] : at;
    }
    values[c] = x[at];
    if (positions) positions[c] = at;
  }
}

template <class T>
constexpr PoolingTable<T> table{&row<T>};

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<PoolingTable<float>>, ADJOINT_LEVEL,
                                                   &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<PoolingTable<double>>, ADJOINT_LEVEL,
                                                    &table<double>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
