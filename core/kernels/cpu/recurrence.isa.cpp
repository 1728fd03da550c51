// The loops of recurrent layers for one instruction set.
//
// A step is a product of few rows with a matrix that is the same in all steps. So the matrix is packed once,
// and what it costs to read it from the second-level cache is shared by the rows of a tile. Gates are
// functions of whole rows, one after the other: few numbers, which stay in the first-level cache.
#include "kernels/cpu/recurrence.h"

#include "for_loops.h"
#include "kernels/cpu/math/math.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/vectors.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

#if ADJOINT_LEVEL >= 4
constexpr int kRows = 12;
#elif ADJOINT_LEVEL >= 3
constexpr int kRows = 6;
#else
constexpr int kRows = 4;
#endif
constexpr int kVectors = 2;

template <class T>
constexpr int kPanel = kWidth<T> * kVectors;

/// R rows times P panels, which lie `apart`.
template <class T, int R, int P>
ADJOINT_INLINE void tile(int64_t k, const T* a, int64_t a_down, const T* panel, int64_t apart, const T* start,
                         int64_t start_down, T* c, int64_t c_down) {
  constexpr int V = kVectors * P;
  Vector<T> sum[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v)
      sum[r][v] = start ? load(start + r * start_down + v * kWidth<T>) : Vector<T>{};
  for (int64_t i = 0; i < k; ++i, panel += kPanel<T>) {
    Vector<T> b[V];
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) b[v] = load(panel + v / kVectors * apart + v % kVectors * kWidth<T>);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vector<T> x = a[r * a_down + i] - Vector<T>{};
#pragma GCC unroll 16
      for (int v = 0; v < V; ++v) sum[r][v] += x * b[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) store(c + r * c_down + v * kWidth<T>, sum[r][v]);
}

template <class T>
void product(int64_t rows, int64_t n, int64_t k, const T* a, int64_t a_down, const T* panels, const T* start,
             int64_t start_down, T* c, int64_t c_down) {
  const int64_t apart = k * kPanel<T>;
  const auto rows_from = [=](int64_t r, int64_t j) { return start ? start + r * start_down + j : nullptr; };
  // Few rows have few sums: they take several panels at once, so that no sum waits for itself.
  int64_t first = 0;
  if (rows < kRows)
    for (; first + 4 * kPanel<T> <= n; first += 4 * kPanel<T>, panels += 4 * apart) {
      int64_t r = 0;
      for (; r + 2 <= rows; r += 2)
        tile<T, 2, 4>(k, a + r * a_down, a_down, panels, apart, rows_from(r, first), start_down,
                      c + r * c_down + first, c_down);
      for (; r < rows; ++r)
        tile<T, 1, 4>(k, a + r * a_down, a_down, panels, apart, rows_from(r, first), start_down,
                      c + r * c_down + first, c_down);
    }
  for (int64_t j = first; j < n; j += kPanel<T>, panels += apart) {
    const int64_t width = n - j < kPanel<T> ? n - j : kPanel<T>;
    int64_t r = 0;
    if (width == kPanel<T>) {
      for (; r + kRows <= rows; r += kRows)
        tile<T, kRows, 1>(k, a + r * a_down, a_down, panels, 0, rows_from(r, j), start_down,
                          c + r * c_down + j, c_down);
      for (; r + 4 <= rows; r += 4)
        tile<T, 4, 1>(k, a + r * a_down, a_down, panels, 0, rows_from(r, j), start_down, c + r * c_down + j,
                      c_down);
      for (; r < rows; ++r)
        tile<T, 1, 1>(k, a + r * a_down, a_down, panels, 0, rows_from(r, j), start_down, c + r * c_down + j,
                      c_down);
      continue;
    }
    for (; r < rows; ++r) {
      T part[kPanel<T>] = {};
      if (start)
        for (int64_t i = 0; i < width; ++i) part[i] = start[r * start_down + j + i];
      tile<T, 1, 1>(k, a + r * a_down, a_down, panels, 0, part, 0, part, 0);
      for (int64_t i = 0; i < width; ++i) c[r * c_down + j + i] = part[i];
    }
  }
}

template <class T>
ADJOINT_INLINE void sigmoid_of(int64_t n, T* p) {
  ADJOINT_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) p[j] = math::sigmoid(p[j]);
}
template <class T>
ADJOINT_INLINE void tanh_of(int64_t n, T* p) {
  ADJOINT_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) p[j] = math::tanh(p[j]);
}

template <class T>
void lstm(int64_t n, T* gates, const T* c_before, T* c, T* h) {
  T *i = gates, *f = gates + n, *g = gates + 2 * n, *o = gates + 3 * n;
  sigmoid_of(2 * n, i);
  tanh_of(n, g);
  sigmoid_of(n, o);
  ADJOINT_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    c[j] = f[j] * c_before[j] + i[j] * g[j];
    h[j] = o[j] * math::tanh(c[j]);
  }
}

template <class T>
void lstm_back(int64_t n, const T* gates, const T* c_before, const T* c, const T* g, const T* g_c,
               const T* dh, T* dc, T* dx) {
  const T *i = gates, *f = gates + n, *u = gates + 2 * n, *o = gates + 3 * n;
  T *di = dx, *df = dx + n, *du = dx + 2 * n, *d_o = dx + 3 * n;
  const T* upper = dh;
  if (g) {  // di is free until then
    ADJOINT_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) di[j] = dh[j] + g[j];
    upper = di;
  }
  if (g_c) ADJOINT_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) dc[j] += g_c[j];
  ADJOINT_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    const T t = math::tanh(c[j]), d = upper[j], e = dc[j] + d * o[j] * (T(1) - t * t);
    d_o[j] = d * t * o[j] * (T(1) - o[j]);
    df[j] = e * c_before[j] * f[j] * (T(1) - f[j]);
    du[j] = e * i[j] * (T(1) - u[j] * u[j]);
    di[j] = e * u[j] * i[j] * (T(1) - i[j]);
    dc[j] = e * f[j];
  }
}

template <class T>
void gru(int64_t n, const T* x, const T* hidden, const T* h_before, T* kept, T* h) {
  T *r = kept, *u = kept + 2 * n, *p = kept + 3 * n;
  const T* z = kept + n;
  ADJOINT_INDEPENDENT
  for (int64_t j = 0; j < 2 * n; ++j) r[j] = math::sigmoid(x[j] + hidden[j]);
  ADJOINT_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    p[j] = hidden[2 * n + j];
    u[j] = math::tanh(x[2 * n + j] + r[j] * p[j]);
    h[j] = u[j] + z[j] * (h_before[j] - u[j]);
  }
}

template <class T>
void gru_back(int64_t n, const T* kept, const T* h_before, const T* g, T* dh, T* dx, T* dp) {
  const T *r = kept, *z = kept + n, *u = kept + 2 * n, *p = kept + 3 * n;
  if (g) ADJOINT_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) dh[j] += g[j];
  ADJOINT_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    const T d = dh[j], du = d * (T(1) - z[j]) * (T(1) - u[j] * u[j]);
    const T dr = du * p[j] * r[j] * (T(1) - r[j]), dz = d * (h_before[j] - u[j]) * z[j] * (T(1) - z[j]);
    dx[j] = dp[j] = dr;
    dx[n + j] = dp[n + j] = dz;
    dx[2 * n + j] = du;
    dp[2 * n + j] = du * r[j];
    dh[j] = d * z[j];
  }
}

template <class T>
void elman(int64_t n, bool relu, T* h) {
  if (!relu) return tanh_of(n, h);
  ADJOINT_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) h[j] = h[j] < T(0) ? T(0) : h[j];
}

template <class T>
void elman_back(int64_t n, bool relu, const T* y, const T* g, const T* dh, T* dx) {
  for (int64_t j = 0; j < n; ++j) dx[j] = g ? dh[j] + g[j] : dh[j];
  if (relu) {
    ADJOINT_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) dx[j] = y[j] > T(0) ? dx[j] : T(0);
  } else {
    ADJOINT_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) dx[j] *= T(1) - y[j] * y[j];
  }
}

template <class T>
constexpr RecurrenceTable<T> table{kPanel<T>, &product<T>,   &lstm<T>,     &gru<T>,
                                   &elman<T>, &lstm_back<T>, &gru_back<T>, &elman_back<T>};

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<RecurrenceTable<float>>, ADJOINT_LEVEL,
                                                   &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<RecurrenceTable<double>>, ADJOINT_LEVEL,
                                                    &table<double>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
