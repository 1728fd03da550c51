#include "for_size.h"
#include "ops/bessel.h"

#include "dispatch/family.h"

ADJOINT_RARE_FAMILY(Bessel)
