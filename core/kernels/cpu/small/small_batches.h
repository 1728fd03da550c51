// Batches of small real matrices as tensors: see kernels/linalg.h for what each function does.
//
// Each says whether it served; if not, nothing has happened: the type is complex, or the matrices are too
// large or too few.
#pragma once

#include "tensor/tensor.h"

namespace adjoint::kernels::linalg::small {

bool serves(const Tensor& a);
bool lu(const Tensor& from, const Tensor& a, const Tensor& pivots, const Tensor& info);
bool lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, const Tensor& x, char op);
/// Matrices with an info are left for LAPACK.
bool cholesky(const Tensor& from, const Tensor& a, const Tensor& info);
bool solve_triangular(const Tensor& a, const Tensor& b, const Tensor& x, bool upper, bool left,
                      bool unit_diagonal);
/// Matrices with an info are left for LAPACK.
bool eigh(const Tensor& from, const Tensor& a, const Tensor& values, const Tensor& info, bool upper,
          bool vectors);
/// Of a batch that `serves`.
void qr(const Tensor& from, const Tensor& q, const Tensor& r);
/// Not for more vectors than values. Matrices with an info are left for LAPACK.
bool svd(const Tensor& from, const Tensor& u, const Tensor& s, const Tensor& vh, const Tensor& info);

}  // namespace adjoint::kernels::linalg::small
