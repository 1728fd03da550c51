#include "kernels/slices.h"

namespace adjoint {

bool without_gaps(const Tensor& t) {
  if (t.is_contiguous()) return true;
  // Each stride must be met by the product of the sizes below it.
  uint64_t used = 0;
  int64_t expected = 1;
  for (int64_t step = 0; step < t.dim(); ++step) {
    bool found = false;
    for (int64_t d = t.dim() - 1; d >= 0 && !found; --d) {
      if (used >> d & 1) continue;
      if (t.size(d) != 1 && t.stride(d) != expected) continue;
      used |= uint64_t{1} << d;
      expected *= t.size(d);
      found = true;
    }
    if (!found) return false;
  }
  return true;
}

Tensor empty_as(const Tensor& t, DType dtype) {
  if (t.dim() == 0) return empty_scalar(dtype);
  Tensor out = empty(t.sizes(), dtype);
  if (!t.is_contiguous() && without_gaps(t)) out->set_geometry(Dims(t.sizes()), t.strides().data());
  return out;
}

Tensor laid_as(const Tensor& t, const Tensor& like, DType dtype) {
  if (t.dtype() == dtype && same(t.strides(), like.strides())) return t;
  if (t.dtype() == dtype && t.is_contiguous() && like.is_contiguous()) return t;
  Tensor out = empty_as(like, dtype);
  copy_into(out, t);
  return out;
}

Tensor packed(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype && without_gaps(t)) return t;
  return copy_of(t, dtype);
}

Slices::Slices(const Tensor& t, int64_t dim, int64_t count) {
  if (t.dim() == 0) return;
  inner = 1;
  int64_t stride = 0;
  for (int64_t d = dim; d < dim + count; ++d) {
    n *= t.size(d);
    if (t.size(d) != 1) stride = t.stride(d);
  }
  // What lies within one step of the dimension is inner.
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (d >= dim && d < dim + count) continue;
    if (stride == 0 ? d > dim : t.stride(d) < stride) inner *= t.size(d);
    else outer *= t.size(d);
  }
}

}  // namespace adjoint
