#include "dispatch/forms.h"

#include "autograd/arithmetic.h"
#include "autograd/views.h"
#include "dispatch/elementwise.h"
#include "kernels/copy.h"
#include "kernels/slices.h"
#include "ops/writing.h"
#include "runtime/warning.h"
#include "tensor/checked.h"
#include "transforms/interpreter.h"
#include "transforms/transformed.h"
#include "tensor/access.h"

namespace adjoint {

namespace {

/// Whether an element-wise result has the shape of `out`.
bool shape_fits(const ElementwiseInfo& info, const Tensor* in, const Tensor& out) {
  Dims shape(in[0].sizes());
  for (int i = 1; i < info.arity; ++i) shape = broadcast_shapes(shape.span(), in[i].sizes(), info.name);
  return same(shape.span(), out.sizes());
}

/// An element-wise operator that writes; false where it cannot, since out= has another shape.
bool write_elementwise(const Call& call, Results& results) {
  const ElementwiseInfo& op = *call.op.elementwise;
  Tensor in[kMostInputs];
  const ElementwiseInfo& info = given_inputs(op, call.arguments.data(), in);
  double p[kMostParameters];
  for (int i = 0; i < info.parameters; ++i) p[i] = parameter_of(op, call.arguments.data(), i);
  const bool inplace = call.form == CallForm::InPlace;
  if (!inplace && !shape_fits(info, in, call.out[0])) return false;
  results.one = call_elementwise(info, in, p, inplace ? &in[0] : &call.out[0], inplace);
  return true;
}

}  // namespace

void perform(const Call& call, Results& results) {
  const Operator& op = call.op;
  if (call.form == CallForm::Function || (call.form == CallForm::InPlace && op.writes)) return op.boxed(call.arguments.data(), results);
  if (op.elementwise && write_elementwise(call, results)) return;
  if (interpreted(call, results)) return;
  const Past past{Ref<Interpreter>()};  // what follows is part of this call
  std::vector<Value> values(call.arguments.begin(), call.arguments.end());
  Tensor before;
  Results r;
  if (call.form == CallForm::Out) {
    // A dtype that is left out is that of out=.
    if (call.out.size() == 1)
      for (size_t i = 0; i < op.kinds.size(); ++i)
        if (op.kinds[i]->form == Form::Type && op.kinds[i]->optional && !values[i].present) {
          values[i].present = true;
          values[i].type = call.out[0].dtype();
        }
    op.boxed(values.data(), r);
    if (r.kind == Results::Kind::One) {
      write_out(call.out[0], r.one, op.name);
    } else {
      if (call.out.size() != r.many.size()) fail<TypeError>(op.name, "(): out must be a tuple of ", r.many.size(), " Tensors");
      for (size_t i = 0; i < r.many.size(); ++i) write_out(call.out[i], r.many[i], op.name);
    }
    results.one = call.out[0];
    return;
  }
  const Tensor& self = *values[0].tensor;
  // What is overwritten may be what the rule needs: it gets a copy.
  if (thread_state.grad && (self.requires_grad() || self->is(TensorImpl::kBatched))) {
    before = owned(self);
    values[0].tensor = &before;
  }
  op.boxed(values.data(), r);
  become_result(self, r.one, op.name);
  results.one = self;
}

void write_out(const Tensor& t, const Tensor& result, const char* name) {
  if ((t->flags | result->flags) & TensorImpl::kElsewhere) [[unlikely]] need_device(name, device_of(result), t);
  if (result.requires_grad() || (thread_state.grad && t.requires_grad()))
    fail(name, "(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad.");
  if (!can_cast(result.dtype(), t.dtype()))
    fail("result type ", type_name_of(result.dtype()), " can't be cast to the desired output type ", type_name_of(t.dtype()));
  if (!same(t.sizes(), result.sizes())) {
    if (t.numel() != 0)
      runtime::warn(text("An output with one or more elements was resized since it had shape ", to_string(t.sizes()),
                         ", which does not match the required output shape ", to_string(result.sizes()),
                         ". This behavior is deprecated: pass a tensor of that shape, or one without elements (t.resize_(0)).").c_str());
    tell_replaced(t, "out");
    const DeviceScope scope(device_of(t));
    Ref<Storage> storage = allocate_storage(runtime::checked_bytes(result.numel(), static_cast<size_t>(t.itemsize())));
    char* const data = storage->data;
    t->replace_storage(std::move(storage), data, t.dtype(), result.sizes(), without_gaps(result) ? result.strides().data() : nullptr);
  }
  if (is_transformed(t) || is_transformed(result)) [[unlikely]] {
    write_transformed(t, result);
    return;
  }
  check_writable(t, name, false);
  write(t, name, [&] { copy_into(t, result); });
}

void become_result(const Tensor& self, const Tensor& result, const char* name) {
  if (!same(self.sizes(), result.sizes()))
    fail(name, "_(): output with shape ", to_string(self.sizes()), " doesn't match the result's shape ", to_string(result.sizes()));
  if (!can_cast(result.dtype(), self.dtype()))
    fail("result type ", type_name_of(result.dtype()), " can't be cast to the desired output type ", type_name_of(self.dtype()), " in ", name, "_()");
  // A result without history leaves none of what was there before. An interpreter sees a copy.
  if ((thread_state.grad && self.requires_grad() && !history(result)) || (thread_state.watched && thread_state.interpreter) || is_transformed(self) ||
      is_transformed(result)) {
    call<Copy>(self, result);
    return;
  }
  check_writable(self, name, result.requires_grad() && thread_state.grad);
  write(self, name, [&] { copy_into(self, result); });
  Tensor written = self;
  if (history(result)) write_history(written, Ref<Node>::share(result->grad_fn), result->output_nr, 2);
}

}  // namespace adjoint
