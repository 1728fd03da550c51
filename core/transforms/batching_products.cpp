// Products on batches: all of them are products of matrices with one more dimension in front.
//
// A batch of vectors times one matrix is one product of matrices, as is a batch of rows; only where both
// factors are batched there is a product for each sample. Start reading at `product_of`.
#include "for_size.h"
#include "ops/arithmetic.h"
#include "ops/product.h"
#include "ops/shape.h"
#include "transforms/batching_call.h"

namespace adjoint::batching {

namespace {

Tensor insert(const Tensor& t, int64_t dim) { return call<Unsqueeze>(t, dim); }
Tensor drop(const Tensor& t, int64_t dim) {
  const int64_t dims[] = {dim};
  return call<Squeeze>(t, IntList(dims));
}

/// a @ b for each sample, the batch in front, of factors number i and j.
Tensor product_of(const BatchedCall& c, int i, int j) {
  const bool batched_a = c.batched(i), batched_b = c.batched(j);
  const int64_t ra = c.rank(i), rb = c.rank(j);
  Tensor a = c.samples(i), b = c.samples(j);
  if (ra == 0 || rb == 0 || (!batched_a && !batched_b))
    fail(c.op.name, "(): both arguments to matmul need to be at least 1D, but they are ", ra, "D and ", rb,
         "D");
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

void check_ranks(const BatchedCall& c, int i, int64_t a, int64_t b) {
  products::need_ranks(c.tensor(i), a, c.tensor(i + 1), b, c.op.name);
}

/// beta * self + alpha * p, where p has the given rank for each sample, or for all of them.
void add_to(BatchedCall& c, const Tensor& p, int64_t rank, bool batch) {
  if (p.dtype() == DType::Bool) return loop(c);  // scaled, it would be a number
  const Scalar beta = c.given[3].scalar, alpha = c.given[4].scalar;
  const Tensor product = scaled(p, alpha);
  const bool none = !beta.is_complex() && beta.as_double() == 0;
  const Tensor self = c.with_rank(c.tensor(0), rank);
  // Where it is multiplied by 0 it does not count, whatever it holds.
  if (!none) return c.give(call<Add>(scaled(self, beta), product));
  if (batch)
    c.give(product);
  else
    c.give_finished(product);
}

}  // namespace

void product(BatchedCall& c) { c.give(product_of(c, 0, 1)); }
void product_2_2(BatchedCall& c) {
  check_ranks(c, 0, 2, 2);
  product(c);
}
void product_3_3(BatchedCall& c) {
  check_ranks(c, 0, 3, 3);
  product(c);
}
void product_2_1(BatchedCall& c) {
  check_ranks(c, 0, 2, 1);
  product(c);
}
void product_1_1(BatchedCall& c) {
  check_ranks(c, 0, 1, 1);
  product(c);
}

void outer(BatchedCall& c) {
  check_ranks(c, 0, 1, 1);
  const auto batch_of = [&](int i) { return c.batched(i) ? c.samples(i) : insert(c.samples(i), 0); };
  c.give(call<Mul>(insert(batch_of(0), 2), insert(batch_of(1), 1)));
}

void add_product(BatchedCall& c) {
  if (!c.batched(1) && !c.batched(2)) {
    // The product is one for all.
    const Tensor p = call<Matmul>(c.tensor(1), c.tensor(2));
    return add_to(c, p, p.dim(), false);
  }
  const Tensor p = product_of(c, 1, 2);
  add_to(c, p, p.dim() - 1, true);
}

void add_outer(BatchedCall& c) {
  check_ranks(c, 1, 1, 1);
  if (!c.batched(1) && !c.batched(2))
    return add_to(c, call<Mul>(insert(c.tensor(1), 1), insert(c.tensor(2), 0)), 2, false);
  const auto batch_of = [&](int i) { return c.batched(i) ? c.samples(i) : insert(c.samples(i), 0); };
  add_to(c, call<Mul>(insert(batch_of(1), 2), insert(batch_of(2), 1)), 2, true);
}

void linear(BatchedCall& c) {
  const bool batched_bias = c.batched(2);
  if (!c.batched(1) && !batched_bias)
    return c.give(
        call<Linear>(c.samples(0), c.tensor(1), c.has(2) ? OptionalTensor(c.tensor(2)) : OptionalTensor()));
  Tensor y;
  int64_t rank = c.rank(0);
  if (!c.batched(0) && !c.batched(1)) {
    y = call<Linear>(c.tensor(0), c.tensor(1), OptionalTensor());
  } else if (!c.batched(1)) {
    y = call<Linear>(c.samples(0), c.tensor(1), OptionalTensor());
  } else {
    if (c.rank(1) > 2)
      fail("linear(): weight must have one or two dimensions, but got shape ",
           to_string(c.tensor(1).sizes()));
    const Tensor x = c.samples(0), w = c.samples(1);
    if (c.rank(1) == 1) {
      // One output, which has no dimension.
      y = rank == 1 ? drop(call<Matmul>(insert(c.batched(0) ? x : insert(x, 0), 1), insert(w, 2)), 2)
                    : call<Matmul>(with_ones(x, c.batched(0) ? 0 : 0), with_ones(insert(w, 2), rank - 2));
      y = drop(y, -1);
      rank -= 1;
    } else {
      const Tensor wt = call<Transpose>(w, -2, -1);
      if (rank == 2 && c.has(2) && c.rank(2) == 1 &&
          c.tensor(2).dtype() == x.dtype())  // the sums start from the bias
        return c.give(call<Baddbmm>(batched_bias ? with_ones(c.samples(2), 1) : c.tensor(2), c.in_front(0),
                                    wt, Scalar(1), Scalar(1)));
      Tensor rows = rank == 1 ? insert(x, -2) : x;
      y = call<Matmul>(rows, with_ones(wt, std::max<int64_t>(rank, 2) - 2));
      if (rank == 1) y = drop(y, -2);
    }
  }
  if (c.has(2)) y = call<Add>(y, batched_bias ? with_ones(c.samples(2), rank - c.rank(2)) : c.tensor(2));
  c.give(y);
}

}  // namespace adjoint::batching
