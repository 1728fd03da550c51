// A step of a trace that is computed as the door computes it.
#pragma once

#include "dispatch/forms.h"
#include "replay/trace.h"
#include "runtime/function_ref.h"

namespace adjoint {
class DeclaredOperator;
}

namespace adjoint::replay {

inline bool lies_as(const Tensor& t, const Geometry& g) {
  return t.dtype() == g.dtype && same(t.sizes(), g.sizes.span()) && same(t.strides(), g.strides.span());
}

/// What a step is called with; `make` gives the tensor at a place.
struct RowArguments {
  std::vector<Value> values;
  std::vector<Tensor> tensors;  // what `values` point to
  std::vector<Tensor> out;

  RowArguments() = default;
  RowArguments(const Trace& trace, const Step& step, runtime::FunctionRef<Tensor(const Place&)> make) {
    assign(trace, step, make);
  }
  void assign(const Trace& trace, const Step& step, runtime::FunctionRef<Tensor(const Place&)> make);
  RowArguments(RowArguments&&) = default;
  RowArguments& operator=(RowArguments&&) = default;
};

/// Past the door. A result of what writes is none.
void compute_row(const Operator& op, CallForm form, const RowArguments& arguments, Results& results);
/// Of a row that a program declared, whose function may keep what it is given: on copies. False, with nothing
/// changed, where it did or may do more than its code said when it was recorded.
bool compute_row_of_program(const DeclaredOperator& op, CallForm form, const RowArguments& arguments,
                            Results& results);

}  // namespace adjoint::replay
