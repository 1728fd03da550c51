// Numbers beside elements: what fits, and how a bare number is kept until its type is known. See Note:
// numbers beside tensors.
#include "tensor/number.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tensor/device.h"

namespace adjoint {

namespace {

/// NaN and infinities are numbers of every floating-point type.
bool within(double value, double most) { return !(std::abs(value) > most) || std::isinf(value); }

/// Whether a number of the type's category or below becomes an element and can be had back, but for rounding.
bool holds(DType type, const Scalar& value) {
  if (!is_integral(type)) return fits(value, type);
  return visit(type, [&](auto tag) {
    return convert<int64_t>(value.to<typename decltype(tag)::type>()) == value.as_int();
  });
}

/// The C++ types by which torch's messages name elements.
constexpr const char* kElementNames[kDTypes] = {"bool",
                                                "uint8_t",
                                                "int8_t",
                                                "int16_t",
                                                "int",
                                                "int64_t",
                                                "c10::Half",
                                                "c10::BFloat16",
                                                "float",
                                                "double",
                                                "c10::complex<float>",
                                                "c10::complex<double>"};

}  // namespace

void refuse_dtype(DType type, const char* op, const char* why) {
  fail<NotImplemented>(op, "(): not implemented for '", name_of(type), "'", why);
}

double largest_of(DType type) {
  switch (real_dtype(type)) {
    case DType::Float16:
      return 65504;
    case DType::BFloat16:
      return 3.3895313892515355e38;
    case DType::Float32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

[[gnu::hot]] bool fits(const Scalar& value, DType type) {
  if (type == DType::Bool) return true;
  const auto z = value.as_complex();
  if (value.is_complex() && !is_complex(type) && z.im != 0) return false;
  if (!is_integral(type)) return within(z.re, largest_of(type)) && within(z.im, largest_of(type));
  return visit(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      constexpr bool has_sign = std::is_signed_v<T>;
      constexpr T most = std::numeric_limits<T>::max();
      if (value.is_integral()) {
        const int64_t v = value.as_int();
        return v <= static_cast<int64_t>(most) &&
               v >= (has_sign ? static_cast<int64_t>(std::numeric_limits<T>::lowest())
                              : -static_cast<int64_t>(most));
      }
      // The largest int64 is no double; the next number, a power of two, is.
      const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
      return z.re >= (has_sign ? -end : 0.0) && (sizeof(T) < 8 ? z.re <= end - 1 : z.re < end);
    } else {
      return true;
    }
  });
}

void refuse_overflow(const Scalar& value, DType type, const char* op) {
  if (!fits(value, type))
    fail("value cannot be converted to type ", kElementNames[index_of(type)], " without overflow: ", op,
         "() was given ", to_string(value), " for elements of ", name_of(type),
         value.is_complex() && !is_complex(type)
             ? ": Converting complex Scalar to non-complex type is not supported; take .real of it first"
             : "");
}

[[gnu::hot]] Tensor wrap_number(const Scalar& value, DType like) {
  // The number takes the tensor's type at once where that is what promotion would give and nothing is lost by
  // it: the operator may compute in a wider one, half types always do.
  DType dtype = value.kind() == Category::Floating  ? DType::Float64
                : value.kind() == Category::Complex ? DType::Complex128
                                                    : value.dtype();
  if (value.kind() <= category(like) && compute_dtype(like) == like && holds(like, value))
    dtype = like;
  else if (value.kind() == Category::Complex && is_floating(like) && fits(value, complex_dtype(like)))
    dtype = complex_dtype(like);
  // A number is read where it meets a tensor, wherever that is.
  if (thread_state.device != Device::CPU) [[unlikely]] {
    DeviceScope cpu(Device::CPU);
    return wrap_number(value, like);
  }
  // Whoever looks on knows a bare number by its value: one that is kept from before is met as a new one is.
  struct Unseen {
    const bool watched = std::exchange(thread_state.watched, false);
    ~Unseen() { thread_state.watched = watched; }
  } unseen;
  Tensor t = scalar_tensor(value, dtype);
  t->flags |= TensorImpl::kWrapped;
  return t;
}

bool aligned_for(const Tensor& t, DType dtype) {
  return reinterpret_cast<uintptr_t>(t.bytes()) %
             static_cast<size_t>(std::min<int64_t>(itemsize(dtype), 8)) ==
         0;
}

Tensor from_bytes(std::span<const std::byte> bytes) {
  const auto n = static_cast<int64_t>(bytes.size());
  const Tensor t = empty({&n, 1}, DType::UInt8);
  std::memcpy(t.bytes(), bytes.data(), bytes.size());
  return t;
}

std::span<const std::byte> bytes_of(const Tensor& t) {
  return {reinterpret_cast<const std::byte*>(t.bytes()), static_cast<size_t>(t.numel() * t.itemsize())};
}

}  // namespace adjoint
