// The node of element-wise operators, and the derivative as one fused loop.
#include "dispatch/elementwise_node.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "autograd/arithmetic.h"
#include "autograd/saved.h"
#include "autograd/views.h"
#include "kernels/copy.h"
#include "kernels/run_loop.h"
#include "transforms/interpreter.h"
#include "transforms/transformed.h"

namespace adjoint {

namespace {

/// As few digits as give the number again. std::to_chars would do it with 130 KB of tables.
std::string shortest(double value) {
  char digits[32];
  int length = 0;
  for (int precision = 15; precision <= 17; ++precision) {
    length = std::snprintf(digits, sizeof digits, "%.*g", precision, value);
    if (std::strtod(digits, nullptr) == value) break;
  }
  std::replace(digits, digits + length, ',', '.');  // where the program has set a locale
  return {digits, static_cast<size_t>(length)};
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
  const std::string number = shortest(value);
  return {.name = std::string(parameter.name()),
          .text = !given                 ? "None"
                  : std::isfinite(value) ? number
                                         : "float('" + number + "')"};
}

/// `fused_gradient` where operands have to be converted or broadcast.
[[gnu::noinline]] Tensor fused_general(const ElementwiseInfo& op, int i, DType type, const double* parameters,
                                       const Tensor& g, const Tensor* values) {
  const int takes = op.takes[i];
  // What carries a tangent, stands for a batch or is sparse is no memory for a loop.
  bool fits = !is_transformed(g);
  for (int k = 0; k < 4; ++k)
    if (takes >> k & 1) fits &= !is_transformed(values[k]);
  if (!fits) [[unlikely]]
    return op.recorded[i](g, values, values[3], parameters);
  const DType c = compute_dtype(type);
  Tensor out = empty(g.sizes(), type);
  LoopCall call{op.loops.backward[i][loop_slot(c)], parameters, op.parameters};
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

/// See `straight_gradient`. `flags` gets those of the operands.
[[gnu::always_inline]] inline bool straight(const ElementwiseInfo& op, int i, DType type,
                                            const double* parameters, const Tensor& g, const Tensor* values,
                                            StraightCall& call, unsigned& flags) {
  const int takes = op.takes[i];
  const DType g_type = result_dtype(op, type);
  const int slot = loop_slot(type);
  if (slot < 0) return false;
  // The shape: that of the gradient, since every input broadcasts to it.
  call = {op.loops.backward[i][slot], parameters, itemsize(type)};
  bool straight = g.dtype() == g_type && call.add(0, g, g.numel());
  for (int k = 0; k < 4 && straight; ++k) {
    if (!(takes >> k & 1)) continue;
    flags |= values[k]->flags;
    const DType want = k == 3 ? g_type : k == op.condition ? DType::Bool : type;
    straight = values[k].dtype() == want && call.add(k + 1, values[k], g.numel());
  }
  return straight;
}

[[gnu::always_inline]] inline Tensor fused(const ElementwiseInfo& op, int i, DType type,
                                           const double* parameters, const Tensor& g, const Tensor* values) {
  unsigned flags = g->flags;
  StraightCall call;
  if (!straight(op, i, type, parameters, g, values, call, flags) || flags & TensorImpl::kTransformed)
    return fused_general(op, i, type, parameters, g, values);
  Tensor out = g.dim() == 0 ? empty_scalar(type) : empty(g.sizes(), type);
  call.run(out);
  return out;
}

/// A derivative as a row of its own, for who sees what is computed: `sin.backward` takes the gradient, what
/// the derivative takes of the call (the inputs and the result, else nothing), its parameters, and the type
/// that it is computed in.
struct DerivativeRow : Operator {
  const ElementwiseInfo& of;
  const int input;
  const std::string text, arguments;

  DerivativeRow(const ElementwiseInfo& op, int i)
      : Operator{}, of(op), input(i), text(name_of(op, i)), arguments(arguments_of(op)) {
    name = text.c_str();
    order = arguments.c_str();
    signature = arguments;
    doc = orders = old_orders = family = module = returns = aliases = python = overloads = "";
    kinds.assign(1, &kind_of<Tensor>);
    kinds.insert(kinds.end(), static_cast<size_t>(op.arity) + 1, &kind_of<OptionalTensor>);
    kinds.insert(kinds.end(), static_cast<size_t>(op.parameters), &kind_of<double>);
    kinds.push_back(&kind_of<DType>);
    tensors = (2u << (op.arity + 1)) - 1;
    constant = true;
    door = [](const Operator& row, const Value* v, Results& r) { pass_door(row, v, r); };
    compute = &run;
  }
  static void run(const Operator& row, const Value* v, Results& r) {
    const auto& self = static_cast<const DerivativeRow&>(row);
    const int arity = self.of.arity;
    Tensor values[4];
    double parameters[kMostParameters];
    for (int k = 0; k < arity; ++k)
      if (v[1 + k].present) values[k] = *v[1 + k].tensor;
    if (v[1 + arity].present) values[3] = *v[1 + arity].tensor;
    for (int k = 0; k < self.of.parameters; ++k) parameters[k] = v[2 + arity + k].d;
    r.one =
        fused(self.of, self.input, v[2 + arity + self.of.parameters].type, parameters, *v[0].tensor, values);
  }

  /// The row of the derivative by input i; made when somebody first looks on.
  static const Operator& row_of(const ElementwiseInfo& op, int i) {
    static std::mutex mutex;
    static auto& rows = *new std::map<std::pair<const ElementwiseInfo*, int>, std::unique_ptr<DerivativeRow>>;
    const std::lock_guard lock(mutex);
    auto& row = rows[{&op, i}];
    if (!row) row = std::make_unique<DerivativeRow>(op, i);
    return *row;
  }

 private:
  static std::string name_of(const ElementwiseInfo& op, int i) {
    return std::string(op.name) + ".backward" + (op.arity > 1 ? "." + input_name(op, i) : "");
  }
  static std::string arguments_of(const ElementwiseInfo& op) {
    std::string all = "grad";
    for (int k = 0; k < op.arity; ++k) all += ", " + input_name(op, k);
    all += ", result";
    int k = op.arity;
    each_parameter(op.row->order, [&](const ParameterText& p) {
      if (k-- <= 0) all += ", " + std::string(p.name());
    });
    return all + ", dtype";
  }
};

/// A derivative where somebody looks on. Interpreters get operators, as under `create_graph`; observers see
/// its row, computed by the one loop.
[[gnu::cold, gnu::noinline]] Tensor seen_gradient(const ElementwiseInfo& op, int i, DType type,
                                                  const double* parameters, const Tensor& g,
                                                  const Tensor* values) {
  if (thread_state.grad || thread_state.interpreter) return op.recorded[i](g, values, values[3], parameters);
  bool carries = is_transformed(g);
  Value v[kMostArguments];
  const auto give = [](Value& to, const Tensor& t) { argument_t<Tensor>::box(t, to); };
  give(v[0], g);
  for (int k = 0; k < 4; ++k) {
    if (!(op.takes[i] >> k & 1)) continue;
    carries |= is_transformed(values[k]);
    give(v[1 + std::min(k, op.arity)], values[k]);
  }
  // Asked of what it carries now: a flag may stay from a level that was left.
  if (carries) return op.recorded[i](g, values, values[3], parameters);
  for (int k = 0; k < op.parameters; ++k) argument_t<double>::box(parameters[k], v[2 + op.arity + k]);
  argument_t<DType>::box(type, v[2 + op.arity + op.parameters]);
  Results r;
  DerivativeRow::row_of(op, i).boxed(v, r);
  return r.one;
}

template <int A, int S>
class ElementwiseNode final : public Node {
 public:
  ElementwiseNode(const ElementwiseInfo& op, DType type, const double* parameters) : op_(&op) {
    info.computed = type;
    if (parameters && op.parameters) {
      parameters_ = std::make_unique<double[]>(op.parameters);
      for (int i = 0; i < op.parameters; ++i) parameters_[i] = parameters[i];
    }
    if constexpr (S > 0) saves_something();
  }
  std::string name() const override { return backward_name(op_->recorded_as ? op_->recorded_as : op_->name); }
  std::span<Edge> edges() override { return {edges_, A}; }

  void apply(Gradients& in, Gradients& out) override {
    const Tensor& g = in[0];
    const uint64_t since = thread_state.sequence;
    Borrowed<4> values;
    Tensor with_history[S > 0 ? S : 1];
    if constexpr (S > 0)
      for (int s = 0; s < S; ++s) {
        if (!saved_[s].saved()) continue;
        if (thread_state.grad || saved_[s].is_packed())
          values[saved_[s].which] = (with_history[s] = saved_[s].unpack(this)).get();
        else
          values[saved_[s].which] = saved_[s].lend(this);
      }
    for (int i = 0; i < A; ++i) {
      if (!edges_[i]) continue;
      switch (op_->rules[i]) {
        case RuleKind::Zero:
          out[i] = zeros(g.sizes(), info.computed);
          break;
        case RuleKind::Missing:
          fail<NotImplemented>("the derivative of '", op_->name, "' with respect to input ", i,
                               " is not implemented");
        case RuleKind::One:
          out[i] = g;
          break;
        default:
          if (op_->rules[i] == RuleKind::MinusOne)
            out[i] = op_->recorded[i](g, values, static_cast<const Tensor*>(values)[3], parameters_.get());
          else if (thread_state.grad || thread_state.watched)
            out[i] = seen_gradient(*op_, i, info.computed, parameters_.get(), g, values);
          else
            out[i] = fused(*op_, i, info.computed, parameters_.get(), g, values);
      }
      // A rule that takes an input is not linear in it: its result can be differentiated by it, to 0 if need
      // be.
      if (thread_state.grad && op_->rules[i] != RuleKind::One && op_->rules[i] != RuleKind::MinusOne)
          [[unlikely]] {
        const int takes = op_->takes[i];
        keep_history(out[i], in, *this, since,
                     op_->rules[i] == RuleKind::Zero ? uint64_t{1} << i
                     : takes & kResult               ? ~uint64_t{0}
                                                     : static_cast<uint64_t>(takes));
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
        if (saved_[s].saved())
          v.push_back({.name = saved_[s].which == 3 ? "result" : input_name(*op_, saved_[s].which),
                       .slot = &saved_[s]});
    // What this node had no need of, though its operator may have.
    for (int k = 0; k < A; ++k) {
      const std::string name = input_name(*op_, k);
      if (std::none_of(v.begin(), v.end(), [&](const SavedValue& x) { return x.name == name; }))
        v.push_back({.name = name, .text = "None"});
    }
    for (int k = 0; k < op_->parameters && parameters_; ++k)
      v.push_back(saved_parameter(*op_, info.computed, k, parameters_[k]));
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

}  // namespace

namespace {

template <int A, int S>
void record_as(const ElementwiseInfo& op, const Tensor* in, Tensor& out, Before* before, DType type,
               const double* parameters, int takes) {
  auto* node = new ElementwiseNode<A, S>(op, type, parameters);
  Ref<Node> owner = Ref<Node>::steal(node);
  for (int i = 0; i < A; ++i)
    if (before) [[unlikely]]
      node->edges_[i] = std::move(before->edges[i]);
    else if (in[i].requires_grad())
      node->edges_[i] = gradient_edge(in[i]);
  int slot = 0;
  for (int k = 0; k < A; ++k)
    if (takes >> k & 1) node->save(slot++, k, before && before->kept[k].defined() ? before->kept[k] : in[k]);
  if (takes & kResult) node->save(slot++, 3, out);
  node->info.describe(out);
  if (before) [[unlikely]]
    write_history(out, std::move(owner), 0);
  else
    set_history(out, std::move(owner), 0);
}

}  // namespace

std::optional<Derivative> derivative_of(const Operator& row) {
  if (row.compute != &DerivativeRow::run) return {};
  const auto& derivative = static_cast<const DerivativeRow&>(row);
  return Derivative{&derivative.of, derivative.input};
}

bool straight_gradient(const ElementwiseInfo& op, int i, DType type, const double* parameters,
                       const Tensor& g, const Tensor* values, StraightCall& call) {
  unsigned flags = 0;
  return straight(op, i, type, parameters, g, values, call, flags);
}

template <int A>
[[gnu::hot]] void record(const ElementwiseInfo& op, const Tensor* in, Tensor& out, Before* before, DType type,
                         const double* parameters) {
  int takes = 0;
  for (int i = 0; i < A; ++i)
    if (before ? bool(before->edges[i]) : in[i].requires_grad()) takes |= op.takes[i];
  static constexpr uint8_t kBits[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
  switch (kBits[takes & 15]) {
    case 0:
      return record_as<A, 0>(op, in, out, before, type, parameters, takes);
    case 1:
      return record_as<A, 1>(op, in, out, before, type, parameters, takes);
    case 2:
      return record_as<A, 2>(op, in, out, before, type, parameters, takes);
    default:
      return record_as<A, 4>(op, in, out, before, type, parameters, takes);
  }
}
template void record<1>(const ElementwiseInfo&, const Tensor*, Tensor&, Before*, DType, const double*);
template void record<2>(const ElementwiseInfo&, const Tensor*, Tensor&, Before*, DType, const double*);
template void record<3>(const ElementwiseInfo&, const Tensor*, Tensor&, Before*, DType, const double*);

Tensor fused_gradient(const ElementwiseInfo& op, int i, DType type, const double* parameters, const Tensor& g,
                      const Tensor* values) {
  if (thread_state.watched) [[unlikely]] {
    const GradMode off(false);  // by the same loop: nothing here is recorded, whatever the mode
    return seen_gradient(op, i, type, parameters, g, values);
  }
  return fused(op, i, type, parameters, g, values);
}

/// Before a write in place: edges, and copies of what rules need and the write destroys. A copy has the
/// history of what it stands for.
void capture_before_write(const ElementwiseInfo& op, const Tensor* in, Before& before) {
  int takes = 0;
  for (int i = 0; i < op.arity; ++i)
    if (in[i].requires_grad()) {
      before.edges[i] = i == 0 ? edge_before_write(in[0]) : gradient_edge(in[i]);
      takes |= op.takes[i];
    }
  for (int k = 0; k < op.arity; ++k) {
    if (!(takes >> k & 1) || !may_share_memory(in[k], in[0])) continue;
    Tensor& copy = before.kept[k] = copy_of(in[k]);
    announce_kept(copy, in[k]);
    if (before.edges[k])
      set_history(copy, Ref<Node>::share(before.edges[k].node.get()), before.edges[k].input_nr);
  }
}

}  // namespace adjoint
