#include "for_size.h"

#include "transforms/transformed.h"

#include "ops/writing.h"
#include "tensor/access.h"
#include "transforms/forward.h"
#include "transforms/sparse.h"

namespace adjoint {

namespace {

/// f of each tensor among the arguments.
template <class F> bool any_tensor(const Operator& op, std::span<const Value> arguments, F&& f) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Value& v = arguments[i];
    if (!v.present) continue;
    if (op.kinds[i]->form == Form::Tensor && v.tensor->defined() && f(*v.tensor)) return true;
    if (op.kinds[i]->form == Form::Tensors)
      for (const Tensor& t : v.tensors())
        if (t.defined() && f(t)) return true;
  }
  return false;
}

}  // namespace

bool transformed(const Operator& op, std::span<const Value> arguments, Results& results, const void* const* at) {
  if (std::exchange(thread_state.past_transforms, false)) return false;
  if (sparse_in_use.load(std::memory_order_relaxed) && !op.takes_sparse &&
      any_tensor(op, arguments, [](const Tensor& t) { return is_sparse(t); })) {
    call_sparse(op, arguments, results);
    return true;
  }
  DeviceOfCall where(op.name, op.crosses_devices);
  any_tensor(op, arguments, [&](const Tensor& t) {
    where.add(t);
    return false;
  });
  if (where.device() != thread_state.device) {
    // The call again, where its results belong.
    const DeviceScope scope(where.device());
    op.boxed(arguments.data(), results);
    return true;
  }
  if (!any_tensor(op, arguments, is_dual)) return false;
  call_dual(op, arguments, at, results);
  return true;
}

bool transformed(const Operator& op, const void* const* arguments, Results& results) {
  std::vector<Value> values(op.kinds.size());
  for (size_t i = 0; i < values.size(); ++i) op.kinds[i]->box(arguments[i], values[i]);
  return transformed(op, values, results, arguments);
}

void call_plain(const Operator& op, std::span<const Value> arguments, Results& results) {
  struct Past {
    explicit Past(bool on) { thread_state.past_transforms = on; }
    ~Past() { thread_state.past_transforms = false; }
  } past(any_tensor(op, arguments, [](const Tensor& t) { return may_be_transformed(t->flags); }));
  op.boxed(arguments.data(), results);
}

bool is_transformed(const Tensor& t) { return t->is(TensorImpl::kBatched) || is_sparse(t) || is_dual(t); }

Tensor write_transformed(const Tensor& to, const Tensor& value) { return call<Copy>(to, value); }

}  // namespace adjoint
