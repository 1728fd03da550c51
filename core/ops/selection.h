// Choosing among elements.
//
// A gradient goes where the value came from; where two inputs tie it is shared evenly by maximum and minimum
// and goes to the first by fmax and fmin, and at a bound of clamp it passes whole. A bare number that the
// elements cannot hold is refused.
#pragma once

#include <limits>

#include "ops/arithmetic.h"
#include "ops/comparison.h"
#include "ops/complex.h"
#ifndef ADJOINT_KERNELS_ONLY
#include "tensor/number.h"
#endif

namespace adjoint::inline ADJOINT_ISA {

#ifndef ADJOINT_KERNELS_ONLY
/// RuntimeError unless a value to fill with has no dimensions and fits the type.
void refuse_fill(const char* op, const Tensor& value, DType type);
#endif

struct Where : Ternary {
  static constexpr auto name = "where";
  static constexpr bool out_converts = false;
  static constexpr auto doc = "Elements of self where the condition holds, of other elsewhere.";
  static constexpr const char* inputs = "condition, self, other";
  static constexpr TypeSet types = types::all;
  static constexpr int condition = 0;
  static constexpr bool inplace = false;
  static constexpr bool method = false;  // x.where(condition, other) has another order
  template <class T>
  ADJOINT_INLINE static T forward(bool c, T a, T b) {
    return c ? a : b;
  }
  template <class C, class G>
  ADJOINT_INLINE static G vjp(Wrt<1>, Gradient<G> g, First<C> c) {
    return select(c.value, g.value, G(0));
  }
  template <class C, class G>
  ADJOINT_INLINE static G vjp(Wrt<2>, Gradient<G> g, First<C> c) {
    return select(c.value, G(0), g.value);
  }
#ifndef ADJOINT_KERNELS_ONLY
  static void check(const Tensor* in, DType type) {
    refuse_overflow(in[1], rounding_dtype(type), name);
    refuse_overflow(in[2], rounding_dtype(type), name);
  }
#endif
};

struct MaskedFill : Ternary {
  static constexpr auto name = "masked_fill";
  static constexpr auto doc = "Fill with a value where a mask is true.";
  static constexpr const char* inputs = "self, mask, value";
  static constexpr TypeSet types = types::all;
  static constexpr int condition = 1;
  static constexpr bool keeps_type = true;
  template <class T>
  ADJOINT_INLINE static T forward(T x, bool m, T v) {
    return m ? v : x;
  }
  template <class C, class G>
  ADJOINT_INLINE static G vjp(Wrt<0>, Gradient<G> g, Second<C> m) {
    return select(m.value, G(0), g.value);
  }
  template <class C, class G>
  ADJOINT_INLINE static G vjp(Wrt<2>, Gradient<G> g, Second<C> m) {
    return select(m.value, g.value, G(0));
  }
#ifndef ADJOINT_KERNELS_ONLY
  static void check(const Tensor* in, DType type) { refuse_fill(name, in[2], type); }
#endif
};

struct Ordered : Binary {
  static constexpr TypeSet types = types::boolean | types::real;
  /// The share of g of an input whose value `won`, or tied.
  template <class G, class C>
  ADJOINT_INLINE static G share(G g, C lost, C tied) {
    return select(lost, G(0), select(tied, G(0.5) * g, g));
  }
};

struct Maximum : Ordered {
  static constexpr auto name = "maximum";
  static constexpr auto overloads = "max";
  static constexpr auto doc = "Element-wise maximum of two tensors; NaN where either is.";
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return math::max(a, b);
    else
      return select(a > b, a, b);
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> a, Second<T> b) {
    return share(g.value, a.value < b.value, a.value == b.value);
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<1>, Gradient<T> g, First<T> a, Second<T> b) {
    return share(g.value, b.value < a.value, a.value == b.value);
  }
};

struct Minimum : Ordered {
  static constexpr auto name = "minimum";
  static constexpr auto overloads = "min";
  static constexpr auto doc = "Element-wise minimum of two tensors; NaN where either is.";
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return math::min(a, b);
    else
      return select(a < b, a, b);
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> a, Second<T> b) {
    return share(g.value, a.value > b.value, a.value == b.value);
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<1>, Gradient<T> g, First<T> a, Second<T> b) {
    return share(g.value, b.value > a.value, a.value == b.value);
  }
};

struct Fmax : Ordered {
  static constexpr auto name = "fmax";
  static constexpr auto doc = "Element-wise maximum of two tensors; the other element where one is NaN.";
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    return select(a >= b || b != b, a, b);
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> a, Second<T> b) {
    return select(a.value >= b.value || b.value != b.value, g.value, T(0));
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<1>, Gradient<T> g, First<T> a, Second<T> b) {
    return select(a.value >= b.value || b.value != b.value, T(0), g.value);
  }
};

struct Fmin : Ordered {
  static constexpr auto name = "fmin";
  static constexpr auto doc = "Element-wise minimum of two tensors; the other element where one is NaN.";
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    return select(a <= b || b != b, a, b);
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> a, Second<T> b) {
    return select(a.value <= b.value || b.value != b.value, g.value, T(0));
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<1>, Gradient<T> g, First<T> a, Second<T> b) {
    return select(a.value <= b.value || b.value != b.value, T(0), g.value);
  }
};

// The limits of clamp. A NaN in an element or in a bound stays; at a bound the gradient is the element's.
struct ClampMin : Binary {
  static constexpr auto name = "clamp_min";
  static constexpr auto doc = "Each element, or min where that is larger.";
  static constexpr auto inputs = "self, min";
  static constexpr TypeSet types = types::real | types::boolean;
  template <class T>
  ADJOINT_INLINE static T forward(T x, T min) {
    return Maximum::forward(x, min);
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> x, Second<T> min) {
    return select(x.value >= min.value, g.value, T(0));
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<1>, Gradient<T> g, First<T> x, Second<T> min) {
    return select(x.value < min.value, g.value, T(0));
  }
#ifndef ADJOINT_KERNELS_ONLY
  static void check(const Tensor* in, DType type) { refuse_overflow(in[1], type, name); }
#endif
};

struct ClampMax : Binary {
  static constexpr auto name = "clamp_max";
  static constexpr auto doc = "Each element, or max where that is smaller.";
  static constexpr auto inputs = "self, max";
  static constexpr TypeSet types = types::real | types::boolean;
  template <class T>
  ADJOINT_INLINE static T forward(T x, T max) {
    return Minimum::forward(x, max);
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> x, Second<T> max) {
    return select(x.value <= max.value, g.value, T(0));
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<1>, Gradient<T> g, First<T> x, Second<T> max) {
    return select(x.value > max.value, g.value, T(0));
  }
#ifndef ADJOINT_KERNELS_ONLY
  static void check(const Tensor* in, DType type) { refuse_overflow(in[1], type, name); }
#endif
};

struct Clamp : Ternary {
  static constexpr auto name = "clamp";
  static constexpr auto aliases = "clip";
  static constexpr auto doc =
      "Each element limited to [min, max], either of which may be left out; max where max < min.";
  static constexpr auto inputs = "self, min=None, max=None";
  using without_second = ClampMax;
  using without_third = ClampMin;
  static constexpr TypeSet types = types::real;
  template <class T>
  ADJOINT_INLINE static T forward(T x, T min, T max) {
    return Minimum::forward(Maximum::forward(x, min), max);
  }
  /// Between two numbers: one instruction each, where `forward` takes three for a NaN that a bound might be.
  template <class T>
  ADJOINT_INLINE static bool uniform(T* out, const T* x, T min, T max, int64_t n) {
    if (min != min || max != max) return false;
    ADJOINT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      const T raised = select(min > x[i], min, x[i]);
      out[i] = select(max < raised, max, raised);
    }
    return true;
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> x, Second<T> min, Third<T> max) {
    return select(x.value >= min.value && x.value <= max.value, g.value, T(0));
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<1>, Gradient<T> g, First<T> x, Second<T> min, Third<T> max) {
    return select(x.value < min.value && min.value <= max.value, g.value, T(0));
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<2>, Gradient<T> g, First<T> x, Second<T> min, Third<T> max) {
    return select(x.value > max.value || min.value > max.value, g.value, T(0));
  }
#ifndef ADJOINT_KERNELS_ONLY
  static void check(const Tensor* in, DType type) {
    refuse_overflow(in[1], type, name);
    refuse_overflow(in[2], type, name);
  }
#endif
};

struct RenormFactor : Unary {
  static constexpr auto name = "_renorm_factor";
  static constexpr auto doc =
      "What a slice of this norm is multiplied by, so that its norm is at most maxnorm. In double precision: "
      "by rounding, too, nothing becomes too long.";
  static constexpr auto parameters = "maxnorm=1.0";
  static constexpr TypeSet types = types::floating;
  static constexpr Domain samples{0, 3};
  static constexpr bool inplace = false;
  static constexpr bool method = false;
  /// torch's guard against a norm of nothing.
  static constexpr double kLeast = 1e-7;
  template <class T>
  ADJOINT_INLINE static T forward(T x, T maxnorm) {
    return select(x > maxnorm, T(double(maxnorm) / (double(x) + kLeast)), T(1));
  }
  template <class T>
  ADJOINT_INLINE static T derivative(First<T> x, Result<T> y, T maxnorm) {
    return select(x.value > maxnorm, -y.value / (x.value + T(kLeast)), T(0));
  }
};

struct NanToNum : Unary {
  static constexpr auto name = "nan_to_num";
  static constexpr bool out_converts = false;
  static constexpr auto doc =
      "NaN replaced by nan, 0 where not given, infinities by posinf and neginf: the largest finite numbers "
      "where not given. Of complex numbers, in each part.";
  static constexpr auto parameters = "nan=None, posinf=None, neginf=None";
  static constexpr TypeSet types = types::all;
  template <class T, class P>
  ADJOINT_INLINE static T forward(T x, P nan, P posinf, P neginf) {
    if constexpr (std::is_integral_v<T>) {
      return x;
    } else if constexpr (is_complex_v<T>) {
      return {forward(x.re, nan.re, posinf.re, neginf.re), forward(x.im, nan.re, posinf.re, neginf.re)};
    } else {
      const T y = select(x == math::infinity<T>, posinf, select(x == -math::infinity<T>, neginf, x));
      return select(x != x, nan, y);
    }
  }
  template <class T>
  ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> x, T, T, T) {
    if constexpr (is_complex_v<T>) return {kept(g.value.re, x.value.re), kept(g.value.im, x.value.im)};
#ifndef ADJOINT_KERNELS_ONLY
    else if constexpr (std::is_same_v<T, Recorded>)
      return x.value.tensor.is_complex()
                 ? apply<MakeComplex>(kept(real_of(g.value), real_of(x.value)),
                                      kept(apply<ImagPart>(g.value), apply<ImagPart>(x.value)))
                 : kept(g.value, x.value);
#endif
    else
      return kept(g.value, x.value);
  }
  template <class T>
  ADJOINT_INLINE static T kept(T g, T x) {
    return select(apply<IsFinite>(x), g, T(0));
  }
#ifndef ADJOINT_KERNELS_ONLY
  static double absent(int k, DType type) {
    return k == 0 || is_integral(type) ? 0 : (k == 2 ? -1 : 1) * largest_of(real_dtype(type));
  }
#endif
};

using Selection = Family<Where, MaskedFill, Maximum, Minimum, Fmax, Fmin, ClampMin, ClampMax, Clamp,
                         RenormFactor, NanToNum>;

}  // namespace adjoint::inline ADJOINT_ISA
