#include "kernels/launch.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/slices.h"
#include "tensor/checked.h"
#include "tensor/sparse.h"

namespace adjoint {

namespace {
std::atomic<int64_t> launches{0};
/// By kind of device.
std::atomic<const DeviceRoutines*> own_routines[kDeviceKinds]{};
}  // namespace

void register_routines(const DeviceRoutines& routines) {
  unsigned kind = 0;
  const auto* known = runtime::functions_of(kind);
  while (known && std::strcmp(known->name, routines.kind) != 0) known = runtime::functions_of(++kind);
  if (!known || kind <= device_kind(Device::Meta))
    fail<ValueError>("there is no kind of devices named ", routines.kind, ": register its functions first");
  own_routines[kind].store(&routines, std::memory_order_release);
}

int64_t launches_on_host() { return launches.load(std::memory_order_relaxed); }

namespace launch {

namespace {

/// The tensors that an argument is, where a routine writes it.
TensorList written(Kind kind, const void* at) {
  if (kind == Kind::Out) return {static_cast<const Tensor*>(at), 1};
  return kind == Kind::Outs ? *static_cast<const TensorList*>(at) : TensorList();
}

/// The arguments of a launch, with tensors of their own.
class Copied {
 public:
  Copied(const Routine& routine, const void* const* at) : arguments_(routine.arguments) {
    for (size_t i = 0; i < arguments_.size(); ++i) {
      at_[i] = at[i];
      switch (arguments_[i].kind) {
        case Kind::Tensor:
        case Kind::Out:
          tensors_[i] = {*static_cast<const Tensor*>(at[i])};
          at_[i] = tensors_[i].data();
          break;
        case Kind::Tensors:
        case Kind::Outs:
          tensors_[i].assign(static_cast<const TensorList*>(at[i])->begin(),
                             static_cast<const TensorList*>(at[i])->end());
          lists_[i] = tensors_[i];
          at_[i] = &lists_[i];
          break;
        default:
          if (const Keeping* k = arguments_[i].keeping) {
            others_[i] = {k->copy(at[i]), k->release};
            at_[i] = others_[i].get();
          }
      }
    }
  }
  Copied(const Copied&) = delete;
  void each_tensor(runtime::FunctionRef<void(Tensor&)> f) {
    for (size_t i = 0; i < arguments_.size(); ++i) {
      for (Tensor& t : tensors_[i]) f(t);
      if (others_[i]) arguments_[i].keeping->each_tensor(others_[i].get(), f);
    }
  }
  const void* const* at() const { return at_; }

 private:
  std::span<const Argument> arguments_;
  const void* at_[Routine::kMost];
  Tensors tensors_[Routine::kMost];
  TensorList lists_[Routine::kMost];
  std::shared_ptr<void> others_[Routine::kMost];
};

thread_local Recorder* recorder = nullptr;

/// f(first byte, bytes) for stretches that are elements of a tensor, and no bytes between them.
using Stretches = runtime::FunctionRef<void(char*, size_t)>;
void each_stretch(char* at, IntList sizes, IntList strides, int64_t item, Stretches f) {
  if (sizes.empty()) return f(at, static_cast<size_t>(item));
  if (sizes.size() == 1 && strides[0] == 1) return f(at, static_cast<size_t>(sizes[0] * item));
  for (int64_t i = 0; i < sizes[0]; ++i)
    each_stretch(at + i * strides[0] * item, sizes.subspan(1), strides.subspan(1), item, f);
}

/// Finds for tensors of devices others of the host. Shown all of a launch's twice: first it notes which
/// memory they span, and the second time, after that was copied, it replaces them.
class OnHost {
 public:
  void meet(Tensor& t) {
    if (!t.defined() || !t->is(TensorImpl::kElsewhere)) return;
    if (is_sparse(t)) refuse_sparse(t, "elements");
    if (is_meta(t)) refuse_meta("copy");
    if (device_of(t) == kRecorded) throw NotLaunched();
    Memory& m = memory_of(t);
    char* const owned = m.owner->data;
    if (!m.here) {
      const Stretch reached = stretch_of(t.sizes(), t.strides(), 0, t.itemsize(), "launch");
      if (reached.low == reached.high) return;
      m.low = std::min(m.low, t.bytes() - owned + reached.low * t.itemsize());
      m.high = std::max(m.high, t.bytes() - owned + reached.high * t.itemsize());
      return;
    }
    Tensor there = over(m.here, t.dtype(), t.sizes(), t.strides(), 0);
    there->data += t->data - owned;
    t = std::move(there);
  }
  void copy_in() {
    for (Memory& m : all_) {
      m.here = allocate_storage(m.owner->nbytes);
      if (m.low < m.high)
        runtime::copy_out(m.owner->device, m.here->data + m.low, m.owner->data + m.low,
                          static_cast<size_t>(m.high - m.low));
    }
  }
  void copy_back(const Tensor& t) {
    if (!t.defined() || !t->is(TensorImpl::kElsewhere)) return;
    const Memory& m = memory_of(t);
    const auto back = [&](char* at, size_t n) {
      runtime::copy_in(m.owner->device, at, m.here->data + (at - m.owner->data), n);
    };
    if (without_gaps(t)) return back(t.bytes(), static_cast<size_t>(t.numel() * t.itemsize()));
    each_stretch(t.bytes(), t.sizes(), t.strides(), t.itemsize(), back);
  }

 private:
  /// That of one storage; what is spanned of it, in bytes; and where it is here.
  struct Memory {
    Storage* owner;
    int64_t low = INT64_MAX, high = 0;
    Ref<Storage> here = {};
  };
  Memory& memory_of(const Tensor& t) {
    Storage* const owner = owner_of_bytes(t->storage);
    for (Memory& m : all_)
      if (m.owner == owner) return m;
    return all_.emplace_back(Memory{owner});
  }
  std::vector<Memory> all_;
};

}  // namespace

Recorder::Recorder() { recorder = this; }
Recorder::~Recorder() { recorder = nullptr; }

bool checked(const Tensor& t, const Routine& routine, const void* const* at) {
  if (device_of(t) != kRecorded) return false;
  recorder->launched(routine, at);
  return true;
}

void on_host(const Routine& routine, const void* const* at) {
  OnHost host;
  {
    const DeviceScope here(Device::CPU);
    Copied copied(routine, at);
    const auto meet = [&](Tensor& t) { host.meet(t); };
    copied.each_tensor(meet);
    host.copy_in();
    copied.each_tensor(meet);
    routine.call(copied.at());
  }
  for (size_t i = 0; i < routine.arguments.size(); ++i)
    for (const Tensor& t : written(routine.arguments[i].kind, at[i])) host.copy_back(t);
  launches.fetch_add(1, std::memory_order_relaxed);
}

void elsewhere(const Routine& routine, const void* const* at) {
  for (size_t i = 0; i < routine.arguments.size(); ++i)
    for (const Tensor& t : written(routine.arguments[i].kind, at[i])) {
      if (!t.defined()) continue;
      if (is_meta(t)) return;  // numbers may be on the CPU
      if (device_of(t) == kRecorded) return recorder->launched(routine, at);
      const auto* const routines = own_routines[device_kind(device_of(t))].load(std::memory_order_acquire);
      const auto own = routines ? routines->of(routine.id) : nullptr;
      if (own && own(at)) return;
    }
  on_host(routine, at);
}

void bring(Tensor& t, const Tensor& first) {
  const DeviceScope there(device_of(first));
  if (t.defined()) t = copy_of(t);
}

}  // namespace launch

void fill_recorded(const Tensor& t, const Scalar& value) { on<&fill_here>(Out(t), value); }

}  // namespace adjoint
