// Shapes: the same bytes under other sizes and strides, and the copies that such a change may need.
//
// All but `contiguous`, `clone` and the conversion are views. Every one rearranges elements one to one (or,
// for `expand`, one to many), so that the gradient is the same operation backwards. Views of a part of a
// tensor are in ops/part.h. Start reading at `Reshape`.
#pragma once

#include "ops/contract/op.h"
#include "tensor/device.h"

namespace adjoint {

/// The gradient summed over the dimensions that broadcasting added or stretched: recorded.
Tensor sum_to_shape(const Tensor& g, IntList sizes);
/// `t` in another type: itself where it has that type, or is undefined.
Tensor as_type(const Tensor& t, DType dtype);
/// Like sum_to_shape, where `sizes` may have more dimensions than g, all of size 1 and in front.
Tensor sum_to_value(const Tensor& g, IntList sizes);

/// The strides under which elements in row-major order of (sizes, strides) have `shape`; none where only a
/// copy can.
std::optional<Dims> view_strides(IntList sizes, IntList strides, IntList shape);
/// `shape` with its -1 worked out; RuntimeError with torch's phrase when it does not hold `numel` elements.
Dims infer_shape(IntList shape, int64_t numel, const char* op);
/// Where each dimension of the result comes from, for torch's movedim.
Dims moved_order(IntList source, IntList destination, int64_t ndim, const char* op);

struct Expand : Structured {
  static constexpr auto name = "expand";
  static constexpr auto aliases = "broadcast_to";
  static constexpr auto doc =
      "A view with dimensions of size 1 repeated to the given sizes; -1 keeps a size.";
  static constexpr auto signature = "self, size";
  static constexpr auto samples = Cases{"(3, 1), [3, 4]", "(3, 1), [2, -1, 4]", "(1, 0), [2, 0]", "(), [2]"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self, Sizes size);
  static constexpr auto vjp = Rules{[](Grad g, Shape<"self"> s) { return sum_to_shape(g, s); }};
};

struct Reshape : Structured {
  static constexpr auto name = "reshape";
  static constexpr auto recorded_as = "view";
  static constexpr auto doc =
      "The elements in row-major order under another shape: a view where the layout allows, else a copy.";
  static constexpr auto signature = "self, shape";
  static constexpr auto samples = Cases{"(3, 4), [2, 6]", "(3, 4), [-1]", "(0, 3), [3, 0]", "(), [1, 1]"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self, Sizes shape);
  static constexpr auto vjp = Rules{[](Grad g, Shape<"self"> s) { return call<Reshape>(g, IntList(s)); }};
};

struct View : Structured {
  static constexpr auto name = "view";
  static constexpr auto doc =
      "The elements in row-major order under another shape, over the same memory; an error where the layout "
      "does not allow it.";
  static constexpr auto signature = "self, size";
  static constexpr auto samples = Cases{"(3, 4), [2, 6]", "(3, 4), [-1]", "(0, 3), [3, 0]", "(), [1, 1]"};
  static constexpr bool view = true;
  static constexpr bool function = false;
  static Tensor forward(const Tensor& self, Sizes size);
  static constexpr auto vjp = Rules{[](Grad g, Shape<"self"> s) { return call<Reshape>(g, IntList(s)); }};
};

struct Transpose : Structured {
  static constexpr auto name = "transpose";
  static constexpr auto aliases = "swapaxes, swapdims";
  static constexpr auto doc = "A view with two dimensions exchanged.";
  static constexpr auto signature = "self, dim0|axis0, dim1|axis1";
  static constexpr auto samples = Cases{"(3, 4), 0, 1", "(2, 3, 4), -1, 0", "(0, 3), 0, 1", "(), 0, 0"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self, Dim dim0, Dim dim1);
  static constexpr auto vjp = Rules{[](Grad g, Argument<int64_t, "dim0"> a, Argument<int64_t, "dim1"> b) {
    return call<Transpose>(g, a.value, b.value);
  }};
};

struct MatrixT : Structured {
  static constexpr auto name = "t";
  static void batch(BatchedCall& c, Batched<"self"> self);
  static constexpr auto doc =
      "The transpose of a matrix, as a view; vectors and scalars are left as they are.";
  static constexpr auto signature = "self";
  static constexpr auto samples = Cases{"(3, 4)", "(3,)", "()", "(0, 3)"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self);
  static constexpr auto vjp = Rules{[](Grad g) { return call<MatrixT>(g); }};
};

struct Permute : Structured {
  static constexpr auto name = "permute";
  static constexpr auto doc = "A view with the dimensions in the given order.";
  static constexpr auto signature = "self, dims";
  static constexpr auto samples =
      Cases{"(2, 3, 4), [2, 0, 1]", "(3, 4), [-1, 0]", "(0, 3), [1, 0]", "(), []"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self, Permutation dims);
  static Dims inverse(IntList dims);
  static constexpr auto vjp = Rules{[](Grad g, Argument<IntList, "dims"> dims) {
    const Dims back = inverse(dims);
    return call<Permute>(g, back.span());
  }};
};

struct MoveDim : Structured {
  static constexpr auto name = "movedim";
  static constexpr auto recorded_as = "permute";
  static constexpr auto aliases = "moveaxis";
  static constexpr auto doc =
      "A view with the dimensions `source` moved to `destination`; the others keep their order.";
  static constexpr auto signature = "self, source, destination";
  static constexpr auto samples = Cases{"(2, 3, 4), 0, 2", "(2, 3, 4), [0, 1], [-1, 0]", "(0, 3), 0, 1"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self, DimList source, DimList destination);
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<IntList, "source"> source, Argument<IntList, "destination"> destination) {
        return call<MoveDim>(g, destination.value, source.value);
      }};
};

struct Squeeze : Structured {
  static constexpr auto name = "squeeze";
  static constexpr auto doc = "A view without the dimensions of size 1: all of them, or those given.";
  static constexpr auto signature = "self, dim=None";
  static constexpr auto samples =
      Cases{"(3, 1, 4)", "(3, 1, 4), dim=1", "(1, 3, 1), dim=[0, -1]", "(3, 4), dim=0", "(1, 0)"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self, OptionalDims dim);
  static constexpr auto vjp = Rules{[](Grad g, Shape<"self"> s) { return call<Reshape>(g, IntList(s)); }};
};

struct Unsqueeze : Structured {
  static constexpr auto name = "unsqueeze";
  static constexpr auto doc = "A view with a new dimension of size 1 at the given place.";
  static constexpr auto signature = "self, dim";
  static constexpr auto samples = Cases{"(3, 4), 0", "(3, 4), -1", "(0, 3), 1", "(), 0"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self, NewDim dim);
  static constexpr auto vjp = Rules{[](Grad g, Shape<"self"> s) { return call<Reshape>(g, IntList(s)); }};
};

struct Flatten : Structured {
  static constexpr auto name = "flatten";
  static constexpr auto recorded_as = "view";
  static constexpr auto doc =
      "Flatten the dimensions from start_dim to end_dim into one: a view where the layout allows.";
  static constexpr auto signature = "self, start_dim=0, end_dim=-1";
  static constexpr auto samples = Cases{"(2, 3, 4)", "(2, 3, 4), start_dim=1, end_dim=2", "(0, 3)", "()"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self, Dim start_dim, Dim end_dim);
  static constexpr auto vjp = Rules{[](Grad g, Shape<"self"> s) { return call<Reshape>(g, IntList(s)); }};
};

struct Unflatten : Structured {
  static constexpr auto name = "unflatten";
  static constexpr auto recorded_as = "view";
  static constexpr auto doc = "Split one dimension into several, as a view; one of the sizes may be -1.";
  static constexpr auto signature = "self, dim, sizes";
  static constexpr auto samples = Cases{"(3, 4), 1, [2, 2]", "(6, 2), 0, [-1, 3]", "(0, 4), -1, [2, 2]"};
  static constexpr bool view = true;
  static Tensor forward(const Tensor& self, Dim dim, IntList sizes);
  static constexpr auto vjp = Rules{[](Grad g, Shape<"self"> s) { return call<Reshape>(g, IntList(s)); }};
};

struct Contiguous : Structured {
  static constexpr auto name = "contiguous";
  static constexpr auto recorded_as = "clone";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "The tensor itself where it lies in row-major order, else a copy that does.";
  static constexpr auto signature = "self";
  static constexpr auto samples = Cases{"(3, 4)", "(0, 3)", "()"};
  static constexpr bool function = false;
  static Tensor forward(const Tensor& self);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp = Rules{[](Grad g) { return Tensor(g); }};
};

struct Clone : Structured {
  static constexpr auto name = "clone";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "A copy with the same order of dimensions in memory.";
  static constexpr auto signature = "self";
  static constexpr auto samples = Cases{"(3, 4)", "(0, 3)", "()"};
  static Tensor forward(const Tensor& self);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp = Rules{[](Grad g) { return Tensor(g); }};
};

struct To : Structured {
  static constexpr auto name = "_to_type";
  static constexpr auto recorded_as = "to_copy";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "A copy in another type.";
  static constexpr auto signature = "self, dtype";
  static constexpr auto samples =
      Cases{"(3, 4), complex128", "(3, 4), bool", "(0, 3), float32", "(), complex128"};
  static Tensor forward(const Tensor& self, DType dtype);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp = Rules{[](Grad g, Shape<"self"> s) { return call<To>(g, s.dtype); }};
};

struct ToDevice : Structured {
  static constexpr auto name = "_to_device";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "A copy on another device, by its number; its gradient goes back to the first one's.";
  static constexpr auto signature = "self, device, source";
  static constexpr auto samples = Cases{"(3, 4), 0, 0", "(0, 3), 0, 0", "(), 0, 0"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& self, int64_t device, int64_t source);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<int64_t, "device"> device, Argument<int64_t, "source"> source) {
        return call<ToDevice>(g, source.value, device.value);
      }};
};

using ShapeOps = Family<Expand, Reshape, View, Transpose, MatrixT, Permute, MoveDim, Squeeze, Unsqueeze,
                        Flatten, Unflatten, Contiguous, Clone, To, ToDevice>;

}  // namespace adjoint
