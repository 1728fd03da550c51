#include "tensor/device.h"

#include <string_view>

#include "for_size.h"

namespace adjoint {

std::atomic<bool> devices_in_use{false};

void refuse_meta(const char* op) {
  if (std::string_view(op) == "item")
    fail("Tensor.item() cannot be called on meta tensors: they have a shape and no elements");
  if (std::string_view(op) == "copy") fail<NotImplemented>("Cannot copy out of meta tensor; no data!");
  fail<NotImplemented>(op,
                       "(): attempted to run this operator with Meta tensors, but what it gives depends on "
                       "the values of its inputs, which a tensor on the meta device does not have");
}

void DeviceOfCall::add(const Tensor& t) {
  const Device d = device_of(t);
  if (d == Device::CPU && t.dim() == 0) return;
  if (!found_) {
    found_ = true;
    device_ = d;
  } else if (d != device_ && !op_crosses_) {
    fail("Tensor on device ", name_of(d), " is not on the expected device ", name_of(device_), "! ", op_,
         "(): Expected all tensors to be on the same device, but found at least two devices, ",
         name_of(device_), " and ", name_of(d), "! Move them to one with .to(device)");
  }
}

}  // namespace adjoint
