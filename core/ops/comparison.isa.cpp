#include "for_size.h"
#include "ops/comparison.h"

#include "dispatch/family.h"

ADJOINT_FAMILY(ComparisonOps)
