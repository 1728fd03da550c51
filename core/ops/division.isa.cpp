#include "for_size.h"
#include "ops/division.h"

#include "dispatch/family.h"

ADJOINT_RARE_FAMILY(Division)
