#include "for_size.h"
#include "ops/bitwise.h"

#include "dispatch/family.h"

ADJOINT_RARE_FAMILY(BitwiseOps)
