#include "for_size.h"
#include "ops/trigonometric.h"

#include "dispatch/family.h"
#include "ops/complex.h"

ADJOINT_FAMILY(Trigonometric)
