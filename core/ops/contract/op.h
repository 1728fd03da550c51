// The contract of an operator: what a struct declares, so that everything else about it can be derived.
//
// An ELEMENT-WISE operator derives from Unary, Binary or Ternary and states
//     name, doc            how users call it, what it does
//     samples              a Domain that tests draw inputs from
//     forward(x, …)        one element, as a template over the element type
//     derivative(…)        d result / d input, of just those values that it takes: First, Second, Third
//     (inputs),
//                          Result. With several inputs, one overload per Wrt<i>. Returning One, MinusOne or
//                          Zero says that no arithmetic is needed.
//     vjp(Wrt<i>, Gradient, …)  instead of a derivative, where the function is not holomorphic
// and, where they differ from the defaults: types, result, promotes_integers, parameters, inplace …, and
//     check(inputs, type)  what inputs are refused, before anything is written (only where tensors are known)
//     absent(k, type)      the value that parameter k stands for when it is None: no number is a mark of "not
//     given" without_second, without_third  the operator of a call that leaves that input out, whose default
//     is None near, forward_near(x), derivative_near(x)   faster forms for a block of arguments up to |x| <=
//     near all(out, x, n, …)    a loop of its own for a whole run forward_quick(x, y),
//     derivative_quick(Wrt<i>, …)  vector forms that are NaN where they do not know the value
//     (ops/contract/loops.h) uniform(…)           a faster loop for a second input that is one number
//     throughout; false where it has none
//
// A STRUCTURED operator (reduction, view, product …) states
//     name, doc, signature the names and defaults of its arguments, as Python would write them
//     samples              Cases{…}: the calls from which tests, and tests of transforms, are made
//     forward(args…)       on tensors; the C++ types of its parameters are the types of the arguments
//     vjp                  Rules{…}: one function per differentiable parameter, those of the first tensors;
//                          one further on is rule_of<"src">(…). Each takes the Grad and what it needs, by
//                          name: Input<"self">, Output<>, Shape<"self">, Argument<int64_t, "dim">
// A missing rule raises an error that names the operator.
//
// The same template serves three ends: on float and double it is the body of a loop that the compiler
// vectorises; on `Recorded` it is the derivative as recorded operations, for derivatives of derivatives.
// Start reading at `Unary`; an example is ops/trigonometric.h.
#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "kernels/cpu/math/math.h"
#include "tensor/dtype.h"

#ifndef ADJOINT_KERNELS_ONLY
#include <optional>
#include <vector>

#include "tensor/tensor.h"
#endif

namespace adjoint::inline ADJOINT_ISA {

/// The interval that tests draw from.
struct Domain {
  double low, high;
};

/// The types an operator computes in: a bit per DType.
using TypeSet = uint32_t;
namespace types {
constexpr TypeSet bit(DType d) { return 1u << index_of(d); }
inline constexpr TypeSet boolean = bit(DType::Bool);
inline constexpr TypeSet integer =
    bit(DType::UInt8) | bit(DType::Int8) | bit(DType::Int16) | bit(DType::Int32) | bit(DType::Int64);
inline constexpr TypeSet floating =
    bit(DType::Float16) | bit(DType::BFloat16) | bit(DType::Float32) | bit(DType::Float64);
inline constexpr TypeSet complex = bit(DType::Complex64) | bit(DType::Complex128);
inline constexpr TypeSet real = integer | floating;
inline constexpr TypeSet numeric = real | complex;
inline constexpr TypeSet field = floating | complex;
inline constexpr TypeSet all = boolean | numeric;
}  // namespace types

/// What type the result has, given the type computed in.
enum class ResultType : uint8_t { Same, Bool, Real, Complex };

template <int I>
struct Wrt {};
template <int I, class T>
struct Arg {
  T value;
};
template <class T>
using First = Arg<0, T>;
template <class T>
using Second = Arg<1, T>;
template <class T>
using Third = Arg<2, T>;
template <class T>
struct Result {
  T value;
};
template <class T>
struct Gradient {
  T value;
};

struct One {};
struct MinusOne {};
struct Zero {};

struct Elementwise {
  static constexpr TypeSet types = types::field;
  static constexpr ResultType result = ResultType::Same;
  /// Integer inputs compute in the default floating-point type.
  static constexpr bool promotes_integers = false;
  /// Bool inputs compute as integers.
  static constexpr bool promotes_bool = false;
  /// Which input is a condition, bool whatever the others are; -1: none.
  static constexpr int condition = -1;
  /// Computes in the type of the first input, whatever the others are.
  static constexpr bool keeps_type = false;
  /// Types on which the operator changes nothing: the input itself is the result.
  static constexpr TypeSet identity = 0;
  static constexpr bool inplace = true;
  /// out= may be of another type, to which the result is converted.
  static constexpr bool out_converts = true;
  /// Also a method, whose first input is the tensor itself.
  static constexpr bool method = true;
  /// `check` looks at the values of integers.
  static constexpr bool checks_values = false;
  /// A long computation that the compiler makes vectors of: its loops take whole ones (ops/contract/loops.h).
  static constexpr bool in_vectors = false;
  /// Names and defaults of real parameters after the inputs, as a Python signature.
  static constexpr const char* parameters = "";
  static constexpr Domain samples{-2, 2};
  /// The function of which this operator is one form, chosen by the arguments: _max_dim is one of max.
  static constexpr const char* overloads = "";
  /// Further orders of the arguments, and those that torch warns of (dispatch/signature.h).
  static constexpr const char *orders = "", *old_orders = "";
  /// Other names of the function and method, comma-separated.
  static constexpr const char* aliases = "";
  /// The Python operator that this is: "__add__".
  static constexpr const char* python = "";
};
struct Unary : Elementwise {
  static constexpr int arity = 1;
  static constexpr const char* inputs = "self";
};
/// A function whose values are fractions: integers compute in the default floating-point type.
struct FloatFunction : Unary {
  static constexpr bool promotes_integers = true;
  static constexpr bool in_vectors = true;
};
struct Binary : Elementwise {
  static constexpr int arity = 2;
  static constexpr const char* inputs = "self, other";
};
struct Ternary : Elementwise {
  static constexpr int arity = 3;
  static constexpr const char* inputs = "self, other, third";
};

constexpr int count_parameters(std::string_view s) {
  if (s.empty()) return 0;
  int n = 1;
  for (char c : s) n += (c == ',') - (c == '*');
  return n;
}

/// A list of operators: what one header declares.
template <class... Ops>
struct Family {
  static constexpr int size = sizeof...(Ops);
  template <class F>
  static constexpr void each(F&& f) {
    (f.template operator()<Ops>(), ...);
  }
};

template <class T>
ADJOINT_INLINE T select(bool condition, T a, T b) {
  return condition ? a : b;
}

/// An integer as it must be for sums and products to wrap around: unsigned where int would overflow.
template <class T>
ADJOINT_INLINE constexpr auto modular(T x) {
  if constexpr (std::is_same_v<T, int32_t>)
    return static_cast<uint32_t>(x);
  else if constexpr (std::is_same_v<T, int64_t>)
    return static_cast<uint64_t>(x);
  else
    return x;
}

// --- The rule of one input ------------------------------------------------------------------------

/// Which of the values a rule takes, as a mask.
enum Takes { kFirst = 1, kSecond = 2, kThird = 4, kResult = 8 };

template <int M, class F, class A, class B, class C, class R, class... P>
ADJOINT_INLINE auto call_with(F f, A a, B b, C c, R r, P... p) {
  if constexpr ((M & kResult) != 0)
    return call_with<M - kResult>(f, static_cast<A&&>(a), static_cast<B&&>(b), static_cast<C&&>(c), 0,
                                  Result<R>{static_cast<R&&>(r)}, static_cast<P&&>(p)...);
  else if constexpr ((M & kThird) != 0)
    return call_with<M - kThird>(f, static_cast<A&&>(a), static_cast<B&&>(b), 0, 0,
                                 Third<C>{static_cast<C&&>(c)}, static_cast<P&&>(p)...);
  else if constexpr ((M & kSecond) != 0)
    return call_with<M - kSecond>(f, static_cast<A&&>(a), 0, 0, 0, Second<B>{static_cast<B&&>(b)},
                                  static_cast<P&&>(p)...);
  else if constexpr ((M & kFirst) != 0)
    return f(First<A>{static_cast<A&&>(a)}, static_cast<P&&>(p)...);
  else
    return f(static_cast<P&&>(p)...);
}

/// The result type of computing in T.
template <class Op, class T>
using result_t = std::conditional_t<
    Op::result == ResultType::Bool, bool,
    std::conditional_t<Op::result == ResultType::Real, real_t<T>,
                       std::conditional_t<Op::result == ResultType::Complex, Complex<real_t<T>>, T>>>;

/// What input I is read as when computing in T.
template <class Op, int I, class T>
using input_t = std::conditional_t<Op::condition == I, bool, T>;
/// What parameters arrive as: integers would lose a fraction, an infinity or "not given".
template <class T>
using parameter_t = std::conditional_t<std::is_integral_v<T>, double, T>;

/// The type in which rules are probed for what they take.
template <class Op>
using probe_t =
    std::conditional_t<(Op::types & types::floating) != 0, double,
                       std::conditional_t<(Op::types & types::complex) != 0, Complex<double>, int64_t>>;

enum class RuleKind : uint8_t { Missing, Zero, One, MinusOne, Derivative, Vjp };

namespace detail {

template <class T, size_t>
using repeat = T;
template <class Op>
using Parameters = std::make_index_sequence<count_parameters(Op::parameters)>;

// The three ways to state a rule. The operator is a parameter of the call, so that one without the member is
// merely not callable.
template <class Op, int I>
struct AsWrt {
  template <class O = Op, class... X>
  ADJOINT_INLINE auto operator()(X... x) const -> decltype(O::derivative(Wrt<I>{}, x...)) {
    return O::derivative(Wrt<I>{}, static_cast<X&&>(x)...);
  }
};
template <class Op>
struct AsOnly {
  template <class O = Op, class... X>
  ADJOINT_INLINE auto operator()(X... x) const -> decltype(O::derivative(x...)) {
    return O::derivative(static_cast<X&&>(x)...);
  }
};
template <class Op, int I, class G>
struct AsVjp {
  G gradient;
  template <class O = Op, class... X>
  ADJOINT_INLINE auto operator()(X... x) const -> decltype(O::vjp(Wrt<I>{}, Gradient<G>{gradient}, x...)) {
    return O::vjp(Wrt<I>{}, Gradient<G>{gradient}, static_cast<X&&>(x)...);
  }
};

template <class F, class... X>
constexpr bool can(std::tuple<X...>*) {
  return std::is_invocable_v<F, X...>;
}
template <class F, class... X>
constexpr RuleKind kind_of_rule(std::tuple<X...>*) {
  using D = std::invoke_result_t<F, X...>;
  if constexpr (std::is_same_v<D, One>)
    return RuleKind::One;
  else if constexpr (std::is_same_v<D, MinusOne>)
    return RuleKind::MinusOne;
  else if constexpr (std::is_same_v<D, Zero>)
    return RuleKind::Zero;
  else
    return RuleKind::Derivative;
}

/// The tuple of values that mask M stands for, in the order of call_with.
template <int M, class Op, class T, class K>
struct Taken;
template <int M, class Op, class T, size_t... K>
struct Taken<M, Op, T, std::index_sequence<K...>> {
  template <bool Is, class X>
  using Maybe = std::conditional_t<Is, std::tuple<X>, std::tuple<>>;
  using type = decltype(std::tuple_cat(
      Maybe<(M & 1) != 0, First<input_t<Op, 0, T>>>{}, Maybe<(M & 2) != 0, Second<input_t<Op, 1, T>>>{},
      Maybe<(M & 4) != 0, Third<input_t<Op, 2, T>>>{}, Maybe<(M & 8) != 0, Result<result_t<Op, T>>>{},
      std::tuple<repeat<T, K>...>{}));
};

template <class Op, int I, int M>
consteval bool takes_wrt() {
  return can<AsWrt<Op, I>>(static_cast<typename Taken<M, Op, probe_t<Op>, Parameters<Op>>::type*>(nullptr));
}

template <class Op, int I, int M>
consteval RuleKind probe() {
  constexpr auto taken = static_cast<typename Taken<M, Op, probe_t<Op>, Parameters<Op>>::type*>(nullptr);
  if constexpr (can<AsWrt<Op, I>>(taken))
    return kind_of_rule<AsWrt<Op, I>>(taken);
  else if constexpr (Op::arity == 1 && can<AsOnly<Op>>(taken))
    return kind_of_rule<AsOnly<Op>>(taken);
  else if constexpr (can<AsVjp<Op, I, result_t<Op, probe_t<Op>>>>(taken))
    return RuleKind::Vjp;
  else
    return RuleKind::Missing;
}

}  // namespace detail

/// What an operator says of its derivative with respect to input I.
template <class Op, int I>
struct Rule {
  struct Found {
    RuleKind kind;
    int takes;
  };
  template <int M = 0>
  static consteval Found find() {
    if constexpr (Op::result == ResultType::Bool || I == Op::condition)
      return {RuleKind::Zero, 0};
    else if constexpr (M == 16)
      return {RuleKind::Missing, 0};
    else if constexpr (constexpr RuleKind k = detail::probe<Op, I, M>(); k != RuleKind::Missing)
      return {k, M};
    else
      return find<M + 1>();
  }
  static constexpr Found found = find();
  static constexpr RuleKind kind = found.kind;
  static constexpr int takes = found.takes;
  static constexpr bool with_wrt = Op::arity > 1 || detail::takes_wrt<Op, I, takes>();

  /// The gradient of the input from the gradient g of the result.
  template <class G, class A, class B, class C, class R, class... P>
  ADJOINT_INLINE static auto apply(G g, A a, B b, C c, R r, P... p) {
    if constexpr (kind == RuleKind::Vjp)
      return call_with<takes>(detail::AsVjp<Op, I, G>{static_cast<G&&>(g)}, static_cast<A&&>(a),
                              static_cast<B&&>(b), static_cast<C&&>(c), static_cast<R&&>(r),
                              static_cast<P&&>(p)...);
    else
      return g * conj_of(derivative(static_cast<A&&>(a), static_cast<B&&>(b), static_cast<C&&>(c),
                                    static_cast<R&&>(r), static_cast<P&&>(p)...));
  }
  template <class A, class B, class C, class R, class... P>
  ADJOINT_INLINE static auto derivative(A a, B b, C c, R r, P... p) {
    if constexpr (with_wrt)
      return call_with<takes>(detail::AsWrt<Op, I>{}, static_cast<A&&>(a), static_cast<B&&>(b),
                              static_cast<C&&>(c), static_cast<R&&>(r), static_cast<P&&>(p)...);
    else
      return call_with<takes>(detail::AsOnly<Op>{}, static_cast<A&&>(a), static_cast<B&&>(b),
                              static_cast<C&&>(c), static_cast<R&&>(r), static_cast<P&&>(p)...);
  }
  template <class T>
  ADJOINT_INLINE static T conj_of(T x) {
    if constexpr (requires { x.conj(); })
      return x.conj();
    else if constexpr (std::is_arithmetic_v<T>)
      return x;
    else
      return math::conj(x);
  }
};

}  // namespace adjoint::inline ADJOINT_ISA

#ifndef ADJOINT_KERNELS_ONLY
#include "ops/contract/structured.h"
#else
namespace adjoint::inline ADJOINT_ISA {
struct Recorded;
template <class Op, class... X>
ADJOINT_INLINE auto apply(X... x) {
  return Op::forward(x...);
}
}  // namespace adjoint::inline ADJOINT_ISA
#endif
