// What a write in place does to history: who may be written, and what happens to the version and the edge.
#pragma once

#include "autograd/meta.h"

namespace adjoint {

/// Refuses a write to `t` that differentiation cannot follow. Called before anything is changed. `recorded` says that
/// the write itself will be recorded.
void check_writable(const Tensor& t, const char* op, bool recorded);

/// Whether any two elements of the tensor lie at one address, as after expand().
bool overlaps_itself(const Tensor& t);

/// After a write: the version goes up.
inline void wrote(const Tensor& t) { t->storage->bump(); }

}  // namespace adjoint
