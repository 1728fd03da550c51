// Eigenvalues of small symmetric matrices for one instruction set: reflections to tridiagonal form, then
// implicit QL steps, for as many matrices as there are lanes (small_lanes.h) in lock step: a lane that is
// done, or whose block ends further up, turns by the identity. Source: H. Bowdler, R. Martin, C. Reinsch and
// J. Wilkinson, The QR and QL algorithms for symmetric matrices (1968). Start reading at `eigh`, at the end.
#include "for_loops.h"
#include "kernels/cpu/small/small_lanes.h"
#include "kernels/cpu/variants.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

/// Symmetric matrices become tridiagonal: d on the diagonal, e beside it. With `vectors` a becomes the
/// product of the reflections.
template <class T>
void tridiagonal(int64_t n, T* a, T* d, T* e, T* v, T* w, bool vectors) {
  constexpr int64_t L = kL<T>;
  T* factor = e + kSmallMatrix * L;  // 2 / vᵀv of each reflection
  for (int64_t k = 0; k + 2 < n; ++k) {
    T* column = a + k * n * L;
    const int64_t m = n - k - 1;
    T* x = column + (k + 1) * L;  // of m elements; becomes v
    Lane<T> rest, inner, half;
    ADJOINT_LANES rest[l] = 0;
    for (int64_t i = 1; i < m; ++i) ADJOINT_LANES rest[l] += x[i * L + l] * x[i * L + l];
    // Squares that may have lost digits: far below what the largest element's rounding errors are.
    constexpr T kNothing = sizeof(T) == 4 ? T(1e-30) : T(1e-290);
    ADJOINT_LANES rest[l] = rest[l] < kNothing ? T(0) : rest[l];
    ADJOINT_LANES {
      const T head = x[l], norm = math::sqrt(head * head + rest[l]);
      // Nothing to reflect: v is zero.
      const T to = rest[l] == 0 ? head : head > 0 ? -norm : norm;
      e[k * L + l] = to;
      const T first = rest[l] == 0 ? T(0) : head - to;
      x[l] = first;
      factor[k * L + l] = rest[l] == 0 ? T(0) : 2 / (first * first + rest[l]);
    }
    for (int64_t i = 1; i < m; ++i) ADJOINT_LANES x[i * L + l] = rest[l] == 0 ? T(0) : x[i * L + l];
    // p = factor A v; w = p - (factor / 2 pᵀv) v; A -= v wᵀ + w vᵀ, by the lower triangle.
    for (int64_t i = 0; i < m; ++i) ADJOINT_LANES w[i * L + l] = 0;
    for (int64_t j = 0; j < m; ++j) {
      const T* c = a + ((k + 1 + j) * n + k + 1) * L;
      Lane<T> sum;
      ADJOINT_LANES sum[l] = c[j * L + l] * x[j * L + l];
      for (int64_t i = j + 1; i < m; ++i) ADJOINT_LANES {
          sum[l] += c[i * L + l] * x[i * L + l];
          w[i * L + l] += c[i * L + l] * x[j * L + l];
        }
      ADJOINT_LANES w[j * L + l] += sum[l];
    }
    ADJOINT_LANES inner[l] = 0;
    for (int64_t i = 0; i < m; ++i) ADJOINT_LANES {
        w[i * L + l] *= factor[k * L + l];
        inner[l] += w[i * L + l] * x[i * L + l];
      }
    ADJOINT_LANES half[l] = inner[l] * factor[k * L + l] * T(0.5);
    for (int64_t i = 0; i < m; ++i) ADJOINT_LANES w[i * L + l] -= half[l] * x[i * L + l];
    for (int64_t j = 0; j < m; ++j) {
      T* c = a + ((k + 1 + j) * n + k + 1) * L;
      for (int64_t i = j; i < m; ++i)
        ADJOINT_LANES c[i * L + l] -= x[i * L + l] * w[j * L + l] + w[i * L + l] * x[j * L + l];
    }
  }
  for (int64_t k = 0; k < n; ++k) ADJOINT_LANES d[k * L + l] = a[k * (n + 1) * L + l];
  if (n > 1) ADJOINT_LANES e[(n - 2) * L + l] = a[((n - 2) * n + n - 1) * L + l];
  ADJOINT_LANES e[(n - 1) * L + l] = 0;
  if (!vectors) return;
  // The product from the last reflection to the first, each on the part that it reaches; v is taken out of
  // the column that it fills.
  for (int64_t k = n - 1; k >= 0; --k) {
    const int64_t m = n - k - 1;
    if (k + 2 < n) {
      for (int64_t i = 0; i < m; ++i) ADJOINT_LANES v[i * L + l] = a[(k * n + k + 1 + i) * L + l];
      for (int64_t j = 0; j < m; ++j) {
        T* c = a + ((k + 1 + j) * n + k + 1) * L;
        Lane<T> sum;
        ADJOINT_LANES sum[l] = 0;
        for (int64_t i = 0; i < m; ++i) ADJOINT_LANES sum[l] += v[i * L + l] * c[i * L + l];
        ADJOINT_LANES sum[l] *= factor[k * L + l];
        subtract(m, v, sum.at, c);
      }
    }
    for (int64_t i = k; i < n; ++i) ADJOINT_LANES {
        a[(k * n + i) * L + l] = T(i == k);
        a[(i * n + k) * L + l] = T(i == k);
      }
  }
}

/// The eigenvalues of tridiagonal matrices, by implicit QL steps; a is turned along. False for lanes that do
/// not converge.
template <class T>
void ql(int64_t n, T* a, T* d, T* e, bool vectors, bool* done) {
  constexpr int64_t L = kL<T>;
  constexpr T kEpsilon = sizeof(T) == 4 ? T(1.1920929e-7) : T(2.220446049250313e-16);
  constexpr int kMost = 60;
  Lane<T> small, shift;
  ADJOINT_LANES small[l] = shift[l] = 0;
  for (int64_t k = 0; k < n; ++k) ADJOINT_LANES {
      const T size = absolute(d[k * L + l]) + absolute(e[k * L + l]);
      small[l] = size > small[l] ? size : small[l];
    }
  ADJOINT_LANES small[l] *= kEpsilon;
  for (int64_t l = 0; l < L; ++l) done[l] = true;
  for (int64_t k = 0; k < n; ++k) {
    for (int step = 0;; ++step) {
      // The block of each lane ends at the first e that is small; it is done if that is this one.
      Lane<T> end, p;
      int64_t last = k;
      for (int64_t l = 0; l < L; ++l) {
        int64_t m = k;
        while (m < n - 1 && absolute(e[m * L + l]) > small[l]) ++m;
        end[l] = static_cast<T>(m);
        p[l] = d[m * L + l];
        last = m > last ? m : last;
        if (step == kMost && m > k) done[l] = false;
      }
      if (last == k || step == kMost) break;
      const T here = static_cast<T>(k);
      Lane<T> s, s2, c, c2, c3, next, first, less;
      ADJOINT_LANES {
        const bool active = end[l] > here;
        const T beside = e[k * L + l], g = d[k * L + l];
        const T ratio = active ? (d[(k + 1) * L + l] - g) / (2 * beside) : T(0);
        const T root = math::sqrt(ratio * ratio + 1), r = ratio < 0 ? ratio - root : ratio + root;
        const T top = active ? beside / r : g, under = active ? beside * r : d[(k + 1) * L + l];
        d[k * L + l] = top;
        d[(k + 1) * L + l] = under;
        first[l] = under;
        next[l] = e[(k + 1) * L + l];
        const T h = active ? g - top : T(0);
        shift[l] += h;
        p[l] = end[l] == here + 1 ? under : p[l] - h;
        s[l] = s2[l] = 0;
        c[l] = c2[l] = c3[l] = 1;
        less[l] = h;
      }
      for (int64_t i = k + 2; i < n; ++i) ADJOINT_LANES d[i * L + l] -= less[l];
      for (int64_t i = last - 1; i >= k; --i) {
        const T number = static_cast<T>(i);
        Lane<T> turn_c, turn_s;
        ADJOINT_LANES {
          const bool on = number < end[l];
          const T ei = e[i * L + l], di = d[i * L + l];
          const T g = c[l] * ei, h = c[l] * p[l], r = math::sqrt(p[l] * p[l] + ei * ei);
          const T new_s = ei / r, new_c = p[l] / r, q = new_c * di - new_s * g;
          e[(i + 1) * L + l] = on ? s[l] * r : e[(i + 1) * L + l];
          d[(i + 1) * L + l] = on ? h + new_s * (new_c * g + new_s * di) : d[(i + 1) * L + l];
          c3[l] = on ? c2[l] : c3[l];
          c2[l] = on ? c[l] : c2[l];
          s2[l] = on ? s[l] : s2[l];
          s[l] = on ? new_s : s[l];
          c[l] = on ? new_c : c[l];
          p[l] = on ? q : p[l];
          turn_c[l] = on ? new_c : T(1);
          turn_s[l] = on ? new_s : T(0);
        }
        if (!vectors) continue;
        T *x = a + i * n * L, *y = x + n * L;
        for (int64_t j = 0; j < n; ++j, x += L, y += L) ADJOINT_LANES {
            const T h = y[l];
            y[l] = turn_s[l] * x[l] + turn_c[l] * h;
            x[l] = turn_c[l] * x[l] - turn_s[l] * h;
          }
      }
      ADJOINT_LANES {
        const bool active = end[l] > here;
        const T q = -s[l] * s2[l] * c3[l] * next[l] * e[k * L + l] / (active ? first[l] : T(1));
        e[k * L + l] = active ? s[l] * q : e[k * L + l];
        d[k * L + l] = active ? c[l] * q : d[k * L + l];
      }
    }
    ADJOINT_LANES d[k * L + l] += shift[l];
  }
}

template <class T>
void eigh(int64_t count, int64_t n, Batch<const T> from, Batch<T> to, T* values, int* info, bool upper,
          bool vectors, T* room) {
  constexpr int64_t L = kL<T>;
  T *d = room + n * n * L, *e = d + kSmallMatrix * L, *v = e + 2 * kSmallMatrix * L,
    *w = v + kSmallMatrix * L;
  if (upper) {  // the lower triangle of the transpose
    const int64_t down = from.down;
    from.down = from.across;
    from.across = down;
  }
  for (int64_t first = 0; first < count; first += L) {
    const int64_t some = count - first < L ? count - first : L;
    load(some, n, n, from_matrix(from, first), room);
    Lane<T> size;
    ADJOINT_LANES size[l] = 0;
    bool finite[L], done[L];
    for (int64_t l = 0; l < L; ++l) finite[l] = true;
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = j; i < n; ++i) {
        const T* x = room + (j * n + i) * L;
        for (int64_t l = 0; l < L; ++l) finite[l] &= math::isfinite(x[l]);
        ADJOINT_LANES size[l] = absolute(x[l]) > size[l] ? absolute(x[l]) : size[l];
      }
    ADJOINT_LANES size[l] = size[l] == 0 ? T(1) : size[l];
    for (int64_t i = 0; i < n * n; ++i) ADJOINT_LANES room[i * L + l] /= size[l];
    tridiagonal(n, room, d, e, v, w, vectors);
    ql(n, room, d, e, vectors, done);
    for (int64_t l = 0; l < some; ++l) {
      info[first + l] = !finite[l] || !done[l];
      if (info[first + l]) continue;
      int64_t order[kSmallMatrix];
      for (int64_t k = 0; k < n; ++k) {
        int64_t at = k;
        for (; at > 0 && d[order[at - 1] * L + l] > d[k * L + l]; --at) order[at] = order[at - 1];
        order[at] = k;
      }
      for (int64_t k = 0; k < n; ++k) {
        values[(first + l) * n + k] = d[order[k] * L + l] * size[l];
        if (!vectors) continue;
        const T* x = room + order[k] * n * L + l;
        T* y = to.data + (first + l) * to.step + k * to.across;
        for (int64_t i = 0; i < n; ++i) y[i * to.down] = x[i * L];
      }
    }
  }
}

template <class T>
constexpr SmallEigenvalueTable<T> table{&eigh<T>};

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<SmallEigenvalueTable<float>>, ADJOINT_LEVEL,
                                                   &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<SmallEigenvalueTable<double>>, ADJOINT_LEVEL,
                                                    &table<double>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
