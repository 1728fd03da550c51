// Tiles of scores for one instruction set: scale and mask, exponentials, what is left out, and the way back.
#include "kernels/cpu/attention.h"

#include <cstring>

#include "for_loops.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/variants.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

namespace philox = runtime::philox;

template <class T>
[[gnu::noinline]] void factors(const AttentionDropout<T>& dropout, int64_t n, T* out) {
  philox::Group words;
  const uint32_t* word = words.word[0];
  for (int64_t j = 0; j < n; j += philox::group_words) {
    philox::generate(dropout.stream, dropout.group + static_cast<uint64_t>(j / philox::group_words), words);
    const int64_t count = n - j < philox::group_words ? n - j : philox::group_words;
    for (int64_t l = 0; l < count; ++l) out[j + l] = word[l] < dropout.below ? T(0) : dropout.factor;
  }
}

/// The factors of row r, of which there are n.
template <class T>
void row_factors(const ScoreTile<T>& tile, int64_t r, int64_t n, T* out) {
  AttentionDropout<T> row = tile.dropout;
  row.group += static_cast<uint64_t>(r) * row.groups;
  factors(row, n, out);
}

template <class T>
ADJOINT_INLINE int64_t seen_by(const ScoreTile<T>& tile, int64_t r) {
  const int64_t n = tile.seen + r;
  return n < 0 ? 0 : n < tile.columns ? n : tile.columns;
}

template <class M, class F>
ADJOINT_INLINE void with_mask(const char* mask, int64_t across, int64_t n, F f) {
  if (across == static_cast<int64_t>(sizeof(M))) {
    const M* m = reinterpret_cast<const M*>(mask);
    ADJOINT_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) f(j, m[j]);
  } else {
    for (int64_t j = 0; j < n; ++j) f(j, *reinterpret_cast<const M*>(mask + j * across));
  }
}

/// x of row r becomes scale x + mask.
template <class T>
[[gnu::noinline]] void apply_mask(const ScoreTile<T>& tile, int64_t r, int64_t n, T* x) {
  const char* mask = tile.mask + r * tile.mask_down;
  const T scale = tile.scale;
  if (tile.mask_is_bool)
    with_mask<uint8_t>(mask, tile.mask_across, n,
                       [=](int64_t j, uint8_t m) { x[j] = m ? x[j] * scale : -math::infinity<T>; });
  else
    with_mask<T>(mask, tile.mask_across, n, [=](int64_t j, T m) { x[j] = x[j] * scale + m; });
}

// Rows are short: sums and maxima over them stay in a few vectors, which are put together by halves.
template <class T, int bytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(bytes), aligned(alignof(T)), may_alias));
};
struct Plus {
  template <class V>
  ADJOINT_INLINE V operator()(V a, V b) const {
    return a + b;
  }
};
struct More {
  template <class V>
  ADJOINT_INLINE V operator()(V a, V b) const {
    return a > b ? a : b;
  }
};

template <class T, int bytes, class F>
ADJOINT_INLINE T put_together(typename VectorOf<T, bytes>::type v, F f) {
  if constexpr (bytes == 16) {
    T all = v[0];
    for (size_t i = 1; i < 16 / sizeof(T); ++i) all = f(all, v[i]);
    return all;
  } else {
    typename VectorOf<T, bytes / 2>::type low, high;
    std::memcpy(&low, &v, bytes / 2);
    std::memcpy(&high, reinterpret_cast<const char*>(&v) + bytes / 2, bytes / 2);
    return put_together<T, bytes / 2>(f(low, high), f);
  }
}

template <class T, class F>
ADJOINT_INLINE T fold_row(const T* x, int64_t n, T identity, F f) {
  constexpr int kBytes = ADJOINT_LEVEL >= 4 ? 64 : ADJOINT_LEVEL >= 3 ? 32 : 16;
  constexpr int64_t W = kBytes / sizeof(T);
  using Vector = typename VectorOf<T, kBytes>::type;
  Vector a = identity - Vector{}, b = a, c = a, d = a;
  const auto at = [x](int64_t j)
                      __attribute__((always_inline)) { return *reinterpret_cast<const Vector*>(x + j); };
  int64_t j = 0;
  for (; j + 4 * W <= n; j += 4 * W) {
    a = f(a, at(j));
    b = f(b, at(j + W));
    c = f(c, at(j + 2 * W));
    d = f(d, at(j + 3 * W));
  }
  for (; j + W <= n; j += W) a = f(a, at(j));
  T all = put_together<T, kBytes>(f(f(a, b), f(c, d)), f);
  for (; j < n; ++j) all = f(all, x[j]);
  return all;
}

template <class T>
void forward(const ScoreTile<T>& tile, T* max, T* sum, T* out, int64_t width) {
  T kept[kAttentionKeys];
  for (int64_t r = 0; r < tile.rows; ++r) {
    T* x = tile.scores + r * tile.step;
    const int64_t n = seen_by(tile, r);
    const T scale = tile.mask ? T(1) : tile.scale;
    if (tile.mask) apply_mask(tile, r, n, x);
    // NaN need not be found here: it makes the sum NaN.
    if (scale < 0)
      for (int64_t j = 0; j < n; ++j) x[j] = -x[j];
    const T size = scale < 0 ? -scale : scale;
    // NaN need not be found here: it makes the sum NaN.
    const T highest = n ? More()(max[r], size * fold_row(x, n, lowest<T>(), More())) : max[r];
    const T shift = finite_or_zero(highest);
    ADJOINT_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) x[j] = math::exp(x[j] * size - shift);
    const T total = fold_row(x, n, T(0), Plus());
    for (int64_t j = n; j < tile.columns; ++j) x[j] = 0;
    const T factor = math::exp(max[r] - shift);
    sum[r] = sum[r] * factor + total;
    max[r] = highest;
    if (out && factor != T(1)) {
      T* y = out + r * width;
      ADJOINT_INDEPENDENT
      for (int64_t j = 0; j < width; ++j) y[j] *= factor;
    }
    if (tile.dropout.below) {
      row_factors(tile, r, n, kept);
      for (int64_t j = 0; j < n; ++j) x[j] *= kept[j];
    }
  }
}

template <class T>
void backward(const ScoreTile<T>& tile, T* d, const T* log_sum, const T* mean, T* of_mask,
              int64_t of_mask_down) {
  T kept[kAttentionKeys];
  const T scale = tile.scale;
  for (int64_t r = 0; r < tile.rows; ++r, d += tile.step) {
    T* x = tile.scores + r * tile.step;
    const int64_t n = seen_by(tile, r);
    const T s = tile.mask ? T(1) : scale, m = mean[r], factor = of_mask ? T(1) : scale;
    // A row that sees nothing has weights of 0.
    const T l = log_sum[r] == lowest<T>() ? math::infinity<T> : log_sum[r];
    if (tile.mask) apply_mask(tile, r, n, x);
    if (tile.dropout.below) {
      row_factors(tile, r, n, kept);
      for (int64_t j = 0; j < n; ++j) d[j] *= kept[j];
    }
    ADJOINT_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) {
      const T p = math::exp(x[j] * s - l);
      x[j] = p;
      d[j] = p * (d[j] - m) * factor;
    }
    if (tile.dropout.below)
      for (int64_t j = 0; j < n; ++j) x[j] *= kept[j];
    if (of_mask) {
      T* to = of_mask + r * of_mask_down;
      for (int64_t j = 0; j < n; ++j) {
        to[j] += d[j];
        d[j] *= scale;
      }
    }
    for (int64_t j = n; j < tile.columns; ++j) x[j] = d[j] = 0;
  }
}

template <class T>
constexpr AttentionTable<T> table{&forward<T>, &backward<T>, &factors<T>};

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<AttentionTable<float>>, ADJOINT_LEVEL,
                                                   &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<AttentionTable<double>>, ADJOINT_LEVEL,
                                                    &table<double>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
