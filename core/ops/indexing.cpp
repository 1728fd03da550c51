// Reading elements by index, and the gradients of that. Where indices lead, and what moves the elements, is
// kernels/indexing.h.
#include "ops/indexing.h"

#include <algorithm>

#include "dispatch/family.h"
#include "kernels/copy.h"
#include "kernels/indexing.h"
#include "kernels/slices.h"
#include "ops/batched_indices.h"
#include "ops/reduction.h"
#include "ops/shape.h"
#include "ops/sparse.h"

namespace adjoint {

// --- Basic indexing -------------------------------------------------------------------------------

Part picked_part(const Part& p, IntList spec) {
  if (spec.size() % 4 != 0)
    fail<ValueError>("_basic_index(): a spec holds four numbers per entry, but this one ", spec.size(),
                     " in all");
  Part out;
  out.offset = p.offset;
  size_t d = 0;
  for (size_t i = 0; i < spec.size(); i += 4) {
    const int64_t start = spec[i + 1], step = spec[i + 2], length = spec[i + 3];
    if (spec[i] == static_cast<int64_t>(Pick::NewAxis)) {
      out.sizes.push_back(1);
      out.strides.push_back(d < p.sizes.size() ? p.sizes[d] * p.strides[d] : 1);
      continue;
    }
    if (d == p.sizes.size()) fail<IndexError>("too many indices for tensor of dimension ", p.sizes.size());
    const int64_t size = p.sizes[d], stride = p.strides[d];
    ++d;
    if (spec[i] == static_cast<int64_t>(Pick::Integer)) {
      if (start < -size || start >= size)
        fail<IndexError>("index ", start, " is out of bounds for dimension ", d - 1, " with size ", size);
      out.offset += (start < 0 ? start + size : start) * stride;
      continue;
    }
    if (step <= 0) fail<ValueError>("step must be greater than zero, but it is ", step);
    if (start < 0 || length < 0 || (length > 0 && start + (length - 1) * step >= size))
      fail<IndexError>("_basic_index(): ", length, " indices from ", start, " with step ", step,
                       " leave dimension ", d - 1, " of size ", size);
    out.sizes.push_back(length);
    out.strides.push_back(stride * step);
    if (length > 0) out.offset += start * stride;
  }
  for (; d < p.sizes.size(); ++d) {
    out.sizes.push_back(p.sizes[d]);
    out.strides.push_back(p.strides[d]);
  }
  return out;
}

Tensor BasicIndex::forward(const Tensor& self, IndexSpec spec) {
  if (spec.size() == 4 && spec[0] == static_cast<int64_t>(Pick::Integer) && self.dim() > 0) {
    // x[i], the most common of all.
    const auto sizes = self.sizes(), strides = self.strides();
    const int64_t i = spec[1], size = sizes[0];
    if (i < -size || i >= size)
      fail<IndexError>("index ", i, " is out of bounds for dimension 0 with size ", size);
    return alias(self, sizes.subspan(1), strides.subspan(1),
                 self.offset() + (i < 0 ? i + size : i) * strides[0]);
  }
  return view_of(self, picked_part(whole(self), spec));
}

// --- Lists of indices -----------------------------------------------------------------------------

namespace {

/// What was read, in torch's order: dimensions that stay lie as they do in self, those of the indices as in
/// the indices.
Tensor in_order(const Tensor& out, const Tensor& self, TensorList indices, const IndexPlan& plan) {
  const auto simple = [](const Tensor& t) { return !t.defined() || t.is_contiguous(); };
  if (out.numel() == 0 || (self.is_contiguous() && std::all_of(indices.begin(), indices.end(), simple)))
    return out;
  Tensors operands(1);
  const size_t rank = out.sizes().size(), before = plan.before.size();
  size_t stay = self.sizes().size();
  for (const Tensor& t : indices) stay -= t.defined();
  Dims strides(rank, 0);
  for (size_t d = 0, i = 0; d < self.sizes().size(); ++d) {
    if (d < indices.size() && indices[d].defined()) continue;
    strides[i < before ? i : rank - stay + i] = self.strides()[d];
    ++i;
  }
  operands[0] = alias(self, out.sizes(), strides.span(), self.offset());
  for (const Tensor& t : indices) {
    if (!t.defined()) continue;
    Dims sizes(t.sizes()), steps(t.strides());
    for (size_t i = before; i < stay; ++i) {
      sizes.push_back(1);
      steps.push_back(0);
    }
    operands.push_back(alias(t, sizes.span(), steps.span(), t.offset()));
  }
  const Dims wanted = strides_along(operands, out.sizes());
  if (same(wanted.span(), out.strides())) return out;
  Tensor laid = empty(out.sizes(), out.dtype());
  laid->set_geometry(Dims(out.sizes()), wanted.data());
  copy_into(laid, out);
  return laid;
}

}  // namespace

Tensor Index::forward(const Tensor& self, OptionalTensorList indices) {
  if (all_masked(self, indices)) return compress(self, dense(indices[0]));
  const Tensors plain = without_masks(self, indices);
  const IndexPlan plan(self, plain, true, "");
  return in_order(read_at({}, self, plan), self, plain, plan);
}

Tensor IndexSelect::forward(Into into, const Tensor& self, Dim dim, const Tensor& index) {
  constexpr auto phrase = "index out of range in self: ";
  const int d = wrap_dim(dim, self.dim(), name);
  if (self.dim() > 0 && self.size(d) == 0 && index.numel())
    fail<IndexError>("index_select(): self indexing axis dim should be positive");
  if (self.dim() > 0) return read_at(into, self, along_dimension(self, d, index, name, false, phrase));
  const int64_t one[] = {1};
  const Tensor flat = Reshape::forward(self, one);
  const Tensor out = read_at({}, flat, along_dimension(flat, d, index, name, false, phrase));
  if (out.numel() != 1)
    fail<IndexError>("index_select(): Index to scalar can have only 1 value, got ", out.numel(), " value(s)");
  return Reshape::forward(out, {});
}

// --- gather ---------------------------------------------------------------------------------------

Tensor Gather::forward(Into into, const Tensor& self, Dim dim, const Tensor& given, bool) {
  const int d = wrap_dim(dim, self.dim(), name);
  const Tensor index = gather_index(given, name);
  const Tensor out = into.empty(index.sizes(), self.dtype());
  if (index.numel() == 0) return out;
  if (std::max<int64_t>(1, self.dim()) != std::max<int64_t>(1, index.dim()))
    fail("gather(): Index tensor must have the same number of dimensions as input tensor, but they have ",
         index.dim(), " and ", self.dim());
  const bool scalar = self.dim() == 0 || index.dim() == 0;
  for (int64_t i = 0; !scalar && i < self.dim(); ++i)
    if (i != d && index.size(i) > self.size(i))
      fail("gather(): Size does not match at dimension ", i, " expected index ", index.sizes(),
           " to be no larger than self ", self.sizes(), " apart from dimension ", d);
  gather_into(out, self, d, index, false, name);
  return out;
}

Tensor Gather::gradient(const Tensor& g, IntList sizes, int64_t dim, const Tensor& index, bool sparse) {
  return sparse ? sparse_gathered(g, sizes, dim, index) : call<PutAlong>(g, sizes, dim, index);
}

Tensor Take::forward(Into into, const Tensor& self, const Tensor& index) {
  if (index.dtype() != DType::Int64)
    fail("take(): Expected a long tensor for index, but got ", name_of(index.dtype()));
  if (self.numel() == 0 && index.numel() != 0) fail<IndexError>("take(): tried to take from an empty tensor");
  const int64_t flat[] = {self.numel()}, each[] = {index.numel()};
  const Tensor out = into.empty(index.sizes(), self.dtype());
  gather_into(Reshape::forward(out, each), Reshape::forward(self, flat), 0, Reshape::forward(index, each),
              true, name);
  return out;
}

Tensor MaskedSelect::forward(const Tensor& self, const Tensor& mask) {
  if (mask.dtype() != DType::Bool)
    fail("masked_select: expected BoolTensor for mask, but got ", name_of(mask.dtype()));
  const Dims shape = broadcast_shapes(self.sizes(), mask.sizes(), name);
  return compress(dense(Expand::forward(self, shape.span())), dense(Expand::forward(mask, shape.span())));
}

Tensor Nonzero::forward(Into into, const Tensor& self) {
  const int64_t one[] = {1}, k = self.dim();
  const Tensors positions = positions_of(k ? self : alias(self, one, one, self.offset()));
  const int64_t n = positions[0].numel(), shape[] = {n, k}, column[] = {n}, step[] = {k};
  const Tensor out = into.empty(shape, DType::Int64);
  for (int64_t d = 0; d < k; ++d)
    copy_into(alias(out, column, step, out.offset() + d), positions[static_cast<size_t>(d)]);
  return out;
}

// --- Gradients: adding into zeros -----------------------------------------------------------------

Tensor PutIndex::forward(const Tensor& self, Sizes shape, OptionalTensorList indices) {
  const Tensor out = empty(shape, self.dtype());
  if (all_masked(out, indices)) {
    const Tensor mask = dense(indices[0]);
    if (is_meta(out)) return out;
    const int64_t count[] = {count_true(mask)};
    expand_into(out, mask, dense(fitted(self, count, name)), true, false);
    return out;
  }
  const Tensors plain = without_masks(out, indices);
  add_at(out, IndexPlan(out, plain, true, ""), self, Before::Zeros);
  return out;
}

Tensor PutSlices::forward(const Tensor& self, Sizes shape, Dim dim, const Tensor& index) {
  const Tensor out = empty(shape, self.dtype());
  const int64_t one[] = {1};
  const Tensor line = out.dim() ? out : Reshape::forward(out, one);
  const IndexPlan plan = along_dimension(line, wrap_dim(dim, out.dim(), name), index, name);
  add_at(line, plan, Reshape::forward(self, plan.shape.span()), Before::Zeros);
  return out;
}

Tensor PutAlong::forward(const Tensor& self, Sizes shape, Dim dim, const Tensor& index) {
  const Tensor out = empty(shape, self.dtype());
  const int d = wrap_dim(dim, out.dim(), name);
  scatter_into(out, {}, d, scatter_index(out, d, index, &self, name), self, Scalar(0), Scattering::Add, name);
  return out;
}

Tensor masked_select_gradient(const Tensor& g, IntList sizes, const Tensor& mask) {
  Dims shape = broadcast_shapes(sizes, mask.sizes(), "masked_select");
  Tensor wide = call<Expand>(mask, shape.span());
  if (shape.empty()) {
    shape.push_back(1);
    wide = call<Reshape>(wide, shape.span());
  }
  const Tensor list[] = {wide};
  return sum_to_value(call<PutIndex>(g, shape.span(), TensorList(list)), sizes);
}

Tensor take_gradient(const Tensor& g, IntList sizes, const Tensor& index) {
  const int64_t flat[] = {product(sizes)};
  const Tensor list[] = {index};
  return call<Reshape>(call<PutIndex>(g, IntList(flat), TensorList(list)), sizes);
}

// --- On batches -----------------------------------------------------------------------------------
//
// (Cold: compiled for size.)

[[gnu::cold]] void Index::batch(BatchedCall& c, Batched<"self"> self,
                                Argument<OptionalTensorList, "indices"> indices) {
  const batching::Positions p(c, self.sizes(), indices);
  c.give(p.order(call<Index>(self.in_front(), TensorList(p.indices)), false));
}

[[gnu::cold]] void PutIndex::batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "shape"> shape,
                                   Argument<OptionalTensorList, "indices"> indices) {
  const batching::Positions p(c, shape, indices);
  const Tensor g = p.order(batching::filled(self, p.shape(shape).span()), true);
  c.give(call<PutIndex>(g, c.with_batch(shape).span(), TensorList(p.indices)));
}

[[gnu::cold]] void IndexSelect::batch(BatchedCall& c, Batched<"self"> self, Argument<int64_t, "dim"> dim,
                                      Batched<"index"> index) {
  batching::along(c, self, dim, index, nullptr, nullptr, false,
                  [](const batching::Along& a) { return call<IndexSelect>(a.self, a.dim, a.index); });
}

[[gnu::cold]] void PutSlices::batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "shape"> shape,
                                    Argument<int64_t, "dim"> dim, Batched<"index"> index) {
  batching::along(c, self, dim, index, nullptr, &shape.value, false, [](const batching::Along& a) {
    return call<PutSlices>(a.self, a.shape.span(), a.dim, a.index);
  });
}

[[gnu::cold]] void PutAlong::batch(BatchedCall& c, Batched<"self"> self, Argument<IntList, "shape"> shape) {
  if (!shape.value.empty()) return batching::by_types(c);
  // Whatever is added to a number goes to the one place that it has.
  const int64_t flat[] = {c.size, self.tensor.numel()}, dim[] = {1};
  c.give(call<Sum>(call<Reshape>(self.in_front(), IntList(flat)), OptionalInts(IntList(dim)), false,
                   OptionalType()));
}

[[gnu::cold]] void Take::batch(BatchedCall& c, Batched<"self"> self, Batched<"index"> given) {
  const int64_t flat[] = {-1};
  const Tensor index = given.bare();
  const Tensor only[] = {index.dtype() == DType::Bool ? call<To>(index, DType::Int64) : index};
  c.give_finished(call<Index>(call<Reshape>(self.bare(), IntList(flat)), TensorList(only)));
}

}  // namespace adjoint

ADJOINT_FAMILY(Indexing)
