// Weighted sums of rows, and of the elements of a row, for one instruction set.
#include "kernels/cpu/resampling.h"

#include "for_loops.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/vectors.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

template <int Terms, class T>
ADJOINT_INLINE void sum_rows(const T* const* from, const T* weights, int64_t n, T* to) {
  ADJOINT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    T sum = weights[0] * from[0][i];
#pragma GCC unroll 4
    for (int k = 1; k < Terms; ++k) sum += weights[k] * from[k][i];
    to[i] = sum;
  }
}

template <class T>
void rows(const T* from, const int64_t* places, const T* weights, int64_t terms, T divisor, int64_t n,
          T* to) {
  const T* at[4] = {};
  const int64_t first = terms < 4 ? terms : 4;
  for (int64_t k = 0; k < first; ++k) at[k] = from + places[k] * n;
  if (first == 4)
    sum_rows<4>(at, weights, n, to);
  else if (first == 3)
    sum_rows<3>(at, weights, n, to);
  else if (first == 2)
    sum_rows<2>(at, weights, n, to);
  else if (first == 1)
    sum_rows<1>(at, weights, n, to);
  else
    for (int64_t i = 0; i < n; ++i) to[i] = 0;
  for (int64_t k = first; k < terms; ++k) {
    const T* more = from + places[k] * n;
    const T weight = weights[k];
    ADJOINT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) to[i] += weight * more[i];
  }
  if (divisor != 1) ADJOINT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) to[i] /= divisor;
}

template <class T>
void row(const T* from, int64_t n, const ResampledBlock<T>* blocks, int64_t count, T* to) {
  constexpr int L = kResampledLanes;
  for (int64_t o = 0; o < count; o += L, ++blocks) {
    alignas(64) T sum[L] = {};
    const ResampledBlock<T>& b = *blocks;
    const int32_t* places = b.places;
    const T* weights = b.weights;
    const T* x = from + b.base;
    bool done = false;
    (void)n;
#if ADJOINT_LEVEL >= 4
    if constexpr (sizeof(T) == 4) {
      // What the block needs lies in two registers.
      if (b.span <= 2 * L && b.base + 2 * L <= n) {
        typedef int32_t Places __attribute__((vector_size(64), aligned(4), may_alias));
        typedef float Sixteen __attribute__((vector_size(64)));
        const Sixteen low = load<T>(x), high = load<T>(x + L);
        Sixteen all{};
        for (int64_t k = 0; k < b.terms; ++k, places += L, weights += L) {
          const Places place = *reinterpret_cast<const Places*>(places);
          const Sixteen term = load<T>(weights) * __builtin_shuffle(low, high, place);
          all += place < 0 ? Sixteen{} : term;
        }
        store<T>(sum, all);
        done = true;
      }
    }
#endif
    for (int64_t k = 0; !done && k < b.terms; ++k, places += L, weights += L) ADJOINT_INDEPENDENT
    for (int i = 0; i < L; ++i)
      sum[i] += places[i] < 0 ? T(0) : weights[i] * x[places[i] < 0 ? 0 : places[i]];
    if (b.divisors) ADJOINT_INDEPENDENT
    for (int i = 0; i < L; ++i) sum[i] /= b.divisors[i];
    const int64_t m = count - o < L ? count - o : L;
    if (m == L) ADJOINT_INDEPENDENT
    for (int i = 0; i < L; ++i) to[o + i] = sum[i];
    else for (int64_t i = 0; i < m; ++i) to[o + i] = sum[i];
  }
}

template <class T>
constexpr ResamplingTable<T> table{&rows<T>, &row<T>};

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<ResamplingTable<float>>, ADJOINT_LEVEL,
                                                   &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<ResamplingTable<double>>, ADJOINT_LEVEL,
                                                    &table<double>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
