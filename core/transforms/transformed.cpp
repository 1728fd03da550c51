#include "transforms/transformed.h"

#include "for_size.h"
#include "ops/writing.h"
#include "tensor/access.h"
#include "transforms/forward.h"
#include "transforms/sparse.h"

namespace adjoint {

bool transformed(const Operator& op, std::span<const Value> arguments, Results& results) {
  if (sparse_in_use.load(std::memory_order_relaxed) && !op.takes_sparse &&
      find_tensor(op, arguments.data(), [](const Tensor& t) { return is_sparse(t); })) {
    call_sparse(op, arguments, results);
    return true;
  }
  DeviceOfCall where(op.name, op.crosses_devices);
  find_tensor(op, arguments.data(), [&](const Tensor& t) {
    where.add(t);
    return false;
  });
  if (where.device() != thread_state.device) {
    // The call again, where its results belong.
    const DeviceScope scope(where.device());
    op.boxed(arguments.data(), results);
    return true;
  }
  if (!find_tensor(op, arguments.data(), is_dual)) return false;
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
