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

#include "runtime/function_ref.h"
#include "tensor/access.h"

namespace adjoint {

namespace runtime {
class Generator;
}

/// What a routine writes; where it adds to that or moves it about, it is read, too. The first is defined.
struct Out {
  const Tensor& tensor;
  explicit Out(const Tensor& t) : tensor(t) {}
};
/// Likewise all of a list.
struct Outs {
  TensorList list;
  explicit Outs(TensorList l) : list(l) {}
};

namespace launch {

/// The tensors that a routine is to write in the place of those that it was called with.
struct Others {
  std::span<const TensorList> given;
  const Tensor* copies;

  TensorList in_place_of(TensorList list) const;
  const Tensor& of(const Out& x) const { return in_place_of({&x.tensor, 1})[0]; }
  TensorList of(const Outs& x) const { return in_place_of(x.list); }
  template <class X>
  const X& of(const X& x) const {
    return x;
  }
};

inline const Tensor& plain(const Out& x) { return x.tensor; }
inline TensorList plain(const Outs& x) { return x.list; }
template <class X>
const X& plain(const X& x) {
  return x;
}

inline TensorList written(const Out& x) { return {&x.tensor, 1}; }
inline TensorList written(const Outs& x) { return x.list; }
template <class X>
TensorList written(const X&) {
  return {};
}

/// What can be kept until a later call: no address of what somebody else owns.
template <class X>
concept Argument = !std::is_pointer_v<X> || std::is_function_v<std::remove_pointer_t<X>> ||
                   std::same_as<X, const char*> || std::same_as<X, runtime::Generator*>;

template <class X>
runtime::Generator* generator_among(const X& x) {
  if constexpr (std::same_as<X, runtime::Generator*>) return x;
  return nullptr;
}

/// Run where the memory is that is written: on copies, and, for what it writes, as it is.
void elsewhere(std::span<const TensorList> written, runtime::Generator* generator,
               runtime::FunctionRef<void(const Others&)> routine);

template <auto routine, class... X>
[[gnu::cold, gnu::noinline]] void on_elsewhere(const X&... x) {
  const TensorList all[] = {written(x)...};
  runtime::Generator* generator = nullptr;
  ((generator = generator ? generator : generator_among(x)), ...);
  elsewhere(all, generator, [&](const Others& memory) { routine(memory.of(x)...); });
}

}  // namespace launch

/// Call a routine that writes `first`, an Out or not empty Outs, and what other arguments are such, from the
/// rest.
template <auto routine, class First, launch::Argument... X>
  requires(std::same_as<First, Out> || std::same_as<First, Outs>)
[[gnu::always_inline]] inline void on(First first, const X&... others) {
  if (launch::written(first)[0]->is(TensorImpl::kElsewhere)) [[unlikely]]
    return launch::on_elsewhere<routine>(first, others...);
  routine(launch::plain(first), launch::plain(others)...);
}

/// What a routine finds in `first`, and the other arguments, for `op`. Who looks on is told that they are
/// read.
template <auto routine, launch::Argument... X>
auto ask(const char* op, const Tensor& first, const X&... others) {
  if (thread_state.watched) [[unlikely]]
    announce_read(first, op);
  const Access access(first, op);
  return routine(first, others...);
}

/// What a routine finds in `first` that a call may be refused for, or done in another way with the same
/// result; nothing where there are no elements. No reader, and so not told.
template <auto routine, launch::Argument... X>
auto check(const Tensor& first, const X&... others) -> decltype(routine(first, others...)) {
  if (const Access access(first); access) return routine(first, others...);
  return decltype(routine(first, others...))();
}

}  // namespace adjoint
