// The loops of one family of element-wise operators for one instruction set: ADJOINT_LOOPS(family) makes
// them.
//
// Included by dispatch/family.h where a family's source is compiled for loops, with ADJOINT_ISA and
// ADJOINT_LEVEL defined. Everything here lives in a namespace named after the set, so that no function
// compiled for a newer processor can stand in for an older one's.
#pragma once

#include <utility>

#include "kernels/loops.h"
#include "ops/op.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

/// Whether the second input is one number throughout, as it is when it was a bare number.
template <class T>
bool uniform(const T* b, int64_t n) {
  if (n < 2 || !(b[n - 1] == b[0])) return false;
  constexpr int64_t kRun = 128;
  int64_t i = 0;
  for (; i + kRun <= n; i += kRun) {
    int other = 0;
    for (int64_t k = 0; k < kRun; ++k) other |= b[i + k] == b[0] ? 0 : 1;
    if (other) return false;
  }
  while (i < n && b[i] == b[0]) ++i;
  return i == n;
}

/// Reads an input. A condition is compared as a byte, which is what makes choosing by it vector code.
template <class T>
ADJOINT_INLINE T read(const T* from, int64_t i) {
  if constexpr (std::is_same_v<T, bool>)
    return reinterpret_cast<const unsigned char*>(from)[i] != 0;
  else
    return from[i];
}

/// Whether the operator has a faster form for arguments up to Op::near, and all n of them are.
template <class Op, class T>
concept HasNear = std::is_floating_point_v<T> && requires(T x) { Op::forward_near(x); };
constexpr int64_t kNearBlock = 512;
template <class Op, class T>
ADJOINT_INLINE bool all_near(const T* x, int64_t n) {
  math::Unsigned<T> beyond = 0;
  for (int64_t i = 0; i < n; ++i) beyond += math::abs(x[i]) > static_cast<T>(Op::near) ? 1 : 0;
  return beyond == 0;
}

/// Values of a function that is computed in double for every type (`Values`, ops/bessel.h), of which those
/// that are not regular are mended one by one.
template <class Op>
concept InDouble = requires(double x) { Op::in_double(x); };
template <class Op, class T>
constexpr bool kInDouble =
    InDouble<Op> && !(std::is_same_v<T, float> && requires(float x) { Op::in_float(x); });
template <class Op>
[[gnu::noinline]] void double_block(double* out, const double* x, int64_t n) {
#if ADJOINT_LEVEL > 0
  uint64_t rare = 0;
  n &= -8;
  ADJOINT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    rare += Op::regular(x[i]) ? 0 : 1;
    out[i] = Op::in_double(x[i]);
  }
  if (rare != 0)
#endif
    for (int64_t i = 0; i < n; ++i)
      if (ADJOINT_LEVEL == 0 || !Op::regular(x[i])) out[i] = value_of<Op>(x[i]);
}
template <class Op, class T>
void double_loop(T* out, const T* x, int64_t n) {
  constexpr int64_t kBlock = 256;
  double from[kBlock], to[kBlock];
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t m = n - at < kBlock ? n - at : kBlock, whole = (m + 7) & -8;
    for (int64_t i = 0; i < m; ++i) from[i] = double(x[at + i]);
    for (int64_t i = m; i < whole; ++i) from[i] = from[0];
    double_block<Op>(to, from, whole);
    for (int64_t i = 0; i < m; ++i) out[at + i] = T(to[i]);
  }
}

/// A form that is quick where it knows the value, and NaN where not: those elements, which are rare, are
/// computed one by one. It needs fused operations, and is as exact as the full form.
#if ADJOINT_HAS_FMA && ADJOINT_LEVEL > 0
template <class Op, class T>
concept HasQuick = std::is_floating_point_v<T> && requires(T x) { Op::forward_quick(x, x); };
template <class Op, int I, class T>
concept HasQuickSlope = std::is_floating_point_v<T> &&
                        requires(T x) { Op::derivative_quick(Wrt<I>{}, First<T>{x}, Second<T>{x}); };
#else
template <class Op, class T>
concept HasQuick = false;
template <class Op, int I, class T>
concept HasQuickSlope = false;
#endif
/// out[i] = quick(i), or full(i) where that is NaN. `out` may be one of the inputs.
template <class T, class Quick, class Full>
ADJOINT_INLINE void quick_loop(T* out, int64_t n, Quick quick, Full full) {
  constexpr int64_t kBlock = 256;
  T values[kBlock];
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t m = n - at < kBlock ? n - at : kBlock;
    int unknown = 0;
    ADJOINT_INDEPENDENT
    for (int64_t i = 0; i < m; ++i) {
      const T y = quick(at + i);
      values[i] = y;
      unknown |= y != y ? 1 : 0;
    }
    if (unknown)
      for (int64_t i = 0; i < m; ++i)
        if (values[i] != values[i]) values[i] = full(at + i);
    for (int64_t i = 0; i < m; ++i) out[at + i] = values[i];
  }
}

/// A loop of the operator's own, over everything or where an operand is one number.
template <class Op, class... X>
concept HasAll = requires(X... x) { Op::all(x...); };
template <class Op, class... X>
concept HasUniform = requires(X... x) { Op::uniform(x...); };

template <class Op, class T>
void forward_loop(void* out, const void* const* in, int64_t n, const double* p) {
  [&]<size_t... K, int... I>(std::index_sequence<K...>, std::integer_sequence<int, I...>) {
    using P = parameter_t<T>;
    const P parameters[] = {convert<P>(p ? p[K] : 0.0)..., P()};
    result_t<Op, T>* o = static_cast<result_t<Op, T>*>(out);
    if constexpr (Op::arity == 1) {
      const auto* a = static_cast<const input_t<Op, 0, T>*>(in[0]);
      if constexpr (kInDouble<Op, T>) return double_loop<Op>(o, a, n);
      if constexpr (HasAll<Op, decltype(o), decltype(a), int64_t>) return Op::all(o, a, n);
      if constexpr (requires { Op::all(o, a, n, parameters[K]...); } && sizeof...(K) > 0)
        return Op::all(o, a, n, parameters[K]...);
      if constexpr (HasNear<Op, T>) {
        for (int64_t at = 0; at < n; at += kNearBlock) {
          const int64_t end = at + kNearBlock < n ? at + kNearBlock : n;
          if (all_near<Op>(a + at, end - at)) {
            ADJOINT_INDEPENDENT
            for (int64_t i = at; i < end; ++i) o[i] = Op::forward_near(a[i]);
          } else {
            for (int64_t i = at; i < end; ++i) o[i] = Op::forward(a[i]);
          }
        }
        return;
      }
      ADJOINT_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) o[i] = Op::forward(a[i], parameters[K]...);
    } else if constexpr (Op::arity == 2) {
      const auto* a = static_cast<const input_t<Op, 0, T>*>(in[0]);
      const auto* b = static_cast<const input_t<Op, 1, T>*>(in[1]);
      if constexpr (HasUniform<Op, decltype(o), decltype(a), decltype(*b), int64_t>)
        if (uniform(b, n) && Op::uniform(o, a, *b, n)) return;
      if constexpr (requires { Op::uniform(o, a, *b, n, parameters[K]...); } && sizeof...(K) > 0)
        if (uniform(b, n) && Op::uniform(o, a, *b, n, parameters[K]...)) return;
      if constexpr (HasQuick<Op, T>)
        return quick_loop(
            o, n, [=](int64_t i) __attribute__((always_inline)) { return Op::forward_quick(a[i], b[i]); },
            [=](int64_t i) { return Op::forward(a[i], b[i]); });
      ADJOINT_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) o[i] = Op::forward(read(a, i), read(b, i), parameters[K]...);
    } else {
      const auto* a = static_cast<const input_t<Op, 0, T>*>(in[0]);
      const auto* b = static_cast<const input_t<Op, 1, T>*>(in[1]);
      const auto* c = static_cast<const input_t<Op, 2, T>*>(in[2]);
      if constexpr (HasUniform<Op, decltype(o), decltype(a), decltype(*b), decltype(*c), int64_t>)
        if (uniform(b, n) && uniform(c, n) && Op::uniform(o, a, *b, *c, n)) return;
      ADJOINT_INDEPENDENT
      for (int64_t i = 0; i < n; ++i)
        o[i] = Op::forward(read(a, i), read(b, i), read(c, i), parameters[K]...);
    }
  }(std::make_index_sequence<count_parameters(Op::parameters)>{},
    std::make_integer_sequence<int, Op::arity>{});
}

// Values that a rule does not take are not loaded: an array of one stands in for them.
template <bool Taken, class T>
ADJOINT_INLINE T load(const void* from, int64_t i) {
  if constexpr (Taken)
    return read(static_cast<const T*>(from), i);
  else
    return T();
}

template <class Op, int I, class T>
void backward_loop(void* out, const void* const* in, int64_t n, const double* p) {
  [&]<size_t... K>(std::index_sequence<K...>) {
    using R = result_t<Op, T>;
    using A = input_t<Op, 0, T>;
    using B = input_t<Op, 1, T>;
    using C = input_t<Op, 2, T>;
    constexpr int takes = Rule<Op, I>::takes;
    const T parameters[] = {convert<T>(p ? p[K] : 0.0)..., T()};
    const R* g = static_cast<const R*>(in[0]);
    const void *a = in[1], *b = in[2], *c = in[3], *r = in[4];
    T* o = static_cast<T*>(out);
    if constexpr (requires(const T* x) { Op::uniform(Wrt<I>{}, o, g, x, *x, n); })
      if (uniform(static_cast<const T*>(b), n) &&
          Op::uniform(Wrt<I>{}, o, g, static_cast<const T*>(a), *static_cast<const T*>(b), n))
        return;
    if constexpr (HasQuickSlope<Op, I, T>) {
      const T *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
      return quick_loop(
          o, n,
          [=](int64_t i) __attribute__((always_inline)) {
            return g[i] * Op::derivative_quick(Wrt<I>{}, First<T>{x[i]}, Second<T>{y[i]});
          },
          [=](int64_t i) { return g[i] * Op::derivative(Wrt<I>{}, First<T>{x[i]}, Second<T>{y[i]}); });
    }
    if constexpr (HasNear<Op, T> && requires(T x) { Op::derivative_near(First<T>{x}); }) {
      const T* x = static_cast<const T*>(a);
      for (int64_t at = 0; at < n; at += kNearBlock) {
        const int64_t end = at + kNearBlock < n ? at + kNearBlock : n;
        if (all_near<Op>(x + at, end - at)) {
          ADJOINT_INDEPENDENT
          for (int64_t i = at; i < end; ++i) o[i] = g[i] * Op::derivative_near(First<T>{x[i]});
        } else {
          for (int64_t i = at; i < end; ++i) o[i] = g[i] * Op::derivative(First<T>{x[i]});
        }
      }
      return;
    }
    ADJOINT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i)
      o[i] = Rule<Op, I>::apply(g[i], load<(takes & 1) != 0, A>(a, i), load<(takes & 2) != 0, B>(b, i),
                                load<(takes & 4) != 0, C>(c, i), load<(takes & 8) != 0, R>(r, i),
                                parameters[K]...);
  }(std::make_index_sequence<count_parameters(Op::parameters)>{});
}

template <class Op, class T>
constexpr Loop forward_of() {
  if constexpr ((Op::types & types::bit(dtype_of<T>)) != 0)
    return &forward_loop<Op, T>;
  else
    return nullptr;
}

template <class Op, int I, class T>
constexpr Loop backward_of() {
  if constexpr (I < Op::arity && (Op::types & types::bit(dtype_of<T>)) != 0) {
    constexpr RuleKind kind = Rule<Op, I>::kind;
    if constexpr (kind == RuleKind::Derivative || kind == RuleKind::Vjp)
      return &backward_loop<Op, I, T>;
    else
      return nullptr;
  } else {
    return nullptr;
  }
}

template <class F>
struct Rows;
template <class... Ops>
struct Rows<Family<Ops...>> {
  static constexpr FloatLoops floats[] = {
      FloatLoops{{forward_of<Ops, float>(), forward_of<Ops, double>()},
                 {{backward_of<Ops, 0, float>(), backward_of<Ops, 0, double>()},
                  {backward_of<Ops, 1, float>(), backward_of<Ops, 1, double>()},
                  {backward_of<Ops, 2, float>(), backward_of<Ops, 2, double>()}}}...};
#if ADJOINT_LEVEL == 0
  static constexpr OtherLoops others[] = {
      OtherLoops{{forward_of<Ops, bool>(), forward_of<Ops, uint8_t>(), forward_of<Ops, int8_t>(),
                  forward_of<Ops, int16_t>(), forward_of<Ops, int32_t>(), forward_of<Ops, int64_t>(),
                  forward_of<Ops, Complex<float>>(), forward_of<Ops, Complex<double>>()},
                 { {backward_of<Ops, 0, Complex<float>>(), backward_of<Ops, 0, Complex<double>>()},
                   {backward_of<Ops, 1, Complex<float>>(), backward_of<Ops, 1, Complex<double>>()},
                   { backward_of<Ops, 2, Complex<float>>(),
                     backward_of<Ops, 2, Complex<double>>() } }}...};
#else
  static constexpr const OtherLoops* others = nullptr;
#endif
};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA

// Registered before the table is made, whatever the order of linking.
#define ADJOINT_LOOPS(family)                                                                               \
  namespace adjoint::inline ADJOINT_ISA {                                                                   \
  namespace {                                                                                               \
  LoopRows rows{#family, ADJOINT_LEVEL, family::size, Rows<family>::floats, Rows<family>::others, nullptr}; \
  [[gnu::init_priority(200)]] RegisterRows registered{&rows};                                               \
  }                                                                                                         \
  }
