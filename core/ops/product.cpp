// Matrix products: which product of matrices each is, and their gradients. What multiplies is
// kernels/product.h.
#include "ops/product.h"

#include "dispatch/family.h"
#include "kernels/product.h"
#include "kernels/slices.h"
#include "ops/arithmetic.h"
#include "ops/complex.h"
#include "ops/shape.h"
#include "tensor/number.h"

namespace adjoint {

namespace {

Tensor reshaped(const Tensor& t, IntList sizes) {
  const Dims strides = contiguous_strides(sizes);
  return alias(t, sizes, {strides.data(), strides.size()}, t.offset());
}

/// "2x3"
std::string by_x(IntList sizes) {
  std::string s;
  for (size_t i = 0; i < sizes.size(); ++i) s += (i ? "x" : "") + std::to_string(sizes[i]);
  return s;
}

/// A view with a dimension of size 1 put in at `dim`.
Tensor with_one(const Tensor& t, size_t dim) {
  Dims sizes(t.sizes()), strides(t.strides());
  sizes.insert(sizes.begin() + dim, 1);
  strides.insert(strides.begin() + dim, 1);
  return alias(t, {sizes.data(), sizes.size()}, {strides.data(), strides.size()}, t.offset());
}

}  // namespace

namespace products {

void need_ranks(const Tensor& a, int64_t rank_a, const Tensor& b, int64_t rank_b, const char* op,
                const Tensor& added) {
  if (a.dim() == rank_a && b.dim() == rank_b) {
    if (rank_a == 3 && a.size(0) != b.size(0))
      fail(op, "(): Expected size for first two dimensions of batch2 tensor to be: [", a.size(0), ", ",
           a.size(2), "] but got: [", b.size(0), ", ", b.size(1), "].");
    return;
  }
  if (rank_a == 1) fail(op, "(): 1D tensors expected, but got ", a.dim(), "D and ", b.dim(), "D tensors");
  if (rank_b == 1)
    fail(op, "(): vector + matrix @ vector expected, got ", added.defined() ? added.dim() : 1, ", ", a.dim(),
         ", ", b.dim());
  const bool first = a.dim() != rank_a;
  const Tensor& wrong = first ? a : b;
  if (rank_a == 3)
    fail(op, "(): ", first ? "batch1" : "batch2", " must be a 3D tensor, but got shape ", wrong.sizes());
  fail(op, "(): ",
       !first            ? "mat2"
       : added.defined() ? "mat1"
                         : "self",
       " must be a matrix, got ", wrong.dim(), "-D tensor");
}

void need_vectors(const Tensor& a, const char* name_of_a, const Tensor& b, const char* name_of_b,
                  const char* op) {
  const bool first = a.dim() != 1;
  if (first || b.dim() != 1)
    fail(op, ": Expected 1-D argument ", first ? name_of_a : name_of_b, ", but got ", (first ? a : b).dim(),
         "-D");
}

Tensor matmul(Into into, const Tensor& a0, const Tensor& b0, const char* op, const Tensor& start0) {
  if (a0.dim() == 0 || b0.dim() == 0)
    fail(op, "(): both arguments to matmul need to be at least 1D, but they are ", a0.dim(), "D and ",
         b0.dim(), "D");
  if (a0.dtype() != b0.dtype() && a0.dim() == 1 && b0.dim() == 1)
    fail("dot : expected both vectors to have same dtype, but found ", type_name_of(a0.dtype()), " and ",
         type_name_of(b0.dtype()), " in ", op, "()");
  if (a0.dtype() != b0.dtype())
    fail(op, "(): expected m1 and m2 to have the same dtype, but got: ", cpp_name_of(a0.dtype()),
         " != ", cpp_name_of(b0.dtype()), "; convert one of them, as in x.to(", name_of(b0.dtype()), ")");
  if (a0.dtype() == DType::Bool) refuse_dtype(a0.dtype(), op, "; convert first, for example with .to(int64)");
  const int64_t k = a0.size(-1), kb = b0.dim() == 1 ? b0.size(0) : b0.size(-2);
  if (k != kb) {
    if (a0.dim() == 1 && b0.dim() == 1)
      fail(op, "(): inconsistent tensor size, expected tensor ", a0.sizes(), " and src ", b0.sizes(),
           " to have the same number of elements, but got ", k, " and ", kb, " elements respectively");
    if (a0.dim() == 2 && b0.dim() == 1)
      fail(op, "(): size mismatch, got input (", a0.size(0), "), mat (", by_x(a0.sizes()), "), vec (", kb,
           ")");
    if (a0.dim() > 2 && b0.dim() > 2)
      fail(op, "(): Expected size for first two dimensions of batch2 tensor to be: [",
           product(a0.sizes().first(static_cast<size_t>(a0.dim() - 2))), ", ", k, "] but got: [",
           product(b0.sizes().first(static_cast<size_t>(b0.dim() - 2))), ", ", kb, "].");
    fail(op, "(): mat1 and mat2 shapes cannot be multiplied (", by_x(a0.sizes()), " and ", by_x(b0.sizes()),
         "): size mismatch, got ", k, " and ", kb,
         "; as many columns of the first as rows of the second are needed: transpose (.mT) or reshape one");
  }
  const DType type = a0.dtype(), c = compute_dtype(type);
  const bool row = a0.dim() == 1, column = b0.dim() == 1;
  Tensor a = type == c ? a0 : copy_of(a0, c), b = type == c ? b0 : copy_of(b0, c);
  if (row) a = with_one(a, 0);
  if (column) b = with_one(b, 1);
  Dims batch = broadcast_shapes(a.sizes().first(static_cast<size_t>(a.dim() - 2)),
                                b.sizes().first(static_cast<size_t>(b.dim() - 2)), op);
  const int64_t m = a.size(-2), n = b.size(-1);
  Dims sizes = batch;
  if (!row) sizes.push_back(m);
  if (!column) sizes.push_back(n);
  const bool nothing = k == 0 && !start0.defined();
  Tensor out = into.empty_for(type, sizes.span(), c);
  if (nothing) zeroed(out);
  if (out.numel() != 0 && !nothing) {
    const Tensor start = start0.defined() ? dense_as(start0, c) : Tensor();
    // A batch of rows times one matrix is one product.
    if (b.dim() == 2 && a.dim() > 2 && a.is_contiguous()) {
      const int64_t flat[] = {a.numel() / k, k};
      a = reshaped(a, flat);
      batch.clear();
    }
    kernels::multiply(a, b, start, out, batch.span());
  }
  return type == c ? out : copy_of(into, out, type);
}

Tensor linear(Into into, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  if (input.dim() == 0)
    fail("both arguments to linear need to be at least 1D, but they are 0D and ", weight.dim(), "D");
  if (weight.dim() != 2 && weight.dim() != 1)
    fail("linear(): weight must be a matrix, but got shape ", weight.sizes());
  if (bias.defined() && (bias.dim() > 1 || (bias.dim() == 1 && bias.size(0) != weight.size(0))))
    fail("linear(): bias has shape ", bias.sizes(), " but the weight of shape ", weight.sizes(), " has ",
         weight.size(0), " rows");
  Tensor w = weight;
  if (weight.dim() == 2) {
    const int64_t sizes[] = {weight.size(1), weight.size(0)},
                  strides[] = {weight.stride(1), weight.stride(0)};
    w = alias(weight, sizes, strides, weight.offset());
  }
  if (weight.dtype() != input.dtype())
    fail("linear(): expected m1 and m2 to have the same dtype, but got: ", cpp_name_of(input.dtype()),
         " != ", cpp_name_of(weight.dtype()), " (mat1 and mat2 must have the same dtype): the input is ",
         name_of(input.dtype()), ", the weight ", name_of(weight.dtype()),
         "; convert one of them, as in input.to(", name_of(weight.dtype()), ")");
  if (bias.defined() && bias.dtype() != input.dtype())
    fail("linear(): expected the bias to have the dtype of the product, but got ", name_of(bias.dtype()),
         " and ", name_of(input.dtype()));
  const bool starts = bias.defined() && bias.dim() == 1 && weight.dim() == 2;
  Tensor out = matmul(into, input, w, "linear", starts ? bias : Tensor());
  if (starts || !bias.defined()) return out;
  const Tensor in[] = {out, bias};
  return call_elementwise(info_of<Add>(), in, nullptr, nullptr, false);
}

Tensor add_product(Into into, const Tensor& t, const Tensor& a, const Tensor& b, const Scalar& beta,
                   const Scalar& alpha, const char* op) {
  auto one = [](const Scalar& s) { return s == Scalar(1) || s == Scalar(1.0); };
  // What is added is what the sums start from, where it lies in rows; very small matrices of a batch have
  // loops that start from zero.
  const auto fits = [&](int64_t d, int64_t size) {
    return t.dim() + d < 0 || t.size(d) == 1 || t.size(d) == size;
  };
  const int64_t rank = a.dim();
  const bool starts =
      one(beta) && one(alpha) && t.dtype() == a.dtype() && t.dim() >= 1 && t.dim() <= rank &&
      t.size(-1) == b.size(-1) && fits(-2, a.size(-2)) &&
      (rank == 2 || (a.size(0) == b.size(0) && fits(-3, a.size(0)) && a.size(-2) >= 4 && b.size(-1) >= 16));
  return starts ? matmul(into, a, b, op, t) : scaled_sum(t, matmul({}, a, b, op), beta, alpha, op);
}

/// A factor of integers, without its fraction.
static Scalar whole_among(DType type, const Scalar& factor) {
  return !is_integral(type) || factor.is_integral() ? factor : Scalar(factor.as_int());
}

Tensor scaled_sum(const Tensor& t, const Tensor& p, const Scalar& given_beta, const Scalar& given_alpha,
                  const char* op) {
  if (!same(t.sizes(), p.sizes())) Expand::forward(t, p.sizes());  // says what does not fit
  if (t.dtype() != p.dtype())
    fail(op, "(): expected self and the factors to have the same dtype, but got: ", name_of(t.dtype()),
         " != ", name_of(p.dtype()));
  refuse_overflow(given_beta, rounding_dtype(p.dtype()), op);
  refuse_overflow(given_alpha, rounding_dtype(p.dtype()), op);
  // Among integers a factor counts without its fraction, as in torch.
  const Scalar beta = whole_among(p.dtype(), given_beta), alpha = whole_among(p.dtype(), given_alpha);
  const Tensor product = scaled(p, alpha);
  return beta == Scalar(0) || beta == Scalar(0.0) ? product : call<Add>(scaled(t, beta), product);
}

}  // namespace products

Tensor conjugate(const Tensor& t) { return t.is_complex() ? call<Conj>(t) : t; }
Tensor conjugate_transpose(const Tensor& t) {
  return conjugate(call<Transpose>(t, int64_t{-2}, int64_t{-1}));
}

Tensor scaled(const Tensor& t, const Scalar& alpha) {
  if (alpha == Scalar(1) || alpha == Scalar(1.0)) return t;
  return call<Mul>(t, wrap_number(alpha, t.dtype()));
}

Tensor matmul_gradient_left(const Tensor& g, const Tensor& b, IntList a_sizes) {
  if (a_sizes.size() == 1 && b.dim() == 1) return call<Mul>(g, conjugate(b));
  if (b.dim() == 1) return call<Mul>(call<Unsqueeze>(g, int64_t{-1}), conjugate(b));
  if (a_sizes.size() == 1) {
    const Tensor column = call<Matmul>(conjugate(b), call<Unsqueeze>(g, int64_t{-1}));
    return call<Reshape>(column, IntList(column.sizes().first(column.sizes().size() - 1)));
  }
  return call<Matmul>(g, conjugate_transpose(b));
}

Tensor matmul_gradient_right(const Tensor& g, const Tensor& a, IntList b_sizes) {
  if (b_sizes.size() == 1 && a.dim() == 1) return call<Mul>(g, conjugate(a));
  if (a.dim() == 1)
    return call<Mul>(call<Unsqueeze>(conjugate(a), int64_t{-1}), call<Unsqueeze>(g, int64_t{-2}));
  if (b_sizes.size() == 1) {
    const Tensor column = call<Matmul>(conjugate_transpose(a), call<Unsqueeze>(g, int64_t{-1}));
    return call<Reshape>(column, IntList(column.sizes().first(column.sizes().size() - 1)));
  }
  if (b_sizes.size() == 2 && a.dim() > 2) {
    // One matrix against a batch: one product, instead of a sum of many.
    const int64_t count = product(a.sizes().first(a.sizes().size() - 1));
    const int64_t rows[] = {count, a.size(-1)}, cotangents[] = {count, g.size(-1)};
    return call<Matmul>(conjugate_transpose(call<Reshape>(a, IntList(rows))),
                        call<Reshape>(g, IntList(cotangents)));
  }
  return call<Matmul>(conjugate_transpose(a), g);
}

Tensor Outer::forward(const Tensor& self, const Tensor& vec2) {
  products::need_vectors(self, "self", vec2, "vec2", name);
  return call<Mul>(with_one(self, 1), with_one(vec2, 0));
}

Tensor Addr::forward(const Tensor& self, const Tensor& vec1, const Tensor& vec2, Scalar beta, Scalar alpha) {
  if (is_integral(self.dtype()) && is_integral(vec1.dtype()) && (!beta.is_integral() || !alpha.is_integral()))
    fail(name, "(): For integral input tensors, argument ", beta.is_integral() ? "alpha" : "beta",
         " must not be a floating point number.");
  for (const auto& [number, what] : {std::pair{beta, "beta"}, {alpha, "alpha"}})
    if (number.kind() == Category::Bool && self.dtype() != DType::Bool)
      fail(name, "(): Boolean ", what, " only supported for Boolean results, but the input has dtype ",
           name_of(self.dtype()));
  products::need_vectors(vec1, "vec1", vec2, "vec2", name);
  const DType factors = promote(vec1.dtype(), vec2.dtype()), type = promote(self.dtype(), factors);
  const auto as = [](const Tensor& t, DType d) { return t.dtype() == d ? t : copy_of(t, d); };
  const Tensor sum =
      products::scaled_sum(as(self, type), Outer::forward(as(vec1, type), as(vec2, type)), beta, alpha, name);
  return as(sum, type);  // a scale makes integers of bools
}

Tensor Cross::forward(Into into, const Tensor& self, const Tensor& other, Dim dim) {
  const int d = dim.of(self.dim(), "linalg.cross");
  if (!same(self.sizes(), other.sizes()) || self.dim() == 0 || self.size(d) != 3)
    fail("linalg.cross: inputs dimension ", dim.value, " must have length 3. Got vectors of shapes ",
         self.sizes(), " and ", other.sizes());
  if (self.dtype() != other.dtype() || self.dtype() == DType::Bool)
    fail("linalg.cross: expected numbers of one type, but got ", name_of(self.dtype()), " and ",
         name_of(other.dtype()));
  const Tensor out = into.empty(self.sizes(), self.dtype());
  if (out.numel()) kernels::cross(out, self, other, d);
  return out;
}

Tensor linear_input_gradient(const Tensor& g, const Tensor& weight, IntList sizes) {
  if (weight.dim() == 1) return matmul_gradient_left(g, weight, sizes);
  return call<Matmul>(g, conjugate(weight));
}

Tensor linear_weight_gradient(const Tensor& g, const Tensor& input, IntList sizes) {
  if (sizes.size() == 1) return matmul_gradient_right(g, input, sizes);
  const int64_t count = product(input.sizes().first(input.sizes().size() - 1));
  const int64_t rows[] = {count, input.size(-1)}, cotangents[] = {count, sizes[0]};
  const Tensor g2 = g.dim() == 2 ? g : call<Reshape>(g, IntList(cotangents));
  const Tensor x2 = input.dim() == 2 ? input : call<Reshape>(input, IntList(rows));
  return call<Matmul>(call<Transpose>(g2, int64_t{0}, int64_t{1}), conjugate(x2));
}

// --- On batches -----------------------------------------------------------------------------------
//
// (Cold: compiled for size.)
//
// A batch of vectors times one matrix is one product of matrices, as is a batch of rows; only where both
// factors are batched there is a product for each sample.

namespace {

Tensor insert(const Tensor& t, int64_t dim) { return call<Unsqueeze>(t, dim); }
Tensor drop(const Tensor& t, int64_t dim) {
  const int64_t dims[] = {dim};
  return call<Squeeze>(t, IntList(dims));
}

/// a @ b for each sample, the batch in front.
[[gnu::cold]] Tensor product_of(const BatchedTensor& x, const BatchedTensor& y) {
  const bool batched_a = x.batched(), batched_b = y.batched();
  const int64_t ra = x.rank(), rb = y.rank();
  Tensor a = x.samples(), b = y.samples();
  if (ra == 0 || rb == 0 || (!batched_a && !batched_b))
    fail(x.call.op.name, "(): both arguments to matmul need to be at least 1D, but they are ", ra, "D and ",
         rb, "D");
  // Vectors side by side are the rows of a matrix.
  if (batched_a && !batched_b && ra == 1 && rb <= 2) return call<Matmul>(a, b);
  if (!batched_a && batched_b && rb == 1 && ra <= 2)
    return ra == 1 ? call<Matmul>(b, a) : call<Matmul>(b, call<Transpose>(a, -2, -1));
  if (batched_a && !batched_b && rb == 1) return call<Matmul>(a, b);
  // All others as matrices.
  if (ra == 1) a = insert(a, -2);
  if (rb == 1) b = insert(b, -1);
  const int64_t rank = std::max({ra, rb, int64_t{2}});
  if (batched_a) a = with_ones(a, rank - std::max<int64_t>(ra, 2));
  if (batched_b) b = with_ones(b, rank - std::max<int64_t>(rb, 2));
  Tensor p = call<Matmul>(a, b);
  if (ra == 1) p = drop(p, -2);
  if (rb == 1) p = drop(p, -1);
  return p;
}
/// The outer product of vectors, the batch in front if one of them is batched.
[[gnu::cold]] Tensor outer_of(const BatchedTensor& a, const BatchedTensor& b) {
  products::need_ranks(a.tensor, 1, b.tensor, 1, a.call.op.name);
  if (!a.batched() && !b.batched()) return call<Mul>(insert(a.tensor, 1), insert(b.tensor, 0));
  const auto batch_of = [](const BatchedTensor& t) {
    return t.batched() ? t.samples() : insert(t.tensor, 0);
  };
  return call<Mul>(insert(batch_of(a), 2), insert(batch_of(b), 1));
}

/// beta * self + alpha * p, where p is a product of these factors.
[[gnu::cold]] void add_to(BatchedCall& c, const BatchedTensor& self, const Tensor& p, const BatchedTensor& a,
                          const BatchedTensor& b, const Scalar& beta, const Scalar& alpha) {
  if (p.dtype() == DType::Bool) return batching::loop(c);  // scaled, it would be a number
  const bool batch = a.batched() || b.batched();
  const Tensor product = scaled(p, alpha);
  // Where it is multiplied by 0 it does not count, whatever it holds.
  if (beta.is_complex() || beta.as_double() != 0)
    return c.give(call<Add>(scaled(self.with_rank(p.dim() - batch), beta), product));
  if (batch)
    c.give(product);
  else
    c.give_finished(product);
}

}  // namespace

[[gnu::cold]] void BatchedMatmul::batch(BatchedCall& c, Batched<"self"> a, Batched<"other"> b) {
  c.give(product_of(a, b));
}

template <int A, int B>
[[gnu::cold]] void FixedRanks<A, B>::batch(BatchedCall& c, Batched<"self"> a, Batched<"other"> b) {
  products::need_ranks(a.tensor, A, b.tensor, B, c.op.name);
  c.give(product_of(a, b));
}

[[gnu::cold]] void Outer::batch(BatchedCall& c, Batched<"self"> a, Batched<"vec2"> b) {
  c.give(outer_of(a, b));
}

[[gnu::cold]] void SumWithProduct::batch(BatchedCall& c, Batched<"self"> self, Batched<"mat1"> a,
                                         Batched<"mat2"> b, Argument<Scalar, "beta"> beta,
                                         Argument<Scalar, "alpha"> alpha) {
  const bool batch = a.batched() || b.batched();  // else the product is one for all
  add_to(c, self, batch ? product_of(a, b) : call<Matmul>(a.tensor, b.tensor), a, b, beta, alpha);
}

[[gnu::cold]] void Addr::batch(BatchedCall& c, Batched<"self"> self, Batched<"vec1"> a, Batched<"vec2"> b,
                               Argument<Scalar, "beta"> beta, Argument<Scalar, "alpha"> alpha) {
  add_to(c, self, outer_of(a, b), a, b, beta, alpha);
}

[[gnu::cold]] void Linear::batch(BatchedCall& c, Batched<"input"> input, Batched<"weight"> weight,
                                 Batched<"bias"> bias) {
  if (!weight.batched() && !bias.batched())
    return c.give(call<Linear>(input.samples(), weight.tensor, bias.optional()));
  Tensor y;
  int64_t rank = input.rank();
  if (!weight.batched()) {
    y = call<Linear>(input.samples(), weight.tensor, OptionalTensor());
  } else {
    if (weight.rank() > 2)
      fail("linear(): weight must have one or two dimensions, but got shape ", weight.sizes());
    const Tensor x = input.samples(), w = weight.samples();
    if (weight.rank() == 1) {
      // One output, which has no dimension.
      y = rank == 1 ? drop(call<Matmul>(insert(input.batched() ? x : insert(x, 0), 1), insert(w, 2)), 2)
                    : call<Matmul>(x, with_ones(insert(w, 2), rank - 2));
      y = drop(y, -1);
      rank -= 1;
    } else {
      const Tensor wt = call<Transpose>(w, -2, -1);
      if (rank == 2 && bias && bias.rank() == 1 &&
          bias.tensor.dtype() == x.dtype())  // the sums start from the bias
        return c.give(call<Baddbmm>(bias.with_rank(2), input.in_front(), wt, Scalar(1), Scalar(1)));
      Tensor rows = rank == 1 ? insert(x, -2) : x;
      y = call<Matmul>(rows, with_ones(wt, std::max<int64_t>(rank, 2) - 2));
      if (rank == 1) y = drop(y, -2);
    }
  }
  if (bias) y = call<Add>(y, bias.with_rank(rank));
  c.give(y);
}

}  // namespace adjoint

ADJOINT_FAMILY(Products)
