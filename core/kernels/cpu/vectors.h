// Whole vectors, and squares of them that are transposed. For files compiled per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cpu/math/math.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

#if ADJOINT_LEVEL >= 4
constexpr int kBytes = 64;
#elif ADJOINT_LEVEL >= 3
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
};
template <class T>
using Vector = typename VectorOf<T>::type;
template <class T>
constexpr int kWidth = kBytes / sizeof(T);

template <class T>
ADJOINT_INLINE Vector<T> load(const T* p) {
  return *reinterpret_cast<const Vector<T>*>(p);
}
template <class T>
ADJOINT_INLINE void store(T* p, Vector<T> v) {
  *reinterpret_cast<Vector<T>*>(p) = v;
}

/// Blocks of Step numbers beside the diagonal of a square change places, and so on for larger ones.
template <int Step, class V, int W, size_t... L>
ADJOINT_INLINE void exchange(V (&v)[W], std::index_sequence<L...> lanes) {
#pragma GCC unroll 16
  for (int i = 0; i < W; ++i) {
    if (i & Step) continue;
    const V a = v[i], b = v[i + Step];
    v[i] = __builtin_shufflevector(a, b, (L & Step ? W + L - Step : L)...);
    v[i + Step] = __builtin_shufflevector(a, b, (L & Step ? W + L : L + Step)...);
  }
  if constexpr (2 * Step < W) exchange<2 * Step>(v, lanes);
}

/// As many vectors as each has numbers, as rows that become columns.
template <class T>
struct Square {
  typedef T Whole __attribute__((vector_size(kBytes)));
  Whole v[kWidth<T>];
  ADJOINT_INLINE void transpose() { exchange<1>(v, std::make_index_sequence<kWidth<T>>()); }
};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
