#include "for_size.h"
#include "ops/trigonometric.h"

#include "dispatch/family.h"

ADJOINT_FAMILY(Trigonometric)
