// Views and the arithmetic of their gradients.
#include "ops/shape.h"

#include "dispatch/operator.h"
#include "kernels/copy.h"
#include "ops/reduction.h"

namespace adjoint {

Tensor sum_to_shape(const Tensor& g, IntList sizes) {
  if (same(g.sizes(), sizes)) return g;
  const size_t lead = g.sizes().size() - sizes.size();
  Dims dims;
  for (size_t i = 0; i < lead; ++i) dims.push_back(static_cast<int64_t>(i));
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] == 1 && g.sizes()[i + lead] != 1) dims.push_back(static_cast<int64_t>(i + lead));
  Tensor t = dims.empty() ? g : call<Sum>(g, OptionalInts(IntList(dims.data(), dims.size())), true, OptionalType());
  return lead ? call<Reshape>(t, sizes) : t;
}

Tensor Expand::forward(const Tensor& self, IntList size) {
  const auto from = self.sizes(), steps = self.strides();
  if (size.size() < from.size())
    fail("expand(): the number of sizes provided (", size.size(), ") must be greater or equal to the number of dimensions in the tensor (", from.size(), ")");
  const size_t lead = size.size() - from.size();
  Dims sizes(size), strides(size.size());
  for (size_t i = 0; i < size.size(); ++i) {
    if (i < lead) {
      if (size[i] < 0)
        fail("expand(): The expanded size of the tensor (", size[i], ") isn't allowed in a leading, non-existing dimension ", i);
      strides[i] = 0;
      continue;
    }
    const int64_t have = from[i - lead];
    if (size[i] == -1) sizes[i] = have;
    else if (size[i] != have && have != 1)
      fail("expand(): The expanded size of the tensor (", size[i], ") must match the existing size (", have,
           ") at non-singleton dimension ", i, ". Target sizes: ", to_string(size), ". Tensor sizes: ", to_string(from));
    strides[i] = have == 1 && sizes[i] != 1 ? 0 : steps[i - lead];
  }
  return alias(self, {sizes.data(), sizes.size()}, {strides.data(), strides.size()}, self.offset());
}

Tensor Reshape::forward(const Tensor& self, IntList shape) {
  Dims sizes(shape);
  const Tensor d = dense(self);
  const Dims strides = contiguous_strides({sizes.data(), sizes.size()});
  return alias(d, {sizes.data(), sizes.size()}, {strides.data(), strides.size()}, d.offset());
}

Tensor To::forward(const Tensor& self, DType dtype) { return copy_of(self, dtype); }

}  // namespace adjoint
