#include "replay/row.h"

#include "dispatch/elementwise.h"

namespace adjoint::replay {

void RowArguments::assign(const Trace& trace, const Step& s,
                          runtime::FunctionRef<Tensor(const Place&)> make) {
  tensors.clear();
  out.clear();
  size_t n = 0;
  for (uint32_t k = s.arguments.begin; k < s.arguments.end; ++k) n += trace.arguments[k].list.size() + 1;
  tensors.reserve(n);
  values.assign(s.arguments.size() + 1, {});
  for (uint32_t k = s.arguments.begin; k < s.arguments.end; ++k) {
    const Argument& a = trace.arguments[k];
    Value& v = values[k - s.arguments.begin];
    v.present = a.present;
    if (!a.present) continue;
    switch (a.form) {
      case Form::Tensor:
        tensors.push_back(make(trace.at(a.list)[0]));
        v.tensor = &tensors.back();
        break;
      case Form::Tensors: {
        const size_t first = tensors.size();
        for (const Place& p : trace.at(a.list)) tensors.push_back(make(p));
        v.list = {tensors.data() + first, a.list.size()};
        break;
      }
      case Form::Ints:
        v.list = {trace.ints.data() + a.list.begin, a.list.size()};
        break;
      case Form::Floats:
        v.list = {trace.floats.data() + a.list.begin, a.list.size()};
        break;
      case Form::Text:
        v.list = {trace.bytes.data() + a.list.begin, a.list.size()};
        break;
      case Form::Generator:
        v.generator = nullptr;
        break;
      default:
        v = trace.plain(a);
    }
  }
  for (const Place& p : trace.at(s.out)) out.push_back(make(p));
}

void compute_row(const Operator& op, CallForm form, const RowArguments& arguments, Results& results) {
  const Value* const values = arguments.values.data();
  if (!op.elementwise) {
    op.compute(op, values, results);
  } else if (form == CallForm::Function) {
    op.boxed(values, results);
  } else {
    const Unboxed c(op, values);
    const bool inplace = form == CallForm::InPlace;
    call_elementwise(c.op, c.in, c.parameters, inplace ? &c.in[0] : &arguments.out[0], inplace);
  }
}

}  // namespace adjoint::replay
