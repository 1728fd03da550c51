// A transform is an interpreter over the operator table: it sees each call as an operator and its boxed arguments,
// before recording. Forward mode, batching and tracing are to be interpreters; none is built yet, so that
// `thread_state.interpreter` is null and the door's test for it is all that this room costs.
#pragma once

#include "dispatch/operator.h"

namespace adjoint {

struct Interpreter {
  /// The transform below this one.
  Interpreter* outer = nullptr;
  virtual ~Interpreter() = default;
  virtual void call(const Operator& op, const Value* arguments, Results& results) = 0;
};

}  // namespace adjoint
