// Products of matrices, and of batches of them.
#pragma once

#include "tensor/tensor.h"

namespace adjoint::launch {
struct Routine;
}

namespace adjoint::kernels {

/// out = start + a b for every matrix of a batch: `out` is row-major, a and b have at least two dimensions
/// and its type, and those in front of the last two broadcast to `batch`. An undefined start is zero; another
/// has one dimension, or two, or three of which the first is a batch of one dimension, and its last stride is
/// 1, or 0: then a row is one number. Its rows and matrices broadcast.
void multiply(const Tensor& a, const Tensor& b, const Tensor& start, const Tensor& out, IntList batch);

/// A product of two matrices of float32 or float64 of which all is known but where they lie now.
struct KeptProduct {
  void (*run)(const KeptProduct&);
  const Tensor *out, *a, *b, *start;
  int64_t m, n, k, a_down, a_across, b_down, b_across, start_down, start_across;
};
/// Whether a launch with these arguments, which stay where they are, is one.
bool keep_product(const launch::Routine& routine, const void* const* arguments, KeptProduct& kept);

/// out = a × b for vectors of length three along a dimension; all of one shape and type.
void cross(const Tensor& out, const Tensor& a, const Tensor& b, int64_t dim);

}  // namespace adjoint::kernels
