// Searching in rising sequences for one instruction set: many values at a time, all in as many steps, by
// gathering.
#include "kernels/cpu/searching.h"

#include "kernels/cpu/math/math.h"
#include "kernels/cpu/variants.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

template <bool right, class T>
void search_block(const T* p, int64_t n, int steps, const T* v, int64_t* to, int64_t m) {
  constexpr int64_t kBlock = 64;
  int64_t low[kBlock], high[kBlock];
  T value[kBlock];
  for (int64_t i = 0; i < kBlock; ++i) {
    low[i] = 0;
    high[i] = n;
    value[i] = v[i < m ? i : 0];
  }
  // Halving: what is sought lies in [low, high]. Asked this way round, NaN lies beyond all numbers.
  for (int k = 0; k < steps; ++k) ADJOINT_INDEPENDENT
  for (int64_t i = 0; i < kBlock; ++i) {
    const int64_t middle = (low[i] + high[i]) >> 1, at = middle < n ? middle : n - 1;
    const T found = p[at];
    const bool before = right ? found > value[i] : found >= value[i];
    const int64_t down = before ? middle : high[i], up = before ? low[i] : middle + 1;
    const bool open = low[i] < high[i];
    high[i] = open ? down : high[i];
    low[i] = open ? up : low[i];
  }
  for (int64_t i = 0; i < m; ++i) to[i] = low[i];
}

template <class T>
void search(const T* p, int64_t n, const T* v, int64_t* to, int64_t m, bool right) {
  int steps = 0;
  while (n >> steps) ++steps;
  for (int64_t i = 0; i < m; i += 64) {
    const int64_t count = m - i < 64 ? m - i : 64;
    if (right)
      search_block<true>(p, n, steps, v + i, to + i, count);
    else
      search_block<false>(p, n, steps, v + i, to + i, count);
  }
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
