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
// its operator, and `check` finds nothing. For any other device the host's routine runs on copies in memory
// of the host, which lie as the originals do and overlap where these do, and what it wrote goes back: so
// every routine is right on every device, and `launches_on_host` says how many a device had none of its own
// for.
//
// Arguments are therefore values: tensors, numbers, small structs of these, which name their tensors
// (`each_tensor`), and lists, which who keeps them copies; a source of random numbers is a `Generator*`, a
// loop its function. No other pointers.
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "tensor/device.h"

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

/// Finds for tensors of devices others of the host. Shown all of a launch's twice: first it notes which
/// memory they span, and copies that when the second turn begins.
class OnHost;
void meet(OnHost& host, Tensor& t);

// f(t) for each tensor within an argument, or a result.
template <class F>
void each_tensor_of(Tensor& t, const F& f) {
  f(t);
}
template <class F>
void each_tensor_of(Tensors& all, const F& f) {
  for (Tensor& t : all) f(t);
}
template <class... T, class F>
void each_tensor_of(std::tuple<T...>& all, const F& f) {
  std::apply([&](T&... each) { (each_tensor_of(each, f), ...); }, all);
}
template <class X, class F>
  requires requires(X& x, const F& f) { x.each_tensor(f); }
void each_tensor_of(X& x, const F& f) {
  x.each_tensor(f);
}
struct Nothing {
  void operator()(Tensor&) const {}
};
template <class X>
concept HoldsTensors = requires(X& x) { each_tensor_of(x, Nothing()); };

/// A copy of an argument with tensors of the host, and how it goes.
using Moved = std::unique_ptr<const void, void (*)(const void*)>;
template <class X>
Moved moved(const void* x, OnHost& host) {
  auto* copy = new X(*static_cast<const X*>(x));
  each_tensor_of(*copy, [&](Tensor& t) { meet(host, t); });
  return {copy, [](const void* p) { delete static_cast<const X*>(p); }};
}
Moved moved_list(const void* list, OnHost& host);

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

/// What becomes of an argument of this type on the way to the host; null: it goes as it is.
template <class X>
constexpr auto moved_as() -> Moved (*)(const void*, OnHost&) {
  if constexpr (std::same_as<X, TensorList>) {
    return moved_list;
  } else if constexpr (HoldsTensors<X>) {
    return moved<X>;
  } else {
    static_assert(std::is_trivially_copyable_v<X> && !std::convertible_to<const X&, TensorList>,
                  "say which tensors it holds: each_tensor(f)");
    return nullptr;
  }
}

struct Argument {
  Kind kind = Kind::Value;
  Moved (*moved)(const void*, OnHost&) = nullptr;
};
/// A routine that can be called with the addresses of its arguments.
struct Routine {
  static constexpr size_t kMost = 17;
  void (*call)(const void* const* at);
  std::span<const Argument> arguments;
};
template <class... X>
inline constexpr Argument arguments_of[]{{As<X>::kind, moved_as<typename As<X>::Type>()}...};
template <auto routine, class... X>
inline constexpr Routine routine_of{[](const void* const* at) {
                                      [&]<size_t... I>(std::index_sequence<I...>) {
                                        routine(*static_cast<const typename As<X>::Type*>(at[I])...);
                                      }(std::index_sequence_for<X...>());
                                    },
                                    arguments_of<X...>};
/// One that finds something, which goes to a std::optional.
struct Found {
  void* optional;
};
template <auto routine, class... X>
inline constexpr Routine finder_of{
    [](const void* const* at) {
      [&]<size_t... I>(std::index_sequence<I...>) {
        using Result = decltype(routine(std::declval<const X&>()...));
        auto* to = static_cast<const Found*>(at[0])->optional;
        static_cast<std::optional<Result>*>(to)->emplace(routine(*static_cast<const X*>(at[I + 1])...));
      }(std::index_sequence_for<X...>());
    },
    arguments_of<Found, X...>};

/// Whether what a routine writes is elsewhere than on the CPU; where it writes nothing, that is not.
inline bool is_elsewhere(const Out& x) { return x.value.defined() && x.value->is(TensorImpl::kElsewhere); }
inline bool is_elsewhere(const Outs& x) { return !x.value.empty() && is_elsewhere(Out(x.value[0])); }
template <class X>
bool is_elsewhere(const X&) {
  return false;
}

/// Call where the memory is that is written.
[[gnu::cold]] void elsewhere(const Routine& routine, const void* const* at);
/// Call on copies of the host, wherever its tensors are.
[[gnu::cold]] void on_host(const Routine& routine, const void* const* at);
/// A result of the host, where `first` is.
void bring(Tensor& t, const Tensor& first);

template <auto routine, class... X>
[[gnu::cold, gnu::noinline]] auto found_elsewhere(const Tensor& first, const X&... others) {
  std::optional<decltype(routine(first, others...))> found;
  const Found to{&found};
  const void* at[] = {&to, &first, &others...};
  on_host(finder_of<routine, Tensor, X...>, at);
  if constexpr (HoldsTensors<decltype(routine(first, others...))>)
    each_tensor_of(*found, [&](Tensor& t) { bring(t, first); });
  return std::move(*found);
}

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
  if (first->is(TensorImpl::kElsewhere)) [[unlikely]] {
    if (is_meta(first)) refuse_meta(op);
    return launch::found_elsewhere<routine>(first, others...);
  }
  return routine(first, others...);
}

/// What a routine finds in `first` that a call may be refused for, or done in another way with the same
/// result; nothing where there are no elements. No reader, and so not told.
template <auto routine, class... X>
auto check(const Tensor& first, const X&... others) -> decltype(routine(first, others...)) {
  if (!first->is(TensorImpl::kElsewhere)) return routine(first, others...);
  if (is_meta(first)) return {};
  return launch::found_elsewhere<routine>(first, others...);
}

/// How many launches ran on the host for want of a routine of their device.
int64_t launches_on_host();

}  // namespace adjoint
