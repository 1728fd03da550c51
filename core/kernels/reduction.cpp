#include "ops/reduction.h"

#include "dispatch/operator.h"
#include "kernels/copy.h"
#include "ops/shape.h"

namespace adjoint {

Dims reduced_shape(IntList sizes, uint64_t mask, bool keepdim) {
  Dims out;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!(mask >> i & 1)) out.push_back(sizes[i]);
    else if (keepdim) out.push_back(1);
  }
  return out;
}

Tensor spread(const Tensor& g, IntList sizes, const OptionalInts& dim, bool keepdim) {
  const uint64_t mask = dim_mask(dim, static_cast<int64_t>(sizes.size()), "sum");
  Tensor t = g;
  if (!keepdim && !sizes.empty()) {
    const Dims kept = reduced_shape(sizes, mask, true);
    t = call<Reshape>(g, IntList(kept.data(), kept.size()));
  }
  return call<Expand>(t, sizes);
}

namespace kernels {
Tensor sum(const Tensor& self, uint64_t mask, bool keepdim, DType dtype) {
  const Dims shape = reduced_shape(self.sizes(), mask, keepdim);
  const Dims full_shape = reduced_shape(self.sizes(), mask, true);
  Tensor out = zeros({full_shape.data(), full_shape.size()}, dtype);
  const Tensor in = dense(self.dtype() == dtype ? self : copy_of(self, dtype));
  visit(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!is_half_v<T> && !std::is_same_v<T, bool>) {
      T* o = out.data<T>();
      const T* p = in.data<T>();
      const auto sizes = in.sizes();
      const Dims steps = contiguous_strides({full_shape.data(), full_shape.size()});
      for (int64_t i = 0, n = in.numel(); i < n; ++i) {
        int64_t rest = i, at = 0;
        for (int d = static_cast<int>(sizes.size()) - 1; d >= 0; --d) {
          if (!(mask >> d & 1)) at += rest % sizes[d] * steps[d];
          rest /= sizes[d];
        }
        o[at] = o[at] + p[i];
      }
    }
  });
  if (keepdim) return out;
  const Dims strides = contiguous_strides({shape.data(), shape.size()});
  return alias(out, {shape.data(), shape.size()}, {strides.data(), strides.size()}, 0);
}
}  // namespace kernels

}  // namespace adjoint
