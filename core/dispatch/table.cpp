// The operator table: every family adds its rows when the library is loaded (dispatch/family.h).
#include "dispatch/operator.h"
#include "dispatch/rule_node.h"

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

}  // namespace adjoint
