#include "for_size.h"
#include "ops/incomplete.h"

#include "dispatch/family.h"

ADJOINT_PORTABLE_FAMILY(Incomplete)
