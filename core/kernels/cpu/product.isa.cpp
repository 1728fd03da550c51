// Products of real matrices for one instruction set.
//
// The innermost loop (`multiply_tile`) keeps a tile of the result in registers, as many rows as there are
// registers for and two vectors wide. For each step along k it takes two vectors of b and one number of each
// row of a:
//
//   panel   two vectors wide, up to kDepth deep: b's part, packed so that it lies in one piece in the
//   first-level cache block   kRows rows of a, which stay in the second-level cache while the panels pass by
//
// a is read where it lies, by rows or by columns, unless its rows lie so that they evict each other from the
// cache; a panel that few rows will use is read where it lies, too. Beside a library these loops save what
// packing costs, which for products of some ten thousand to some million elements is a tenth or more, and
// they take a start (a bias) along. Start reading at `multiply`, at the end.
#include "kernels/cpu/product.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/math/math.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/vectors.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

/// Of vectors that are rows' sums in blocks of B lanes, one vector in blocks of half as many: a block's
/// halves are added, those of u before those of v.
template <int B, class V, size_t... L>
ADJOINT_INLINE V halve(const V& u, const V& v, std::index_sequence<L...>) {
  constexpr size_t H = B / 2;
  return __builtin_shufflevector(u, v, (L / H * B + L % H)...) +
         __builtin_shufflevector(u, v, (L / H * B + L % H + H)...);
}

/// The sums of four rows by a vector, V vectors of lanes each. The order of a row's sum is that of
/// `lane_sum`.
template <class T, int V>
ADJOINT_INLINE void four_rows_by_vector(int64_t k, const T* a, int64_t down, const T* x, T* sums) {
  constexpr int W = kWidth<T>, H = kShort<T> / W, S = kShort<T>;
  typedef T Whole __attribute__((vector_size(kBytes)));
  Whole sum[4][V * H] = {};
  int64_t i = 0;
  const auto step = [&]<int N>(std::integral_constant<int, N>) __attribute__((always_inline)) {
    for (; i + N * W <= k; i += N * W)
#pragma GCC unroll 8
      for (int h = 0; h < N; ++h) {
        const Whole by = load(x + i + h * W);
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) sum[r][h] += load(a + r * down + i + h * W) * by;
      }
  };
  step(std::integral_constant<int, V * H>());
  if constexpr (V > 1) {
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r)
#pragma GCC unroll 8
      for (int h = H; h < V * H; ++h) sum[r][h % H] += sum[r][h];
    step(std::integral_constant<int, H>());
  }
  if (i < k) {
    // Lanes that end with the row; of them those that are new.
    const int64_t first = k - S;
    const int old = static_cast<int>(i - first);
#pragma GCC unroll 4
    for (int h = 0; h < H; ++h) {
      const Whole by = load(x + first + h * W);
      const auto is_new = [&]<size_t... L>(std::index_sequence<L...>) {
        using I = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
        typedef I Places __attribute__((vector_size(kBytes)));
        return Places{I(L)...} + I(h * W) >= I(old);
      }(std::make_index_sequence<W>());
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) {
        const Whole next = sum[r][h] + load(a + r * down + first + h * W) * by;
        sum[r][h] = is_new ? next : sum[r][h];
      }
    }
  }
  constexpr auto lanes = std::make_index_sequence<W>();
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r)
    if constexpr (H > 1) sum[r][0] += sum[r][1];
  Whole all =
      halve<W / 2>(halve<W>(sum[0][0], sum[1][0], lanes), halve<W>(sum[2][0], sum[3][0], lanes), lanes);
  if constexpr (W > 4) all = halve<W / 4>(all, all, lanes);
  if constexpr (W > 8) all = halve<W / 8>(all, all, lanes);
  std::memcpy(sums, &all, 4 * sizeof(T));
}

template <class T>
void rows_by_vector(int64_t m, int64_t k, const T* a, int64_t down, const T* x, T* c) {
  constexpr int64_t kBlock = 4096;
#if ADJOINT_LEVEL >= 3
  // Four long rows at once are read no faster than one after the other.
  constexpr int64_t S = kShort<T>, kMost = 4096 / sizeof(T);
  for (; m >= 4 && k >= S && k <= kMost; m -= 4, a += 4 * down, c += 4) {
    if (k < kLong * S)
      four_rows_by_vector<T, 1>(k, a, down, x, c);
    else if constexpr (ADJOINT_LEVEL >= 4)
      four_rows_by_vector<T, 4>(k, a, down, x, c);
    else
      break;
  }
#endif
  for (int64_t i = 0; i < m; ++i, a += down) {
    T sum(0);
    for (int64_t at = 0; at < k; at += kBlock) {
      const T *p = a + at, *q = x + at;
      sum += lane_sum<T>(k - at < kBlock ? k - at : kBlock, [p, q](int64_t j) { return p[j] * q[j]; });
    }
    c[i] = sum;
  }
}

#if ADJOINT_LEVEL >= 3

#if ADJOINT_LEVEL >= 4
constexpr int kTile = 14;  // 28 of 32 registers hold sums
#else
constexpr int kTile = 6;  // 12 of 16
#endif
template <class T>
constexpr int kPanel = 2 * kWidth<T>;
constexpr int64_t kDepth = 256, kRows = 336;  // rows: a multiple of kTile
static_assert((kDepth + 16) * (kRows + 16) <= kProductScratch);

/// The address of row R from three that lie five rows apart: without more arithmetic than an instruction does
/// by itself.
template <int R>
ADJOINT_INLINE const char* row_of(const char* const* base, int64_t step, int64_t step3) {
  const char* at = base[R / 5];
  if constexpr (R % 5 == 1)
    return at + step;
  else if constexpr (R % 5 == 2)
    return at + 2 * step;
  else if constexpr (R % 5 == 3)
    return at + step3;
  else if constexpr (R % 5 == 4)
    return at + 4 * step;
  else
    return at;
}

/// R rows and a panel's columns of c. By rows: element (r, p) of a at a[r * a_step + p]; else at a[p * a_step
/// + r].
template <class T, int R, bool by_rows>
void multiply_tile(int64_t k, const T* a, int64_t a_step, const T* b, int64_t b_step, const T* start,
                   int64_t start_down, T* c, int64_t c_down) {
  constexpr int W = kWidth<T>;
  Vector<T> sum[R][2];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = Vector<T>{};
  if (start)
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      sum[r][0] = load(start + r * start_down);
      sum[r][1] = load(start + r * start_down + W);
    }
  [&]<int... I>(std::integer_sequence<int, I...>) {
    if constexpr (by_rows) {
      int64_t step = a_step * static_cast<int64_t>(sizeof(T)), step3 = 3 * step;
      const char* first = reinterpret_cast<const char*>(a);
      const char *second = first + 5 * step, *third = second + 5 * step;
      asm("" : "+r"(step), "+r"(step3), "+r"(second), "+r"(third));  // kept, not computed anew
      const char* base[] = {first, second, third};
      auto once = [&](int p) __attribute__((always_inline)) {
        const Vector<T> left = load(b), right = load(b + W);
        auto row = [&](int r, const char* at) __attribute__((always_inline)) {
          const Vector<T> x = reinterpret_cast<const T*>(at)[p] - Vector<T>{};
          sum[r][0] += x * left;
          sum[r][1] += x * right;
        };
        (row(I, row_of<I>(base, step, step3)), ...);
        b += b_step;
      };
      auto advance = [&](int64_t by) __attribute__((always_inline)) {
        for (const char*& p : base) p += by * static_cast<int64_t>(sizeof(T));
      };
      int64_t p = 0;
      for (; p + 4 <= k; p += 4) {
        once(0);
        once(1);
        once(2);
        once(3);
        advance(4);
      }
      for (; p < k; ++p) {
        once(0);
        advance(1);
      }
    } else {
      for (int64_t p = 0; p < k; ++p) {
        const Vector<T> left = load(b), right = load(b + W);
        auto row = [&](int r) __attribute__((always_inline)) {
          const Vector<T> x = a[r] - Vector<T>{};
          sum[r][0] += x * left;
          sum[r][1] += x * right;
        };
        (row(I), ...);
        a += a_step;
        b += b_step;
      }
    }
  }(std::make_integer_sequence<int, R>{});
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    store(c + r * c_down, sum[r][0]);
    store(c + r * c_down + W, sum[r][1]);
  }
}

template <class T>
using TileFunction = void(int64_t k, const T* a, int64_t a_step, const T* b, int64_t b_step, const T* start,
                          int64_t start_down, T* c, int64_t c_down);

/// By the number of rows less one.
template <class T, bool by_rows, class R = std::make_integer_sequence<int, kTile>>
struct Tiles;
template <class T, bool by_rows, int... R>
struct Tiles<T, by_rows, std::integer_sequence<int, R...>> {
  static constexpr TileFunction<T>* of[] = {&multiply_tile<T, R + 1, by_rows>...};
};

template <class T>
struct MaskOf {
  typedef int32_t type __attribute__((vector_size(kBytes)));
};
template <>
struct MaskOf<double> {
  typedef int64_t type __attribute__((vector_size(kBytes)));
};

/// x[j][i] and x[i][j] change places, by exchanging halves, quarters and so on.
template <class T>
ADJOINT_INLINE void transpose(Vector<T>* x) {
  constexpr int W = kWidth<T>;
  using Mask = typename MaskOf<T>::type;
  auto level = [&]<int D>(std::integral_constant<int, D>) __attribute__((always_inline)) {
    if constexpr (D < W) {
      Mask low, high;
#pragma GCC unroll 16
      for (int i = 0; i < W; ++i) {
        low[i] = i & D ? W + (i ^ D) : i;
        high[i] = i & D ? W + i : i | D;
      }
#pragma GCC unroll 16
      for (int i = 0; i < W; ++i)
        if (!(i & D)) {
          const Vector<T> u = __builtin_shuffle(x[i], x[i | D], low),
                          v = __builtin_shuffle(x[i], x[i | D], high);
          x[i] = u;
          x[i | D] = v;
        }
    }
  };
  level(std::integral_constant<int, 1>{});
  level(std::integral_constant<int, 2>{});
  level(std::integral_constant<int, 4>{});
  level(std::integral_constant<int, 8>{});
}

/// `n` columns of b into a panel, k deep; what is missing at the right is zero.
template <class T>
void pack(int64_t k, int64_t n, Matrix<T> b, T* to) {
  constexpr int W = kWidth<T>, P = kPanel<T>;
  if (b.across == 1 && n == P) {
    for (int64_t p = 0; p < k; ++p) {
      store(to + p * P, load(b.data + p * b.down));
      store(to + p * P + W, load(b.data + p * b.down + W));
    }
    return;
  }
  if (n < P) std::memset(to, 0, static_cast<size_t>(k * P) * sizeof(T));
  if (b.across == 1) {
    for (int64_t p = 0; p < k; ++p, to += P) {
      const T* row = b.data + p * b.down;
      int64_t j = 0;
      for (; j + W <= n; j += W) store(to + j, load(row + j));
      for (; j < n; ++j) to[j] = row[j];
    }
    return;
  }
  if (b.down == 1 && k >= W && n >= W) {
    // By squares; the last ones of a row or a column may overlap those before.
    for (int64_t p = 0; p < k; p += W)
      for (int64_t j = 0; j < n; j += W) {
        const int64_t row = p + W <= k ? p : k - W, column = j + W <= n ? j : n - W;
        Vector<T> x[W];
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) x[i] = load(b.data + row + (column + i) * b.across);
        transpose<T>(x);
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) store(to + (row + i) * P + column, x[i]);
      }
    return;
  }
  for (int64_t p = 0; p < k; ++p)
    for (int64_t j = 0; j < n; ++j) to[p * P + j] = b.data[p * b.down + j * b.across];
}

/// The same of elements that are picked: rows by runs of neighbours, eight at a time, of which the next run
/// writes over what is too much.
template <class T>
void pack(int64_t k, int64_t n, Picked<T> b, T* to) {
  constexpr int P = kPanel<T>;
  typedef T Eight __attribute__((vector_size(8 * sizeof(T)), aligned(alignof(T)), may_alias));
  int64_t at[P], place[P], count = 0;
  for (int64_t j = 0, length = 8; j < n; ++j, ++length)
    if (length == 8 || b.columns[j] != b.columns[j - 1] + 1) {
      at[count] = b.columns[j];
      place[count++] = j;
      length = 0;
    }
  if (count > P / 2) {
    // Columns have no runs, but rows have.
    for (int64_t j = 0; j < n; ++j) {
      const T* column = b.data + b.columns[j];
      for (int64_t p = 0; p < k; ++p) to[p * P + j] = column[b.rows[p]];
    }
  } else {
    for (int64_t p = 0; p < k; ++p) {
      const T* row = b.data + b.rows[p];
      for (int64_t i = 0; i < count; ++i)
        *reinterpret_cast<Eight*>(to + p * P + place[i]) = *reinterpret_cast<const Eight*>(row + at[i]);
    }
  }
  if (n < P)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = n; j < P; ++j) to[p * P + j] = T(0);
}

/// Columns from j on, and rows from p on.
template <class T>
ADJOINT_INLINE Matrix<T> part_of(Matrix<T> b, int64_t p, int64_t j) {
  return {b.data + p * b.down + j * b.across, b.down, b.across};
}
template <class T>
ADJOINT_INLINE Picked<T> part_of(Picked<T> b, int64_t p, int64_t j) {
  return {b.data, b.rows + p, b.columns + j};
}

/// A block of a in one piece, rows (or, by columns, columns) a little more than `length` apart.
template <class T>
void copy_block(int64_t lines, int64_t length, const T* from, int64_t step, T* to, int64_t to_step) {
  for (int64_t i = 0; i < lines; ++i)
    std::memcpy(to + i * to_step, from + i * step, static_cast<size_t>(length) * sizeof(T));
}

/// The product of a column and a row.
template <class T>
void multiply_outer(int64_t m, int64_t n, Matrix<T> a, Matrix<T> b, T* c, int64_t c_down) {
  constexpr int W = kWidth<T>;
  for (int64_t i = 0; i < m; ++i, c += c_down) {
    const T number = a.data[i * a.down];
    const Vector<T> x = number - Vector<T>{};
    int64_t j = 0;
    for (; j + W <= n; j += W) store(c + j, x * load(b.data + j));
    for (; j < n; ++j) c[j] = number * b.data[j];
  }
}

template <class T, template <class> class B>
ADJOINT_INLINE void multiply_any(int64_t m, int64_t n, int64_t k, Matrix<T> a, B<T> b, const T* start,
                                 int64_t start_down, int64_t start_across, T* c, int64_t c_down, T* scratch) {
  constexpr int P = kPanel<T>;
  constexpr bool picked = std::is_same_v<B<T>, Picked<T>>;
  alignas(64) T panel[kDepth * P + 8], edge[kTile * P], start_edge[kTile * P];
  const bool by_rows = a.across == 1;
  const auto& tiles = by_rows ? Tiles<T, true>::of : Tiles<T, false>::of;
  const int64_t blocks = (m - 1) / kRows + 1,
                most = ((m - 1) / blocks / kTile + 1) * kTile;  // of about the same size
  for (int64_t i0 = 0; i0 < m; i0 += most) {
    const int64_t rows = m - i0 < most ? m - i0 : most;
    const int64_t count = (rows - 1) / kTile + 1;
    for (int64_t p0 = 0; p0 < k; p0 += kDepth) {
      const int64_t depth = k - p0 < kDepth ? k - p0 : kDepth;
      const T* block = a.data + i0 * a.down + p0 * a.across;
      int64_t a_step = by_rows ? a.down : a.across;
      if (scratch) {
        constexpr int64_t kGap = 16;
        const int64_t length = by_rows ? depth : rows;
        copy_block(by_rows ? rows : depth, length, block, a_step, scratch, length + kGap);
        block = scratch;
        a_step = length + kGap;
      }
      // What is there before these steps along k.
      const T* from = p0 ? c + i0 * c_down : start ? start + i0 * start_down : nullptr;
      const int64_t from_down = p0 ? c_down : start_down;
      const bool repeated = from && !p0 && start_across == 0;
      for (int64_t j = 0; j < n; j += P) {
        const int64_t width = n - j < P ? n - j : P;
        const B<T> part = part_of(b, p0, j);
        const T* right = panel;
        int64_t b_step = P;
        bool direct = false;
        if constexpr (!picked)
          if ((direct = width == P && b.across == 1 && (count <= 2 || depth <= 16))) {
            right = part.data;
            b_step = b.down;
          }
        if (!direct) pack(depth, width, part, panel);
        for (int64_t t = 0; t < count; ++t) {
          const int64_t i = rows * t / count, height = rows * (t + 1) / count - i;
          T* to = c + (i0 + i) * c_down + j;
          const T* s = from ? from + i * from_down + (repeated ? 0 : j) : nullptr;
          const T* left = block + (by_rows ? i * a_step : i);
          if (repeated)
            for (int64_t r = 0; r < height; ++r) {
              const Vector<T> number = s[r * from_down] - Vector<T>{};
              store(start_edge + r * P, number);
              store(start_edge + r * P + kWidth<T>, number);
            }
          if (width == P) {
            tiles[height - 1](depth, left, a_step, right, b_step, repeated ? start_edge : s,
                              repeated ? P : from_down, to, c_down);
            continue;
          }
          if (s && !repeated)
            for (int64_t r = 0; r < height; ++r)
              std::memcpy(start_edge + r * P, s + r * from_down, static_cast<size_t>(width) * sizeof(T));
          tiles[height - 1](depth, left, a_step, right, b_step, s ? start_edge : nullptr, P, edge, P);
          for (int64_t r = 0; r < height; ++r)
            std::memcpy(to + r * c_down, edge + r * P, static_cast<size_t>(width) * sizeof(T));
        }
      }
    }
  }
}

template <class T>
void multiply(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, const T* start, int64_t start_down,
              int64_t start_across, T* c, int64_t c_down, T* scratch) {
  if (k == 1 && b.across == 1 && !start) return multiply_outer(m, n, a, b, c, c_down);
  multiply_any(m, n, k, a, b, start, start_down, start_across, c, c_down, scratch);
}
template <class T>
void multiply_picked(int64_t m, int64_t n, int64_t k, Matrix<T> a, Picked<T> b, const T* start,
                     int64_t start_down, int64_t start_across, T* c, int64_t c_down, T* scratch) {
  multiply_any(m, n, k, a, b, start, start_down, start_across, c, c_down, scratch);
}

template <class T>
constexpr ProductTable<T> table{&multiply<T>, &multiply_picked<T>, &rows_by_vector<T>};

#else

template <class T>
constexpr ProductTable<T> table{nullptr, nullptr, &rows_by_vector<T>};

#endif

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<ProductTable<float>>, ADJOINT_LEVEL,
                                                   &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<ProductTable<double>>, ADJOINT_LEVEL,
                                                    &table<double>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
