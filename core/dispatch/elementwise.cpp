// The door of element-wise operators: promotion, broadcasting, loops, and the recorded node.
//
// One call goes: decide the type to compute in, the shape, run the loop, record. The path for tensors of one type and
// shape, or one number beside them, comes first and is short, since it is what nearly every call takes; `general` does
// everything else. Start reading at `call_elementwise`.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "autograd/arithmetic.h"
#include "autograd/views.h"
#include "autograd/saved.h"
#include "dispatch/elementwise.h"
#include "kernels/copy.h"
#include "kernels/run_loop.h"
#include "kernels/slices.h"
#include "runtime/warning.h"
#include "ops/writing.h"
#include "tensor/access.h"
#include "transforms/batching.h"
#include "transforms/interpreter.h"
#include "transforms/transformed.h"

namespace adjoint {

DType result_dtype(const ElementwiseInfo& op, DType type) {
  switch (op.result) {
    case ResultType::Bool: return DType::Bool;
    case ResultType::Real: return real_dtype(type);
    case ResultType::Complex: return complex_dtype(type);
    default: return type;
  }
}

namespace {

[[noreturn, gnu::cold]] void refuse_type(const ElementwiseInfo& op, DType type) {
  if (type == DType::Bool)
    fail(op.name, "(): not supported on a bool tensor. If you are trying to invert a mask, use the `~` or `logical_not()` operator; "
         "otherwise convert it first, for example with .to(int64)");
  fail(op.name, "(): not implemented for '", name_of(type), "'; convert the input first, for example with .to(float32)");
}

/// The name of input number i.
std::string input_name(const ElementwiseInfo& op, int i) {
  std::string_view names = op.inputs;
  for (; i > 0; --i) names.remove_prefix(names.find(',') + 2);
  return std::string(names.substr(0, names.find_first_of(",=")));
}

/// What a node shows of its parameter number k: a number as Python writes it, or None where it was not given.
SavedValue saved_parameter(const ElementwiseInfo& op, DType type, int k, double value) {
  ParameterText parameter;
  int i = op.arity + k;
  each_parameter(op.row->order, [&](const ParameterText& p) {
    if (i-- == 0) parameter = p;
  });
  const double absent = op.absent ? op.absent(k, type) : 0;
  const bool given = parameter.value != "None" || (value != absent && (value == value || absent == absent));
  char digits[32];
  const std::string number(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  return {.name = std::string(parameter.name()), .text = !given ? "None" : std::isfinite(value) ? number : "float('" + number + "')"};
}

}  // namespace

/// The type of a call by torch's rules: categories first, bare numbers and zero-dimensional tensors weak.
DType promoted(const ElementwiseInfo& op, const Tensor* in) {
  if (op.keeps_type) return in[0].dtype();
  // Strongest type among tensors with dimensions, tensors without, bare numbers.
  DType best[3];
  bool any[3] = {};
  for (int i = 0; i < op.arity; ++i) {
    if (i == op.condition) continue;
    const Tensor& t = in[i];
    const int rank = t.is_wrapped() ? 2 : t.dim() == 0 ? 1 : 0;
    DType d = t.dtype();
    // Alone, a number is what it is: a rule may take one that was saved.
    if (rank == 2 && d == DType::Float64 && op.arity > 1) d = default_dtype();
    if (rank == 2 && d == DType::Complex128 && op.arity > 1) d = complex_dtype(default_dtype());
    best[rank] = any[rank] ? promote(best[rank], d) : d;
    any[rank] = true;
  }
  DType type = DType::Bool;
  bool have = false;
  for (int rank = 0; rank < 3; ++rank) {
    if (!any[rank]) continue;
    if (!have) type = best[rank];
    else if (category(best[rank]) > category(type))
      type = category(best[rank]) == Category::Complex ? (is_floating(type) ? complex_dtype(type) : best[rank])
                                                       : best[rank];
    have = true;
  }
  if (type == DType::Bool && op.promotes_bool) return DType::Int64;
  return is_integral(type) && op.promotes_integers ? default_dtype() : type;
}

namespace {

/// `fused_gradient` where operands have to be converted or broadcast.
[[gnu::noinline]] Tensor fused_general(const ElementwiseInfo& op, int i, DType type, const double* parameters, const Tensor& g, const Tensor* values) {
  const int takes = op.takes[i];
  unsigned flags = g->flags;
  for (int k = 0; k < 4; ++k)
    if (takes >> k & 1) flags |= values[k]->flags;
  // What carries a tangent or stands for a batch is no memory for a loop.
  if (flags & TensorImpl::kTransformed) [[unlikely]] return op.recorded[i](g, values, values[3], parameters);
  const DType c = compute_dtype(type);
  Tensor out = empty(g.sizes(), type);
  LoopCall call{op.loops.backward[i][loop_slot(c)], parameters};
  call.operands = 5;
  call.inputs[0] = &g;
  call.types[0] = result_dtype(op, c);
  for (int k = 0; k < 4; ++k) {
    if (!(takes >> k & 1)) continue;
    call.inputs[k + 1] = &values[k];
    call.types[k + 1] = k == 3 ? call.types[0] : k == op.condition ? DType::Bool : c;
  }
  call.out_type = c;
  run_loop(call, out);
  return out;
}

[[gnu::always_inline]] inline Tensor fused(const ElementwiseInfo& op, int i, DType type, const double* parameters, const Tensor& g, const Tensor* values) {
  const int takes = op.takes[i];
  const DType g_type = result_dtype(op, type);
  const int slot = loop_slot(type);
  if (slot < 0) return fused_general(op, i, type, parameters, g, values);
  unsigned flags = g->flags;
  // The shape: that of the gradient, since every input broadcasts to it.
  StraightCall call{op.loops.backward[i][slot], parameters, itemsize(type)};
  bool straight = g.dtype() == g_type && call.add(0, g, g.numel());
  for (int k = 0; k < 4 && straight; ++k) {
    if (!(takes >> k & 1)) continue;
    flags |= values[k]->flags;
    const DType want = k == 3 ? g_type : k == op.condition ? DType::Bool : type;
    straight = values[k].dtype() == want && call.add(k + 1, values[k], g.numel());
  }
  if (!straight || flags & TensorImpl::kTransformed) return fused_general(op, i, type, parameters, g, values);
  Tensor out = g.dim() == 0 ? empty_scalar(type) : empty(g.sizes(), type);
  call.run(out.bytes(), g.numel());
  return out;
}

template <int A, int S> class ElementwiseNode final : public Node {
 public:
  ElementwiseNode(const ElementwiseInfo& op, DType type, const double* parameters) : op_(&op) {
    info.computed = type;
    if (parameters && op.parameters) {
      parameters_ = std::make_unique<double[]>(op.parameters);
      for (int i = 0; i < op.parameters; ++i) parameters_[i] = parameters[i];
    }
    if constexpr (S > 0) saves_something();
  }
  std::string name() const override { return backward_name(op_->name); }
  std::span<Edge> edges() override { return {edges_, A}; }

  void apply(Gradients& in, Gradients& out) override {
    const Tensor& g = in[0];
    Borrowed<4> values;
    Tensor with_history[S > 0 ? S : 1];
    if constexpr (S > 0)
      for (int s = 0; s < S; ++s) {
        if (!saved_[s].saved()) continue;
        if (thread_state.grad || saved_[s].is_packed()) values[saved_[s].which] = (with_history[s] = saved_[s].unpack(this)).get();
        else values[saved_[s].which] = saved_[s].lend(this);
      }
    for (int i = 0; i < A; ++i) {
      if (!edges_[i]) continue;
      switch (op_->rules[i]) {
        case RuleKind::Zero: out[i] = zeros(g.sizes(), info.computed); break;
        case RuleKind::Missing: fail<NotImplemented>("the derivative of '", op_->name, "' with respect to input ", i, " is not implemented");
        case RuleKind::One: out[i] = g; break;
        default:
          // Where somebody interprets calls, the derivative is some.
          out[i] = op_->rules[i] == RuleKind::MinusOne || thread_state.grad || thread_state.interpreter ? op_->recorded[i](g, values, static_cast<const Tensor*>(values)[3], parameters_.get())
                                                                           : fused(*op_, i, info.computed, parameters_.get(), g, values);
      }
      // A rule that takes an input is not linear in it: its result can be differentiated by it, to 0 if need be.
      if (thread_state.grad && op_->rules[i] != RuleKind::One && op_->rules[i] != RuleKind::MinusOne) [[unlikely]] {
        const int takes = op_->takes[i];
        keep_history(out[i], {edges_, A}, op_->rules[i] == RuleKind::Zero ? uint64_t{1} << i : takes & kResult ? ~uint64_t{0} : static_cast<uint64_t>(takes));
      }
    }
  }

  void release() override {
    if constexpr (S > 0)
      for (auto& s : saved_) s.release();
  }

  std::vector<SavedValue> saved() override {
    std::vector<SavedValue> v;
    if constexpr (S > 0)
      for (int s = 0; s < S; ++s)
        if (saved_[s].saved()) v.push_back({.name = saved_[s].which == 3 ? "result" : input_name(*op_, saved_[s].which), .slot = &saved_[s]});
    // What this node had no need of, though its operator may have.
    for (int k = 0; k < A; ++k) {
      const std::string name = input_name(*op_, k);
      if (std::none_of(v.begin(), v.end(), [&](const SavedValue& x) { return x.name == name; })) v.push_back({.name = name, .text = "None"});
    }
    for (int k = 0; k < op_->parameters && parameters_; ++k) v.push_back(saved_parameter(*op_, info.computed, k, parameters_[k]));
    return v;
  }

  void save(int slot, int which, const Tensor& t) {
    if constexpr (S > 0) {
      saved_[slot].which = static_cast<uint8_t>(which);
      saved_[slot].save(t, which == 3, this);
    }
  }
  Edge edges_[A];

 private:
  const ElementwiseInfo* op_;
  std::unique_ptr<double[]> parameters_;
  SavedTensor saved_[S > 0 ? S : 1];
};

/// Inputs of a call that writes one of them, as they were before.
struct Before {
  Edge edges[3];
  Tensor kept[3];  // copies of those that lie in the memory written, where they are needed
};

template <int A, int S>
void record_as(const ElementwiseInfo& op, const Tensor* in, Tensor& out, Before* before, DType type, const double* parameters,
               int takes) {
  auto* node = new ElementwiseNode<A, S>(op, type, parameters);
  Ref<Node> owner = Ref<Node>::steal(node);
  for (int i = 0; i < A; ++i)
    if (before) [[unlikely]] node->edges_[i] = std::move(before->edges[i]);
    else if (in[i].requires_grad()) node->edges_[i] = gradient_edge(in[i]);
  int slot = 0;
  for (int k = 0; k < A; ++k)
    if (takes >> k & 1) node->save(slot++, k, before && before->kept[k].defined() ? before->kept[k] : in[k]);
  if (takes & kResult) node->save(slot++, 3, out);
  node->info.describe(out);
  if (before) [[unlikely]] write_history(out, std::move(owner), 0, 2);  // held by the program, and by `general`
  else set_history(out, std::move(owner), 0);
}

template <int A> void record_arity(const ElementwiseInfo& op, const Tensor* in, Tensor& out, Before* before, DType type,
                                  const double* parameters) {
  int takes = 0;
  for (int i = 0; i < A; ++i)
    if (before ? bool(before->edges[i]) : in[i].requires_grad()) takes |= op.takes[i];
  static constexpr uint8_t kBits[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
  switch (kBits[takes & 15]) {
    case 0: return record_as<A, 0>(op, in, out, before, type, parameters, takes);
    case 1: return record_as<A, 1>(op, in, out, before, type, parameters, takes);
    case 2: return record_as<A, 2>(op, in, out, before, type, parameters, takes);
    default: return record_as<A, 4>(op, in, out, before, type, parameters, takes);
  }
}

void record(const ElementwiseInfo& op, const Tensor* in, Tensor& out, Before* before, DType type, const double* parameters) {
  switch (op.arity) {
    case 1: return record_arity<1>(op, in, out, before, type, parameters);
    case 2: return record_arity<2>(op, in, out, before, type, parameters);
    default: return record_arity<3>(op, in, out, before, type, parameters);
  }
}

bool any_requires_grad(const ElementwiseInfo& op, const Tensor* in) {
  bool any = false;
  for (int i = 0; i < op.arity; ++i) any |= in[i].requires_grad();
  return any;
}

/// Whether an input lies in the first one's storage otherwise than element by element.
bool shares_part(const ElementwiseInfo& op, const Tensor* in) {
  for (int i = 1; i < op.arity; ++i)
    if (in[i]->storage == in[0]->storage && !(in[i]->data == in[0]->data && in[i].dim() == in[0].dim())) return true;
  return false;
}

/// The shortest way, for one or two inputs of one type that are row-major and of one shape, or a single number beside
/// it: no loop over operands is left in it. False where that is not what they are.
template <int A> [[gnu::always_inline]] inline bool call_shortest(const ElementwiseInfo& op, const Tensor* in, const double* parameters, Tensor& result) {
  const TensorImpl& a = *in[0].get();
  const TensorImpl& b = *in[A - 1].get();
  const int slot = loop_slot(a.dtype);
  if (slot < 0 || !(op.direct >> index_of(a.dtype) & 1) || a.dtype != b.dtype || op.condition >= 0) return false;
  if (!(a.flags & b.flags & TensorImpl::kContiguous) || (a.flags & b.flags & TensorImpl::kWrapped)) return false;
  if (may_be_transformed(a.flags | b.flags)) [[unlikely]] return false;
  const TensorImpl& lead = a.ndim ? a : b;
  if (A == 2 && a.ndim && b.ndim && !same(a.sizes(), b.sizes())) return false;
  const bool tracked = (a.flags | b.flags) & (TensorImpl::kRequiresGrad | TensorImpl::kView) && thread_state.grad && op.result != ResultType::Bool &&
                       is_differentiable(a.dtype) && (in[0].requires_grad() || in[A - 1].requires_grad());
  const DType type = a.dtype;
  const DType out_type = op.result == ResultType::Same ? type : result_dtype(op, type);
  const int64_t n = lead.numel;
  result = lead.ndim == 0 ? empty_scalar(out_type) : empty(lead.sizes(), out_type);
  if (a.numel == b.numel && n <= StraightCall::kSerial) {
    const void* data[] = {a.data, b.data};
    op.loops.forward[slot](result.bytes(), data, n, parameters);
  } else {
    StraightCall call{op.loops.forward[slot], parameters, itemsize(out_type)};
    for (int i = 0; i < A; ++i) call.add(i, in[i], n);
    call.run(result.bytes(), n);
  }
  if (tracked) record_arity<A>(op, in, result, nullptr, type, parameters);
  return true;
}

/// Before a write in place: edges, and copies of what rules need and the write destroys. A copy has the history of what
/// it stands for.
void capture_before_write(const ElementwiseInfo& op, const Tensor* in, Before& before) {
  int takes = 0;
  for (int i = 0; i < op.arity; ++i)
    if (in[i].requires_grad()) {
      before.edges[i] = i == 0 ? edge_before_write(in[0]) : gradient_edge(in[i]);
      takes |= op.takes[i];
    }
  for (int k = 0; k < op.arity; ++k) {
    if (!(takes >> k & 1) || in[k]->storage != in[0]->storage) continue;
    Tensor& copy = before.kept[k] = copy_of(in[k]);
    if (before.edges[k]) set_history(copy, Ref<Node>::share(before.edges[k].node.get()), before.edges[k].input_nr);
  }
}

/// Compute, where an observer looks on and may have the result.
[[gnu::cold, gnu::noinline]] void compute_observed(const ElementwiseInfo& op, const Tensor* in, const double* parameters, const LoopCall& call,
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

/// Everything but the short path.
[[gnu::noinline]] Tensor general(const ElementwiseInfo& op, const Tensor* in, const double* parameters, const Tensor* out,
                                 bool inplace) {
  unsigned flags = out ? (*out)->flags : 0;
  for (int i = 0; i < op.arity; ++i) flags |= in[i]->flags;
  const bool may_carry = may_be_transformed(flags);
  if (flags & TensorImpl::kElsewhere) [[unlikely]]
    if (const Device device = device_of_call(op, in, out); device != thread_state.device) {
      const DeviceScope scope(device);
      return general(op, in, parameters, out, inplace);
    }
  if (Tensor result; may_carry && !out && elementwise_transformed(op, in, parameters, result)) return result;
  const DType type = promoted(op, in);
  const bool batch = flags & TensorImpl::kBatched;
  if (op.check && !batch) op.check(in, type);
  if (!(op.types >> index_of(type) & 1)) refuse_type(op, type);
  // As in torch, bytes still choose between two tensors; they are no mask for a write.
  Tensor of_bytes[3];
  if (op.condition >= 0 && in[op.condition].dtype() == DType::UInt8 && !op.keeps_type) {
    runtime::warn("where received a uint8 condition tensor. This behavior is deprecated; pass a boolean condition, such as condition.bool()");
    for (int i = 0; i < op.arity; ++i) of_bytes[i] = i == op.condition ? copy_of(in[i], DType::Bool) : in[i];
    in = of_bytes;
  }
  if (op.condition >= 0 && in[op.condition].dtype() != DType::Bool)
    fail(op.name, "(): expected ", input_name(op, op.condition), " to be a boolean tensor, but got a tensor with dtype ",
         name_of(in[op.condition].dtype()));
  if (!out && op.identity >> index_of(type) & 1) return in[0];
  Dims shape(in[0].sizes());
  for (int i = 1; i < op.arity; ++i)
    if (!same(in[i].sizes(), IntList(shape.data(), shape.size()))) shape = broadcast_shapes({shape.data(), shape.size()}, in[i].sizes(), op.name);
  const IntList sizes(shape.data(), shape.size());
  const DType c = compute_dtype(type);
  const DType out_type = result_dtype(op, type);
  // An answer has no history, but written in place it takes away that of what it overwrites.
  const bool tracked = thread_state.grad && (op.result != ResultType::Bool || inplace) && is_differentiable(type) && any_requires_grad(op, in);
  Tensor result;
  Before before;
  if (out) {
    if (!can_cast(out_type, out->dtype()))
      fail("result type ", type_name_of(out_type), " can't be cast to the desired output type ", type_name_of(out->dtype()), " in ", op.name,
           inplace ? "_()" : "(out=)");
    if (inplace) {
      if (!same(out->sizes(), sizes))
        fail(op.name, "_(): output with shape ", to_string(out->sizes()), " doesn't match the broadcast shape ", to_string(sizes));
      check_writable(*out, op.name, tracked);
    } else {
      if (tracked || (thread_state.grad && out->requires_grad()))
        fail(op.name, "(): functions with out=... arguments don't support automatic differentiation, but one of the "
             "arguments requires grad.");
      check_writable(*out, op.name, false);
      if (!same(out->sizes(), sizes))
        fail(op.name, "(): out= has shape ", to_string(out->sizes()), " but the result has shape ", to_string(sizes),
             "; pass a tensor of that shape, or leave out= away");
    }
    if (may_carry && (is_transformed(*out) || std::any_of(in, in + op.arity, is_transformed))) [[unlikely]]
      return write_transformed(*out, elementwise_aside(op, in, parameters));
    result = *out;
    if (tracked) capture_before_write(op, in, before);
  } else if (batch) [[unlikely]] {
    result = compute_batched(op, in, parameters, type);
    if (tracked && result.get() != in[0].get()) record(op, in, result, nullptr, type, parameters);
    return result;
  } else {
    // What a mask fills is a copy that lies row by row, as in torch.
    result = op.condition > 0 && !sizes.empty() ? empty(sizes, out_type) : empty_along({in, static_cast<size_t>(op.arity)}, sizes, out_type);
  }
  LoopCall call{op.loops.forward[loop_slot(c)], parameters};
  call.operands = op.arity;
  Tensor rounded[3];
  for (int i = 0; i < op.arity; ++i) {
    call.inputs[i] = &in[i];
    // A question is asked of elements: a number in it is one, so that a half tensor of 0.1 equals 0.1.
    if (c != type && op.result == ResultType::Bool && in[i].is_wrapped()) call.inputs[i] = &(rounded[i] = copy_of(in[i], type));
    call.types[i] = i == op.condition ? DType::Bool : c;
  }
  call.out_type = result_dtype(op, c);
  // A result that overlaps an input otherwise than element by element goes through a fresh one.
  bool fresh = false;
  if (out)
    for (int i = 0; i < op.arity; ++i)
      fresh |= in[i]->storage == result->storage &&
               !(in[i]->data == result->data && same(in[i].sizes(), sizes) && same(in[i].strides(), result.strides()) &&
                 in[i].dtype() == result.dtype());
  if (fresh) {
    Tensor temporary = empty(sizes, out_type);
    run_loop(call, temporary);
    write(result, op.name, [&] { copy_into(result, temporary); });
  } else if (out) {
    write(result, op.name, [&] { run_loop(call, result); });
  } else if (!thread_state.watched) {
    run_loop(call, result);
  } else {
    compute_observed(op, in, parameters, call, result);
  }
  if (tracked) record(op, in, result, out ? &before : nullptr, type, parameters);
  return result;
}

/// The call as an interpreter makes its result, or else as always, with observers.
[[gnu::cold, gnu::noinline]] Tensor call_watched(const ElementwiseInfo& op, const Tensor* in, const double* parameters, const Tensor* out, bool inplace) {
  if (thread_state.interpreter) {
    const CallForm form = inplace ? CallForm::InPlace : out ? CallForm::Out : CallForm::Function;
    const std::vector<Value> values = boxed_call(op, in, parameters);
    Results r;
    if (interpreted({*op.row, form, values, {out, size_t{form == CallForm::Out}}}, r)) return out ? *out : r.one;
  }
  return general(op, in, parameters, out, inplace);
}

}  // namespace

Tensor fused_gradient(const ElementwiseInfo& op, int i, DType type, const double* parameters, const Tensor& g, const Tensor* values) {
  return fused(op, i, type, parameters, g, values);
}

const ElementwiseInfo& given_inputs(const ElementwiseInfo& op, const Value* v, Tensor* in) {
  const ElementwiseInfo* which = &op;
  int n = 0;
  for (int i = 0; i < op.arity; ++i)
    if (v[i].present) in[n++] = *v[i].tensor;
    else which = op.without[i];
  if (n != which->arity) fail(op.name, "(): At least one of '", input_name(op, 1), "' or '", input_name(op, 2), "' must not be None");
  return *which;
}

Tensor call_elementwise(const ElementwiseInfo& op, const Tensor* in, const double* parameters, const Tensor* out, bool inplace) {
  runtime::check_no_lock(op.name);
  if (thread_state.watched) [[unlikely]] return call_watched(op, in, parameters, out, inplace);
  if (!out && op.arity <= 2) {
    Tensor result;
    if (op.arity == 2 ? call_shortest<2>(op, in, parameters, result) : call_shortest<1>(op, in, parameters, result)) return result;
  }
  // The short path: one loop type, one shape, row-major; or single numbers beside that shape.
  const DType type = in[op.condition == 0 ? 1 : 0].dtype();
  const int slot = loop_slot(type);
  if (slot < 0 || !(op.direct >> index_of(type) & 1)) [[unlikely]]
    return general(op, in, parameters, out, inplace);
  int lead = 0;
  bool tracked = false, weak = true;
  for (int i = 0; i < op.arity; ++i) {
    const Tensor& t = in[i];
    if (t.dtype() != (i == op.condition ? DType::Bool : type) || !t.is_contiguous() || may_be_transformed(t->flags)) [[unlikely]]
      return general(op, in, parameters, out, inplace);
    if (t.dim() != 0 && i != lead) {
      if (in[lead].dim() == 0) lead = i;
      else if (!same(t.sizes(), in[lead].sizes())) [[unlikely]]
        return general(op, in, parameters, out, inplace);
    }
    tracked |= t.requires_grad();
    weak &= t.is_wrapped() || i == op.condition;
  }
  if (weak) [[unlikely]]
    return general(op, in, parameters, out, inplace);
  tracked = tracked && thread_state.grad && op.result != ResultType::Bool && is_differentiable(type);
  const DType out_type = op.result == ResultType::Same ? type : result_dtype(op, type);
  if (out && (tracked || !inplace || lead != 0 || out_type != type || shares_part(op, in))) [[unlikely]]
    return general(op, in, parameters, out, inplace);
  const int64_t n = in[lead].numel();
  StraightCall call{op.loops.forward[slot], parameters, itemsize(out_type)};
  for (int i = 0; i < op.arity; ++i) call.add(i, in[i], n);
  if (out) {
    check_writable(*out, op.name, false);
    write(*out, op.name, [&] { call.run(out->bytes(), n); });
    return *out;
  }
  Tensor result = in[lead].dim() == 0 ? empty_scalar(out_type) : empty(in[lead].sizes(), out_type);
  call.run(result.bytes(), n);
  if (tracked) record(op, in, result, nullptr, type, parameters);
  return result;
}

}  // namespace adjoint
