// Loops for draws, by instruction set.
#pragma once

#include <cstdint>

namespace adjoint {

struct SamplingTable {
  static constexpr int kAbreast = 16;
  /// With S the sum of x^n / (a (a+1) … (a+n)): to = -x (S turn + dS/da), for so many elements, each up to
  /// terms of the share `least`.
  void (*series)(const double* a, const double* x, const double* turn, const double* least, double* to);
  /// What runtime::philox::generate_one makes of so many neighbouring blocks: two words of each.
  void (*words)(uint64_t seed, uint64_t block, uint32_t number, uint64_t* to);
};

}  // namespace adjoint
