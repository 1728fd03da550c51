// Passes of kernels/in_registers.h for one instruction set.
//
// Each step is a case of its own, so that no compiler joins a product and a sum to one operation that rounds
// once, where the loops of two operators round twice.
#include "kernels/in_registers.h"

#include "kernels/cpu/in_registers.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/vectors.h"
#if ADJOINT_LEVEL >= 4
#include <immintrin.h>
#endif

namespace adjoint::inline ADJOINT_ISA {
namespace {

/// Vectors that stay in registers from step to step: half of the registers there are; fewer where code is
/// kept small.
#if ADJOINT_LEVEL >= 4
constexpr int kKept = 16;
#elif ADJOINT_LEVEL >= 3
constexpr int kKept = 8;
#else
constexpr int kKept = 4;
#endif
/// And of what is left.
constexpr int kFewer = 4;
/// Up to so many elements go one by one.
constexpr int kAlone = ADJOINT_LEVEL >= 4 ? 2 : kBytes;

/// x + v and x * v in this order, which compilers do not keep: of two NaN the first is the result.
#if ADJOINT_LEVEL >= 3 && defined(__x86_64__)
#define ADJOINT_IN_ORDER(name, operation, symbol)                     \
  template <class T, class V>                                         \
  ADJOINT_INLINE V name(V x, V v) {                                   \
    if constexpr (std::is_same_v<T, float> && sizeof(V) == sizeof(T)) \
      asm("v" operation "ss %2, %1, %0" : "=x"(v) : "x"(x), "x"(v));  \
    else if constexpr (std::is_same_v<T, float>)                      \
      asm("v" operation "ps %2, %1, %0" : "=v"(v) : "v"(x), "v"(v));  \
    else if constexpr (sizeof(V) == sizeof(T))                        \
      asm("v" operation "sd %2, %1, %0" : "=x"(v) : "x"(x), "x"(v));  \
    else                                                              \
      asm("v" operation "pd %2, %1, %0" : "=v"(v) : "v"(x), "v"(v));  \
    return v;                                                         \
  }
#else
#define ADJOINT_IN_ORDER(name, operation, symbol) \
  template <class T, class V>                     \
  ADJOINT_INLINE V name(V x, V v) {               \
    return x symbol v;                            \
  }
#endif
ADJOINT_IN_ORDER(plus_to, "add", +)
ADJOINT_IN_ORDER(times_to, "mul", *)

/// √v, which compilers take apart.
template <class T, class V>
ADJOINT_INLINE V root(V v) {
#if ADJOINT_LEVEL >= 3 && defined(__x86_64__)
  if constexpr (std::is_same_v<T, float> && sizeof(V) == sizeof(T))
    asm("vsqrtss %0, %0, %0" : "+x"(v));
  else if constexpr (std::is_same_v<T, float>)
    asm("vsqrtps %0, %0" : "+v"(v));
  else if constexpr (sizeof(V) == sizeof(T))
    asm("vsqrtsd %0, %0, %0" : "+x"(v));
  else
    asm("vsqrtpd %0, %0" : "+v"(v));
  return v;
#else
  T lanes[sizeof(V) / sizeof(T)];
  __builtin_memcpy(lanes, &v, sizeof v);
  for (T& x : lanes) x = math::sqrt(x);
  __builtin_memcpy(&v, lanes, sizeof v);
  return v;
#endif
}

/// As many whole numbers as V has elements.
template <class One, int kSize>
struct Many {
  typedef One type __attribute__((vector_size(kSize)));
};
template <class T, class V, class One = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>>
using Bits = std::conditional_t<sizeof(V) == sizeof(T), One, typename Many<One, sizeof(V)>::type>;

/// All bits where it is so.
template <class T, class V, class Truth>
ADJOINT_INLINE Bits<T, V> all_bits(Truth truth) {
  if constexpr (std::is_same_v<Truth, bool>)
    return -static_cast<Bits<T, V>>(truth);
  else
    return (Bits<T, V>)truth;
}
template <class T, class V>
ADJOINT_INLINE V where(Bits<T, V> bits, V v) {
  return __builtin_bit_cast(V, bits & __builtin_bit_cast(Bits<T, V>, v));
}
template <class T, class V>
ADJOINT_INLINE V equal(V a, V b) {
  return __builtin_bit_cast(V, (all_bits<T, V>(a == b)));
}
template <class T, class V>
ADJOINT_INLINE V alike(V a, V b) {
  return __builtin_bit_cast(V,
                            (all_bits<T, V>(a == b)) | ((all_bits<T, V>(a != a)) & (all_bits<T, V>(b != b))));
}
template <class T, class V>
ADJOINT_INLINE V unless(V v, V x) {
  return __builtin_bit_cast(V, __builtin_bit_cast(Bits<T, V>, (where<T, V>(all_bits<T, V>(x == x), v))) |
                                   __builtin_bit_cast(Bits<T, V>, (where<T, V>(all_bits<T, V>(x != x), x))));
}

/// The first elements of a vector, where masks are as quick as whole vectors.
template <class T>
struct Few {
#if ADJOINT_LEVEL >= 4
  std::conditional_t<sizeof(T) == 4, __mmask16, __mmask8> mask;
  explicit Few(int64_t n) : mask(static_cast<decltype(mask)>((1u << n) - 1)) {}
  ADJOINT_INLINE Vector<T> load(const void* p) const {
    if constexpr (sizeof(T) == 4)
      return reinterpret_cast<Vector<T>>(_mm512_maskz_loadu_ps(mask, p));
    else
      return reinterpret_cast<Vector<T>>(_mm512_maskz_loadu_pd(mask, p));
  }
  ADJOINT_INLINE void store(void* p, Vector<T> v) const {
    if constexpr (sizeof(T) == 4)
      _mm512_mask_storeu_ps(p, mask, reinterpret_cast<__m512>(v));
    else
      _mm512_mask_storeu_pd(p, mask, reinterpret_cast<__m512d>(v));
  }
#endif
};
/// All of it.
template <class V>
struct Whole {
  ADJOINT_INLINE V load(const V* p) const { return *p; }
  ADJOINT_INLINE void store(V* p, V v) const { *p = v; }
};

/// Elements from number `begin` on: as many vectors V as `Count`.
template <class T, class V, int Count, class Access = Whole<V>>
ADJOINT_INLINE void pass(const Cheap* steps, char* const* at, int count, int64_t begin,
                         const Access access = {}) {
  V v[Count];
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) v[i] = V{};
  for (int s = 0; s < count; ++s) {
    V* const x = reinterpret_cast<V*>(reinterpret_cast<T*>(at[s]) + begin);
    const T* const number = reinterpret_cast<const T*>(at[s]);
    const auto each = [&](auto f) __attribute__((always_inline)) {
#pragma GCC unroll 16
      for (int i = 0; i < Count; ++i) v[i] = f(v[i], i);
    };
    switch (static_cast<uint8_t>(steps[s])) {
#define ADJOINT_STEP(name, result)                                                          \
  case static_cast<uint8_t>(Cheap::name):                                                   \
    each([&]([[maybe_unused]] V v, int i) __attribute__((always_inline)) {                  \
      const V x_ = access.load(x + i);                                                      \
      return result;                                                                        \
    });                                                                                     \
    break;                                                                                  \
  case static_cast<uint8_t>(Cheap::name) + kByNumber: {                                     \
    V x_;                                                                                   \
    if constexpr (sizeof(V) == sizeof(T))                                                   \
      x_ = *number;                                                                         \
    else                                                                                    \
      x_ = *number - V{};                                                                   \
    each([&]([[maybe_unused]] V v, int) __attribute__((always_inline)) { return result; }); \
    break;                                                                                  \
  }
      ADJOINT_STEP(Read, x_)
      ADJOINT_STEP(Plus, v + x_)
      ADJOINT_STEP(PlusTo, (plus_to<T, V>(x_, v)))
      ADJOINT_STEP(Minus, v - x_)
      ADJOINT_STEP(MinusFrom, x_ - v)
      ADJOINT_STEP(Times, v * x_)
      ADJOINT_STEP(TimesTo, (times_to<T, V>(x_, v)))
      ADJOINT_STEP(Over, v / x_)
      ADJOINT_STEP(Under, x_ / v)
      ADJOINT_STEP(Shared, v * (T(1) / x_))
      ADJOINT_STEP(SharedTo, (times_to<T, V>(T(1) / x_, v)))
      ADJOINT_STEP(Where, (where<T, V>(__builtin_bit_cast(Bits<T, V>, v), x_)))
      ADJOINT_STEP(Equal, (equal<T, V>(v, x_)))
      ADJOINT_STEP(Alike, (alike<T, V>(v, x_)))
      ADJOINT_STEP(Unless, (unless<T, V>(v, x_)))
#undef ADJOINT_STEP
      case static_cast<uint8_t>(Cheap::Write):
#pragma GCC unroll 16
        for (int i = 0; i < Count; ++i) access.store(x + i, v[i]);
        break;
      case static_cast<uint8_t>(Cheap::Negative):
        each([&](V a, int) __attribute__((always_inline)) { return -a; });
        break;
      case static_cast<uint8_t>(Cheap::Square):
        each([&](V a, int) __attribute__((always_inline)) { return a * a; });
        break;
      case static_cast<uint8_t>(Cheap::Root):
        each([&](V a, int) __attribute__((always_inline)) { return root<T, V>(a); });
        break;
      default:
        __builtin_unreachable();
    }
  }
}

template <class T>
void run(const Cheap* steps, char* const* at, int count, int64_t n) {
  using V = Vector<T>;
  constexpr int64_t W = kWidth<T>;
  int64_t i = 0;
  for (; i + kKept * W <= n; i += kKept * W) pass<T, V, kKept>(steps, at, count, i);
  if constexpr (kFewer < kKept)
    for (; i + kFewer * W <= n; i += kFewer * W) pass<T, V, kFewer>(steps, at, count, i);
  for (; i + W <= n; i += W) pass<T, V, 1>(steps, at, count, i);
#if ADJOINT_LEVEL >= 4
  // Not one or two by themselves: what a mask has stored is not soon read.
  if (n - i > kAlone) return pass<T, V, 1>(steps, at, count, i, Few<T>(n - i));
#endif
  typedef T One __attribute__((may_alias));
  for (; i < n; ++i) pass<T, One, 1>(steps, at, count, i);
}

template <class T>
constexpr Pass of{&run<T>, kWidth<T>, kKept, kFewer, kAlone};
constexpr PassTable table{of<float>, of<double>};
[[gnu::init_priority(200)]] RegisterVariant registered{variant_list<PassTable>, ADJOINT_LEVEL, &table};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
