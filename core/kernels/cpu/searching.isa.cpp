// Searching in rising sequences for one instruction set: many values at a time, all in as many steps, by
// gathering.
#include "kernels/cpu/searching.h"

#include "kernels/cpu/math/math.h"
#include "kernels/cpu/variants.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

/// What is sought lies in [at, at + rest], for all values of a block alike. Asked this way round, NaN lies
/// beyond all numbers.
template <bool right, int64_t kBlock, class Index, class T>
ADJOINT_INLINE void search_block(const T* p, int64_t n, const T* v, int64_t* to, int64_t m) {
  Index at[kBlock];
  T value[kBlock];
  for (int64_t i = 0; i < kBlock; ++i) {
    at[i] = 0;
    value[i] = v[i < m ? i : 0];
  }
  for (int64_t rest = n; rest > 0;) {
    const auto half = static_cast<Index>((rest + 1) / 2);
    ADJOINT_INDEPENDENT
    for (int64_t i = 0; i < kBlock; ++i) {
      const T found = p[at[i] + (half - 1)];
      const bool before = right ? found > value[i] : found >= value[i];
      at[i] += before ? Index(0) : half;
    }
    rest -= half;
  }
  for (int64_t i = 0; i < m; ++i) to[i] = at[i];
}

template <bool right, class T>
void search_all(const T* p, int64_t n, const T* v, int64_t* to, int64_t m) {
  constexpr int64_t kBlock = 64;
  if (n > INT32_MAX)
    for (int64_t i = 0; i < m; ++i) search_block<right, 1, int64_t>(p, n, v + i, to + i, 1);
  else
    for (int64_t i = 0; i < m; i += kBlock)
      search_block<right, kBlock, int32_t>(p, n, v + i, to + i, m - i < kBlock ? m - i : kBlock);
}

template <class T>
void search(const T* p, int64_t n, const T* v, int64_t* to, int64_t m, bool right) {
  right ? search_all<true>(p, n, v, to, m) : search_all<false>(p, n, v, to, m);
}

template <class T>
constexpr SearchTable<T> table{&search<T>};
[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<SearchTable<float>>, ADJOINT_LEVEL,
                                                   &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<SearchTable<double>>, ADJOINT_LEVEL,
                                                    &table<double>};
[[gnu::init_priority(200)]] RegisterVariant integers{variant_list<SearchTable<int64_t>>, ADJOINT_LEVEL,
                                                     &table<int64_t>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
