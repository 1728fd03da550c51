// Orthogonal factors of small matrices for one instruction set, a matrix per lane (small_lanes.h): QR by
// reflections, and singular values by rotations that make columns orthogonal, pair by pair, until none is
// left to turn (M. Hestenes, Inversion of matrices by biorthogonalization, 1958; J. Demmel and K. Veselić,
// Jacobi's method is more accurate than QR, 1992). Start reading at `qr`, then `svd`.
#include "for_loops.h"
#include "kernels/cpu/small/small_lanes.h"
#include "kernels/cpu/variants.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

template <class T>
constexpr int64_t kParts = VectorOf<T>::kBytes / sizeof(T);

/// C columns of `count` vectors become (1 - factor v vᵀ) times what they are; columns lie `next` apart.
template <class T, int C>
ADJOINT_INLINE void reflect(int64_t count, const T* v, const T* factor, T* x, int64_t next) {
  using Vector = typename VectorOf<T>::type;
  constexpr int64_t L = kL<T>;
  for (int64_t part = 0; part < L; part += kParts<T>, v += kParts<T>, x += kParts<T>, factor += kParts<T>) {
    Vector sum[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sum[c] = Vector{};
    for (int64_t i = 0; i < count; ++i)
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) sum[c] += vector_at(v + i * L) * vector_at(x + i * L + c * next);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sum[c] *= vector_at(factor);
    for (int64_t i = 0; i < count; ++i)
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) vector_at(x + i * L + c * next) -= vector_at(v + i * L) * sum[c];
  }
}
/// The same of `columns` of them.
template <class T>
void reflect_all(int64_t count, int64_t columns, const T* v, const T* factor, T* x, int64_t next) {
  int64_t c = 0;
  for (; c + 4 <= columns; c += 4) reflect<T, 4>(count, v, factor, x + c * next, next);
  for (; c < columns; ++c) reflect<T, 1>(count, v, factor, x + c * next, next);
}

/// Q of m rows and `wide` columns, R of `wide` rows. Signs are LAPACK's.
template <class T>
void qr(int64_t count, int64_t m, int64_t n, int64_t wide, Batch<const T> from, Batch<T> q, Batch<T> r,
        T* room) {
  constexpr int64_t L = kL<T>;
  const int64_t least = m < n ? m : n;
  T *a = room, *y = a + m * n * L, *v = y + m * wide * L, *factors = v + m * least * L;
  for (int64_t first = 0; first < count; first += L) {
    const int64_t some = count - first < L ? count - first : L;
    load(some, m, n, from_matrix(from, first), a);
    for (int64_t k = 0; k < least; ++k) {
      const int64_t rows = m - k;
      T *x = a + (k * m + k) * L, *reflector = v + (k * m + k) * L, *factor = factors + k * L;
      // In units of the largest element, so that squares are in range.
      Lane<T> size, rest;
      ADJOINT_LANES size[l] = rest[l] = 0;
      for (int64_t i = 0; i < rows; ++i)
        ADJOINT_LANES size[l] = absolute(x[i * L + l]) > size[l] ? absolute(x[i * L + l]) : size[l];
      ADJOINT_LANES size[l] = size[l] == 0 ? T(1) : size[l];
      for (int64_t i = 0; i < rows; ++i) ADJOINT_LANES reflector[i * L + l] = x[i * L + l] / size[l];
      for (int64_t i = 1; i < rows; ++i) ADJOINT_LANES rest[l] += reflector[i * L + l] * reflector[i * L + l];
      ADJOINT_LANES {
        const T head = reflector[l], norm = math::sqrt(head * head + rest[l]), to = head < 0 ? norm : -norm;
        const bool nothing = rest[l] == 0;
        reflector[l] = nothing ? T(0) : head - to;
        // 2 / vᵀv
        factor[l] = nothing ? T(0) : T(1) / (to * (to - head));
        x[l] = nothing ? x[l] : to * size[l];
      }
      for (int64_t i = 1; i < rows; ++i) ADJOINT_LANES {
          reflector[i * L + l] = rest[l] == 0 ? T(0) : reflector[i * L + l];
          x[i * L + l] = 0;
        }
      reflect_all(rows, n - k - 1, reflector, factor, x + m * L, m * L);
    }
    const Batch<T> to = from_matrix(r, first);
    for (int64_t j = 0; j < n; ++j)
      store(some, wide, int64_t{1}, a + j * m * L, {to.data + j * to.across, to.down, to.across, to.step});
    for (int64_t i = 0; i < m * wide * L; ++i) y[i] = 0;
    for (int64_t k = 0; k < wide; ++k) ADJOINT_LANES y[(k * m + k) * L + l] = 1;
    // Columns left of a reflection's have zeros where it reaches.
    for (int64_t k = least - 1; k >= 0; --k)
      reflect_all(m - k, wide - k, v + (k * m + k) * L, factors + k * L, y + (k * m + k) * L, m * L);
    store(some, m, wide, y, from_matrix(q, first));
  }
}

/// x, y become c x - s y, s x + c y, over `count` vectors.
template <class T>
ADJOINT_INLINE void rotate(int64_t count, const Lane<T>& cosine, const Lane<T>& sine, T* x, T* y) {
  using Vector = typename VectorOf<T>::type;
  for (int64_t part = 0; part < kL<T>; part += kParts<T>) {
    const Vector c = vector_at(cosine.at + part), s = vector_at(sine.at + part);
    T *p = x + part, *q = y + part;
    for (int64_t i = 0; i < count; ++i, p += kL<T>, q += kL<T>) {
      const Vector a = vector_at(p), b = vector_at(q);
      vector_at(p) = c * a - s * b;
      vector_at(q) = s * a + c * b;
    }
  }
}

/// The products xᵀx, xᵀy and yᵀy.
template <class T>
ADJOINT_INLINE void inner_products(int64_t count, const T* x, const T* y, Lane<T>& xx, Lane<T>& xy,
                                   Lane<T>& yy) {
  using Vector = typename VectorOf<T>::type;
  for (int64_t part = 0; part < kL<T>; part += kParts<T>) {
    Vector a{}, b{}, c{};
    const T *p = x + part, *q = y + part;
    for (int64_t i = 0; i < count; ++i, p += kL<T>, q += kL<T>) {
      a += vector_at(p) * vector_at(p);
      b += vector_at(p) * vector_at(q);
      c += vector_at(q) * vector_at(q);
    }
    vector_at(xx.at + part) = a;
    vector_at(xy.at + part) = b;
    vector_at(yy.at + part) = c;
  }
}

/// Turns the columns of a (m x n, m >= n), and those of v alike, until they are orthogonal; false if they do
/// not become so.
template <class T>
bool orthogonalise(int64_t m, int64_t n, T* a, T* v) {
  constexpr int64_t L = kL<T>;
  const T tolerance =
      math::sqrt(static_cast<T>(m + 3)) * (sizeof(T) == 4 ? T(1.1920929e-7) : T(2.220446049250313e-16));
  for (int sweep = 0; sweep < 40; ++sweep) {
    bool turned = false;
    for (int64_t p = 0; p + 1 < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        T *x = a + p * m * L, *y = a + q * m * L;
        Lane<T> xx, xy, yy, c, s;
        inner_products(m, x, y, xx, xy, yy);
        int any = 0;
        ADJOINT_LANES {
          const bool turns = absolute(xy[l]) > tolerance * (math::sqrt(xx[l]) * math::sqrt(yy[l]));
          const T ratio = (yy[l] - xx[l]) / (turns ? 2 * xy[l] : T(1)), size = absolute(ratio);
          const T tangent = (ratio < 0 ? T(-1) : T(1)) / (size + math::sqrt(1 + ratio * ratio));
          const T cosine = 1 / math::sqrt(1 + tangent * tangent);
          c[l] = turns ? cosine : T(1);
          s[l] = turns ? tangent * cosine : T(0);
          any |= turns ? 1 : 0;
        }
        if (!any) continue;
        turned = true;
        rotate(m, c, s, x, y);
        if (v) rotate(n, c, s, v + p * n * L, v + q * n * L);
      }
    if (!turned) return true;
  }
  return false;
}

/// Singular values of m x n matrices, m >= n, descending, with left and right vectors where these have data.
/// What has an info (no convergence, not finite, or a value too small for its left vector) is not written.
template <class T>
void svd(int64_t count, int64_t m, int64_t n, Batch<const T> from, Batch<T> left, Batch<T> right, T* values,
         int* info, T* room) {
  constexpr int64_t L = kL<T>;
  constexpr T kNothing = sizeof(T) == 4 ? T(1e-15) : T(1e-150);  // whose square is far from out of range
  const bool vectors = left.data != nullptr;
  T *a = room, *v = a + m * n * L, *found = v + n * n * L;
  for (int64_t first = 0; first < count; first += L) {
    const int64_t some = count - first < L ? count - first : L;
    load(some, m, n, from_matrix(from, first), a);
    Lane<T> size, bad;
    ADJOINT_LANES size[l] = bad[l] = 0;
    for (int64_t i = 0; i < m * n; ++i) ADJOINT_LANES {
        const T x = absolute(a[i * L + l]);
        size[l] = x > size[l] ? x : size[l];
        bad[l] += x * 0;  // NaN where x is not finite
      }
    ADJOINT_LANES size[l] = size[l] == 0 ? T(1) : size[l];
    for (int64_t i = 0; i < m * n; ++i)
      ADJOINT_LANES a[i * L + l] = bad[l] == 0 ? a[i * L + l] / size[l] : T(0);
    for (int64_t i = 0; vectors && i < n * n; ++i)
      ADJOINT_LANES v[i * L + l] = i % (n + 1) == 0 ? T(1) : T(0);
    const bool done = orthogonalise(m, n, a, vectors ? v : nullptr);
    for (int64_t k = 0; k < n; ++k) {
      Lane<T> sum;
      ADJOINT_LANES sum[l] = 0;
      for (int64_t i = 0; i < m; ++i) ADJOINT_LANES sum[l] += a[(k * m + i) * L + l] * a[(k * m + i) * L + l];
      ADJOINT_LANES found[k * L + l] = math::sqrt(sum[l]);
    }
    for (int64_t l = 0; l < some; ++l) {
      int64_t order[kSmallMatrix];
      bool lost = !done || bad[l] != 0;
      for (int64_t k = 0; k < n; ++k) {
        const T value = found[k * L + l];
        lost |= vectors && !(value > kNothing);
        int64_t at = k;
        for (; at > 0 && found[order[at - 1] * L + l] < value; --at) order[at] = order[at - 1];
        order[at] = k;
      }
      info[first + l] = lost;
      if (lost) continue;
      for (int64_t k = 0; k < n; ++k) {
        const T value = found[order[k] * L + l];
        values[(first + l) * n + k] = value * size[l];
        if (!vectors) continue;
        const T *x = a + order[k] * m * L + l, *y = v + order[k] * n * L + l;
        T *to_left = left.data + (first + l) * left.step + k * left.across,
          *to_right = right.data + (first + l) * right.step + k * right.across;
        for (int64_t i = 0; i < m; ++i) to_left[i * left.down] = x[i * L] / value;
        for (int64_t i = 0; i < n; ++i) to_right[i * right.down] = y[i * L];
      }
    }
  }
}

template <class T>
constexpr SmallOrthogonalTable<T> table{&qr<T>, &svd<T>};

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<SmallOrthogonalTable<float>>, ADJOINT_LEVEL,
                                                   &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<SmallOrthogonalTable<double>>, ADJOINT_LEVEL,
                                                    &table<double>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
