// The passes of kernels/in_registers.h, per instruction set (kernels/cpu/variants.h).
#pragma once

#include "kernels/in_registers.h"

namespace adjoint {

struct PassTable {
  Pass floats, doubles;
};

}  // namespace adjoint
