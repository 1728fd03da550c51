// A dense tensor seen along one dimension: `outer` blocks of `n` elements, each `inner` elements apart.
#pragma once

#include "kernels/copy.h"
#include "runtime/parallel.h"

namespace adjoint {

struct Slices {
  int64_t outer = 1, n = 1, inner = 1;

  Slices(IntList sizes, int64_t dim) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (static_cast<int64_t>(i) < dim) outer *= sizes[i];
      else if (static_cast<int64_t>(i) == dim) n = sizes[i];
      else inner *= sizes[i];
    }
  }
  int64_t count() const { return outer * inner; }

  /// f(first) for the offset of each slice's first element, in parallel.
  template <class F> void each(int64_t cost, const F& f) const {
    if (n == 0) return;
    runtime::parallel_for(0, count(), std::max<int64_t>(1, 32768 / (n * cost)), [&](int64_t b, int64_t e) {
      for (int64_t s = b; s < e; ++s) f(s, inner == 1 ? s * n : s / inner * n * inner + s % inner);
    });
  }
};

/// A row-major tensor of `dtype` with the same elements: `t` itself where it is one.
inline Tensor dense_as(const Tensor& t, DType dtype) { return t.dtype() == dtype ? dense(t) : copy_of(t, dtype); }
/// `t` in `dtype`: itself where it is that.
inline Tensor as_dtype(const Tensor& t, DType dtype) { return t.dtype() == dtype ? t : copy_of(t, dtype); }

}  // namespace adjoint
