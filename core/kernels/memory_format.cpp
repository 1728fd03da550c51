#include "for_size.h"
#include "kernels/memory_format.h"

#include "kernels/copy.h"

namespace adjoint::kernels {

namespace {

/// Dimensions from the innermost outwards: channels, then the last to the second, then images.
template <class F> void from_inside(int64_t rank, F&& f) {
  f(1);
  for (int64_t d = rank - 1; d > 1; --d) f(d);
  f(0);
}

}  // namespace

bool channels_last(const Tensor& t) {
  if ((t.dim() != 4 && t.dim() != 5) || t.is_contiguous() || t.numel() == 0) return false;
  int64_t expected = 1;
  bool lies = true;
  from_inside(t.dim(), [&](int64_t d) {
    lies = lies && (t.size(d) == 1 || t.stride(d) == expected);
    expected *= t.size(d);
  });
  return lies;
}

Tensor with_channels_last(const Tensor& t) {
  Dims strides(t.sizes());
  int64_t next = 1;
  from_inside(t.dim(), [&](int64_t d) {
    strides[static_cast<size_t>(d)] = next;
    next *= std::max<int64_t>(1, t.size(d));
  });
  const Tensor room = empty(t.sizes(), t.dtype());
  const Tensor to = alias(room, t.sizes(), strides.span(), room.offset());
  copy_into(to, t);
  return to;
}

}  // namespace adjoint::kernels
