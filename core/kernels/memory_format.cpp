#include "kernels/memory_format.h"

#include "for_size.h"
#include "kernels/copy.h"

namespace adjoint::kernels {

namespace {

/// Dimensions from the innermost outwards: channels, then the last to the second, then images.
template <class F>
void from_inside(int64_t rank, F&& f) {
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
    // One image lies so where its stride would be that of several: a part of a batch with a new dimension in
    // front does not.
    lies = lies && (t.size(d) == 1 ? t.stride(d) >= expected : t.stride(d) == expected);
    expected *= t.size(d);
  });
  return lies;
}

bool channels_innermost(const Tensor& t) {
  if ((t.dim() != 4 && t.dim() != 5) || t.is_contiguous() || t.numel() == 0 || t.stride(1) == 0) return false;
  int64_t least = 0;
  bool grow = true;
  from_inside(t.dim(), [&](int64_t d) {
    grow = grow && t.stride(d) >= least && !(d == 0 && least == t.stride(1));
    least = t.stride(d) * t.size(d);
  });
  return grow;
}

Tensor empty_channels_last(IntList sizes, DType dtype) {
  Dims strides(sizes);
  int64_t next = 1;
  from_inside(static_cast<int64_t>(sizes.size()), [&](int64_t d) {
    strides[static_cast<size_t>(d)] = next;
    next *= std::max<int64_t>(1, sizes[static_cast<size_t>(d)]);
  });
  Tensor out = empty(sizes, dtype);
  out->set_geometry(Dims(sizes), strides.data());
  return out;
}

Tensor with_channels_last(const Tensor& t) {
  const Tensor to = empty_channels_last(t.sizes(), t.dtype());
  copy_into(to, t);
  return to;
}

}  // namespace adjoint::kernels
