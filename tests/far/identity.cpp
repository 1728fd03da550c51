// Zeros, and ones on the diagonal of a matrix.
#include <cstring>

#include "far.h"
#include "kernels/creation.h"

namespace {

bool identity(const void* const* at) {
  const auto& t = far::argument<adjoint::Tensor>(at, 0);
  if (t.dtype() != adjoint::DType::Float32 || t.dim() != 2) return false;
  const int64_t rows = t.sizes()[0], columns = t.sizes()[1];
  auto* const to = reinterpret_cast<float*>(far::reach(t));
  for (int64_t i = 0; i < rows * columns; ++i) to[i] = i / columns == i % columns;
  return true;
}

const far::Routine routine{adjoint::launch::id_of<&adjoint::kernels::identity, adjoint::Out>(),
                           "ad.eye(3, 5)", identity};

}  // namespace
