#include "ops/spread.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "ops/complex.h"

ADJOINT_FAMILY(Spread)
