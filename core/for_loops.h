// The first line of a source whose loops are written in whole vectors by hand, for many types and folds:
//
//     #include "for_loops.h"
//
// Further copies of each loop, for every remainder and alignment that might be, would double its size and
// save no time.
#pragma once

#if defined(__OPTIMIZE__) && defined(__GNUC__) && !defined(__clang__) && !defined(ADJOINT_CHECKS) && \
    !defined(__OPTIMIZE_SIZE__)
#pragma GCC optimize("O2", "vect-cost-model=dynamic")
#endif
