// Rows of a product for one instruction set: as many columns at a time as registers hold, so that the result
// is written once.
#include "kernels/cpu/sparse.h"

#include "for_narrow.h"
#include "kernels/cpu/variants.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

// Vectors by name: the compiler would take entries side by side, and gather.
template <class T>
struct Vector {
  typedef T type __attribute__((vector_size(32)));
};
template <class T>
using vector_t = typename Vector<T>::type;

/// into += x * p[0 …]
template <class V, class X, class T>
inline void add_product(V& into, const X& x, const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  into += x * v;
}

/// As many vectors of a row, from column `at` on, of dense rows `down` apart.
template <class T, int vectors>
inline void columns_of_row(int64_t at, int64_t down, int64_t n, const int64_t* order, const T* values,
                           const int64_t* columns, const T* dense, T* out) {
  using V = vector_t<T>;
  constexpr int kLanes = sizeof(V) / sizeof(T);
  V sum[vectors] = {};
  for (int64_t e = 0; e < n; ++e) {
    const int64_t i = order ? order[e] : e;
    const T x = values[i];
    const T* from = dense + columns[i] * down + at;
#pragma GCC unroll 8
    for (int j = 0; j < vectors; ++j) add_product(sum[j], x, from + j * kLanes);
  }
#pragma GCC unroll 8
  for (int j = 0; j < vectors; ++j) __builtin_memcpy(out + at + j * kLanes, &sum[j], sizeof(V));
}

template <class T>
void row(int64_t width, int64_t n, const int64_t* order, const T* values, const int64_t* columns,
         const T* dense, T* out) {
  constexpr int64_t kLanes = sizeof(vector_t<T>) / sizeof(T);
  int64_t at = 0;
  for (; at + 8 * kLanes <= width; at += 8 * kLanes)
    columns_of_row<T, 8>(at, width, n, order, values, columns, dense, out);
  if (at + 4 * kLanes <= width)
    columns_of_row<T, 4>(at, width, n, order, values, columns, dense, out), at += 4 * kLanes;
  for (; at + kLanes <= width; at += kLanes)
    columns_of_row<T, 1>(at, width, n, order, values, columns, dense, out);
  for (; at < width; ++at) {
    T sum = 0;
    for (int64_t e = 0; e < n; ++e) {
      const int64_t i = order ? order[e] : e;
      sum += values[i] * dense[columns[i] * width + at];
    }
    out[at] = sum;
  }
}

template <class T>
T dot(int64_t width, const T* a, const T* b) {
  using V = vector_t<T>;
  constexpr int64_t kLanes = sizeof(V) / sizeof(T);
  V part[4] = {};
  T sum = 0;
  int64_t k = 0;
  for (; k + 4 * kLanes <= width; k += 4 * kLanes)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      V v;
      __builtin_memcpy(&v, a + k + j * kLanes, sizeof v);
      add_product(part[j], v, b + k + j * kLanes);
    }
  for (; k < width; ++k) sum += a[k] * b[k];
  part[0] = (part[0] + part[1]) + (part[2] + part[3]);
  for (int64_t j = 0; j < kLanes; ++j) sum += part[0][j];
  return sum;
}

template <class T>
constexpr SparseTable<T> table{&row<T>, &dot<T>};

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<SparseTable<float>>, ADJOINT_LEVEL,
                                                   &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<SparseTable<double>>, ADJOINT_LEVEL,
                                                    &table<double>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
