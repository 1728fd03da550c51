// Products of matrices and vectors.
//
// `matmul` is the one primitive: every other product is its special case with a check. Its rules are products
// again, with the other factor's conjugate transpose; where batch dimensions were broadcast, the gradient is
// summed to its shape on the way (autograd/arithmetic.h). Kernels: kernels/product.h.
#pragma once

#include "ops/contract/op.h"
#include "ops/shape.h"

namespace adjoint {

struct Matmul;

/// Conjugate transpose of the last two dimensions: recorded.
Tensor conjugate_transpose(const Tensor& t);
Tensor conjugate(const Tensor& t);

/// The gradients of a @ b, for every combination of ranks: recorded.
Tensor matmul_gradient_left(const Tensor& g, const Tensor& b, IntList a_sizes);
Tensor matmul_gradient_right(const Tensor& g, const Tensor& a, IntList b_sizes);
Tensor linear_input_gradient(const Tensor& g, const Tensor& weight, IntList sizes);
Tensor linear_weight_gradient(const Tensor& g, const Tensor& input, IntList sizes);
/// alpha * t, or t itself for 1: recorded.
Tensor scaled(const Tensor& t, const Scalar& alpha);

namespace products {
/// a @ b by NumPy's rules of ranks and broadcasting; with a start of one dimension, or of two where the
/// result has two, a @ b + start.
Tensor matmul(Into into, const Tensor& a, const Tensor& b, const char* op, const Tensor& start = Tensor());
/// beta * t + alpha * (a @ b), in one pass where beta and alpha are 1.
Tensor add_product(Into into, const Tensor& t, const Tensor& a, const Tensor& b, const Scalar& beta,
                   const Scalar& alpha, const char* op);
/// input * weightᵀ + bias over the last dimension; an undefined bias is none.
Tensor linear(Into into, const Tensor& input, const Tensor& weight, const Tensor& bias);
/// beta * t + alpha * p, where p is a fresh tensor that may be overwritten.
Tensor scaled_sum(const Tensor& t, const Tensor& p, const Scalar& beta, const Scalar& alpha, const char* op);
/// Refuse factors of other ranks; `added` is what the product is added to, if anything.
void need_ranks(const Tensor& a, int64_t rank_a, const Tensor& b, int64_t rank_b, const char* op,
                const Tensor& added = Tensor());
void need_vectors(const Tensor& a, const char* name_of_a, const Tensor& b, const char* name_of_b,
                  const char* op);
}  // namespace products

struct BatchedMatmul;
/// What a product of two tensors of any ranks has in common.
struct ProductOfTwo : Structured {
  using rules_like = BatchedMatmul;
  static constexpr auto linear = MultilinearIn<"self", "other">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Shape<"self"> s, Input<"other"> b) { return matmul_gradient_left(g, b, s); },
            [](Grad g, Input<"self"> a, Shape<"other"> s) { return matmul_gradient_right(g, a, s); }};
};

/// Products of any ranks: what the named ones below do not cover.
struct BatchedMatmul : ProductOfTwo {
  static constexpr auto name = "_matmul";
  static void batch(BatchedCall& c, Batched<"self"> a, Batched<"other"> b);
  static constexpr auto doc = "Matrix product with batch dimensions that broadcast.";
  static constexpr auto signature = "self, other";
  static constexpr TypeSet types = types::numeric;
  static constexpr auto samples = Cases{"(2, 3, 4), (4, 2)", "(2, 1, 3, 4), (5, 4, 2)", "(4,), (2, 4, 3)",
                                        "(2, 3, 4), (4,)", "(2, 0, 4), (4, 3)"};
  static Tensor forward(Into into, const Tensor& self, const Tensor& other) {
    return products::matmul(into, self, other, "matmul");
  }
};

/// The products whose ranks are given.
template <int A, int B>
struct FixedRanks : ProductOfTwo {
  static void batch(BatchedCall& c, Batched<"self"> a, Batched<"other"> b);
  static Tensor product(Into into, const Tensor& a, const Tensor& b, const char* op) {
    products::need_ranks(a, A, b, B, op);
    return products::matmul(into, a, b, op);
  }
};

struct Mm : FixedRanks<2, 2> {
  static constexpr auto name = "mm";
  static constexpr auto doc = "Product of two matrices.";
  static constexpr auto signature = "self, mat2";
  static constexpr TypeSet types = types::numeric;
  static constexpr auto samples = Cases{"(3, 4), (4, 2)", "(3, 0), (0, 2)", "(0, 4), (4, 2)"};
  static Tensor forward(Into into, const Tensor& self, const Tensor& mat2) {
    return product(into, self, mat2, name);
  }
};
struct Bmm : FixedRanks<3, 3> {
  static constexpr auto name = "bmm";
  static constexpr auto doc = "Batched matrix product.";
  static constexpr auto signature = "self, mat2";
  static constexpr TypeSet types = types::numeric;
  static constexpr auto samples = Cases{"(2, 3, 4), (2, 4, 2)", "(0, 3, 4), (0, 4, 2)"};
  static Tensor forward(Into into, const Tensor& self, const Tensor& mat2) {
    products::need_ranks(self, 3, mat2, 3, name);
    return product(into, self, mat2, name);
  }
};
struct Mv : FixedRanks<2, 1> {
  static constexpr auto name = "mv";
  static constexpr auto doc = "Product of a matrix and a vector.";
  static constexpr auto signature = "self, vec";
  static constexpr TypeSet types = types::numeric;
  static constexpr auto samples = Cases{"(3, 4), (4,)", "(0, 4), (4,)"};
  static Tensor forward(Into into, const Tensor& self, const Tensor& vec) {
    return product(into, self, vec, name);
  }
};
struct Dot : FixedRanks<1, 1> {
  static constexpr auto name = "dot";
  static constexpr auto doc = "Dot product of two vectors, without conjugation.";
  static constexpr auto signature = "self, tensor";
  static constexpr TypeSet types = types::numeric;
  static constexpr auto samples = Cases{"(4,), (4,)", "(0,), (0,)"};
  static Tensor forward(const Tensor& self, const Tensor& tensor) { return product({}, self, tensor, name); }
};

struct Matmul : Structured {
  static constexpr auto name = "matmul";
  static constexpr auto doc =
      "Matrix product of two tensors; vectors count as rows or columns, further dimensions are a batch and "
      "broadcast.";
  static constexpr auto signature = "self, other";
  static constexpr TypeSet types = types::numeric;
  static constexpr auto samples = Cases{"(3, 4), (4, 2)", "(4,), (4,)",        "(3, 4), (4,)",
                                        "(4,), (4, 3)",   "(2, 3, 4), (4, 2)", "(0, 3), (3, 2)"};
  static constexpr auto python = "__matmul__";
  static constexpr bool composite = true;
  static Tensor forward(Into into, const Tensor& self, const Tensor& other) {
    switch (self.dim() * 8 + other.dim()) {
      case 2 * 8 + 2:
        return call_into<Mm>(into, self, other);
      case 2 * 8 + 1:
        return call_into<Mv>(into, self, other);
      case 1 * 8 + 1:
        return call<Dot>(self, other);
      default:
        return call_into<BatchedMatmul>(into, self, other);
    }
  }
};

struct Outer : Structured {
  static constexpr auto name = "outer";
  static constexpr bool out_converts = true;
  static void batch(BatchedCall& c, Batched<"self"> a, Batched<"vec2"> b);
  static constexpr auto doc = "Outer product of two vectors.";
  static constexpr auto signature = "self, vec2";
  static constexpr auto samples = Cases{"(3,), (4,)", "(0,), (3,)"};
  static Tensor forward(const Tensor& self, const Tensor& vec2);
  static constexpr auto linear = MultilinearIn<"self", "vec2">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Input<"vec2"> b) { return call<Matmul>(g, as_type(conjugate(b), g.dtype())); },
            [](Grad g, Input<"self"> a) { return call<Matmul>(as_type(conjugate(a), g.dtype()), g); }};
};

struct Addmm;
/// beta * self + alpha * (a @ b); with beta = 0 self is not read, whatever it holds.
struct SumWithProduct : Structured {
  using rules_like = Addmm;
  static void batch(BatchedCall& c, Batched<"self"> self, Batched<"mat1"> a, Batched<"mat2"> b,
                    Argument<Scalar, "beta"> beta, Argument<Scalar, "alpha"> alpha);
  static constexpr auto linear = ProductAndSum<MultilinearIn<"mat1", "mat2">, LinearIn<"self">>{};
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<Scalar, "beta"> beta) { return scaled(g, beta.value.conj()); },
            [](Grad g, Shape<"mat1"> s, Input<"mat2"> b, Argument<Scalar, "alpha"> alpha) {
              return scaled(matmul_gradient_left(g, b, s), alpha.value.conj());
            },
            [](Grad g, Input<"mat1"> a, Shape<"mat2"> s, Argument<Scalar, "alpha"> alpha) {
              return scaled(matmul_gradient_right(g, a, s), alpha.value.conj());
            }};
};

template <int A, int B = A>
struct AddProduct : SumWithProduct {
  static constexpr auto signature = "self, mat1, mat2, *, beta=1, alpha=1";
  // As a function and as a method.
  static constexpr auto old_orders =
      "beta, self, alpha, mat1, mat2; beta, self, mat1, mat2; self, beta, alpha, mat1, mat2; self, beta, "
      "mat1, mat2";
  static Tensor sum(Into into, const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                    const Scalar& alpha, const char* op) {
    products::need_ranks(a, A, b, B, op, self);
    if constexpr (B == 1)
      return products::scaled_sum(self, products::matmul({}, a, b, op), beta, alpha, op);
    else
      return products::add_product(into, self, a, b, beta, alpha, op);
  }
};
struct Addmm : AddProduct<2> {
  static constexpr auto name = "addmm";
  static constexpr bool inplace = true;
  static constexpr auto doc = "beta * self + alpha * (mat1 @ mat2); self broadcasts.";
  static constexpr TypeSet types = types::numeric;
  static constexpr auto samples = Cases{"(3, 2), (3, 4), (4, 2)", "(2,), (3, 4), (4, 2), beta=3, alpha=2",
                                        "(), (3, 4), (4, 2), beta=0", "(3, 2), (3, 0), (0, 2)"};
  static Tensor forward(Into into, const Tensor& self, const Tensor& mat1, const Tensor& mat2, Scalar beta,
                        Scalar alpha) {
    return sum(into, self, mat1, mat2, beta, alpha, name);
  }
};
struct Baddbmm : AddProduct<3> {
  static constexpr auto name = "baddbmm";
  static constexpr bool inplace = true;
  static constexpr auto doc =
      "beta * self + alpha * (batch1 @ batch2) for batches of matrices; self broadcasts.";
  static constexpr auto signature = "self, batch1, batch2, *, beta=1, alpha=1";
  static constexpr TypeSet types = types::numeric;
  static constexpr auto samples =
      Cases{"(2, 3, 2), (2, 3, 4), (2, 4, 2)", "(2,), (2, 3, 4), (2, 4, 2), beta=3, alpha=2",
            "(0, 3, 2), (0, 3, 4), (0, 4, 2)"};
  static constexpr auto old_orders =
      "beta, self, alpha, batch1, batch2; beta, self, batch1, batch2; self, beta, alpha, batch1, batch2; "
      "self, beta, batch1, batch2";
  static Tensor forward(Into into, const Tensor& self, const Tensor& batch1, const Tensor& batch2,
                        Scalar beta, Scalar alpha) {
    return sum(into, self, batch1, batch2, beta, alpha, name);
  }
};

struct Addmv : AddProduct<2, 1> {
  static constexpr auto name = "addmv";
  static constexpr bool inplace = true;
  static constexpr auto gradient_keeps_history = KeepsHistory::IfConstant;  // as with beta = 0
  static constexpr auto doc =
      "beta * self + alpha * (mat @ vec); with beta = 0 self is ignored, NaN included.";
  static constexpr auto signature = "self, mat, vec, *, beta=1, alpha=1";
  static constexpr TypeSet types = types::numeric;
  static constexpr auto samples =
      Cases{"(3,), (3, 4), (4,)", "(), (3, 4), (4,), beta=3, alpha=2", "(0,), (0, 4), (4,)"};
  static constexpr auto old_orders =
      "beta, self, alpha, mat, vec; beta, self, mat, vec; self, beta, alpha, mat, vec; self, beta, mat, vec";
  static Tensor forward(const Tensor& self, const Tensor& mat, const Tensor& vec, Scalar beta, Scalar alpha) {
    return sum({}, self, mat, vec, beta, alpha, name);
  }
};

struct Addr : Structured {
  static constexpr auto name = "addr";
  static constexpr bool out_converts = true;
  static void batch(BatchedCall& c, Batched<"self"> self, Batched<"vec1"> a, Batched<"vec2"> b,
                    Argument<Scalar, "beta"> beta, Argument<Scalar, "alpha"> alpha);
  static constexpr bool inplace = true;
  static constexpr auto gradient_keeps_history = KeepsHistory::IfConstant;  // as with beta = 0
  static constexpr auto doc =
      "beta * self + alpha * outer(vec1, vec2); with beta = 0 self is ignored, NaN included.";
  static constexpr auto signature = "self, vec1, vec2, *, beta=1, alpha=1";
  static constexpr auto samples =
      Cases{"(3, 4), (3,), (4,)", "(4,), (3,), (4,), beta=0, alpha=2", "(0, 4), (0,), (4,)"};
  static constexpr auto old_orders =
      "beta, self, alpha, vec1, vec2; beta, self, vec1, vec2; self, beta, alpha, vec1, vec2; self, beta, "
      "vec1, vec2";
  static Tensor forward(const Tensor& self, const Tensor& vec1, const Tensor& vec2, Scalar beta,
                        Scalar alpha);
  static constexpr auto linear = ProductAndSum<MultilinearIn<"vec1", "vec2">, LinearIn<"self">>{};
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<Scalar, "beta"> beta) { return scaled(g, beta.value.conj()); },
            [](Grad g, Input<"vec2"> b, Argument<Scalar, "alpha"> alpha) {
              return scaled(call<Matmul>(g, as_type(conjugate(b), g.dtype())), alpha.value.conj());
            },
            [](Grad g, Input<"vec1"> a, Argument<Scalar, "alpha"> alpha) {
              return scaled(call<Matmul>(as_type(conjugate(a), g.dtype()), g), alpha.value.conj());
            }};
};

struct Cross : Structured {
  static constexpr auto name = "_cross";
  static constexpr auto recorded_as = "linalg_cross";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "The cross products of vectors of length three along a dimension.";
  static constexpr auto signature = "self, other, dim";
  static constexpr TypeSet types = types::numeric;
  static constexpr auto samples = Cases{"(2, 3), (2, 3), -1", "(3, 2, 2), (3, 2, 2), 0", "(0, 3), (0, 3), 1"};
  static constexpr bool method = false;
  static Tensor forward(Into into, const Tensor& self, const Tensor& other, Dim dim);
  static constexpr auto linear = MultilinearIn<"self", "other">{};
  static constexpr auto vjp = Rules{[](Grad g, Input<"other"> b, Argument<Dim, "dim"> dim) {
                                      return call<Cross>(conjugate(b), g, dim.value);
                                    },
                                    [](Grad g, Input<"self"> a, Argument<Dim, "dim"> dim) {
                                      return call<Cross>(g, conjugate(a), dim.value);
                                    }};
};

struct Linear : Structured {
  static constexpr auto name = "linear";
  static constexpr auto recorded_as = "addmm";
  static void batch(BatchedCall& c, Batched<"input"> input, Batched<"weight"> weight, Batched<"bias"> bias);
  static constexpr auto doc = "input @ weight.T + bias, over the last dimension of the input.";
  static constexpr auto signature = "input, weight, bias=None";
  static constexpr TypeSet types = types::numeric;
  static constexpr auto samples =
      Cases{"(3, 4), (2, 4), (2,)", "(2, 3, 4), (2, 4)", "(4,), (2, 4), (2,)", "(0, 4), (2, 4), (2,)"};
  static constexpr bool method = false;
  static constexpr bool edges_from_last = true;  // the bias is ready first
  static Tensor forward(Into into, const Tensor& input, const Tensor& weight, OptionalTensor bias) {
    return products::linear(into, input, weight, bias);
  }
  static constexpr auto linear = ProductAndSum<MultilinearIn<"input", "weight">, LinearIn<"bias">>{};
  static constexpr auto vjp = Rules{
      [](Grad g, Shape<"input"> s, Input<"weight"> weight) { return linear_input_gradient(g, weight, s); },
      [](Grad g, Input<"input"> input, Shape<"weight"> s) { return linear_weight_gradient(g, input, s); },
      [](Grad g) { return Tensor(g); }};
};

using Products =
    Family<Mm, Bmm, Mv, Dot, BatchedMatmul, Matmul, Outer, Addmm, Baddbmm, Addmv, Addr, Cross, Linear>;

}  // namespace adjoint
