#include "kernels/launch.h"

#include <cstring>

#include "for_size.h"
#include "kernels/copy.h"

namespace adjoint {

void launch::run_guarded(const Tensor& out, runtime::FunctionRef<void(const Tensor&)> routine) {
  if (!out.is_contiguous()) return routine(out);
  const Tensor other = copy_of(out);
  routine(out);
  routine(other);
  if (std::memcmp(out.bytes(), other.bytes(), static_cast<size_t>(out.numel() * out.itemsize())) != 0)
    fail("a routine wrote something else when it was called again with other memory (kernels/launch.h)");
}

}  // namespace adjoint
