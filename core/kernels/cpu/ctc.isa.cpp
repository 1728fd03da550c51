// One step of all places of a spelled target, for one instruction set. An infinity stands for what cannot be.
#include "kernels/cpu/ctc.h"

#include "for_loops.h"
#include "for_narrow.h"
#include "kernels/cpu/math/math.h"
#include "kernels/cpu/variants.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

template <class T>
void step(const T* one, const T* two, const T* three, const T* jump, const T* more, int64_t n, T* to) {
  ADJOINT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const T a = one[i], b = two[i], c = three[i] + jump[i];
    T most = a > b ? a : b;
    most = most > c ? most : c;
    most = most == -math::infinity<T> ? T(0) : most;
    to[i] = math::log(math::exp(a - most) + math::exp(b - most) + math::exp(c - most)) + most + more[i];
  }
}

template <class T>
void occupancy(const T* a, const T* b, T c, int64_t n, T* to) {
  ADJOINT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) to[i] = math::exp(a[i] + b[i] + c);
}

template <class T>
constexpr CtcTable<T> table{&step<T>, &occupancy<T>};

[[gnu::init_priority(200)]] RegisterVariant floats{variant_list<CtcTable<float>>, ADJOINT_LEVEL,
                                                   &table<float>};
[[gnu::init_priority(200)]] RegisterVariant doubles{variant_list<CtcTable<double>>, ADJOINT_LEVEL,
                                                    &table<double>};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
