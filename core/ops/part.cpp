// Views of a part of a tensor and the operators of their gradients. Start reading at `Part` in ops/part.h.
#include "ops/part.h"

#include <algorithm>

#include "dispatch/family.h"
#include "kernels/copy.h"
#include "kernels/part.h"
#include "ops/arithmetic.h"
#include "ops/joining.h"
#include "ops/selection.h"
#include "ops/shape.h"
#include "tensor/number.h"

namespace adjoint {

Part whole(IntList sizes) { return {Dims(sizes), contiguous_strides(sizes), 0}; }
Part whole(const Tensor& t) { return {Dims(t.sizes()), Dims(t.strides()), t.offset()}; }

Tensor view_of(const Tensor& self, const Part& part) {
  return alias(self, part.sizes.span(), part.strides.span(), part.offset);
}

Part selected(const Part& p, int64_t dim, int64_t index, const char* op) {
  if (p.sizes.empty()) fail<IndexError>(op, "() cannot be applied to a 0-dim tensor.");
  const int d = wrap_dim(dim, static_cast<int64_t>(p.sizes.size()), op);
  const int64_t size = p.sizes[d];
  if (index < -size || index >= size)
    fail<IndexError>(op, "(): index ", index, " out of range for tensor of size ", to_string(p.sizes.span()),
                     " at dimension ", d);
  Part out = p;
  out.offset += (index < 0 ? index + size : index) * p.strides[d];
  out.sizes.erase(out.sizes.begin() + d);
  out.strides.erase(out.strides.begin() + d);
  return out;
}

Part narrowed(const Part& p, int64_t dim, int64_t start, int64_t length, const char* op) {
  if (p.sizes.empty()) fail(op, "() cannot be applied to a 0-dim tensor.");
  const int d = wrap_dim(dim, static_cast<int64_t>(p.sizes.size()), op);
  const int64_t size = p.sizes[d];
  if (length < 0) fail(op, "(): length must be non-negative, but got ", length);
  if (start < -size || start > size)
    fail<IndexError>(op, "(): start out of range (expected to be in range of [", -size, ", ", size,
                     "], but got ", start, ")");
  const int64_t first = start < 0 ? start + size : start;
  if (first > size - length)
    fail(op, "(): start (", first, ") + length (", length, ") exceeds dimension size (", size, ").");
  Part out = p;
  out.offset += first * p.strides[d];
  out.sizes[d] = length;
  return out;
}

Part diagonal_of(const Part& p, int64_t offset, int64_t dim1, int64_t dim2, const char* op) {
  const int64_t n = static_cast<int64_t>(p.sizes.size());
  const int a = wrap_dim(dim1, n, op), b = wrap_dim(dim2, n, op);
  if (a == b) fail(op, "(): diagonal dimensions cannot be identical ", dim1, ", ", dim2);
  const int64_t rows = p.sizes[a], columns = p.sizes[b];
  const int64_t length =
      std::max<int64_t>(0, offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns));
  Part out;
  out.offset = p.offset;
  if (length) out.offset += offset >= 0 ? offset * p.strides[b] : -offset * p.strides[a];
  for (int i = 0; i < n; ++i) {
    if (i == a || i == b) continue;
    out.sizes.push_back(p.sizes[i]);
    out.strides.push_back(p.strides[i]);
  }
  out.sizes.push_back(length);
  out.strides.push_back(checked_add(p.strides[a], p.strides[b], op));
  return out;
}

Part windows_of(const Part& p, int64_t dim, int64_t size, int64_t step, const char* op) {
  const int d = wrap_dim(dim, static_cast<int64_t>(p.sizes.size()), op);
  const int64_t have = p.sizes.empty() ? 1 : p.sizes[d];
  if (size < 0) fail(op, "(): size is ", size, " but must be >= 0");
  if (size > have)
    fail(op, "(): maximum size for tensor at dimension ", d, " is ", have, " but size is ", size);
  if (step <= 0) fail(op, "(): step is ", step, " but must be > 0");
  Part out = p;
  const int64_t stride = p.sizes.empty() ? 1 : p.strides[d];
  if (!p.sizes.empty()) {
    out.sizes[d] = (have - size) / step + 1;
    out.strides[d] = checked_multiply(step, stride, op);
  }
  out.sizes.push_back(size);
  out.strides.push_back(stride);
  return out;
}

namespace {

// Each part is a tensor: a count that a caller chose is refused before the memory for them is gone.
void check_parts(int64_t parts, const char* op) {
  constexpr int64_t most = int64_t{1} << 24;
  if (parts > most) fail(op, "(): ", parts, " parts were asked for, but one call gives at most ", most);
}

/// The range of positions [low, high) that a part reaches; empty for one without elements.
std::pair<int64_t, int64_t> reach(const Part& p) {
  const Stretch s = stretch_of(p.sizes.span(), p.strides.span(), p.offset, 1, "as_strided");
  return {s.low, s.high};
}

// Of a part that was worked out elsewhere.
void check_inside(IntList size, IntList stride, int64_t offset, int64_t numel, int64_t item, const char* op) {
  if (size.size() != stride.size())
    fail(op, "(): ", size.size(), " sizes need as many strides, not ", stride.size());
  const bool some = count_of(size, op) != 0;
  const Stretch s = stretch_of(size, stride, offset, item, op);
  if (some && (s.low < 0 || s.high > numel))
    fail(op, "(): the elements from ", s.low, " to ", s.high, " are out of bounds for a tensor of ", numel);
}

}  // namespace

Tensor TakeStrided::forward(const Tensor& self, MemoryInts size, MemoryInts stride, int64_t offset) {
  const Tensor d = dense(self);
  check_inside(size, stride, offset, d.numel(), d.itemsize(), name);
  return alias(d, size, stride, d.offset() + offset);
}

Tensor PutStrided::forward(const Tensor& self, Sizes shape, MemoryInts size, MemoryInts stride,
                           int64_t offset) {
  check_inside(size, stride, offset, count_of(shape, name), self.itemsize(), name);
  if (!same(size, self.sizes()))
    fail(name, "(): a tensor of shape ", self.sizes(), " was given for a part of shape ", to_string(size));
  Tensor out = zeros(shape, self.dtype());
  if (self.numel() != 0) kernels::put_strided(out, size, stride, offset, self);
  return out;
}

Tensor put_part(const Tensor& g, IntList sizes, const Part& part) {
  return call<PutStrided>(g, sizes, part.sizes.span(), part.strides.span(), part.offset);
}

Tensor take_part(const Tensor& t, const Part& part) {
  return call<TakeStrided>(t, part.sizes.span(), part.strides.span(), part.offset);
}

Tensor Select::forward(const Tensor& self, Dim dim, int64_t index) {
  return view_of(self, selected(whole(self), dim, index, name));
}

Tensor Narrow::forward(const Tensor& self, Dim dim, int64_t start, int64_t length) {
  return view_of(self, narrowed(whole(self), dim, start, length, name));
}

Tensors Unbind::forward(const Tensor& self, Dim dim) {
  if (self.dim() == 0)
    fail<IndexError>("unbind(): Dimension specified as ", dim.value, " but tensor has no dimensions");
  const int d = wrap_dim(dim, self.dim(), name);
  Tensors out;
  const int64_t size = self.size(d), step = self.stride(d);
  if (size == 0) return out;
  check_parts(size, name);
  out.reserve(static_cast<size_t>(size));
  Part p = selected(whole(self), d, 0, name);
  for (int64_t i = 0; i < size; ++i, p.offset += step) out.push_back(view_of(self, p));
  return out;
}

namespace {

int cut_dim(const Tensor& self, int64_t dim, const char* op) {
  if (self.dim() == 0) fail(op, "(): expected at least a 1-dimensional tensor");
  return wrap_dim(dim, self.dim(), op);
}

Tensors cut(const Tensor& self, IntList lengths, int d) {
  Tensors out;
  out.reserve(lengths.size());
  Part p = whole(self);
  const int64_t step = p.strides[d];
  for (int64_t n : lengths) {
    p.sizes[d] = n;
    out.push_back(view_of(self, p));
    p.offset += n * step;
  }
  return out;
}

Dims equal_lengths(int64_t size, int64_t each) {
  Dims lengths;
  check_parts(size / each, "split");
  for (int64_t at = 0; at < size; at += std::min(each, size - at))
    lengths.push_back(std::min(each, size - at));
  if (lengths.empty()) lengths.push_back(0);
  return lengths;
}

}  // namespace

Tensors SplitSizes::forward(const Tensor& self, IntList split_sizes, Dim dim) {
  const int d = cut_dim(self, dim, "split_with_sizes");
  int64_t sum = 0;
  for (int64_t n : split_sizes) {
    if (n < 0)
      fail("split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=",
           to_string(split_sizes));
    sum = checked_add(sum, n, "split_with_sizes");
  }
  if (sum != self.size(d))
    fail("split_with_sizes expects split_sizes to sum exactly to ", self.size(d),
         " (input tensor's size at dimension ", d, "), but got split_sizes=", to_string(split_sizes));
  return cut(self, split_sizes, d);
}

Dims SplitEvery::lengths(int64_t size, int64_t split_size) {
  return split_size == 0 ? Dims{0} : equal_lengths(size, split_size);
}

Tensors SplitEvery::forward(const Tensor& self, int64_t split_size, Dim dim) {
  const int d = cut_dim(self, dim, "split");
  if (split_size < 0) fail("split expects split_size be non-negative, but got split_size=", split_size);
  if (split_size == 0 && self.size(d) != 0)
    fail("split: split_size can only be 0 if dimension size is 0, but got dimension size of ", self.size(d));
  return cut(self, lengths(self.size(d), split_size).span(), d);
}

Dims Chunk::lengths(int64_t size, int64_t chunks) {
  // An empty dimension still gives the number of chunks asked for.
  if (size != 0) return equal_lengths(size, (size - 1) / chunks + 1);
  check_parts(chunks, name);
  return Dims(static_cast<size_t>(chunks), 0);
}

Tensors Chunk::forward(const Tensor& self, int64_t chunks, Dim dim) {
  const int d = cut_dim(self, dim, name);
  if (chunks <= 0) fail("chunk expects `chunks` to be greater than 0, got: ", chunks);
  return cut(self, lengths(self.size(d), chunks).span(), d);
}

namespace {

/// The number of gradients that arrived, and the last of them.
std::pair<size_t, size_t> arrived(const Tensors& gs) {
  size_t n = 0, last = 0;
  for (size_t i = 0; i < gs.size(); ++i)
    if (gs[i].defined()) ++n, last = i;
  return {n, last};
}

}  // namespace

Tensor join_pieces(Tensors gs, IntList sizes, IntList lengths, int64_t dim) {
  const int d = wrap_dim(dim, static_cast<int64_t>(sizes.size()), "split");
  const auto [n, last] = arrived(gs);
  if (n == 0) return {};
  if (n == 1) {
    int64_t start = 0;
    for (size_t i = 0; i < last; ++i) start += lengths[i];
    return put_part(gs[last], sizes, narrowed(whole(sizes), d, start, lengths[last], "split"));
  }
  Dims shape(sizes);
  for (size_t i = 0; i < gs.size(); ++i) {
    if (gs[i].defined()) continue;
    shape[d] = lengths[i];
    gs[i] = zeros(shape.span(), gs[last].dtype());
  }
  return call<Cat>(TensorList(gs), int64_t{d});
}

Tensor join_slices(Tensors gs, IntList sizes, int64_t dim) {
  const int d = wrap_dim(dim, static_cast<int64_t>(sizes.size()), "unbind");
  const auto [n, last] = arrived(gs);
  if (n == 0) return {};
  if (n == 1)
    return put_part(gs[last], sizes, selected(whole(sizes), d, static_cast<int64_t>(last), "unbind"));
  Tensor nothing;
  for (Tensor& g : gs) {
    if (g.defined()) continue;
    if (!nothing.defined()) nothing = zeros(gs[last].sizes(), gs[last].dtype());
    g = nothing;
  }
  return call<Stack>(TensorList(gs), int64_t{d});
}

Tensor Diagonal::forward(const Tensor& self, int64_t offset, Dim dim1, Dim dim2) {
  return view_of(self, diagonal_of(whole(self), offset, dim1, dim2, name));
}

Tensor Unfold::forward(const Tensor& self, Dim dimension, int64_t size, int64_t step) {
  return view_of(self, windows_of(whole(self), dimension, size, step, name));
}

Tensor AsStrided::forward(const Tensor& self, MemoryInts size, MemoryInts stride,
                          std::optional<int64_t> storage_offset) {
  if (size.size() != stride.size())
    fail("as_strided(): mismatch in length of strides and shape: ", to_string(stride), " and ",
         to_string(size));
  const int64_t offset = storage_offset.value_or(self.offset());
  if (offset < 0) fail("as_strided(): Tensor: invalid storage offset ", offset);
  count_of(size, name);
  for (int64_t s : stride)
    if (s < 0)
      fail("as_strided(): Negative strides are not supported at the moment, got strides: ",
           to_string(stride));
  const Part part{Dims(size), Dims(stride), offset};
  const Stretch reached = stretch_of(size, stride, offset, self.itemsize(), name);
  const int64_t bytes = reached.high * self.itemsize();
  if (reached.high != reached.low && bytes > static_cast<int64_t>(self->storage->nbytes))
    fail("as_strided(): setStorage: sizes ", to_string(size), ", strides ", to_string(stride),
         ", storage offset ", offset, ", and itemsize ", self.itemsize(), " requiring a storage size of ",
         bytes, " are out of bounds for storage of size ", self->storage->nbytes);
  return view_of(self, part);
}

Tensor as_strided_gradient(const Tensor& g, const LayoutOfInput& input, const Part& part) {
  const Part in{input.sizes, input.strides, input.offset};
  const auto [in_low, in_high] = reach(in);
  const auto [low, high] = reach(part);
  if (low == high) return put_part(g, in.sizes.span(), {part.sizes, part.strides, 0});  // no element
  if (same(in.strides.span(), contiguous_strides(in.sizes.span()).span()) && low >= in_low && high <= in_high)
    return put_part(g, in.sizes.span(), {part.sizes, part.strides, part.offset - in_low});
  // Through the stretch of storage that both reach. An element of it that the input shows several times
  // shares its gradient among them.
  const int64_t start = std::min(low, in_low), n = std::max(high, in_high) - start;
  const int64_t stretch[] = {n};
  Tensor storage = put_part(g, stretch, {part.sizes, part.strides, part.offset - start});
  const Part back{in.sizes, in.strides, in.offset - start};
  if (kernels::may_overlap(in.sizes.span(), in.strides.span())) {
    const Tensor ones = full(in.sizes.span(), Scalar(1.0), real_dtype(g.dtype()));
    const Tensor times = put_part(ones, stretch, back);
    storage = call<Div>(storage, call<Maximum>(times, wrap_number(Scalar(1.0), times.dtype())));
  }
  return take_part(storage, back);
}

// --- Complex numbers ------------------------------------------------------------------------------

namespace {

/// A complex tensor's numbers as reals: strides and offset doubled.
Part as_pairs(const Tensor& t) {
  Part p = whole(t);
  for (int64_t& s : p.strides) s *= 2;
  p.offset *= 2;
  return p;
}

Tensor retyped(const Tensor& t, DType dtype, const Part& p) {
  return over(Ref<Storage>::share(t->storage), dtype, p.sizes.span(), p.strides.span(), p.offset);
}

}  // namespace

Tensor times_i(const Tensor& t) { return call<Mul>(t, Scalar(Complex<double>(0, 1))); }

Tensor Real::forward(const Tensor& self) {
  return self.is_complex() ? retyped(self, real_dtype(self.dtype()), as_pairs(self)) : self;
}

Tensor Imag::forward(const Tensor& self) {
  if (!self.is_complex())
    fail("imag is not implemented for tensors with non-complex dtypes: imag() got a tensor of type ",
         name_of(self.dtype()));
  Part p = as_pairs(self);
  p.offset += 1;
  return retyped(self, real_dtype(self.dtype()), p);
}

Tensor ViewAsReal::forward(const Tensor& self) {
  if (!self.is_complex())
    fail("view_as_real is only supported for complex tensors, but got a tensor of type ",
         name_of(self.dtype()));
  Part p = as_pairs(self);
  p.sizes.push_back(2);
  p.strides.push_back(1);
  return retyped(self, real_dtype(self.dtype()), p);
}

Tensor ViewAsReal::gradient(const Tensor& g) {
  // Pairs, which begin at an even place.
  return call<ViewAsComplex>(g.is_contiguous() && g.offset() % 2 ? call<Clone>(g) : call<Contiguous>(g));
}

Tensor ViewAsComplex::forward(const Tensor& self) {
  if (self.dtype() != DType::Float32 && self.dtype() != DType::Float64)
    fail("view_as_complex is only supported for float32 and float64 tensors, but got a tensor of type ",
         name_of(self.dtype()));
  if (self.dim() == 0) fail("view_as_complex(): Input tensor must have one or more dimensions");
  Part p = whole(self);
  if (self.numel() == 0) p.strides = contiguous_strides(self.sizes());  // of no elements, all are right
  if (p.sizes.back() != 2)
    fail("view_as_complex(): Tensor must have a last dimension of size 2, but its shape is ", self.sizes());
  if (p.strides.back() != 1)
    fail("view_as_complex(): Tensor must have a last dimension with stride 1, but its strides are ",
         self.strides());
  p.sizes.pop_back();
  p.strides.pop_back();
  for (size_t i = 0; i < p.strides.size(); ++i) {
    if (p.strides[i] % 2 != 0 && p.sizes[i] > 1)
      fail(
          "view_as_complex(): Tensor must have a stride divisible by 2 for all but last dimension, but its "
          "strides are ",
          self.strides());
    p.strides[i] /= 2;
  }
  if (p.offset % 2 != 0)
    fail("view_as_complex(): Tensor must have a storage_offset divisible by 2, but it is ", p.offset);
  p.offset /= 2;
  return retyped(self, complex_dtype(self.dtype()), p);
}

// --- On batches -----------------------------------------------------------------------------------
//
// (Cold: compiled for size.)

[[gnu::cold]] static Dims with_first(int64_t first, IntList rest) {
  Dims all(rest);
  all.insert(all.begin(), first);
  return all;
}

[[gnu::cold]] void TakeStrided::batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "size"> size,
                                      Argument<IntList, "stride"> stride,
                                      Argument<int64_t, "offset"> offset) {
  c.give(call<TakeStrided>(self.samples(), c.with_batch(size).span(),
                           with_first(self.tensor.numel(), stride).span(), offset));
}

[[gnu::cold]] void PutStrided::batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "shape"> shape,
                                     Argument<IntList, "size"> size, Argument<IntList, "stride"> stride,
                                     Argument<int64_t, "offset"> offset) {
  c.give(call<PutStrided>(self.samples(), c.with_batch(shape).span(), c.with_batch(size).span(),
                          with_first(product(shape), stride).span(), offset));
}

[[gnu::cold]] void ViewAsComplex::batch(BatchedCall& c, Batched<"self"> self) {
  if (self.rank() == 0) fail("view_as_complex(): Input tensor must have one or more dimensions");
  batching::leading(c);
}

[[gnu::cold]] void AsStrided::batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "size"> size,
                                    Argument<IntList, "stride"> stride,
                                    Argument<std::optional<int64_t>, "storage_offset"> given) {
  const Tensor samples = self.samples();
  const int64_t offset = given.value.value_or(samples.offset());
  const IntList own_size = self.sizes(), own_stride = self.tensor.strides();
  if (size.value.size() != stride.value.size())
    fail("vmap: as_strided(): size and stride must have the same length, but they are ", to_string(size),
         " and ", to_string(stride));
  // Each sample is to see itself alone: what the first may see says it for all, which lie alike.
  const auto last = [](IntList sizes, IntList strides, int64_t at) {
    for (size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i] == 0)
        return int64_t{-1};
      else
        at += (sizes[i] - 1) * strides[i];
    return at;
  };
  const int64_t wanted = last(size, stride, offset);
  if (wanted >= 0 && c.size > 0 &&
      (offset < samples.offset() || wanted > last(own_size, own_stride, samples.offset())))
    fail("vmap: as_strided() with sizes ", to_string(size), ", strides ", to_string(stride),
         " and storage offset ", offset, " sees more than the elements of one sample, whose sizes are ",
         to_string(own_size), ", strides ", to_string(own_stride), " and storage offset ", samples.offset(),
         ". This is not supported inside of vmap");
  c.give(call<AsStrided>(samples, c.with_batch(size).span(), with_first(samples.stride(0), stride).span(),
                         std::optional(offset)));
}

}  // namespace adjoint

ADJOINT_FAMILY(PartOps)
