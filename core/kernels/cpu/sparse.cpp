// Entries of sparse matrices: order by radix, products row by row.
#include "kernels/sparse.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "for_size.h"
#include "kernels/cpu/sparse.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/with_number.h"
#include "kernels/launch.h"
#include "kernels/slices.h"
#include "runtime/parallel.h"
#include "runtime/scratch.h"
#include "tensor/checked.h"

namespace adjoint::kernels {

namespace {

struct Keyed {
  uint64_t key;
  int64_t at;
};

/// In the order of their keys, those of one key as they were. The lowest digits first.
void sort_by_key(runtime::Scratch<Keyed>& all, int64_t n, uint64_t largest) {
  if (n < 64) {
    std::stable_sort(all.get(), all.get() + n, [](const Keyed& a, const Keyed& b) { return a.key < b.key; });
    return;
  }
  constexpr int kBits = 11;
  runtime::Scratch<Keyed> other(n);
  for (int shift = 0; shift < static_cast<int>(std::bit_width(largest)); shift += kBits) {
    int64_t begin[(1 << kBits) + 1] = {};
    const auto digit = [shift](uint64_t key) { return key >> shift & ((1u << kBits) - 1); };
    for (int64_t i = 0; i < n; ++i) ++begin[digit(all[i].key) + 1];
    for (int d = 0; d < 1 << kBits; ++d) begin[d + 1] += begin[d];
    for (int64_t i = 0; i < n; ++i) other[begin[digit(all[i].key)]++] = all[i];
    std::swap(all, other);
  }
}

/// Where the entries of each of `count` rows begin, and the entries in the order of their rows, where they
/// are not so already.
struct ByRow {
  runtime::Scratch<int64_t> begin, order;

  ByRow(const int64_t* rows, int64_t n, int64_t count, const char* op) : begin(checked_add(count, 1, op)) {
    std::fill_n(begin.get(), count + 1, 0);
    bool sorted = true;
    for (int64_t i = 0; i < n; ++i) {
      if (rows[i] < 0 || rows[i] >= count)
        fail<IndexError>(op, "(): row ", rows[i], " of entry ", i, " is not among the ", count,
                         " that there are");
      sorted &= i == 0 || rows[i - 1] <= rows[i];
      ++begin[rows[i] + 1];
    }
    for (int64_t r = 0; r < count; ++r) begin[r + 1] += begin[r];
    if (sorted) return;
    order = runtime::Scratch<int64_t>(n);
    for (int64_t i = 0; i < n; ++i) order[begin[rows[i]]++] = i;
    for (int64_t r = count; r > 0; --r) begin[r] = begin[r - 1];
    begin[0] = 0;
  }
};

DType number_type(DType d, const char* op) {
  if (d == DType::Bool)
    fail<NotImplemented>(op, "(): \"addmm_sparse\" not implemented for 'Bool'; convert both with .to()");
  return is_integral(d) ? DType::Int64 : compute_dtype(d);
}

void need_vector(const Tensor& t, int64_t n, const char* what, const char* op) {
  if (t.dtype() != DType::Int64 || t.dim() != 1 || t.size(0) != n)
    fail(op, "(): ", what, " must be a vector of ", n, " elements of int64, but it is ", name_of(t.dtype()),
         " of shape ", t.sizes());
}
void need_matrix(const Tensor& t, DType dtype, const char* what, const char* op) {
  if (t.dim() != 2)
    fail(op, "(): Expected ", what, " to be a matrix (2-D), but got ", t.dim(), "-D tensor of shape ",
         t.sizes());
  if (t.dtype() != dtype)
    fail(op, "(): expected m1 and m2 to have the same dtype, but got: ", name_of(dtype),
         " != ", name_of(t.dtype()), "; convert one with .to()");
}

}  // namespace

static Tensor flat_of(const Tensor& indices, IntList size, const char* op) {
  const int64_t n = indices.size(1);
  const Tensor flat = empty({&n, 1}, DType::Int64);
  int64_t* to = flat.data<int64_t>();
  std::fill_n(to, n, 0);
  for (size_t d = 0; d < size.size(); ++d) {
    const int64_t* from = indices.data<int64_t>() + static_cast<int64_t>(d) * n;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t v = from[i];
      if (v < 0) fail(op, "(): found negative index ", v, " for dim ", d);
      if (v >= size[d])
        fail(op, "(): size is inconsistent with indices: for dim ", d, ", size is ", size[d],
             " but found index ", v);
      to[i] = to[i] * size[d] + v;
    }
  }
  return flat;
}

Tensor flat_positions(const Tensor& given, IntList size, const char* op) {
  if (given.dtype() != DType::Int64 || given.dim() != 2 || given.size(0) != static_cast<int64_t>(size.size()))
    fail(op, "(): indices must be a matrix of int64 with a row for each of the ", size.size(),
         " sparse dimensions, but they are ", name_of(given.dtype()), " of shape ", given.sizes());
  return ask<&flat_of>(op, dense(given), size, op);
}

static std::tuple<Tensor, Tensor> sorted_positions(const Tensor& flat, const Tensor& indices) {
  const int64_t n = flat.size(0), dims = indices.size(0);
  const Tensor inverse = empty({&n, 1}, DType::Int64);
  const int64_t* key = flat.data<int64_t>();
  int64_t* which = inverse.data<int64_t>();
  bool sorted = true;
  int64_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    sorted &= i == 0 || key[i - 1] < key[i];
    largest = std::max(largest, key[i]);
    which[i] = i;
  }
  if (sorted) return {indices, inverse};
  runtime::Scratch<Keyed> all(n);
  for (int64_t i = 0; i < n; ++i) all[i] = {static_cast<uint64_t>(key[i]), i};
  sort_by_key(all, n, static_cast<uint64_t>(largest));
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    count += i == 0 || all[i].key != all[i - 1].key;
    which[all[i].at] = count - 1;
  }
  const int64_t shape[] = {dims, count};
  const Tensor positions = empty(shape, DType::Int64);
  int64_t* to = positions.data<int64_t>();
  const int64_t* from = indices.data<int64_t>();
  for (int64_t i = 0, k = -1; i < n; ++i) {
    if (i && all[i].key == all[i - 1].key) continue;
    ++k;
    for (int64_t d = 0; d < dims; ++d) to[d * count + k] = from[d * n + all[i].at];
  }
  return {positions, inverse};
}

std::tuple<Tensor, Tensor> sort_positions(const Tensor& given, IntList size, const char* op) {
  const Tensor indices = copy_of(given);
  return ask<&sorted_positions>(op, flat_positions(indices, size, op), indices);
}

static void look_up(const Tensor& out, const Tensor& sorted, const Tensor& wanted, int64_t absent) {
  const int64_t *begin = sorted.data<int64_t>(), *end = begin + sorted.numel(), *key = wanted.data<int64_t>();
  runtime::parallel_for(0, out.numel(), 4096, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) {
      const int64_t* at = std::lower_bound(begin, end, key[i]);
      out.data<int64_t>()[i] = at != end && *at == key[i] ? at - begin : absent;
    }
  });
}

Tensor find_positions(const Tensor& sorted, const Tensor& wanted, int64_t absent) {
  const Tensor out = empty(wanted.sizes(), DType::Int64);
  on<&look_up>(Out(out), sorted, wanted, absent);
  return out;
}

void spread_rows(const Tensor& rows, const Tensor& begin) {
  const int64_t n = rows.numel(), count = begin.numel();
  const int64_t* at = begin.data<int64_t>();
  for (int64_t i = 0; i + 1 < count; ++i) {
    if (at[i] < 0 || at[i] > at[i + 1] || at[i + 1] > n)
      fail("`0 <= crow_indices[..., i] <= crow_indices[..., i + 1] <= nnz` is not satisfied at ", i);
    std::fill(rows.data<int64_t>() + at[i], rows.data<int64_t>() + at[i + 1], i);
  }
  if (count == 0 || at[0] != 0 || at[count - 1] != n) fail("`crow_indices[..., -1] == nnz` is not satisfied");
}

void places_of(const Tensor& places, const Tensor& index, int64_t d) {
  const int64_t n = index.numel();
  int64_t inner = n;
  for (int64_t k = 0; k < places.size(0); ++k) {
    const int64_t size = index.dim() ? index.size(k) : 1;
    inner = size ? inner / size : 0;
    int64_t* to = places.data<int64_t>() + k * n;
    for (int64_t i = 0; i < n; ++i) to[i] = k == d ? index.data<int64_t>()[i] : i / inner % size;
  }
}

static void add_entries(const Tensor& out, const Tensor& values, const Tensor& dense_matrix,
                        const Tensor& rows, const Tensor& columns, int64_t count, const char* op) {
  const DType type = out.dtype();
  const int64_t n = values.size(0), width = dense_matrix.size(1), height = dense_matrix.size(0);
  const Tensor v = dense_as(values, type), m = dense_as(dense_matrix, type), r = copy_of(rows),
               c = copy_of(columns);  // their own: checked once, used often
  const ByRow by(r.data<int64_t>(), n, count, op);
  const int64_t* column = c.data<int64_t>();
  for (int64_t i = 0; i < n; ++i)
    if (column[i] < 0 || column[i] >= height)
      fail<IndexError>(op, "(): column ", column[i], " of entry ", i, " is not among the ", height,
                       " that there are");
  const int64_t work = count ? n * width / count + width + 1 : 1;
  with_number(type, [&]<class T>(TypeTag<T>) {
    runtime::parallel_for(0, count, std::max<int64_t>(1, 65536 / work), [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        T* __restrict to = out.data<T>() + row * width;
        if constexpr (std::is_floating_point_v<T>) {
          const int64_t begin = by.begin[row], n = by.begin[row + 1] - begin;
          if (by.order)
            best_variant<SparseTable<T>>().row(width, n, by.order.get() + begin, v.data<T>(), column,
                                               m.data<T>(), to);
          else
            best_variant<SparseTable<T>>().row(width, n, nullptr, v.data<T>() + begin, column + begin,
                                               m.data<T>(), to);
          continue;
        }
        std::fill_n(to, width, T(0));
        for (int64_t e = by.begin[row]; e < by.begin[row + 1]; ++e) {
          const int64_t i = by.order ? by.order[e] : e;
          const T x = v.data<T>()[i];
          const T* __restrict from = m.data<T>() + column[i] * width;
          for (int64_t k = 0; k < width; ++k) to[k] = to[k] + x * from[k];
        }
      }
    });
  });
}

Tensor entries_times(const Tensor& values, const Tensor& rows, const Tensor& columns,
                     const Tensor& dense_matrix, int64_t count, const char* op) {
  const int64_t n = values.dim() == 1 ? values.size(0) : -1;
  if (n < 0) fail(op, "(): the values must be a vector, but have shape ", values.sizes());
  need_vector(rows, n, "rows", op);
  need_vector(columns, n, "columns", op);
  need_matrix(dense_matrix, values.dtype(), "the dense operand", op);
  if (count < 0) fail(op, "(): a matrix cannot have ", count, " rows");
  const DType type = number_type(values.dtype(), op);
  const int64_t shape[] = {count, dense_matrix.size(1)};
  const Tensor out = empty(shape, type);
  on<&add_entries>(Out(out), values, dense_matrix, rows, columns, count, op);
  return out.dtype() == values.dtype() ? out : copy_of(out, values.dtype());
}

static void dot_rows(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& rows,
                     const Tensor& columns, const char* op) {
  const DType type = out.dtype();
  const int64_t n = rows.numel(), width = a.size(1);
  const Tensor x = dense_as(a, type), y = dense_as(b, type), r = copy_of(rows), c = copy_of(columns);
  const int64_t *row = r.data<int64_t>(), *column = c.data<int64_t>(), heights[] = {a.size(0), b.size(0)};
  for (int64_t i = 0; i < n; ++i)
    if (row[i] < 0 || row[i] >= heights[0] || column[i] < 0 || column[i] >= heights[1])
      fail<IndexError>(op, "(): entry ", i, " is at (", row[i], ", ", column[i], "), outside of ", heights[0],
                       " and ", heights[1], " rows");
  with_number(type, [&]<class T>(TypeTag<T>) {
    runtime::parallel_for(0, n, std::max<int64_t>(1, 32768 / (width + 1)), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const T *p = x.data<T>() + row[i] * width, *q = y.data<T>() + column[i] * width;
        T sum = T(0);
        if constexpr (std::is_floating_point_v<T>) {
          sum = best_variant<SparseTable<T>>().dot(width, p, q);
        } else {
          for (int64_t k = 0; k < width; ++k) sum = sum + p[k] * q[k];
        }
        out.data<T>()[i] = sum;
      }
    });
  });
}

Tensor rows_dot(const Tensor& a, const Tensor& b, const Tensor& rows, const Tensor& columns, const char* op) {
  need_matrix(a, a.dtype(), "self", op);
  need_matrix(b, a.dtype(), "other", op);
  const int64_t n = rows.numel(), width = a.size(1);
  need_vector(rows, n, "rows", op);
  need_vector(columns, n, "columns", op);
  if (b.size(1) != width)
    fail(op, "(): rows of ", width, " elements cannot be multiplied by rows of ", b.size(1));
  const DType type = number_type(a.dtype(), op);
  const Tensor out = empty({&n, 1}, type);
  on<&dot_rows>(Out(out), a, b, rows, columns, op);
  return out.dtype() == a.dtype() ? out : copy_of(out, a.dtype());
}

}  // namespace adjoint::kernels
