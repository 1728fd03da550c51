// Moving elements: between layouts and types.
#pragma once

#include "tensor/tensor.h"

namespace adjoint {

/// to[i] = convert(from[i]) over n elements with strides in bytes.
void convert_strided(char* to, DType to_type, int64_t to_stride, const char* from, DType from_type, int64_t from_stride,
                     int64_t n);
/// Fill `to` with the elements of `from`, broadcast to its shape. Handles overlap only when both are the same.
void copy_into(const Tensor& to, const Tensor& from);
/// A row-major copy, of another type where asked.
Tensor copy_of(const Tensor& t, DType dtype);
inline Tensor copy_of(const Tensor& t) { return copy_of(t, t.dtype()); }
/// `t` itself when it is row-major, else a copy. No history.
inline Tensor dense(const Tensor& t) { return t.is_contiguous() ? t : copy_of(t); }

}  // namespace adjoint
