// What the files of the element-wise door share.
//
//     resolve.cpp              what a call comes to: types, shape, whether it is recorded
//     elementwise.cpp          the door: calls, and the loops that they run
//     elementwise_node.cpp     what is recorded of a call, and derivatives
//     elementwise_tangent.cpp  its tangents
//
// Everything that does a call, or follows it, reads a `Resolved` and decides none of these again.
// `resolve_straight` is the quick half of the decision, for inputs that loops take as they are; `resolve` is
// the whole. Start reading there.
#pragma once

#include "dispatch/operator.h"
#include "state.h"

namespace adjoint {

/// The type of the result, given that computed in.
inline DType result_dtype(const ElementwiseInfo& op, DType type) {
  switch (op.result) {
    case ResultType::Bool:
      return DType::Bool;
    case ResultType::Real:
      return real_dtype(type);
    case ResultType::Complex:
      return complex_dtype(type);
    default:
      return type;
  }
}
/// The type of a call by torch's rules: categories first, bare numbers and zero-dimensional tensors weak.
DType promoted(const ElementwiseInfo& op, const Tensor* in);

/// A boxed call: the inputs that were given, side by side, and the operator that takes just these.
struct Unboxed {
  Tensor in[kMostInputs + 1];  // with room for the result
  double parameters[kMostParameters];
  const ElementwiseInfo& op;
  Unboxed(const Operator& row, const Value* v) : op(given(*row.elementwise, v)) {}

 private:
  const ElementwiseInfo& given(const ElementwiseInfo& whole, const Value* v);
};

/// What a call comes to.
struct Resolved {
  /// What it means, by promotion, and of what type its result is. The loop's type is compute_dtype(type).
  DType type, result_type;
  /// Whether it is recorded.
  bool tracked;
  /// The flags of all inputs.
  unsigned flags;
  /// The shape of the result: of an input, or of the memory given to `resolve`.
  IntList sizes;
};

/// Decide a call, and refuse types and shapes that do not fit. `inplace`: the result takes the place of the
/// first input.
Resolved resolve(const ElementwiseInfo& op, const Tensor* in, bool inplace, Dims& shape);

/// Decide a call whose A inputs are of one type, row-major and of one shape, or single numbers beside it:
/// nothing has to be converted, and nothing looked at twice. The input that has the shape of the result,
/// which is left out of `r`; null where they are not so.
template <int A>
[[gnu::always_inline]] inline const TensorImpl* resolve_straight(const ElementwiseInfo& op, const Tensor* in,
                                                                 Resolved& r) {
  const TensorImpl* lead = in[0].get();
  const DType type = A == 3 && op.condition == 0 ? in[1].dtype() : lead->dtype;
  if (loop_slot(type) < 0 || !(op.direct >> index_of(type) & 1)) return nullptr;
  unsigned any = 0, all = ~0u;
  for (int i = 0; i < A; ++i) {
    const TensorImpl& t = *in[i].get();
    const bool condition = A == 3 && i == op.condition;
    if ((i || A == 3) && t.dtype != (condition ? DType::Bool : type)) return nullptr;
    any |= t.flags;
    all &= condition ? t.flags | TensorImpl::kWrapped : t.flags;
  }
  if ((all & (TensorImpl::kContiguous | TensorImpl::kWrapped)) != TensorImpl::kContiguous) return nullptr;
  for (int i = 1; i < A; ++i) {
    const TensorImpl* t = in[i].get();
    if (!t->ndim) continue;
    if (!lead->ndim)
      lead = t;
    else if (!same(t->sizes(), lead->sizes()))
      return nullptr;
  }
  r.type = type;
  r.result_type = op.result == ResultType::Same ? type : result_dtype(op, type);
  r.flags = any;
  r.tracked =
      any & (TensorImpl::kRequiresGrad | TensorImpl::kView) && thread_state.grad &&
      op.result != ResultType::Bool && is_differentiable(type) &&
      (in[0].requires_grad() || (A > 1 && in[1].requires_grad()) || (A > 2 && in[A - 1].requires_grad()));
  return lead;
}
/// For any number of inputs, and with the shape.
bool resolve_straight(const ElementwiseInfo& op, const Tensor* in, Resolved& r);

/// The name of input number i.
std::string input_name(const ElementwiseInfo& op, int i);
/// The gradient of input i, not recorded: one loop over `g`, the inputs and (number 3) the result.
Tensor fused_gradient(const ElementwiseInfo& op, int i, DType type, const double* parameters, const Tensor& g,
                      const Tensor* values);
/// The result of a call that the first input is then written with: rules keep that as it was.
void call_aside(const Call& call, Results& results);

}  // namespace adjoint
