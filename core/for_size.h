// The first line of a source that spends its time in loops that are elsewhere, or on memory, and so is
// compiled for size:
//
//     #include "for_size.h"
//
// The optimiser's other settings stay. Loops that are made from the same source (dispatch/family.h) are
// compiled for speed.
#pragma once

#if defined(__OPTIMIZE__) && defined(__GNUC__) && !defined(__clang__) && !defined(ADJOINT_CHECKS) && \
    !defined(ADJOINT_KERNELS_ONLY) && !defined(__OPTIMIZE_SIZE__)
#pragma GCC optimize("Os")
#endif
