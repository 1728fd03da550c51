// Tensors of one value.
#include "runtime/parallel.h"
#include "runtime/repeat.h"
#include "tensor/device.h"

namespace adjoint {

void fill_here(const Tensor& t, const Scalar& value) {
  alignas(16) char bytes[16];
  write_element(bytes, t.dtype(), value);
  const int64_t item = t.itemsize();
  runtime::parallel_for(0, t.numel(), 32768, [&](int64_t b, int64_t e) {
    runtime::repeat(t.bytes() + b * item, bytes, item, e - b);
  });
}

namespace {

/// By way of the host.
[[gnu::cold, gnu::noinline]] void fill_elsewhere(const Tensor& t, const Scalar& value) {
  if (is_meta(t)) return;
  if (device_of(t) == kRecorded) return fill_recorded(t, value);
  const DeviceScope here(Device::CPU);
  const Tensor from = empty(t.sizes(), t.dtype());
  fill_here(from, value);
  runtime::copy_in(device_of(t), t.bytes(), from.bytes(), static_cast<size_t>(t.numel() * t.itemsize()));
}

}  // namespace

Tensor zeros(IntList sizes, DType dtype) { return zeroed(empty(sizes, dtype)); }
Tensor full(IntList sizes, const Scalar& value, DType dtype) { return filled(empty(sizes, dtype), value); }

Tensor zeroed(Tensor t) {
  if (t->is(TensorImpl::kElsewhere)) [[unlikely]]
    fill_elsewhere(t, Scalar(0));
  else
    runtime::parallel_for(0, t.numel() * t.itemsize(), int64_t{1} << 20, [&](int64_t b, int64_t e) {
      std::memset(t.bytes() + b, 0, static_cast<size_t>(e - b));
    });
  if (thread_state.watched) [[unlikely]]
    announce_filled(t, Scalar(0));
  return t;
}

Tensor filled(Tensor t, const Scalar& value) {
  if (t->is(TensorImpl::kElsewhere)) [[unlikely]]
    fill_elsewhere(t, value);
  else
    fill_here(t, value);
  if (thread_state.watched) [[unlikely]]
    announce_filled(t, value);
  return t;
}

Tensor scalar_tensor(const Scalar& value, DType dtype) {
  Tensor t = empty_scalar(dtype);
  if (t->is(TensorImpl::kElsewhere)) [[unlikely]]
    fill_elsewhere(t, value);
  else
    write_element(t.bytes(), dtype, value);
  if (thread_state.watched) [[unlikely]]
    announce_filled(t, value);
  return t;
}

}  // namespace adjoint
