#include "kernels/slices.h"

#include <algorithm>

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

namespace {

/// The stride of `t` along dimension d of a shape of `rank` dimensions that it broadcasts to; 0 where it is
/// repeated.
int64_t stride_along(const Tensor& t, int64_t d, IntList sizes) {
  d -= static_cast<int64_t>(sizes.size()) - t.dim();
  return d < 0 || (t.size(d) == 1 && sizes[d + sizes.size() - t.dim()] != 1) ? 0 : t.stride(d);
}

/// Whether dimension a is to lie further out than b: 1 if so, -1 if not, 0 where nothing decides.
int outer_than(std::span<const Tensor> inputs, int64_t a, int64_t b, IntList sizes) {
  for (const Tensor& t : inputs) {
    const int64_t sa = stride_along(t, a, sizes), sb = stride_along(t, b, sizes);
    if (sa == 0 || sb == 0) continue;
    if (sa != sb) return sa < sb ? -1 : 1;
    if (sizes[a] > sizes[b]) return 1;
  }
  return 0;
}

}  // namespace

Dims strides_along(std::span<const Tensor> inputs, IntList sizes) {
  const Tensor& first = inputs[0];
  if (std::all_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.is_contiguous(); }))
    return contiguous_strides(sizes);
  if (same(first.sizes(), sizes) && without_gaps(first) &&
      std::all_of(inputs.begin(), inputs.end(), [&](const Tensor& t) {
        return same(t.sizes(), sizes) && same(t.strides(), first.strides());
      }))
    return Dims(first.strides());
  // The dimensions from the innermost to the outermost, by insertion: the order is not total, so that one
  // must not skip.
  Dims order, strides(sizes);
  for (int64_t d = static_cast<int64_t>(sizes.size()) - 1; d >= 0; --d) order.push_back(d);
  for (size_t i = 1; i < order.size(); ++i)
    for (size_t j = i, k = i; k-- > 0;) {
      const int outer = outer_than(inputs, order[k], order[j], sizes);
      if (outer < 0) break;
      if (outer > 0) {
        std::swap(order[k], order[j]);
        j = k;
      }
    }
  int64_t stride = 1;
  for (size_t i = 0; i < order.size(); ++i) {
    strides[order[i]] = stride;
    stride *= std::max<int64_t>(1, sizes[order[i]]);
  }
  return strides;
}

[[gnu::hot]] Tensor empty_along(std::span<const Tensor> inputs, IntList sizes, DType dtype) {
  if (sizes.empty()) return empty_scalar(dtype);
  Tensor out = empty(sizes, dtype);
  if (std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return !t.is_contiguous(); }))
    out->set_geometry(Dims(sizes), strides_along(inputs, sizes).data());
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
    if (stride == 0 ? d > dim : t.stride(d) < stride)
      inner *= t.size(d);
    else
      outer *= t.size(d);
  }
}

}  // namespace adjoint
