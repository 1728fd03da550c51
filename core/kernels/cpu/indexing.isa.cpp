// Loops of indexing for one instruction set: indices are checked and made offsets by whole vectors; slices
// that go to one place are added several at a time.
#include "kernels/cpu/indexing.h"

#include "kernels/cpu/math/bits.h"
#include "kernels/cpu/variants.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

bool within(const int64_t* index, int64_t n, int64_t low, int64_t high) {
  uint64_t outside = 0;  // by its sign: differences, whichever way they wrap
  for (int64_t i = 0; i < n; ++i)
    outside |= (static_cast<uint64_t>(index[i]) - static_cast<uint64_t>(low)) |
               (static_cast<uint64_t>(high) - 1 - static_cast<uint64_t>(index[i]));
  return static_cast<int64_t>(outside) >= 0;
}

bool offsets(int64_t* to, const int64_t* index, int64_t stride, int64_t n, int64_t size, int64_t step,
             bool add) {
  int64_t outside = 0;
  // Each index is read once: another thread may be writing it.
  const auto slot = [&](int64_t v) {
    v += v < 0 ? size : 0;
    outside |= v | (size - 1 - v);  // negative for each that is
    return v;
  };
  if (stride == 0) {
    const int64_t at = n ? slot(*index) * step : 0;
    if (add)
      for (int64_t i = 0; i < n; ++i) to[i] += at;
    else
      for (int64_t i = 0; i < n; ++i) to[i] = at;
  } else if (add) {
    for (int64_t i = 0; i < n; ++i) to[i] += slot(index[i]) * step;
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = slot(index[i]) * step;
  }
  return outside >= 0;
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
      for (int64_t l = 0; l < kLanes; ++l) lane[l] = static_cast<unsigned char>(lane[l] + (m[i + l] & 1));
    for (int64_t l = 0; l < kLanes; ++l) total += lane[l];
    for (; i < some; ++i) total += m[i] & 1;
    m += some;
    n -= some;
  }
  return total;
}

/// to = ((base + a) + b) + …, of N slices.
template <int N, bool HasBase, class T>
ADJOINT_INLINE void add_some(T* to, const T* base, const T* from, const int64_t* order, int64_t n) {
  const T* a = from + order[0] * n;
  const T* b = from + order[N > 1 ? 1 : 0] * n;
  const T* c = from + order[N > 2 ? 2 : 0] * n;
  const T* d = from + order[N > 3 ? 3 : 0] * n;
  ADJOINT_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    T sum = (HasBase ? base[j] : T(0)) + a[j];
    if (N > 1) sum += b[j];
    if (N > 2) sum += c[j];
    if (N > 3) sum += d[j];
    to[j] = sum;
  }
}

template <bool HasBase, class T>
ADJOINT_INLINE int64_t add_first(T* to, const T* base, const T* from, const int64_t* order, int64_t count,
                                 int64_t n) {
  if (count >= 4) return add_some<4, HasBase>(to, base, from, order, n), 4;
  if (count == 3) return add_some<3, HasBase>(to, base, from, order, n), 3;
  if (count == 2) return add_some<2, HasBase>(to, base, from, order, n), 2;
  return add_some<1, HasBase>(to, base, from, order, n), 1;
}

/// Whole slices at a time, since what comes from memory comes best in long runs; several at once, since `to`
/// then is written less often.
template <class T>
void add(T* to, const T* base, const T* from, const int64_t* order, int64_t count, int64_t n) {
  int64_t k = base ? add_first<true>(to, base, from, order, count, n)
                   : add_first<false>(to, base, from, order, count, n);
  while (k < count) k += add_first<true>(to, static_cast<const T*>(to), from, order + k, count - k, n);
}

const IndexTable index_table{&within, &offsets, &count};
[[gnu::init_priority(200)]] RegisterVariant index_registered{variant_list<IndexTable>, ADJOINT_LEVEL,
                                                             &index_table};
const SliceTable<float> floats{&add<float>};
[[gnu::init_priority(200)]] RegisterVariant floats_registered{variant_list<SliceTable<float>>, ADJOINT_LEVEL,
                                                              &floats};
const SliceTable<double> doubles{&add<double>};
[[gnu::init_priority(200)]] RegisterVariant doubles_registered{variant_list<SliceTable<double>>,
                                                               ADJOINT_LEVEL, &doubles};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
