// The door of element-wise operators: promotion, broadcasting, loops, and the recorded node.
//
// One call goes: decide the type to compute in, the shape, run the loop, record. The path for tensors of one type and
// shape comes first and is short, since it is what nearly every call takes; `run_loop` handles everything else by
// bringing blocks of each operand into the type computed in. Start reading at `call_elementwise`.
#include "autograd/inplace.h"
#include "autograd/saved.h"
#include "dispatch/operator.h"
#include "kernels/copy.h"
#include "kernels/walk.h"
#include "runtime/allocator.h"
#include "transforms/interpreter.h"

namespace adjoint {

namespace {

// Elements per block of operands that need converting or gathering: inputs and result stay in the first-level cache.
constexpr int64_t kBlock = 512;
// Elements below which a second thread costs more than it brings.
constexpr int64_t kGrain = 16384;

/// One loop over broadcast, strided operands of any types.
struct LoopCall {
  Loop loop;
  const double* parameters;
  int operands = 0;                   // inputs, in loop order; null where the loop takes none
  const Tensor* inputs[5] = {};
  DType types[5] = {};                // the type the loop wants of each input
  DType out_type = DType::Float32;    // the type the loop writes
};

void run_loop(const LoopCall& call, const Tensor& out) {
  if (out.numel() == 0) return;
  Walk walk(out.sizes());
  walk.add(out);
  int slots[5];
  int n_inputs = 0;
  for (int k = 0; k < call.operands; ++k)
    if (call.inputs[k] && call.inputs[k]->defined()) {
      slots[n_inputs++] = k;
      walk.add(*call.inputs[k]);
    }
  walk.plan();
  const DType out_type = out.dtype();
  const int64_t out_item = itemsize(out_type);
  walk.run(kGrain, [&](char* const* p, const int64_t* strides, int64_t n) {
    const void* in[5] = {};
    // A block per operand that cannot be used where it lies.
    alignas(64) char blocks[6][kBlock * sizeof(Complex<double>)];
    bool direct_all = out_type == call.out_type && strides[0] == out_item;
    bool direct[5], constant[5];
    for (int k = 0; k < n_inputs; ++k) {
      const int s = slots[k];
      const DType have = call.inputs[s]->dtype();
      direct[k] = have == call.types[s] && strides[k + 1] == itemsize(have);
      constant[k] = strides[k + 1] == 0;
      direct_all &= direct[k];
      in[s] = p[k + 1];
    }
    if (direct_all) {
      call.loop(p[0], in, n, call.parameters);
      return;
    }
    const bool direct_out = out_type == call.out_type && strides[0] == out_item;
    for (int64_t at = 0; at < n; at += kBlock) {
      const int64_t m = std::min(kBlock, n - at);
      for (int k = 0; k < n_inputs; ++k) {
        const int s = slots[k];
        const DType have = call.inputs[s]->dtype(), want = call.types[s];
        const char* from = p[k + 1] + at * strides[k + 1];
        if (direct[k]) {
          in[s] = from;
        } else if (!constant[k] || at == 0) {
          convert_strided(blocks[k], want, itemsize(want), from, have, strides[k + 1], m);
          in[s] = blocks[k];
        }
      }
      char* to = p[0] + at * strides[0];
      if (direct_out) {
        call.loop(to, in, m, call.parameters);
      } else {
        call.loop(blocks[5], in, m, call.parameters);
        convert_strided(to, out_type, strides[0], blocks[5], call.out_type, itemsize(call.out_type), m);
      }
    }
  });
}

// Repeat one element over a block, so that a number can stand beside a small tensor.
void repeat(char* block, const char* element, int64_t item, int64_t n) {
  switch (item) {
    case 4: return void(std::fill_n(reinterpret_cast<uint32_t*>(block), n, *reinterpret_cast<const uint32_t*>(element)));
    case 8: return void(std::fill_n(reinterpret_cast<uint64_t*>(block), n, *reinterpret_cast<const uint64_t*>(element)));
    default:
      for (int64_t i = 0; i < n; ++i) std::memcpy(block + i * item, element, static_cast<size_t>(item));
  }
}

DType result_dtype(const ElementwiseInfo& op, DType type) {
  switch (op.result) {
    case ResultType::Bool: return DType::Bool;
    case ResultType::Real: return real_dtype(type);
    case ResultType::Complex: return complex_dtype(type);
    default: return type;
  }
}

[[noreturn, gnu::cold]] void refuse_type(const ElementwiseInfo& op, DType type) {
  fail(op.name, "(): not implemented for '", name_of(type), "'; convert the input first, for example with .to(float32)");
}

/// The name of input number i.
std::string input_name(const ElementwiseInfo& op, int i) {
  std::string_view names = op.inputs;
  for (; i > 0; --i) names.remove_prefix(names.find(',') + 2);
  return std::string(names.substr(0, names.find(',')));
}

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
    if (rank == 2 && d == DType::Float64) d = default_dtype();
    if (rank == 2 && d == DType::Complex128) d = complex_dtype(default_dtype());
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
  if (is_integral(type) && op.promotes_integers) type = default_dtype();
  return type;
}

template <int A, int S> class ElementwiseNode final : public Node {
 public:
  ElementwiseNode(const ElementwiseInfo& op, DType type, const double* parameters) : op_(&op), type_(type) {
    if (parameters && op.parameters) {
      parameters_ = std::make_unique<double[]>(op.parameters);
      for (int i = 0; i < op.parameters; ++i) parameters_[i] = parameters[i];
    }
  }
  std::string name() const override { return backward_name(op_->name); }
  std::span<Edge> edges() override { return {edges_, A}; }

  void apply(Gradients& in, Gradients& out) override {
    const Tensor& g = in[0];
    Lent<4> values;
    Tensor with_history[S > 0 ? S : 1];
    if constexpr (S > 0)
      for (int s = 0; s < S; ++s) {
        if (!saved_[s].saved()) continue;
        if (thread_state.grad) values[which_[s]] = (with_history[s] = saved_[s].unpack(this)).get();
        else values[which_[s]] = saved_[s].lend(this);
      }
    for (int i = 0; i < A; ++i) {
      if (!edges_[i]) continue;
      switch (op_->rules[i]) {
        case RuleKind::Zero: out[i] = zeros(g.sizes(), type_); break;
        case RuleKind::Missing: fail<NotImplemented>("the derivative of '", op_->name, "' with respect to input ", i, " is not implemented");
        case RuleKind::One: out[i] = g; break;
        default:
          out[i] = op_->rules[i] == RuleKind::MinusOne || thread_state.grad ? op_->recorded[i](g, values, static_cast<const Tensor*>(values)[3], parameters_.get())
                                                                           : fused(i, g, values);
      }
    }
  }

  void release() override {
    if constexpr (S > 0)
      for (auto& s : saved_) s.release();
    if (S > 0) released = true;
  }

  std::vector<SavedValue> saved() override {
    std::vector<SavedValue> v;
    if constexpr (S > 0)
      for (int s = 0; s < S; ++s)
        if (saved_[s].saved()) v.push_back({which_[s] == 3 ? "result" : input_name(*op_, which_[s]), saved_[s].unpack(this), ""});
    return v;
  }

  void save(int slot, int which, const Tensor& t) {
    if constexpr (S > 0) {
      which_[slot] = static_cast<uint8_t>(which);
      saved_[slot].save(t, which == 3);
    }
  }
  Edge edges_[A];

 private:
  Tensor fused(int i, const Tensor& g, const Tensor* values) {
    const int takes = op_->takes[i];
    const Loop loop = op_->loops.backward[i][loop_slot(type_)];
    const DType g_type = result_dtype(*op_, type_);
    // The shape: that of the gradient, since every input broadcasts to it.
    bool same_all = g.dtype() == g_type && g.is_contiguous() && compute_dtype(type_) == type_;
    const void* p[5] = {g.bytes()};
    alignas(64) char block[kBlock * sizeof(Complex<double>)];
    for (int k = 0; k < 4; ++k) {
      if (!(takes >> k & 1)) continue;
      const Tensor& v = values[k];
      const DType want = k == 3 ? g_type : k == op_->condition ? DType::Bool : type_;
      same_all = same_all && v.dtype() == want && v.is_contiguous();
      p[k + 1] = v.bytes();
      if (v.numel() != g.numel()) {
        // One number beside a small tensor is repeated over a block; there is one block.
        same_all = same_all && v.dim() == 0 && g.numel() <= kBlock && p[k + 1] != block;
        for (int other = 1; other <= k; ++other) same_all = same_all && p[other] != block;
        if (same_all) {
          repeat(block, v.bytes(), itemsize(want), g.numel());
          p[k + 1] = block;
        }
      }
    }
    if (same_all) {
      Tensor out = g.dim() == 0 ? empty_scalar(type_) : empty(g.sizes(), type_);
      if (g.numel() <= kGrain) loop(out.bytes(), p, g.numel(), parameters_.get());
      else runtime::parallel_for(0, g.numel(), kGrain, [&](int64_t b, int64_t e) {
        const void* q[5];
        for (int k = 0; k < 5; ++k) {
          const DType d = k == 0 || k == 4 ? g_type : k - 1 == op_->condition ? DType::Bool : type_;
          q[k] = p[k] ? static_cast<const char*>(p[k]) + b * itemsize(d) : nullptr;
        }
        loop(out.bytes() + b * itemsize(type_), q, e - b, parameters_.get());
      });
      return out;
    }
    const DType c = compute_dtype(type_);
    Tensor out = empty(g.sizes(), type_);
    LoopCall call{op_->loops.backward[i][loop_slot(c)], parameters_.get()};
    call.operands = 5;
    call.inputs[0] = &g;
    call.types[0] = result_dtype(*op_, c);
    for (int k = 0; k < 4; ++k) {
      if (!(takes >> k & 1)) continue;
      call.inputs[k + 1] = &values[k];
      call.types[k + 1] = k == 3 ? call.types[0] : k == op_->condition ? DType::Bool : c;
    }
    call.out_type = c;
    run_loop(call, out);
    return out;
  }

  const ElementwiseInfo* op_;
  std::unique_ptr<double[]> parameters_;
  SavedTensor saved_[S > 0 ? S : 1];
  uint8_t which_[S > 0 ? S : 1] = {};
  DType type_;
};

template <int A, int S>
void record_as(const ElementwiseInfo& op, const Tensor* in, const Tensor& out, const Tensor* original, DType type,
               const double* parameters, int takes) {
  auto* node = new ElementwiseNode<A, S>(op, type, parameters);
  Ref<Node> owner = Ref<Node>::steal(node);
  for (int i = 0; i < A; ++i)
    if (in[i].requires_grad()) node->edges_[i] = gradient_edge(in[i]);
  int slot = 0;
  for (int k = 0; k < A; ++k)
    if (takes >> k & 1) node->save(slot++, k, k == 0 && original ? *original : in[k]);
  if (takes & kResult) node->save(slot++, 3, out);
  node->info = ResultInfo(out);
  set_history(out, owner, 0);
}

void record(const ElementwiseInfo& op, const Tensor* in, const Tensor& out, const Tensor* original, DType type,
            const double* parameters) {
  int takes = 0;
  for (int i = 0; i < op.arity; ++i)
    if (in[i].requires_grad()) takes |= op.takes[i];
  static constexpr uint8_t kBits[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
  const int saves = kBits[takes & 15];
  auto as = [&]<int A>(std::integral_constant<int, A>) {
    switch (saves) {
      case 0: return record_as<A, 0>(op, in, out, original, type, parameters, takes);
      case 1: return record_as<A, 1>(op, in, out, original, type, parameters, takes);
      case 2: return record_as<A, 2>(op, in, out, original, type, parameters, takes);
      default: return record_as<A, 4>(op, in, out, original, type, parameters, takes);
    }
  };
  switch (op.arity) {
    case 1: return as(std::integral_constant<int, 1>{});
    case 2: return as(std::integral_constant<int, 2>{});
    default: return as(std::integral_constant<int, 3>{});
  }
}

bool any_requires_grad(const ElementwiseInfo& op, const Tensor* in) {
  bool any = false;
  for (int i = 0; i < op.arity; ++i) any |= in[i].requires_grad();
  return any;
}

/// Everything but the short path.
[[gnu::noinline]] Tensor general(const ElementwiseInfo& op, const Tensor* in, const double* parameters, const Tensor* out,
                                 bool inplace) {
  const DType type = promoted(op, in);
  if (!(op.types >> index_of(type) & 1)) refuse_type(op, type);
  if (op.condition >= 0 && in[op.condition].dtype() != DType::Bool)
    fail(op.name, "(): expected ", input_name(op, op.condition), " to be a boolean tensor, but got a tensor with dtype ",
         name_of(in[op.condition].dtype()));
  if (op.check) op.check(in, type);
  if (!out && op.identity >> index_of(type) & 1) return in[0];
  Dims shape(in[0].sizes());
  for (int i = 1; i < op.arity; ++i)
    if (!same(in[i].sizes(), IntList(shape.data(), shape.size()))) shape = broadcast_shapes({shape.data(), shape.size()}, in[i].sizes(), op.name);
  const IntList sizes(shape.data(), shape.size());
  const DType c = compute_dtype(type);
  const DType out_type = result_dtype(op, type);
  const bool tracked = thread_state.grad && op.result != ResultType::Bool && is_differentiable(type) && any_requires_grad(op, in);
  Tensor result, original;
  if (out) {
    if (!can_cast(out_type, out->dtype()))
      fail("result type ", name_of(out_type), " can't be cast to the desired output type ", name_of(out->dtype()), " in ", op.name,
           inplace ? "_()" : "(out=)");
    if (inplace) {
      if (!same(out->sizes(), sizes))
        fail(op.name, "_(): output with shape ", to_string(out->sizes()), " doesn't match the broadcast shape ", to_string(sizes));
      check_writable(*out, op.name, tracked);
      if (tracked) {
        bool needs = false;
        for (int i = 0; i < op.arity; ++i) needs |= in[i].requires_grad() && (op.takes[i] & kFirst);
        if (needs) original = copy_of(in[0]);
        if (needs && in[0].requires_grad()) {  // the copy stands for the input as it was
          original->flags |= TensorImpl::kRequiresGrad;
          if (in[0]->grad_fn) set_history(original, Ref<Node>::share(in[0]->grad_fn), in[0]->output_nr);
        }
      }
    } else {
      if (tracked || (thread_state.grad && out->requires_grad()))
        fail(op.name, "(): functions with out=... arguments don't support automatic differentiation, but one of the "
             "arguments requires grad.");
      check_writable(*out, op.name, false);
      if (!same(out->sizes(), sizes))
        fail(op.name, "(): out= has shape ", to_string(out->sizes()), " but the result has shape ", to_string(sizes),
             "; pass a tensor of that shape, or leave out= away");
    }
    result = *out;
  } else {
    result = empty(sizes, out_type);
  }
  LoopCall call{op.loops.forward[loop_slot(c)], parameters};
  call.operands = op.arity;
  for (int i = 0; i < op.arity; ++i) {
    call.inputs[i] = &in[i];
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
    copy_into(result, temporary);
  } else {
    run_loop(call, result);
  }
  if (out) wrote(result);
  if (tracked) record(op, in, result, original.defined() ? &original : nullptr, type, parameters);
  return result;
}

/// A small tensor and a number (or tensor without dimensions) of one type; null when the operands are others.
Tensor small_with_number(const ElementwiseInfo& op, const Tensor* in, const double* parameters, DType type) {
  const int number = in[1].dim() == 0 ? 1 : 0;
  const Tensor &x = in[1 - number], &c = in[number];
  const int64_t n = x.numel();
  if (c.dim() != 0 || n > kBlock || x.is_wrapped() || x.dtype() != type || c.dtype() != type || !x.is_contiguous()) return {};
  alignas(64) char block[kBlock * sizeof(Complex<double>)];
  repeat(block, c.bytes(), itemsize(type), n);
  const void* p[2];
  p[number] = block;
  p[1 - number] = x.bytes();
  const DType out_type = op.result == ResultType::Same ? type : result_dtype(op, type);
  Tensor result = empty(x.sizes(), out_type);
  op.loops.forward[loop_slot(type)](result.bytes(), p, n, parameters);
  if (thread_state.grad && (x.requires_grad() || c.requires_grad()) && op.result != ResultType::Bool && is_differentiable(type))
    record(op, in, result, nullptr, type, parameters);
  return result;
}

}  // namespace

Tensor call_elementwise(const ElementwiseInfo& op, const Tensor* in, const double* parameters, const Tensor* out, bool inplace) {
  if (thread_state.interpreter) [[unlikely]] fail<NotImplemented>(op.name, "(): transforms are not built yet");
  const Tensor& a = in[0];
  const DType type = a.dtype();
  const int slot = loop_slot(type);
  // The short path: one loop type, one shape, row-major.
  if (out || slot < 0 || !a.is_contiguous() || !(op.direct >> index_of(type) & 1)) [[unlikely]]
    return general(op, in, parameters, out, inplace);
  if (op.arity == 2 && (in[1].dim() == 0) != (a.dim() == 0)) {
    if (Tensor result = small_with_number(op, in, parameters, type); result.defined()) return result;
  }
  if (a.is_wrapped()) [[unlikely]] return general(op, in, parameters, out, inplace);
  const void* p[3] = {a.bytes()};
  bool tracked = a.requires_grad();
  for (int i = 1; i < op.arity; ++i) {
    const Tensor& b = in[i];
    if (b.dtype() != type || !b.is_contiguous() || !same(b.sizes(), a.sizes())) [[unlikely]]
      return general(op, in, parameters, out, inplace);
    p[i] = b.bytes();
    tracked |= b.requires_grad();
  }
  const DType out_type = op.result == ResultType::Same ? type : result_dtype(op, type);
  Tensor result = a.dim() == 0 ? empty_scalar(out_type) : empty(a.sizes(), out_type);
  const Loop loop = op.loops.forward[slot];
  const int64_t n = a.numel();
  if (n <= kGrain) {
    loop(result.bytes(), p, n, parameters);
  } else {
    const int64_t item = itemsize(type), out_item = itemsize(out_type);
    runtime::parallel_for(0, n, kGrain, [&](int64_t b, int64_t e) {
      const void* q[3];
      for (int k = 0; k < op.arity; ++k) q[k] = static_cast<const char*>(p[k]) + b * item;
      loop(result.bytes() + b * out_item, q, e - b, parameters);
    });
  }
  if (tracked && thread_state.grad && op.result != ResultType::Bool && is_differentiable(type))
    record(op, in, result, nullptr, type, parameters);
  return result;
}

}  // namespace adjoint
