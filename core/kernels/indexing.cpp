// Reading elements by index. Start reading at `IndexPlan` in kernels/indexing.h.
#include "kernels/indexing.h"

#include <algorithm>

#include "dispatch/operator.h"
#include "kernels/copy.h"
#include "kernels/cpu/indexing.h"
#include "kernels/cpu/variants.h"
#include "ops/indexing.h"
#include "ops/shape.h"

namespace adjoint {

// --- Basic indexing ------------------------------------------------------------------------------------------------

Part picked_part(const Part& p, IntList spec) {
  if (spec.size() % 4 != 0) fail<ValueError>("_basic_index(): a spec holds four numbers per entry, but this one ", spec.size(), " in all");
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
    if (d == p.sizes.size())
      fail<IndexError>("too many indices for tensor of dimension ", p.sizes.size());
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
      fail<IndexError>("_basic_index(): ", length, " indices from ", start, " with step ", step, " leave dimension ", d - 1, " of size ", size);
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
    if (i < -size || i >= size) fail<IndexError>("index ", i, " is out of bounds for dimension 0 with size ", size);
    return alias(self, sizes.subspan(1), strides.subspan(1), self.offset() + (i < 0 ? i + size : i) * strides[0]);
  }
  return view_of(self, picked_part(whole(self), spec));
}

// --- The plan --------------------------------------------------------------------------------------------------------

namespace {

bool is_mask(const Tensor& t) { return t.dtype() == DType::Bool || t.dtype() == DType::UInt8; }

}  // namespace

Tensors without_masks(const Tensor& self, TensorList indices) {
  Tensors out;
  for (size_t k = 0; k < indices.size(); ++k) {
    const Tensor& t = indices[k];
    if (!t.defined()) {
      out.emplace_back();
      continue;
    }
    if (t.dtype() != DType::Int64 && t.dtype() != DType::Int32 && !is_mask(t))
      fail<IndexError>("tensors used as indices must be long, int, byte or bool tensors, but entry ", k, " is ", name_of(t.dtype()));
    if (!is_mask(t)) {
      out.push_back(t);
      continue;
    }
    if (out.size() + t.sizes().size() > self.sizes().size()) fail<IndexError>("too many indices for tensor of dimension ", self.dim());
    for (size_t j = 0; j < t.sizes().size(); ++j)
      if (t.sizes()[j] != self.sizes()[out.size() + j])
        fail<IndexError>("The shape of the mask ", to_string(t.sizes()), " at index ", j, " does not match the shape of the indexed tensor ",
                         to_string(self.sizes()), " at index ", out.size() + j);
    if (t.dim() == 0) fail<IndexError>("a mask without dimensions selects no dimension: index with True or False instead");
    for (Tensor& p : positions_of(t)) out.push_back(std::move(p));
  }
  if (out.size() > self.sizes().size()) fail<IndexError>("too many indices for tensor of dimension ", self.dim());
  return out;
}

IndexPlan::IndexPlan(const Tensor& self, TensorList indices, bool wrap, const char* op, const char* phrase) {
  const auto sizes = self.sizes(), strides = self.strides();
  const int64_t item = self.itemsize();
  // What the index tensors broadcast to, and whether the indexed dimensions are neighbours.
  int first = -1, last = -1, count = 0;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    const auto s = indices[d].sizes();
    bool fits = true;
    Dims wider;
    const size_t n = std::max(s.size(), common_.size());
    for (size_t i = 0; i < n; ++i) {
      const int64_t a = i < n - common_.size() ? 1 : common_[i - (n - common_.size())];
      const int64_t b = i < n - s.size() ? 1 : s[i - (n - s.size())];
      fits &= a == b || a == 1 || b == 1;
      wider.push_back(a == 1 ? b : a);
    }
    if (!fits) {
      std::string all;
      for (const Tensor& t : indices)
        if (t.defined()) all += (all.empty() ? "" : ", ") + to_string(t.sizes());
      fail<IndexError>("shape mismatch: indexing tensors could not be broadcast together with shapes ", all);
    }
    common_ = wider;
    if (first < 0) first = static_cast<int>(d);
    last = static_cast<int>(d);
    ++count;
  }
  positions = product(common_.span());
  const bool together = count == 0 || last - first + 1 == count;
  // The dimensions that stay.
  Dims after_shape;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (d < indices.size() && indices[d].defined()) continue;
    if (together && static_cast<int>(d) < first) {
      before.push_back(sizes[d]);
      before_strides.push_back(strides[d] * item);
      continue;
    }
    after_shape.push_back(sizes[d]);
    if (!after.empty() && after_strides.back() == strides[d] * item * sizes[d]) {
      after.back() *= sizes[d];
      after_strides.back() = strides[d] * item;
    } else {
      after.push_back(sizes[d]);
      after_strides.push_back(strides[d] * item);
    }
  }
  for (int64_t s : before) shape.push_back(s);
  for (int64_t s : common_) shape.push_back(s);
  for (int64_t s : after_shape) shape.push_back(s);
  // Indices are checked where they lie, before they are broadcast; where that leaves none, not at all.
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    const Tensor index = dense(indices[d].dtype() == DType::Int64 ? indices[d] : copy_of(indices[d], DType::Int64));
    const int64_t n = index.numel(), size = sizes[d], lowest = wrap ? -size : 0;
    const int64_t* v = index.data<int64_t>();
    if (positions && !best_variant<IndexTable>().within(v, n, lowest, size)) [[unlikely]] {
      while (*v >= lowest && *v < size) ++v;
      if (size == 0) fail<IndexError>(op, op[0] ? "(): " : "", phrase, "index is out of bounds for dimension with size 0: index ", *v, " of dimension ", d);
      fail<IndexError>(op, op[0] ? "(): " : "", phrase, "index ", *v, " is out of bounds for dimension ", d, " with size ", size);
    }
    Entry e{index, Dims(common_.size(), 0), size, strides[d] * item};
    const auto own = index.sizes();
    const Dims steps = contiguous_strides(own);
    for (size_t i = 0; i < own.size(); ++i)
      if (own[i] != 1) e.strides[common_.size() - own.size() + i] = steps[i];
    entries_.push_back(std::move(e));
    if (count == 1) {
      slots = size;
      slot_step = e.step;
    }
  }
}

void IndexPlan::offsets(int64_t begin, int64_t n, int64_t* to) const {
  const auto& table = best_variant<IndexTable>();
  if (entries_.empty()) std::fill_n(to, n, 0);
  const int last = static_cast<int>(common_.size()) - 1;
  bool add = false;
  for (const Entry& e : entries_) {
    const int64_t* index = e.index.data<int64_t>();
    if (e.index.numel() == positions) {
      table.offsets(to, index + begin, n, e.size, e.step, add);
      add = true;
      continue;
    }
    // Runs along the last dimension, over which the index is broadcast or dense.
    const int64_t length = last < 0 ? 1 : common_[last], stride = last < 0 ? 0 : e.strides[last];
    for (int64_t p = begin; p < begin + n;) {
      const int64_t within = p % length, run = std::min(length - within, begin + n - p);
      int64_t at = within * stride, rest = p / length;
      for (int i = last - 1; rest; --i) {
        at += rest % common_[i] * e.strides[i];
        rest /= common_[i];
      }
      int64_t* o = to + (p - begin);
      if (stride) {
        table.offsets(o, index + at, run, e.size, e.step, add);
      } else {
        const int64_t offset = (index[at] + (index[at] < 0 ? e.size : 0)) * e.step;
        for (int64_t i = 0; i < run; ++i) o[i] = (add ? o[i] : 0) + offset;
      }
      p += run;
    }
    add = true;
  }
}

IndexPlan along_dimension(const Tensor& self, int d, const Tensor& index, const char* op, bool wrap, const char* phrase) {
  if (index.dim() > 1) fail<IndexError>(op, "(): Index is supposed to be a vector (1-D), but its shape is ", to_string(index.sizes()));
  if (index.dtype() != DType::Int64 && index.dtype() != DType::Int32)
    fail(op, "(): Expected dtype int32 or int64 for index, but got ", name_of(index.dtype()));
  Tensors indices(static_cast<size_t>(d) + 1);
  const int64_t flat[] = {index.numel()};
  indices.back() = Reshape::forward(index, flat);
  return IndexPlan(self, indices, wrap, op, phrase);
}

Tensor gather_index(const Tensor& index, const char* op) {
  if (index.dtype() == DType::Int64) return index;
  if (index.dtype() != DType::Int32) fail(op, "(): Expected dtype int32/int64 for index, but got ", name_of(index.dtype()));
  return copy_of(index, DType::Int64);
}

namespace {

/// Whether the list is one mask over all of a row-major tensor.
bool all_masked(const Tensor& self, TensorList indices) {
  return indices.size() == 1 && indices[0].defined() && indices[0].dtype() == DType::Bool && self.dim() > 0 &&
         same(indices[0].sizes(), self.sizes()) && self.is_contiguous();
}

}  // namespace

Tensor Index::forward(const Tensor& self, OptionalTensorList indices) {
  if (all_masked(self, indices)) return compress(self, dense(indices[0]));
  const Tensors plain = without_masks(self, indices);
  return read_at(self, IndexPlan(self, plain, true, ""));
}

void put_at(const Tensor& self, const Tensor& values, TensorList indices, bool accumulate) {
  if (!accumulate && all_masked(self, indices)) {
    const Tensor mask = dense(indices[0]);
    const bool single = values.numel() == 1;
    const int64_t count[] = {single ? 1 : count_true(mask)};
    const Tensor v = single ? values : fitted(values, count, "");
    const bool apart = v->storage != self->storage && mask->storage != self->storage;
    return expand_into(self, mask, v.dtype() == self.dtype() && apart ? dense(v) : copy_of(v, self.dtype()), false, single);
  }
  const Tensors plain = without_masks(self, indices);
  const IndexPlan plan(self, plain, true, "");
  accumulate ? add_at(self, plan, values) : write_at(self, plan, values);
}

Tensor IndexSelect::forward(const Tensor& self, Dim dim, const Tensor& index) {
  constexpr auto phrase = "index out of range in self: ";
  const int d = wrap_dim(dim, self.dim(), name);
  if (self.dim() > 0) return read_at(self, along_dimension(self, d, index, name, false, phrase));
  const int64_t one[] = {1};
  const Tensor flat = Reshape::forward(self, one);
  const Tensor out = read_at(flat, along_dimension(flat, d, index, name, false, phrase));
  if (out.numel() != 1) fail<IndexError>("index_select(): Index to scalar can have only 1 value, got ", out.numel(), " value(s)");
  return Reshape::forward(out, {});
}

// --- gather ----------------------------------------------------------------------------------------------------------

Tensor Gather::forward(const Tensor& self, Dim dim, const Tensor& given, bool) {
  const int d = wrap_dim(dim, self.dim(), name);
  const Tensor index = gather_index(given, name);
  const Tensor out = empty(index.sizes(), self.dtype());
  if (index.numel() == 0) return out;
  if (std::max<int64_t>(1, self.dim()) != std::max<int64_t>(1, index.dim()))
    fail("gather(): Index tensor must have the same number of dimensions as input tensor, but they have ", index.dim(), " and ", self.dim());
  const bool scalar = self.dim() == 0 || index.dim() == 0;
  for (int64_t i = 0; !scalar && i < self.dim(); ++i)
    if (i != d && index.size(i) > self.size(i))
      fail("gather(): Size does not match at dimension ", i, " expected index ", to_string(index.sizes()), " to be no larger than self ",
           to_string(self.sizes()), " apart from dimension ", d);
  gather_into(out, self, d, index, false, name);
  return out;
}

Tensor Take::forward(const Tensor& self, const Tensor& index) {
  if (index.dtype() != DType::Int64) fail("take(): Expected a long tensor for index, but got ", name_of(index.dtype()));
  if (self.numel() == 0 && index.numel() != 0) fail<IndexError>("take(): tried to take from an empty tensor");
  const int64_t flat[] = {self.numel()}, each[] = {index.numel()};
  const Tensor out = empty(index.sizes(), self.dtype());
  gather_into(Reshape::forward(out, each), Reshape::forward(self, flat), 0, Reshape::forward(index, each), true, name);
  return out;
}

Tensor MaskedSelect::forward(const Tensor& self, const Tensor& mask) {
  if (mask.dtype() != DType::Bool) fail("masked_select: expected BoolTensor for mask, but got ", name_of(mask.dtype()));
  const Dims shape = broadcast_shapes(self.sizes(), mask.sizes(), name);
  return compress(dense(Expand::forward(self, shape.span())), dense(Expand::forward(mask, shape.span())));
}

Tensor Nonzero::forward(const Tensor& self) {
  if (self.dim() == 0) {
    const int64_t shape[] = {read_element(self.bytes(), self.dtype()).to<bool>() ? 1 : 0, 0};
    return empty(shape, DType::Int64);
  }
  const Tensors positions = positions_of(self);
  const int64_t n = positions[0].numel(), k = self.dim();
  const int64_t shape[] = {n, k};
  const Tensor out = empty(shape, DType::Int64);
  for (int64_t d = 0; d < k; ++d)
    for (int64_t i = 0; i < n; ++i) out.data<int64_t>()[i * k + d] = positions[static_cast<size_t>(d)].data<int64_t>()[i];
  return out;
}

// --- Gradients: adding into zeros ------------------------------------------------------------------------------------

Tensor PutIndex::forward(const Tensor& self, Sizes shape, OptionalTensorList indices) {
  const Tensor out = empty(shape, self.dtype());
  if (all_masked(out, indices)) {
    const Tensor mask = dense(indices[0]);
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
  Tensor wide = Expand::forward(mask, shape.span());
  if (shape.empty()) {
    shape.push_back(1);
    wide = Reshape::forward(wide, shape.span());
  }
  const Tensor list[] = {wide};
  return sum_to_value(call<PutIndex>(g, shape.span(), TensorList(list)), sizes);
}

Tensor take_gradient(const Tensor& g, IntList sizes, const Tensor& index) {
  const int64_t flat[] = {product(sizes)};
  const Tensor list[] = {index};
  return call<Reshape>(call<PutIndex>(g, IntList(flat), TensorList(list)), sizes);
}

}  // namespace adjoint
