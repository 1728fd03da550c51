// Reading and writing by index on batches.
//
// Indices of one dimension that differ from sample to sample name rows of all samples laid end to end
// (`along`). Advanced indexing gets the batch as one more dimension, and a vector that counts the samples as
// its index where others differ from sample to sample (`Positions`). Start reading there.
#include <algorithm>

#include "dispatch/constants.h"
#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/indexing.h"
#include "kernels/launch.h"
#include "kernels/values.h"
#include "ops/arithmetic.h"
#include "ops/division.h"
#include "ops/indexing.h"
#include "ops/reduction.h"
#include "ops/shape.h"
#include "ops/writing.h"
#include "transforms/batching_call.h"

namespace adjoint::batching {

namespace {

/// Whether every index names one of n rows, counted from behind where it is negative and `first` is -n.
bool within(const Tensor& index, int64_t first, int64_t n) {
  if (!is_integral(index.dtype())) return false;
  Tensor whole = index;
  while (is_batched(whole)) whole = Tensor(samples_of(whole));
  const Tensor all = whole.dtype() == DType::Int64 ? dense(whole) : copy_of(whole, DType::Int64);
  return check<&kernels::all_within>(all, first, n);
}

Tensor moved(const Tensor& t, IntList from, IntList to) { return call<MoveDim>(t, from, to); }

/// Where the indices of a call lie, and what its shape for one sample is.
struct Positions {
  const BatchedCall& c;
  Tensors indices;     // as the samples are indexed
  Dims common;         // what the indices broadcast to
  int64_t before = 0;  // dimensions in front of those, in the result for one sample
  bool together = true, each = false;
  int first = -1;

  /// Indices of a tensor of these sizes for each sample, itself batched or `made` to be.
  Positions(const BatchedCall& call_, IntList sizes, TensorList given, bool with_batch) : c(call_) {
    const Tensor like = over(Ref<Storage>::share(zeros(IntList(), DType::Bool)->storage), DType::Bool, sizes,
                             Dims(sizes.size(), 0).span(), 0);
    Tensors plain;
    for (const Tensor& t : given) {
      if (t.defined() && c.batched(t) && (t.dtype() == DType::Bool || t.dtype() == DType::UInt8))
        refuse_values(t, Asked::Shape, "nonzero");
      each |= t.defined() && c.batched(t);
    }
    // Masks that are the same for all samples.
    bool masks = false;
    for (const Tensor& t : given)
      masks |= t.defined() && (t.dtype() == DType::Bool || t.dtype() == DType::UInt8);
    plain = masks ? without_masks(like, given) : Tensors(given.begin(), given.end());
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
    if (with_batch || each) {
      // One more dimension in front of the indexed tensor.
      Tensor samples;
      if (each) {
        Dims shape(static_cast<size_t>(n) + 1, 1);
        shape[0] = c.size;
        samples = call<View>(counted(0, c.size), shape.span());
      }
      indices.push_back(std::move(samples));
    }
    for (const Tensor& t : plain) indices.push_back(t.defined() ? c.with_rank(t, n) : t);
  }

  /// From how indexing lays out the samples to the batch in front, and back.
  Tensor order(const Tensor& t, bool back) const {
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

  /// The shape for one sample, of a tensor of the given sizes.
  Dims shape(IntList sizes) const {
    Dims s;
    const size_t skip = indices.empty() ? 0 : 1;
    bool done = false;
    const auto put_common = [&] {
      for (int64_t d : common) s.push_back(d);
      done = true;
    };
    if (!together) put_common();
    for (size_t d = 0; d < sizes.size(); ++d) {
      const bool indexed = d + skip < indices.size() && indices[d + skip].defined();
      if (indexed && !done) put_common();
      if (!indexed) s.push_back(sizes[d]);
    }
    return s;
  }
};

Dims with_batch(const BatchedCall& c, IntList sizes) {
  Dims all(sizes);
  all.insert(all.begin(), c.size);
  return all;
}

/// Values that are to be written to a place of this rank: they may have fewer dimensions, and more, of
/// size 1.
Tensor with_rank(const BatchedCall& c, const Tensor& t, int64_t rank) {
  const int64_t first = c.batched(t) ? 1 : 0;
  Tensor values = c.samples(t);
  while (values.dim() - first > rank && values.size(first) == 1) values = call<Select>(values, first, 0);
  return first ? with_ones(values, rank + 1 - values.dim()) : values;
}

/// With the batch in front and expanded to these sizes for each sample.
Tensor filled(const BatchedCall& c, const Tensor& t, IntList sizes) {
  return call<Expand>(with_rank(c, t, static_cast<int64_t>(sizes.size())), with_batch(c, sizes).span());
}

}  // namespace

void index(BatchedCall& c) {
  const TensorList given = c.given[1].tensors();
  const Positions p(c, c.tensor(0).sizes(), given, true);
  c.give(p.order(call<Index>(c.in_front(0), TensorList(p.indices)), false));
}

void put_index(BatchedCall& c) {
  const IntList sizes = c.ints(1);
  const Positions p(c, sizes, c.given[2].tensors(), true);
  const Tensor g = p.order(filled(c, c.tensor(0), p.shape(sizes).span()), true);
  c.give(call<PutIndex>(g, with_batch(c, sizes).span(), TensorList(p.indices)));
}

void put_along(BatchedCall& c) {
  if (!c.ints(1).empty()) return by_types(c);
  // Whatever is added to a number goes to the one place that it has.
  const int64_t flat[] = {c.size, c.tensor(0).numel()}, dim[] = {1};
  c.give(call<Sum>(call<Reshape>(c.in_front(0), IntList(flat)), OptionalInts(IntList(dim)), false,
                   OptionalType()));
}

void zero_index(BatchedCall& c) {
  const Positions p(c, c.tensor(0).sizes(), c.given[1].tensors(), true);
  c.give(call<ZeroIndex>(c.in_front(0), TensorList(p.indices)));
}

void write_index(BatchedCall& c) {
  const IntList sizes = c.tensor(0).sizes();
  const Positions p(c, sizes, c.given[2].tensors(), true);
  const Tensor values = p.order(filled(c, c.tensor(1), p.shape(sizes).span()), true);
  c.give(call<IndexPut>(c.samples(0), values, TensorList(p.indices), c.boolean(3)));
}

void write_basic(BatchedCall& c) {
  Dims spec{static_cast<int64_t>(Pick::Slice), 0, 1, c.size};
  for (int64_t s : c.ints(2)) spec.push_back(s);
  const Tensor part = call<BasicIndex>(c.samples(0), spec.span());
  c.give(call<Copy>(part, with_rank(c, c.tensor(1), part.dim() - 1)));
}

void write(BatchedCall& c) {
  need_copy_fits(c.tensor(0).sizes(), c.tensor(1).sizes());
  c.give(call<Copy>(c.samples(0), with_rank(c, c.tensor(1), c.rank(0))));
}

void fill(BatchedCall& c) {
  if (c.rank(1) != 0)
    fail("fill_() only supports a 0-dimensional value tensor, but got tensor with ", c.rank(1),
         " dimension(s).");
  if (!c.batched(1)) return c.give(call<Fill>(c.samples(0), c.tensor(1)));
  write(c);
}

void zero(BatchedCall& c) { c.give(call<ZeroAll>(c.samples(0))); }

void take(BatchedCall& c) {
  const int64_t flat[] = {-1};
  const Tensor self = call<Reshape>(c.bare(0), IntList(flat)), index = c.bare(1);
  const Tensor only[] = {index.dtype() == DType::Bool ? call<To>(index, DType::Int64) : index};
  c.give_finished(call<Index>(self, TensorList(only)));
}

/// Slices by a vector of indices along a dimension: arguments self, [shape,] dim, index, [others].
void along(BatchedCall& c) {
  int dim = 1, index = 2;
  const bool put = c.op.kinds[1]->form == Form::Ints;
  if (put) dim = 2, index = 3;
  if (!c.batched(index) || c.rank(index) > 1 || c.rank(0) == 0) {
    // The same for all samples, or for a loop.
    if (c.batched(index) || c.rank(0) == 0) return loop(c);
    const int64_t d = wrap_dim(c.integer(dim), c.rank(0), c.op.name) + 1;
    std::vector<Value> values(c.given.begin(), c.given.end());
    values[dim].i = d;
    std::deque<Tensor> kept;
    for (size_t i = 0; i < values.size(); ++i) {
      if (static_cast<int>(i) == index || c.op.kinds[i]->form != Form::Tensor || !values[i].present) continue;
      if (values[i].tensor->dim() == 0 && c.batched(*values[i].tensor))
        return loop(c);  // a value to fill with
      if (values[i].tensor->dim() != c.rank(0) && i) {
        if (values[i].tensor->dim() == 0) continue;
        return loop(c);
      }
      values[i].tensor = &kept.emplace_back(c.in_front(static_cast<int>(i)));
    }
    const Dims shape = put ? with_batch(c, c.ints(1)) : Dims();
    if (put) values[1].list = {shape.data(), shape.size()};
    return c.op.boxed(values.data(), c.results);
  }
  // Rows of all samples laid end to end, of which each sample names its own.
  const int64_t d = wrap_dim(c.integer(dim), c.rank(0), c.op.name);
  const int64_t n = put ? c.ints(1)[static_cast<size_t>(d)] : c.tensor(0).size(d),
                count = c.tensor(index).numel();
  const int64_t from[] = {d + 1}, to[] = {1};
  const auto rows_of = [&](const Tensor& t) {
    const Tensor front = moved(c.in_front(t), from, to);
    const int64_t join[] = {0, 1};
    return call<Flatten>(front, join[0], join[1]);
  };
  Tensor own = call<Reshape>(c.samples(index), with_batch(c, IntList(&count, 1)).span());
  const bool from_behind = std::string_view(c.op.name) == IndexFill::name;
  if (count == 0 || !within(own, from_behind ? -n : 0, n))
    return loop(c);  // which names the index that is not
  if (from_behind) own = call<Remainder>(own, scalar_tensor(Scalar(n), DType::Int64));
  const int64_t column[] = {c.size, 1};
  const Tensor steps =
      call<Mul>(call<View>(counted(0, c.size), IntList(column)), scalar_tensor(Scalar(n), DType::Int64));
  const int64_t flat[] = {-1};
  const Tensor rows = call<Reshape>(
      call<Add>(own.dtype() == DType::Int64 ? own : call<To>(own, DType::Int64), steps), IntList(flat));
  std::vector<Value> values(c.given.begin(), c.given.end());
  std::deque<Tensor> kept;
  for (size_t i = 0; i < values.size(); ++i) {
    if (c.op.kinds[i]->form != Form::Tensor || !values[i].present || static_cast<int>(i) == index) continue;
    const Tensor& t = *values[i].tensor;
    if (t.dim() == 0 && !c.batched(t)) continue;
    if (t.dim() != c.rank(0)) return loop(c);
    values[i].tensor = &kept.emplace_back(rows_of(t));
  }
  values[index].tensor = &rows;
  values[dim].i = 0;
  Dims shape;
  if (put) {
    shape.push_back(c.size * n);
    for (size_t i = 0; i < c.ints(1).size(); ++i)
      if (static_cast<int64_t>(i) != d) shape.push_back(c.ints(1)[i]);
    values[1].list = {shape.data(), shape.size()};
  }
  c.op.boxed(values.data(), c.results);
  const Tensor& r = c.results.one;
  const Dims parts{c.size, r.size(0) / std::max<int64_t>(c.size, 1)};
  c.results.one = moved(call<Unflatten>(r, 0, parts.span()), to, from);
}

}  // namespace adjoint::batching
