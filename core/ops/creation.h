// Tensors from nothing but a shape and numbers: empty, of one value, ranges, the identity.
//
// What users call (adjoint/_tensor/creation.py) reads sizes as they may be written and checks devices and
// layouts. These rows are what transforms see of it. `requires_grad` makes a leaf. Start reading at `Empty`.
#pragma once

#include "ops/contract/op.h"

namespace adjoint {

/// Whether what Empty and EmptyLike give is filled: NaN, or the largest integer.
extern std::atomic<bool> fill_uninitialized;

/// Sizes of a new tensor, none of which is negative.
IntList checked_sizes(IntList sizes, const char* op);
/// `t`, which nobody has seen yet, as the leaf that `requires_grad=` asks for.
Tensor made(Tensor t, bool requires_grad);

/// A row that users reach through a function of their own.
struct CreationRow : Structured {
  static constexpr bool differentiable = false;
  static constexpr bool method = false;
};

struct Empty : CreationRow {
  static constexpr auto name = "_empty";
  static constexpr auto doc = "A tensor whose elements are whatever the memory held.";
  static constexpr auto signature = "size, *, dtype=None, requires_grad=False";
  static constexpr auto samples =
      Cases{"[2, 3]", "[0, 3], dtype=float64, requires_grad=True", "[], dtype=bool"};
  static Tensor forward(Into into, Sizes size, OptionalType dtype, bool requires_grad);
};

struct Zeros : Empty {
  static constexpr auto name = "_zeros";
  static constexpr auto doc = "A tensor of zeros.";
  static Tensor forward(Into into, Sizes size, OptionalType dtype, bool requires_grad);
};

struct Ones : Empty {
  static constexpr auto name = "_ones";
  static constexpr auto doc = "A tensor of ones.";
  static Tensor forward(Into into, Sizes size, OptionalType dtype, bool requires_grad);
};

struct Full : CreationRow {
  static constexpr auto name = "_full";
  static constexpr auto doc = "A tensor of one value, by default of that number's type.";
  static constexpr auto signature = "size, fill_value, *, dtype=None, requires_grad=False";
  static constexpr auto samples =
      Cases{"[2, 3], 1.5", "[0, 3], 2, dtype=float64, requires_grad=True", "[], True", "[2], 2j"};
  static Tensor forward(Into into, Sizes size, Scalar fill_value, OptionalType dtype, bool requires_grad);
};

struct EmptyLike : CreationRow {
  static constexpr auto name = "_empty_like";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "As _empty, with the shape, the type and the order of dimensions in memory of a tensor.";
  static constexpr auto signature = "self|input, *, dtype=None, requires_grad=False, device_number=None";
  static constexpr auto samples =
      Cases{"(2, 3)", "(0, 3), dtype=float64, requires_grad=True, device_number=0", "(), dtype=bool"};
  static Tensor forward(const Tensor& self, OptionalType dtype, bool requires_grad,
                        std::optional<int64_t> device);
};

struct ZerosLike : EmptyLike {
  static constexpr auto name = "_zeros_like";
  static constexpr auto doc =
      "As _zeros, with the shape, the type and the order of dimensions in memory of a tensor.";
  static Tensor forward(const Tensor& self, OptionalType dtype, bool requires_grad,
                        std::optional<int64_t> device);
};

struct OnesLike : EmptyLike {
  static constexpr auto name = "_ones_like";
  static constexpr auto doc =
      "As _ones, with the shape, the type and the order of dimensions in memory of a tensor.";
  static Tensor forward(const Tensor& self, OptionalType dtype, bool requires_grad,
                        std::optional<int64_t> device);
};

struct FullLike : CreationRow {
  static constexpr auto name = "_full_like";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "As _full, with the shape, the type and the order of dimensions in memory of a tensor.";
  static constexpr auto signature =
      "self|input, fill_value, *, dtype=None, requires_grad=False, device_number=None";
  static constexpr auto samples = Cases{
      "(2, 3), 1", "(0, 3), 2, dtype=float64, requires_grad=True, device_number=0", "(), 2, dtype=complex64"};
  static Tensor forward(const Tensor& self, Scalar fill_value, OptionalType dtype, bool requires_grad,
                        std::optional<int64_t> device);
};

struct Arange : CreationRow {
  static constexpr auto name = "_arange";
  static constexpr auto doc =
      "Numbers from start up to but without end, or from 0 up to one number; int64 where all are integers.";
  static constexpr auto signature = "start, end=None, step=1, *, dtype=None, requires_grad=False";
  static constexpr auto samples =
      Cases{"4", "0, 5, 2", "1.5, -1, -0.5, dtype=float64, requires_grad=True", "0, 0"};
  static Tensor forward(Into into, Scalar start, OptionalScalar end, Scalar step, OptionalType dtype,
                        bool requires_grad);
};

struct Linspace : CreationRow {
  static constexpr auto name = "_linspace";
  static constexpr auto doc = "Numbers from start to end, both included, equally far apart.";
  static constexpr auto signature = "start, end, steps, dtype=None, requires_grad=False";
  static constexpr auto samples =
      Cases{"-1.0, 2.0, 5", "0.0, 1.0, 3, dtype=float64, requires_grad=True", "0.0, 1.0, 0"};
  static Tensor forward(Into into, double start, double end, int64_t steps, OptionalType dtype,
                        bool requires_grad);
};

struct Logspace : CreationRow {
  static constexpr auto name = "_logspace";
  static constexpr auto doc = "The powers of a base by equally spaced exponents.";
  static constexpr auto signature = "start, end, steps, base, dtype=None, requires_grad=False";
  static constexpr auto samples =
      Cases{"-1.0, 2.0, 4, 10.0", "0.0, 1.0, 3, 2.0, dtype=float64, requires_grad=True", "0.0, 1.0, 0, 2.0"};
  static Tensor forward(Into into, double start, double end, int64_t steps, double base, OptionalType dtype,
                        bool requires_grad);
};

struct Eye : CreationRow {
  static constexpr auto name = "_eye";
  static constexpr auto doc = "A matrix of n rows and m columns with ones on its diagonal.";
  static constexpr auto signature = "n, m=None, *, dtype=None, requires_grad=False";
  static constexpr auto samples = Cases{"2, 3", "3, dtype=float64, requires_grad=True", "0, 2"};
  static Tensor forward(Into into, int64_t n, std::optional<int64_t> m, OptionalType dtype,
                        bool requires_grad);
};

struct TriangleIndices : CreationRow {
  static constexpr auto name = "_triangle_indices";
  static constexpr auto doc =
      "Rows and columns of the elements of an (n, m) matrix up to and on a diagonal, or from it on.";
  static constexpr auto signature = "n, m, offset, upper, dtype=None, requires_grad=False";
  static constexpr auto samples = Cases{"3, 4, -1, False", "3, 4, 1, True, dtype=int32", "4, 3, 9, False",
                                        "3, 3, -9, True, dtype=float64, requires_grad=True", "0, 2, 0, True"};
  static Tensor forward(int64_t n, int64_t m, int64_t offset, bool upper, OptionalType dtype,
                        bool requires_grad);
};

using Creation = Family<Empty, Zeros, Ones, Full, EmptyLike, ZerosLike, OnesLike, FullLike, Arange, Linspace,
                        Logspace, Eye, TriangleIndices>;

}  // namespace adjoint
