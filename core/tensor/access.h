// The seam between what a call says of its results and what computes them: see Note: devices.
//
//   DeviceScope   where tensors are made from here on
//   Access        stands in a function of kernels/ where its results are made and memory is about to be read
//   and written.
//                 Tensors on the CPU pay one test of a flag; on the meta device there is nothing to do
//
//   const Tensor out = empty(sizes, dtype);
//   if (Access access(out); !access) return out;
#pragma once

#include <atomic>

#include "state.h"
#include "tensor/tensor.h"

namespace adjoint {

/// Where the elements are; of a sparse tensor, its indices and values.
inline Device device_of(const Tensor& t) {
  return !t->is(TensorImpl::kElsewhere) || t->storage->device == Device::Sparse ? Device::CPU
                                                                                : t->storage->device;
}

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

class [[nodiscard]] Access {
 public:
  /// To a tensor, and with it to all others on its device.
  explicit Access(const Tensor& t) : device_(t->is(TensorImpl::kElsewhere) ? begin(t) : Device::CPU) {}
  /// For what looks at elements in order to know its result: refuses a tensor without elements, in the name
  /// of `op`.
  Access(const Tensor& t, const char* op)
      : device_(t->is(TensorImpl::kElsewhere) ? begin(t, op) : Device::CPU) {}
  ~Access() {
    if (device_ == Device::Guarded) [[unlikely]]
      end();
  }
  Access(const Access&) = delete;
  /// False where there is no memory.
  explicit operator bool() const { return device_ != Device::Meta; }

 private:
  static Device begin(const Tensor& t);
  static Device begin(const Tensor& t, const char* op);
  static void end() noexcept;
  Device device_;
};

/// Addresses of no memory: what is launched there is shown, and not done (kernels/launch.h). Users know none.
inline constexpr Device kRecorded{static_cast<uint8_t>(Device::Sparse) + 1};
/// Fill a tensor there: a launch. Defined in kernels/, which knows what that is.
void fill_recorded(const Tensor& t, const Scalar& value);
/// Thrown where elements there would be reached otherwise.
struct NotLaunched {};

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
