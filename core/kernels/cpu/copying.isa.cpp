// Copies for one instruction set: conversions between the types of numbers, and planes of elements of one
// size, which two dimensions with any strides span. Start reading at `plane`.
#include "kernels/cpu/copying.h"

#include "kernels/cpu/variants.h"
#include "kernels/cpu/vectors.h"

#if ADJOINT_LEVEL >= 3
#include <immintrin.h>
#endif

namespace adjoint::inline ADJOINT_ISA {
namespace {

// --- Conversions
// -------------------------------------------------------------------------------------------------

template <class To, class From>
ADJOINT_INLINE To cast(From v) {
  if constexpr (std::is_same_v<To, bool>)
    return v != From(0);
  else if constexpr (std::is_same_v<To, BFloat16>) {
    const uint32_t u = math::to_bits(v);
    BFloat16 b;
    b.bits = static_cast<uint16_t>(v != v ? 0x7fc0u : (u + 0x7fff + (u >> 16 & 1)) >> 16);
    return b;
  } else if constexpr (std::is_same_v<From, BFloat16>)
    return math::from_bits(uint32_t{v.bits} << 16);
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) < 8)
    return static_cast<To>(static_cast<int64_t>(v));
  else
    return static_cast<To>(v);
}

template <class To, class From>
void convert_all(void* to, const void* from, int64_t n) {
  To* o = static_cast<To*>(to);
  const From* f = static_cast<const From*>(from);
  ADJOINT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) o[i] = cast<To>(f[i]);
}

#if ADJOINT_LEVEL >= 3
// The processor's conversions of whole vectors; the last numbers take a vector of their own. All NaN become
// the same one.
#if ADJOINT_LEVEL >= 4
constexpr int kHalves = 16;
ADJOINT_INLINE void to_halves(uint16_t* to, const float* from) {
  const __m512 x = _mm512_loadu_ps(from);
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m512i quiet =
      _mm512_or_si512(_mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(int(0x80000000))),
                      _mm512_set1_epi32(0x7fc00000));
  const __m512 y = _mm512_mask_mov_ps(x, nan, _mm512_castsi512_ps(quiet));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_maskz_cvtps_ph(0xffff, y, _MM_FROUND_TO_NEAREST_INT));
}
ADJOINT_INLINE void from_halves(float* to, const uint16_t* from) {
  _mm512_storeu_ps(to,
                   _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
}
#else
constexpr int kHalves = 8;
ADJOINT_INLINE void to_halves(uint16_t* to, const float* from) {
  const __m256 x = _mm256_loadu_ps(from), sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0f));
  const __m256 quiet = _mm256_or_ps(sign, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)));
  const __m256 y = _mm256_blendv_ps(x, quiet, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(y, _MM_FROUND_TO_NEAREST_INT));
}
ADJOINT_INLINE void from_halves(float* to, const uint16_t* from) {
  _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
#endif
template <class To, class From, class F>
ADJOINT_INLINE void by_halves(void* to, const void* from, int64_t n, F f) {
  To* o = static_cast<To*>(to);
  const From* p = static_cast<const From*>(from);
  int64_t i = 0;
  for (; i + kHalves <= n; i += kHalves) f(o + i, p + i);
  if (i == n) return;
  From in[kHalves] = {};
  To out[kHalves];
  __builtin_memcpy(in, p + i, static_cast<size_t>(n - i) * sizeof(From));
  f(out, static_cast<const From*>(in));
  __builtin_memcpy(o + i, out, static_cast<size_t>(n - i) * sizeof(To));
}
template <>
void convert_all<Half, float>(void* to, const void* from, int64_t n) {
  by_halves<uint16_t, float>(
      to, from, n, [](uint16_t* o, const float* p) __attribute__((always_inline)) { to_halves(o, p); });
}
template <>
void convert_all<float, Half>(void* to, const void* from, int64_t n) {
  by_halves<float, uint16_t>(
      to, from, n, [](float* o, const uint16_t* p) __attribute__((always_inline)) { from_halves(o, p); });
}
#endif

/// Whether a pair is converted here: what floats and doubles come from and become, and the integers that
/// indices and masks are.
template <class To, class From>
constexpr CopyTable::Convert converter() {
  constexpr bool single = std::is_same_v<To, float> || std::is_same_v<From, float>,
                 half = is_half_v<To> || is_half_v<From>;
  constexpr bool wide = !std::is_integral_v<To> || !std::is_integral_v<From> || std::is_same_v<To, int64_t> ||
                        std::is_same_v<From, int64_t>;
  if constexpr (std::is_same_v<To, From> || (half && !single) || !wide)
    return nullptr;
  else
    return &convert_all<To, From>;
}

// --- Squares
// -------------------------------------------------------------------------------------------------

/// Rows of `to` that are columns of `from`: squares of vectors, of which each reads and writes whole lines of
/// the cache.
template <class U>
SquareTable::Moved transposed(const Plane& p) {
  constexpr int W = kWidth<U>, kRows = 64 / sizeof(U) > W ? 64 / sizeof(U) : W;
  const int64_t columns = p.n / W * W;
  int64_t r = 0;
  for (; r + kRows <= p.rows; r += kRows)
    for (int64_t c = 0; c < columns; c += W)
      for (int64_t k = r; k < r + kRows; k += W) {
        const char* from = p.from + c * p.from_step + k * int64_t{sizeof(U)};
        char* to = p.to + k * p.to_row + c * int64_t{sizeof(U)};
        Square<U> s;
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) s.v[i] = load(reinterpret_cast<const U*>(from + i * p.from_step));
        s.transpose();
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) store(reinterpret_cast<U*>(to + i * p.to_row), Vector<U>(s.v[i]));
      }
  return {r, columns};
}
constexpr SquareTable squares{&transposed<uint32_t>, &transposed<uint64_t>};
[[gnu::init_priority(200)]] RegisterVariant registered_squares{variant_list<SquareTable>, ADJOINT_LEVEL,
                                                               &squares};

#if ADJOINT_LEVEL < 4
// --- Planes
// -------------------------------------------------------------------------------------------------

ADJOINT_INLINE void turn(Plane& p) {
  int64_t t = p.rows;
  p.rows = p.n, p.n = t;
  t = p.to_row, p.to_row = p.to_step, p.to_step = t;
  t = p.from_row, p.from_row = p.from_step, p.from_step = t;
}

/// The bytes of an element, whatever its type.
template <class U>
ADJOINT_INLINE U get(const char* p) {
  U u;
  __builtin_memcpy(&u, p, sizeof(U));
  return u;
}
template <class U>
ADJOINT_INLINE void put(char* p, U u) {
  __builtin_memcpy(p, &u, sizeof(U));
}

template <class U, int To, int From>
ADJOINT_INLINE void in_steps(char* to, const char* from, int64_t n) {
  constexpr int64_t item = sizeof(U);
  ADJOINT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) put(to + i * To * item, get<U>(from + i * From * item));
}

void repeat(char* to, const void* value, int64_t item, int64_t n);

template <class U>
void strided(const Plane& p) {
  constexpr int64_t item = sizeof(U);
  const bool dense_to = p.to_step == item, dense_from = p.from_step == item;
  for (int64_t r = 0; r < p.rows; ++r) {
    char* to = p.to + r * p.to_row;
    const char* from = p.from + r * p.from_row;
    if (dense_to && dense_from)
      __builtin_memcpy(to, from, static_cast<size_t>(p.n * item));
    else if (dense_to && p.from_step == 0)
      repeat(to, from, item, p.n);
    else if (dense_to && p.from_step == -item) {
      int64_t i = 0;
      if constexpr (item <= 8) {
        constexpr int W = kWidth<U>;
        for (; i + W <= p.n; i += W)
          store(reinterpret_cast<U*>(to + i * item),
                [&]<size_t... L>(std::index_sequence<L...>) __attribute__((always_inline)) {
                  const Vector<U> v = load(reinterpret_cast<const U*>(from - (i + W - 1) * item));
                  return Vector<U>(__builtin_shufflevector(v, v, (W - 1 - L)...));
                }(std::make_index_sequence<W>()));
      }
      for (; i < p.n; ++i) put(to + i * item, get<U>(from - i * item));
    } else if (dense_to && p.from_step == 2 * item)
      in_steps<U, 1, 2>(to, from, p.n);
    else if (dense_from && p.to_step == 2 * item)
      in_steps<U, 2, 1>(to, from, p.n);
    else
#pragma GCC unroll 4
      for (int64_t i = 0; i < p.n; ++i) put(to + i * p.to_step, get<U>(from + i * p.from_step));
  }
}

/// As `transposed`, and what is left over.
template <class U>
void by_squares(const Plane& p) {
  // Within a cache, squares half as wide are turned quicker than the widest.
  const bool far = p.n * p.from_step >= int64_t{1} << 19;
  // (Not by best_variant and narrow_variant: this set's copies of them could be what all others run.)
  const auto& table = *static_cast<const SquareTable*>(far ? variant_list<SquareTable>.table
                                                           : variant_list<SquareTable>.narrow);
  const auto [rows, columns] = sizeof(U) == 4 ? table.of_four_bytes(p) : table.of_eight_bytes(p);
  Plane rest = p;
  rest.to += rows * p.to_row, rest.from += rows * p.from_row, rest.rows -= rows;
  if (rest.rows) strided<U>(rest);
  rest = p;
  rest.to += columns * p.to_step, rest.from += columns * p.from_step, rest.n -= columns, rest.rows = rows;
  if (rest.n && rows) turn(rest), strided<U>(rest);
}

template <class U>
void plane_of(Plane& p) {
  constexpr int64_t item = sizeof(U);
  // The longer side is the inner one, unless that takes a run of bytes apart.
  const bool runs = p.to_step == item && p.from_step == item && p.n * item > 16;
  if (p.n < p.rows && p.n < 16 && !runs) turn(p);
  if constexpr (item == 4 || item == 8) {
    if (p.to_row == item && p.from_step == item && p.rows > 1 && p.n > 1 && p.to_step != item) turn(p);
    if (p.to_step == item && p.from_row == item && p.rows >= 64 / item && p.n >= kWidth<U>)
      return by_squares<U>(p);
  }
  strided<U>(p);
}

struct Wide {
  uint64_t parts[2];
};

void plane(char* to, int64_t to_row, int64_t to_step, const char* from, int64_t from_row, int64_t from_step,
           int64_t rows, int64_t n, int64_t item) {
  Plane p{to, from, to_row, to_step, from_row, from_step, rows, n};
  switch (item) {
    case 1:
      return plane_of<uint8_t>(p);
    case 2:
      return plane_of<uint16_t>(p);
    case 4:
      return plane_of<uint32_t>(p);
    case 8:
      return plane_of<uint64_t>(p);
    default:
      return plane_of<Wide>(p);
  }
}

/// A vector of the same number. (Put together in memory, it would have to wait for that.)
template <class U>
ADJOINT_INLINE Vector<uint8_t> splat(const void* value) {
  const Vector<U> v = Vector<U>{} + get<U>(static_cast<const char*>(value));
  return __builtin_bit_cast(Vector<uint8_t>, v);
}
Vector<uint8_t> pattern_of(const void* value, int64_t item) {
  switch (item) {
    case 1:
      return splat<uint8_t>(value);
    case 2:
      return splat<uint16_t>(value);
    case 4:
      return splat<uint32_t>(value);
    case 8:
      return splat<uint64_t>(value);
    default:
      break;
  }
  char bytes[kBytes];
  for (int at = 0; at < kBytes; at += 16) __builtin_memcpy(bytes + at, value, 16);
  return load(reinterpret_cast<const uint8_t*>(bytes));
}
void repeat(char* to, const void* value, int64_t item, int64_t n) {
  const int64_t all = item * n;
  if (all < kBytes) {
    for (int64_t at = 0; at < all; at += item) __builtin_memcpy(to + at, value, static_cast<size_t>(item));
    return;
  }
  const Vector<uint8_t> pattern = pattern_of(value, item);
  int64_t at = 0;
  for (; at + kBytes <= all; at += kBytes) store(reinterpret_cast<uint8_t*>(to + at), pattern);
  store(reinterpret_cast<uint8_t*>(to + all - kBytes), pattern);  // over a part of the last one
}
constexpr PlaneTable planes{&plane, &repeat};
[[gnu::init_priority(200)]] RegisterVariant registered_planes{variant_list<PlaneTable>, ADJOINT_LEVEL,
                                                              &planes};
#endif

// --- Numbers in equal steps
// --------------------------------------------------------------------------------------------

void ramp(double* to, double first, double step, int64_t start, int64_t n) {
  ADJOINT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) to[i] = __builtin_fma(step, static_cast<double>(start + i), first);
}
void whole_ramp(int64_t* to, int64_t first, int64_t step, int64_t start, int64_t n) {
  const uint64_t a = static_cast<uint64_t>(first) +
                     static_cast<uint64_t>(start) * static_cast<uint64_t>(step),
                 s = static_cast<uint64_t>(step);
  ADJOINT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<int64_t>(a + static_cast<uint64_t>(i) * s);
}

template <class... T>
constexpr CopyTable table_of() {
  CopyTable t{{}, &ramp, &whole_ramp};
  auto row = [&]<class To>(TypeTag<To>) {
    ((t.convert[index_of(dtype_of<To>)][index_of(dtype_of<T>)] = converter<To, T>()), ...);
  };
  (row(TypeTag<T>{}), ...);
  return t;
}
constexpr CopyTable table = table_of<bool, uint8_t, int32_t, int64_t, Half, BFloat16, float, double>();
[[gnu::init_priority(200)]] RegisterVariant registered{variant_list<CopyTable>, ADJOINT_LEVEL, &table};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
