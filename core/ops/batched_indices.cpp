#include "ops/batched_indices.h"

#include "dispatch/batched_call.h"
#include "dispatch/constants.h"
#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/indexing.h"
#include "kernels/launch.h"
#include "kernels/values.h"
#include "ops/arithmetic.h"
#include "ops/comparison.h"
#include "ops/division.h"
#include "ops/indexing.h"
#include "ops/reduction.h"
#include "ops/shape.h"

namespace adjoint::batching {

namespace {

bool is_mask(const Tensor& t) { return t.dtype() == DType::Bool || t.dtype() == DType::UInt8; }

/// Whether every index names one of n rows, counted from the end where it is negative and `first` is -n.
bool within(const Tensor& index, int64_t first, int64_t n) {
  if (!is_integral(index.dtype())) return false;
  const Tensor whole = all_samples(index);
  const Tensor all = whole.dtype() == DType::Int64 ? dense(whole) : copy_of(whole, DType::Int64);
  if (thread_state.watched) [[unlikely]] {
    // What is done next depends on it, so that who looks on has to see it decided.
    const auto number = [](int64_t k) { return scalar_tensor(Scalar(k), DType::Int64); };
    const Tensor each = call<LogicalAnd>(call<GreaterEqual>(all, number(first)), call<Less>(all, number(n)));
    return item(call<All>(each, OptionalDims(), false), "vmap").as_int() != 0;
  }
  return check<&kernels::all_within>(all, first, n);
}

/// Where a mask holds, by a call: it decides shapes.
Tensors places_of(const Tensor& mask) {
  const Tensor rows = call<Nonzero>(mask);
  Tensors columns;
  for (int64_t d = 0; d < mask.dim(); ++d) columns.push_back(call<Select>(rows, 1, d));
  return columns;
}

Tensor moved(const Tensor& t, IntList from, IntList to) { return call<MoveDim>(t, from, to); }

}  // namespace

Positions::Positions(const BatchedCall& call_, IntList sizes, TensorList given) : c(call_) {
  bool masks = false;
  for (const Tensor& t : given) {
    if (!t.defined()) continue;
    if (c.batched(t) && is_mask(t)) needs_values(t, "nonzero");
    each |= c.batched(t);
    masks |= is_mask(t);  // the same for all samples
  }
  const Tensor like = over(Ref<Storage>::share(zeros(IntList(), DType::Bool)->storage), DType::Bool, sizes,
                           Dims(sizes.size(), 0).span(), 0);
  const Tensors plain = masks ? without_masks(like, given, places_of) : Tensors(given.begin(), given.end());
  int last = -1, count = 0;
  for (size_t d = 0; d < plain.size(); ++d) {
    if (!plain[d].defined()) continue;
    common = broadcast_shapes(common.span(), plain[d].sizes(), "indexing");
    if (first < 0) first = static_cast<int>(d);
    last = static_cast<int>(d);
    ++count;
  }
  together = count == 0 || last - first + 1 == count;
  before = together && count ? first : 0;
  const auto n = static_cast<int64_t>(common.size());
  // One more dimension in front of the indexed tensor.
  Tensor samples;
  if (each) {
    Dims shape(static_cast<size_t>(n) + 1, 1);
    shape[0] = c.size;
    samples = call<View>(counted(0, c.size), shape.span());
  }
  indices.push_back(std::move(samples));
  for (const Tensor& t : plain) indices.push_back(t.defined() ? c.with_rank(t, n) : t);
}

Tensor Positions::order(const Tensor& t, bool back) const {
  const auto n = static_cast<int64_t>(common.size());
  if (!each) {
    if (together) return t;
    const int64_t a[] = {n}, b[] = {0};
    return back ? moved(t, b, a) : moved(t, a, b);
  }
  if (!together || first == 0 || n == 0) return t;
  Dims a, b;
  for (int64_t i = 0; i < n; ++i) {
    a.push_back(1 + i);
    b.push_back(1 + before + i);
  }
  return back ? moved(t, b.span(), a.span()) : moved(t, a.span(), b.span());
}

Dims Positions::shape(IntList sizes) const {
  Dims s;
  bool done = false;
  const auto put_common = [&] {
    for (int64_t d : common) s.push_back(d);
    done = true;
  };
  if (!together) put_common();
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool indexed = d + 1 < indices.size() && indices[d + 1].defined();
    if (indexed && !done) put_common();
    if (!indexed) s.push_back(sizes[d]);
  }
  return s;
}

Tensor values_of_rank(const BatchedTensor& given, int64_t rank) {
  const int64_t first = given.batched() ? 1 : 0;
  Tensor values = given.samples();
  while (values.dim() - first > rank && values.size(first) == 1) values = call<Select>(values, first, 0);
  return first ? with_ones(values, rank + 1 - values.dim()) : values;
}

Tensor filled(const BatchedTensor& values, IntList sizes) {
  return call<Expand>(values_of_rank(values, static_cast<int64_t>(sizes.size())),
                      values.call.with_batch(sizes).span());
}

void along(BatchedCall& c, const BatchedTensor& self, int64_t dim, const BatchedTensor& index,
           const BatchedTensor* other, const IntList* shape, bool from_end,
           const std::function<Tensor(const Along&)>& compute) {
  if (self.rank() == 0) return loop(c);
  const int64_t d = wrap_dim(dim, self.rank(), c.op.name);
  const bool slices = other && other->rank() != 0;
  if (slices && other->rank() != self.rank()) return loop(c);
  if (other && !slices && other->batched()) return loop(c);  // a value to fill with
  if (!index.batched())                                      // the same for all samples
    return c.give(compute({self.in_front(), d + 1, index.tensor,
                           slices  ? other->in_front()
                           : other ? other->tensor
                                   : Tensor(),
                           shape ? c.with_batch(*shape) : Dims()}));
  if (index.rank() > 1) return loop(c);
  // Rows of all samples laid end to end, of which each sample names its own.
  const int64_t n = shape ? (*shape)[static_cast<size_t>(d)] : self.tensor.size(d),
                count = index.tensor.numel();
  const int64_t from[] = {d + 1}, to[] = {1};
  const auto rows_of = [&](const BatchedTensor& t) {
    return joined(moved(t.in_front(), IntList(from), IntList(to)), 0);
  };
  Tensor own = call<Reshape>(index.samples(), c.with_batch(IntList(&count, 1)).span());
  if (count == 0 || !within(own, from_end ? -n : 0, n)) return loop(c);  // which names the index that is not
  if (from_end) own = call<Remainder>(own, scalar_tensor(Scalar(n), DType::Int64));
  const int64_t column[] = {c.size, 1}, flat[] = {-1};
  const Tensor steps =
      call<Mul>(call<View>(counted(0, c.size), IntList(column)), scalar_tensor(Scalar(n), DType::Int64));
  Along rows;
  rows.self = rows_of(self);
  rows.index = call<Reshape>(
      call<Add>(own.dtype() == DType::Int64 ? own : call<To>(own, DType::Int64), steps), IntList(flat));
  if (other) rows.other = slices ? rows_of(*other) : other->tensor;
  if (shape) {
    rows.shape.push_back(c.size * n);
    for (size_t i = 0; i < shape->size(); ++i)
      if (static_cast<int64_t>(i) != d) rows.shape.push_back((*shape)[i]);
  }
  const Tensor r = compute(rows);
  const Dims parts{c.size, r.size(0) / std::max<int64_t>(c.size, 1)};
  c.give(moved(call<Unflatten>(r, 0, parts.span()), IntList(to), IntList(from)));
}

}  // namespace adjoint::batching
