#include "for_size.h"
#include "ops/selection.h"

#include "dispatch/family.h"

ADJOINT_FAMILY(Selection)
