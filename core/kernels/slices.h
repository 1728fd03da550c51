// A tensor without gaps seen along one dimension, in the order in which it lies in memory: `outer` blocks of
// `n` elements, each `inner` elements apart. A transposed tensor is as good as a row-major one; results take
// its layout.
#pragma once

#include "kernels/copy.h"
#include "runtime/parallel.h"

namespace adjoint {

/// A row-major tensor of `dtype` with the same elements: `t` itself where it is one.
inline Tensor dense_as(const Tensor& t, DType dtype) {
  return t.dtype() == dtype ? dense(t) : copy_of(t, dtype);
}
/// `t` in `dtype`: itself where it is that.
inline Tensor as_dtype(const Tensor& t, DType dtype) { return t.dtype() == dtype ? t : copy_of(t, dtype); }
/// The same of a result.
inline Tensor as_dtype(Into into, const Tensor& t, DType dtype) {
  return t.dtype() == dtype ? t : copy_of(into, t, dtype);
}

/// Whether the elements lie side by side without gap or overlap, in whatever order of dimensions.
bool without_gaps(const Tensor& t);
/// A new tensor with the sizes and, where it lies without gaps, the strides of `t`.
Tensor empty_as(const Tensor& t, DType dtype);
/// The strides, without gaps, of what is computed from `inputs` element by element, which broadcast to
/// `sizes`. The dimensions lie in the order of the inputs' strides; where the first does not tell two apart,
/// the next one decides.
Dims strides_along(std::span<const Tensor> inputs, IntList sizes);
/// A new tensor with these strides.
Tensor empty_along(std::span<const Tensor> inputs, IntList sizes, DType dtype);
/// `t` itself or a copy, of `dtype` and with the strides of `like`.
Tensor laid_as(const Tensor& t, const Tensor& like, DType dtype);
/// `t` itself or a row-major copy: of `dtype`, without gaps.
Tensor packed(const Tensor& t, DType dtype);

struct Slices {
  int64_t outer = 1, n = 1, inner = 1;

  /// Of a row-major tensor.
  Slices(IntList sizes, int64_t dim) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (static_cast<int64_t>(i) < dim)
        outer *= sizes[i];
      else if (static_cast<int64_t>(i) == dim)
        n = sizes[i];
      else
        inner *= sizes[i];
    }
  }
  /// Of a tensor without gaps, along `count` neighbouring dimensions from `dim` on, themselves in row-major
  /// order.
  Slices(const Tensor& packed, int64_t dim, int64_t count = 1);

  int64_t count() const { return outer * inner; }

  /// f(slice, first) for the offset of each slice's first element, in parallel; for a row-major tensor.
  template <class F>
  void each(int64_t cost, const F& f) const {
    if (n == 0) return;
    runtime::parallel_for(0, count(), std::max<int64_t>(1, 32768 / (n * cost)), [&](int64_t b, int64_t e) {
      for (int64_t s = b; s < e; ++s) f(s, inner == 1 ? s * n : s / inner * n * inner + s % inner);
    });
  }

  /// rows(first slice, slices) where slices are runs; columns(first slice, offset, width) where they are
  /// columns, at most `most` side by side. Slices are numbered as they lie in memory. In parallel.
  template <class R, class C>
  void each_block(int64_t most, const R& rows, const C& columns) const {
    if (n == 0 || count() == 0) return;
    const int64_t grain = std::max<int64_t>(1, 16384 / n);
    if (inner == 1) {
      runtime::parallel_for(0, outer, grain, [&](int64_t b, int64_t e) { rows(b, e - b); });
      return;
    }
    const int64_t tiles = (inner - 1) / most + 1;
    runtime::parallel_for(0, outer * tiles, std::max<int64_t>(1, grain / most), [&](int64_t b, int64_t e) {
      for (int64_t t = b; t < e; ++t) {
        const int64_t o = t / tiles, j = t % tiles * most;
        columns(o * inner + j, o * n * inner + j, std::min(most, inner - j));
      }
    });
  }
};

}  // namespace adjoint
