#include "transforms/autocast.h"

#include "autograd/engine.h"
#include "autograd/views.h"
#include "dispatch/forms.h"
#include "for_size.h"
#include "ops/shape.h"

namespace adjoint {

namespace {

/// Those of which something is said; filled from Python before the first use.
std::vector<std::pair<const Operator*, Precision>> said;

Precision precision_of(const Operator& op) {
  for (const auto& [row, precision] : said)
    if (row == &op) return precision;
  return Precision::Own;
}

/// What float64, complex numbers and integers are not: a type that is chosen for speed.
bool eligible(const Tensor& t) {
  return t && is_floating(t.dtype()) && t.dtype() != DType::Float64 && !t.is_wrapped();
}

Tensor in_type(const Tensor& t, DType type) { return call<To>(t, type); }

bool is_float32(const Tensor& t) { return t && t.dtype() == DType::Float32 && !t.is_wrapped(); }

}  // namespace

Ref<Interpreter> Autocast::for_thread() const {
  auto* const made = new Autocast;  // which converts leaves anew
  made->settings = settings;
  return Ref<Interpreter>::steal(made);
}

void set_autocast(bool present) {
  Autocast*& here = thread_state.autocast;
  if (present == (here != nullptr)) return;
  if (present) {
    auto* const made = new Autocast;
    push(Ref<Interpreter>::steal(made));
    here = made;
  } else if (pop(static_cast<const Interpreter*>(here))) {
    here = nullptr;
  }
}

void set_precision(const Operator& op, Precision precision) { said.emplace_back(&op, precision); }

bool Autocast::active() const { return settings.enabled && settings.pass == current_pass(); }

Tensor Autocast::converted(const Tensor& t, Precision precision) {
  const DType type = precision == Precision::Lower ? settings.type : DType::Float32;
  if (!eligible(t) || t.dtype() == type) return t;
  // A weight is used many times, and its copies would each have their gradient.
  const bool kept = settings.cache && precision == Precision::Lower && t.dtype() == DType::Float32 &&
                    t.requires_grad() && !history(t);
  if (!kept) return in_type(t, type);
  for (Copy& c : leaves_) {
    if (c.of.get() != t.get() || c.is.dtype() != type || c.recorded != thread_state.grad) continue;
    if (c.version != t.version()) c = Copy{t, in_type(t, type), t.version(), thread_state.grad};
    return c.is;
  }
  leaves_.push_back(Copy{t, in_type(t, type), t.version(), thread_state.grad});
  return leaves_.back().is;
}

void Autocast::call(const Call& call, Results& results) {
  Precision precision = active() && call.form == CallForm::Function ? precision_of(call.op) : Precision::Own;
  if (precision == Precision::Own) return perform(call, results);
  std::vector<Value> values(call.arguments.begin(), call.arguments.end());
  const auto any = [&](auto&& test) { return find_tensor(call.op, values.data(), test) != nullptr; };
  if (precision == Precision::Widest) precision = any(is_float32) ? Precision::Float32 : Precision::Lower;
  if (!any(eligible)) return perform(call, results);
  // What is converted lives until the call is done.
  std::deque<Tensors> lists;
  for (size_t i = 0; i < values.size(); ++i) {
    Value& v = values[i];
    const Form form = call.op.kinds[i]->form;
    if (!v.present || (form != Form::Tensor && form != Form::Tensors)) continue;
    const TensorList given = form == Form::Tensor ? TensorList(v.tensor, 1) : v.tensors();
    Tensors& list = lists.emplace_back();
    for (const Tensor& t : given) list.push_back(converted(t, precision));
    if (form == Form::Tensor)
      v.tensor = &list[0];
    else
      v.list = {list.data(), list.size()};
  }
  call.op.boxed(values.data(), results);
}

}  // namespace adjoint
