// Attention by tiles (T. Dao et al., FlashAttention, 2022): kQueries queries meet kAttentionKeys keys, and of
// what lies between the products only this tile is ever there.
//
// Forward, a block of queries goes over all keys; a running maximum and sum of exponentials per query make
// the softmax exact. Backward, a block of keys goes over all queries and finds the weights again from the
// logarithms of the sums. So memory grows with the lengths and not with their product. What is added up where
// does not depend on the number of threads. Start reading at `Problem`, then `forward`.
#include "kernels/attention.h"

#include <cmath>
#include <cstring>
#include <memory>

#include "for_size.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/variants.h"
#include "kernels/launch.h"
#include "kernels/slices.h"
#include "runtime/blas.h"
#include "runtime/parallel.h"
#include "runtime/scratch.h"

namespace adjoint::kernels::attention {

namespace {

constexpr int64_t kQueries = 168, kKeys = kAttentionKeys;
/// Rows of a tile lie so far apart that they do not evict each other from the cache.
constexpr int64_t kStep = kKeys + 16;

/// Queries in a block: whole tiles of the products, and blocks of about the same size. Small ones meet fewer
/// keys that none of their queries sees.
int64_t block_of(int64_t queries, bool causal) {
  constexpr int64_t kTiles = 42;  // a multiple of 6 and 14
  const int64_t most = causal ? kQueries / 2 : kQueries, blocks = (queries + most - 1) / most;
  return blocks <= 1 ? std::max<int64_t>(1, queries)
                     : ((queries + blocks - 1) / blocks + kTiles - 1) / kTiles * kTiles;
}

/// c (+)= a b.
template <class T>
void multiply(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, bool add, T* c, int64_t c_down) {
  if (k == 0) {
    for (int64_t i = 0; i < m && !add; ++i) std::fill_n(c + i * c_down, n, T(0));
    return;
  }
  if (const auto loops = product_loops<T>(n).multiply)
    return loops(m, n, k, a, b, add ? c : nullptr, c_down, 1, c, c_down, nullptr);
  using runtime::blas::Op;
  const bool a_plain = a.across == 1 && (m == 1 || a.down >= k),
             b_plain = b.across == 1 && (k == 1 || b.down >= n);
  runtime::blas::gemm<T>(a_plain ? Op::none : Op::transpose, b_plain ? Op::none : Op::transpose, m, n, k,
                         T(1), a.data, a_plain ? std::max(a.down, k) : std::max(a.across, m), b.data,
                         b_plain ? std::max(b.down, n) : std::max(b.across, k), T(add), c, c_down);
}

/// Elements of one type whose last dimension lies in one piece, as rows of a product must; expanded rows are
/// copied.
Tensor with_rows(const Tensor& t, DType type) {
  const Tensor c = as_dtype(t, type);
  const bool plain = c.size(-1) <= 1 || c.stride(-1) == 1;
  return plain && (c.size(-2) <= 1 || c.stride(-2) >= c.size(-1)) ? c : copy_of(c);
}
int64_t row_step(const Tensor& t) { return t.size(-2) > 1 ? t.stride(-2) : std::max<int64_t>(1, t.size(-1)); }

/// The factors of one row of weights, counted through all matrices, from a key on that begins a group.
template <class T>
AttentionDropout<T> dropout_of(const Options& options, int64_t keys, int64_t row, int64_t key) {
  if (options.dropout <= 0) return {};
  constexpr int64_t kWords = runtime::philox::group_words;
  AttentionDropout<T> d;
  d.factor = options.dropout < 1 ? static_cast<T>(1 / (1 - options.dropout)) : T(0);
  d.below = static_cast<uint64_t>(std::ceil(options.dropout * 4294967296.0));
  d.stream = {static_cast<uint64_t>(options.seed), static_cast<uint64_t>(options.position)};
  d.groups = static_cast<uint64_t>((keys + kWords - 1) / kWords);
  d.group = static_cast<uint64_t>(row) * d.groups + static_cast<uint64_t>(key / kWords);
  return d;
}

/// All that is the same for each matrix, and where the matrices of each tensor lie.
struct Problem {
  DType type;
  Tensor q, k, v, mask;
  Dims batch;
  int64_t count, queries, keys, width, values;
  Options options;
  int64_t mask_down = 0, mask_across = 0;

  template <class F>
  void each_tensor(const F& f) {
    for (Tensor* t : {&q, &k, &v, &mask}) f(*t);
  }
  Problem(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& m, const Options& o,
          const char* op)
      : options(o) {
    type = compute_dtype(query.dtype());
    if (!is_floating(query.dtype()) || key.dtype() != query.dtype() || value.dtype() != query.dtype())
      fail(op, "(): expected query, key and value of one floating-point type, but got ",
           name_of(query.dtype()), ", ", name_of(key.dtype()), " and ", name_of(value.dtype()));
    if (std::min({query.dim(), key.dim(), value.dim()}) < 2 || query.size(-1) != key.size(-1) ||
        key.size(-2) != value.size(-2))
      fail(op, "(): expected query (..., L, E), key (..., S, E) and value (..., S, Ev), but got shapes ",
           query.sizes(), ", ", key.sizes(), " and ", value.sizes());
    queries = query.size(-2);
    keys = key.size(-2);
    width = query.size(-1);
    values = value.size(-1);
    const auto leading = [](const Tensor& t) {
      return t.sizes().first(static_cast<size_t>(std::max<int64_t>(0, t.dim() - 2)));
    };
    batch = broadcast_shapes(broadcast_shapes(leading(query), leading(key), op).span(), leading(value), op);
    if (m.defined()) {
      const Dims scores = shape(queries, keys), all = broadcast_shapes(scores.span(), m.sizes(), op);
      if (all[all.size() - 2] != queries || all.back() != keys)
        fail(op, "(): output with shape ", to_string(scores.span()), " doesn't match the broadcast shape ",
             to_string(all.span()), " of the scores and the mask");
      batch = Dims(all.span().first(all.size() - 2));
      mask = m.dtype() == DType::Bool ? m : as_dtype(m, type);
      const auto step = [&](int64_t d) {
        return m.dim() >= -d && m.size(d) > 1 ? mask.stride(d) * mask.itemsize() : 0;
      };
      mask_down = step(-2);
      mask_across = step(-1);
    }
    count = product(batch.span());
    q = with_rows(query, type);
    k = with_rows(key, type);
    v = with_rows(value, type);
  }

  /// Where matrix number i of a tensor lies: its leading dimensions broadcast.
  int64_t at(const Tensor& t, int64_t i) const {
    int64_t at = 0;
    for (size_t d = batch.size(), e = static_cast<size_t>(std::max<int64_t>(0, t.dim() - 2));
         d-- > 0 && e-- > 0;) {
      if (t.sizes()[e] != 1) at += i % batch[d] * t.strides()[e];
      i /= batch[d];
    }
    return at;
  }
  Dims shape(int64_t rows, int64_t columns) const {
    Dims sizes = batch;
    sizes.push_back(rows);
    if (columns >= 0) sizes.push_back(columns);
    return sizes;
  }
  /// A result with these rows, lying like `like` where it can.
  Tensor make(const Tensor& like, int64_t rows, int64_t columns) const {
    const Dims sizes = shape(rows, columns);
    return same(like.sizes(), sizes.span()) ? empty_as(like, type) : empty(sizes.span(), type);
  }
  /// Keys that the queries before `end` see.
  int64_t seen(int64_t end) const { return options.causal ? std::min(keys, end) : keys; }
  /// So many tiles of equal size, of `most` at most.
  static int64_t parts(int64_t n, int64_t most) { return (n + most - 1) / most; }

  template <class T>
  ScoreTile<T> tile(T* scores, int64_t i, int64_t i0, int64_t i1, int64_t j0, int64_t j1) const {
    ScoreTile<T> t{scores,  i1 - i0, j1 - j0,   kStep,       static_cast<T>(options.scale),
                   nullptr, false,   mask_down, mask_across, options.causal ? i0 - j0 + 1 : j1 - j0,
                   {}};
    if (mask.defined()) {
      t.mask = mask.bytes() + at(mask, i) * mask.itemsize() + i0 * mask_down + j0 * mask_across;
      t.mask_is_bool = mask.dtype() == DType::Bool;
    }
    t.dropout = dropout_of<T>(options, keys, i * queries + i0, j0);
    return t;
  }
};

template <class T>
void copy_rows(int64_t rows, int64_t width, const T* from, int64_t step, T* to) {
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(to + r * width, from + r * step, static_cast<size_t>(width) * sizeof(T));
}

template <class T>
void forward_of(const Problem& p, const Tensor& out, const Tensor& log_sum) {
  const int64_t most = block_of(p.queries, p.options.causal), blocks = Problem::parts(p.queries, most),
                E = p.width, V = p.values;
  const int64_t q_step = row_step(p.q), k_step = row_step(p.k), v_step = row_step(p.v),
                out_step = row_step(out);
  const auto& table = best_variant<AttentionTable<T>>();
  const int64_t cost = p.queries / blocks * p.keys * (E + V + 8);
  runtime::parallel_for(
      0, p.count * blocks, std::max<int64_t>(1, (int64_t{1} << 19) / std::max<int64_t>(1, cost)),
      [&](int64_t first, int64_t last) {
        const runtime::Scratch<T> room(kQueries * (kStep + E + V + 2));
        T* const scores = room.get();
        T *const q = scores + kQueries * kStep, *const sums = q + kQueries * E,
                 *const max = sums + kQueries * V, *const sum = max + kQueries;
        for (int64_t t = first; t < last; ++t) {
          const int64_t i = t / blocks, i0 = t % blocks * most, i1 = std::min(p.queries, i0 + most),
                        rows = i1 - i0;
          copy_rows(rows, E, p.q.data<T>() + p.at(p.q, i) + i0 * q_step, q_step, q);
          const T *k = p.k.data<T>() + p.at(p.k, i), *v = p.v.data<T>() + p.at(p.v, i);
          std::fill_n(max, rows, -std::numeric_limits<T>::infinity());
          std::fill_n(sum, rows, T(0));
          const int64_t seen = p.seen(i1);
          for (int64_t j0 = 0; j0 < seen; j0 += kKeys) {
            const int64_t j1 = std::min(seen, j0 + kKeys), n = j1 - j0;
            multiply<T>(rows, n, E, {q, E, 1}, {k + j0 * k_step, 1, k_step}, false, scores, kStep);
            table.forward(p.tile(scores, i, i0, i1, j0, j1), max, sum, j0 ? sums : nullptr, V);
            multiply<T>(rows, V, n, {scores, kStep, 1}, {v + j0 * v_step, v_step, 1}, j0 > 0, sums, V);
          }
          T *y = out.data<T>() + p.at(out, i) + i0 * out_step, *l = log_sum.data<T>() + i * p.queries + i0;
          for (int64_t r = 0; r < rows; ++r, y += out_step) {
            const T factor = sum[r] == 0 ? T(0) : 1 / sum[r];
            if (sum[r] == 0)
              std::fill_n(y, V, T(0));
            else
              for (int64_t c = 0; c < V; ++c) y[c] = sums[r * V + c] * factor;
            l[r] = sum[r] == 0 ? -std::numeric_limits<T>::infinity() : max[r] + std::log(sum[r]);
          }
        }
      });
}

/// These gradients are functions of the result, too.
bool needs_result(Wanted w) { return w.query || w.key || w.mask; }

/// What backward works on beside the problem; borrowed.
struct Cotangents {
  const Tensor &g, &means;  // of the result; and per query the mean that softmax takes off
  const Tensor &q, &k, &v, &mask;
  Wanted wanted;
};

template <class T>
void find_means(const Problem& p, const Tensor& g, const Tensor& g_log_sum, const Tensor& result,
                const Tensor& means) {
  const int64_t g_step = row_step(g), y_step = row_step(result), V = p.values;
  runtime::parallel_for(0, p.count, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, p.queries * V)),
                        [&](int64_t first, int64_t last) {
                          for (int64_t i = first; i < last; ++i) {
                            const T *x = g.data<T>() + p.at(g, i), *y = result.data<T>() + p.at(result, i);
                            T* m = means.data<T>() + i * p.queries;
                            for (int64_t r = 0; r < p.queries; ++r, x += g_step, y += y_step) {
                              T sum = g_log_sum.defined() ? -g_log_sum.data<T>()[i * p.queries + r] : T(0);
                              for (int64_t c = 0; c < V; ++c) sum += x[c] * y[c];
                              m[r] = sum;
                            }
                          }
                        });
}

/// The keys j0 to j1 of matrix i, with all queries; the cotangent of q goes to `of_q`, which is dense.
template <class T>
void backward_keys(const Problem& p, const Cotangents& c, const T* log_sums, int64_t i, int64_t j0,
                   int64_t j1, T* of_q, int64_t of_q_step, T* of_mask, T* room) {
  const int64_t E = p.width, V = p.values, n = j1 - j0, most = block_of(p.queries, p.options.causal),
                blocks = Problem::parts(p.queries, most);
  const int64_t q_step = row_step(p.q), k_step = row_step(p.k), v_step = row_step(p.v),
                g_step = row_step(c.g);
  T* const scores = room;
  T *const d = scores + kQueries * kStep, *const q = d + kQueries * kStep, *const g = q + kQueries * E,
           *const of_k = g + kQueries * V, *const of_v = of_k + kKeys * E;
  const T *k = p.k.data<T>() + p.at(p.k, i) + j0 * k_step, *v = p.v.data<T>() + p.at(p.v, i) + j0 * v_step;
  bool started = false;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t i0 = b * most, i1 = std::min(p.queries, i0 + most), rows = i1 - i0;
    const int64_t m = p.options.causal ? std::min(n, i1 - j0) : n;  // keys that one of these queries sees
    if (m <= 0) continue;
    copy_rows(rows, E, p.q.data<T>() + p.at(p.q, i) + i0 * q_step, q_step, q);
    copy_rows(rows, V, c.g.data<T>() + p.at(c.g, i) + i0 * g_step, g_step, g);
    multiply<T>(rows, m, E, {q, E, 1}, {k, 1, k_step}, false, scores, kStep);
    multiply<T>(rows, m, V, {g, V, 1}, {v, 1, v_step}, false, d, kStep);
    // A key that the first of these queries does not see has not been met yet.
    if (m < n && !started) {
      std::fill_n(of_k, n * E, T(0));
      std::fill_n(of_v, n * V, T(0));
      started = true;
    }
    best_variant<AttentionTable<T>>().backward(p.tile(scores, i, i0, i1, j0, j0 + m), d, log_sums + i0,
                                               c.means.data<T>() + i * p.queries + i0,
                                               of_mask ? of_mask + i0 * p.keys + j0 : nullptr, p.keys);
    if (c.wanted.value) multiply<T>(m, V, rows, {scores, 1, kStep}, {g, V, 1}, started, of_v, V);
    if (c.wanted.key) multiply<T>(m, E, rows, {d, 1, kStep}, {q, E, 1}, started, of_k, E);
    if (c.wanted.query)
      multiply<T>(rows, E, m, {d, kStep, 1}, {k, k_step, 1}, true, of_q + i0 * of_q_step, of_q_step);
    started = true;
  }
  const auto write = [&](const Tensor& to, const T* from, int64_t columns) {
    T* at = to.data<T>() + p.at(to, i) + j0 * row_step(to);
    for (int64_t r = 0; r < n; ++r, at += row_step(to)) {
      if (started)
        std::memcpy(at, from + r * columns, static_cast<size_t>(columns) * sizeof(T));
      else
        std::fill_n(at, columns, T(0));
    }
  };
  if (c.wanted.key) write(c.k, of_k, E);
  if (c.wanted.value) write(c.v, of_v, V);
}

template <class T>
void backward_of(const Problem& p, const Cotangents& c, const Tensor& log_sum) {
  // Matrices whose masks are one go one after the other where their cotangents are added up; few matrices go
  // in chunks of keys, and each of these has a cotangent of q for itself.
  const int64_t masks =
      c.wanted.mask ? product(c.mask.sizes().first(static_cast<size_t>(c.mask.dim() - 2))) : p.count;
  const int64_t blocks = Problem::parts(p.keys, kKeys),
                chunks =
                    std::clamp<int64_t>(8 / std::max<int64_t>(1, masks), 1, std::max<int64_t>(1, blocks));
  std::vector<int64_t> of(static_cast<size_t>(p.count)), order;
  for (int64_t i = 0; i < p.count; ++i)
    of[static_cast<size_t>(i)] = c.wanted.mask ? p.at(c.mask, i) / (p.queries * p.keys) : i;
  Tensor parts;
  if (chunks > 1 && c.wanted.query) {
    const int64_t sizes[] = {chunks, p.count, p.queries, p.width};
    parts = zeros(sizes, p.type);
  }
  const int64_t cost = p.queries * p.keys * (p.width + p.values + 8) / chunks;
  runtime::parallel_for(
      0, masks * chunks, std::max<int64_t>(1, (int64_t{1} << 18) / std::max<int64_t>(1, cost)),
      [&](int64_t first, int64_t last) {
        const runtime::Scratch<T> room(kQueries * (2 * kStep + p.width + p.values) +
                                       kKeys * (p.width + p.values));
        for (int64_t t = first; t < last; ++t) {
          const int64_t group = t / chunks, chunk = t % chunks;
          for (int64_t i = c.wanted.mask ? 0 : group; i < (c.wanted.mask ? p.count : group + 1); ++i) {
            if (of[static_cast<size_t>(i)] != group) continue;
            T* of_q = nullptr;
            int64_t step = p.width;
            if (parts.defined())
              of_q = parts.data<T>() + (chunk * p.count + i) * p.queries * p.width;
            else if (c.wanted.query)
              of_q = c.q.data<T>() + p.at(c.q, i), step = row_step(c.q);
            T* of_mask = c.wanted.mask ? c.mask.data<T>() + group * p.queries * p.keys : nullptr;
            for (int64_t b = blocks * chunk / chunks; b < blocks * (chunk + 1) / chunks; ++b)
              backward_keys<T>(p, c, log_sum.data<T>() + i * p.queries, i, b * kKeys,
                               std::min(p.keys, (b + 1) * kKeys), of_q, step, of_mask, room.get());
          }
        }
      });
  if (!parts.defined()) return;
  const int64_t n = p.queries * p.width;
  runtime::parallel_for(0, p.count, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, n)),
                        [&](int64_t first, int64_t last) {
                          for (int64_t i = first; i < last; ++i)
                            for (int64_t r = 0; r < p.queries; ++r) {
                              T* to = c.q.data<T>() + p.at(c.q, i) + r * row_step(c.q);
                              for (int64_t chunk = 0; chunk < chunks; ++chunk) {
                                const T* from = parts.data<T>() + (chunk * p.count + i) * n + r * p.width;
                                for (int64_t e = 0; e < p.width; ++e)
                                  to[e] = chunk ? to[e] + from[e] : from[e];
                              }
                            }
                        });
}

void backward_all(const Tensor& means, const Tensor& of_q, const Tensor& of_k, const Tensor& of_v,
                  const Tensor& of_mask, const Problem& p, const Tensor& g, const Tensor& g_log_sum,
                  const Tensor& result, const Tensor& log_sum, Wanted wanted) {
  const Cotangents c{g, means, of_q, of_k, of_v, of_mask, wanted};
  const auto run = [&]<class T>(T*) {
    if (needs_result(wanted)) find_means<T>(p, g, g_log_sum, result, means);
    backward_of<T>(p, c, log_sum);
  };
  p.type == DType::Float64 ? run(static_cast<double*>(nullptr)) : run(static_cast<float*>(nullptr));
}

void forward_all(const Tensor& out, const Tensor& log_sum, const Problem& p) {
  p.type == DType::Float64 ? forward_of<double>(p, out, log_sum) : forward_of<float>(p, out, log_sum);
}

}  // namespace

std::tuple<Tensor, Tensor> forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                                   const Options& options, const char* op) {
  const Problem p(q, k, v, mask, options, op);
  const Tensor out = p.make(p.q, p.queries, p.values), log_sum = empty(p.shape(p.queries, -1).span(), p.type);
  if (log_sum.numel()) on<&forward_all>(Out(out), Out(log_sum), p);
  return {as_dtype(out, q.dtype()), log_sum};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward(const Tensor& g, const Tensor& g_log_sum, const Tensor& q,
                                                    const Tensor& k, const Tensor& v, const Tensor& mask,
                                                    const Tensor& result, const Tensor& log_sum,
                                                    const Options& options, Wanted wanted, const char* op) {
  const Problem p(q, k, v, mask, options, op);
  const Dims sums = p.shape(p.queries, p.values), rows = p.shape(p.queries, -1);
  const auto need = [&](const Tensor& t, const Dims& sizes, const char* what) {
    if (t.defined()) need_shape(t, sizes.span(), what, op);
  };
  need(g, sums, "a gradient");
  need(result, sums, "a result");
  need(log_sum, rows, "sums");
  need(g_log_sum, rows, "gradients of sums");
  if (wanted.mask && (!mask.defined() || !is_floating(mask.dtype())))
    fail(op, "(): a mask that is no term has no gradient");
  if (needs_result(wanted) && !result.defined()) fail(op, "(): these gradients need the result");
  const Tensor means = zeros(rows.span(), p.type);
  Tensor of_q, of_k, of_v, of_mask;
  if (wanted.query) copy_into(of_q = p.make(p.q, p.queries, p.width), scalar_tensor(Scalar(0), p.type));
  if (wanted.key) of_k = p.make(p.k, p.keys, p.width);
  if (wanted.value) of_v = p.make(p.v, p.keys, p.values);
  if (wanted.mask) {
    Dims sizes(mask.sizes().first(static_cast<size_t>(std::max<int64_t>(0, mask.dim() - 2))));
    sizes.push_back(p.queries);
    sizes.push_back(p.keys);
    of_mask = zeros(sizes.span(), p.type);
  }
  if (p.count && p.keys)
    on<&backward_all>(Out(means), Out(of_q), Out(of_k), Out(of_v), Out(of_mask), p, with_rows(g, p.type),
                      g_log_sum.defined() ? dense_as(g_log_sum, p.type) : g_log_sum,
                      result.defined() ? with_rows(result, p.type) : result, dense_as(log_sum, p.type),
                      Wanted{wanted.query, wanted.key, wanted.value, wanted.mask && p.queries});
  const auto back = [&](const Tensor& t) { return t.defined() ? as_dtype(t, q.dtype()) : t; };
  return {back(of_q), back(of_k), back(of_v), of_mask.defined() ? as_dtype(of_mask, mask.dtype()) : of_mask};
}

static void write_factors(const Tensor& out, const Options& options) {
  const DType type = out.dtype();
  const int64_t keys = out.size(-1), rows = keys ? out.numel() / keys : 0;
  const auto run = [&]<class T>(T*) {
    for (int64_t r = 0; r < rows; ++r)
      best_variant<AttentionTable<T>>().factors(dropout_of<T>(options, keys, r, 0), keys,
                                                out.data<T>() + r * keys);
  };
  if (type == DType::Float64)
    run(static_cast<double*>(nullptr));
  else
    run(static_cast<float*>(nullptr));
}

Tensor factors(const Tensor& weights, const Options& options) {
  const DType type = weights.dtype();
  if (type != DType::Float32 && type != DType::Float64) refuse_dtype(type, "_attention_factors");
  const Tensor out = empty(weights.sizes(), type);
  on<&write_factors>(Out(out), options);
  return out;
}

}  // namespace adjoint::kernels::attention
