// The operator table: every family adds its rows when the library is loaded (dispatch/family.h).
#include "dispatch/operator.h"

namespace adjoint {

std::vector<const Operator*>& operators() {
  // Never destroyed, like the rows that it points to.
  static auto& table = *[] {
    auto* rows = new std::vector<const Operator*>;
    rows->reserve(512);
    return rows;
  }();
  return table;
}

}  // namespace adjoint
