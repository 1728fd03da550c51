// The loops of every fold (kernels/cpu/reduction.h) for one instruction set.
//
// `Additive`, `Joined`, `First`, `MomentsFold` and `ExpSumFold` are the five shapes a fold can have; each
// has `rows` and `columns`. Sums run over lanes or over eight rows at a time in T and go into the wide
// accumulator block by block.
#include "kernels/cpu/reduction.h"

#include "for_loops.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/moments.h"
#include "kernels/cpu/variants.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

ADJOINT_INLINE float magnitude(float x) { return math::abs(x); }
ADJOINT_INLINE double magnitude(double x) { return math::abs(x); }
template <class T>
ADJOINT_INLINE T magnitude(Complex<T> z) {
  return math::abs(z);
}

// --- Sums of a function of the element ------------------------------------------------------------

// S is what a few terms add up in, W the accumulator. Integers wrap around, hence unsigned.
template <class T>
struct Plain {
  using S = T;
  using W = wide_t<T>;
  ADJOINT_INLINE static S term(T x, double) { return x; }
};
template <>
struct Plain<int64_t> {
  using S = uint64_t;
  using W = uint64_t;
  ADJOINT_INLINE static S term(int64_t x, double) { return static_cast<uint64_t>(x); }
};
template <class T>
struct NonNan : Plain<T> {
  ADJOINT_INLINE static T term(T x, double) { return x == x ? x : T(0); }
};
template <class T>
struct IsNonzero {
  using S = int32_t;
  using W = int64_t;
  ADJOINT_INLINE static S term(T x, double) { return !(x == T(0)); }
};
template <class T>
struct Magnitude {
  using S = real_part_t<T>;
  using W = double;
  ADJOINT_INLINE static S term(T x, double) { return magnitude(x); }
};
// In double: the square of a float neither overflows nor vanishes there.
template <class T>
struct SquareOf {
  using S = double;
  using W = double;
  ADJOINT_INLINE static S term(T x, double) {
    if constexpr (requires { x.re; })
      return double(x.re) * double(x.re) + double(x.im) * double(x.im);
    else
      return double(x) * double(x);
  }
};
template <class T>
struct PowerOf {
  using S = double;
  using W = double;
  static constexpr bool costly = true;  // its code is long, and stands once in each loop
  ADJOINT_INLINE static S term(T x, double p) { return double(math::pow(magnitude(x), real_part_t<T>(p))); }
};

template <class T, class F>
struct Additive {
  using S = typename F::S;
  using W = typename F::W;

  static void rows(void* acc, const void* from, int64_t row_stride, int64_t rows, int64_t n, int64_t,
                   double parameter) {
    W* a = static_cast<W*>(acc);
    const T* p = static_cast<const T*>(from);
    if constexpr (requires { F::costly; }) {
      constexpr int64_t kTerms = 256;
      S terms[kTerms];
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t at = 0; at < n; at += kTerms) {
          const T* q = p + r * row_stride + at;
          const int64_t m = least(kTerms, n - at);
          for (int64_t i = 0; i < m; ++i) terms[i] = F::term(q[i], parameter);
          a[r] = a[r] + W(lane_sum<S>(m, [&terms](int64_t i) { return terms[i]; }));
        }
      return;
    }
    if (n < 8) {  // in order, as columns take in so few rows
      for (int64_t r = 0; r < rows; ++r) {
        W sum = a[r];
        for (int64_t i = 0; i < n; ++i) sum = sum + W(F::term(p[r * row_stride + i], parameter));
        a[r] = sum;
      }
      return;
    }
    for (int64_t r = 0; r < rows; ++r) {
      W sum = a[r];
      for (int64_t at = 0; at < n; at += kBlock) {
        const T* q = p + r * row_stride + at;
        sum = sum + W(lane_sum<S, kFrom<S, T>>(least(kBlock, n - at),
                                               [=](int64_t i) { return F::term(q[i], parameter); }));
      }
      a[r] = sum;
    }
  }

  static void columns(void* acc, const void* from, int64_t s, int64_t rows, int64_t columns, int64_t,
                      double x) {
    W* a = static_cast<W*>(acc);
    const T* p = static_cast<const T*>(from);
    int64_t r = 0;
    for (; !requires { F::costly; } && r + 8 <= rows; r += 8) {
      const T* q = p + r * s;
      ADJOINT_INDEPENDENT
      for (int64_t j = 0; j < columns; ++j) {
        const S low =
            (F::term(q[j], x) + F::term(q[j + s], x)) + (F::term(q[j + 2 * s], x) + F::term(q[j + 3 * s], x));
        const S high = (F::term(q[j + 4 * s], x) + F::term(q[j + 5 * s], x)) +
                       (F::term(q[j + 6 * s], x) + F::term(q[j + 7 * s], x));
        a[j] = a[j] + W(low + high);
      }
    }
    for (; r < rows; ++r) {
      const T* q = p + r * s;
      ADJOINT_INDEPENDENT
      for (int64_t j = 0; j < columns; ++j) a[j] = a[j] + W(F::term(q[j], x));
    }
  }
};

// --- Products and extremes: one accumulator type, joined by one function --------------------------

template <class T>
struct Times {
  using W = wide_t<T>;
  ADJOINT_INLINE static W take(T x) { return W(x); }
  ADJOINT_INLINE static W join(W a, W b) { return a * b; }
  ADJOINT_INLINE static W identity() { return W(1); }
};
template <>
struct Times<int64_t> {
  using W = uint64_t;
  ADJOINT_INLINE static W take(int64_t x) { return static_cast<uint64_t>(x); }
  ADJOINT_INLINE static W join(W a, W b) { return a * b; }
  ADJOINT_INLINE static W identity() { return 1; }
};
template <class T>
struct Largest {
  using W = T;
  ADJOINT_INLINE static W take(T x) { return x; }
  ADJOINT_INLINE static W join(W a, W b) { return larger(a, b); }
  ADJOINT_INLINE static W identity() { return lowest<T>(); }
};
template <class T>
struct Smallest {
  using W = T;
  ADJOINT_INLINE static W take(T x) { return x; }
  ADJOINT_INLINE static W join(W a, W b) { return smaller(a, b); }
  ADJOINT_INLINE static W identity() { return highest<T>(); }
};
template <class T>
struct LargestMagnitude {
  using W = real_part_t<T>;
  ADJOINT_INLINE static W take(T x) { return magnitude(x); }
  ADJOINT_INLINE static W join(W a, W b) { return larger(a, b); }
  ADJOINT_INLINE static W identity() { return W(0); }
};
template <class T>
struct SmallestMagnitude {
  using W = real_part_t<T>;
  ADJOINT_INLINE static W take(T x) { return magnitude(x); }
  ADJOINT_INLINE static W join(W a, W b) { return smaller(a, b); }
  ADJOINT_INLINE static W identity() { return highest<W>(); }
};

template <class T, class F>
struct Joined {
  using W = typename F::W;

  static void rows(void* acc, const void* from, int64_t row_stride, int64_t rows, int64_t n, int64_t,
                   double) {
    W* a = static_cast<W*>(acc);
    for (int64_t r = 0; r < rows; ++r) {
      const T* p = static_cast<const T*>(from) + r * row_stride;
      a[r] = F::join(a[r], fold_lanes<W>(
                               n, F::identity(), [p](W v, int64_t i) { return F::join(v, F::take(p[i])); },
                               [](W v, W w) { return F::join(v, w); }));
    }
  }

  static void columns(void* acc, const void* from, int64_t s, int64_t rows, int64_t columns, int64_t,
                      double) {
    W* a = static_cast<W*>(acc);
    const T* p = static_cast<const T*>(from);
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
      const T* q = p + r * s;
      ADJOINT_INDEPENDENT
      for (int64_t j = 0; j < columns; ++j) {
        const W low = F::join(F::take(q[j]), F::take(q[j + s])),
                high = F::join(F::take(q[j + 2 * s]), F::take(q[j + 3 * s]));
        a[j] = F::join(a[j], F::join(low, high));
      }
    }
    for (; r < rows; ++r) {
      const T* q = p + r * s;
      ADJOINT_INDEPENDENT
      for (int64_t j = 0; j < columns; ++j) a[j] = F::join(a[j], F::take(q[j]));
    }
  }
};

// --- Extremes with their place --------------------------------------------------------------------

template <class T, bool Max>
struct First {
  /// Whether x takes the place of v. A NaN is more extreme than any number; the first of equals stays.
  ADJOINT_INLINE static bool beats(T x, T v) { return (Max ? x > v : x < v) | ((x != x) & (v == v)); }

  static void rows(void* acc, const void* from, int64_t row_stride, int64_t rows, int64_t n, int64_t start,
                   double) {
    Located<T>* a = static_cast<Located<T>*>(acc);
    if (n <= 0) return;
    for (int64_t r = 0; r < rows; ++r) {
      const T* p = static_cast<const T*>(from) + r * row_stride;
      auto join = [](T v, T w) { return Max ? larger(v, w) : smaller(v, w); };
      const T best = fold_lanes<T>(n, p[0], [p, join](T v, int64_t i) { return join(v, p[i]); }, join);
      if (a[r].index >= 0 && !beats(best, a[r].value)) continue;
      const bool nan = best != best;
      int64_t i = 0;
      for (; i + 64 <= n; i += 64) {  // skip blocks without it
        int found = 0;
        for (int64_t l = 0; l < 64; ++l) found |= nan ? p[i + l] != p[i + l] : p[i + l] == best;
        if (found) break;
      }
      while (i < n - 1 && !(nan ? p[i] != p[i] : p[i] == best)) ++i;
      a[r] = {p[i], start + i};
    }
  }

  static void columns(void* acc, const void* from, int64_t s, int64_t rows, int64_t columns, int64_t start,
                      double) {
    Located<T>* a = static_cast<Located<T>*>(acc);
    T value[kMostColumns];
    int64_t index[kMostColumns];
    for (int64_t j = 0; j < columns; ++j) {
      value[j] = a[j].value;
      index[j] = a[j].index;
    }
    for (int64_t r = 0; r < rows; ++r) {
      const T* p = static_cast<const T*>(from) + r * s;
      const int64_t here = start + r;
      ADJOINT_INDEPENDENT
      for (int64_t j = 0; j < columns; ++j) {
        const bool better = beats(p[j], value[j]) | (index[j] < 0);
        value[j] = better ? p[j] : value[j];
        index[j] = better ? here : index[j];
      }
    }
    for (int64_t j = 0; j < columns; ++j) a[j] = {value[j], index[j]};
  }
};

// --- Sums of exponentials -------------------------------------------------------------------------

template <class T>
struct ExpSumFold {
  using A = ExpSumOf;
  ADJOINT_INLINE static A join(A a, A b) {
    const double max = larger(a.max, b.max), shift = finite_or_zero(max);
    double sum = 0;
    if (!(a.sum == 0)) sum += a.sum * math::exp(finite_or_zero(a.max) - shift);
    if (!(b.sum == 0)) sum += b.sum * math::exp(finite_or_zero(b.max) - shift);
    return {max, sum};
  }

  static void rows(void* acc, const void* from, int64_t row_stride, int64_t rows, int64_t n, int64_t,
                   double) {
    A* a = static_cast<A*>(acc);
    constexpr int64_t kRun = 8 * kBlock / sizeof(T) * 4, kTogether = 8;  // 32 KiB at most
    const int64_t together = n <= 512 ? kTogether : 1;  // what one row waits for, the next ones fill
    for (int64_t row = 0; row < rows; row += together)
      for (int64_t at = 0; at < n; at += kRun) {
        const T* p = static_cast<const T*>(from) + row * row_stride + at;
        const int64_t m = least(kRun, n - at), last = least(together, rows - row);
        T max[kTogether];
        for (int64_t r = 0; r < last; ++r) max[r] = lane_max(p + r * row_stride, m);
        for (int64_t r = 0; r < last; ++r, p += row_stride) {
          const T shift = finite_or_zero(max[r]);
          const T sum = lane_sum<T>(m, [p, shift](int64_t i) { return math::exp(p[i] - shift); });
          const A here{double(max[r]), double(sum)};
          a[row + r] = a[row + r].sum == 0 ? here : join(a[row + r], here);
        }
      }
  }

  static void columns(void* acc, const void* from, int64_t s, int64_t rows, int64_t columns, int64_t,
                      double) {
    A* a = static_cast<A*>(acc);
    constexpr int64_t kTile = 256;
    for (int64_t tile = 0; tile < columns; tile += kTile) {
      const int64_t width = least(kTile, columns - tile);
      T max[kTile], sum[kTile], shift[kTile], more[kTile];
      for (int64_t j = 0; j < width; ++j) {
        max[j] = T(a[tile + j].max);
        sum[j] = T(a[tile + j].sum);
      }
      for (int64_t r = 0; r < rows; r += kRows) {
        const int64_t m = least(kRows, rows - r);
        const T* p = static_cast<const T*>(from) + r * s + tile;
        T old[kTile];
        for (int64_t j = 0; j < width; ++j) old[j] = max[j];
        for (int64_t k = 0; k < m; ++k) ADJOINT_INDEPENDENT
        for (int64_t j = 0; j < width; ++j) max[j] = larger(max[j], p[k * s + j]);
        for (int64_t j = 0; j < width; ++j) {
          shift[j] = finite_or_zero(max[j]);
          more[j] = 0;
        }
        for (int64_t k = 0; k < m; ++k) ADJOINT_INDEPENDENT
        for (int64_t j = 0; j < width; ++j) more[j] += math::exp(p[k * s + j] - shift[j]);
        ADJOINT_INDEPENDENT
        for (int64_t j = 0; j < width; ++j) {
          const T scaled = sum[j] * math::exp(finite_or_zero(old[j]) - shift[j]);
          sum[j] = (sum[j] == T(0) ? T(0) : scaled) + more[j];
        }
      }
      for (int64_t j = 0; j < width; ++j) a[tile + j] = {double(max[j]), double(sum[j])};
    }
  }
};

// --- The tables -----------------------------------------------------------------------------------

template <class L>
constexpr FoldLoops loops() {
  return {&L::rows, &L::columns};
}
constexpr FoldLoops none{};

template <class T>
double squared_distance(const T* a, const T* b, int64_t n) {
  double sum = 0;
  for (int64_t at = 0; at < n; at += kBlock, a += kBlock, b += kBlock)
    sum += lane_sum<double>(least(kBlock, n - at), [a, b](int64_t i) {
      const T d = a[i] - b[i];
      return double(d) * double(d);
    });
  return sum;
}

// In the order of Fold.
template <class T>
constexpr FoldTable<T> floating_table{
    {loops<Additive<T, Plain<T>>>(), loops<Joined<T, Times<T>>>(), loops<Joined<T, Largest<T>>>(),
     loops<Joined<T, Smallest<T>>>(), loops<First<T, true>>(), loops<First<T, false>>(),
     loops<MomentsFold<T>>(), loops<ExpSumFold<T>>(), loops<Additive<T, NonNan<T>>>(),
     loops<Additive<T, IsNonzero<T>>>(), loops<Additive<T, Magnitude<T>>>(),
     loops<Additive<T, SquareOf<T>>>(), loops<Additive<T, PowerOf<T>>>(),
     loops<Joined<T, LargestMagnitude<T>>>(), loops<Joined<T, SmallestMagnitude<T>>>()},
    &squared_distance<T>};

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<FoldTable<float>>, ADJOINT_LEVEL,
                                                   &floating_table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<FoldTable<double>>, ADJOINT_LEVEL,
                                                    &floating_table<double>};

#if ADJOINT_LEVEL == 0
constexpr FoldTable<int64_t> integer_table{
    {loops<Additive<int64_t, Plain<int64_t>>>(), loops<Joined<int64_t, Times<int64_t>>>(),
     loops<Joined<int64_t, Largest<int64_t>>>(), loops<Joined<int64_t, Smallest<int64_t>>>(),
     loops<First<int64_t, true>>(), loops<First<int64_t, false>>(), none, none, none,
     loops<Additive<int64_t, IsNonzero<int64_t>>>(), none, none, none, none, none}};
// Bytes stand for bool and uint8.
constexpr FoldTable<uint8_t> byte_table{{none, none, loops<Joined<uint8_t, Largest<uint8_t>>>(),
                                         loops<Joined<uint8_t, Smallest<uint8_t>>>(), none, none, none, none,
                                         none, loops<Additive<uint8_t, IsNonzero<uint8_t>>>(), none, none,
                                         none, none, none}};
template <class T>
constexpr FoldTable<Complex<T>> complex_table{
    {loops<Additive<Complex<T>, Plain<Complex<T>>>>(), loops<Joined<Complex<T>, Times<Complex<T>>>>(), none,
     none, none, none, loops<MomentsFold<Complex<T>>>(), none,
     loops<Additive<Complex<T>, NonNan<Complex<T>>>>(), loops<Additive<Complex<T>, IsNonzero<Complex<T>>>>(),
     loops<Additive<Complex<T>, Magnitude<Complex<T>>>>(),
     loops<Additive<Complex<T>, SquareOf<Complex<T>>>>(), loops<Additive<Complex<T>, PowerOf<Complex<T>>>>(),
     loops<Joined<Complex<T>, LargestMagnitude<Complex<T>>>>(),
     loops<Joined<Complex<T>, SmallestMagnitude<Complex<T>>>>()}};

[[gnu::init_priority(200)]] RegisterVariant integers{variant_list<FoldTable<int64_t>>, 0, &integer_table};
[[gnu::init_priority(200)]] RegisterVariant bytes{variant_list<FoldTable<uint8_t>>, 0, &byte_table};
[[gnu::init_priority(200)]] RegisterVariant complex_floats{variant_list<FoldTable<Complex<float>>>, 0,
                                                           &complex_table<float>};
[[gnu::init_priority(200)]] RegisterVariant complex_doubles{variant_list<FoldTable<Complex<double>>>, 0,
                                                            &complex_table<double>};
#endif

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
