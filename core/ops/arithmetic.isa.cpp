#include "ops/arithmetic.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "ops/complex.h"

ADJOINT_FAMILY(Arithmetic)
