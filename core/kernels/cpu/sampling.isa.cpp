// Sums for the derivative of gamma draws, some elements side by side, for one instruction set.
#include "kernels/cpu/sampling.h"

#include "kernels/cpu/math/math.h"
#include "kernels/cpu/variants.h"

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
  constexpr int L = SamplingTable::kAbreast;
  for (int l = 0; l < L; ++l) {
    const uint64_t counter = block + static_cast<uint64_t>(l);
    uint32_t a = static_cast<uint32_t>(counter), b = static_cast<uint32_t>(counter >> 32), c = number, d = 1;
    uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const uint64_t product0 = uint64_t{0xD2511F53} * a, product1 = uint64_t{0xCD9E8D57} * c;
      a = static_cast<uint32_t>(product1 >> 32) ^ b ^ key0;
      b = static_cast<uint32_t>(product1);
      c = static_cast<uint32_t>(product0 >> 32) ^ d ^ key1;
      d = static_cast<uint32_t>(product0);
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
    to[2 * l] = uint64_t{a} << 32 | b;
    to[2 * l + 1] = uint64_t{c} << 32 | d;
  }
}

constexpr SamplingTable table{&series, &words};
[[gnu::init_priority(200)]] RegisterVariant registered{variant_list<SamplingTable>, ADJOINT_LEVEL, &table};

}  // namespace
}  // namespace adjoint::inline ADJOINT_ISA
