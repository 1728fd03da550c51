// Views by new sizes and strides, and the arithmetic of their gradients. Start reading at `view_strides`.
#include "ops/shape.h"

#include "dispatch/family.h"
#include "kernels/slices.h"
#include "ops/reduction.h"
#include "tensor/device.h"

namespace adjoint {

Tensor sum_to_shape(const Tensor& g, IntList sizes) {
  if (same(g.sizes(), sizes)) return g;
  const size_t lead = g.sizes().size() - sizes.size();
  Dims dims;
  for (size_t i = 0; i < lead; ++i) dims.push_back(static_cast<int64_t>(i));
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] == 1 && g.sizes()[i + lead] != 1) dims.push_back(static_cast<int64_t>(i + lead));
  Tensor t = dims.empty() ? g : call<Sum>(g, OptionalInts(dims.span()), true, OptionalType());
  return lead ? call<Reshape>(t, sizes) : t;
}

Tensor as_type(const Tensor& t, DType dtype) {
  return !t.defined() || t.dtype() == dtype ? t : call<To>(t, dtype);
}

Tensor sum_to_value(const Tensor& g, IntList sizes) {
  if (sizes.size() <= g.sizes().size()) return sum_to_shape(g, sizes);
  return call<Reshape>(sum_to_shape(g, sizes.subspan(sizes.size() - g.sizes().size())), sizes);
}

std::optional<Dims> view_strides(IntList sizes, IntList strides, IntList shape) {
  if (product(shape) == 0) return contiguous_strides(shape);
  Dims out(shape.size());
  size_t to = shape.size();  // dimensions of `shape` from here on have their stride
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    // A run of dimensions without gaps between them: its elements, and the step between two of them.
    int64_t run = sizes[i];
    const int64_t step = strides[i];
    while (i > 0 && (sizes[i - 1] == 1 || strides[i - 1] == step * run)) run *= sizes[--i];
    // The innermost dimensions left must multiply up to the run.
    int64_t filled = 1;
    while (to > 0 && (filled < run || shape[to - 1] == 1)) {
      out[--to] = step * filled;
      filled *= shape[to];
    }
    if (filled != run) return std::nullopt;
  }
  for (; to > 0; --to) out[to - 1] = to < shape.size() ? out[to] * shape[to] : 1;
  return out;
}

Dims infer_shape(IntList shape, int64_t numel, const char* op) {
  Dims sizes(shape);
  int64_t known = 1;
  std::optional<size_t> missing;
  bool overflow = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      if (missing) fail(op, "(): only one dimension can be inferred: ", to_string(shape));
      missing = i;
    } else if (shape[i] < 0) {
      fail(op, "(): invalid shape dimension ", shape[i], " in ", to_string(shape));
    } else {
      overflow |= __builtin_mul_overflow(known, shape[i], &known);
    }
  }
  if (missing && known == 0 && numel == 0)
    fail(op, "(): cannot reshape tensor of 0 elements into shape ", to_string(shape),
         " because the unspecified dimension size -1 can be any value and is ambiguous");
  if (overflow || (missing ? known == 0 || numel % known != 0 : known != numel))
    fail(op, "(): shape '", to_string(shape), "' is invalid for input of size ", numel);
  if (missing) sizes[*missing] = numel / known;
  return sizes;
}

Dims moved_order(IntList source, IntList destination, int64_t ndim, const char* op) {
  if (source.size() != destination.size())
    fail(op, ": Invalid source or destination dims: source (", to_string(source),
         " dims) should contain the same number of dims as destination (", to_string(destination), " dims)");
  Dims order(static_cast<size_t>(ndim), -1);
  uint64_t from = 0, to = 0;
  for (size_t i = 0; i < source.size(); ++i) {
    const int s = wrap_dim(source[i], ndim, op), d = wrap_dim(destination[i], ndim, op);
    if (from >> s & 1) fail(op, ": repeated dim in `source` (", to_string(source), ")");
    if (to >> d & 1) fail(op, ": repeated dim in `destination` (", to_string(destination), ")");
    from |= uint64_t{1} << s;
    to |= uint64_t{1} << d;
    if (ndim) order[d] = s;
  }
  int next = 0;
  for (int64_t& d : order) {
    if (d >= 0) continue;
    while (from >> next & 1) ++next;
    d = next++;
  }
  return order;
}

namespace {

Tensor over_shape(const Tensor& self, IntList shape, const Dims& strides) {
  return alias(self, shape, strides.span(), self.offset());
}

Tensor permuted(const Tensor& self, IntList order) {
  Dims sizes(order.size()), strides(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    sizes[i] = self.sizes()[order[i]];
    strides[i] = self.strides()[order[i]];
  }
  return over_shape(self, sizes.span(), strides);
}

Tensor reshaped(const Tensor& self, IntList shape) {
  if (self.is_contiguous()) return over_shape(self, shape, contiguous_strides(shape));
  if (auto strides = view_strides(self.sizes(), self.strides(), shape))
    return over_shape(self, shape, *strides);
  return over_shape(copy_of(self), shape, contiguous_strides(shape));
}

}  // namespace

Tensor Expand::forward(const Tensor& self, Sizes size) {
  const auto from = self.sizes(), steps = self.strides();
  if (size.size() < from.size())
    fail("expand(): the number of sizes provided (", size.size(),
         ") must be greater or equal to the number of dimensions in the tensor (", from.size(), ")");
  const size_t lead = size.size() - from.size();
  Dims sizes(size), strides(size.size());
  for (size_t i = size.size(); i-- > 0;) {
    if (i < lead) {
      if (size[i] < 0)
        fail("expand(): The expanded size of the tensor (", size[i],
             ") isn't allowed in a leading, non-existing dimension ", i);
      // A new dimension of size 1 repeats nothing: it has the stride that unsqueeze gives it, as in torch.
      if (size[i] != 1)
        strides[i] = 0;
      else
        strides[i] = i + 1 < size.size() ? checked_multiply(sizes[i + 1], strides[i + 1], name) : 1;
      continue;
    }
    const int64_t have = from[i - lead];
    if (size[i] == -1)
      sizes[i] = have;
    else if (size[i] != have && (have != 1 || size[i] < 0))
      fail("expand(): The expanded size of the tensor (", size[i], ") must match the existing size (", have,
           ") at non-singleton dimension ", i, ". Target sizes: ", to_string(size),
           ". Tensor sizes: ", to_string(from));
    strides[i] = have == 1 && sizes[i] != 1 ? 0 : steps[i - lead];
  }
  count_of(sizes.span(), name);
  return over_shape(self, sizes.span(), strides);
}

Tensor Reshape::forward(const Tensor& self, Sizes shape) {
  const Dims sizes = infer_shape(shape, self.numel(), name);
  return reshaped(self, sizes.span());
}

Tensor View::forward(const Tensor& self, Sizes size) {
  const Dims sizes = infer_shape(size, self.numel(), name);
  const auto strides = view_strides(self.sizes(), self.strides(), sizes.span());
  if (!strides)
    fail(
        "view(): view size is not compatible with input tensor's size and stride (at least one dimension "
        "spans across two contiguous subspaces): a tensor of shape ",
        self.sizes(), " with strides ", self.strides(), " cannot be seen as ", to_string(sizes.span()),
        ". Use .reshape(...) instead.");
  return over_shape(self, sizes.span(), *strides);
}

Tensor Transpose::forward(const Tensor& self, Dim dim0, Dim dim1) {
  const int a = wrap_dim(dim0, self.dim(), name), b = wrap_dim(dim1, self.dim(), name);
  Dims sizes(self.sizes()), strides(self.strides());
  if (self.dim()) {
    std::swap(sizes[a], sizes[b]);
    std::swap(strides[a], strides[b]);
  }
  return over_shape(self, sizes.span(), strides);
}

Tensor MatrixT::forward(const Tensor& self) {
  if (self.dim() > 2) fail("t() expects a tensor with <= 2 dimensions, but self is ", self.dim(), "D");
  return self.dim() == 2 ? Transpose::forward(self, 0, 1) : alias_for_view(self);
}

Dims Permute::inverse(IntList dims) {
  Dims back(dims.size());
  const int64_t n = static_cast<int64_t>(dims.size());
  for (int64_t i = 0; i < n; ++i) back[dims[i] < 0 ? dims[i] + n : dims[i]] = i;
  return back;
}

Tensor Permute::forward(const Tensor& self, Permutation dims) {
  if (static_cast<int64_t>(dims.size()) != self.dim())
    fail(
        "permute(): number of dimensions in the tensor input does not match the length of the desired "
        "ordering of dimensions i.e. input.dim() = ",
        self.dim(), " is not equal to len(dims) = ", dims.size());
  Dims order(dims.size());
  uint64_t seen = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int d = wrap_dim(dims[i], self.dim(), name);
    if (seen >> d & 1) fail("permute(): duplicate dims are not allowed: ", to_string(dims));
    seen |= uint64_t{1} << d;
    order[i] = d;
  }
  return permuted(self, order.span());
}

Tensor MoveDim::forward(const Tensor& self, DimList source, DimList destination) {
  const Dims order = moved_order(source, destination, self.dim(), name);
  return permuted(self, order.span());
}

Tensor Squeeze::forward(const Tensor& self, OptionalDims dim) {
  const auto sizes = self.sizes(), strides = self.strides();
  uint64_t mask = 0;
  if (!dim)
    mask = ~uint64_t{0};
  else
    for (int64_t d : *dim) mask |= uint64_t{1} << wrap_dim(d, self.dim(), name);
  Dims to, steps;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1 && mask >> i & 1) continue;
    to.push_back(sizes[i]);
    steps.push_back(strides[i]);
  }
  return over_shape(self, to.span(), steps);
}

Tensor Unsqueeze::forward(const Tensor& self, NewDim dim) {
  const size_t at = static_cast<size_t>(wrap_dim(dim, self.dim() + 1, name));
  Dims sizes(self.sizes()), strides(self.strides());
  const int64_t step = at < sizes.size() ? checked_multiply(sizes[at], strides[at], name) : 1;
  sizes.insert(sizes.begin() + at, 1);
  strides.insert(strides.begin() + at, step);
  return over_shape(self, sizes.span(), strides);
}

Tensor Flatten::forward(const Tensor& self, Dim start_dim, Dim end_dim) {
  const int start = wrap_dim(start_dim, self.dim(), name), end = wrap_dim(end_dim, self.dim(), name);
  if (start > end)
    fail("flatten() has invalid args: start_dim cannot come after end_dim: they are ", start_dim.value,
         " and ", end_dim.value);
  if (self.dim() == 0) {
    const int64_t one[] = {1};
    return reshaped(self, one);
  }
  if (start == end) return self;
  Dims shape;
  for (int i = 0; i < start; ++i) shape.push_back(self.sizes()[i]);
  shape.push_back(product(self.sizes().subspan(start, end - start + 1)));
  for (int i = end + 1; i < self.dim(); ++i) shape.push_back(self.sizes()[i]);
  return reshaped(self, shape.span());
}

Tensor Unflatten::forward(const Tensor& self, Dim dim, IntList sizes) {
  const int d = wrap_dim(dim, self.dim(), name);
  if (self.dim() == 0) fail("unflatten(): a tensor without dimensions cannot be unflattened");
  if (sizes.empty()) fail("unflatten(): sizes must be non-empty");
  const int64_t have = self.sizes()[d];
  int64_t known = 1, missing = 0;
  for (int64_t s : sizes)
    if (s == -1)
      ++missing;
    else if (s < 0)
      fail("unflatten(): sizes must be non-negative but for one -1: ", to_string(sizes));
    else
      known = checked_multiply(known, s, name);
  if (missing > 1) fail("unflatten(): only one dimension can be inferred: ", to_string(sizes));
  if (missing ? known == 0 || have % known != 0 : known != have)
    fail("unflatten(): Provided sizes ", to_string(sizes), " don't multiply up to the size of dim ", d, " (",
         have, ") in the input tensor of shape ", self.sizes());
  const auto from = self.sizes();
  Dims shape(from.subspan(0, d));
  for (int64_t s : sizes) shape.push_back(s == -1 ? have / known : s);
  for (size_t i = d + 1; i < from.size(); ++i) shape.push_back(from[i]);
  return reshaped(self, shape.span());
}

Tensor Contiguous::forward(const Tensor& self) { return dense(self); }

Tensor To::forward(const Tensor& self, DType dtype) {
  const Tensor to = empty_along({&self, 1}, self.sizes(), dtype);
  copy_into(to, self);
  return to;
}

Tensor ToDevice::forward(const Tensor& self, int64_t device, int64_t) {
  if (!is_device(device)) fail<ValueError>(name, "(): there is no device number ", device);
  const DeviceScope scope(static_cast<Device>(device));
  return Clone::forward(self);
}

Tensor Clone::forward(const Tensor& self) { return To::forward(self, self.dtype()); }

// --- On batches -----------------------------------------------------------------------------------

void MatrixT::batch(BatchedCall& c, Batched<"self"> self) {
  if (self.rank() > 2) fail("t() expects a tensor with <= 2 dimensions, but self is ", self.rank(), "D");
  const bool matrix = self.rank() == 2;
  c.give(call<Transpose>(self.samples(), matrix ? 1 : 0, matrix ? 2 : 0));
}

}  // namespace adjoint

ADJOINT_FAMILY(ShapeOps)
