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
// copies; a source of random numbers is a `Generator*`, a loop its function. No other pointers. A struct with
// tensors in it says which (`each_tensor`).
//
// On the device kRecorded, where there are no elements, launches and checks are shown to the thread's
// `Recorder`, and not done; all else that would look at elements throws NotLaunched. So what was shown is all
// that a call does to memory, and does not depend on what lies there (core/replay/prepared.h).
#pragma once

#include <concepts>
#include <string_view>
#include <utility>

#include "runtime/function_ref.h"
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

/// What an argument is: bytes; a list of whole numbers; something to be copied by a function, if by any.
enum class Kind : uint8_t { Value, Numbers, Other, Generator, Tensor, Tensors, Out, Outs };

/// How an argument that is more than bytes is kept.
struct Keeping {
  void* (*copy)(const void*);
  void (*release)(void*);
  void (*each_tensor)(void*, runtime::FunctionRef<void(Tensor&)>);
};
template <class X>
inline constexpr bool has_tensors = requires(X& x, void (*f)(Tensor&)) { x.each_tensor(f); };
template <class X>
inline constexpr bool is_view = std::same_as<X, std::string_view>;
template <class T>
inline constexpr bool is_view<std::span<T>> = true;
template <class X>
inline constexpr bool is_bytes = std::is_trivially_copyable_v<X> && !is_view<X> && !has_tensors<X>;
template <class X>
inline constexpr Keeping keeping_of{[](const void* x) -> void* { return new X(*static_cast<const X*>(x)); },
                                    [](void* x) { delete static_cast<X*>(x); },
                                    [](void* x, runtime::FunctionRef<void(Tensor&)> f) {
                                      if constexpr (has_tensors<X>) static_cast<X*>(x)->each_tensor(f);
                                    }};

/// An argument as a routine gets it.
template <class X>
struct As {
  static_assert(!std::is_pointer_v<X> || std::is_function_v<std::remove_pointer_t<X>> ||
                    std::same_as<X, const char*> || std::same_as<X, runtime::Generator*>,
                "a routine is called with values: no address of what somebody else owns");
  using Type = X;
  static constexpr Kind kind = std::same_as<X, runtime::Generator*> ? Kind::Generator
                               : std::same_as<X, Tensor>            ? Kind::Tensor
                               : std::same_as<X, TensorList>        ? Kind::Tensors
                               : std::same_as<X, IntList>           ? Kind::Numbers
                               : is_bytes<X>                        ? Kind::Value
                                                                    : Kind::Other;
  static constexpr size_t size = is_bytes<X> ? sizeof(X) : 0;
  /// What is neither bytes nor known to be a value by itself cannot be kept.
  static constexpr const Keeping* keeping() {
    if constexpr (kind == Kind::Other && (has_tensors<X> || std::same_as<X, Dims>)) return &keeping_of<X>;
    return nullptr;
  }
  static const X& of(const X& x) { return x; }
};
struct NotKept {
  static constexpr size_t size = 0;
  static constexpr const Keeping* keeping() { return nullptr; }
};
template <>
struct As<Out> : NotKept {
  using Type = Tensor;
  static constexpr Kind kind = Kind::Out;
  static const Tensor& of(const Out& x) { return x.value; }
};
template <>
struct As<Outs> : NotKept {
  using Type = TensorList;
  static constexpr Kind kind = Kind::Outs;
  static const TensorList& of(const Outs& x) { return x.value; }
};

/// A routine that can be called with the addresses of its arguments. True where it looks for something
/// (`check`) and finds it.
struct Routine {
  static constexpr size_t kMost = 16;
  bool (*call)(const void* const* at);
  /// Of the argument of Kind::Other; null where there are several, or it cannot be kept.
  const Keeping* keeping;
  uint8_t count;
  Kind kinds[kMost];
  uint16_t sizes[kMost];  // of those of Kind::Value
};
template <class... X>
constexpr const Keeping* keeping_among() {
  const Keeping* found = nullptr;
  int others = 0;
  ((As<X>::kind == Kind::Other ? (++others, found = As<X>::keeping()) : nullptr), ...);
  return others == 1 ? found : nullptr;
}
template <auto routine, class... X>
inline constexpr Routine routine_of{
    [](const void* const* at) -> bool {
      return [&]<size_t... I>(std::index_sequence<I...>) {
        if constexpr (std::is_void_v<decltype(routine(std::declval<const typename As<X>::Type&>()...))>)
          return routine(*static_cast<const typename As<X>::Type*>(at[I])...), false;
        else
          return static_cast<bool>(routine(*static_cast<const typename As<X>::Type*>(at[I])...));
      }(std::index_sequence_for<X...>());
    },
    keeping_among<X...>(),
    sizeof...(X),
    {As<X>::kind...},
    {static_cast<uint16_t>(As<X>::size)...}};

/// Sees what is launched in its thread on kRecorded, and keeps it.
class Recorder {
 public:
  Recorder();
  virtual void launched(const Routine& routine, const void* const* at) = 0;

 protected:
  ~Recorder();
};
/// Show a check to the recorder, if `t` is there: as if it had found nothing.
[[gnu::cold]] bool checked(const Tensor& t, const Routine& routine, const void* const* at);

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
  if (first->is(TensorImpl::kElsewhere)) [[unlikely]] {
    const void* at[] = {&first, &launch::As<X>::of(others)...};
    if (launch::checked(first, launch::routine_of<routine, Tensor, X...>, at))
      return decltype(routine(first, others...))();
  }
  if (const Access access(first); access) return routine(first, others...);
  return decltype(routine(first, others...))();
}

}  // namespace adjoint
