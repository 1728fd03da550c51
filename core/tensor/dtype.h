// The twelve element types, what C++ type stands for each, and how two of them combine.
//
// `DType` is the run-time name; `dtype_of<T>` and `visit(dtype, f)` go between it and C++ types. float16 and
// bfloat16 are storage formats: arithmetic on them happens in float32 (see `compute_dtype`).
// Start reading at `promote`.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "tensor/complex.h"

namespace adjoint {

enum class DType : uint8_t {
  Bool,
  UInt8,
  Int8,
  Int16,
  Int32,
  Int64,
  Float16,
  BFloat16,
  Float32,
  Float64,
  Complex64,
  Complex128
};
using OptionalType = std::optional<DType>;
inline constexpr int kDTypes = 12;

/// The categories of promotion, in the order in which one absorbs the other.
enum class Category : uint8_t { Bool, Integer, Floating, Complex };

/// IEEE half precision: a storage format.
struct Half {
  uint16_t bits = 0;
  Half() = default;
  Half(float value);
  operator float() const;
};

/// The upper half of a float32: a storage format.
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  BFloat16(float value) {
    uint32_t u;
    std::memcpy(&u, &value, 4);
    // Round to nearest even; a NaN keeps its quiet bit.
    bits = value != value ? 0x7fc0 : static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  operator float() const {
    uint32_t u = static_cast<uint32_t>(bits) << 16;
    float f;
    std::memcpy(&f, &u, 4);
    return f;
  }
};

inline Half::Half(float value) {
  uint32_t u;
  std::memcpy(&u, &value, 4);
  const uint32_t sign = (u >> 16) & 0x8000;
  u &= 0x7fffffff;
  if (u >= 0x47800000) {  // too large for a half, infinite or NaN
    bits = static_cast<uint16_t>(sign | (u > 0x7f800000 ? 0x7e00 : 0x7c00));
  } else if (u < 0x38800000) {  // subnormal: adding 0.5 aligns the bits and rounds to even
    float magnitude;
    std::memcpy(&magnitude, &u, 4);
    magnitude += 0.5f;
    std::memcpy(&u, &magnitude, 4);
    bits = static_cast<uint16_t>(sign | (u - 0x3f000000));
  } else {
    u += 0xc8000fff + ((u >> 13) & 1);  // rebias the exponent and round to nearest even
    bits = static_cast<uint16_t>(sign | (u >> 13));
  }
}

inline Half::operator float() const {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 31;
  const uint32_t mantissa = bits & 1023;
  float f;
  uint32_t u;
  if (exponent == 0) {
    f = static_cast<float>(mantissa) * (1.0f / 16777216.0f);
    std::memcpy(&u, &f, 4);
    u |= sign;
  } else {
    u = sign | ((exponent == 31 ? 255u : exponent + 112u) << 23) | (mantissa << 13);
  }
  std::memcpy(&f, &u, 4);
  return f;
}

template <class T>
struct TypeTag {
  using type = T;
};

/// Call `f(TypeTag<T>{})` with the C++ type of `dtype`.
template <class F>
decltype(auto) visit(DType dtype, F&& f) {
  switch (dtype) {
    case DType::Bool:
      return f(TypeTag<bool>{});
    case DType::UInt8:
      return f(TypeTag<uint8_t>{});
    case DType::Int8:
      return f(TypeTag<int8_t>{});
    case DType::Int16:
      return f(TypeTag<int16_t>{});
    case DType::Int32:
      return f(TypeTag<int32_t>{});
    case DType::Int64:
      return f(TypeTag<int64_t>{});
    case DType::Float16:
      return f(TypeTag<Half>{});
    case DType::BFloat16:
      return f(TypeTag<BFloat16>{});
    case DType::Float32:
      return f(TypeTag<float>{});
    case DType::Float64:
      return f(TypeTag<double>{});
    case DType::Complex64:
      return f(TypeTag<Complex<float>>{});
    case DType::Complex128:
      break;
  }
  return f(TypeTag<Complex<double>>{});
}

/// Call f(TypeTag<U>{}) with a type of as many bytes, an unsigned one or a pair of numbers.
template <class F>
void visit_size(int64_t item, F&& f) {
  switch (item) {
    case 1:
      return f(TypeTag<uint8_t>{});
    case 2:
      return f(TypeTag<uint16_t>{});
    case 4:
      return f(TypeTag<uint32_t>{});
    case 8:
      return f(TypeTag<uint64_t>{});
    default:
      return f(TypeTag<Complex<double>>{});
  }
}

template <class T>
inline constexpr DType dtype_of = [] {
  if constexpr (std::is_same_v<T, bool>)
    return DType::Bool;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return DType::UInt8;
  else if constexpr (std::is_same_v<T, int8_t>)
    return DType::Int8;
  else if constexpr (std::is_same_v<T, int16_t>)
    return DType::Int16;
  else if constexpr (std::is_same_v<T, int32_t>)
    return DType::Int32;
  else if constexpr (std::is_same_v<T, int64_t>)
    return DType::Int64;
  else if constexpr (std::is_same_v<T, Half>)
    return DType::Float16;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return DType::BFloat16;
  else if constexpr (std::is_same_v<T, float>)
    return DType::Float32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::Float64;
  else if constexpr (std::is_same_v<T, Complex<float>>)
    return DType::Complex64;
  else {
    static_assert(std::is_same_v<T, Complex<double>>);
    return DType::Complex128;
  }
}();

template <class T>
struct RealOf {
  using type = T;
};
template <class T>
struct RealOf<Complex<T>> {
  using type = T;
};
template <class T>
using real_t = typename RealOf<T>::type;
template <class T>
inline constexpr bool is_complex_v = !std::is_same_v<T, real_t<T>>;
template <class T>
inline constexpr bool is_half_v = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <class T>
inline constexpr bool is_floating_v = std::is_floating_point_v<T> || is_half_v<T>;
template <class T>
inline constexpr bool is_integer_v = std::is_integral_v<T>;  // bool included
/// The type in which arithmetic on T is done.
template <class T>
using compute_t = std::conditional_t<is_half_v<T>, float, T>;

inline constexpr uint8_t kItemSizes[kDTypes] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
inline constexpr const char* kDTypeNames[kDTypes] = {"bool",    "uint8",   "int8",      "int16",
                                                     "int32",   "int64",   "float16",   "bfloat16",
                                                     "float32", "float64", "complex64", "complex128"};

/// The names that torch's tensor types and messages have.
inline constexpr const char* kTypeNames[kDTypes] = {"Bool",  "Byte",   "Char",         "Short",
                                                    "Int",   "Long",   "Half",         "BFloat16",
                                                    "Float", "Double", "ComplexFloat", "ComplexDouble"};

/// Those of C++, in which torch speaks of the dtype that out= must have.
inline constexpr const char* kCppNames[kDTypes] = {
    "bool",  "unsigned char", "signed char",         "short int",
    "int",   "long int",      "c10::Half",           "c10::BFloat16",
    "float", "double",        "c10::complex<float>", "c10::complex<double>"};

constexpr int index_of(DType d) { return static_cast<int>(d); }
constexpr int64_t itemsize(DType d) { return kItemSizes[index_of(d)]; }
constexpr const char* name_of(DType d) { return kDTypeNames[index_of(d)]; }
constexpr const char* type_name_of(DType d) { return kTypeNames[index_of(d)]; }
constexpr const char* cpp_name_of(DType d) { return kCppNames[index_of(d)]; }

constexpr Category category(DType d) {
  if (d == DType::Bool) return Category::Bool;
  if (d <= DType::Int64) return Category::Integer;
  return d <= DType::Float64 ? Category::Floating : Category::Complex;
}
constexpr bool is_floating(DType d) { return category(d) == Category::Floating; }
constexpr bool is_complex(DType d) { return category(d) == Category::Complex; }
constexpr bool is_integral(DType d) { return d <= DType::Int64; }  // bool included
/// Only these carry gradients.
constexpr bool is_differentiable(DType d) { return d >= DType::Float16; }

/// The real type of a complex type's parts; other types stand for themselves.
constexpr DType real_dtype(DType d) {
  return d == DType::Complex64 ? DType::Float32 : d == DType::Complex128 ? DType::Float64 : d;
}
constexpr DType complex_dtype(DType d) {
  return is_complex(d) ? d : d == DType::Float64 ? DType::Complex128 : DType::Complex64;
}
constexpr DType compute_dtype(DType d) {
  return d == DType::Float16 || d == DType::BFloat16 ? DType::Float32 : d;
}

/// The smallest type that holds both, as torch's table has it.
constexpr DType promote(DType a, DType b) {
  if (a == b) return a;
  if (a > b) {
    DType t = a;
    a = b;
    b = t;
  }
  if (category(a) != category(b)) {
    if (is_complex(b) && a == DType::Float64) return DType::Complex128;
    return b;
  }
  if (a == DType::UInt8) return b == DType::Int8 ? DType::Int16 : b;
  if (a == DType::Float16 && b == DType::BFloat16) return DType::Float32;
  return b;
}

/// NotImplementedError: an operator that is not there for a type; `why`, or what to do, begins with what
/// parts it from the type.
[[noreturn]] void refuse_dtype(DType type, const char* op, const char* why = "");
inline void need_floating(DType type, const char* op) {
  if (!is_floating(type)) refuse_dtype(type, op, "; convert the input to a floating-point type");
}
inline void need_order(DType type, const char* op) {
  if (is_complex(type)) refuse_dtype(type, op, ": complex numbers have no order");
}

/// What a write of `from` into `to` may lose: only a step down in category is refused.
constexpr bool can_cast(DType from, DType to) {
  return category(from) <= category(to) || (category(from) == Category::Integer && to == DType::UInt8);
}

/// The type that Python floats, and integers in true division, become. Thread-safe; float32 at the start.
DType default_dtype();
void set_default_dtype(DType dtype);

/// Convert one element, as C's casts do, complex to real by its real part.
template <class To, class From>
inline To convert(From v) {
  if constexpr (std::is_same_v<To, From>)
    return v;
  else if constexpr (is_complex_v<From>) {
    if constexpr (is_complex_v<To>)
      return To(static_cast<real_t<To>>(v.re), static_cast<real_t<To>>(v.im));
    else if constexpr (std::is_same_v<To, bool>)
      return v.re != 0 || v.im != 0;
    else
      return convert<To>(v.re);
  } else if constexpr (is_half_v<From>)
    return convert<To>(static_cast<float>(v));
  else if constexpr (is_half_v<To>)
    return To(static_cast<float>(v));
  else if constexpr (is_complex_v<To>)
    return To(static_cast<real_t<To>>(v), 0);
  else if constexpr (std::is_same_v<To, bool>)
    return v != 0;
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) < 8)
    return static_cast<To>(static_cast<int64_t>(v));
  else
    return static_cast<To>(v);
}

}  // namespace adjoint
