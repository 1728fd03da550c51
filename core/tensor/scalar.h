// A number without a tensor: what Python's bool, int, float and complex arrive as.
#pragma once

#include "tensor/dtype.h"

namespace adjoint {

class Scalar {
 public:
  Scalar() : kind_(Category::Integer), i_(0) {}
  Scalar(bool v) : kind_(Category::Bool), i_(v) {}
  Scalar(int v) : kind_(Category::Integer), i_(v) {}
  Scalar(int64_t v) : kind_(Category::Integer), i_(v) {}
  Scalar(double v) : kind_(Category::Floating), c_(v, 0) {}
  Scalar(Complex<double> v) : kind_(Category::Complex), c_(v) {}

  Category kind() const { return kind_; }
  bool is_complex() const { return kind_ == Category::Complex; }
  bool is_integral() const { return kind_ <= Category::Integer; }
  Complex<double> as_complex() const {
    return is_integral() ? Complex<double>(static_cast<double>(i_), 0) : c_;
  }
  double as_double() const { return is_integral() ? static_cast<double>(i_) : c_.re; }
  int64_t as_int() const { return is_integral() ? i_ : static_cast<int64_t>(c_.re); }
  template <class T>
  T to() const {
    return is_integral() ? convert<T>(i_) : convert<T>(c_);
  }

  Scalar conj() const { return is_complex() ? Scalar(Complex<double>(c_.re, -c_.im)) : *this; }

  /// The type that a tensor of this number has where nothing else says.
  DType dtype() const {
    switch (kind_) {
      case Category::Bool:
        return DType::Bool;
      case Category::Integer:
        return DType::Int64;
      case Category::Floating:
        return default_dtype();
      case Category::Complex:
        break;
    }
    return complex_dtype(default_dtype());
  }
  bool operator==(const Scalar& o) const {
    return kind_ == o.kind_ && (is_integral() ? i_ == o.i_ : c_.re == o.c_.re && c_.im == o.c_.im);
  }

 private:
  Category kind_;
  union {
    int64_t i_;
    Complex<double> c_;
  };
};

std::string to_string(const Scalar& value);

}  // namespace adjoint
