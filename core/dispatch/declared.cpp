#include "dispatch/declared.h"

#include <algorithm>

#include "dispatch/batched_call.h"
#include "for_size.h"
#include "transforms/forward.h"

namespace adjoint {

// --- The row --------------------------------------------------------------------------------------

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
  door = [](const Operator& row, const Value* v, Results& r) { pass_door(row, v, r); };
  compute = [](const Operator& row, const Value* v, Results& r) {
    const WithoutLevels plainly(1);
    static_cast<const DeclaredOperator&>(row).forward({v, row.kinds.size()}, r);
  };
  differentiable = declaration.ruled != 0;
  function = true;
  out_converts = true;
  several = declaration.several;
  results = declaration.results;
  linear_terms = declaration.linear_terms;
  linear_factors = declaration.linear_factors;
  if (declaration.has_jvp)
    tangents = [](const DualCall& c) { return static_cast<const DeclaredOperator&>(c.op).jvp(c); };
  if (declaration.has_batch)
    batch = [](BatchedCall& c) { static_cast<const DeclaredOperator&>(c.op).compute_batch(c); };
  else if (declaration.leading)
    batch = batching::leading;
  table_.row = this;
  table_.name = name;
  table_.signature = order;
  table_.parameters = static_cast<int>(kinds.size());
  table_.list = -1;
  bool others = false;
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i]->form == Form::Tensor)
      table_.tensors |= static_cast<uint16_t>(1u << i);
    else if (kinds[i]->form == Form::Tensors)
      table_.list = static_cast<int>(i);
    else
      others = true;
  }
  table_.ruled = declaration.ruled;
  table_.needs = declaration.needs.data();
  for (const Need& n : declaration.needs) table_.all = table_.all | n;
  table_.all.gradients = 0xffff;
  table_.all.arguments = others && table_.all.arguments;
  table_.owned = &kKept;
  table_.rule = &run_rule;
  table_.joint = declaration.joint ? &run_joint : nullptr;
  table_.ordered = declaration.ordered;
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

void DeclaredOperator::keep(const RuleTable& table, void* owned, const Value* arguments) {
  new (owned) KeptArguments(of(table), arguments);
}

KeptArguments::KeptArguments(const Operator& row, const Value* arguments)
    : op(&row), values(row.kinds.size()) {
  for (size_t i = 0; i < values.size(); ++i) {
    const Form form = row.kinds[i]->form;
    if (form == Form::Tensor || form == Form::Tensors) continue;
    Value& v = values[i] = arguments[i];
    if (!v.present) continue;
    const auto own = [&v](const auto& copy) { v.list = {copy.data(), copy.size()}; };
    if (form == Form::Ints) own(ints.emplace_back(v.ints()));
    if (form == Form::Floats) own(floats.emplace_back(v.floats().begin(), v.floats().end()));
    if (form == Form::Text) own(texts.emplace_back(v.text()));
  }
}

Tensor DeclaredOperator::run_rule(RuleNode& node, int parameter, Gradients& in) {
  return of(node.table()).vjp(node, parameter, in);
}
Tensors DeclaredOperator::run_joint(RuleNode& node, uint32_t wanted, Gradients& in) {
  return of(node.table()).joint_vjp(node, wanted, in);
}

}  // namespace adjoint
