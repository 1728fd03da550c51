// Powers.
//
// d a^b / da = b a^(b-1), which is 0 for b = 0 at any a, even 0. d a^b / db = a^b log a, which is 0 where a =
// 0 and b >= 0. Both are written so that what is not selected stays finite: recorded derivatives
// differentiate it too.
#pragma once

#include "ops/arithmetic.h"

namespace adjoint::inline ADJOINT_ISA {

struct Log;

struct Pow : Binary {
  static constexpr bool in_vectors = true;
  static constexpr auto name = "pow";
  static constexpr auto python = "__pow__";
  static constexpr auto aliases = "power";
  static constexpr auto doc =
      "self to the power of exponent. Integers stay integers: negative powers of them round to 0.";
  static constexpr auto inputs = "self, exponent";
  static constexpr TypeSet types = types::all;
  static constexpr bool checks_values = true;
  static constexpr Domain samples{0.4, 2};

  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    if constexpr (std::is_same_v<T, bool>)
      return a || !b;
    else if constexpr (std::is_integral_v<T>)
      return integer_power(a, b);
    else if (named(b))
      return by_name(a, b);
    else
      return math::pow(a, b);
  }
#if ADJOINT_HAS_FMA
  template <class T>
  ADJOINT_INLINE static T forward_quick(T a, T b) {
    return select(named(b), math::not_a_number<T>, math::pow(a, b));
  }
  template <class T>
  ADJOINT_INLINE static T derivative_quick(Wrt<0>, First<T> a, Second<T> b) {
    return select(b.value == T(0), b.value, b.value * forward_quick(a.value, b.value - T(1)));
  }
#endif

  template <class T>
  static T integer_power(T a, T b) {
    if (b < 0) return a == 1 ? T(1) : std::is_signed_v<T> && a == T(-1) ? (b & 1 ? a : T(1)) : T(0);
    auto result = modular(T(1)), square = modular(a);
    for (; b; b = static_cast<T>(b >> 1)) {
      if (b & 1) result = static_cast<decltype(result)>(result * square);
      square = static_cast<decltype(square)>(square * square);
    }
    return static_cast<T>(result);
  }

  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, First<T> a, Second<T> b) {
#ifndef ADJOINT_KERNELS_ONLY
    if constexpr (std::is_same_v<T, Recorded>)
      if (b.value.tensor.is_wrapped() && !b.value.tensor.is_complex())
        return slope(a.value, item(b.value.tensor).as_double());
#endif
    if constexpr (std::is_floating_point_v<T>)
      return b.value == T(0) ? b.value : b.value * forward(a.value, b.value - T(1));
    else
      return b.value * apply<Pow>(select(b.value == T(0), base_of_slope(a.value), a.value), b.value - T(1));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, First<T> a, Second<T> b, Result<T> r) {
#ifndef ADJOINT_KERNELS_ONLY
    if constexpr (std::is_same_v<T, Recorded>)
      if (a.value.tensor.is_wrapped()) return slope_of_exponent(item(a.value.tensor), b.value, r.value);
#endif
    if constexpr (std::is_floating_point_v<T>) {  // without a branch
      return r.value * math::log(select(a.value == T(0), select(b.value >= T(0), T(1), T(0)), a.value));
    } else {
      return r.value *
             apply<Log>(select(a.value == T(0) && real_of(b.value) >= real_of(T(0)), T(1), a.value));
    }
  }

  /// 0 · a^-1 is 0 for any a, though its derivative by the 0 is 1/a: another base only where a^-1 or its
  /// derivative is not finite.
  template <class T>
  ADJOINT_INLINE static T base_of_slope(const T& a) {
    return select(real_of(conj_of(a) * a) > real_of(T(0)), a, T(1));
  }

#ifndef ADJOINT_KERNELS_ONLY
  /// p a^(p-1) for a bare number p, by the fewest recorded operations.
  template <class T>
  static T slope(T a, double p) {
    if (p == 0 || p == 1) return T(p);
    return p == 2 ? T(2) * a : T(p) * apply<Pow>(a, T(p - 1));
  }
  /// a^b log a for a bare number a.
  template <class T>
  static T slope_of_exponent(const Scalar& a, const T& b, const T& r) {
    const Complex<double> z = a.as_complex();
    if (z.re == 0 && z.im == 0) return r * select(real_of(b) >= T(0), T(0), T(-math::infinity<double>));
    if (!a.is_complex() && !r.tensor.is_complex()) return r * T(math::log(a.as_double()));
    return r * T(wrap_number(Scalar(math::log(z)), DType::Complex128));
  }
  // As torch has it: for a bare number only.
  static void check(const Tensor* in, DType type) {
    if (is_integral(type) && in[1].is_wrapped() && item(in[1]).as_int() < 0)
      fail("pow(): Integers to negative integer powers are not allowed; got exponent ", item(in[1]).as_int(),
           " for a tensor of type ", name_of(in[0].dtype()));
  }
#endif

  // Exponents that have a loop of their own. They have the same formula everywhere, so that the bits of a
  // power depend neither on its neighbours nor on how the exponent was given.
  template <class T>
  ADJOINT_INLINE static bool named(T b) {
    if constexpr (is_complex_v<T>)
      return b == T(1) || b == T(2) || b == T(3);
    else
      return b == T(3) || math::abs(b) == T(1) || math::abs(b) == T(2) || math::abs(b) == T(0.5);
  }
  template <class T>
  ADJOINT_INLINE static T by_name(T a, T b) {
    if (b == T(2)) return Mul::forward(a, a);
    if (b == T(3)) return cube(a);
    if constexpr (std::is_floating_point_v<T>) {
      if (b == T(0.5)) return root(a);
      if (b == T(-0.5)) return T(1) / root(a);
      if (b == T(-1)) return T(1) / a;
      if (b == T(-2)) return T(1) / (a * a);
    }
    return a;  // b = 1
  }
  /// Within 0.5 ulp and a little: what the two products round away is added.
  template <class T>
  ADJOINT_INLINE static T cube(T a) {
    const T square = Mul::forward(a, a), p = Mul::forward(square, a);
    if constexpr (std::is_floating_point_v<T>) {
      const T rest = math::product_error(square, a, p) + math::product_error(a, a, square) * a;
      return select(math::abs(p) < math::infinity<T> && p != T(0), p + rest, p);
    }
    return p;
  }
  /// The square root as pow has it: of -0 it is 0, of -inf inf.
  template <class T>
  ADJOINT_INLINE static T root(T a) {
    return select(a == -math::infinity<T>, math::infinity<T>, math::sqrt(a) + T(0));
  }
  template <class T>
  ADJOINT_INLINE static bool uniform(T* out, const T* a, T b, int64_t n) {
    auto each = [&](auto f) {
      ADJOINT_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) out[i] = f(a[i]);
      return true;
    };
    if (b == T(1)) return each([](T x) { return x; });
    if (b == T(2)) return each([](T x) { return Mul::forward(x, x); });
    if (b == T(3)) return each([](T x) { return cube(x); });
    if constexpr (std::is_floating_point_v<T>) {
      if (b == T(0.5)) return each([](T x) { return root(x); });
      if (b == T(-0.5)) return each([](T x) { return T(1) / root(x); });
      if (b == T(-1)) return each([](T x) { return T(1) / x; });
      if (b == T(-2)) return each([](T x) { return T(1) / (x * x); });
    }
    return false;
  }
  template <class T>
  ADJOINT_INLINE static bool uniform(Wrt<0>, T* out, const T* g, const T* a, T b, int64_t n) {
    auto each = [&](auto f) {
      ADJOINT_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) out[i] = g[i] * conj_of(f(a[i]));
      return true;
    };
    if (b == T(2)) return each([](T x) { return x + x; });
    if (b == T(3)) return each([](T x) { return T(3) * Mul::forward(x, x); });
    if constexpr (std::is_floating_point_v<T>) {
      if (b == T(0.5)) return each([](T x) { return T(0.5) * (T(1) / root(x)); });
      if (b == T(-1)) return each([](T x) { return -(T(1) / (x * x)); });
    }
    return false;
  }
};

using Powers = Family<Pow>;

}  // namespace adjoint::inline ADJOINT_ISA
