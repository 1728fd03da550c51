// Where the elements are that indices name. Start reading at `IndexPlan` in kernels/indexing.h.
#include "kernels/indexing.h"

#include <algorithm>

#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/cpu/indexing.h"
#include "kernels/cpu/variants.h"
#include "kernels/launch.h"

namespace adjoint {

namespace {

/// The first of these int64 that is not in [low, high).
std::optional<int64_t> first_outside(const Tensor& index, int64_t low, int64_t high) {
  const int64_t *v = index.data<int64_t>(), n = index.numel();
  if (best_variant<IndexTable>().within(v, n, low, high)) [[likely]]
    return {};
  for (const int64_t* const last = v + n - 1; v < last && *v >= low && *v < high;) ++v;
  return *v;
}

bool is_mask(const Tensor& t) { return t.dtype() == DType::Bool || t.dtype() == DType::UInt8; }

}  // namespace

Tensors without_masks(const Tensor& self, TensorList indices, Tensors (*positions)(const Tensor&)) {
  Tensors out;
  for (size_t k = 0; k < indices.size(); ++k) {
    const Tensor& t = indices[k];
    if (!t.defined()) {
      out.emplace_back();
      continue;
    }
    if (t.dtype() != DType::Int64 && t.dtype() != DType::Int32 && !is_mask(t))
      fail<IndexError>("tensors used as indices must be long, int, byte or bool tensors, but entry ", k,
                       " is ", name_of(t.dtype()));
    if (device_of(t) != device_of(self)) {  // where the elements are
      if (device_of(t) != Device::CPU)
        fail("indices should be either on cpu or on the same device as the indexed tensor (",
             name_of(device_of(self)), "), but entry ", k, " is on ", name_of(device_of(t)));
      Tensors moved(indices.begin(), indices.end());
      moved[k] = copy_of(t);
      return without_masks(self, moved, positions);
    }
    if (!is_mask(t)) {
      out.push_back(t);
      continue;
    }
    if (out.size() + t.sizes().size() > self.sizes().size())
      fail<IndexError>("too many indices for tensor of dimension ", self.dim());
    for (size_t j = 0; j < t.sizes().size(); ++j)
      if (t.sizes()[j] != self.sizes()[out.size() + j])
        fail<IndexError>("The shape of the mask ", t.sizes(), " at index ", j,
                         " does not match the shape of the indexed tensor ", self.sizes(), " at index ",
                         out.size() + j);
    if (t.dim() == 0)
      fail<IndexError>("a mask without dimensions selects no dimension: index with True or False instead");
    for (Tensor& p : positions(t)) out.push_back(std::move(p));
  }
  if (out.size() > self.sizes().size())
    fail<IndexError>("too many indices for tensor of dimension ", self.dim());
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
    const Tensor index =
        dense(indices[d].dtype() == DType::Int64 ? indices[d] : copy_of(indices[d], DType::Int64));
    const int64_t size = sizes[d];
    if (positions)
      if (const auto outside = check<&first_outside>(index, wrap ? -size : 0, size)) [[unlikely]] {
        if (size == 0)
          fail<IndexError>(op, op[0] ? "(): " : "", phrase,
                           "index is out of bounds for dimension with size 0: index ", *outside,
                           " of dimension ", d);
        fail<IndexError>(op, op[0] ? "(): " : "", phrase, "index ", *outside,
                         " is out of bounds for dimension ", d, " with size ", size,
                         phrase[0] ? ": INDICES element is out of DATA bounds" : "");
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
      if (!table.offsets(to, index + begin, 1, n, e.size, e.step, add)) [[unlikely]]
        refuse_changed_index();
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
      if (!table.offsets(to + (p - begin), index + at, stride, run, e.size, e.step, add)) [[unlikely]]
        refuse_changed_index();
      p += run;
    }
    add = true;
  }
}

void refuse_changed_index() {
  fail<IndexError>(
      "an index is out of bounds that was within them before: another thread writes the index tensor "
      "(through "
      "a NumPy array, for example) while it is used. Index by a clone() of it");
}

IndexPlan along_dimension(const Tensor& self, int d, const Tensor& index, const char* op, bool wrap,
                          const char* phrase) {
  if (index.dim() > 1)
    fail<IndexError>(op, "(): Index is supposed to be a vector (1-D), but its shape is ", index.sizes());
  if (index.dtype() != DType::Int64 && index.dtype() != DType::Int32)
    fail(op, "(): Expected dtype int32 or int64 for index, but got ", name_of(index.dtype()));
  Tensors indices(static_cast<size_t>(d) + 1);
  const int64_t flat[] = {index.numel()}, step[] = {index.dim() ? index.stride(0) : 1};
  indices.back() = alias(index, flat, step, index.offset());
  return IndexPlan(self, indices, wrap, op, phrase);
}

Tensor gather_index(const Tensor& index, const char* op) {
  if (index.dtype() == DType::Int64) return index;
  if (index.dtype() != DType::Int32 && index.numel() != 0)
    fail(op, "(): Expected dtype int32/int64 for index, but got ", name_of(index.dtype()));
  return copy_of(index, DType::Int64);
}

Tensor scatter_index(const Tensor& out, int64_t d, const Tensor& given, const Tensor* src, const char* op) {
  const Tensor index = gather_index(given, op);
  if (src && src->dtype() != out.dtype())
    fail(op, "(): Expected self.dtype to be equal to src.dtype, but got ", name_of(out.dtype()), " and ",
         name_of(src->dtype()));
  if (index.numel() == 0) return index;
  if (std::max<int64_t>(1, out.dim()) != std::max<int64_t>(1, index.dim()) ||
      (src && std::max<int64_t>(1, src->dim()) != std::max<int64_t>(1, index.dim())))
    fail(op, "(): Index tensor must have the same number of dimensions as ",
         std::max<int64_t>(1, out.dim()) != std::max<int64_t>(1, index.dim()) ? "self" : "src",
         " tensor: index has ", index.dim(), ", self ", out.dim(),
         src ? text(", src ", src->dim()) : std::string());
  for (int64_t i = 0; i < index.dim() && out.dim(); ++i) {
    if (i != d && index.size(i) > out.size(i))
      fail(op, "(): Expected index ", index.sizes(), " to be no larger than self ", out.sizes(),
           " apart from dimension ", d);
    if (src && src->dim() && index.size(i) > src->size(i))
      fail(op, "(): Expected index ", index.sizes(), " to be no larger than src ", src->sizes());
  }
  return index;
}

Tensor fitted(const Tensor& values, IntList shape, const char* op) {
  auto sizes = values.sizes();
  auto strides = values.strides();
  while (sizes.size() > shape.size() && sizes[0] == 1) {
    sizes = sizes.subspan(1);
    strides = strides.subspan(1);
  }
  bool fits = sizes.size() <= shape.size();
  const size_t lead = fits ? shape.size() - sizes.size() : 0;
  size_t wrong = 0;
  for (; fits && wrong < sizes.size(); ++wrong) {
    fits = sizes[wrong] == 1 || sizes[wrong] == shape[lead + wrong];
    if (!fits) break;
  }
  if (!fits) {
    std::string where;
    if (wrong < sizes.size() && sizes.size() <= shape.size())
      where =
          text(". The expanded size of the tensor (", shape[lead + wrong], ") must match the existing size (",
               sizes[wrong], ") at non-singleton dimension ", lead + wrong,
               ".  Target sizes: ", to_string(shape), ".  Tensor sizes: ", to_string(values.sizes()));
    fail(op, *op ? "(): " : "", "shape mismatch: value tensor of shape ", values.sizes(),
         " cannot be broadcast to indexing result of shape ", to_string(shape), where);
  }
  Dims steps(shape.size(), 0);
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != 1 || shape[lead + i] == 1) steps[lead + i] = strides[i];
  return alias(values, shape, steps.span(), values.offset());
}

bool all_masked(const Tensor& self, TensorList indices) {
  return indices.size() == 1 && indices[0].defined() && indices[0].dtype() == DType::Bool && self.dim() > 0 &&
         same(indices[0].sizes(), self.sizes()) && self.is_contiguous() &&
         device_of(indices[0]) == device_of(self);
}

void put_at(const Tensor& self, const Tensor& values, TensorList indices, bool accumulate) {
  if (!accumulate && all_masked(self, indices)) {
    const Tensor mask = dense(indices[0]);
    const bool single = values.numel() == 1;
    if (!single && is_meta(self)) return;
    const int64_t count[] = {single ? 1 : count_true(mask)};
    const Tensor v = single ? values : fitted(values, count, "");
    const bool apart = !may_share_memory(v, self) && !may_share_memory(mask, self);
    return expand_into(self, mask, v.dtype() == self.dtype() && apart ? dense(v) : copy_of(v, self.dtype()),
                       false, single);
  }
  const Tensors plain = without_masks(self, indices);
  const IndexPlan plan(self, plain, true, "");
  accumulate ? add_at(self, plan, values) : write_at(self, plan, values);
}

}  // namespace adjoint
