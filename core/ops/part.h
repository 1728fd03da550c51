// Views of a part of a tensor: selecting, narrowing, cutting to pieces, diagonals, windows, real and
// imaginary parts.
//
// What such a view sees of a row-major tensor is sizes, strides and an offset (`Part`). The gradient
// therefore needs one operator for all of them: `_put_strided` adds g into zeros at those positions,
// `_take_strided` reads them, and each is the other's rule. Start reading at `TakeStrided`.
#pragma once

#include "ops/contract/op.h"

namespace adjoint {

/// Some elements of a tensor: element (i, j, …) at offset + i stride₀ + j stride₁ + …
struct Part {
  Dims sizes, strides;
  int64_t offset = 0;
};
/// All of a row-major tensor; all of this one.
Part whole(IntList sizes);
Part whole(const Tensor& t);
// Checked; `op` is named in errors.
Part selected(const Part& p, int64_t dim, int64_t index, const char* op);
Part narrowed(const Part& p, int64_t dim, int64_t start, int64_t length, const char* op);
Part diagonal_of(const Part& p, int64_t offset, int64_t dim1, int64_t dim2, const char* op);
Part windows_of(const Part& p, int64_t dim, int64_t size, int64_t step, const char* op);
/// The view of `self` that a part describes.
Tensor view_of(const Tensor& self, const Part& part);

/// The gradient of a view of a part: zeros but for g at the part. Recorded.
Tensor put_part(const Tensor& g, IntList sizes, const Part& part);
/// The elements of the part of t's row-major order. Recorded.
Tensor take_part(const Tensor& t, const Part& part);
/// The gradient of a tensor that was cut along `dim`, from those of its pieces. Recorded.
Tensor join_pieces(Tensors gs, IntList sizes, IntList lengths, int64_t dim);
/// The gradient of a tensor from those of its slices along `dim`. Recorded.
Tensor join_slices(Tensors gs, IntList sizes, int64_t dim);
/// The gradient of as_strided, for inputs and results of any layout. Recorded.
Tensor as_strided_gradient(const Tensor& g, const LayoutOfInput& input, const Part& part);

struct TakeStrided : Structured {
  static constexpr auto name = "_take_strided";
  static void batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "size"> size,
                    Argument<IntList, "stride"> stride, Argument<int64_t, "offset"> offset);
  static constexpr auto doc =
      "Elements of a tensor's row-major order, by strides and an offset from its first.";
  static constexpr auto signature = "self, size, stride, offset";
  static constexpr auto samples = Cases{"(3, 4), [2, 2], [4, 2], 1", "(3, 4), [3, 2], [2, 1], 0",
                                        "(3, 4), [0], [1], 0", "(0, 3), [0, 2], [3, 1], 0"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self, MemoryInts size, MemoryInts stride, int64_t offset);
  static constexpr auto vjp =
      Rules{[](Grad g, Shape<"self"> s, Argument<IntList, "size"> size, Argument<IntList, "stride"> stride,
               Argument<int64_t, "offset"> offset) {
        return put_part(g, s, {Dims(size.value), Dims(stride.value), offset});
      }};
};

struct PutStrided : Structured {
  static constexpr auto name = "_put_strided";
  static void batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "shape"> shape,
                    Argument<IntList, "size"> size, Argument<IntList, "stride"> stride,
                    Argument<int64_t, "offset"> offset);
  static constexpr auto doc =
      "Zeros of the given shape, with a tensor added at positions given by strides and an offset.";
  static constexpr auto signature = "self, shape, size, stride, offset";
  static constexpr auto samples =
      Cases{"(2, 2), [3, 4], [2, 2], [4, 2], 1", "(3, 2), [3, 4], [3, 2], [2, 1], 0",
            "(0, 2), [0, 3], [0, 2], [3, 1], 0"};
  static Tensor forward(const Tensor& self, Sizes shape, MemoryInts size, MemoryInts stride, int64_t offset);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<IntList, "size"> size, Argument<IntList, "stride"> stride,
               Argument<int64_t, "offset"> offset) {
        return take_part(g, {Dims(size.value), Dims(stride.value), offset});
      }};
};

struct Select : Structured {
  static constexpr auto name = "select";
  static constexpr auto doc = "The slice at one index along a dimension: a view without that dimension.";
  static constexpr auto signature = "self, dim, index";
  static constexpr auto samples = Cases{"(3, 4), 0, 1", "(3, 4), -1, -2", "(0, 3), 1, 2"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self, Dim dim, int64_t index);
  static constexpr auto vjp =
      Rules{[](Grad g, Shape<"self"> s, Argument<int64_t, "dim"> dim, Argument<int64_t, "index"> index) {
        return put_part(g, s, selected(whole(s), dim, index, name));
      }};
};

struct Narrow : Structured {
  static constexpr auto name = "narrow";
  static constexpr auto recorded_as = "slice";
  static constexpr auto doc = "A view of `length` indices along a dimension, from `start` on.";
  static constexpr auto signature = "self, dim, start, length";
  static constexpr auto samples =
      Cases{"(3, 4), 0, 1, 2", "(3, 4), -1, 1, 0", "(3, 4), 1, -2, 2", "(0, 3), 1, 1, 2"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self, Dim dim, int64_t start, int64_t length);
  static constexpr auto vjp = Rules{[](Grad g, Shape<"self"> s, Argument<int64_t, "dim"> dim,
                                       Argument<int64_t, "start"> start, Argument<int64_t, "length"> length) {
    return put_part(g, s, narrowed(whole(s), dim, start, length, name));
  }};
};

struct Unbind : Structured {
  static constexpr auto name = "unbind";
  static constexpr auto doc = "The slices along a dimension, as views.";
  static constexpr auto signature = "self, dim=0";
  static constexpr auto samples = Cases{"(3, 4)", "(3, 4), dim=-1", "(2, 0)"};
  static constexpr bool view = true;
  static Tensors forward(const Tensor& self, Dim dim);
  static constexpr auto vjp = Rules{[](Tensors gs, Shape<"self"> s, Argument<int64_t, "dim"> dim) {
    return join_slices(std::move(gs), s, dim);
  }};
};

struct SplitSizes : Structured {
  static constexpr auto name = "_split_sizes";
  static constexpr auto overloads = "split";
  static constexpr auto aliases = "split_with_sizes";
  static constexpr auto doc = "Split into consecutive pieces of the given sizes along a dimension, as views.";
  static constexpr auto signature = "self|tensor, split_sizes|split_size|split_size_or_sections, dim=0";
  static constexpr auto samples = Cases{"(5, 2), [2, 0, 3]", "(2, 4), [1, 3], dim=-1", "(0, 2), [0, 0]"};
  static constexpr auto recorded_as = "split_with_sizes";
  static constexpr bool view = true;
  static Tensors forward(const Tensor& self, IntList split_sizes, Dim dim);
  static constexpr auto vjp =
      Rules{[](Tensors gs, Shape<"self"> s, Argument<IntList, "split_sizes"> sizes,
               Argument<int64_t, "dim"> dim) { return join_pieces(std::move(gs), s, sizes.value, dim); }};
};

// Ways to cut that come to sizes: `lengths(size, argument)` works them out.

struct SplitEvery : Structured {
  static constexpr auto name = "_split_every";
  static constexpr auto overloads = "split";
  static constexpr auto doc =
      "Split into consecutive pieces of one size along a dimension, as views; the last may be smaller.";
  static constexpr auto signature = "self|tensor, split_size|split_size_or_sections, dim=0";
  static constexpr auto samples = Cases{"(5, 2), 2", "(2, 4), 3, dim=-1", "(0, 2), 3"};
  static constexpr auto recorded_as = "split";
  static constexpr bool view = true;
  static Dims lengths(int64_t size, int64_t split_size);
  static Tensors forward(const Tensor& self, int64_t split_size, Dim dim);
  static constexpr auto vjp = Rules{[](Tensors gs, Shape<"self"> s, Argument<int64_t, "split_size"> size,
                                       Argument<int64_t, "dim"> dim) {
    return join_pieces(std::move(gs), s, lengths(s.sizes[wrap_dim(dim, s.dim(), name)], size).span(), dim);
  }};
};

struct Chunk : Structured {
  static constexpr auto name = "chunk";
  static constexpr auto doc =
      "Split into at most `chunks` consecutive pieces of one size along a dimension, as views; the last may "
      "be smaller.";
  static constexpr auto signature = "self, chunks, dim=0";
  static constexpr auto samples = Cases{"(5, 2), 2", "(2, 4), 3, dim=1", "(0, 2), 2"};
  static constexpr auto recorded_as = "split";
  static constexpr bool view = true;
  static Dims lengths(int64_t size, int64_t chunks);
  static Tensors forward(const Tensor& self, int64_t chunks, Dim dim);
  static constexpr auto vjp = Rules{[](Tensors gs, Shape<"self"> s, Argument<int64_t, "chunks"> chunks,
                                       Argument<int64_t, "dim"> dim) {
    return join_pieces(std::move(gs), s, lengths(s.sizes[wrap_dim(dim, s.dim(), name)], chunks).span(), dim);
  }};
};

struct Diagonal : Structured {
  static constexpr auto name = "diagonal";
  static constexpr auto doc =
      "The diagonal over two dimensions as the last dimension of a view; offset > 0 lies above the main one.";
  static constexpr auto signature = "self, offset=0, dim1=0, dim2=1";
  static constexpr auto samples =
      Cases{"(3, 4)", "(3, 4), offset=1", "(2, 3, 4), offset=-1, dim1=-1, dim2=0", "(0, 3)"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self, int64_t offset, Dim dim1, Dim dim2);
  static constexpr auto vjp = Rules{
      [](Grad g, Shape<"self"> s, Argument<int64_t, "offset"> offset, Argument<int64_t, "dim1"> a,
         Argument<int64_t, "dim2"> b) { return put_part(g, s, diagonal_of(whole(s), offset, a, b, name)); }};
};

struct Unfold : Structured {
  static constexpr auto name = "unfold";
  static constexpr auto doc =
      "Sliding windows of `size` along a dimension, every `step`, as a new last dimension of a view.";
  static constexpr auto signature = "self, dimension, size, step";
  static constexpr auto samples =
      Cases{"(5, 2), 0, 3, 1", "(2, 6), -1, 2, 2", "(), 0, 1, 1", "(0, 4), 1, 2, 2"};
  static constexpr bool view = true;
  static constexpr bool function = false;
  static Tensor forward(const Tensor& self, Dim dimension, int64_t size, int64_t step);
  static constexpr auto vjp = Rules{[](Grad g, Shape<"self"> s, Argument<int64_t, "dimension"> dim,
                                       Argument<int64_t, "size"> size, Argument<int64_t, "step"> step) {
    return put_part(g, s, windows_of(whole(s), dim, size, step, name));
  }};
};

struct AsStrided : Structured {
  static constexpr auto name = "as_strided";
  static void batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "size"> size,
                    Argument<IntList, "stride"> stride,
                    Argument<std::optional<int64_t>, "storage_offset"> offset);
  static constexpr auto doc =
      "A view of the storage by sizes, strides and an offset from its start. Elements may overlap.";
  static constexpr auto signature = "self, size, stride, storage_offset=None";
  static constexpr auto samples = Cases{"(3, 4), [2, 2], [1, 2]", "(3, 4), [2, 3], [1, 1], 2",
                                        "(2,), [3], [0]", "(0, 3), [0, 2], [3, 1]"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self, MemoryInts size, MemoryInts stride,
                        std::optional<int64_t> storage_offset);
  static constexpr auto vjp = Rules{[](Grad g, Layout<"self"> input, Argument<IntList, "size"> size,
                                       Argument<IntList, "stride"> stride,
                                       Argument<std::optional<int64_t>, "storage_offset"> offset) {
    return as_strided_gradient(g, input,
                               {Dims(size.value), Dims(stride.value), offset.value.value_or(input.offset)});
  }};
};

// Complex numbers lie as pairs; these views show the parts.

Tensor times_i(const Tensor& t);

struct Real : Structured {
  static constexpr auto name = "real";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "The real part as a view; a real tensor is returned as it is.";
  static constexpr auto signature = "self";
  static constexpr auto samples = Cases{"(3, 4)", "()", "(0, 3)"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self);
  static constexpr auto vjp = Rules{[](Grad g) { return Tensor(g); }};  // the engine makes it complex
};

struct Imag : Structured {
  static constexpr auto name = "imag";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "The imaginary part of a complex tensor, as a view.";
  static constexpr auto signature = "self";
  static constexpr TypeSet types = types::complex;
  static constexpr auto samples = Cases{"(3, 4)", "()", "(0, 3)"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self);
  static constexpr auto vjp = Rules{[](Grad g) { return times_i(g); }};
};

struct ViewAsComplex;

struct ViewAsReal : Structured {
  static constexpr auto name = "view_as_real";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "A complex tensor as a real view whose last dimension holds real and imaginary part.";
  static constexpr auto signature = "self";
  static constexpr TypeSet types = types::complex;
  static constexpr auto samples = Cases{"(3, 4)", "()", "(0, 3)"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self);
  static Tensor gradient(const Tensor& g);
  static constexpr auto vjp = Rules{[](Grad g) { return gradient(g); }};
};

struct ViewAsComplex : Structured {
  static constexpr auto name = "view_as_complex";
  static void batch(BatchedCall& c, Batched<"self"> self);
  static constexpr auto doc =
      "A real tensor whose last dimension holds real and imaginary part, as a complex view.";
  static constexpr auto signature = "self";
  static constexpr TypeSet types = types::bit(DType::Float32) | types::bit(DType::Float64);
  static constexpr auto samples = Cases{"(3, 2)", "(2,)", "(0, 2)"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self);
  static constexpr auto vjp = Rules{[](Grad g) { return call<ViewAsReal>(g); }};
};

using PartOps = Family<TakeStrided, PutStrided, Select, Narrow, Unbind, SplitEvery, SplitSizes, Chunk,
                       Diagonal, Unfold, AsStrided, Real, Imag, ViewAsReal, ViewAsComplex>;

}  // namespace adjoint
