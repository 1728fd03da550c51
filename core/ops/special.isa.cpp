#include "for_size.h"
#include "ops/special.h"

#include "dispatch/family.h"

ADJOINT_RARE_FAMILY(Special)
