#include "kernels/launch.h"

#include <algorithm>
#include <atomic>

#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/slices.h"
#include "runtime/function_ref.h"
#include "tensor/checked.h"
#include "tensor/sparse.h"

namespace adjoint {

namespace {
std::atomic<int64_t> launches{0};
}

int64_t launches_on_host() { return launches.load(std::memory_order_relaxed); }

namespace launch {

namespace {

/// The tensors that an argument is, where a routine writes it.
TensorList written(Kind kind, const void* at) {
  if (kind == Kind::Out) return {static_cast<const Tensor*>(at), 1};
  return kind == Kind::Outs ? *static_cast<const TensorList*>(at) : TensorList();
}

/// f(first byte, bytes) for stretches that are elements of a tensor, and no bytes between them.
using Stretches = runtime::FunctionRef<void(char*, size_t)>;
void each_stretch(char* at, IntList sizes, IntList strides, int64_t item, Stretches f) {
  if (sizes.empty()) return f(at, static_cast<size_t>(item));
  if (sizes.size() == 1 && strides[0] == 1) return f(at, static_cast<size_t>(sizes[0] * item));
  for (int64_t i = 0; i < sizes[0]; ++i)
    each_stretch(at + i * strides[0] * item, sizes.subspan(1), strides.subspan(1), item, f);
}

}  // namespace

class OnHost {
 public:
  void meet(Tensor& t) {
    if (!t.defined() || !t->is(TensorImpl::kElsewhere)) return;
    if (is_sparse(t)) refuse_sparse(t, "elements");
    if (is_meta(t)) refuse_meta("copy");
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

void meet(OnHost& host, Tensor& t) { host.meet(t); }

Moved moved_list(const void* list, OnHost& host) {
  struct Kept {
    TensorList list;  // first: an address of one is that of the other
    Tensors tensors;
  };
  auto* kept = new Kept;
  const TensorList& given = *static_cast<const TensorList*>(list);
  kept->tensors.assign(given.begin(), given.end());
  for (Tensor& t : kept->tensors) host.meet(t);
  kept->list = kept->tensors;
  return {kept, [](const void* p) { delete static_cast<const Kept*>(p); }};
}

void on_host(const Routine& routine, const void* const* at) {
  OnHost host;
  const auto move = [&](size_t i) {
    return routine.arguments[i].moved ? routine.arguments[i].moved(at[i], host) : Moved(nullptr, nullptr);
  };
  {
    const DeviceScope here(Device::CPU);
    for (size_t i = 0; i < routine.arguments.size(); ++i) move(i);
    host.copy_in();
    std::vector<Moved> moved;
    const void* there[Routine::kMost];
    for (size_t i = 0; i < routine.arguments.size(); ++i) {
      moved.push_back(move(i));
      there[i] = moved[i] ? moved[i].get() : at[i];
    }
    routine.call(there);
  }
  for (size_t i = 0; i < routine.arguments.size(); ++i)
    for (const Tensor& t : written(routine.arguments[i].kind, at[i])) host.copy_back(t);
  launches.fetch_add(1, std::memory_order_relaxed);
}

void elsewhere(const Routine& routine, const void* const* at) {
  for (size_t i = 0; i < routine.arguments.size(); ++i)
    for (const Tensor& t : written(routine.arguments[i].kind, at[i]))
      if (t.defined() && is_meta(t)) return;  // numbers may be on the CPU
  on_host(routine, at);
}

void bring(Tensor& t, const Tensor& first) {
  const DeviceScope there(device_of(first));
  if (t.defined()) t = copy_of(t);
}

}  // namespace launch
}  // namespace adjoint
