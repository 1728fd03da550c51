// Batches of small real matrices as tensors: see kernels/linalg.h for what each function does.
//
// Each says whether it served; if not, nothing has happened: the type is complex, or the matrices are too
// large or too few.
#pragma once

#include "tensor/tensor.h"

namespace adjoint::kernels::linalg::small {

bool lu(const Tensor& from, const Tensor& a, const Tensor& pivots, const Tensor& info);
bool lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, const Tensor& x, char op);
/// Matrices with an info are left for LAPACK.
bool cholesky(const Tensor& from, const Tensor& a, const Tensor& info);
bool solve_triangular(const Tensor& a, const Tensor& b, const Tensor& x, bool upper, bool left,
                      bool unit_diagonal);
/// Matrices with an info are left for LAPACK.
bool eigh(const Tensor& from, const Tensor& a, const Tensor& values, const Tensor& info, bool upper,
          bool vectors);

}  // namespace adjoint::kernels::linalg::small
