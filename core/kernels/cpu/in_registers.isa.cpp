// Passes of kernels/in_registers.h for one instruction set.
//
// Each step is a case of its own, so that no compiler joins a product and a sum to one operation that rounds
// once, where the loops of two operators round twice.
#include "kernels/in_registers.h"

#include "kernels/cpu/in_registers.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/vectors.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

/// Vectors that stay in registers from step to step: half of the registers there are.
#if ADJOINT_LEVEL >= 4
constexpr int kKept = 16;
#else
constexpr int kKept = 8;
#endif

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

/// Elements from number `begin` on: as many vectors V as `Count`.
template <class T, class V, int Count>
ADJOINT_INLINE void pass(const Cheap* steps, char* const* at, int count, int64_t begin) {
  V v[Count];
  const V* const from = reinterpret_cast<const V*>(reinterpret_cast<const T*>(at[0]) + begin);
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) v[i] = from[i];
  for (int s = 1; s < count; ++s) {
    V* const x = reinterpret_cast<V*>(reinterpret_cast<T*>(at[s]) + begin);
    const auto each = [&](auto f) __attribute__((always_inline)) {
#pragma GCC unroll 16
      for (int i = 0; i < Count; ++i) v[i] = f(v[i], i);
    };
    switch (steps[s]) {
      case Cheap::Write:
#pragma GCC unroll 16
        for (int i = 0; i < Count; ++i) x[i] = v[i];
        break;
      case Cheap::Plus:
        each([&](V a, int i) __attribute__((always_inline)) { return a + x[i]; });
        break;
      case Cheap::PlusTo:
        each([&](V a, int i) __attribute__((always_inline)) { return plus_to<T, V>(x[i], a); });
        break;
      case Cheap::Minus:
        each([&](V a, int i) __attribute__((always_inline)) { return a - x[i]; });
        break;
      case Cheap::MinusFrom:
        each([&](V a, int i) __attribute__((always_inline)) { return x[i] - a; });
        break;
      case Cheap::Times:
        each([&](V a, int i) __attribute__((always_inline)) { return a * x[i]; });
        break;
      case Cheap::TimesTo:
        each([&](V a, int i) __attribute__((always_inline)) { return times_to<T, V>(x[i], a); });
        break;
      case Cheap::Over:
        each([&](V a, int i) __attribute__((always_inline)) { return a / x[i]; });
        break;
      case Cheap::Under:
        each([&](V a, int i) __attribute__((always_inline)) { return x[i] / a; });
        break;
      case Cheap::Negative:
        each([&](V a, int) __attribute__((always_inline)) { return -a; });
        break;
      case Cheap::Square:
        each([&](V a, int) __attribute__((always_inline)) { return a * a; });
        break;
      case Cheap::None:
      case Cheap::Read:
        break;
    }
  }
}

template <class T>
void run(const Cheap* steps, char* const* at, int count, int64_t n) {
  using V = Vector<T>;
  typedef T One __attribute__((may_alias));
  constexpr int64_t W = kWidth<T>;
  int64_t i = 0;
  for (; i + kKept * W <= n; i += kKept * W) pass<T, V, kKept>(steps, at, count, i);
  for (; i + W <= n; i += W) pass<T, V, 1>(steps, at, count, i);
  for (; i < n; ++i) pass<T, One, 1>(steps, at, count, i);
}

constexpr PassTable table{{&run<float>, kWidth<float>, kKept}, {&run<double>, kWidth<double>, kKept}};
[[gnu::init_priority(200)]] RegisterVariant registered{variant_list<PassTable>, ADJOINT_LEVEL, &table};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
