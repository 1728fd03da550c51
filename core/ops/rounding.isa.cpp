#include "for_size.h"
#include "ops/rounding.h"

#include "dispatch/family.h"

ADJOINT_RARE_FAMILY(Rounding)
