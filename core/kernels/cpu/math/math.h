// Every scalar function that the CPU kernels use, for float, double and Complex.
//
// `for (i < n) out[i] = math::exp(x[i])` becomes vector code at -O3 with -fno-math-errno -fno-trapping-math
// -ffp-contract=fast; define ADJOINT_ISA to a name of its own for every set of machine flags. See bits.h for
// the two rules of the folder, exponential.h for the hot functions.
#pragma once

#include "bits.h"
#include "complex.h"
#include "error_function.h"
#include "exponential.h"
#include "gamma.h"
#include "hyperbolic.h"
#include "rounding.h"
#include "trigonometric.h"
