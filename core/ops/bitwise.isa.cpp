#include "ops/bitwise.h"

#include "dispatch/family.h"
#include "for_size.h"

ADJOINT_RARE_FAMILY(BitwiseOps)
