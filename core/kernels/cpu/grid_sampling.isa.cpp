// Reading images at places, for one instruction set: some neighbouring places at a time, whose elements are
// gathered from each plane. Along each dimension a place has one, two or four elements around it, its taps;
// what is read is a sum over all combinations of them. Start reading at `taps_of`.
#include "kernels/cpu/grid_sampling.h"

#if ADJOINT_LEVEL >= 3
#include <immintrin.h>
#endif

#include <type_traits>

#include "for_loops.h"
#include "kernels/cpu/math/math.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/vectors.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

constexpr int L = 32;  // places at a time

/// Along one dimension: the taps of each place, -1 outside of the image; how far the place lies beyond the
/// first but one; and by how much it moves with the grid.
template <class T>
struct Along {
  int taps;
  alignas(64) int32_t index[4][L];
  alignas(64) T share[L], scale[L];
  /// Of the innermost dimension: that a tap and the next one have changed places, so that the first element
  /// of a row is in the first place and the last one in the second.
  alignas(64) int32_t turned[2][L];
};

/// A place as `padding` has it, and by what its movement is multiplied. As in torch it does not move at the
/// image's ends, and NaN is its beginning.
template <GridPadding padding, class T>
ADJOINT_INLINE void bound(T low, T span, T last, T& at, T& scale) {
  if constexpr (padding == GridPadding::Reflection) {
    const T away = at - low, far = away < 0 ? -away : away, flips = math::floor(far / span),
            rest = far - flips * span;
    const bool odd = flips - 2 * math::floor(flips * T(0.5)) != 0;
    scale = odd == (away < 0) ? scale : -scale;
    at = (odd ? span - rest : rest) + low;  // NaN where the span is 0
  }
  if constexpr (padding != GridPadding::Zeros) {
    scale = ((at > 0) & (at < last)) ? scale : T(0);
    at = at > 0 ? at : T(0);
    at = at < last ? at : last;
  }
}

/// Where it is an element of the image, which NaN is not.
template <class T>
ADJOINT_INLINE int32_t place_of(T at, T last) {
  return static_cast<int32_t>(((at >= 0) & (at <= last)) ? at : T(-1));
}

template <GridMode mode, GridPadding padding, class T>
void taps_in(const GridImage& s, int d, const T* given, Along<T>& to) {
  const T size = static_cast<T>(s.sizes[d]), half = (s.align ? size - 1 : size) * T(0.5),
          shift = s.align ? T(0) : T(0.5), span = 2 * half;
  // The last element, or the one before it where T does not have its number: never one beyond it.
  T last = static_cast<T>(s.sizes[d] - 1);
  if (static_cast<int64_t>(last) >= s.sizes[d]) last = __builtin_nextafterf(static_cast<float>(last), 0);
  constexpr bool cubic = mode == GridMode::Cubic;
  alignas(64) T low[L];
  ADJOINT_INDEPENDENT
  for (int i = 0; i < L; ++i) {
    T at = (given[i] + 1) * half - shift, scale = half;
    if constexpr (!cubic) bound<padding>(-shift, span, last, at, scale);
    low[i] = mode == GridMode::Nearest ? math::round(at) : math::floor(at);
    to.share[i] = at - low[i];
    to.scale[i] = scale;
  }
  for (int k = 0; k < to.taps; ++k) ADJOINT_INDEPENDENT
  for (int i = 0; i < L; ++i) {
    T tap = low[i] + static_cast<T>(cubic ? k - 1 : k), unused = 1;
    if constexpr (cubic) bound<padding>(-shift, span, last, tap, unused);
    to.index[k][i] = place_of(tap, last);
  }
}

template <GridMode mode, class T>
ADJOINT_INLINE void taps_as(const GridImage& s, int d, const T* given, Along<T>& to) {
  switch (s.padding) {
    case GridPadding::Zeros:
      return taps_in<mode, GridPadding::Zeros>(s, d, given, to);
    case GridPadding::Border:
      return taps_in<mode, GridPadding::Border>(s, d, given, to);
    case GridPadding::Reflection:
      return taps_in<mode, GridPadding::Reflection>(s, d, given, to);
  }
}

template <class T>
ADJOINT_INLINE void taps_of(const GridImage& s, int d, const T* grid, int count, Along<T>& to) {
  alignas(64) T given[L] = {};
  grid += s.dims - 1 - d;
  if (count == L && s.dims == 2)
    for (int i = 0; i < L; ++i) given[i] = grid[2 * i];
  else
    for (int i = 0; i < count; ++i) given[i] = grid[i * s.dims];
  to.taps = s.mode == GridMode::Cubic ? 4 : s.mode == GridMode::Linear ? 2 : 1;
  switch (s.mode) {
    case GridMode::Linear:
      return taps_as<GridMode::Linear>(s, d, given, to);
    case GridMode::Nearest:
      return taps_as<GridMode::Nearest>(s, d, given, to);
    case GridMode::Cubic:
      return taps_as<GridMode::Cubic>(s, d, given, to);
  }
}

template <class T>
ADJOINT_INLINE void turn(Along<T>& a, int64_t size) {
  const auto last = static_cast<int32_t>(size - 1);
  for (int k = 0; k + 1 < a.taps; k += 2)
    for (int i = 0; i < L; ++i) {
      const int32_t one = a.index[k][i], two = a.index[k + 1][i];
      const bool turns = ((two < 0) & (one == last)) | ((one < 0) & (two == 0));
      a.turned[k / 2][i] = turns ? -1 : 0;
      a.index[k][i] = turns ? two : one;
      a.index[k + 1][i] = turns ? one : two;
    }
}

/// The derivative of order `order` of Keys's kernel at distances below 1, and from there to 2, with torch's
/// constant.
template <class T>
ADJOINT_INLINE T near(T s, int order) {
  constexpr T a = -0.75;
  return order == 0   ? ((a + 2) * s - (a + 3)) * s * s + 1
         : order == 1 ? (3 * (a + 2) * s - 2 * (a + 3)) * s
         : order == 2 ? 6 * (a + 2) * s - 2 * (a + 3)
                      : 6 * (a + 2) + 0 * s;
}
template <class T>
ADJOINT_INLINE T far(T s, int order) {
  constexpr T a = -0.75;
  return order == 0   ? ((a * s - 5 * a) * s + 8 * a) * s - 4 * a
         : order == 1 ? (3 * a * s - 10 * a) * s + 8 * a
         : order == 2 ? 6 * a * s - 10 * a
                      : 6 * a + 0 * s;
}

/// The weights of the taps, differentiated `order` times by the grid.
template <class T>
ADJOINT_INLINE void weights_of(GridMode mode, const Along<T>& from, int order, T (&to)[4][L]) {
  if (mode == GridMode::Nearest) {
    for (int i = 0; i < L; ++i) to[0][i] = order == 0;
  } else if (mode == GridMode::Linear) {
    ADJOINT_INDEPENDENT
    for (int i = 0; i < L; ++i) {
      const T s = from.share[i], scale = order > 1 ? T(0) : from.scale[i];
      to[0][i] = order == 0 ? 1 - s : -scale;
      to[1][i] = order == 0 ? s : scale;
    }
  } else {
    for (int i = 0; i < L; ++i) {
      const T s = from.share[i], odd = order % 2 ? T(-1) : T(1);
      T scale = order > 3 ? T(0) : T(1);
      for (int k = 0; k < order && k < 3; ++k) scale *= from.scale[i];
      to[0][i] = scale * far(s + 1, order);
      to[1][i] = scale * near(s, order);
      to[2][i] = scale * odd * near(1 - s, order);
      to[3][i] = scale * odd * far(2 - s, order);
    }
  }
}

/// The combinations of taps: where in a plane they lie, -1 outside.
template <class T>
struct Places {
  const GridImage& image;
  Along<T> along[3];
  int all = 1;
  /// Whether all lie in the image; whether those two and two are neighbours, from `pair` on, as far as they
  /// do.
  bool inside = true, paired = false;
  alignas(64) int32_t at[16][L], pair[8][L];

  Places(const GridImage& s, const T* grid, int count) : image(s) {
    for (int i = 0; i < L; ++i) at[0][i] = i < count ? 0 : -1;
    for (int d = 0; d < s.dims; ++d) {
      taps_of(s, d, grid, count, along[d]);
      if (d == s.dims - 1) turn(along[d], s.sizes[d]);
      const auto size = static_cast<int32_t>(s.sizes[d]);
      // From behind, since each gives way to as many as there are taps.
      for (int k = all * along[d].taps; k-- > 0;) {
        const int32_t (&before)[L] = at[k / along[d].taps];
        const int32_t (&next)[L] = along[d].index[k % along[d].taps];
        for (int i = 0; i < L; ++i) at[k][i] = (before[i] | next[i]) < 0 ? -1 : before[i] * size + next[i];
      }
      all *= along[d].taps;
    }
    int32_t signs = 0, wrong = all > 1 && s.sizes[s.dims - 1] > 1 ? 0 : -1;
    for (int k = 0; k < all; ++k)
      for (int i = 0; i < L; ++i) signs |= at[k][i];
    inside = signs >= 0;
    for (int k = 0; k + 1 < all; k += 2)
      for (int i = 0; i < L; ++i) {
        const int32_t one = at[k][i], two = at[k + 1][i];
        wrong |= (((one | two) >= 0) & (two != one + 1)) ? -1 : 0;
        pair[k / 2][i] = one >= 0 ? one : two >= 0 ? two - 1 : 0;
      }
    paired = wrong == 0;
  }
  void weigh(const int* orders, T (&to)[16][L]) const {
    for (int i = 0; i < L; ++i) to[0][i] = 1;
    int have = 1;
    for (int d = 0; d < image.dims; ++d) {
      alignas(64) T next[4][L];
      weights_of(image.mode, along[d], orders[d], next);
      if (d == image.dims - 1)
        for (int k = 0; k + 1 < along[d].taps; k += 2)
          for (int i = 0; i < L; ++i) {
            const T one = next[k][i], two = next[k + 1][i];
            next[k][i] = along[d].turned[k / 2][i] ? two : one;
            next[k + 1][i] = along[d].turned[k / 2][i] ? one : two;
          }
      for (int k = have * along[d].taps; k-- > 0;)
        for (int i = 0; i < L; ++i) to[k][i] = to[k / along[d].taps][i] * next[k % along[d].taps][i];
      have *= along[d].taps;
    }
  }
};

/// As many elements of a plane as a vector has numbers; 0 for those that lie outside.
template <class T>
ADJOINT_INLINE Vector<T> gather(const T* x, const int32_t* at) {
#if ADJOINT_LEVEL >= 4
  if constexpr (sizeof(T) == 4) {
    const __m512i places = _mm512_loadu_si512(at);
    return _mm512_mask_i32gather_ps(_mm512_setzero_ps(),
                                    _mm512_cmpge_epi32_mask(places, _mm512_setzero_si512()), places, x, 4);
  } else {
    const __m256i places = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    return _mm512_mask_i32gather_pd(_mm512_setzero_pd(),
                                    _mm256_cmpge_epi32_mask(places, _mm256_setzero_si256()), places, x, 8);
  }
#elif ADJOINT_LEVEL == 3
  if constexpr (sizeof(T) == 4) {
    const __m256i places = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    const __m256i inside = _mm256_cmpgt_epi32(places, _mm256_set1_epi32(-1));
    return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), x, places, _mm256_castsi256_ps(inside), 4);
  } else {
    const __m128i places = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m256i inside = _mm256_cvtepi32_epi64(_mm_cmpgt_epi32(places, _mm_set1_epi32(-1)));
    return _mm256_mask_i32gather_pd(_mm256_setzero_pd(), x, places, _mm256_castsi256_pd(inside), 8);
  }
#else
  Vector<T> result{};
  for (int i = 0; i < kWidth<T>; ++i)
    if (at[i] >= 0) result[i] = x[at[i]];
  return result;
#endif
}

#if ADJOINT_LEVEL >= 3
// Two neighbours are read at once where they are needed together, which takes half as long as gathering.
template <class T>
struct PairOf {
  typedef T type __attribute__((vector_size(32), aligned(alignof(T)), may_alias));
};
template <class T>
using Half = typename PairOf<T>::type;

/// The elements at these places, and those after them.
ADJOINT_INLINE void pairs(const float* x, const int32_t* at, Half<float>& left, Half<float>& right) {
  const auto two = [&](int i) {
    const __m128d low = _mm_load_sd(reinterpret_cast<const double*>(x + at[i]));
    return _mm_castpd_ps(_mm_loadh_pd(low, reinterpret_cast<const double*>(x + at[i + 1])));
  };
  const __m256 even = _mm256_insertf128_ps(_mm256_castps128_ps256(two(0)), two(4), 1);
  const __m256 odd = _mm256_insertf128_ps(_mm256_castps128_ps256(two(2)), two(6), 1);
  left = _mm256_shuffle_ps(even, odd, 0x88);
  right = _mm256_shuffle_ps(even, odd, 0xdd);
}
ADJOINT_INLINE void pairs(const double* x, const int32_t* at, Half<double>& left, Half<double>& right) {
  const auto two = [&](int i, int j) {
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(x + at[i])), _mm_loadu_pd(x + at[j]), 1);
  };
  const __m256d even = two(0, 2), odd = two(1, 3);
  left = _mm256_unpacklo_pd(even, odd);
  right = _mm256_unpackhi_pd(even, odd);
}
#endif

#if ADJOINT_LEVEL >= 3
/// Numbers at places that lie in the image, else 0.
template <class T>
ADJOINT_INLINE Half<T> where_inside(Half<T> x, const int32_t* at) {
  using Int = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  typedef int32_t Given __attribute__((vector_size(128 / sizeof(T)), aligned(4), may_alias));
  typedef Int Mask __attribute__((vector_size(32), may_alias));
  const Mask outside = __builtin_convertvector(*reinterpret_cast<const Given*>(at), Mask) < 0;
  return (Half<T>)((Mask)x & ~outside);
}

template <bool inside, int sums, class T>
ADJOINT_INLINE void sum_pairs(const Places<T>& places, const T (*weights)[16][L], const T* x, T (*to)[L]) {
  using V = Half<T>;
  for (int v = 0; v < L; v += sizeof(V) / sizeof(T)) {
    V all[sums] = {}, left, right;
    for (int k = 0; k < places.all; k += 2) {
      pairs(x, places.pair[k / 2] + v, left, right);
      if constexpr (!inside) {
        left = where_inside<T>(left, places.at[k] + v);
        right = where_inside<T>(right, places.at[k + 1] + v);
      }
#pragma GCC unroll 3
      for (int d = 0; d < sums; ++d)
        all[d] += *reinterpret_cast<const V*>(weights[d][k] + v) * left +
                  *reinterpret_cast<const V*>(weights[d][k + 1] + v) * right;
    }
#pragma GCC unroll 3
    for (int d = 0; d < sums; ++d) *reinterpret_cast<V*>(to[d] + v) = all[d];
  }
}
#endif

/// to[d] = the sum of weights[d][k] times the elements at place k of a plane, L of each.
template <int sums, class T>
ADJOINT_INLINE void sum_up(const Places<T>& places, const T (*weights)[16][L], const T* x, T (*to)[L]) {
#if ADJOINT_LEVEL >= 3
  if (places.paired && places.inside) return sum_pairs<true, sums>(places, weights, x, to);
  if (places.paired) return sum_pairs<false, sums>(places, weights, x, to);
#endif
  for (int v = 0; v < L; v += kWidth<T>) {
    Vector<T> all[sums] = {};
    for (int k = 0; k < places.all; ++k) {
      const Vector<T> value = gather(x, places.at[k] + v);
#pragma GCC unroll 3
      for (int d = 0; d < sums; ++d) all[d] += load(weights[d][k] + v) * value;
    }
#pragma GCC unroll 3
    for (int d = 0; d < sums; ++d) store(to[d] + v, all[d]);
  }
}

template <class T>
ADJOINT_INLINE void copy(const T* from, int n, T* to) {
  if (n == L)
    for (int i = 0; i < L; ++i) to[i] = from[i];
  else
    for (int i = 0; i < n; ++i) to[i] = from[i];
}

ADJOINT_INLINE int64_t volume(const GridImage& s) {
  int64_t n = 1;
  for (int d = 0; d < s.dims; ++d) n *= s.sizes[d];
  return n;
}

ADJOINT_INLINE int some(int64_t left) { return left < L ? static_cast<int>(left) : L; }

template <class T>
void sample(const GridImage& s, const T* x, int64_t planes, const T* grid, int64_t total, T* y,
            int64_t step) {
  const int64_t plane = volume(s);
  for (int64_t p = 0; p < total; p += L) {
    const int count = some(total - p);
    const Places<T> places(s, grid + p * s.dims, count);
    alignas(64) T weights[16][L], sum[L];
    places.weigh(s.orders, weights);
    for (int64_t c = 0; c < planes; ++c) {
      sum_up<1>(places, &weights, x + c * plane, &sum);
      copy(sum, count, y + c * step + p);
    }
  }
}

template <class T>
void transposed(const GridImage& s, const T* g, int64_t step, int64_t planes, const T* grid, int64_t total,
                T* x) {
  const int64_t plane = volume(s);
  for (int64_t p = 0; p < total; p += L) {
    const int count = some(total - p);
    const Places<T> places(s, grid + p * s.dims, count);
    alignas(64) T weights[16][L];
    places.weigh(s.orders, weights);
    for (int64_t c = 0; c < planes; ++c) {
      alignas(64) T given[L] = {}, term[L];
      copy(g + c * step + p, count, given);
      T* to = x + c * plane;
      for (int k = 0; k < places.all; ++k) {
        for (int i = 0; i < L; ++i) term[i] = weights[k][i] * given[i];
        const int32_t* at = places.at[k];
        if (places.inside) {
#pragma GCC unroll 16
          for (int i = 0; i < L; ++i) to[at[i]] += term[i];
        } else {
          for (int i = 0; i < L; ++i)
            if (at[i] >= 0) to[at[i]] += term[i];
        }
      }
    }
  }
}

template <int dims, class T>
void slopes_in(const GridImage& s, const T* g, int64_t step, const T* x, int64_t planes, const T* grid,
               int64_t total, T* to) {
  const int64_t plane = volume(s);
  for (int64_t p = 0; p < total; p += L) {
    const int count = some(total - p);
    const Places<T> places(s, grid + p * dims, count);
    alignas(64) T weights[dims][16][L], sum[dims][L] = {};
    for (int d = 0; d < dims; ++d) {
      int orders[3] = {s.orders[0], s.orders[1], s.orders[2]};
      ++orders[d];
      places.weigh(orders, weights[d]);
    }
    for (int64_t c = 0; c < planes; ++c) {
      alignas(64) T given[L] = {}, slope[dims][L];
      copy(g + c * step + p, count, given);
      sum_up<dims>(places, weights, x + c * plane, slope);
#pragma GCC unroll 3
      for (int d = 0; d < dims; ++d)
        for (int i = 0; i < L; ++i) sum[d][i] += given[i] * slope[d][i];
    }
    for (int i = 0; i < count; ++i)
      for (int d = 0; d < dims; ++d) to[(p + i) * dims + dims - 1 - d] = sum[d][i];
  }
}

template <class T>
void slopes(const GridImage& s, const T* g, int64_t step, const T* x, int64_t planes, const T* grid,
            int64_t total, T* to) {
  (s.dims == 2 ? slopes_in<2, T> : slopes_in<3, T>)(s, g, step, x, planes, grid, total, to);
}

template <class T>
constexpr GridTable<T> table{&sample<T>, &transposed<T>, &slopes<T>};

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<GridTable<float>>, ADJOINT_LEVEL,
                                                   &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<GridTable<double>>, ADJOINT_LEVEL,
                                                    &table<double>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
