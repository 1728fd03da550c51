// Where a call is done and its results are made: see Note: devices.
//
//   device_of     where the elements of a tensor are
//   DeviceScope   where tensors are made from here on
//   DeviceOfCall  where a call is done, by its tensors
//
// Who reads or writes elements does it by kernels/launch.h.
#pragma once

#include <atomic>

#include "state.h"
#include "tensor/tensor.h"

namespace adjoint {

/// Where the elements are; of a sparse tensor, its indices and values.
inline Device device_of(const Tensor& t) {
  return t->is(TensorImpl::kElsewhere) ? t->storage->device : Device::CPU;
}
inline bool is_meta(const Tensor& t) { return device_of(t) == Device::Meta; }

/// Whether there ever was a tensor elsewhere than on the CPU.
extern std::atomic<bool> devices_in_use;

/// New tensors are made on this device until the end of the scope.
class DeviceScope {
 public:
  explicit DeviceScope(Device d) : before_(thread_state.device) { set(d); }
  ~DeviceScope() { set(before_); }
  DeviceScope(const DeviceScope&) = delete;

 private:
  static void set(Device d) {
    thread_state.device = d;
    thread_state.flags_of_new = (thread_state.flags_of_new & ~uint32_t{TensorImpl::kElsewhere}) |
                                (d == Device::CPU ? 0u : uint32_t{TensorImpl::kElsewhere});
  }
  Device before_;
};

/// Fill a row-major tensor of the host.
void fill_here(const Tensor& t, const Scalar& value);
/// Fill one on kRecorded: a launch. Defined in kernels/, which knows what that is.
void fill_recorded(const Tensor& t, const Scalar& value);

/// Refuse, in the name of `op`, to look at elements that there are not.
[[noreturn]] void refuse_meta(const char* op);

/// Finds where a call is done from its tensors, and refuses a mixture. Numbers, and tensors of the CPU
/// without dimensions, go with any device; an operator that `crosses` devices is done where its first tensor
/// is.
class DeviceOfCall {
 public:
  explicit DeviceOfCall(const char* op, bool crosses = false) : op_(op), op_crosses_(crosses) {}
  void add(const Tensor& t);
  Device device() const { return device_; }

 private:
  const char* op_;
  bool op_crosses_, found_ = false;
  Device device_ = Device::CPU;
};

}  // namespace adjoint
