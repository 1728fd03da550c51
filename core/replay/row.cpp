#include "replay/row.h"

#include <cstring>

#include "dispatch/declared.h"
#include "dispatch/elementwise.h"
#include "runtime/random.h"

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
        v.generator = a.list.size() ? trace.generators[a.list.begin] : nullptr;
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

/// The same arguments, with tensors that lie alike in memory of their own.
static RowArguments copies_of(const Operator& op, const RowArguments& given) {
  RowArguments copies;
  copies.values = given.values;
  copies.tensors.reserve(given.tensors.size());
  for (const Tensor& t : given.tensors) {
    Tensor& copy = copies.tensors.emplace_back(t);
    if (!t.defined() || t.is_wrapped()) continue;
    int64_t elements = t.numel() ? 1 : 0;
    for (size_t i = 0; i < t.sizes().size() && elements; ++i) elements += (t.sizes()[i] - 1) * t.strides()[i];
    Ref<Storage> memory = allocate_storage(static_cast<size_t>(elements * t.itemsize()));
    std::memcpy(memory->data, t.bytes(), memory->nbytes);
    copy = over(std::move(memory), t.dtype(), t.sizes(), t.strides(), 0);
  }
  const auto moved = [&](const void* t) {
    return copies.tensors.data() + (static_cast<const Tensor*>(t) - given.tensors.data());
  };
  for (size_t i = 0; i < op.kinds.size(); ++i) {
    Value& v = copies.values[i];
    if (v.present && op.kinds[i]->form == Form::Tensor) v.tensor = moved(v.tensor);
    if (v.present && op.kinds[i]->form == Form::Tensors) v.list.data = moved(v.list.data);
  }
  return copies;
}

bool compute_row_of_program(const DeclaredOperator& op, CallForm form, const RowArguments& arguments,
                            Results& results) {
  if (!op.impure().empty()) return false;
  const RowArguments copies = copies_of(op, arguments);
  runtime::Generator& generator = runtime::default_generator();
  const runtime::Generator::State state = generator.state();
  compute_row(op, form, copies, results);
  if (generator.state() != state) {
    generator.set_state(state);
    return false;
  }
  for (size_t i = 0; i < copies.tensors.size(); ++i) {
    const Tensor &copy = copies.tensors[i], &given = arguments.tensors[i];
    if (copy.get() == given.get()) continue;
    const Storage* const s = copy->storage;
    if (std::memcmp(s->data, given.bytes(), s->nbytes) != 0) return false;
    for (const Tensor& made : results.all())
      if (made.defined() && made.bytes() >= s->data && made.bytes() < s->data + s->nbytes) return false;
  }
  return true;
}

}  // namespace adjoint::replay
