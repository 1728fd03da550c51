#include "for_size.h"
#include "ops/sorting.h"

#include "dispatch/family.h"

ADJOINT_FAMILY(Sorting)
