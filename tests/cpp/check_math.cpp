// Evaluates one scalar function on raw binary values, for check_math.py to judge.
//
//   check_math NAME f32|f64|c64|c128 [repetitions] < values > results
//
// The input of a function of two arguments is all first arguments, then all second ones. The loops are the
// ones that the kernels use, so that vector code is what is tested. With repetitions, results are computed so
// often and the nanoseconds per element go to the standard error.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernels/cpu/math/math.h"

namespace math = adjoint::math;
using adjoint::Complex;

template <class T>
using Unary = void (*)(const T*, T*, long);
template <class T>
using Binary = void (*)(const T*, const T*, T*, long);

#define UNARY(name)                                             \
  if (!std::strcmp(wanted, #name))                              \
  return [](const T* __restrict x, T* __restrict out, long n) { \
    for (long i = 0; i < n; ++i) out[i] = math::name(x[i]);     \
  }
#define BINARY(name)                                                                   \
  if (!std::strcmp(wanted, #name))                                                     \
  return [](const T* __restrict x, const T* __restrict y, T* __restrict out, long n) { \
    for (long i = 0; i < n; ++i) out[i] = math::name(x[i], y[i]);                      \
  }

template <class T>
Unary<T> find_real(const char* wanted) {
  UNARY(exp2);
  UNARY(log2);
  UNARY(log10);
  UNARY(expm1);
  UNARY(log1p);
  UNARY(sigmoid);
  UNARY(exp);
  UNARY(log);
  UNARY(sin);
  UNARY(cos);
  UNARY(tan);
  UNARY(asin);
  UNARY(acos);
  UNARY(atan);
  UNARY(sinh);
  UNARY(cosh);
  UNARY(tanh);
  UNARY(asinh);
  UNARY(acosh);
  UNARY(atanh);
  UNARY(sqrt);
  UNARY(sin_in_range);
  UNARY(cos_in_range);
  UNARY(tan_in_range);
  UNARY(erf);
  UNARY(erfc);
  UNARY(erfinv);
  UNARY(lgamma);
  UNARY(digamma);
  UNARY(softplus1);
  UNARY(log_sigmoid);
  UNARY(cbrt);
  UNARY(rsqrt);
  UNARY(abs);
  UNARY(floor);
  UNARY(ceil);
  UNARY(trunc);
  UNARY(round);
  UNARY(sign);
  return nullptr;
}

template <class T>
Unary<T> find_mapped(const char* wanted) {
  if (!std::strcmp(wanted, "sin_mapped"))
    return [](const T* __restrict x, T* __restrict out, long n) {
      math::map_in_range(
          x, out, n, [](T v) { return math::sin_in_range(v); }, [](T v) { return math::sin(v); });
    };
  return find_real<T>(wanted);
}

template <class T>
Unary<T> find_complex(const char* wanted) {
  UNARY(exp2);
  UNARY(log2);
  UNARY(log10);
  UNARY(expm1);
  UNARY(log1p);
  UNARY(sigmoid);
  UNARY(exp);
  UNARY(log);
  UNARY(sin);
  UNARY(cos);
  UNARY(tan);
  UNARY(asin);
  UNARY(acos);
  UNARY(atan);
  UNARY(sinh);
  UNARY(cosh);
  UNARY(tanh);
  UNARY(asinh);
  UNARY(acosh);
  UNARY(atanh);
  UNARY(sqrt);
  UNARY(reciprocal);
  UNARY(sgn);
  UNARY(conj);
  return nullptr;
}

template <class T>
Binary<T> find_real2(const char* wanted) {
  BINARY(pow);
  BINARY(atan2);
  BINARY(hypot);
  BINARY(fmod);
  BINARY(floor_mod);
  BINARY(floor_divide);
  BINARY(min);
  BINARY(max);
  BINARY(copysign);
  return nullptr;
}

template <class T>
Binary<T> find_complex2(const char* wanted) {
  BINARY(pow);
  if (!std::strcmp(wanted, "divide"))
    return [](const T* x, const T* y, T* out, long n) {
      for (long i = 0; i < n; ++i) out[i] = x[i] / y[i];
    };
  return nullptr;
}

template <class T>
int run(Unary<T> unary, Binary<T> binary, long repetitions) {
  if (!unary && !binary) return std::fprintf(stderr, "no such function\n"), 2;
  std::vector<T> x;
  T buffer[512];
  while (std::size_t got = std::fread(static_cast<void*>(buffer), sizeof(T), 512, stdin))
    x.insert(x.end(), buffer, buffer + got);
  const long n = unary ? long(x.size()) : long(x.size()) / 2;
  std::vector<T> out(static_cast<std::size_t>(n));
  const auto evaluate = [&] {
    unary ? unary(x.data(), out.data(), n) : binary(x.data(), x.data() + n, out.data(), n);
  };
  evaluate();
  if (repetitions > 0) {
    double best = 1e300;
    for (int sample = 0; sample < 7; ++sample) {
      const auto start = std::chrono::steady_clock::now();
      for (long i = 0; i < repetitions; ++i) evaluate();
      const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
      if (spent.count() < best) best = spent.count();
    }
    std::fprintf(stderr, "%.4f\n", best / double(repetitions) / double(n));
  }
  return std::fwrite(static_cast<void*>(out.data()), sizeof(T), out.size(), stdout) == out.size() ? 0 : 1;
}

int main(int count, char** arguments) {
  if (count < 3) return std::fprintf(stderr, "usage: check_math NAME f32|f64|c64|c128 [repetitions]\n"), 2;
  const char* name = arguments[1];
  const char* type = arguments[2];
  const long repetitions = count > 3 ? std::atol(arguments[3]) : 0;
  if (!std::strcmp(type, "f32"))
    return run<float>(find_mapped<float>(name), find_real2<float>(name), repetitions);
  if (!std::strcmp(type, "f64"))
    return run<double>(find_mapped<double>(name), find_real2<double>(name), repetitions);
  using C64 = Complex<float>;
  using C128 = Complex<double>;
  if (!std::strcmp(type, "c64"))
    return run<C64>(find_complex<C64>(name), find_complex2<C64>(name), repetitions);
  if (!std::strcmp(type, "c128"))
    return run<C128>(find_complex<C128>(name), find_complex2<C128>(name), repetitions);
  return std::fprintf(stderr, "no such dtype\n"), 2;
}
