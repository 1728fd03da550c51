// Complex numbers: a plain pair and its arithmetic. Elementary functions are in kernels/cpu/math/complex.h.
//
// The type is the same for every instruction set, so its members are forced inline and leave no shared symbol
// behind.
#pragma once

namespace adjoint {

#define ADJOINT_PAIR [[gnu::always_inline]] constexpr

/// A complex number in the layout of std::complex<T>.
template <class T>
struct Complex {
  T re;
  T im;

  ADJOINT_PAIR Complex() : re(T(0)), im(T(0)) {}
  ADJOINT_PAIR Complex(T real, T imag = T(0)) : re(real), im(imag) {}
  template <class U>
    requires(!__is_same(U, T))
  ADJOINT_PAIR explicit Complex(Complex<U> z) : re(T(z.re)), im(T(z.im)) {}

#if defined(__ARM_FEATURE_FMA)
  ADJOINT_PAIR static T fused(T x, T y, T z) {
    return sizeof(T) == sizeof(float) ? T(__builtin_fmaf(float(x), float(y), float(z)))
                                      : T(__builtin_fma(double(x), double(y), double(z)));
  }
#endif
  ADJOINT_PAIR friend Complex operator+(Complex a) { return a; }
  ADJOINT_PAIR friend Complex operator-(Complex a) { return {-a.re, -a.im}; }
  ADJOINT_PAIR friend Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  ADJOINT_PAIR friend Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
  ADJOINT_PAIR friend Complex operator*(Complex a, Complex b) {
#if defined(__ARM_FEATURE_FMA)
    // Which product is part of a fused operation is said here: left to GCC, it is one of them in loops over
    // vectors, the other in those over what is left, so that bits would depend on an element's place. On
    // x86-64 it chooses the same in both.
    return {fused(-a.im, b.im, a.re * b.re), fused(a.im, b.re, a.re * b.im)};
#else
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
#endif
  }
  /// Smith's division: scaled by the larger part of b, hence no overflow in between. Division by zero gives
  /// the infinities or NaN of the two real divisions.
  ADJOINT_PAIR friend Complex operator/(Complex a, Complex b) {
    const T abs_re = b.re < T(0) ? -b.re : b.re, abs_im = b.im < T(0) ? -b.im : b.im;
    const bool swap = abs_re < abs_im;
    const T high = swap ? b.im : b.re, low = swap ? b.re : b.im;
    const T ratio = high == T(0) ? T(0) : low / high;
    const T denominator = high + low * ratio;
    const T re = swap ? a.re * ratio + a.im : a.re + a.im * ratio;
    const T im = swap ? a.im * ratio - a.re : a.im - a.re * ratio;
    return {re / denominator, im / denominator};
  }

  ADJOINT_PAIR friend Complex operator+(Complex a, T b) { return {a.re + b, a.im}; }
  ADJOINT_PAIR friend Complex operator+(T a, Complex b) { return {a + b.re, b.im}; }
  ADJOINT_PAIR friend Complex operator-(Complex a, T b) { return {a.re - b, a.im}; }
  ADJOINT_PAIR friend Complex operator-(T a, Complex b) { return {a - b.re, -b.im}; }
  ADJOINT_PAIR friend Complex operator*(Complex a, T b) { return {a.re * b, a.im * b}; }
  ADJOINT_PAIR friend Complex operator*(T a, Complex b) { return {a * b.re, a * b.im}; }
  ADJOINT_PAIR friend Complex operator/(Complex a, T b) { return {a.re / b, a.im / b}; }
  ADJOINT_PAIR friend Complex operator/(T a, Complex b) { return Complex(a) / b; }

  ADJOINT_PAIR Complex& operator+=(Complex b) { return *this = *this + b; }
  ADJOINT_PAIR Complex& operator-=(Complex b) { return *this = *this - b; }
  ADJOINT_PAIR Complex& operator*=(Complex b) { return *this = *this * b; }
  ADJOINT_PAIR Complex& operator/=(Complex b) { return *this = *this / b; }
  ADJOINT_PAIR Complex& operator+=(T b) { return *this = *this + b; }
  ADJOINT_PAIR Complex& operator-=(T b) { return *this = *this - b; }
  ADJOINT_PAIR Complex& operator*=(T b) { return *this = *this * b; }
  ADJOINT_PAIR Complex& operator/=(T b) { return *this = *this / b; }

  ADJOINT_PAIR friend bool operator==(Complex a, Complex b) { return a.re == b.re && a.im == b.im; }
  ADJOINT_PAIR friend bool operator==(Complex a, T b) { return a.re == b && a.im == T(0); }
};

#undef ADJOINT_PAIR

static_assert(sizeof(Complex<float>) == 8 && sizeof(Complex<double>) == 16);

}  // namespace adjoint
