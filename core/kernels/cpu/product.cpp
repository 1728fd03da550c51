// Which loops multiply two strided matrices: our own where there are some and the product is large enough for
// them, else BLAS, to which transposed factors go as flags, else plain loops. Start reading at `multiply`.
#include "kernels/product.h"

#include <algorithm>
#include <optional>

#include "kernels/copy.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/small/small_matrices.h"
#include "kernels/cpu/variants.h"
#include "kernels/launch.h"
#include "runtime/blas.h"
#include "runtime/parallel.h"
#include "runtime/scratch.h"

namespace adjoint::kernels {

namespace blas = runtime::blas;

namespace {

// --- Loops of our own -----------------------------------------------------------------------------

/// Multiplications in a part that is worth a thread: some twenty microseconds.
constexpr int64_t kPart = int64_t{1} << 20;
/// Of the result's rows and columns, so that parts are whole tiles and panels on every processor.
constexpr int64_t kPartRows = 84, kPartColumns = 32;

/// Rows that lie a large power of two apart share few places in the cache.
template <class T>
bool evict_each_other(const Matrix<T>& a) {
  return std::max(a.down, a.across) * static_cast<int64_t>(sizeof(T)) % 2048 == 0;
}

/// Up to so many multiplications, calling a library takes longer than a product by our own loops, whatever
/// its shape; and up to so many, longer than one without any preparation.
constexpr int64_t kFewProducts = 4096, kPlainProducts = 96;

/// Whether loops of our own serve for a product of this size (T is float or double).
template <class T>
bool has_product_loops(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kLeast = 16;
  if (!best_variant<ProductTable<T>>().multiply) return false;
  if (m * k <= kFewProducts && m * k * n <= kFewProducts) return n >= 8 || n >= m;
  return m >= 4 && n >= kLeast && (m * k >= 64 || k == 1);
}
/// Whether they do with the factors in each other's place, for a result of few columns.
template <class T>
bool has_transposed_loops(int64_t m, int64_t n, int64_t k) {
  return best_variant<ProductTable<T>>().multiply && n < 8 && n < m && m * k <= kFewProducts &&
         m * k * n <= kFewProducts;
}

template <class T>
Matrix<T> columns_of(Matrix<T> b, int64_t j) {
  return {b.data + j * b.across, b.down, b.across};
}
template <class T>
Picked<T> columns_of(Picked<T> b, int64_t j) {
  return {b.data, b.rows, b.columns + j};
}

/// c = start + a b as `ProductTable::multiply` says, with the rows of c next to each other; `shared` among
/// threads.
template <class T, template <class> class B>
void multiply_by_loops(int64_t m, int64_t n, int64_t k, Matrix<T> a, B<T> b, const T* start,
                       int64_t start_down, int64_t start_across, T* c, bool shared) {
  constexpr auto multiply = [] {
    if constexpr (std::is_same_v<B<T>, Matrix<T>>)
      return &ProductTable<T>::multiply;
    else
      return &ProductTable<T>::multiply_picked;
  }();
  const bool copies = m > 16 && n > 64 && k > 1 && evict_each_other(a);
  const auto& narrow = narrow_variant<ProductTable<T>>();
  const bool wide = &narrow != &best_variant<ProductTable<T>>();
  auto part = [&](int64_t i, int64_t rows, int64_t j, int64_t columns) {
    const auto scratch = copies ? runtime::Scratch<T>(kProductScratch) : runtime::Scratch<T>();
    const auto run = [&](const ProductTable<T>& loops, int64_t j, int64_t columns) {
      (loops.*multiply)(rows, columns, k, {a.data + i * a.down, a.down, a.across}, columns_of(b, j),
                        start ? start + i * start_down + j * start_across : nullptr, start_down, start_across,
                        c + i * n + j, n, scratch.get());
    };
    // The last columns, where they would leave half of the widest panel empty.
    constexpr int64_t kWide = 128 / sizeof(T);
    const int64_t last =
        wide && columns % kWide <= kWide / 2 && columns > kWide && columns < 4 * kWide ? columns % kWide : 0;
    run(product_loops<T>(columns), j, columns - last);
    if (last) run(narrow, j + columns - last, last);
  };
  // In floating point, as three dimensions may overflow the integers.
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const int threads = shared ? runtime::get_num_threads() : 1;
  if (threads == 1 || work < 2.0 * kPart) return part(0, m, 0, n);
  const int64_t parts = static_cast<int64_t>(std::min(work / kPart, 4.0 * threads));
  // By columns, where there are enough of them: then no panel is packed twice.
  const bool by_columns = n / kPartColumns >= parts || n >= m;
  const int64_t length = by_columns ? n : m, unit = by_columns ? kPartColumns : kPartRows;
  const int64_t each = std::max<int64_t>(1, length / parts / unit) * unit, count = (length - 1) / each + 1;
  runtime::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * each, last = std::min(end * each, length);
    if (by_columns)
      part(0, m, first, last - first);
    else
      part(first, last - first, 0, n);
  });
}

// --- Any factors ----------------------------------------------------------------------------------

// The type that BLAS knows each of ours by.
template <class T>
struct BlasType {
  using type = T;
};
template <class T>
struct BlasType<Complex<T>> {
  using type = std::complex<T>;
};
template <class T>
using blas_t = typename BlasType<T>::type;
template <class T>
inline constexpr bool has_blas = std::is_same_v<real_t<T>, float> || std::is_same_v<real_t<T>, double>;

/// How a matrix lies: one of its strides is 1 in what loops and BLAS are given.
struct Strides {
  int64_t down, across;
};
/// A factor: a matrix, or a batch of them.
struct Operand : Strides {
  const Tensor& given;
  Tensor copy = {};  // where the layout was neither
  const Tensor& tensor() const { return copy.defined() ? copy : given; }
};

// `rows` x `columns` in the last two dimensions. Strides of dimensions of size 1 are those that BLAS would
// accept.
std::optional<Strides> strides_of(const Tensor& t) {
  const int64_t rows = t.size(-2), columns = t.size(-1);
  const int64_t down = t.stride(-2), across = t.stride(-1);
  if (across == 1 || columns == 1) {
    if (rows == 1) return Strides{columns, 1};
    if (down >= columns) return Strides{down, 1};
  }
  if (down == 1 || rows == 1) {
    if (columns == 1) return Strides{1, rows};
    if (across >= rows) return Strides{1, across};
  }
  return {};
}
Operand prepare(const Tensor& t) {
  if (const auto strides = strides_of(t)) return {*strides, t};
  return {{t.size(-1), 1}, t, copy_of(t)};
}

/// c = start + a b of few numbers; K of them are summed, or any number where that is 0.
template <class T, int K>
void multiply_plainly(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, const T* start,
                      int64_t start_down, int64_t start_across, T* c) {
  const int64_t terms = K ? K : k;
  for (int64_t i = 0; i < m; ++i, a.data += a.down, c += n)
    for (int64_t j = 0; j < n; ++j) {
      const T* q = b.data + j * b.across;
      T sum = start ? start[i * start_down + j * start_across] : T(0);
#pragma GCC unroll 4
      for (int64_t l = 0; l < terms; ++l) sum += a.data[l * a.across] * q[l * b.down];
      c[j] = sum;
    }
}

bool is_plain(int64_t m, int64_t n, int64_t k) {
  return m * k <= kPlainProducts && m * k * n <= kPlainProducts;
}
template <class T>
auto plain_loops(int64_t k) {
  return k == 1   ? multiply_plainly<T, 1>
         : k == 2 ? multiply_plainly<T, 2>
         : k == 3 ? multiply_plainly<T, 3>
         : k == 4 ? multiply_plainly<T, 4>
                  : multiply_plainly<T, 0>;
}

/// c = start + a b; an undefined start is zero. Its rows lie `start_down` apart: 0 repeats one; with
/// start_across = 0 a row is one number.
template <class T>
void multiply_one(const T* a, const Strides& x, const T* b, const Strides& y, const T* start,
                  int64_t start_down, int64_t start_across, T* c, int64_t m, int64_t n, int64_t k,
                  bool shared) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    // Rows times a vector, which libraries are slow at.
    constexpr int64_t kLeast = 32;
    const bool column = n == 1 && x.across == 1 && y.down == 1, row = m == 1 && y.down == 1 && x.across == 1;
    if (k >= kLeast && !start && (column || row)) {
      const int64_t rows = column ? m : n, down = column ? x.down : y.across;
      const T *from = column ? a : b, *by = column ? b : a;
      const auto part = [=](int64_t begin, int64_t end) {
        best_variant<ProductTable<T>>().rows_by_vector(end - begin, k, from + begin * down, down, by,
                                                       c + begin);
      };
      if (shared)
        runtime::parallel_for(0, rows, std::max<int64_t>(1, kPart / 8 / k), part);
      else
        part(0, rows);
      return;
    }
    if (is_plain(m, n, k))
      return plain_loops<T>(k)(m, n, k, {a, x.down, x.across}, {b, y.down, y.across}, start, start_down,
                               start_across, c);
    if (has_transposed_loops<T>(m, n, k)) {
      T columns[kFewProducts];
      product_loops<T>(m).multiply(n, m, k, {b, y.across, y.down}, {a, x.across, x.down}, nullptr, 0, 0,
                                   columns, m, nullptr);
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j)
          c[i * n + j] =
              start ? start[i * start_down + j * start_across] + columns[j * m + i] : columns[j * m + i];
      return;
    }
    if (has_product_loops<T>(m, n, k))
      return multiply_by_loops(m, n, k, Matrix<T>{a, x.down, x.across}, Matrix<T>{b, y.down, y.across}, start,
                               start_down, start_across, c, shared);
  }
  if (start)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) c[i * n + j] = start[i * start_down + j * start_across];
  if constexpr (has_blas<T>) {
    using B = blas_t<T>;
    const bool plain_x = x.across == 1, plain_y = y.across == 1;
    blas::gemm<B>(plain_x ? blas::Op::none : blas::Op::transpose,
                  plain_y ? blas::Op::none : blas::Op::transpose, m, n, k, B(1),
                  reinterpret_cast<const B*>(a), plain_x ? x.down : x.across, reinterpret_cast<const B*>(b),
                  plain_y ? y.down : y.across, B(start ? 1 : 0), reinterpret_cast<B*>(c), n);
  } else {
    for (int64_t i = 0; i < m; ++i) {
      T* row = c + i * n;
      if (!start) std::fill_n(row, n, T(0));
      for (int64_t l = 0; l < k; ++l) {
        const T v = a[i * x.down + l * x.across];
        for (int64_t j = 0; j < n; ++j) row[j] = static_cast<T>(row[j] + v * b[l * y.down + j * y.across]);
      }
    }
  }
}

/// How rows of a start lie: see `ProductTable::multiply`.
Strides strides_of_start(const Tensor& start) {
  if (!start.defined()) return {0, 1};
  return {start.dim() >= 2 && start.size(-2) > 1 ? start.stride(-2) : 0, start.stride(-1) == 0 ? 0 : 1};
}

/// How far apart the rows of all left factors of m rows lie, where these follow each other and share a right
/// factor; else 0.
int64_t rows_apart(const Strides& x, int64_t m, int64_t k, const Dims& a_steps, const Dims& b_steps,
                   IntList batch) {
  int64_t down = m == 1 ? 0 : x.down, rows = m;
  if (x.across != 1) return 0;
  for (size_t d = batch.size(); d-- > 0; rows *= batch[d]) {
    if (b_steps[d] != 0) return 0;
    if (batch[d] == 1) continue;
    if (rows == 1) down = a_steps[d];
    if (a_steps[d] != rows * down) return 0;
  }
  return down >= std::max<int64_t>(k, 1) ? down : 0;
}

template <class T>
void batched(const Tensor& a, const Tensor& b, const Tensor& start, const Tensor& out, IntList batch) {
  const int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  const Operand x = prepare(a), y = prepare(b);
  const T* from = start.defined() ? start.data<T>() : nullptr;
  const auto [from_down, from_across] = strides_of_start(start);
  const int64_t from_step = start.defined() && start.dim() == 3 && start.size(0) > 1 ? start.stride(0) : 0;
  const int64_t count = product(batch);
  if (count == 1) {
    multiply_one(x.tensor().data<T>(), x, y.tensor().data<T>(), y, from, from_down, from_across,
                 out.data<T>(), m, n, k, true);
    return;
  }
  // Where matrix number i of each factor lies: 0 strides where it is broadcast.
  auto steps = [&](const Tensor& t) {
    Dims s(batch.size());
    const size_t lead = batch.size() - (t.sizes().size() - 2);
    for (size_t d = lead; d < batch.size(); ++d) s[d] = t.sizes()[d - lead] == 1 ? 0 : t.strides()[d - lead];
    return s;
  };
  const Tensor &left = x.tensor(), &right = y.tensor();
  const Dims a_steps = steps(left), b_steps = steps(right);
  if constexpr (has_blas<T>)
    if (const int64_t down = rows_apart(x, m, k, a_steps, b_steps, batch);
        down && (!from || m == 1 || from_step == m * from_down)) {
      // One right factor: the rows of all left ones make one product.
      multiply_one(left.data<T>(), {down, 1}, right.data<T>(), y, from, m == 1 ? from_step : from_down,
                   from_across, out.data<T>(), count * m, n, k, true);
      return;
    }
  if constexpr (is_floating_v<T> && !is_half_v<T>) {
    if (batch.size() == 1 && count >= kMatrixLanes<T> && std::max({m, n, k}) <= kSmallProduct &&
        std::min({m, n, k}) > 0 && !from) {
      // Several at once, one in each lane of a vector.
      runtime::parallel_for(0, count, 4096, [&](int64_t begin, int64_t end) {
        best_variant<SmallMatrixTable<T>>().multiply(
            end - begin, m, n, k, {left.data<T>() + begin * a_steps[0], x.down, x.across, a_steps[0]},
            {right.data<T>() + begin * b_steps[0], y.down, y.across, b_steps[0]},
            {out.data<T>() + begin * m * n, n, 1, m * n});
      });
      return;
    }
  }
  // Few large matrices are shared one by one.
  const bool large = count < runtime::get_num_threads();
  const int64_t grain =
      large ? count : std::max<int64_t>(1, (int64_t{1} << 19) / std::max<int64_t>(1, m * n * k));
  runtime::parallel_for(0, count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t rest = i, at = 0, bt = 0;
      for (size_t d = batch.size(); d-- > 0;) {
        at += rest % batch[d] * a_steps[d];
        bt += rest % batch[d] * b_steps[d];
        rest /= batch[d];
      }
      multiply_one(left.data<T>() + at, x, right.data<T>() + bt, y, from ? from + i * from_step : nullptr,
                   from_down, from_across, out.data<T>() + i * m * n, m, n, k, large);
    }
  });
}

}  // namespace

template <class T>
void multiply_picked(int64_t m, int64_t n, int64_t k, Matrix<T> a, Picked<T> b, const T* start,
                     int64_t start_down, int64_t start_across, T* c) {
  multiply_by_loops(m, n, k, a, b, start, start_down, start_across, c, true);
}
template void multiply_picked(int64_t, int64_t, int64_t, Matrix<float>, Picked<float>, const float*, int64_t,
                              int64_t, float*);
template void multiply_picked(int64_t, int64_t, int64_t, Matrix<double>, Picked<double>, const double*,
                              int64_t, int64_t, double*);

static void multiply_all(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& start,
                         IntList batch) {
  visit(out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!is_half_v<T> && !std::is_same_v<T, bool>) batched<T>(a, b, start, out, batch);
  });
}
void multiply(const Tensor& a, const Tensor& b, const Tensor& start, const Tensor& out, IntList batch) {
  on<&multiply_all>(Out(out), a, b, start, batch);
}

template <class T>
static void run_kept(const KeptProduct& p) {
  multiply_one<T>(p.a->data<T>(), {p.a_down, p.a_across}, p.b->data<T>(), {p.b_down, p.b_across},
                  p.start->defined() ? p.start->data<T>() : nullptr, p.start_down, p.start_across,
                  p.out->data<T>(), p.m, p.n, p.k, true);
}

/// Of few numbers, of which K are summed: without asking which loops serve.
template <class T, int K>
static void run_few(const KeptProduct& p) {
  multiply_plainly<T, K>(
      p.m, p.n, K, {p.a->data<T>(), p.a_down, p.a_across}, {p.b->data<T>(), p.b_down, p.b_across},
      p.start->defined() ? p.start->data<T>() : nullptr, p.start_down, p.start_across, p.out->data<T>());
}
template <class T>
static auto kept_loops(int64_t m, int64_t n, int64_t k) {
  constexpr decltype(&run_kept<T>) few[] = {run_few<T, 1>, run_few<T, 2>, run_few<T, 3>, run_few<T, 4>};
  return k >= 1 && k <= 4 && is_plain(m, n, k) ? few[k - 1] : run_kept<T>;
}

bool keep_product(const launch::Routine& routine, const void* const* arguments, KeptProduct& kept) {
  if (&routine != &launch::routine_of<&multiply_all, Out, Tensor, Tensor, Tensor, IntList>) return false;
  const Tensor *const out = static_cast<const Tensor*>(arguments[0]),
                      *const a = static_cast<const Tensor*>(arguments[1]),
                      *const b = static_cast<const Tensor*>(arguments[2]),
                      *const start = static_cast<const Tensor*>(arguments[3]);
  const bool is_float = out->dtype() == DType::Float32;
  if ((!is_float && out->dtype() != DType::Float64) ||
      product(*static_cast<const IntList*>(arguments[4])) != 1)
    return false;
  const auto x = strides_of(*a), y = strides_of(*b);
  if (!x || !y) return false;
  const Strides s = strides_of_start(*start);
  const int64_t m = a->size(-2), n = b->size(-1), k = a->size(-1);
  kept = {is_float ? kept_loops<float>(m, n, k) : kept_loops<double>(m, n, k),
          out,
          a,
          b,
          start,
          m,
          n,
          k,
          x->down,
          x->across,
          y->down,
          y->across,
          s.down,
          s.across};
  return true;
}

}  // namespace adjoint::kernels
