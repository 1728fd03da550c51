// The operator table: every family registers its rows once, when the library is loaded.
#include "dispatch/operator.h"

namespace adjoint {

#define ADJOINT_FAMILY_LINE(family) void register_##family();
#include "families.inc"
#undef ADJOINT_FAMILY_LINE

std::vector<const Operator*>& operators() {
  static auto& table = *new std::vector<const Operator*>;  // never destroyed, like the rows that it points to
  return table;
}

namespace {
const bool registered = [] {
  operators().reserve(512);
#define ADJOINT_FAMILY_LINE(family) register_##family();
#include "families.inc"
#undef ADJOINT_FAMILY_LINE
  return true;
}();
}  // namespace

}  // namespace adjoint
