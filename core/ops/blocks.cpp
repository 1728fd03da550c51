#include "ops/blocks.h"

#include "dispatch/family.h"
#include "for_size.h"

ADJOINT_FAMILY(Blocks)
