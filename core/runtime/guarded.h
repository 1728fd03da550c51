// Memory that can be reached only while it is open: any other access ends the process. With it tests prove
// that an operator touches memory nowhere but in kernels (tensor/access.h).
#pragma once

#include <cstddef>

namespace adjoint::runtime::guarded {

/// Throws std::bad_alloc where it is full: it is small.
void* allocate(size_t bytes);
void deallocate(void* p) noexcept;
/// Open for all threads until as many calls of `close`.
void open() noexcept;
void close() noexcept;

}  // namespace adjoint::runtime::guarded
