// Reading elements by index. Start reading at `IndexPlan` in kernels/indexing.h.
#include "kernels/indexing.h"

#include "dispatch/operator.h"
#include "kernels/copy.h"
#include "kernels/walk.h"
#include "ops/indexing.h"
#include "ops/shape.h"
#include "ops/writing.h"

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

Tensor BasicIndex::forward(const Tensor& self, IntList spec) {
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

/// The nonzero positions: per dimension a vector.
Tensors positions_of(const Tensor& t) {
  const Tensor mask = dense(t.dtype() == DType::Bool ? t : copy_of(t, DType::Bool));
  const bool* m = mask.data<bool>();
  const int64_t n = mask.numel();
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += m[i];
  Tensors out;
  const int64_t shape[] = {count};
  for (int64_t d = 0; d < t.dim(); ++d) out.push_back(empty(shape, DType::Int64));
  if (count == 0) return out;
  const auto sizes = mask.sizes();
  const int last = static_cast<int>(sizes.size()) - 1;
  if (last < 0) return out;
  runtime::SmallVector<int64_t, 6> at(sizes.size());
  int64_t found = 0;
  for (int64_t i = 0; i < n; i += sizes[last]) {
    for (int64_t j = 0; j < sizes[last]; ++j) {
      if (!m[i + j]) continue;
      for (int d = 0; d < last; ++d) out[d].data<int64_t>()[found] = at[d];
      out[last].data<int64_t>()[found++] = j;
    }
    for (int d = last - 1; d >= 0; --d) {
      if (++at[d] < sizes[d]) break;
      at[d] = 0;
    }
  }
  return out;
}

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

IndexPlan::IndexPlan(const Tensor& self, TensorList indices, bool wrap, const char* op) {
  const auto sizes = self.sizes(), strides = self.strides();
  const int64_t item = self.itemsize();
  // What the index tensors broadcast to, and whether the indexed dimensions are neighbours.
  Dims common;
  int first = -1, last = -1, count = 0;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    const auto s = indices[d].sizes();
    bool fits = true;
    Dims wider;
    const size_t n = std::max(s.size(), common.size());
    for (size_t i = 0; i < n; ++i) {
      const int64_t a = i < n - common.size() ? 1 : common[i - (n - common.size())];
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
    common = wider;
    if (first < 0) first = static_cast<int>(d);
    last = static_cast<int>(d);
    ++count;
  }
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
  for (int64_t s : common) shape.push_back(s);
  for (int64_t s : after_shape) shape.push_back(s);
  // Where each position lies.
  offsets = zeros(common.span(), DType::Int64);
  int64_t* to = offsets.data<int64_t>();
  const int64_t n = offsets.numel();
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    Tensor index = indices[d];
    if (index.dtype() != DType::Int64 || !same(index.sizes(), common.span()) || !index.is_contiguous())
      index = copy_of(Expand::forward(index, common.span()), DType::Int64);
    const int64_t* from = index.data<int64_t>();
    const int64_t size = sizes[d], stride = strides[d] * item, lowest = wrap ? -size : 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t v = from[i];
      if (size == 0) fail<IndexError>(op, op[0] ? "(): " : "", "index is out of bounds for dimension with size 0: index ", v, " of dimension ", d);
      if (v < lowest || v >= size) fail<IndexError>(op, op[0] ? "(): " : "", "index ", v, " is out of bounds for dimension ", d, " with size ", size);
      to[i] += (v < 0 ? v + size : v) * stride;
    }
  }
}

IndexPlan along_dimension(const Tensor& self, int d, const Tensor& index, const char* op) {
  if (index.dim() > 1) fail<IndexError>(op, "(): Index is supposed to be a vector (1-D), but its shape is ", to_string(index.sizes()));
  if (index.dtype() != DType::Int64 && index.dtype() != DType::Int32)
    fail(op, "(): Expected dtype int32 or int64 for index, but got ", name_of(index.dtype()));
  Tensors indices(static_cast<size_t>(d) + 1);
  const int64_t flat[] = {index.numel()};
  indices.back() = Reshape::forward(index, flat);
  return IndexPlan(self, indices, false, op);
}

Tensor read_at(const Tensor& self, const IndexPlan& plan) {
  const Tensor out = empty(plan.shape.span(), self.dtype());
  if (out.numel() == 0) return out;
  const int64_t item = self.itemsize(), length = plan.row_length();
  visit_size(item, [&](auto tag) {
    using U = typename decltype(tag)::type;
    U* to = reinterpret_cast<U*>(out.bytes());
    runtime::parallel_for(0, plan.rows(), std::max<int64_t>(1, 16384 / length), [&](int64_t b, int64_t e) {
      plan.each_run(self.bytes(), b, e, [&](const char* at, int64_t element, int64_t n, int64_t stride) {
        U* o = to + element;
        if (n == 1) *o = *reinterpret_cast<const U*>(at);
        else if (stride == sizeof(U)) std::memcpy(o, at, static_cast<size_t>(n) * sizeof(U));
        else
          for (int64_t i = 0; i < n; ++i) o[i] = *reinterpret_cast<const U*>(at + i * stride);
      });
    });
  });
  return out;
}

Tensor Index::forward(const Tensor& self, TensorList indices) {
  const Tensors plain = without_masks(self, indices);
  return read_at(self, IndexPlan(self, plain, true, ""));
}

Tensor IndexSelect::forward(const Tensor& self, int64_t dim, const Tensor& index) {
  const int d = wrap_dim(dim, self.dim(), name);
  if (self.dim() > 0) return read_at(self, along_dimension(self, d, index, name));
  const int64_t one[] = {1};
  const Tensor flat = Reshape::forward(self, one);
  const Tensor out = read_at(flat, along_dimension(flat, d, index, name));
  if (out.numel() != 1) fail<IndexError>("index_select(): Index to scalar can have only 1 value, got ", out.numel(), " value(s)");
  return Reshape::forward(out, {});
}

// --- gather ----------------------------------------------------------------------------------------------------------

Tensor Gather::forward(const Tensor& self, int64_t dim, const Tensor& index, bool) {
  const int d = wrap_dim(dim, self.dim(), name);
  if (index.dtype() != DType::Int64) fail("gather(): Expected dtype int64 for index, but got ", name_of(index.dtype()));
  const Tensor out = empty(index.sizes(), self.dtype());
  if (index.numel() == 0) return out;
  if (std::max<int64_t>(1, self.dim()) != std::max<int64_t>(1, index.dim()))
    fail("gather(): Index tensor must have the same number of dimensions as input tensor, but they have ", index.dim(), " and ", self.dim());
  const bool scalar = self.dim() == 0 || index.dim() == 0;
  for (int64_t i = 0; !scalar && i < self.dim(); ++i)
    if (i != d && index.size(i) > self.size(i))
      fail("gather(): Size does not match at dimension ", i, " expected index ", to_string(index.sizes()), " to be no larger than self ",
           to_string(self.sizes()), " apart from dimension ", d);
  const int64_t item = self.itemsize(), size = self.dim() ? self.size(d) : 1, step = self.dim() ? self.stride(d) * item : 0;
  Dims strides;
  for (int64_t i = 0; i < index.dim(); ++i) strides.push_back(i == d || self.dim() == 0 ? 0 : self.stride(i));
  Walk walk(index.sizes());
  walk.add(out);
  walk.add(index);
  walk.add(self.bytes(), index.sizes(), strides.span(), item);
  walk.plan();
  visit_size(item, [&](auto tag) {
    using U = typename decltype(tag)::type;
    walk.run(16384, [&](char* const* p, const int64_t* steps, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        const int64_t v = *reinterpret_cast<const int64_t*>(p[1] + i * steps[1]);
        if (v < 0 || v >= size) fail<IndexError>("gather(): index ", v, " is out of bounds for dimension ", d, " with size ", size);
        *reinterpret_cast<U*>(p[0] + i * steps[0]) = *reinterpret_cast<const U*>(p[2] + i * steps[2] + v * step);
      }
    });
  });
  return out;
}

Tensor Take::forward(const Tensor& self, const Tensor& index) {
  if (index.dtype() != DType::Int64) fail("take(): Expected a long tensor for index, but got ", name_of(index.dtype()));
  if (self.numel() == 0 && index.numel() != 0) fail<IndexError>("take(): tried to take from an empty tensor");
  const int64_t flat[] = {self.numel()};
  const Tensor list[] = {index};
  const Tensor line = Reshape::forward(self, flat);
  return read_at(line, IndexPlan(line, list, true, name));
}

Tensor MaskedSelect::forward(const Tensor& self, const Tensor& mask) {
  if (mask.dtype() != DType::Bool) fail("masked_select: expected BoolTensor for mask, but got ", name_of(mask.dtype()));
  const Dims shape = broadcast_shapes(self.sizes(), mask.sizes(), name);
  const Tensor wide = Expand::forward(self, shape.span());
  const Tensor list[] = {Expand::forward(mask, shape.span())};
  if (!shape.empty()) return Index::forward(wide, list);
  const int64_t one[] = {1};
  const Tensor line[] = {Reshape::forward(mask, one)};
  return Index::forward(Reshape::forward(self, one), line);
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

Tensor index_gradient(const Tensor& g, IntList sizes, const Tensors& indices) {
  return call<IndexPut>(zeros(sizes, g.dtype()), g, TensorList(indices), true);
}

Tensor index_select_gradient(const Tensor& g, IntList sizes, int64_t dim, const Tensor& index) {
  return call<IndexAdd>(zeros(sizes, g.dtype()), dim, index, g, Scalar(1));
}

Tensor gather_gradient(const Tensor& g, IntList sizes, int64_t dim, const Tensor& index) {
  return call<ScatterAdd>(zeros(sizes, g.dtype()), dim, index, g);
}

Tensor masked_select_gradient(const Tensor& g, IntList sizes, const Tensor& mask) {
  Dims shape = broadcast_shapes(sizes, mask.sizes(), "masked_select");
  Tensor wide = Expand::forward(mask, shape.span());
  if (shape.empty()) {
    shape.push_back(1);
    wide = Reshape::forward(wide, shape.span());
  }
  const Tensor list[] = {wide};
  return sum_to_value(call<IndexPut>(zeros(shape.span(), g.dtype()), g, TensorList(list), false), sizes);
}

Tensor take_gradient(const Tensor& g, IntList sizes, const Tensor& index) {
  const int64_t flat[] = {product(sizes)};
  const Tensor list[] = {index};
  return call<Reshape>(call<IndexPut>(zeros(flat, g.dtype()), g, TensorList(list), true), sizes);
}

}  // namespace adjoint
