#include "dispatch/forms.h"

#include <algorithm>

#include "as_torch.h"
#include "autograd/arithmetic.h"
#include "autograd/views.h"
#include "dispatch/elementwise.h"
#include "kernels/copy.h"
#include "kernels/slices.h"
#include "ops/writing.h"
#include "runtime/warning.h"
#include "tensor/checked.h"
#include "tensor/device.h"
#include "transforms/interpreter.h"
#include "transforms/transformed.h"

namespace adjoint {

namespace {

/// An element-wise operator, which writes where it is told.
void write_elementwise(const Call& call, Results& results) {
  const Unboxed c(call.op, call.arguments.data());
  const bool inplace = call.form == CallForm::InPlace;
  results.one = call_elementwise(c.op, c.in, c.parameters, inplace ? &c.in[0] : &call.out[0], inplace);
}

/// Whether results may be made in the tensors given as out=: they are row-major and may be written as they
/// are, and nothing that the call reads lies there.
bool may_be_made_there(const Call& call) {
  if (thread_state.watched || !call.op.makes_in_out) return false;
  for (const Tensor& t : call.out) {
    const Storage& storage = *t->storage;
    if (!t.is_contiguous() || t->flags & TensorImpl::kCarries || storage.readonly ||
        storage.device == Device::Meta || (t->is(TensorImpl::kInference) && !thread_state.inference) ||
        (thread_state.grad && t.requires_grad()))
      return false;
    for (const Tensor& other : call.out)
      if (&other != &t && may_share_memory(t, other)) return false;
  }
  const auto harmless = [&](const Tensor& x) {
    if (x->flags & TensorImpl::kCarries || (thread_state.grad && x.requires_grad())) return false;
    return std::none_of(call.out.begin(), call.out.end(),
                        [&](const Tensor& t) { return may_share_memory(x, t); });
  };
  return !find_tensor(call.op, call.arguments.data(), [&](const Tensor& x) { return !harmless(x); });
}

bool lies_in(const Tensor& result, const Tensor& out) {
  return result->storage == out->storage && result->data == out->data && result.dtype() == out.dtype() &&
         result.is_contiguous() && same(result.sizes(), out.sizes());
}

/// Whether nobody but the one who holds this result looks at its memory, all of which it is.
bool is_fresh(const Tensor& t) {
  return t.defined() && t.unique() && t.is_contiguous() && t->storage->kind != Storage::Kind::External &&
         t->data == t->storage->data && !t->storage->viewed() &&
         t->storage->refcount.load(std::memory_order_acquire) == 1;
}

void check_result(const Tensor& out, const Tensor& result, const char* name, bool converts);
void write_result(const Tensor& out, const Tensor& result, const char* name, bool fresh);

/// A result takes the place of what a tensor held.
void copy_over(const Tensor& to, const Tensor& from, const char* name) {
  write(to, name, [&] {
    const NoInterpretation part_of_it;
    copy_into(to, from);
  });
  if (thread_state.watched) [[unlikely]]
    announce_copied(to, from, false);
}

/// A call of a structured operator with out=. Its results are made there, or copied there.
void perform_into(const Call& call, const std::vector<Value>& values) {
  const char* const name = call.op.name;
  const bool there = may_be_made_there(call);
  Into::Given given{call.out, name, call.op.out_converts};
  Results r;
  if (there) r.into = Into(given);
  try {
    call.op.boxed(values.data(), r);
  } catch (...) {
    for (size_t i = 0; i < call.out.size(); ++i)
      if (given.has_taken(i)) count_write(call.out[i], name);
    throw;
  }
  const std::span<Tensor> made = r.kind == Results::Kind::One ? std::span(&r.one, 1) : std::span(r.many);
  if (call.out.size() != made.size())
    fail<TypeError>(name, "(): out must be a tuple of ", made.size(), " Tensors");
  for (size_t i = 0; i < made.size(); ++i)
    if (made[i].defined()) check_result(call.out[i], made[i], name, call.op.out_converts);
  for (size_t i = 0; i < made.size(); ++i) {
    if (!made[i].defined()) continue;
    if (given.has_taken(i) && lies_in(made[i], call.out[i])) {
      count_write(call.out[i], name);
      continue;
    }
    if (given.has_taken(i) && may_share_memory(made[i], call.out[i])) made[i] = copy_of(made[i]);
    write_result(call.out[i], made[i], name, is_fresh(made[i]));
  }
}

}  // namespace

std::atomic<uint64_t> results_copied{0};

namespace {

bool is_dense(const Tensor& t) {
  if (t.is_contiguous()) return true;
  std::vector<std::pair<int64_t, int64_t>> steps;
  for (int64_t i = 0; i < t.dim(); ++i)
    if (t.size(i) > 1) steps.emplace_back(t.stride(i), t.size(i));
  std::ranges::sort(steps);
  int64_t step = 1;
  for (const auto& [stride, size] : steps) {
    if (stride != step) return false;
    step *= size;
  }
  return true;
}

/// Refuse to read `x` where `t` is written, unless they are the same elements and `same` may be.
void refuse_shared(const Tensor& t, const Tensor& x, bool same_too) {
  if (!t.numel() || !x.numel() || !t->storage || !x->storage || !may_share_memory(t, x)) return;
  const char *a = t->data, *b = x->data;
  const char *a_end = a + t.numel() * t.itemsize(), *b_end = b + x.numel() * x.itemsize();
  if (a >= b_end || b >= a_end) return;
  const bool full = a == b && a_end == b_end && t.itemsize() == x.itemsize() && same(t.sizes(), x.sizes()) &&
                    same(t.strides(), x.strides());
  if (full ? same_too : is_dense(t) && is_dense(x))
    fail(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
        "single memory location. Please clone() the tensor before performing the operation.");
}

/// See ForTorch.
void refuse_shared(const Call& call) {
  const bool inplace = call.form == CallForm::InPlace;
  const std::span<const Tensor> written =
      inplace ? std::span(call.arguments[0].tensor, 1) : std::span(call.out.begin(), call.out.end());
  const auto each = [&](auto&& f) {
    each_tensor(call.op, call.arguments.data(), [&](const Tensor& x, int i) {
      if (i >= inplace) f(x);
    });
  };
  bool places = false;
  if (!call.op.elementwise && !call.op.writes)
    each([&](const Tensor& x) { places |= category(x.dtype()) <= Category::Integer; });
  for (const Tensor& t : written)
    if (!(t->flags & TensorImpl::kNotAsTheyLie))
      each([&](const Tensor& x) { refuse_shared(t, x, places && inplace); });
}

}  // namespace

void perform(const Call& call, Results& results) {
  const Operator& op = call.op;
  if (call.form == CallForm::Function) return op.boxed(call.arguments.data(), results);
  if (for_torch().refuses_shared_memory) [[unlikely]]
    refuse_shared(call);
  if (call.form == CallForm::InPlace && op.writes) return op.boxed(call.arguments.data(), results);
  if (op.elementwise) return write_elementwise(call, results);
  if (interpreted(call, results)) return;
  const Past past{Ref<Interpreter>()};  // what follows is part of this call
  std::vector<Value> values(call.arguments.begin(), call.arguments.end());
  Tensor before;
  Results r;
  if (call.form == CallForm::Out) {
    // A dtype that is left out is that of out=.
    if (call.out.size() == 1 && op.out_converts)
      for (size_t i = 0; i < op.kinds.size(); ++i)
        if (op.kinds[i]->form == Form::Type && op.kinds[i]->optional && !values[i].present) {
          values[i].present = true;
          values[i].type = call.out[0].dtype();
        }
    perform_into(call, values);
    results.one = call.out[0];
    return;
  }
  const Tensor& self = *values[0].tensor;
  // What is overwritten may be what the rule needs, or that of its samples or tangents: it gets a copy.
  if (thread_state.grad && (self.requires_grad() || is_transformed(self))) {
    before = owned(self);
    announce_kept(before, self);
    values[0].tensor = &before;
  }
  op.boxed(values.data(), r);
  become_result(self, r.one, op.name);
  results.one = self;
}

void need_device(const char* op, Device device, const Tensor& out) {
  if (device_of(out) != device)
    fail("Attempting to copy from device ", name_of(device), " to device ", name_of(device_of(out)),
         ", but cross-device copies are not allowed! ", op, "(): out= must be on the device of the result");
}

void write_out(const Tensor& t, const Tensor& result, const char* name, bool converts) {
  check_result(t, result, name, converts);
  write_result(t, result, name, false);
}

namespace {
/// Refuse what a result may not be written to.
void check_result(const Tensor& t, const Tensor& result, const char* name, bool converts) {
  if ((t->flags | result->flags) & TensorImpl::kElsewhere) [[unlikely]]
    need_device(name, device_of(result), t);
  if (result.requires_grad() || (thread_state.grad && t.requires_grad())) refuse_recorded_out(name);
  need_out_type(result.dtype(), t.dtype(), name, converts);
  refuse_overlap(t, name);
}

/// As write_out, of what was checked. A `fresh` result gives its memory to a tensor that has to get another
/// anyhow.
void write_result(const Tensor& t, const Tensor& result, const char* name, bool fresh) {
  const auto fill = [&] {
    if (is_transformed(t) || is_transformed(result)) [[unlikely]] {
      write_transformed(t, result);
      return;
    }
    check_writable(t, name, false);
    results_copied.fetch_add(1, std::memory_order_relaxed);
    copy_over(t, result, name);
  };
  if (!same(t.sizes(), result.sizes())) {
    if (t.numel() != 0)
      runtime::warn(
          text("An output with one or more elements was resized since it had shape ", to_string(t.sizes()),
               ", which does not match the required output shape ", to_string(result.sizes()),
               ". You can explicitly reuse an out tensor t by resizing it, inplace, to zero elements "
               "with t.resize_(0).")
              .c_str());
    tell_replaced(t, "out");
    const uint32_t made_in = t->storage->made_in;  // what is from outside of a vmap() stays so
    if (fresh && t.dtype() == result.dtype() && !is_transformed(t) && !is_transformed(result)) {
      t->replace_storage(Ref<Storage>::share(result->storage), result->data, t.dtype(), result.sizes(),
                         nullptr);
      t->storage->made_in = made_in;
      count_write(t, name);
      return;
    }
    const DeviceScope scope(device_of(t));
    Ref<Storage> storage =
        allocate_storage(runtime::checked_bytes(result.numel(), static_cast<size_t>(t.itemsize())));
    storage->made_in = made_in;
    char *const data = storage->data, *const old = t->data;
    Ref<Storage> before = Ref<Storage>::share(t->storage);
    const Dims sizes(t.sizes()), strides(t.strides());
    t->replace_storage(std::move(storage), data, t.dtype(), result.sizes(),
                       without_gaps(result) ? result.strides().data() : nullptr);
    try {
      fill();
    } catch (...) {  // what is refused leaves it as it was
      t->replace_storage(std::move(before), old, t.dtype(), sizes.span(), strides.data());
      throw;
    }
    return;
  }
  fill();
}
}  // namespace

void need_castable(DType result, DType to, const char* name) {
  if (!can_cast(result, to))
    fail("result type ", type_name_of(result), " can't be cast to the desired output type ", type_name_of(to),
         " in ", name, "_(): keep the result of ", name, "() instead, or convert the tensor first, with .to(",
         name_of(result), ")");
}
void refuse_recorded_out(const char* name) {
  fail(name,
       "(): functions with out=... arguments don't support automatic differentiation, but one of the "
       "arguments requires grad.");
}

void become_result(const Tensor& self, const Tensor& result, const char* name) {
  if (!same(self.sizes(), result.sizes()))
    fail(name, "_(): output with shape ", self.sizes(), " doesn't match the result's shape ", result.sizes());
  need_castable(result.dtype(), self.dtype(), name);
  // A result without history leaves none of what was there before. An interpreter sees a copy.
  if ((thread_state.grad && self.requires_grad() && !history(result)) ||
      (thread_state.watched && thread_state.interpreter) || is_transformed(self) || is_transformed(result)) {
    call<Copy>(self, result);
    return;
  }
  check_writable(self, name, result.requires_grad() && thread_state.grad);
  copy_over(self, result, name);
  Tensor written = self;
  if (history(result)) write_history(written, Ref<Node>::share(result->grad_fn), result->output_nr);
}

}  // namespace adjoint
