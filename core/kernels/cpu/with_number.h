// The types in which sums and products of elements are computed: long integers, and numbers of full precision.
#pragma once

#include "tensor/dtype.h"

namespace adjoint {

/// Call `f(TypeTag<T>{})` with the type of `dtype`, which is one of these.
template <class F> void with_number(DType dtype, F&& f) {
  switch (dtype) {
    case DType::Int64: return f(TypeTag<int64_t>{});
    case DType::Float64: return f(TypeTag<double>{});
    case DType::Complex64: return f(TypeTag<Complex<float>>{});
    case DType::Complex128: return f(TypeTag<Complex<double>>{});
    default: return f(TypeTag<float>{});
  }
}

}  // namespace adjoint
