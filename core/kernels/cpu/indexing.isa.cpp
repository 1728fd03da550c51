// Loops of indexing for one instruction set: indices are checked and made offsets by whole vectors; slices that go to
// one place are added in registers, so that the place is written once.
#include "kernels/cpu/indexing.h"

#include "kernels/cpu/math/bits.h"
#include "kernels/cpu/variants.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

bool within(const int64_t* index, int64_t n, int64_t low, int64_t high) {
  int64_t outside = 0;
  for (int64_t i = 0; i < n; ++i) outside |= static_cast<int64_t>(index[i] < low) | static_cast<int64_t>(index[i] >= high);
  return outside == 0;
}

void offsets(int64_t* to, const int64_t* index, int64_t n, int64_t size, int64_t step, bool add) {
  if (add) {
    for (int64_t i = 0; i < n; ++i) to[i] += (index[i] + (index[i] < 0 ? size : 0)) * step;
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = (index[i] + (index[i] < 0 ? size : 0)) * step;
  }
}

int64_t count(const bool* mask, int64_t n) {
  const auto* m = reinterpret_cast<const unsigned char*>(mask);
  int64_t total = 0;
  while (n > 0) {
    // No byte's sum of 255 ones overflows.
    constexpr int64_t kLanes = 64, kMost = kLanes * 255;
    const int64_t some = n < kMost ? n : kMost;
    unsigned char lane[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= some; i += kLanes)
      for (int64_t l = 0; l < kLanes; ++l) lane[l] = static_cast<unsigned char>(lane[l] + m[i + l]);
    for (int64_t l = 0; l < kLanes; ++l) total += lane[l];
    for (; i < some; ++i) total += m[i];
    m += some;
    n -= some;
  }
  return total;
}

/// W columns, where W > 0 is known to the compiler; else `width` of them.
template <class T, int64_t W>
ADJOINT_INLINE void add_columns(T* to, const T* base, const T* from, const int64_t* order, int64_t count, int64_t n, int64_t width) {
  constexpr int64_t kMost = 256 / sizeof(T);
  const int64_t w = W ? W : width;
  T sum[kMost];
  for (int64_t j = 0; j < w; ++j) sum[j] = base ? base[j] : T(0);
  for (int64_t k = 0; k < count; ++k) {
    const T* v = from + order[k] * n;
    for (int64_t j = 0; j < w; ++j) sum[j] += v[j];
  }
  for (int64_t j = 0; j < w; ++j) to[j] = sum[j];
}

template <class T> void add(T* to, const T* base, const T* from, const int64_t* order, int64_t count, int64_t n) {
  constexpr int64_t kWidth = 256 / sizeof(T);
  int64_t j = 0;
  if (base)
    for (; j + kWidth <= n; j += kWidth) add_columns<T, kWidth>(to + j, base + j, from + j, order, count, n, kWidth);
  else
    for (; j + kWidth <= n; j += kWidth) add_columns<T, kWidth>(to + j, nullptr, from + j, order, count, n, kWidth);
  if (j < n) add_columns<T, 0>(to + j, base ? base + j : nullptr, from + j, order, count, n, n - j);
}

const IndexTable index_table{&within, &offsets, &count};
[[gnu::init_priority(200)]] RegisterVariant index_registered{variant_list<IndexTable>, ADJOINT_LEVEL, &index_table};
const SliceTable<float> floats{&add<float>};
[[gnu::init_priority(200)]] RegisterVariant floats_registered{variant_list<SliceTable<float>>, ADJOINT_LEVEL, &floats};
const SliceTable<double> doubles{&add<double>};
[[gnu::init_priority(200)]] RegisterVariant doubles_registered{variant_list<SliceTable<double>>, ADJOINT_LEVEL, &doubles};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
