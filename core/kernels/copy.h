// Moving elements: between layouts and types.
#pragma once

#include "tensor/into.h"

namespace adjoint {

class Walk;

/// to[i] = convert(from[i]) over n elements with strides in bytes.
void convert_strided(char* to, DType to_type, int64_t to_stride, const char* from, DType from_type,
                     int64_t from_stride, int64_t n);
/// Copies between the two operands of a planned walk, of elements of `item` bytes.
void move_planes(Walk& walk, int64_t item);
/// Fill `to` with the elements of `from`, broadcast to its shape. Handles overlap only when both are the
/// same.
void copy_into(const Tensor& to, const Tensor& from);
/// The bytes of `from`, and zeros after them: both are vectors of bytes. A routine, which nobody is told of.
void lengthen(const Tensor& to, const Tensor& from);
/// A row-major copy, of another type where asked.
Tensor copy_of(Into into, const Tensor& t, DType dtype);
inline Tensor copy_of(const Tensor& t, DType dtype) { return copy_of({}, t, dtype); }
inline Tensor copy_of(const Tensor& t) { return copy_of(t, t.dtype()); }
/// `t` itself when it is row-major, else a copy. No history.
inline Tensor dense(const Tensor& t) { return t.is_contiguous() ? t : copy_of(t); }
/// The type in which elements that meet in one place are combined. Every kernel that combines them asks here:
/// halves are added up in float32 and rounded once, since a running sum of their own would stop at 2048 or
/// 256.
constexpr DType sum_dtype(DType d) { return compute_dtype(d); }
/// combine(wide) on a copy of `out` in that type, then back; false where `out` has it already, and nothing
/// was done.
template <class F>
bool rounded_once(const Tensor& out, F&& combine) {
  if (sum_dtype(out.dtype()) == out.dtype()) return false;
  const Tensor wide = copy_of(out, sum_dtype(out.dtype()));
  combine(wide);
  copy_into(out, wide);
  return true;
}

}  // namespace adjoint
