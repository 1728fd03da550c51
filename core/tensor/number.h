// Whether a number fits into an element, for the writes and choices that refuse one that does not. Arithmetic
// does not ask: there a number that is too large wraps around or becomes infinite, as elements do.
//
// And a tensor's memory as the bytes that it is. Start reading at `fits`.
#pragma once

#include "tensor/tensor.h"

namespace adjoint {

/// Whether a number can become an element, fractions aside: no integer beyond the range, no NaN or infinity
/// for an integer, no imaginary part for a real type. A negative integer fits into an unsigned one of as many
/// bits, as its two's complement; everything fits into bool.
bool fits(const Scalar& value, DType type);
/// RuntimeError with torch's phrase where it does not.
void refuse_overflow(const Scalar& value, DType type, const char* op);
/// The same for a bare number given as a tensor; other tensors are converted as copies are.
inline void refuse_overflow(const Tensor& number, DType type, const char* op) {
  if (number.is_wrapped()) refuse_overflow(item(number), type, op);
}

/// The largest finite number of a floating-point type, or of a complex type's parts.
double largest_of(DType type);
/// What a number has to fit for a write that rounds it: the half types take any real number, if need be as
/// infinity.
constexpr DType rounding_dtype(DType type) { return compute_dtype(type) == type ? type : DType::Float64; }

/// Whether elements of a type may begin where a tensor does.
bool aligned_for(const Tensor& t, DType dtype);
/// A tensor of bytes that the host has, and those of a row-major one.
Tensor from_bytes(std::span<const std::byte> bytes);
std::span<const std::byte> bytes_of(const Tensor& t);

}  // namespace adjoint
