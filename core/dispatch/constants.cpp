#include "dispatch/constants.h"

#include "for_size.h"
#include "transforms/interpreter.h"

namespace adjoint {

Tensor constant_of(Tensor numbers, const char* rule) { return given(std::move(numbers), rule); }

}  // namespace adjoint
