#include "ops/activation.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "ops/complex.h"
#include "ops/trigonometric.h"

ADJOINT_FAMILY(Activations)
