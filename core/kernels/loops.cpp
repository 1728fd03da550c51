#include "kernels/loops.h"

#include <cstdlib>
#include <cstring>

#include "kernels/cpu/variants.h"

namespace adjoint {

namespace {

const LoopRows*& first_rows() {
  static const LoopRows* first = nullptr;
  return first;
}

int processor_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  int level = 0;
  if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt")) level = 2;
  if (level == 2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2"))
    level = 3;
  if (level == 3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    level = 4;
  // For tests and comparisons: cap the level.
  if (const char* cap = std::getenv("ADJOINT_ISA_LEVEL"))
    if (int n = std::atoi(cap); n < level) level = n;
  return level;
#else
  return 0;
#endif
}

}  // namespace

int instruction_level() {
  static const int level = processor_level();
  return level;
}

RegisterVariant::RegisterVariant(VariantList& list, int level, const void* table) {
  if (level > instruction_level()) return;
  if (level > list.level) {
    list.level = level;
    list.table = table;
  }
  if (level <= 3 && level > list.narrow_level) {
    list.narrow_level = level;
    list.narrow = table;
  }
}

RegisterRows::RegisterRows(LoopRows* rows) {
  rows->next = first_rows();
  first_rows() = rows;
}

Loops choose_loops(const char* family, int index) {
  Loops chosen;
  int best = -1;
  for (const LoopRows* r = first_rows(); r; r = r->next) {
    if (std::strcmp(r->family, family) != 0) continue;
    if (r->others) {
      const OtherLoops& o = r->others[index];
      for (int i = 0; i < 8; ++i) chosen.forward[2 + i] = o.forward[i];
      for (int k = 0; k < 3; ++k)
        for (int i = 0; i < 2; ++i) chosen.backward[k][8 + i] = o.backward[k][i];
    }
    if (r->level > instruction_level() || r->level < best) continue;
    best = r->level;
    const FloatLoops& f = r->floats[index];
    for (int i = 0; i < 2; ++i) {
      chosen.forward[i] = f.forward[i];
      for (int k = 0; k < 3; ++k) chosen.backward[k][i] = f.backward[k][i];
    }
  }
  return chosen;
}

const char* instruction_set() {
  switch (instruction_level()) {
    case 4:
      return "x86-64-v4";
    case 3:
      return "x86-64-v3";
    case 2:
      return "x86-64-v2";
    default:
      return "portable";
  }
}

}  // namespace adjoint
