// The loops of one family of element-wise operators for one instruction set: ADJOINT_LOOPS(family) makes
// them.
//
// Included by dispatch/family.h where a family's source is compiled for loops, with ADJOINT_ISA and
// ADJOINT_LEVEL defined. Everything here lives in a namespace named after the set, so that no function
// compiled for a newer processor can stand in for an older one's.
#pragma once

#include <cstring>
#include <utility>

#include "kernels/loops.h"
#include "ops/contract/op.h"

namespace adjoint::inline ADJOINT_ISA {
/// The bytes of a register, and how many elements it holds.
constexpr int64_t kRegister = ADJOINT_LEVEL >= 4 ? 64 : ADJOINT_LEVEL >= 3 ? 32 : 16;
template <class T>
constexpr int64_t kLanes = kRegister / int64_t(sizeof(T));
/// n < 2 S elements, S a power of two, as two pieces that overlap. `to` may not overlap `from`.
template <int64_t S, class T>
ADJOINT_INLINE void copy_few(T* to, const T* from, int64_t n) {
  if (n >= S) {
    std::memcpy(to, from, sizeof(T) * S);
    std::memcpy(to + n - S, from + n - S, sizeof(T) * S);
  } else if constexpr (S > 1) {
    copy_few<S / 2>(to, from, n);
  }
}

template <class T>
using Body = void (*)(T* out, const T* const* in, int64_t n, const T* parameters);
/// body(out, in, 1) of one input: the first result of a vector of it.
template <class T>
[[gnu::noinline, gnu::noclone]] void one_in_vector(T* out, const T* from, const T* parameters, Body<T> body) {
  constexpr int64_t W = kLanes<T>;
  // Aligned, so that the vector is not read from two lines of the cache.
  alignas(kRegister) T one[W], results[W];
  for (T& x : one) x = *from;
  const T* const at[] = {one};
  body(results, at, W, parameters);
  *out = results[0];
}
/// As in_vectors, for any n and any inputs.
template <class T>
[[gnu::noinline, gnu::noclone]] void several_in_vectors(T* out, const void* const* in, int64_t n,
                                                        const T* parameters, int taken, Body<T> body) {
  constexpr int64_t W = kLanes<T>, N = 5;
  typedef T Vector __attribute__((vector_size(kRegister), aligned(alignof(T)), may_alias));
  Vector result;
  if (n < W) {
    if (n == 0) return;
    Vector copies[N];
    const T* at[N] = {};
#pragma GCC unroll 1
    for (int k = 0; taken; taken >>= 1, ++k) {
      if (!(taken & 1)) continue;
      const T* const from = static_cast<const T*>(in[k]);
      at[k] = reinterpret_cast<const T*>(copies + k);
      copies[k] = *from - Vector{};
      if (n > 1) copy_few<W / 2>(reinterpret_cast<T*>(copies + k), from, n);
    }
    body(reinterpret_cast<T*>(&result), at, W, parameters);
    return copy_few<W / 2>(out, reinterpret_cast<const T*>(&result), n);
  }
  const int64_t whole = n & -W, left = n - whole;
  const T *from[N] = {}, *last[N] = {};
  bool in_place = false;
#pragma GCC unroll 1
  for (int k = 0; taken >> k; ++k) {
    if (!(taken >> k & 1)) continue;
    from[k] = static_cast<const T*>(in[k]);
    last[k] = from[k] + n - W;
    in_place |= from[k] == out;
  }
  // What was written may be written again, but not read.
  T* const results = reinterpret_cast<T*>(&result);
  if (left && in_place) body(results, last, W, parameters);
  body(out, from, whole, parameters);
  if (!left) return;
  if (!in_place) return body(out + n - W, last, W, parameters);
  copy_few<W / 2>(out + whole, results + W - left, left);
}
/// body(out, in, n) for n elements by whole vectors, so that the code of a long function stands in its loop
/// once, not again for half a vector and for a single element. The last vector begins before the others end;
/// fewer than fill one are copied to one, which the first of them fills up. `taken` has a bit for each input
/// that there is.
template <class T>
[[gnu::noinline, gnu::noclone]] void in_vectors(T* out, const void* const* in, int64_t n, const T* parameters,
                                                int taken, Body<T> body) {
  if (n == 1 && taken == 1) return one_in_vector(out, static_cast<const T*>(in[0]), parameters, body);
  several_in_vectors(out, in, n, parameters, taken, body);
}

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
template <int64_t S, class T, class Quick, class Full>
ADJOINT_INLINE void quick_loop(T* out, int64_t n, Quick quick, Full full) {
  constexpr int64_t kBlock = 256;
  T values[kBlock];
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t m = (n - at < kBlock ? n - at : kBlock) & -S;
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
/// Whether it takes the operator's parameters, of type P, after the operands X. (A constant: a condition that
/// depends on an index of a lambda does not spare clang the look for a member that is not there.)
template <class Op, class P, class... X>
constexpr bool kHasAll = []<size_t... K>(std::index_sequence<K...>) {
  return HasAll<Op, X..., decltype(P(K))...>;
}(std::make_index_sequence<count_parameters(Op::parameters)>{});
template <class Op, class P, class... X>
constexpr bool kHasUniform = []<size_t... K>(std::index_sequence<K...>) {
  return HasUniform<Op, X..., decltype(P(K))...>;
}(std::make_index_sequence<count_parameters(Op::parameters)>{});

/// How many elements a loop takes at a time, all of them: a vector, or one. What is compiled for size has no
/// vectors.
template <class Op, class T>
#if defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__)
constexpr int64_t kStep = std::is_floating_point_v<T> && Op::in_vectors ? kLanes<T> : 1;
#else
constexpr int64_t kStep = 1;
#endif

/// One after another, by the operator's faster forms where it has them.
template <class Op, class P, class R, class... X>
ADJOINT_INLINE void forward_each(R* o, int64_t n, const P* parameters, const X*... x) {
  [&]<size_t... K>(std::index_sequence<K...>) {
    const P p[] = {parameters[K]..., P()};
    constexpr int64_t S = kStep<Op, R>;
    if constexpr (HasNear<Op, R>) {
      for (int64_t at = 0; at < n; at += kNearBlock) {
        const int64_t m = (n - at < kNearBlock ? n - at : kNearBlock) & -S;
        if (all_near<Op>((x + at)..., m)) [[likely]] {
          ADJOINT_INDEPENDENT
          for (int64_t i = 0; i < m; ++i) o[at + i] = Op::forward_near(x[at + i]...);
        } else {
          ADJOINT_INDEPENDENT
          for (int64_t i = 0; i < m; ++i) o[at + i] = Op::forward(x[at + i]...);
        }
      }
    } else if constexpr (HasQuick<Op, R>) {
      quick_loop<S>(
          o, n, [=](int64_t i) __attribute__((always_inline)) { return Op::forward_quick(x[i]...); },
          [=](int64_t i) { return Op::forward(x[i]...); });
    } else {
      n &= -S;
      ADJOINT_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) o[i] = Op::forward(read(x, i)..., p[K]...);
    }
  }(std::make_index_sequence<count_parameters(Op::parameters)>{});
}

template <class Op, class T>
void forward_loop(void* out, const void* const* in, int64_t n, const double* p) {
  [&]<size_t... K, int... I>(std::index_sequence<K...>, std::integer_sequence<int, I...>) {
    using P = parameter_t<T>;
    using R = result_t<Op, T>;
    const P parameters[] = {convert<P>(p ? p[K] : 0.0)..., P()};
    R* o = static_cast<R*>(out);
    if constexpr (Op::arity == 1) {
      const auto* a = static_cast<const input_t<Op, 0, T>*>(in[0]);
      if constexpr (kInDouble<Op, T>) return double_loop<Op>(o, a, n);
      if constexpr (kHasAll<Op, P, R*, decltype(a), int64_t>) return Op::all(o, a, n, parameters[K]...);
    } else if constexpr (Op::arity == 2) {
      const auto* a = static_cast<const input_t<Op, 0, T>*>(in[0]);
      const auto* b = static_cast<const input_t<Op, 1, T>*>(in[1]);
      if constexpr (kHasUniform<Op, P, R*, decltype(a), decltype(*b), int64_t>)
        if (uniform(b, n) && Op::uniform(o, a, *b, n, parameters[K]...)) return;
    } else {
      const auto* a = static_cast<const input_t<Op, 0, T>*>(in[0]);
      const auto* b = static_cast<const input_t<Op, 1, T>*>(in[1]);
      const auto* c = static_cast<const input_t<Op, 2, T>*>(in[2]);
      if constexpr (kHasUniform<Op, P, R*, decltype(a), decltype(*b), decltype(*c), int64_t>)
        if (uniform(b, n) && uniform(c, n) && Op::uniform(o, a, *b, *c, n)) return;
    }
    if constexpr (kStep<Op, T> > 1 && std::is_same_v<R, T>)
      in_vectors<T>(o, in, n, parameters, (1 << Op::arity) - 1,
                    [](T* to, const T* const* from, int64_t m, const T* own) {
                      forward_each<Op, P>(to, m, own, from[I]...);
                    });
    else
      forward_each<Op, P>(o, n, parameters, static_cast<const input_t<Op, I, T>*>(in[I])...);
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

/// As `forward_each`, of S elements at a time.
template <class Op, int I, int64_t S, class T>
ADJOINT_INLINE void backward_each(T* o, const void* const* in, int64_t n, const T* parameters) {
  using R = result_t<Op, T>;
  using A = input_t<Op, 0, T>;
  using B = input_t<Op, 1, T>;
  using C = input_t<Op, 2, T>;
  [&]<size_t... K>(std::index_sequence<K...>) {
    constexpr int takes = Rule<Op, I>::takes;
    const T p[] = {parameters[K]..., T()};
    const R* g = static_cast<const R*>(in[0]);
    const void *a = in[1], *b = in[2], *c = in[3], *r = in[4];
    if constexpr (HasQuickSlope<Op, I, T>) {
      const T *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
      quick_loop<S>(
          o, n,
          [=](int64_t i) __attribute__((always_inline)) {
            return g[i] * Op::derivative_quick(Wrt<I>{}, First<T>{x[i]}, Second<T>{y[i]});
          },
          [=](int64_t i) { return g[i] * Op::derivative(Wrt<I>{}, First<T>{x[i]}, Second<T>{y[i]}); });
    } else if constexpr (HasNear<Op, T> && requires(T x) { Op::derivative_near(First<T>{x}); }) {
      for (int64_t at = 0; at < n; at += kNearBlock) {
        const T *x = static_cast<const T*>(a) + at, *slope = g + at;
        T* to = o + at;
        const int64_t m = (n - at < kNearBlock ? n - at : kNearBlock) & -S;
        if (all_near<Op>(x, m)) [[likely]] {
          ADJOINT_INDEPENDENT
          for (int64_t i = 0; i < m; ++i) to[i] = slope[i] * Op::derivative_near(First<T>{x[i]});
        } else {
          ADJOINT_INDEPENDENT
          for (int64_t i = 0; i < m; ++i) to[i] = slope[i] * Op::derivative(First<T>{x[i]});
        }
      }
    } else {
      n &= -S;
      ADJOINT_INDEPENDENT
      for (int64_t i = 0; i < n; ++i)
        o[i] = Rule<Op, I>::apply(g[i], load<(takes & 1) != 0, A>(a, i), load<(takes & 2) != 0, B>(b, i),
                                  load<(takes & 4) != 0, C>(c, i), load<(takes & 8) != 0, R>(r, i), p[K]...);
    }
  }(std::make_index_sequence<count_parameters(Op::parameters)>{});
}

template <class Op, int I, class T>
void backward_loop(void* out, const void* const* in, int64_t n, const double* p) {
  [&]<size_t... K>(std::index_sequence<K...>) {
    constexpr int takes = Rule<Op, I>::takes;
    const T parameters[] = {convert<T>(p ? p[K] : 0.0)..., T()};
    T* o = static_cast<T*>(out);
    if constexpr (requires(const T* x) { Op::uniform(Wrt<I>{}, o, x, x, *x, n); }) {
      const T *g = static_cast<const T*>(in[0]), *a = static_cast<const T*>(in[1]),
              *b = static_cast<const T*>(in[2]);
      if (uniform(b, n) && Op::uniform(Wrt<I>{}, o, g, a, *b, n)) return;
    }
    // What takes the result alone is short.
    if constexpr (kStep<Op, T> > 1 && std::is_same_v<result_t<Op, T>, T> && (takes & 7) != 0)
      in_vectors<T>(
          o, in, n, parameters, 1 | takes << 1, [](T* to, const T* const* from, int64_t m, const T* own) {
            const void* const v[] = {from[0], takes & 1 ? from[1] : nullptr, takes & 2 ? from[2] : nullptr,
                                     takes & 4 ? from[3] : nullptr, takes & 8 ? from[4] : nullptr};
            backward_each<Op, I, kStep<Op, T>>(to, v, m, own);
          });
    else
      backward_each<Op, I, 1>(o, in, n, parameters);
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
