#include "ops/exponential.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "ops/comparison.h"

ADJOINT_FAMILY(Exponential)
