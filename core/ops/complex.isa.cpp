#include "ops/complex.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "ops/trigonometric.h"

ADJOINT_RARE_FAMILY(ComplexOps)
