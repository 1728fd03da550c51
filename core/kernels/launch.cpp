#include "kernels/launch.h"

#include <algorithm>
#include <cstring>

#include "for_size.h"
#include "kernels/slices.h"
#include "runtime/random.h"
#include "runtime/repeat.h"

namespace adjoint::launch {

namespace {

/// The tensors that an argument is, where a routine writes it.
TensorList written(Kind kind, const void* at) {
  if (kind == Kind::Out) return {static_cast<const Tensor*>(at), 1};
  return kind == Kind::Outs ? *static_cast<const TensorList*>(at) : TensorList();
}

/// A tensor that lies as `t` does, with its elements; undefined where others lie between them.
Tensor another(const Tensor& t) {
  if (!without_gaps(t)) return {};
  const Tensor copy = empty_as(t, t.dtype());
  copy_into(copy, t);
  return copy;
}

thread_local Recorder* recorder = nullptr;

void fill_with(const Tensor& t, const Scalar& value) {
  alignas(16) char bytes[16];
  write_element(bytes, t.dtype(), value);
  runtime::repeat(t.bytes(), bytes, t.itemsize(), t.numel());
}

}  // namespace

Recorder::Recorder() { recorder = this; }
Recorder::~Recorder() { recorder = nullptr; }

bool checked(const Tensor& t, const Routine& routine, const void* const* at) {
  if (t->storage->device != kRecorded) return false;
  recorder->launched(routine, at);
  return true;
}

void elsewhere(const Routine& routine, const void* const* at) {
  const Tensor* first = nullptr;
  for (size_t i = 0; i < routine.count; ++i)
    for (const Tensor& t : written(routine.kinds[i], at[i]))
      if (t.defined() && t->is(TensorImpl::kElsewhere)) first = &t;  // numbers may be on the CPU
  if ((*first)->storage->device == kRecorded) return recorder->launched(routine, at);
  const Access access(*first);
  if (!access) return;
  const void* others[Routine::kMost];
  Tensors copies[Routine::kMost];
  TensorList lists[Routine::kMost];
  runtime::Generator* generator = nullptr;
  for (size_t i = 0; i < routine.count; ++i) {
    others[i] = at[i];
    if (routine.kinds[i] == Kind::Generator) generator = *static_cast<runtime::Generator* const*>(at[i]);
    for (const Tensor& t : written(routine.kinds[i], at[i])) {
      copies[i].push_back(t.defined() ? another(t) : Tensor());
      if (t.defined() && !copies[i].back().defined()) return void(routine.call(at));
    }
    lists[i] = copies[i];
    if (routine.kinds[i] == Kind::Out) others[i] = copies[i].data();
    if (routine.kinds[i] == Kind::Outs) others[i] = &lists[i];
  }
  const auto before = generator ? generator->state() : runtime::Generator::State();
  routine.call(others);
  if (generator) generator->set_state(before);
  routine.call(at);
  for (size_t i = 0; i < routine.count; ++i)
    for (const Tensor* copy = copies[i].data(); const Tensor& t : written(routine.kinds[i], at[i])) {
      const size_t n = t.defined() ? static_cast<size_t>(t.numel() * t.itemsize()) : 0;
      if (const Tensor& other = *copy++; n && std::memcmp(t.bytes(), other.bytes(), n) != 0)
        fail("a routine wrote something else when it was called again with other memory (kernels/launch.h)");
    }
}

}  // namespace adjoint::launch

void adjoint::fill_recorded(const Tensor& t, const Scalar& value) { on<&launch::fill_with>(Out(t), value); }
