// Rows as families state them: what needs no types of an operator.
#include "dispatch/family.h"

#include <cstring>

#include "for_size.h"

namespace adjoint::table {

Operator* new_row(const char* family, const char* texts) {
  auto* row = new Operator{};
  for (const char** text :
       {&row->name, &row->doc, &row->orders, &row->old_orders, &row->aliases, &row->python, &row->overloads,
        &row->module, &row->returns, &row->samples, &row->order}) {
    *text = texts;
    texts += std::strlen(texts) + 1;
  }
  row->family = family;
  row->signature = shown_signature(row->order);
  row->function = true;
  return row;
}

void add_kind(Operator& row, const ArgKind& kind) { row.kinds.push_back(&kind); }

void add_elementwise(ElementwiseInfo& info, const char* family, const char* texts, int index, bool method,
                     bool out_converts) {
  Operator* row = new_row(family, texts);
  info.inputs = row->module;
  each_parameter(info.inputs, [&](const ParameterText& p) {
    row->kinds.push_back(p.value == "None" ? &kind_of<OptionalTensor> : &kind_of<Tensor>);
  });
  each_parameter(row->returns, [&](const ParameterText& p) {
    row->kinds.push_back(p.value == "None" ? &kind_of<std::optional<double>> : &kind_of<double>);
  });
  row->module = row->returns = "";
  // A form that has no name of its own has that of its function.
  info.name = *row->name == '_' && *row->overloads ? row->overloads : row->name;
  info.loops = choose_loops(family, index);
  info.row = row;
  row->door = &call_elementwise_boxed;
  row->elementwise = &info;
  row->inplace = info.inplace;
  row->differentiable = info.result != ResultType::Bool && (info.types & types::field) != 0;
  row->method = method;
  row->out_converts = out_converts;
  add_row(row);
}

}  // namespace adjoint::table
