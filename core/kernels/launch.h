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
// every routine is right on every device. A device's library may have one of its own for what only writes
// (`DeviceRoutines`); `launches_on_host` says how many it had none for.
//
// Arguments are therefore values: tensors, numbers, small structs of these, which name their tensors
// (`each_tensor`), and lists, which who keeps them copies; a source of random numbers is a `Generator*`, a
// loop its function. No other pointers.
//
// On the device kRecorded, where there are no elements, launches and checks are shown to the thread's
// `Recorder`, and not done; all else that would look at elements throws NotLaunched. So what was shown is all
// that a call does to memory, and does not depend on what lies there (core/replay/prepared.h).
#pragma once

#include <concepts>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "runtime/function_ref.h"
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

/// What an argument is: bytes; a list of whole numbers; something to be copied by a function, if by any.
enum class Kind : uint8_t { Value, Numbers, Other, Generator, Tensor, Tensors, Out, Outs };

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

template <class X>
inline constexpr bool is_view = std::same_as<X, std::string_view>;
template <class T>
inline constexpr bool is_view<std::span<T>> = true;
template <class X>
inline constexpr bool is_bytes = std::is_trivially_copyable_v<X> && !is_view<X> && !HoldsTensors<X>;

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

/// How an argument that is more than bytes is kept: copied, so that its tensors can be replaced.
struct Keeping {
  void* (*copy)(const void*);
  void (*release)(void*);
  void (*each_tensor)(void*, runtime::FunctionRef<void(Tensor&)>);
};
template <class X>
inline constexpr Keeping keeping_of{
    .copy = [](const void* x) -> void* { return new X(*static_cast<const X*>(x)); },
    .release = [](void* x) { delete static_cast<X*>(x); },
    .each_tensor =
        [](void* x, runtime::FunctionRef<void(Tensor&)> f) {
          if constexpr (HoldsTensors<X>) each_tensor_of(*static_cast<X*>(x), f);
        }};

struct Argument {
  Kind kind;
  uint16_t size = 0;                 // of one of Kind::Value
  const Keeping* keeping = nullptr;  // of one of Kind::Other; null: of bytes that somebody else has
};
template <class X>
constexpr Argument argument_of() {
  if constexpr (As<X>::kind == Kind::Value) {
    return {Kind::Value, sizeof(X)};
  } else if constexpr (As<X>::kind == Kind::Other && (HoldsTensors<X> || std::same_as<X, Dims>)) {
    return {Kind::Other, 0, &keeping_of<X>};
  } else {
    static_assert(As<X>::kind != Kind::Other || (is_view<X> && !std::convertible_to<const X&, TensorList>),
                  "say which tensors it holds: each_tensor(f)");
    return {As<X>::kind};
  }
}
/// A routine that can be called with the addresses of its arguments. True where it looks for something
/// (`check`) and finds it.
struct Routine {
  static constexpr size_t kMost = 17;
  bool (*call)(const void* const* at);
  std::span<const Argument> arguments;
  /// By which a device's library knows it.
  uint64_t id = 0;
};
/// A number of its own for each routine with arguments of these types, made of the name that the compiler
/// gives it: so a library needs the routine's header, and not the routine.
template <auto routine, class... X>
consteval uint64_t id_of() {
  uint64_t h = 0xcbf29ce484222325;
  for (const char* c = __PRETTY_FUNCTION__; *c; ++c) h = (h ^ static_cast<unsigned char>(*c)) * 0x100000001b3;
  return h;
}
template <class... X>
  requires(sizeof...(X) <= Routine::kMost)
inline constexpr Argument arguments_of[]{argument_of<X>()...};
template <auto routine, class... X>
inline constexpr Routine routine_of{.call =
                                        [](const void* const* at) {
                                          [&]<size_t... I>(std::index_sequence<I...>) {
                                            routine(*static_cast<const typename As<X>::Type*>(at[I])...);
                                          }(std::index_sequence_for<X...>());
                                          return false;
                                        },
                                    .arguments = arguments_of<X...>,
                                    .id = id_of<routine, X...>()};
/// One that finds something, which goes to a std::optional, if there is one.
struct Found {
  void* optional;
};
template <auto routine, class... X>
inline constexpr Routine finder_of{
    .call =
        [](const void* const* at) {
          return [&]<size_t... I>(std::index_sequence<I...>) {
            auto found = routine(*static_cast<const X*>(at[I + 1])...);
            bool is_true = false;
            if constexpr (requires { static_cast<bool>(found); }) is_true = static_cast<bool>(found);
            if (auto* to = static_cast<const Found*>(at[0])->optional)
              static_cast<std::optional<decltype(found)>*>(to)->emplace(std::move(found));
            return is_true;
          }(std::index_sequence_for<X...>());
        },
    .arguments = arguments_of<Found, X...>};

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

/// Call where the memory is that is written.
[[gnu::cold]] void elsewhere(const Routine& routine, const void* const* at);
/// Call on copies of the host, wherever its tensors are.
[[gnu::cold]] void on_host(const Routine& routine, const void* const* at);
/// A result of the host, where `first` is.
void bring(Tensor& t, const Tensor& first);

template <auto routine, bool is_check, class... X>
[[gnu::cold, gnu::noinline]] auto found_elsewhere(const Tensor& first, const X&... others) {
  using Result = decltype(routine(first, others...));
  std::optional<Result> found;
  Found to{nullptr};
  const void* at[] = {&to, &first, &others...};
  if constexpr (is_check)
    if (checked(first, finder_of<routine, Tensor, X...>, at)) return Result();
  to.optional = &found;
  on_host(finder_of<routine, Tensor, X...>, at);
  if constexpr (HoldsTensors<Result>) each_tensor_of(*found, [&](Tensor& t) { bring(t, first); });
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
    return launch::found_elsewhere<routine, false>(first, others...);
  }
  return routine(first, others...);
}

/// What a routine finds in `first` that a call may be refused for, or done in another way with the same
/// result; nothing where there are no elements. No reader, and so not told.
template <auto routine, class... X>
auto check(const Tensor& first, const X&... others) -> decltype(routine(first, others...)) {
  if (!first->is(TensorImpl::kElsewhere)) return routine(first, others...);
  if (is_meta(first)) return {};
  return launch::found_elsewhere<routine, true>(first, others...);
}

/// What a device's library has of its own.
struct DeviceRoutines {
  /// Of devices, as it is in their DeviceFunctions.
  const char* kind;
  /// Its routine for one of the host's, by `id_of`; null where it has none. It gets the addresses of the
  /// arguments; where it returns false, it has done nothing, and the host's runs.
  bool (*(*of)(uint64_t id))(const void* const* at);
};
/// Ask them before the host runs. They stay.
void register_routines(const DeviceRoutines& routines);
/// How many launches ran on the host for want of a routine of their device.
int64_t launches_on_host();

}  // namespace adjoint
