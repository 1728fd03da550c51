#include "for_size.h"

#include "dispatch/declared.h"

#include <algorithm>

#include "autograd/views.h"
#include "transforms/batching_call.h"
#include "transforms/forward.h"
#include "transforms/interpreter.h"
#include "transforms/transformed.h"

namespace adjoint {

namespace {

/// f of each tensor among the arguments, with the number of its parameter.
template <class F> void each_tensor(const Operator& op, const Value* arguments, F&& f) {
  for (size_t i = 0; i < op.kinds.size(); ++i) {
    if (!arguments[i].present) continue;
    if (op.kinds[i]->form == Form::Tensor) f(*arguments[i].tensor, i);
    if (op.kinds[i]->form == Form::Tensors)
      for (const Tensor& t : arguments[i].tensors())
        if (t.defined()) f(t, i);
  }
}

/// Where the arguments of a call lie: tensors and lists as themselves, all others as Values.
struct Addresses {
  const void* all[kMostArguments + 1] = {};
  Tensor absent;
  TensorList list;

  Addresses(const Operator& op, const Value* arguments) {
    for (size_t i = 0; i < op.kinds.size(); ++i) {
      all[i] = &arguments[i];
      if (op.kinds[i]->form == Form::Tensor) all[i] = arguments[i].present ? arguments[i].tensor : &absent;
      if (op.kinds[i]->form == Form::Tensors) all[i] = &(list = arguments[i].present ? arguments[i].tensors() : TensorList());
    }
  }
  Addresses(const Addresses&) = delete;
};

}  // namespace

// --- The row -----------------------------------------------------------------------------------------------------------

DeclaredOperator::DeclaredOperator(Declaration d) : Operator{}, declaration(std::move(d)) {
  name = declaration.name.c_str();
  doc = declaration.doc.c_str();
  order = declaration.order.c_str();
  signature = shown_signature(order);
  orders = old_orders = module = returns = aliases = python = overloads = "";
  family = declaration.family.c_str();
  declared = true;
  samples = declaration.samples.c_str();
  types = declaration.types;
  kinds = declaration.kinds;
  door = &call;
  differentiable = declaration.ruled != 0;
  function = true;
  out_converts = true;
  several = declaration.several;
  results = declaration.results;
  linear_terms = declaration.linear_terms;
  linear_factors = declaration.linear_factors;
  if (declaration.has_jvp) tangents = [](const DualCall& c) { return static_cast<const DeclaredOperator&>(c.op).jvp(c); };
  if (declaration.has_batch) batch = [](BatchedCall& c) { static_cast<const DeclaredOperator&>(c.op).compute_batch(c); };
  else if (declaration.leading) batch = batching::leading;
  table_.row = this;
  table_.name = name;
  table_.signature = order;
  table_.parameters = static_cast<int>(kinds.size());
  table_.list = -1;
  bool others = false;
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i]->form == Form::Tensor) table_.tensors |= static_cast<uint16_t>(1u << i);
    else if (kinds[i]->form == Form::Tensors) table_.list = static_cast<int>(i);
    else others = true;
  }
  table_.ruled = declaration.ruled;
  table_.needs = declaration.needs.data();
  for (const Need& n : declaration.needs) table_.all = table_.all | n;
  table_.all.gradients = 0xffff;
  table_.all.arguments = others && table_.all.arguments;
  table_.owned = &kKept;
  table_.rule = &run_rule;
  table_.joint = declaration.joint ? &run_joint : nullptr;
  if (differentiable) rules = &table_;
}

static_assert(alignof(KeptArguments) <= 8 && sizeof(KeptArguments) % 8 == 0);
const OwnedArguments DeclaredOperator::kKept{
    sizeof(KeptArguments), &keep,
    [](const void* owned, Value* values, const ArgKind** of) {
      const auto& all = *static_cast<const KeptArguments*>(owned);
      for (size_t i = 0; i < all.values.size(); ++i) {
        const ArgKind* kind = all.op->kinds[i];
        if (kind->form == Form::Tensor || kind->form == Form::Tensors) continue;
        values[i] = all.values[i];
        of[i] = kind;
      }
    },
    [](void* owned) noexcept { static_cast<KeptArguments*>(owned)->~KeptArguments(); }};

void DeclaredOperator::keep(const RuleTable& table, void* owned, const void* const* arguments) { new (owned) KeptArguments(of(table), arguments); }

KeptArguments::KeptArguments(const Operator& row, const void* const* arguments) : op(&row), values(row.kinds.size()) {
  for (size_t i = 0; i < values.size(); ++i) {
    const Form form = row.kinds[i]->form;
    if (form == Form::Tensor || form == Form::Tensors) continue;
    Value& v = values[i] = *static_cast<const Value*>(arguments[i]);
    if (!v.present) continue;
    const auto own = [&v](const auto& copy) { v.list = {copy.data(), copy.size()}; };
    if (form == Form::Ints) own(ints.emplace_back(v.ints()));
    if (form == Form::Floats) own(floats.emplace_back(v.floats().begin(), v.floats().end()));
    if (form == Form::Text) own(texts.emplace_back(v.text()));
  }
}

Tensor DeclaredOperator::run_rule(RuleNode& node, int parameter, Gradients& in) { return of(node.table()).vjp(node, parameter, in); }
Tensors DeclaredOperator::run_joint(RuleNode& node, uint32_t wanted, Gradients& in) { return of(node.table()).joint_vjp(node, wanted, in); }

// --- Its door ------------------------------------------------------------------------------------------------------------

void DeclaredOperator::call(const Operator& row, const Value* v, Results& results) {
  const auto& op = static_cast<const DeclaredOperator&>(row);
  const std::span<const Value> arguments{v, op.kinds.size()};
  runtime::check_no_lock(op.name);
  if (thread_state.watched && interpreted(Call{op, CallForm::Function, arguments, {}}, results)) return;
  const Addresses at(op, v);
  uint16_t flags = 0;
  uint32_t wanted = 0;
  each_tensor(op, v, [&](const Tensor& t, size_t i) {
    flags |= t->flags;
    wanted |= uint32_t{t.requires_grad()} << i;
  });
  if (may_be_transformed(flags) && transformed(op, arguments, results, at.all)) return;
  bool was_supplied = false;
  [&] {
    if (flags & TensorImpl::kBatched) return compute_batched(op, arguments, results);
    const NoInterpretation inner;
    if (inner.watched && (was_supplied = supplied(op, arguments, results))) return;
    const WithoutLevels plainly(1);
    op.forward(arguments, results);
  }();
  const std::span<const Tensor> all = results.kind == Results::Kind::One ? std::span<const Tensor>(&results.one, 1) : results.many;
  if (thread_state.watched && !was_supplied) tell_computed(op, all);
  if (!wanted || !thread_state.grad) return;
  if (op.differentiable) return record(op.table_, wanted, at.all, all, {}, nullptr);
  for (const Tensor& t : all)
    if (t.defined() && is_differentiable(t.dtype())) fail<NotImplemented>("the derivative of '", op.name, "' is not implemented");
}

}  // namespace adjoint
