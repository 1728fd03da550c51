// The types in which loops compute: long integers, and numbers of full precision.
#pragma once

#include "tensor/dtype.h"

namespace adjoint {

/// Call `f(TypeTag<T>{})` with the one that elements of `dtype` are computed in.
template <class F>
decltype(auto) with_number(DType dtype, F&& f) {
  switch (dtype) {
    case DType::Float16:
    case DType::BFloat16:
    case DType::Float32:
      return f(TypeTag<float>{});
    case DType::Float64:
      return f(TypeTag<double>{});
    case DType::Complex64:
      return f(TypeTag<Complex<float>>{});
    case DType::Complex128:
      return f(TypeTag<Complex<double>>{});
    default:
      return f(TypeTag<int64_t>{});
  }
}

/// The same of the floating types that loops are in: half types are computed as float.
template <class F>
void with_floating(DType dtype, F&& f) {
  if (dtype == DType::Float64)
    f(TypeTag<double>{});
  else
    f(TypeTag<float>{});
}

}  // namespace adjoint
