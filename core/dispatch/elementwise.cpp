// The door of element-wise operators.
//
// One call goes: decide what it comes to (elementwise.h: `Resolved`), run the loop, record. The path for
// tensors of one type and shape, or one number beside them, comes first and is short, since it is what nearly
// every call takes; `general` does everything else. Start reading at `call_elementwise`.
#include <algorithm>

#include "autograd/arithmetic.h"
#include "autograd/views.h"
#include "dispatch/elementwise_node.h"
#include "dispatch/forms.h"
#include "kernels/copy.h"
#include "kernels/run_loop.h"
#include "kernels/slices.h"
#include "runtime/warning.h"
#include "tensor/access.h"
#include "transforms/batching.h"
#include "transforms/interpreter.h"
#include "transforms/sparse.h"
#include "transforms/transformed.h"

namespace adjoint {

namespace {

/// The shortest way, for what `resolve_straight` takes: no loop over operands is left in it. False for all
/// else.
template <int A>
[[gnu::always_inline]] inline bool call_straight(const ElementwiseInfo& op, const Tensor* in,
                                                 const double* parameters, Tensor& result) {
  Resolved r;
  const TensorImpl* const lead = resolve_straight<A>(op, in, r);
  if (!lead || may_be_transformed(r.flags)) [[unlikely]]
    return false;
  const int64_t n = lead->numel;
  result = lead->ndim == 0 ? empty_scalar(r.result_type) : empty(lead->sizes(), r.result_type);
  const Loop loop = op.loops.forward[loop_slot(r.type)];
  bool alike = n <= StraightCall::kSerial;
  const void* data[A];
  for (int i = 0; i < A; ++i) {
    if (i) alike &= in[i].numel() == in[0].numel();
    data[i] = in[i].bytes();
  }
  if (alike) {
    loop(result.bytes(), data, n, parameters);
  } else {
    StraightCall call{loop, parameters, itemsize(r.result_type)};
    for (int i = 0; i < A; ++i) call.add(i, in[i], n);
    call.run(result.bytes(), n);
  }
  if (r.tracked) record<A>(op, in, result, nullptr, r.type, parameters);
  return true;
}

/// Whether an input lies in the first one's storage otherwise than element by element.
bool shares_part(const ElementwiseInfo& op, const Tensor* in) {
  for (int i = 1; i < op.arity; ++i)
    if (in[i]->storage == in[0]->storage && !(in[i]->data == in[0]->data && in[i].dim() == in[0].dim()))
      return true;
  return false;
}

/// Likewise in place, where nothing is recorded.
bool write_straight(const ElementwiseInfo& op, const Tensor* in, const double* parameters,
                    const Tensor& out) {
  Resolved r;
  if (!resolve_straight(op, in, r) || may_be_transformed(r.flags) || r.tracked ||
      r.result_type != out.dtype() || r.sizes.data() != out.sizes().data() || shares_part(op, in))
      [[unlikely]]
    return false;
  StraightCall call{op.loops.forward[loop_slot(r.type)], parameters, itemsize(r.type)};
  for (int i = 0; i < op.arity; ++i) call.add(i, in[i], out.numel());
  check_writable(out, op.name, false);
  write(out, op.name, [&] { call.run(out.bytes(), out.numel()); });
  return true;
}

/// Compute, where an observer looks on and may have the result.
[[gnu::cold, gnu::noinline]] void compute_observed(const ElementwiseInfo& op, const Tensor* in,
                                                   const double* parameters, const LoopCall& call,
                                                   Tensor& result) {
  Results r;
  const bool was_supplied = [&] {
    NoInterpretation inner;
    return supplied(*op.row, boxed_call(op, in, parameters), r);
  }();
  if (was_supplied) {
    result = r.one;
    return;
  }
  run_loop(call, result);
  tell_computed(*op.row, {&result, 1});
}

/// Refuse to write what the call comes to into `out`.
void check_out(const ElementwiseInfo& op, const Resolved& r, const Tensor& out, bool inplace) {
  if (!inplace) {
    need_out_type(r.result_type, out.dtype(), op.name, op.row->out_converts);
  } else {
    if (!can_cast(r.result_type, out.dtype()))
      fail("result type ", type_name_of(r.result_type), " can't be cast to the desired output type ",
           type_name_of(out.dtype()), " in ", op.name, "_()");
    if (!same(out.sizes(), r.sizes))
      fail(op.name, "_(): output with shape ", to_string(out.sizes()), " doesn't match the broadcast shape ",
           to_string(r.sizes));
  }
  if (!inplace && (r.tracked || (thread_state.grad && out.requires_grad())))
    fail(op.name,
         "(): functions with out=... arguments don't support automatic differentiation, but one of the "
         "arguments requires grad.");
  check_writable(out, op.name, inplace && r.tracked);
}

/// Whether a loop that writes `out` would read what it has written: an input lies there otherwise than
/// element by element.
bool reads_own_result(const ElementwiseInfo& op, const Tensor* in, const Tensor& out) {
  return std::any_of(in, in + op.arity, [&](const Tensor& t) {
    return t->storage == out->storage && !(t->data == out->data && same(t.sizes(), out.sizes()) &&
                                           same(t.strides(), out.strides()) && t.dtype() == out.dtype());
  });
}

/// Everything but the short path.
[[gnu::noinline]] Tensor general(const ElementwiseInfo& op, const Tensor* in, const double* parameters,
                                 const Tensor* out, bool inplace, bool past_transforms = false) {
  unsigned flags = out ? (*out)->flags : 0;
  for (int i = 0; i < op.arity; ++i) flags |= in[i]->flags;
  const bool may_carry = may_be_transformed(flags);
  if (flags & TensorImpl::kElsewhere) [[unlikely]] {
    if (Tensor result; out && written_sparse(op, in, parameters, *out, inplace, result)) return result;
    if (const Device device = device_of_call(op, in, out); device != thread_state.device) {
      const DeviceScope scope(device);
      return general(op, in, parameters, out, inplace);
    }
  }
  if (Tensor result;
      may_carry && !out && !past_transforms && elementwise_transformed(op, in, parameters, result))
    return result;
  Dims shape;
  const Resolved r = resolve(op, in, inplace, shape);
  // As in torch, bytes still choose between two tensors; they are no mask for a write.
  Tensor of_bytes[kMostInputs];
  if (op.condition >= 0 && in[op.condition].dtype() == DType::UInt8) {
    runtime::warn(
        "where received a uint8 condition tensor. This behavior is deprecated; pass a boolean condition, "
        "such as condition.bool()");
    for (int i = 0; i < op.arity; ++i) of_bytes[i] = i == op.condition ? copy_of(in[i], DType::Bool) : in[i];
    in = of_bytes;
  }
  if (!out && op.identity >> index_of(r.type) & 1) return in[0];
  Tensor result;
  Before before;
  if (out) {
    if (!inplace && !same(out->sizes(), r.sizes)) {
      write_out(*out, general(op, in, parameters, nullptr, false), op.name, op.row->out_converts);
      return *out;
    }
    check_out(op, r, *out, inplace);
    if (may_carry && (is_transformed(*out) || std::any_of(in, in + op.arity, is_transformed))) [[unlikely]]
      return write_transformed(*out, elementwise_aside(op, in, parameters));
    result = *out;
    if (r.tracked) capture_before_write(op, in, before);
  } else if (r.flags & TensorImpl::kBatched) [[unlikely]] {
    result = compute_batched(op, in, parameters, r.type);
    if (r.tracked && result.get() != in[0].get()) record(op, in, result, nullptr, r.type, parameters);
    return result;
  } else {
    // What a mask fills is a copy that lies row by row, as in torch.
    result = op.condition > 0 && !r.sizes.empty()
                 ? empty(r.sizes, r.result_type)
                 : empty_along({in, static_cast<size_t>(op.arity)}, r.sizes, r.result_type);
  }
  const DType c = compute_dtype(r.type);
  LoopCall call{op.loops.forward[loop_slot(c)], parameters};
  call.operands = op.arity;
  Tensor rounded[kMostInputs];
  for (int i = 0; i < op.arity; ++i) {
    call.inputs[i] = &in[i];
    // A question is asked of elements: a number in it is one, so that a half tensor of 0.1 equals 0.1.
    if (c != r.type && op.result == ResultType::Bool && in[i].is_wrapped())
      call.inputs[i] = &(rounded[i] = copy_of(in[i], r.type));
    call.types[i] = i == op.condition ? DType::Bool : c;
  }
  call.out_type = result_dtype(op, c);
  if (out && reads_own_result(op, in, result)) {
    Tensor fresh = empty(r.sizes, r.result_type);
    run_loop(call, fresh);
    write(result, op.name, [&] { copy_into(result, fresh); });
  } else if (out) {
    write(result, op.name, [&] { run_loop(call, result); });
  } else if (!thread_state.watched) {
    run_loop(call, result);
  } else {
    compute_observed(op, in, parameters, call, result);
  }
  if (r.tracked) record(op, in, result, out ? &before : nullptr, r.type, parameters);
  return result;
}

/// The call as an interpreter makes its result, or else as always, with observers.
[[gnu::cold, gnu::noinline]] Tensor call_watched(const ElementwiseInfo& op, const Tensor* in,
                                                 const double* parameters, const Tensor* out, bool inplace) {
  if (thread_state.interpreter) {
    const CallForm form = inplace ? CallForm::InPlace : out ? CallForm::Out : CallForm::Function;
    const std::vector<Value> values = boxed_call(op, in, parameters);
    Results r;
    if (interpreted({*op.row, form, values, {out, size_t{form == CallForm::Out}}}, r))
      return out ? *out : r.one;
  }
  return general(op, in, parameters, out, inplace);
}

}  // namespace

void call_elementwise_plain(const Operator& row, const Value* v, Results& results) {
  Tensor in[kMostInputs];
  const ElementwiseInfo& op = given_inputs(*row.elementwise, v, in);
  double parameters[kMostParameters];
  for (int k = 0; k < op.parameters; ++k) parameters[k] = parameter_of(op, v, k);
  results.one = general(op, in, parameters, nullptr, false, true);
}

const ElementwiseInfo& given_inputs(const ElementwiseInfo& op, const Value* v, Tensor* in) {
  const ElementwiseInfo* which = &op;
  int n = 0;
  for (int i = 0; i < op.arity; ++i)
    if (v[i].present)
      in[n++] = *v[i].tensor;
    else
      which = op.without[i];
  if (n != which->arity)
    fail(op.name, "(): At least one of '", input_name(op, 1), "' or '", input_name(op, 2),
         "' must not be None");
  return *which;
}

Tensor call_elementwise(const ElementwiseInfo& op, const Tensor* in, const double* parameters,
                        const Tensor* out, bool inplace) {
  runtime::check_no_lock(op.name);
  if (thread_state.watched) [[unlikely]]
    return call_watched(op, in, parameters, out, inplace);
  if (out)
    return inplace && write_straight(op, in, parameters, *out) ? *out
                                                               : general(op, in, parameters, out, inplace);
  Tensor result;
  const bool done = op.arity == 2   ? call_straight<2>(op, in, parameters, result)
                    : op.arity == 1 ? call_straight<1>(op, in, parameters, result)
                                    : call_straight<3>(op, in, parameters, result);
  if (!done) [[unlikely]]
    result = general(op, in, parameters, nullptr, false);
  return result;
}

}  // namespace adjoint
