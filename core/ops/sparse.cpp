// Sparse tensors: how they are made, added, coalesced, and the rules of their rows.
#include "ops/sparse.h"

#include "autograd/arithmetic.h"
#include "dispatch/family.h"
#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/launch.h"
#include "kernels/values.h"
#include "ops/arithmetic.h"
#include "ops/comparison.h"
#include "ops/complex.h"
#include "ops/indexing.h"
#include "ops/joining.h"
#include "ops/part.h"
#include "ops/rearranging.h"
#include "ops/reduction.h"
#include "ops/shape.h"
#include "ops/writing.h"

namespace adjoint {

namespace {

const char* const kLists[] = {"torch.sparse_coo", "torch.sparse_csr", "torch.sparse_csc"};

IntList leading(const Tensor& t) {
  return t.sizes().subspan(0, static_cast<size_t>(sparse_parts(t).sparse_dim()));
}
/// That of a number for each entry.
Dims behind(int64_t first, IntList rest) {
  Dims all(rest);
  all.insert(all.begin(), first);
  return all;
}
Tensor conj(const Tensor& t) { return t.is_complex() ? call<Conj>(t) : t; }

bool same_ints(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined() || a.get() == b.get()) return true;
  if (!same(a.sizes(), b.sizes())) return false;
  if (a->data == b->data && same(a.strides(), b.strides())) return true;
  return check<&kernels::same_bytes>(dense(a), dense(b));
}

/// The matrix of positions of any layout, as COO has it.
Tensor position_matrix(const Tensor& t) {
  const SparseParts p = sparse_parts(t);
  return p.layout == SparseLayout::Coo ? p.indices : call<Stack>(TensorList(sparse_positions(t)), int64_t{0});
}

Tensor looked_up(const Tensor& self, const Tensor& pattern) {
  return call<SparseLookup>(self, pattern_of(self), pattern);
}

}  // namespace

// --- Parts ----------------------------------------------------------------------------------------

Tensors sparse_positions(const Tensor& t) {
  const SparseParts p = sparse_parts(t);
  if (p.layout == SparseLayout::Coo) return call_all<Unbind>(p.indices, int64_t{0});
  const Tensor repeated = call<RowsOfEntries>(p.indices, p.others.numel()),
               others = p.others.dtype() == DType::Int64 ? p.others : call<To>(p.others, DType::Int64);
  return p.layout == SparseLayout::Csr ? Tensors{repeated, others} : Tensors{others, repeated};
}

Tensor RowsOfEntries::forward(const Tensor& begin, int64_t count) {
  if (begin.dim() != 1 || count < 0)
    fail(name, "(): expected beginnings in one dimension and a count, but got shape ",
         to_string(begin.sizes()), " and ", count);
  const Tensor rows = empty({&count, 1}, DType::Int64);
  on<&kernels::spread_rows>(Out(rows), copy_of(begin, DType::Int64));
  return rows;
}

Tensor PlacesOfIndex::forward(const Tensor& index, Dim dim) {
  const int64_t rank = std::max<int64_t>(index.dim(), 1), shape[] = {rank, index.numel()};
  const int64_t d = wrap_dim(dim, rank, "gather");
  const Tensor at = empty(shape, DType::Int64);
  on<&kernels::places_of>(Out(at), copy_of(index, DType::Int64), d);
  return at;
}

Tensor pattern_of(const Tensor& t) {
  SparseParts p = sparse_parts(t);
  p.values = expanded_zero(p.values);
  return sparse_tensor(std::move(p), t.sizes());
}

Tensor sparse_values(const Tensor& t) { return call<SparseValues>(t, pattern_of(t)); }
Tensor sparse_with(const Tensor& like, const Tensor& values) {
  return call<SparseWith>(pattern_of(like), values);
}

bool same_pattern(const Tensor& a, const Tensor& b) {
  const SparseParts p = sparse_parts(a), q = sparse_parts(b);
  return p.layout == q.layout && same(a.sizes(), b.sizes()) && same_ints(p.indices, q.indices) &&
         same_ints(p.others, q.others);
}

Tensor SparseTensor::forward(const Tensor& values, const Tensor& indices, OptionalTensor others,
                             MemoryInts size, int64_t layout, bool coalesced) {
  if (layout < 0 || layout >= kSparseLayouts) fail<ValueError>("there is no sparse layout number ", layout);
  if (is_sparse(values) || is_sparse(indices) || (others.defined() && is_sparse(others)))
    fail(kLists[layout], ": values and indices must be dense");
  if (device_of(values) != Device::CPU || device_of(indices) != Device::CPU)
    fail<NotImplemented>("sparse tensors on the device ", name_of(device_of(values)),
                         " are not there: their indices and values must be on the CPU");
  if (indices.dim() != (layout == 0 ? 2 : 1) || values.dim() < 1)
    fail(kLists[layout], ": indices and values have the wrong number of dimensions");
  SparseParts p{static_cast<SparseLayout>(layout), coalesced, alias(indices),
                others.defined() ? alias(others) : Tensor(), alias(values)};
  return sparse_tensor(std::move(p), size);
}

Tensor SparseTensor::gradient(const Tensor& g, const Tensor& indices, const Tensor& others, IntList values,
                              IntList size, int64_t layout, bool coalesced) {
  const Tensor none = over(Ref<Storage>::share(scalar_tensor(Scalar(0), g.dtype())->storage), g.dtype(),
                           values, Dims(values.size(), 0).span(), 0);
  return values_at(
      g, sparse_tensor({static_cast<SparseLayout>(layout), coalesced, indices, others, none}, size));
}

Tensor SparseWith::forward(const Tensor& pattern, const Tensor& values) {
  if (!is_sparse(pattern)) fail(name, "(): the pattern must be a sparse tensor");
  if (is_sparse(values)) fail(name, "(): the values must be dense");
  SparseParts p = sparse_parts(pattern);
  if (!same(values.sizes(), p.values.sizes()))
    fail(name, "(): values of shape ", values.sizes(), " cannot take the place of those of shape ",
         p.values.sizes());
  p.values = alias(values);
  return sparse_tensor(std::move(p), pattern.sizes());
}

Tensor SparseValues::forward(const Tensor& self, const Tensor&) {
  if (!is_sparse(self)) fail("values expected sparse tensor layout but got Strided");
  return alias(sparse_parts(self).values);
}
Tensor SparseValues::gradient(const Tensor& g, const Tensor& pattern) { return call<SparseWith>(pattern, g); }

// --- Gradients ------------------------------------------------------------------------------------

Tensor values_at(const Tensor& g, const Tensor& pattern) {
  if (!is_sparse(g)) return call<Index>(g, OptionalTensorList(sparse_positions(pattern)));
  return same_pattern(g, pattern) ? sparse_values(g) : looked_up(g, pattern);
}

Tensor SparseLookup::forward(const Tensor& self, const Tensor&, const Tensor& pattern) {
  const IntList sizes = leading(self);
  const Tensor positions = position_matrix(self), values = sparse_parts(self).values;
  const auto [sorted, inverse] = kernels::sort_positions(positions, sizes, name);
  // A row of zeros behind the sums, for what is not there.
  const int64_t count = sorted.size(1), rows = count + 1;
  const Tensor sums =
      PutSlices::forward(values, behind(rows, values.sizes().subspan(1)).span(), int64_t{0}, inverse);
  const Tensor at =
      kernels::find_positions(kernels::flat_positions(sorted, sizes, name),
                              kernels::flat_positions(position_matrix(pattern), sizes, name), count);
  return IndexSelect::forward({}, sums, int64_t{0}, at);
}
Tensor SparseLookup::gradient(const Tensor& g, const Tensor& own, const Tensor& pattern) {
  return call<SparseWith>(own, looked_up(call<SparseWith>(pattern, g), own));
}

Tensor EntriesTimes::values_gradient(const Tensor& g, const Tensor& rows, const Tensor& columns,
                                     const Tensor& dense) {
  return call<RowsDot>(g, conj(dense), rows, columns);
}
Tensor EntriesTimes::dense_gradient(const Tensor& g, const Tensor& values, const Tensor& rows,
                                    const Tensor& columns, int64_t count) {
  return call<EntriesTimes>(conj(values), columns, rows, g, count);
}
Tensor RowsDot::gradient(const Tensor& g, const Tensor& other, const Tensor& to, const Tensor& from,
                         int64_t count) {
  return call<EntriesTimes>(g, to, from, conj(other), count);
}

Tensor sparse_rows(const Tensor& given, const Tensor& indices, int64_t rows, int64_t padding) {
  const int64_t width = given.size(-1), shape[] = {indices.numel(), width}, size[] = {rows, width},
                line[] = {1, indices.numel()};
  Tensor g = call<Reshape>(given, IntList(shape)), at = call<Reshape>(indices, IntList(line));
  if (at.dtype() != DType::Int64) at = call<To>(at, DType::Int64);
  if (padding >= 0) {
    const int64_t flat[] = {indices.numel()};
    const Tensor kept = call<Nonzero>(
        call<NotEqual>(call<Reshape>(at, IntList(flat)), wrap_number(Scalar(padding), DType::Int64)));
    const int64_t places[] = {kept.numel()};
    const Tensor where = call<Reshape>(kept, IntList(places));
    g = call<IndexSelect>(g, int64_t{0}, where);
    at = call<IndexSelect>(at, int64_t{1}, where);
  }
  return call<SparseTensor>(g, at, OptionalTensor(), IntList(size), int64_t{0}, false);
}

Tensor sparse_gathered(const Tensor& g, IntList sizes, int64_t dim, const Tensor& index) {
  const int64_t flat[] = {index.numel()};
  const Tensor values = call<Reshape>(g, IntList(flat));
  if (sizes.empty()) return call<Sum>(values, OptionalDims(), false, OptionalType());
  return call<SparseTensor>(values, call<PlacesOfIndex>(index, Dim(dim)), OptionalTensor(), sizes, int64_t{0},
                            false);
}

// --- Arithmetic -----------------------------------------------------------------------------------

Tensor coalesced(const Tensor& t) {
  const SparseParts p = sparse_parts(t);
  if (p.coalesced || p.layout != SparseLayout::Coo) return t;
  const auto [positions, inverse] = Door<SortPositions>::call(p.indices, leading(t));
  const Dims shape = behind(positions.size(1), p.values.sizes().subspan(1));
  const Tensor values = sparse_values(t);
  const bool in_order = positions.size(1) == p.entries() && same_ints(positions, p.indices);
  return call<SparseTensor>(in_order ? values : call<PutSlices>(values, shape.span(), int64_t{0}, inverse),
                            positions, OptionalTensor(), t.sizes(), int64_t{0}, true);
}

Tensor add_sparse(const Tensor& a, const Tensor& b) {
  if (!is_sparse(a)) return is_sparse(b) ? add_sparse(b, a) : Tensor();
  if (!is_sparse(b)) {
    // Dense, and as large as the other.
    if (!same(a.sizes(), b.sizes()))
      fail("add: expected 'self' and 'other' to have same size, but self has size ", a.sizes(),
           " while other has size ", b.sizes(),
           " (FYI, op(dense, sparse) operation does not support broadcasting)");
    const DType type = promote(a.dtype(), b.dtype());
    const Tensor values = sparse_values(a), out = b.dtype() == type ? call<Clone>(b) : call<To>(b, type);
    const Tensors at = sparse_positions(a);
    return call<IndexPut>(out, values, OptionalTensorList(at), true);
  }
  const SparseParts p = sparse_parts(a), q = sparse_parts(b);
  if (p.layout != q.layout) return {};
  if (!same(a.sizes(), b.sizes()))
    fail("add: expected sizes of 'self' and 'other' to match, but ", a.sizes(), " != ", b.sizes());
  const Tensor x = sparse_values(a), y = sparse_values(b);
  if (same_pattern(a, b)) {
    const Tensor sum = call<Add>(x, y);
    return sparse_with(a, sum);
  }
  if (p.layout != SparseLayout::Coo) return {};
  if (p.sparse_dim() != q.sparse_dim())
    fail("add: expected 'self' and 'other' to have same number of sparse dimensions, but got ",
         p.sparse_dim(), " and ", q.sparse_dim());
  const Tensor indices[] = {p.indices, q.indices}, values[] = {x, y};
  const Tensor sum = call<SparseTensor>(call<Cat>(TensorList(values), int64_t{0}),
                                        call<Cat>(TensorList(indices), int64_t{1}), OptionalTensor(),
                                        a.sizes(), int64_t{0}, false);
  return p.coalesced && q.coalesced ? coalesced(sum) : sum;
}

}  // namespace adjoint

ADJOINT_FAMILY(Sparse)
