// Joining tensors: shapes, types and gradients. What moves the elements is kernels/joining.h.
#include "ops/joining.h"

#include <algorithm>

#include "dispatch/family.h"
#include "kernels/joining.h"
#include "kernels/memory_format.h"
#include "ops/part.h"

namespace adjoint {

namespace {

DType common_type(TensorList tensors) {
  // As between operands of arithmetic: tensors without dimensions and bare numbers give way within a
  // category.
  DType best[2] = {DType::Bool, DType::Bool};
  bool any[2] = {};
  for (const Tensor& t : tensors) {
    const int rank = t.dim() == 0 ? 1 : 0;
    best[rank] = any[rank] ? promote(best[rank], t.dtype()) : t.dtype();
    any[rank] = true;
  }
  if (!any[0]) return best[1];
  if (!any[1] || category(best[1]) <= category(best[0])) return best[0];
  return category(best[1]) == Category::Complex && is_floating(best[0]) ? complex_dtype(best[0]) : best[1];
}

/// Whether all are images with channels innermost: their result is one, too.
bool channels_last(TensorList tensors) {
  return std::all_of(tensors.begin(), tensors.end(), kernels::channels_last);
}

/// A vector of size 0 fits beside anything, as it always has in torch.
bool skipped(const Tensor& t) { return t.dim() == 1 && t.size(0) == 0; }

}  // namespace

Tensor Cat::forward(Into into, TensorList tensors, Dim dim) {
  if (tensors.empty()) fail<ValueError>("cat(): expected a non-empty list of Tensors");
  const Tensor* first = nullptr;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].dim() == 0)
      fail("cat(): zero-dimensional tensor (at position ", i, ") cannot be concatenated; use stack()");
    if (!first && !skipped(tensors[i])) first = &tensors[i];
  }
  const DType dtype = common_type(tensors);
  if (!first) first = &tensors[0];
  const int d = wrap_dim(dim, first->dim(), name);
  Dims shape(first->sizes()), lengths;
  shape[d] = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    const bool skip = skipped(t) && first->dim() != 1;
    lengths.push_back(skip ? 0 : t.size(t.dim() == first->dim() ? d : 0));
    if (skip) continue;
    if (t.dim() != first->dim())
      fail("cat(): Tensors must have same number of dimensions: got ", first->dim(), " and ", t.dim(),
           " (at position ", i, ")");
    for (int k = 0; k < t.dim(); ++k)
      if (k != d && t.size(k) != shape[k])
        fail("cat(): Sizes of tensors must match except in dimension ", d, ". Expected size ", shape[k],
             " but got size ", t.size(k), " for tensor number ", i, " in the list.");
    shape[d] = checked_add(shape[d], lengths.back(), name);
  }
  const Tensor out = channels_last(tensors) ? kernels::empty_channels_last(shape.span(), dtype)
                                            : into.empty(shape.span(), dtype);
  kernels::join(out, tensors, d, lengths);
  return out;
}

Tensors cut_gradient(const Tensor& g, const ListSizes& sizes, int64_t dim) {
  const int d = wrap_dim(dim, g.dim(), "cat");
  Tensors out;
  out.reserve(sizes.size());
  int64_t at = 0;
  for (const Dims& s : sizes) {
    if (s.size() == 1 && s[0] == 0) {
      out.push_back(zeros(s.span(), g.dtype()));
      continue;
    }
    out.push_back(call<Narrow>(g, int64_t{d}, at, s[d]));
    at += s[d];
  }
  return out;
}

Tensor Stack::forward(Into into, TensorList tensors, NewDim dim) {
  if (tensors.empty()) fail("stack expects a non-empty TensorList");
  const Tensor& first = tensors[0];
  const int d = wrap_dim(dim, first.dim() + 1, name);
  for (size_t i = 1; i < tensors.size(); ++i)
    if (!same(tensors[i].sizes(), first.sizes()))
      fail("stack expects each tensor to be equal size, but got ", first.sizes(), " at entry 0 and ",
           tensors[i].sizes(), " at entry ", i,
           "; pad or reshape them first, or join them along a dimension that they have with cat()");
  Dims shape(first.sizes());
  Tensor out;
  if (d < first.dim() && channels_last(tensors)) {
    // As if images were joined along the dimension, which is then split in two.
    const int64_t count = static_cast<int64_t>(tensors.size()), size = shape[d];
    shape[d] = checked_multiply(size, count, name);
    const Tensor joined = kernels::empty_channels_last(shape.span(), common_type(tensors));
    Dims strides(joined.strides());
    strides.insert(strides.begin() + d, strides[d] * size);
    shape[d] = size;
    shape.insert(shape.begin() + d, count);
    out = alias(joined, shape.span(), strides.span(), joined.offset());
  } else {
    shape.insert(shape.begin() + d, static_cast<int64_t>(tensors.size()));
    out = into.empty(shape.span(), common_type(tensors));
  }
  kernels::join(out, tensors, d, Dims(tensors.size(), 1));
  return out;
}

Tensors Stack::gradient(const Tensor& g, int64_t dim) { return call_all<Unbind>(g, dim); }

}  // namespace adjoint

ADJOINT_FAMILY(Joining)
