// Complex numbers and their parts.
//
// None of these is holomorphic: each states its gradient, ∂L/∂a + i ∂L/∂b for an input a + ib.
#pragma once

#include "ops/arithmetic.h"

namespace adjoint::inline ADJOINT_ISA {

struct Cos;
struct Sin;

#ifndef ADJOINT_KERNELS_ONLY
/// RuntimeError unless two parts have one type; a bare number takes that of the other.
void refuse_mixed_parts(const char* op, const Tensor* in);
#endif

struct Conj : Unary {
  static constexpr auto name = "conj";
  static constexpr bool out_converts = false;
  static constexpr auto aliases = "conj_physical";
  static constexpr auto doc = "Complex conjugate of each element; real tensors are returned as they are.";
  static constexpr TypeSet types = types::all;
  static constexpr TypeSet identity = types::boolean | types::real;
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    if constexpr (is_complex_v<T>)
      return math::conj(x);
    else
      return x;
  }
  template <class G>
  ADJOINT_INLINE static G vjp(Wrt<0>, Gradient<G> g) {
    return conj_of(g.value);
  }
};

struct RealPart : Unary {
  static constexpr auto name = "_real";
  static constexpr auto doc = "A copy of the real part; real tensors are returned as they are.";
  static constexpr TypeSet types = types::all;
  static constexpr TypeSet identity = types::boolean | types::real;
  static constexpr ResultType result = ResultType::Real;
  template <class T>
  ADJOINT_INLINE static auto forward(T x) {
    if constexpr (is_complex_v<T>)
      return x.re;
    else
      return x;
  }
  static One derivative() { return {}; }
};

struct Parts : Binary {
  static constexpr TypeSet types = types::bit(DType::Float32) | types::bit(DType::Float64);
  static constexpr ResultType result = ResultType::Complex;
  static constexpr bool inplace = false;
  static constexpr bool out_converts = false;
#ifndef ADJOINT_KERNELS_ONLY
  static void check(const Tensor* in, DType) { refuse_mixed_parts("complex or polar", in); }
#endif
};

struct ImagPart : Unary {
  static constexpr auto name = "_imag";
  static constexpr auto doc = "A copy of the imaginary part.";
  static constexpr TypeSet types = types::complex;
  static constexpr ResultType result = ResultType::Real;
  static constexpr bool inplace = false;
  template <class T>
  ADJOINT_INLINE static auto forward(T x) {
    return x.im;
  }
  template <class G>
  ADJOINT_INLINE static auto vjp(Wrt<0>, Gradient<G> g);
};

struct MakeComplex : Parts {
  static constexpr auto name = "complex";
  static constexpr auto doc = "Complex numbers of given real and imaginary parts.";
  static constexpr auto inputs = "real, imag";
  template <class T>
  ADJOINT_INLINE static Complex<T> forward(T re, T im) {
    return {re, im};
  }
  template <class G>
  ADJOINT_INLINE static auto vjp(Wrt<0>, Gradient<G> g) {
    return real_of(g.value);
  }
  template <class G>
  ADJOINT_INLINE static auto vjp(Wrt<1>, Gradient<G> g) {
    return apply<ImagPart>(g.value);
  }
};

template <class G>
ADJOINT_INLINE auto ImagPart::vjp(Wrt<0>, Gradient<G> g) {
  return apply<MakeComplex>(G(0), g.value);
}

struct Polar : Parts {
  static constexpr auto name = "polar";
  static constexpr auto doc = "Complex numbers of given absolute value and angle in radians.";
  static constexpr auto inputs = "abs, angle";
  template <class T>
  ADJOINT_INLINE static Complex<T> forward(T r, T angle) {
    return {r * math::cos(angle), r * math::sin(angle)};
  }
  // The parts of g along e^(i angle) and across it.
  template <class G, class T>
  ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<G> g, Second<T> angle) {
    return real_of(g.value) * apply<Cos>(angle.value) + apply<ImagPart>(g.value) * apply<Sin>(angle.value);
  }
  template <class G, class T>
  ADJOINT_INLINE static T vjp(Wrt<1>, Gradient<G> g, First<T> r, Second<T> angle) {
    return r.value *
           (apply<ImagPart>(g.value) * apply<Cos>(angle.value) - real_of(g.value) * apply<Sin>(angle.value));
  }
};

struct Angle : FloatFunction {
  static constexpr bool in_vectors = false;
  static constexpr auto name = "angle";
  static constexpr auto doc = "Angle of each element in radians, in (-pi, pi]; 0 or pi for real elements.";
  static constexpr ResultType result = ResultType::Real;
  static constexpr bool inplace = false;
  template <class T>
  ADJOINT_INLINE static auto forward(T x) {
    if constexpr (is_complex_v<T>)
      return math::angle(x);
    else
      return select(x < T(0), T(3.14159265358979323846), select(x != x, x, T(0)));
  }
  // The gradient of the angle of z is i z / |z|², 0 for z = 0; that of a real number is 0.
  template <class G, class T>
  ADJOINT_INLINE static auto vjp(Wrt<0>, Gradient<G> g, First<T> z) {
    if constexpr (std::is_arithmetic_v<T>)
      return T(0);
    else
      return across(g.value, z.value);
  }
  template <class G, class T>
  ADJOINT_INLINE static T across(G g, T z) {
#ifndef ADJOINT_KERNELS_ONLY
    if constexpr (std::is_same_v<T, Recorded>)
      if (!z.tensor.is_complex()) return g * T(0);
#endif
    const auto re = real_of(z), im = apply<ImagPart>(z), square = re * re + im * im;
    using R = std::remove_const_t<decltype(square)>;
    const R scale = select(square == R(0), R(0), g / select(square == R(0), R(1), square));
    return apply<MakeComplex>(-im * scale, re * scale);
  }
};

using ComplexOps = Family<Conj, RealPart, ImagPart, MakeComplex, Polar, Angle>;

}  // namespace adjoint::inline ADJOINT_ISA
