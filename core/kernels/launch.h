// How the computation of a call reaches memory: as a call of one of the routines of kernels/, with its
// tensors as arguments. See Note: devices.
//
//     on<&kernels::ramp>(Out(t), start, step);                // writes t, which is all that it does
//     on<&kernels::determinant>(Out(sign), Out(log), lu);     // writes both
//     on<&kernels::sgd_step>(Outs(params), grads, numbers);   // writes each of a list
//     const int64_t n = ask<&kernels::most_true>("det", m);   // the host must know what it finds
//     if (check<&kernels::any_zero>(divisor)) fail(…);        // what may be refused by its values
//
// On the CPU each is the call itself. On the meta device the first does nothing, `ask` refuses in the name of
// its operator, and `check` finds nothing. In guarded memory they open it, call, and close it; and what
// writes is run first on copies of what it writes, where it must write the same: so a routine is known by
// what it is called with, and could be called later, or elsewhere.
//
// Arguments are therefore values: tensors, numbers, small structs of these, and lists, which who keeps them
// copies; a source of random numbers is a `Generator*`, a loop its function. No other pointers.
#pragma once

#include <concepts>
#include <utility>

#include "tensor/access.h"

namespace adjoint {

namespace runtime {
class Generator;
}

/// What a routine writes, if it is defined; where it adds to that or moves it about, it is read, too.
struct Out {
  const Tensor& value;
  explicit Out(const Tensor& t) : value(t) {}
};
/// Likewise all of a list.
struct Outs {
  TensorList value;
  explicit Outs(TensorList list) : value(list) {}
};

namespace launch {

enum class Kind : uint8_t { Value, Generator, Out, Outs };

/// An argument as a routine gets it.
template <class X>
struct As {
  static_assert(!std::is_pointer_v<X> || std::is_function_v<std::remove_pointer_t<X>> ||
                    std::same_as<X, const char*> || std::same_as<X, runtime::Generator*>,
                "a routine is called with values: no address of what somebody else owns");
  using Type = X;
  static constexpr Kind kind = std::same_as<X, runtime::Generator*> ? Kind::Generator : Kind::Value;
  static const X& of(const X& x) { return x; }
};
template <>
struct As<Out> {
  using Type = Tensor;
  static constexpr Kind kind = Kind::Out;
  static const Tensor& of(const Out& x) { return x.value; }
};
template <>
struct As<Outs> {
  using Type = TensorList;
  static constexpr Kind kind = Kind::Outs;
  static const TensorList& of(const Outs& x) { return x.value; }
};

/// A routine that can be called with the addresses of its arguments.
struct Routine {
  static constexpr size_t kMost = 16;
  void (*call)(const void* const* at);
  size_t count;
  Kind kinds[kMost];
};
template <auto routine, class... X>
inline constexpr Routine routine_of{[](const void* const* at) {
                                      [&]<size_t... I>(std::index_sequence<I...>) {
                                        routine(*static_cast<const typename As<X>::Type*>(at[I])...);
                                      }(std::index_sequence_for<X...>());
                                    },
                                    sizeof...(X),
                                    {As<X>::kind...}};

/// Whether what a routine writes is elsewhere than on the CPU; where it writes nothing, that is not.
inline bool is_elsewhere(const Out& x) { return x.value.defined() && x.value->is(TensorImpl::kElsewhere); }
inline bool is_elsewhere(const Outs& x) { return !x.value.empty() && is_elsewhere(Out(x.value[0])); }
template <class X>
bool is_elsewhere(const X&) {
  return false;
}

/// Call where the memory is that is written: on copies, and, for what it writes, as it is.
[[gnu::cold]] void elsewhere(const Routine& routine, const void* const* at);

}  // namespace launch

/// Call a routine that writes `first`, an Out or Outs, and what other arguments are such, from the rest.
template <auto routine, class First, class... X>
  requires(std::same_as<First, Out> || std::same_as<First, Outs>)
[[gnu::always_inline]] inline void on(First first, const X&... others) {
  if ((launch::is_elsewhere(first) || ... || launch::is_elsewhere(others))) [[unlikely]] {
    const void* at[] = {&first.value, &launch::As<X>::of(others)...};
    return launch::elsewhere(launch::routine_of<routine, First, X...>, at);
  }
  routine(first.value, launch::As<X>::of(others)...);
}

/// What a routine finds in `first`, and the other arguments, for `op`. Who looks on is told that they are
/// read.
template <auto routine, class... X>
auto ask(const char* op, const Tensor& first, const X&... others) {
  if (thread_state.watched) [[unlikely]]
    announce_read(first, op);
  const Access access(first, op);
  return routine(first, others...);
}

/// What a routine finds in `first` that a call may be refused for, or done in another way with the same
/// result; nothing where there are no elements. No reader, and so not told.
template <auto routine, class... X>
auto check(const Tensor& first, const X&... others) -> decltype(routine(first, others...)) {
  if (const Access access(first); access) return routine(first, others...);
  return decltype(routine(first, others...))();
}

}  // namespace adjoint
