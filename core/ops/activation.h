// Activation functions of networks.
//
// At a kink the gradient is the side of least norm: 0 for relu at 0 and for relu6, hardtanh, hardsigmoid and
// hardswish at the bounds of their flat parts. Rules take the result where it says on which side the input
// lay, since the input may then be overwritten. Formulas keep what is not selected finite.
#pragma once

#include "ops/exponential.h"
#include "ops/selection.h"
#include "ops/special.h"

namespace adjoint::inline ADJOINT_ISA {

struct Activation : Unary {
  static constexpr TypeSet types = types::floating;
  static constexpr Domain samples{-4, 4};
};

struct Relu : Activation {
  static constexpr auto name = "relu";
  static constexpr auto doc = "max(x, 0) of each element x; its derivative at 0 is 0.";
  static constexpr TypeSet types = types::real;
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return select(x < T(0), T(0), x);
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, Result<T> y) {
    return select(y.value <= T(0), T(0), g.value);
  }
};

struct Hardtanh : Activation {
  static constexpr auto name = "hardtanh";
  static constexpr auto doc = "Each element limited to [min_val, max_val]; the derivative at both is 0.";
  static constexpr auto parameters = "min_val=-1.0, max_val=1.0";
  static constexpr TypeSet types = types::real;
  template <class T, class P>
  ADJOINT_INLINE static T forward(T x, P min, P max) {
    const T low = bound<T>(min), high = bound<T>(max);
    return Minimum::forward(Maximum::forward(x, low), high);
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> x, T min, T max) {
    return select(x.value <= min || x.value >= max, T(0), g.value);
  }
};

struct Relu6 : Activation {
  static constexpr auto name = "relu6";
  static constexpr auto recorded_as = "hardtanh";
  static constexpr auto doc = "Each element limited to [0, 6]; the derivative at both is 0.";
  static constexpr Domain samples{-4, 9};
  static constexpr TypeSet types = types::real;
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return select(x < T(0), T(0), select(x > T(6), T(6), x));
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> x) {
    return select(x.value <= T(0) || x.value >= T(6), T(0), g.value);
  }
};

struct LeakyRelu : Activation {
  static constexpr auto name = "leaky_relu";
  static constexpr auto doc = "Each element where it is positive, negative_slope times it elsewhere.";
  static constexpr auto parameters = "negative_slope=0.01";
  template <class T>
  ADJOINT_INLINE static T forward(T x, T slope) {
    return select(x > T(0), x, slope * x);
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> x, T slope) {
    return select(x.value > T(0), g.value, slope * g.value);
  }
};

struct Threshold : Activation {
  static constexpr auto name = "threshold";
  static constexpr auto doc = "Each element where it is above threshold, value elsewhere.";
  static constexpr auto parameters = "threshold=0.0, value=0.0";
  template <class T>
  ADJOINT_INLINE static T forward(T x, T threshold, T value) {
    return select(x <= threshold, value, x);
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> x, T threshold, T) {
    return select(x.value <= threshold, T(0), g.value);
  }
};

struct Elu : Activation {
  static constexpr auto name = "elu";
  static constexpr auto doc =
      "scale * x where x is positive, scale * alpha * (e^(input_scale * x) - 1) elsewhere.";
  static constexpr auto parameters = "alpha=1.0, scale=1.0, input_scale=1.0";
  template <class T>
  ADJOINT_INLINE static T forward(T x, T alpha, T scale, T input_scale) {
    return scale * select(x <= T(0), alpha * math::expm1(x * input_scale), x);
  }
  // Blocks without an exponential are common, and cost nothing but memory.
  template <class T>
  static void all(T* out, const T* x, int64_t n, T alpha, T scale, T input_scale) {
    constexpr int64_t kBlock = 256;
    for (int64_t at = 0; at < n; at += kBlock) {
      const int64_t m = n - at < kBlock ? n - at : kBlock;
      int left = 0;
      for (int64_t i = at; i < at + m; ++i) left |= x[i] > T(0) ? 0 : 1;
      if (left) {
        ADJOINT_INDEPENDENT
        for (int64_t i = at; i < at + m; ++i) out[i] = forward(x[i], alpha, scale, input_scale);
      } else {
        ADJOINT_INDEPENDENT
        for (int64_t i = at; i < at + m; ++i) out[i] = scale * x[i];
      }
    }
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x, T alpha, T scale, T input_scale) {
    // At 0 the second derivative is that of the right side.
    const T power = apply<Exp>(select(x.value < T(0), x.value * input_scale, T(0)));
    return scale * select(x.value <= T(0), alpha * input_scale * power, T(1));
  }
};

struct Selu : Activation {
  static constexpr auto name = "selu";
  static constexpr auto recorded_as = "elu";
  static constexpr auto doc =
      "The scaled elu whose fixed point is mean 0 and variance 1 (Klambauer and others, 2017).";
  static constexpr double alpha = 1.6732632423543772848170429916717,
                          scale = 1.0507009873554804934193349852946;
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return Elu::forward(x, T(alpha), T(scale), T(1));
  }
  template <class T>
  static void all(T* out, const T* x, int64_t n) {
    Elu::all(out, x, n, T(alpha), T(scale), T(1));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return Elu::derivative(x, T(alpha), T(scale), T(1));
  }
};

struct Celu : Activation {
  static constexpr bool in_vectors = true;
  static constexpr auto name = "celu";
  static constexpr auto doc =
      "x where it is positive, alpha * (e^(x / alpha) - 1) elsewhere: smooth for every alpha.";
  static constexpr auto parameters = "alpha=1.0";
  template <class T>
  ADJOINT_INLINE static T forward(T x, T alpha) {
    return Elu::forward(x, alpha, T(1), T(1) / alpha);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x, T alpha) {
    return apply<Exp>(select(x.value < T(0), x.value / alpha, T(0)));
  }
};

/// Not for users, who find them in `nn.functional`.
struct Gate : Binary {
  static constexpr bool inplace = false;
  static constexpr bool method = false;
  static constexpr Domain samples{-4, 4};
};

/// The slope of prelu. At the kink it is not differentiated, so that neither mixed derivative has a value
/// there.
struct PreluSlope : Gate {
  static constexpr auto name = "_prelu_slope";
  static constexpr auto doc = "1 where self is positive, other elsewhere.";
  static constexpr TypeSet types = types::floating;
  template <class T>
  ADJOINT_INLINE static T forward(T x, T w) {
    return select(x > T(0), T(1), w);
  }
  static Zero derivative(Wrt<0>) { return {}; }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, First<T> x) {
    return select(x.value < T(0), T(1), T(0));
  }
};

struct Prelu : Gate {
  static constexpr auto name = "_prelu";
  static constexpr auto recorded_as = "prelu_kernel";
  static constexpr auto doc = "self where it is positive, other * self elsewhere.";
  static constexpr TypeSet types = types::floating;
  template <class T>
  ADJOINT_INLINE static T forward(T x, T w) {
    return select(x > T(0), x, w * x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, First<T> x, Second<T> w) {
    return apply<PreluSlope>(x.value, w.value);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, First<T> x) {
    return select(x.value >= T(0), T(0), x.value);
  }
};

struct Glu : Gate {
  static constexpr bool in_vectors = true;
  static constexpr auto name = "_glu";
  static constexpr auto doc = "self times the sigmoid of other.";
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    return a * math::sigmoid(b);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<0>, Second<T> b) {
    return apply<Sigmoid>(b.value);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(Wrt<1>, First<T> a, Second<T> b) {
    const T s = apply<Sigmoid>(b.value);
    return a.value * (s * (T(1) - s));
  }
};

struct GeluNone : Activation {
  static constexpr bool in_vectors = true;
  static constexpr auto name = "_gelu_none";
  static constexpr auto recorded_as = "gelu";
  static constexpr auto doc = "x Φ(x) for each element x, Φ the normal distribution function.";
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return x * (T(0.5) * (T(1) + math::erf(x * T(0.70710678118654752440))));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    const T density = T(0.39894228040143267794) * apply<Exp>(T(-0.5) * (x.value * x.value));
    return T(0.5) * (T(1) + apply<Erf>(x.value * T(0.70710678118654752440))) + x.value * density;
  }
};

struct Tanh;

struct GeluTanh : Activation {
  static constexpr bool in_vectors = true;
  static constexpr auto name = "_gelu_tanh";
  static constexpr auto recorded_as = "gelu";
  static constexpr auto doc = "x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2 for each element x: nearly x Φ(x).";
  static constexpr double a = 0.79788456080286535588, b = 0.044715;
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return T(0.5) * x * (T(1) + math::tanh(T(a) * x * (T(1) + T(b) * x * x)));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    const T square = x.value * x.value;
    const T t = apply<Tanh>(T(a) * x.value * (T(1) + T(b) * square));
    return T(0.5) * (T(1) + t) + T(0.5) * x.value * ((T(1) - t * t) * (T(a) * (T(1) + T(3 * b) * square)));
  }
};

struct Silu : Activation {
  static constexpr bool in_vectors = true;
  static constexpr auto name = "silu";
  static constexpr auto doc = "x / (1 + e^-x) for each element x.";
  static constexpr TypeSet types = types::field;
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return x * math::sigmoid(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    const T s = apply<Sigmoid>(x.value);
    return s * (T(1) + x.value * (T(1) - s));
  }
};

struct LogSigmoid;

struct Mish : Activation {
  static constexpr bool in_vectors = true;
  static constexpr auto name = "mish";
  static constexpr auto doc = "x tanh(log(1 + e^x)) for each element x.";
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return x * math::tanh(math::softplus1(x));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    const T t = apply<Tanh>(-apply<LogSigmoid>(-x.value));
    return t + x.value * (apply<Sigmoid>(x.value) * (T(1) - t * t));
  }
};

struct LogSigmoid : Activation {
  static constexpr bool in_vectors = true;
  static constexpr auto name = "log_sigmoid";
  static constexpr auto doc = "-log(1 + e^-x) for each element x.";
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return -math::softplus1(-x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return apply<Sigmoid>(-x.value);
  }
};

struct Hardsigmoid : Activation {
  static constexpr auto name = "hardsigmoid";
  static constexpr auto doc = "x / 6 + 1/2 of each element x, limited to [0, 1].";
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return Relu6::forward(x + T(3)) / T(6);
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> x) {
    return select(x.value > T(-3) && x.value < T(3), g.value / T(6), T(0));
  }
};

struct Hardswish : Activation {
  static constexpr auto name = "hardswish";
  static constexpr auto doc = "x hardsigmoid(x) for each element x.";
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return x * Hardsigmoid::forward(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    return select(x.value <= T(-3), T(0), select(x.value < T(3), x.value / T(3) + T(0.5), T(1)));
  }
};

struct Softsign : Activation {
  static constexpr auto name = "softsign";
  static constexpr auto doc = "x / (1 + |x|) for each element x.";
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return x / (T(1) + math::abs(x));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    const T d = T(1) + apply<Abs>(x.value);
    return T(1) / (d * d);
  }
};

struct Tanhshrink : Activation {
  static constexpr bool in_vectors = true;
  static constexpr auto name = "tanhshrink";
  static constexpr auto doc = "x - tanh(x) for each element x.";
  static constexpr TypeSet types = types::field;
  template <class T>
  ADJOINT_INLINE static T forward(T x) {
    return x - math::tanh(x);
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x) {
    const T t = apply<Tanh>(x.value);
    return t * t;
  }
};

struct Softshrink : Activation {
  static constexpr auto name = "softshrink";
  static constexpr auto doc = "Soft shrinkage: each element moved by lambd towards 0, at most to 0.";
  static constexpr auto parameters = "lambd=0.5";
  template <class T>
  ADJOINT_INLINE static T forward(T x, T lambda) {
    return select(x > lambda, x - lambda, select(x < -lambda, x + lambda, T(0) * x));
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> x, T lambda) {
    return select(x.value >= -lambda && x.value <= lambda, T(0), g.value);
  }
};

struct Hardshrink : Activation {
  static constexpr auto name = "hardshrink";
  static constexpr auto doc =
      "Hard shrinkage: each element where its absolute value is above lambd, 0 elsewhere.";
  static constexpr auto parameters = "lambd=0.5";
  template <class T>
  ADJOINT_INLINE static T forward(T x, T lambda) {
    return select(x >= -lambda && x <= lambda, T(0), x);
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> x, T lambda) {
    return select(x.value >= -lambda && x.value <= lambda, T(0), g.value);
  }
};

using Activations = Family<Relu, Hardtanh, Relu6, LeakyRelu, Threshold, Elu, Selu, Celu, PreluSlope, Prelu,
                           Glu, GeluNone, GeluTanh, Silu, Mish, LogSigmoid, Hardsigmoid, Hardswish, Softsign,
                           Tanhshrink, Softshrink, Hardshrink>;

}  // namespace adjoint::inline ADJOINT_ISA
