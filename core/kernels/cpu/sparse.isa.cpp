// Rows of a product for one instruction set: as many columns at a time as registers hold, so that the result is written once.
#include "kernels/cpu/sparse.h"

#include "kernels/cpu/variants.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

/// `width` columns of a row, from `at` on, of dense rows `down` apart.
template <class T, int width>
inline void columns_of_row(int64_t at, int64_t down, int64_t n, const int64_t* order, const T* values, const int64_t* columns, const T* dense, T* out) {
  T sum[width] = {};
  for (int64_t e = 0; e < n; ++e) {
    const int64_t i = order ? order[e] : e;
    const T x = values[i];
    const T* from = dense + columns[i] * down + at;
    for (int j = 0; j < width; ++j) sum[j] += x * from[j];
  }
  for (int j = 0; j < width; ++j) out[at + j] = sum[j];
}

template <class T> void row(int64_t width, int64_t n, const int64_t* order, const T* values, const int64_t* columns, const T* dense, T* out) {
  constexpr int kMost = 256 / sizeof(T), kFew = 32 / sizeof(T);
  int64_t at = 0;
  for (; at + kMost <= width; at += kMost) columns_of_row<T, kMost>(at, width, n, order, values, columns, dense, out);
  for (; at + kFew <= width; at += kFew) columns_of_row<T, kFew>(at, width, n, order, values, columns, dense, out);
  for (; at < width; ++at) columns_of_row<T, 1>(at, width, n, order, values, columns, dense, out);
}

template <class T> T dot(int64_t width, const T* a, const T* b) {
  constexpr int kAbreast = 128 / sizeof(T);
  T part[kAbreast] = {}, sum = 0;
  int64_t k = 0;
  for (; k + kAbreast <= width; k += kAbreast)
    for (int j = 0; j < kAbreast; ++j) part[j] += a[k + j] * b[k + j];
  for (; k < width; ++k) sum += a[k] * b[k];
  for (int j = 0; j < kAbreast; ++j) sum += part[j];
  return sum;
}

template <class T> constexpr SparseTable<T> table{&row<T>, &dot<T>};

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<SparseTable<float>>, ADJOINT_LEVEL, &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<SparseTable<double>>, ADJOINT_LEVEL, &table<double>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
