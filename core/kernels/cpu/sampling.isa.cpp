// Sums for the derivative of gamma draws, some elements side by side, for one instruction set.
#include "kernels/cpu/sampling.h"

#include "for_narrow.h"
#include "kernels/cpu/math/math.h"
#include "kernels/cpu/variants.h"
#include "runtime/philox.h"

namespace adjoint::inline ADJOINT_ISA {
namespace {

void series(const double* a, const double* x, const double* turn, const double* least, double* to) {
  constexpr int L = SamplingTable::kAbreast;
  double term[L], slope[L], s[L], ds[L], live[L];
  for (int l = 0; l < L; ++l) {
    term[l] = slope[l] = s[l] = 1 / a[l];
    ds[l] = -term[l] * slope[l];
    live[l] = 1;
  }
  // An element takes no more terms once it has enough: its sum is the same whoever its neighbours are.
  double some = 1;
  for (int n = 1; n < 100000 && some != 0; ++n) {
    some = 0;
    ADJOINT_INDEPENDENT
    for (int l = 0; l < L; ++l) {
      const double inverse = 1 / (a[l] + n);
      term[l] *= x[l] * inverse;
      slope[l] += inverse;
      s[l] += live[l] * term[l];
      ds[l] -= live[l] * term[l] * slope[l];
      live[l] = math::select(term[l] * slope[l] < -least[l] * ds[l], 0.0, live[l]);
      some += live[l];
    }
  }
  for (int l = 0; l < L; ++l) to[l] = -x[l] * (s[l] * turn[l] + ds[l]);
}

void words(uint64_t seed, uint64_t block, uint32_t number, uint64_t* to) {
  for (int l = 0; l < SamplingTable::kAbreast; ++l)
    runtime::philox::generate_one({seed, block + static_cast<uint64_t>(l)}, number, to + 2 * l);
}

constexpr SamplingTable table{&series, &words};
[[gnu::init_priority(200)]] RegisterVariant registered{variant_list<SamplingTable>, ADJOINT_LEVEL, &table};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
