// The operator table: every family adds its rows when the library is loaded (dispatch/family.h).
#include <cstring>

#include "dispatch/family.h"

namespace adjoint {

std::vector<const Operator*>& operators() {
  // Never destroyed, like the rows that it points to.
  static auto& table = *[] {
    auto* rows = new std::vector<const Operator*>;
    rows->reserve(512);
    return rows;
  }();
  return table;
}

void add_row(Operator* row) {
  if (!row->door)
    row->door = row->composite ? row->compute
                               : [](const Operator& o, const Value* v, Results& r) { pass_door(o, v, r); };
  for (size_t i = 0; i < row->kinds.size(); ++i) {
    const Form form = row->kinds[i]->form;
    row->tensors |= uint32_t{form == Form::Tensor} << i;
    row->lists |= uint32_t{form == Form::Tensors} << i;
    row->draws |= form == Form::Generator;
  }
  if (!row->elementwise && !row->composite && !row->constant && !row->rules) {
    static constexpr Need kNothing[kMostArguments] = {};
    auto* table = new RuleTable{};
    table->name = row->name;
    table->signature = row->order;
    table->parameters = static_cast<int>(row->kinds.size());
    table->tensors = static_cast<uint16_t>(row->tensors);
    table->list = row->lists ? std::countr_zero(row->lists) : -1;
    table->needs = kNothing;
    table->all.gradients = 0xffff;
    row->refusal = table;
  }
  operators().push_back(row);
}

namespace table {

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

}  // namespace table
}  // namespace adjoint
