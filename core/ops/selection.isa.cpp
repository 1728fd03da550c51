#include "ops/selection.h"

#include "dispatch/family.h"
#include "for_size.h"

ADJOINT_FAMILY(Selection)
