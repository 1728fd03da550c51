#include "state.h"

namespace adjoint {

constinit thread_local ThreadState thread_state;
std::shared_ptr<ForeignState> (*foreign_state)() = nullptr;

}  // namespace adjoint
