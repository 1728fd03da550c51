// Copies in another order or number. Most are one strided copy between cleverly shaped views of source and
// result.
#include "ops/rearranging.h"

#include "dispatch/constants.h"
#include "dispatch/family.h"
#include "for_size.h"
#include "kernels/memory_format.h"
#include "kernels/padding.h"
#include "kernels/rearranging.h"
#include "kernels/slices.h"
#include "ops/indexing.h"
#include "ops/part.h"
#include "ops/reduction.h"
#include "ops/shape.h"
#include "tensor/number.h"

namespace adjoint {

Dims negated(IntList values) {
  Dims out(values);
  for (int64_t& v : out) v = checked_subtract(0, v, "roll");
  return out;
}

Dims padded_with_ones(IntList values, size_t ndim) {
  Dims out;
  for (size_t i = values.size(); i < ndim; ++i) out.push_back(1);
  for (int64_t v : values) out.push_back(v);
  return out;
}

Tensor Attach::forward(const Tensor& self, const Tensor&) { return copy_of(self); }

Tensor Flip::forward(Into into, const Tensor& self, DimList dims) {
  const uint64_t mask = dims.empty() ? 0 : dim_mask(dims, self.dim(), name);
  const Tensor out = self.is_contiguous() ? into.empty(self.sizes(), self.dtype())
                                          : empty_along({&self, 1}, self.sizes(), self.dtype());
  kernels::flip(out, self, mask);
  return out;
}

Tensor Roll::forward(const Tensor& self, IntList shifts, DimList dims) {
  if (shifts.empty()) fail("roll(): `shifts` required");
  if (dims.empty() && shifts.size() == 1) {
    const int64_t flat[] = {self.numel()}, zero[] = {0};
    if (self.dim() == 1) return forward(self, shifts, zero);
    const Tensor rolled = forward(Reshape::forward(self, flat), shifts, zero);
    return alias(rolled, self.sizes(), contiguous_strides(self.sizes()).span(), 0);
  }
  if (shifts.size() != dims.size())
    fail("roll(): shifts and dimensions must align. shifts: ", shifts.size(), ", dims:", dims.size());
  Dims shift(self.sizes().size());
  Dims moved;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int d = wrap_dim(dims[i], self.dim(), name);
    if (self.dim() == 0)
      fail<IndexError>("roll(): Dimension specified as ", dims[i], " but tensor has no dimensions");
    if (const int64_t size = self.size(d)) shift[d] = (shift[d] + shifts[i] % size) % size;
  }
  if (self.numel() == 0) return empty(self.sizes(), self.dtype());
  for (size_t d = 0; d < shift.size(); ++d) {
    const int64_t size = self.sizes()[d];
    shift[d] = (shift[d] + size) % size;
    if (shift[d]) moved.push_back(static_cast<int64_t>(d));
  }
  // As in torch, images whose channels are innermost keep that order where each shift moves something.
  const bool last = moved.size() == dims.size() && kernels::channels_last(self);
  const Tensor out =
      last ? kernels::empty_channels_last(self.sizes(), self.dtype()) : empty(self.sizes(), self.dtype());
  // Each dimension that moves is two blocks, which change places.
  for (uint64_t corner = 0; corner < uint64_t{1} << moved.size(); ++corner) {
    Part from = whole(self), to = whole(out);
    for (size_t i = 0; i < moved.size(); ++i) {
      const int64_t d = moved[i], size = self.sizes()[d], k = shift[d];
      if (corner >> i & 1) {  // the last k come first
        from = narrowed(from, d, size - k, k, name);
        to = narrowed(to, d, 0, k, name);
      } else {
        from = narrowed(from, d, 0, size - k, name);
        to = narrowed(to, d, k, size - k, name);
      }
    }
    copy_into(view_of(out, to), view_of(self, from));
  }
  return out;
}

namespace {

/// Images of many channels, as wide as they are, and those of few: the same elements, which r × r blocks of
/// channels, or of pixels, hold. `few` is the shape of the latter.
Tensor shuffled(const Tensor& self, IntList sizes, IntList few, int64_t r, bool to_pixels) {
  // Images whose channels are innermost keep that order.
  const Tensor out = kernels::channels_last(self) ? kernels::empty_channels_last(sizes, self.dtype())
                                                  : empty(sizes, self.dtype());
  // Small images are moved as they come: to plan a copy of six dimensions would take longer.
  constexpr int64_t kSmall = 4096;
  if (out.numel() > 0 && out.numel() <= kSmall && self.is_contiguous() && out.is_contiguous()) {
    kernels::shuffle_pixels(out, self, few, r, to_pixels);
    return out;
  }
  const size_t lead = few.size() - 3;
  const int64_t c = few[lead], h = few[lead + 1] / r, w = few[lead + 2] / r;
  const auto seen = [&](const Tensor& t, bool pixels) {
    const IntList s = t.strides();
    Dims shape(few.first(lead)), strides(s.first(lead));
    const int64_t down = pixels ? s[lead + 1] : s[lead] * r, across = pixels ? s[lead + 2] : s[lead],
                  step = pixels ? r : 1;
    for (const auto& [size, stride] : {std::pair{c, pixels ? s[lead] : s[lead] * r * r},
                                       {h, s[lead + 1] * step},
                                       {r, down},
                                       {w, s[lead + 2] * step},
                                       {r, across}}) {
      shape.push_back(size);
      strides.push_back(stride);
    }
    return alias(t, shape.span(), strides.span(), t.offset());
  };
  copy_into(seen(out, to_pixels), seen(self, !to_pixels));
  return out;
}

void need_images(const Tensor& self, int64_t factor, const char* op, const char* what) {
  if (self.dim() < 3)
    fail(op, " expects input to have at least 3 dimensions, but got input with ", self.dim(),
         " dimension(s)");
  if (factor <= 0) fail(op, " expects a positive ", what, ", but got ", factor);
}

}  // namespace

Tensor PixelShuffle::forward(const Tensor& self, int64_t r) {
  need_images(self, r, "pixel_shuffle", "upscale_factor");
  const int64_t block = checked_multiply(r, r, name);
  if (self.size(-3) % block)
    fail(
        "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
        "upscale_factor, "
        "but input.size(-3)=",
        self.size(-3), " is not divisible by ", block);
  Dims sizes(self.sizes());
  int64_t* const last = sizes.data() + sizes.size() - 3;
  last[0] /= block;
  last[1] = checked_multiply(last[1], r, name);
  last[2] = checked_multiply(last[2], r, name);
  return shuffled(self, sizes.span(), sizes.span(), r, true);
}

Tensor PixelUnshuffle::forward(const Tensor& self, int64_t r) {
  need_images(self, r, "pixel_unshuffle", "downscale_factor");
  for (const int d : {-2, -1})
    if (self.size(d) % r)
      fail("pixel_unshuffle expects ", d == -2 ? "height" : "width",
           " to be divisible by downscale_factor, but input.size(", d, ")=", self.size(d),
           " is not divisible by ", r);
  Dims sizes(self.sizes());
  int64_t* const last = sizes.data() + sizes.size() - 3;
  last[0] = checked_multiply(last[0], checked_multiply(r, r, name), name);
  last[1] /= r;
  last[2] /= r;
  return shuffled(self, sizes.span(), self.sizes(), r, false);
}

Tensor Repeat::forward(const Tensor& self, Repeats repeats) {
  const size_t n = repeats.size(), lead = n - self.sizes().size();
  if (n < self.sizes().size())
    fail(
        "repeat(): Number of dimensions of repeat dims can not be smaller than number of dimensions of "
        "tensor: ",
        n, " < ", self.dim());
  Dims shape, pairs, from;
  for (size_t i = 0; i < n; ++i) {
    if (repeats[i] < 0)
      fail("repeat(): Trying to create tensor with negative dimension ", repeats[i], ": ",
           to_string(repeats));
    const int64_t size = i < lead ? 1 : self.sizes()[i - lead];
    shape.push_back(checked_multiply(repeats[i], size, name));
    pairs.push_back(repeats[i]);
    pairs.push_back(size);
    from.push_back(0);
    from.push_back(i < lead ? 0 : self.strides()[i - lead]);
  }
  const Tensor out = empty(shape.span(), self.dtype());
  copy_into(alias(out, pairs.span(), contiguous_strides(pairs.span()).span(), 0),
            alias(self, pairs.span(), from.span(), self.offset()));
  return out;
}

Tensor sum_repeats(const Tensor& g, IntList sizes, IntList repeats) {
  Dims pairs, repeated;
  const size_t lead = repeats.size() - sizes.size();
  for (size_t i = 0; i < repeats.size(); ++i) {
    repeated.push_back(static_cast<int64_t>(2 * i));
    pairs.push_back(repeats[i]);
    pairs.push_back(i < lead ? 1 : sizes[i - lead]);
  }
  if (repeats.empty()) return g;
  return call<Reshape>(
      call<Sum>(call<Reshape>(g, pairs.span()), OptionalInts(repeated.span()), false, OptionalType()), sizes);
}

Tensor RepeatInterleave::forward(const Tensor& self, int64_t repeats, Dim dim) {
  if (repeats < 0) fail("repeat_interleave(): repeats can not be negative, but got ", repeats);
  const int d = wrap_dim(dim, self.dim(), "repeat_interleave");
  if (self.dim() == 0) {
    const int64_t one[] = {1};
    return forward(Reshape::forward(self, one), repeats, 0);
  }
  Dims shape(self.sizes()), pairs(self.sizes()), from(self.strides());
  shape[d] = checked_multiply(shape[d], repeats, name);
  pairs.insert(pairs.begin() + d + 1, repeats);
  from.insert(from.begin() + d + 1, 0);
  const Tensor out = empty(shape.span(), self.dtype());
  copy_into(alias(out, pairs.span(), contiguous_strides(pairs.span()).span(), 0),
            alias(self, pairs.span(), from.span(), self.offset()));
  return out;
}

Tensor RepeatInterleave::gradient(const Tensor& g, IntList sizes, int64_t repeats, int64_t dim) {
  const int d = wrap_dim(dim, static_cast<int64_t>(sizes.size()), "repeat_interleave");
  Dims pairs(sizes);
  pairs.insert(pairs.begin() + (sizes.empty() ? 0 : d + 1), repeats);
  const int64_t over[] = {sizes.empty() ? 0 : d + 1};
  return call<Sum>(call<Reshape>(g, pairs.span()), OptionalInts(IntList(over)), false, OptionalType());
}

Tensor RepeatInterleaveEach::sources(const Tensor& repeats, int64_t size) {
  if (repeats.dtype() != DType::Int64 && repeats.dtype() != DType::Int32)
    fail("repeat_interleave(): repeats must be int64 or int32, but got ", name_of(repeats.dtype()));
  if (repeats.dim() > 1)
    fail("repeat_interleave(): repeats must be 0-dim or 1-dim tensor, but its shape is ", repeats.sizes());
  if (repeats.numel() != size && repeats.numel() != 1)
    fail(
        "repeat_interleave(): repeats must have the same size as input along dim, but got repeats.size(0) = ",
        repeats.numel(), " and input.size(dim) = ", size);
  return kernels::repeated_numbers(copy_of(repeats, DType::Int64), size, "repeat_interleave");
}

Tensor RepeatInterleaveEach::forward(const Tensor& self, const Tensor& repeats, Dim dim) {
  const int d = wrap_dim(dim, self.dim(), "repeat_interleave");
  return IndexSelect::forward({}, self, dim, sources(repeats, self.dim() ? self.size(d) : 1));
}

Tensor RepeatInterleaveEach::gradient(const Tensor& g, IntList sizes, const Tensor& repeats, int64_t dim) {
  const int d = wrap_dim(dim, static_cast<int64_t>(sizes.size()), "repeat_interleave");
  // Where each came from: the numbers of what is repeated, repeated.
  const Tensor numbers = counted(0, sizes.empty() ? 1 : sizes[d]);
  return call<PutSlices>(g, sizes, dim, call<RepeatInterleaveEach>(numbers, repeats, int64_t{0}));
}

static void need_matrices(const Tensor& self, const char* op) {
  if (self.dim() < 2)
    fail(op, "(): input tensor must have at least 2 dimensions, but its shape is ", self.sizes());
}

Tensor Tril::forward(Into into, const Tensor& self, int64_t diagonal) {
  need_matrices(self, name);
  return kernels::triangle(into, self, kernels::Triangle::Lower, diagonal);
}

Tensor Triu::forward(Into into, const Tensor& self, int64_t diagonal) {
  need_matrices(self, name);
  return kernels::triangle(into, self, kernels::Triangle::Upper, diagonal);
}

Tensor DiagEmbed::forward(const Tensor& self, int64_t offset, NewDim dim1, NewDim dim2) {
  const int64_t n = self.dim() + 1;
  const int a = wrap_dim(dim1, n, name), b = wrap_dim(dim2, n, name);
  if (self.dim() == 0) fail("diag_embed(): input tensor must have at least 1 dimension");
  if (a == b) fail("diag_embed(): diagonal dimensions cannot be identical ", dim1.value, ", ", dim2.value);
  const int64_t size =
      checked_add(self.size(-1), offset < 0 ? checked_subtract(0, offset, name) : offset, name);
  Dims shape;
  int64_t next = 0;
  for (int i = 0; i < n; ++i) shape.push_back(i == a || i == b ? size : self.sizes()[next++]);
  const Tensor out = zeros(shape.span(), self.dtype());
  copy_into(view_of(out, diagonal_of(whole(out), offset, a, b, name)), self);
  return out;
}

Tensor DiagEmbed::gradient(const Tensor& g, int64_t offset, int64_t dim1, int64_t dim2) {
  return call<Diagonal>(g, offset, dim1, dim2);
}

Tensor ConstantPad::forward(const Tensor& self, IntList pad, Scalar value) {
  refuse_overflow(value, self.dtype(), name);
  return kernels::laid_like(self, kernels::padded(self, pad, "constant", value, name));
}

Tensor OwnPad::forward(const Tensor& self, IntList pad, Text mode) {
  const Tensor y = kernels::padded(self, pad, mode, Scalar(0), "pad");
  return mode == "circular" ? y : kernels::laid_like(self, y);
}

Tensor OwnPadTransposed::forward(const Tensor& g, IntList sizes, IntList pad, Text mode) {
  return kernels::padded_transposed(g, sizes, pad, mode, name);
}

// --- On batches -----------------------------------------------------------------------------------

void Attach::batch(BatchedCall& c, Batched<"self"> self, Batched<"other"> other) {
  // For each sample, though all have one value: the history is theirs.
  c.give(call<Attach>(self.in_front(), other.samples()));
}

void Roll::batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "shifts"> shifts,
                 Argument<IntList, "dims"> dims) {
  if (!dims.value.empty() || shifts.value.size() != 1) return batching::by_types(c);
  // As if each sample were flat.
  const int64_t flat[] = {c.size, self.tensor.numel()}, dim[] = {1};
  const Tensor samples = self.samples();
  c.give(call<Reshape>(call<Roll>(call<Reshape>(samples, IntList(flat)), shifts, IntList(dim)),
                       samples.sizes()));
}

void Repeat::batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "repeats"> repeats) {
  if (static_cast<int64_t>(repeats.value.size()) < self.rank()) return batching::loop(c);  // which refuses
  batching::by_types(c);
}

void RepeatInterleaveEach::batch(BatchedCall& c, Batched<"self"> self, Batched<"repeats"> repeats,
                                 Argument<int64_t, "dim"> dim) {
  if (repeats.batched() || self.rank() == 0) return batching::dynamic(c);
  c.give(call<RepeatInterleaveEach>(self.samples(), repeats.tensor,
                                    wrap_dim(dim, self.rank(), "repeat_interleave") + 1));
}

}  // namespace adjoint

ADJOINT_FAMILY(Rearranging)
