// Decompositions of small matrices for one instruction set: every lane runs the textbook's loops on a matrix
// of its own (small_lanes.h), and where these would branch, lanes select. Pivots are those of LAPACK, the
// first largest elements. Start reading at small_lanes.h, then `lu`.
#include "for_loops.h"
#include "kernels/cpu/small/small_lanes.h"
#include "kernels/cpu/variants.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

/// y_c -= Σ a_c x_c over `count` vectors, C sums at once; those of sum c lie c times `a_next` and so on
/// further on.
template <class T, int C>
ADJOINT_INLINE void subtract_dots(int64_t count, const T* a, int64_t a_step, int64_t a_next, const T* x,
                                  int64_t x_step, int64_t x_next, T* y, int64_t y_next) {
  using Vector = typename VectorOf<T>::type;
  for (int64_t part = 0; part < kL<T>; part += VectorOf<T>::kBytes / sizeof(T),
               a += VectorOf<T>::kBytes / sizeof(T), x += VectorOf<T>::kBytes / sizeof(T),
               y += VectorOf<T>::kBytes / sizeof(T)) {
    Vector sum[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sum[c] = Vector{};
    const T *p = a, *q = x;
    for (int64_t k = 0; k < count; ++k, p += a_step, q += x_step)
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) sum[c] += vector_at(p + c * a_next) * vector_at(q + c * x_next);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) vector_at(y + c * y_next) -= sum[c];
  }
}

/// The first largest element of each column from row k on: its size and its row.
template <class T>
ADJOINT_INLINE void find_pivots(int64_t n, int64_t k, const T* column, Lane<T>& best, Lane<T>& row) {
  constexpr int64_t L = kL<T>;
  ADJOINT_LANES {
    best[l] = absolute(column[k * L + l]);
    row[l] = static_cast<T>(k);
  }
  for (int64_t i = k + 1; i < n; ++i) {
    const T number = static_cast<T>(i);
    ADJOINT_LANES {
      const T size = absolute(column[i * L + l]);
      row[l] = size > best[l] ? number : row[l];
      best[l] = size > best[l] ? size : best[l];
    }
  }
}

/// Element k of each column and that of its row change places; rows are `from` or later, or k.
template <class T>
ADJOINT_INLINE void exchange(int64_t from, int64_t n, int64_t k, const Lane<T>& row, T* column) {
  using Vector = typename VectorOf<T>::type;
  constexpr int64_t L = kL<T>;
  for (int64_t part = 0; part < L; part += VectorOf<T>::kBytes / sizeof(T)) {
    T* x = column + part;
    const Vector rows = vector_at(row.at + part), top = vector_at(x + k * L);
    Vector chosen = top;
    for (int64_t i = from; i < n; ++i) {
      const Vector old = vector_at(x + i * L);
      const auto here = rows == (Vector{} + static_cast<T>(i));
      vector_at(x + i * L) = here ? top : old;
      chosen = here ? old : chosen;
    }
    vector_at(x + k * L) = chosen;
  }
}

template <class T>
void lu_of(int64_t n, T* a, int* pivots, int* info) {
  constexpr int64_t L = kL<T>;
  for (int64_t l = 0; l < L; ++l) info[l] = 0;
  for (int64_t k = 0; k < n; ++k) {
    T* column = a + k * n * L;
    Lane<T> best, row, pivot;
    find_pivots(n, k, column, best, row);
    bool moved = false;
    for (int64_t l = 0; l < L; ++l) {
      const int at = static_cast<int>(row[l]);
      pivots[k * L + l] = at + 1;
      moved |= at != k;
      if (best[l] == 0 && !info[l]) info[l] = static_cast<int>(k) + 1;
    }
    for (int64_t j = 0; moved && j < n; ++j) exchange(k + 1, n, k, row, a + j * n * L);
    ADJOINT_LANES pivot[l] = column[k * L + l] == 0 ? T(1) : column[k * L + l];
    for (int64_t i = k + 1; i < n; ++i) ADJOINT_LANES column[i * L + l] /= pivot[l];
    for (int64_t j = k + 1; j < n; ++j)
      subtract(n - k - 1, column + (k + 1) * L, a + (j * n + k) * L, a + (j * n + k + 1) * L);
  }
}

/// The same of larger matrices, column by column, which come in the order that their rows have by then: rows
/// change places only in what lies left.
template <class T>
void lu_by_columns(int64_t count, int64_t n, Batch<const T> from, T* a, int* pivots, int* info) {
  constexpr int64_t L = kL<T>;
  int order[L][kSmallMatrix];
  for (int64_t l = 0; l < L; ++l) {
    info[l] = 0;
    for (int i = 0; i < n; ++i) order[l][i] = i;
  }
  for (int64_t j = 0; j < n; ++j) {
    T* x = a + j * n * L;
    for (int64_t l = 0; l < L; ++l) {
      const T* column = from.data + (l < count ? l : count - 1) * from.step + j * from.across;
      for (int64_t i = 0; i < n; ++i) x[i * L + l] = column[order[l][i] * from.down];
    }
    for (int64_t i = 1; i < j; ++i) subtract_dots<T, 1>(i, a + i * L, n * L, 0, x, L, 0, x + i * L, 0);
    int64_t i = j;
    for (; i + 4 <= n; i += 4) subtract_dots<T, 4>(j, a + i * L, n * L, L, x, L, 0, x + i * L, L);
    for (; i < n; ++i) subtract_dots<T, 1>(j, a + i * L, n * L, 0, x, L, 0, x + i * L, 0);
    Lane<T> best, row, pivot;
    find_pivots(n, j, x, best, row);
    for (int64_t l = 0; l < L; ++l) {
      const int at = static_cast<int>(row[l]);
      pivots[j * L + l] = at + 1;
      if (best[l] == 0 && !info[l]) info[l] = static_cast<int>(j) + 1;
      if (at == j) continue;
      const int moved = order[l][j];
      order[l][j] = order[l][at];
      order[l][at] = moved;
      T *up = a + j * L + l, *down = a + at * L + l;
      for (int64_t c = 0; c <= j; ++c, up += n * L, down += n * L) {
        const T old = *up;
        *up = *down;
        *down = old;
      }
    }
    ADJOINT_LANES pivot[l] = x[j * L + l] == 0 ? T(1) : x[j * L + l];
    for (i = j + 1; i < n; ++i) ADJOINT_LANES x[i * L + l] /= pivot[l];
  }
}

template <class T>
void lu(int64_t count, int64_t n, Batch<const T> from, Batch<T> to, int* pivots, int* info, T* room) {
  constexpr int64_t L = kL<T>;
  int rows[kSmallMatrix * L], infos[L];
  for (int64_t b = 0; b < count; b += L) {
    const int64_t some = count - b < L ? count - b : L;
    if (n <= 4) {
      load(some, n, n, from_matrix(from, b), room);
      lu_of(n, room, rows, infos);
    } else {
      lu_by_columns(some, n, from_matrix(from, b), room, rows, infos);
    }
    store(some, n, n, room, from_matrix(to, b));
    for (int64_t l = 0; l < some; ++l) {
      info[b + l] = infos[l];
      for (int64_t k = 0; k < n; ++k) pivots[(b + l) * n + k] = rows[k * L + l];
    }
  }
}

/// Where a triangle lies in a block, so that it is a lower one: its first element, and the vectors from row
/// to row and column to column.
struct Triangle {
  int64_t first, down, across;
};

/// x becomes the solution of A x = x with the lower triangle A; rows of x lie `x_step` vectors apart, columns
/// n.
template <class T>
void substitute(int64_t n, int64_t columns, const T* a, Triangle t, T* x, int64_t x_first, int64_t x_step,
                bool unit) {
  constexpr int64_t L = kL<T>;
  x += x_first * L;
  for (int64_t i = 0; i < n; ++i) {
    const T *row = a + (t.first + i * t.down) * L, *pivot = row + i * t.across * L;
    T* y = x + i * x_step * L;
    int64_t c = 0;
    for (; c + 4 <= columns; c += 4)
      subtract_dots<T, 4>(i, row, t.across * L, 0, x + c * n * L, x_step * L, n * L, y + c * n * L, n * L);
    for (; c < columns; ++c)
      subtract_dots<T, 1>(i, row, t.across * L, 0, x + c * n * L, x_step * L, 0, y + c * n * L, 0);
    if (unit) continue;
    for (c = 0; c < columns; ++c) ADJOINT_LANES y[c * n * L + l] /= pivot[l];
  }
}

template <class T>
void lu_solve(int64_t count, int64_t n, int64_t columns, Batch<const T> lu, const int* pivots,
              Batch<const T> b, Batch<T> x, bool transposed, T* room) {
  constexpr int64_t L = kL<T>;
  T *a = room, *y = room + n * n * L;
  // Columns that fit into the room.
  const int64_t most = kSmallMatrix;
  for (int64_t first = 0; first < count; first += L) {
    const int64_t some = count - first < L ? count - first : L;
    load(some, n, n, from_matrix(lu, first), a);
    // Row i of P b is row order[i] of b. Of few rows those that change places are chosen lane by lane
    // instead.
    const bool few = n <= 4;
    int order[kSmallMatrix][L];
    Lane<T> rows[4];
    for (int64_t l = 0; l < L; ++l) {
      const int* at = pivots + (first + (l < some ? l : 0)) * n;
      for (int64_t k = 0; few && k < n; ++k) rows[k][l] = static_cast<T>(at[k] - 1);
      for (int i = 0; !few && i < n; ++i) order[i][l] = i;
      for (int64_t k = 0; !few && k < n; ++k) {
        const int moved = order[k][l];
        order[k][l] = order[at[k] - 1][l];
        order[at[k] - 1][l] = moved;
      }
    }
    for (int64_t c0 = 0; c0 < columns; c0 += most) {
      const int64_t wide = columns - c0 < most ? columns - c0 : most;
      const Batch<const T> from{b.data + first * b.step + c0 * b.across, b.down, b.across, b.step};
      const Batch<T> to{x.data + first * x.step + c0 * x.across, x.down, x.across, x.step};
      if (!b.data) {  // which has n columns, and so a room of its own size
        for (int64_t i = 0; i < n * n * L; ++i) y[i] = 0;
        for (int64_t i = 0; i < n; ++i)
          for (int64_t l = 0; l < L; ++l) y[((few || transposed ? i : order[i][l]) * n + i) * L + l] = 1;
      } else if (few || transposed) {
        load(some, n, wide, from, y);
      } else {
        for (int64_t c = 0; c < wide; ++c)
          for (int64_t i = 0; i < n; ++i)
            for (int64_t l = 0; l < L; ++l)
              y[(c * n + i) * L + l] =
                  from.data[order[i][l] * from.down + c * from.across + (l < some ? l : 0) * from.step];
      }
      for (int64_t k = 0; few && !transposed && k < n; ++k)
        for (int64_t c = 0; c < wide; ++c) exchange(0, n, k, rows[k], y + c * n * L);
      if (transposed) {  // Uᵀ, then Lᵀ from below
        substitute(n, wide, a, {0, n, 1}, y, 0, 1, false);
        substitute(n, wide, a, {n * n - 1, -n, -1}, y, n - 1, -1, true);
      } else {
        substitute(n, wide, a, {0, 1, n}, y, 0, 1, true);
        substitute(n, wide, a, {n * n - 1, -1, -n}, y, n - 1, -1, false);
      }
      for (int64_t k = n - 1; few && transposed && k >= 0; --k)
        for (int64_t c = 0; c < wide; ++c) exchange(0, n, k, rows[k], y + c * n * L);
      if (few || !transposed) {
        store(some, n, wide, y, to);
        continue;
      }
      for (int64_t c = 0; c < wide; ++c)
        for (int64_t i = 0; i < n; ++i)
          for (int64_t l = 0; l < some; ++l)
            to.data[order[i][l] * to.down + c * to.across + l * to.step] = y[(c * n + i) * L + l];
    }
  }
}

template <class T>
void multiply(int64_t count, int64_t m, int64_t n, int64_t k, Batch<const T> a, Batch<const T> b,
              Batch<T> c) {
  constexpr int64_t L = kL<T>, most = kSmallProduct * kSmallProduct;
  alignas(64) T x[most * L], y[most * L], z[most * L];
  for (int64_t first = 0; first < count; first += L) {
    const int64_t some = count - first < L ? count - first : L;
    load(some, m, k, from_matrix(a, first), x);
    load(some, k, n, from_matrix(b, first), y);
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 0; i < m; ++i) {
        T* to = z + (j * m + i) * L;
        ADJOINT_LANES to[l] = x[i * L + l] * y[j * k * L + l];
        for (int64_t p = 1; p < k; ++p)
          ADJOINT_LANES to[l] += x[(p * m + i) * L + l] * y[(j * k + p) * L + l];
      }
    store(some, m, n, z, from_matrix(c, first));
  }
}

template <class T>
void solve_triangular(int64_t count, int64_t n, int64_t columns, Batch<const T> a, Batch<const T> b,
                      Batch<T> x, bool upper, bool unit, T* room) {
  constexpr int64_t L = kL<T>;
  T* y = room + n * n * L;
  for (int64_t first = 0; first < count; first += L) {
    const int64_t some = count - first < L ? count - first : L;
    load(some, n, n, from_matrix(a, first), room);
    for (int64_t c = 0; c < columns; c += kSmallMatrix) {
      const int64_t wide = columns - c < kSmallMatrix ? columns - c : kSmallMatrix;
      Batch<const T> from = from_matrix(b, first);
      Batch<T> to = from_matrix(x, first);
      from.data += c * from.across;
      to.data += c * to.across;
      load(some, n, wide, from, y);
      if (upper)
        substitute(n, wide, room, {n * n - 1, -1, -n}, y, n - 1, -1, unit);
      else
        substitute(n, wide, room, {0, 1, n}, y, 0, 1, unit);
      store(some, n, wide, y, to);
    }
  }
}

template <class T>
void cholesky(int64_t count, int64_t n, Batch<const T> from, Batch<T> to, int* info, T* room) {
  constexpr int64_t L = kL<T>;
  for (int64_t first = 0; first < count; first += L) {
    const int64_t some = count - first < L ? count - first : L;
    load(some, n, n, from_matrix(from, first), room);
    int infos[L] = {};
    for (int64_t k = 0; k < n; ++k) {
      T* column = room + k * n * L;
      Lane<T> pivot;
      for (int64_t l = 0; l < some; ++l)
        if (!(column[k * L + l] > 0) && !infos[l]) infos[l] = static_cast<int>(k) + 1;
      ADJOINT_LANES column[k * L + l] = pivot[l] = math::sqrt(column[k * L + l]);
      for (int64_t i = k + 1; i < n; ++i) ADJOINT_LANES column[i * L + l] /= pivot[l];
      for (int64_t j = k + 1; j < n; ++j) {
        subtract(n - j, column + j * L, column + j * L, room + (j * n + j) * L);
        ADJOINT_LANES room[(j * n + k) * L + l] = 0;
      }
    }
    bool failed = false;
    for (int64_t l = 0; l < some; ++l) {
      info[first + l] = infos[l];
      failed |= infos[l] != 0;
    }
    if (!failed) {
      store(some, n, n, room, from_matrix(to, first));
      continue;
    }
    for (int64_t l = 0; l < some; ++l)
      if (!infos[l]) store(int64_t{1}, n, n, room + l, from_matrix(to, first + l));
  }
}

template <class T>
constexpr SmallMatrixTable<T> table{&lu<T>, &lu_solve<T>, &cholesky<T>, &solve_triangular<T>, &multiply<T>};

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<SmallMatrixTable<float>>, ADJOINT_LEVEL,
                                                   &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<SmallMatrixTable<double>>, ADJOINT_LEVEL,
                                                    &table<double>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
