// Constants that rules make, by calls, on the device of the call that they belong to: rows that make tensors
// from nothing ask the thread where, and that is the program's to say.
#pragma once

#include <utility>

#include "dispatch/operator.h"
#include "ops/creation.h"

namespace adjoint {

template <class Row, class... A>
Tensor constant(A&&... arguments) {
  struct Scope {
    Device before = std::exchange(thread_state.default_device, thread_state.device);
    ~Scope() { thread_state.default_device = before; }
  } scope;
  return call<Row>(std::forward<A>(arguments)...);
}

/// Numbers that a rule wrote to memory of its own, as a constant: who looks on is told.
Tensor constant_of(Tensor numbers, const char* rule);

/// The integers from `start` up to but without `end`.
inline Tensor counted(int64_t start, int64_t end) {
  return constant<Arange>(Scalar(start), Scalar(end), Scalar(int64_t{1}), OptionalType(DType::Int64), false);
}

}  // namespace adjoint
