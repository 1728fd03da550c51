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
#include "transforms/batching.h"
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
  run_straight<A>(op.loops.forward[loop_slot(r.type)], parameters, result, itemsize(r.result_type), in, n);
  if (r.tracked) record<A>(op, in, result, nullptr, r.type, parameters);
  return true;
}

/// Whether an input lies in the first one's memory otherwise than element by element.
bool shares_part(const ElementwiseInfo& op, const Tensor* in) {
  for (int i = 1; i < op.arity; ++i)
    if (may_share_memory(in[i], in[0]) && !(in[i]->data == in[0]->data && in[i].dim() == in[0].dim()))
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
  write(out, op.name, [&] { call.run(out); });
  return true;
}

/// A call with its arguments boxed, for who sees calls whole.
class Boxed {
 public:
  Boxed(const ElementwiseInfo& op, const Tensor* in, const double* parameters, const Tensor* out,
        bool inplace)
      : call{*op.row,
             inplace ? CallForm::InPlace
             : out   ? CallForm::Out
                     : CallForm::Function,
             {values_, static_cast<size_t>(op.arity + op.parameters)},
             {out, size_t{out && !inplace}}} {
    for (int i = 0; i < op.arity; ++i) {
      values_[i].present = true;
      values_[i].tensor = &in[i];
    }
    for (int k = 0; k < op.parameters; ++k) {
      values_[op.arity + k].present = true;
      values_[op.arity + k].d = parameters[k];
    }
  }
  Boxed(const Boxed&) = delete;

 private:
  Value values_[kMostInputs + kMostParameters];

 public:
  const Call call;
};

/// Refuse to write what the call comes to into `out`.
void check_out(const ElementwiseInfo& op, const Resolved& r, const Tensor& out, bool inplace) {
  if (!inplace) {
    need_out_type(r.result_type, out.dtype(), op.name, op.row->out_converts);
  } else {
    need_castable(r.result_type, out.dtype(), op.name);
    if (!same(out.sizes(), r.sizes))
      fail(op.name, "_(): output with shape ", out.sizes(), " doesn't match the broadcast shape ",
           to_string(r.sizes));
  }
  if (!inplace && (r.tracked || (thread_state.grad && out.requires_grad()))) refuse_recorded_out(op.name);
  check_writable(out, op.name, inplace && r.tracked);
}

/// Whether a loop that writes `out` would read what it has written: an input lies there otherwise than
/// element by element.
bool reads_own_result(const ElementwiseInfo& op, const Tensor* in, const Tensor& out) {
  return std::any_of(in, in + op.arity, [&](const Tensor& t) {
    return may_share_memory(t, out) && !(t->data == out->data && same(t.sizes(), out.sizes()) &&
                                         same(t.strides(), out.strides()) && t.dtype() == out.dtype());
  });
}

/// Everything but the short path.
[[gnu::hot, gnu::noinline]] Tensor general(const ElementwiseInfo& op, const Tensor* in,
                                           const double* parameters, const Tensor* out, bool inplace,
                                           bool past_transforms = false) {
  unsigned flags = out ? (*out)->flags : 0;
  for (int i = 0; i < op.arity; ++i) flags |= in[i]->flags;
  const bool may_carry = may_be_transformed(flags);
  if (thread_state.watched || may_carry) [[unlikely]] {
    const Boxed boxed(op, in, parameters, out, inplace);
    if (Results r; before(boxed.call, flags, past_transforms, r)) return out ? *out : std::move(r.one);
  }
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
  Before before_write;
  if (out) {
    if (!inplace && !same(out->sizes(), r.sizes)) {
      write_out(*out, general(op, in, parameters, nullptr, false), op.name, op.row->out_converts);
      return *out;
    }
    check_out(op, r, *out, inplace);
    if (may_carry && (is_transformed(*out) || std::any_of(in, in + op.arity, is_transformed))) [[unlikely]] {
      Results aside;
      call_aside(Boxed(op, in, parameters, out, inplace).call, aside);
      return write_transformed(*out, aside.one);
    }
    result = *out;
    if (r.tracked) capture_before_write(op, in, before_write);
  } else if (stands_for_batch(r.flags)) [[unlikely]] {
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
  LoopCall call{op.loops.forward[loop_slot(c)], parameters, op.parameters};
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
  const auto compute = [&] {
    if (!out) {
      run_loop(call, result);
    } else if (reads_own_result(op, in, result)) {
      Tensor fresh = empty(r.sizes, r.result_type);
      run_loop(call, fresh);
      write(result, op.name, [&] { copy_into(result, fresh); });
    } else {
      write(result, op.name, [&] { run_loop(call, result); });
    }
  };
  if (thread_state.watched) [[unlikely]] {
    const Boxed boxed(op, in, parameters, out, inplace);
    if (Results other; !compute_observed(boxed.call, other, compute))
      result = other.one;
    else
      tell_computed(boxed.call, {&result, 1});
  } else {
    compute();
  }
  if (r.tracked) record(op, in, result, out ? &before_write : nullptr, r.type, parameters);
  return result;
}

}  // namespace

void call_aside(const Call& call, Results& results) {
  std::vector<Value> values(call.arguments.begin(), call.arguments.end());
  Tensor kept[kMostInputs];
  const Tensor& written = *values[0].tensor;
  for (uint32_t mask = call.op.tensors; mask && thread_state.grad; mask &= mask - 1) {
    const int i = std::countr_zero(mask);
    if (values[i].present && may_share_memory(*values[i].tensor, written))
      values[i].tensor = &(kept[i] = owned(*values[i].tensor));
  }
  call.op.boxed(values.data(), results);
}

[[gnu::hot]] const ElementwiseInfo& Unboxed::given(const ElementwiseInfo& whole, const Value* v) {
  const ElementwiseInfo* which = &whole;
  int n = 0;
  for (int i = 0; i < whole.arity; ++i)
    if (v[i].present)
      in[n++] = *v[i].tensor;
    else
      which = whole.without[i];
  if (n != which->arity)
    fail(whole.name, "(): At least one of '", input_name(whole, 1), "' or '", input_name(whole, 2),
         "' must not be None");
  for (int k = 0; k < whole.parameters; ++k) {
    const Value& given = v[whole.arity + k];
    parameters[k] = given.present ? given.d : whole.absent(k, v[0].tensor->dtype());
  }
  return *which;
}

void call_elementwise_boxed(const Operator& row, const Value* v, Results& results) {
  const Unboxed c(row, v);
  results.one = call_elementwise(c.op, c.in, c.parameters);
}
void call_elementwise_plain(const Operator& row, const Value* v, Results& results) {
  const Unboxed c(row, v);
  results.one = general(c.op, c.in, c.parameters, nullptr, false, true);
}

[[gnu::hot]] Tensor call_elementwise(const ElementwiseInfo& op, const Tensor* in, const double* parameters,
                                     const Tensor* out, bool inplace) {
  runtime::check_no_lock(op.name);
  if (out)
    return inplace && !thread_state.watched && write_straight(op, in, parameters, *out)
               ? *out
               : general(op, in, parameters, out, inplace);
  Tensor result;
  const bool done = thread_state.watched ? false
                    : op.arity == 2      ? call_straight<2>(op, in, parameters, result)
                    : op.arity == 1      ? call_straight<1>(op, in, parameters, result)
                                         : call_straight<3>(op, in, parameters, result);
  if (!done) [[unlikely]]
    result = general(op, in, parameters, nullptr, false);
  return result;
}

}  // namespace adjoint
