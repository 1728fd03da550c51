#include "transforms/transformed.h"

#include "dispatch/elementwise.h"
#include "dispatch/forms.h"
#include "for_size.h"
#include "ops/writing.h"
#include "tensor/device.h"
#include "transforms/forward.h"
#include "transforms/sparse.h"

namespace adjoint {

bool transformed(const Call& call, Results& results) {
  const Operator& op = call.op;
  const std::span<const Value> arguments = call.arguments;
  const bool writes = call.form != CallForm::Function;
  if (sparse_in_use.load(std::memory_order_relaxed) && !op.takes_sparse) {
    if (writes && written_sparse(call, results)) return true;
    if (!writes && find_tensor(op, arguments.data(), [](const Tensor& t) { return is_sparse(t); })) {
      call_sparse(op, arguments, results);
      return true;
    }
  }
  DeviceOfCall where(op.name, op.crosses_devices);
  find_tensor(op, arguments.data(), [&](const Tensor& t) {
    where.add(t);
    return false;
  });
  for (const Tensor& t : call.out) need_device(op.name, where.device(), t);
  if (where.device() != thread_state.device) {
    // The call again, where its results belong.
    const DeviceScope scope(where.device());
    perform(call, results);
    return true;
  }
  if (writes || !find_tensor(op, arguments.data(), is_dual)) return false;
  call_dual(op, arguments, results);
  return true;
}

void call_plain(const Operator& op, std::span<const Value> arguments, Results& results) {
  if (op.composite)
    op.compute(op, arguments.data(), results);
  else if (op.elementwise)
    call_elementwise_plain(op, arguments.data(), results);
  else
    pass_door(op, arguments.data(), results, true);
}

bool is_transformed(const Tensor& t) { return t->is(TensorImpl::kBatched) || is_sparse(t) || is_dual(t); }

Tensor write_transformed(const Tensor& to, const Tensor& value) { return call<Copy>(to, value); }

}  // namespace adjoint
