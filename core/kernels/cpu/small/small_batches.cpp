#include "kernels/cpu/small/small_batches.h"

#include <algorithm>
#include <optional>

#include "for_size.h"
#include "kernels/cpu/small/small_matrices.h"
#include "kernels/cpu/variants.h"
#include "kernels/linalg.h"
#include "runtime/parallel.h"
#include "runtime/scratch.h"

namespace adjoint::kernels::linalg::small {

namespace {

/// Fewer leave too many lanes empty.
constexpr int64_t kLeast = 4;

int64_t count_of(const Tensor& a) { return a.numel() / std::max<int64_t>(1, a.size(-1) * a.size(-2)); }

}  // namespace

bool serves(const Tensor& a) {
  const int64_t m = a.size(-2), n = a.size(-1);
  return (a.dtype() == DType::Float32 || a.dtype() == DType::Float64) && std::min(m, n) >= 1 &&
         std::max(m, n) <= kSmallMatrix && count_of(a) >= kLeast;
}

namespace {

/// How far the matrices of a batch lie apart, if all at the same distance.
std::optional<int64_t> step_of(const Tensor& t) {
  std::optional<int64_t> step;
  int64_t next = 0;
  for (int64_t d = t.dim() - 3; d >= 0; --d) {
    if (t.size(d) == 1) continue;
    if (step && t.stride(d) != next) return std::nullopt;
    if (!step) step = t.stride(d);
    next = t.stride(d) * t.size(d);
  }
  return step.value_or(0);
}
/// The tensor itself, if its matrices lie evenly, else a copy.
Tensor even(const Tensor& t) { return step_of(t) ? t : columns_of(t); }
template <class T>
Batch<T> batch_of(const Tensor& t, bool transposed = false) {
  Batch<T> b{t.data<std::remove_const_t<T>>(), t.stride(-2), t.stride(-1), *step_of(t)};
  if (transposed) std::swap(b.down, b.across);
  return b;
}
template <class T>
Batch<T> from_matrix(Batch<T> b, int64_t i) {
  if (b.data) b.data += i * b.step;
  return b;
}

/// f(TypeTag<T>, table, first matrix, matrices, room), in parallel; `work` multiplications for each, and room
/// for as many vectors.
template <template <class> class Table = SmallMatrixTable, class F>
void in_groups(const Tensor& a, int64_t work, const F& f, int64_t vectors = 0) {
  if (!vectors) vectors = small_room(a.size(-1));
  const int64_t count = count_of(a);
  const auto run = [&]<class T>(TypeTag<T> tag) {
    constexpr int64_t L = kMatrixLanes<T>;
    const auto& table = best_variant<Table<T>>();
    runtime::parallel_for(0, (count + L - 1) / L, std::max<int64_t>(1, 16384 / work),
                          [&](int64_t first, int64_t last) {
                            const runtime::Scratch<T> room(vectors * L);
                            f(tag, table, first * L, std::min(count, last * L) - first * L, room.get());
                          });
  };
  if (a.dtype() == DType::Float32)
    run(TypeTag<float>{});
  else
    run(TypeTag<double>{});
}

}  // namespace

bool lu(const Tensor& from, const Tensor& a, const Tensor& pivots, const Tensor& info) {
  const int64_t n = a.size(-1);
  if (!serves(a) || a.size(-2) != n) return false;
  const Tensor source = even(from);
  in_groups(
      a, n * n * n,
      [&]<class T>(TypeTag<T>, const SmallMatrixTable<T>& table, int64_t first, int64_t count, T* room) {
        table.lu(count, n, from_matrix(batch_of<const T>(source), first), from_matrix(batch_of<T>(a), first),
                 pivots.data<int>() + first * n, info.data<int>() + first, room);
      });
  return true;
}

bool lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, const Tensor& x, char op) {
  if (!serves(lu)) return false;
  const int64_t n = lu.size(-1), columns = x.size(-1);
  const Tensor factors = even(lu), source = b.defined() ? even(b) : b;
  in_groups(
      lu, n * n * std::max<int64_t>(1, columns),
      [&]<class T>(TypeTag<T>, const SmallMatrixTable<T>& table, int64_t first, int64_t count, T* room) {
        const Batch<const T> from = source.defined() ? batch_of<const T>(source) : Batch<const T>{};
        table.lu_solve(count, n, columns, from_matrix(batch_of<const T>(factors), first),
                       pivots.data<int>() + first * n, from_matrix(from, first),
                       from_matrix(batch_of<T>(x), first), op != 'N', room);
      });
  return true;
}

bool cholesky(const Tensor& from, const Tensor& a, const Tensor& info) {
  if (!serves(a)) return false;
  const int64_t n = a.size(-1);
  const Tensor source = even(from);
  in_groups(
      a, n * n * n,
      [&]<class T>(TypeTag<T>, const SmallMatrixTable<T>& table, int64_t first, int64_t count, T* room) {
        table.cholesky(count, n, from_matrix(batch_of<const T>(source), first),
                       from_matrix(batch_of<T>(a), first), info.data<int>() + first, room);
      });
  return true;
}

bool solve_triangular(const Tensor& a, const Tensor& b, const Tensor& x, bool upper, bool left,
                      bool unit_diagonal) {
  if (!serves(a)) return false;
  // X A = B is Aᵀ Xᵀ = Bᵀ.
  const int64_t n = a.size(-1), columns = x.size(left ? -1 : -2);
  const Tensor matrix = even(a), source = even(b);
  in_groups(
      a, n * n * std::max<int64_t>(1, columns),
      [&]<class T>(TypeTag<T>, const SmallMatrixTable<T>& table, int64_t first, int64_t count, T* room) {
        table.solve_triangular(count, n, columns, from_matrix(batch_of<const T>(matrix, !left), first),
                               from_matrix(batch_of<const T>(source, !left), first),
                               from_matrix(batch_of<T>(x, !left), first), upper == left, unit_diagonal, room);
      });
  return true;
}

bool eigh(const Tensor& from, const Tensor& a, const Tensor& values, const Tensor& info, bool upper,
          bool vectors) {
  if (!serves(a)) return false;
  const int64_t n = a.size(-1);
  const Tensor source = even(from);
  in_groups<SmallEigenvalueTable>(
      a, 4 * n * n * n,
      [&]<class T>(TypeTag<T>, const SmallEigenvalueTable<T>& table, int64_t first, int64_t count, T* room) {
        table.eigh(count, n, from_matrix(batch_of<const T>(source), first),
                   from_matrix(batch_of<T>(a), first), values.data<T>() + first * n, info.data<int>() + first,
                   upper, vectors, room);
      });
  return true;
}

void qr(const Tensor& from, const Tensor& q, const Tensor& r) {
  const int64_t m = from.size(-2), n = from.size(-1), wide = q.size(-1);
  const Tensor source = even(from);
  in_groups<SmallOrthogonalTable>(
      from, 2 * m * n * wide,
      [&]<class T>(TypeTag<T>, const SmallOrthogonalTable<T>& table, int64_t first, int64_t count, T* room) {
        table.qr(count, m, n, wide, from_matrix(batch_of<const T>(source), first),
                 from_matrix(batch_of<T>(q), first), from_matrix(batch_of<T>(r), first), room);
      },
      orthogonal_room(m, n, wide));
}

bool svd(const Tensor& from, const Tensor& u, const Tensor& s, const Tensor& vh, const Tensor& info) {
  const int64_t rows = from.size(-2), columns = from.size(-1), n = std::min(rows, columns),
                m = std::max(rows, columns);
  if (!serves(from) || (u.defined() && (u.size(-1) > n || vh.size(-2) > n))) return false;
  // The left vectors of the transpose are the right ones.
  const bool turned = rows < columns;
  const Tensor source = even(from), &left = turned ? vh : u, &right = turned ? u : vh;
  in_groups<SmallOrthogonalTable>(
      from, 30 * m * n * n,
      [&]<class T>(TypeTag<T>, const SmallOrthogonalTable<T>& table, int64_t first, int64_t count, T* room) {
        const auto vectors = [&](const Tensor& t, bool transposed) {
          return t.defined() ? from_matrix(batch_of<T>(t, transposed), first) : Batch<T>{};
        };
        table.svd(count, m, n, from_matrix(batch_of<const T>(source, turned), first), vectors(left, turned),
                  vectors(right, !turned), s.data<T>() + first * n, info.data<int>() + first, room);
      },
      orthogonal_room(m, n, n));
  return true;
}

}  // namespace adjoint::kernels::linalg::small
