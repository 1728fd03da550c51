#include "ops/power.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "ops/complex.h"
#include "ops/exponential.h"

ADJOINT_FAMILY(Powers)
