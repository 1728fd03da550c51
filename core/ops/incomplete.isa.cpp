#include "for_size.h"
#include "ops/incomplete.h"

#include "dispatch/family.h"

ADJOINT_RARE_FAMILY(Incomplete)
