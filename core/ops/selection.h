// Choosing among elements.
//
// A gradient goes where the value came from; where two inputs tie it is shared evenly by maximum and minimum and goes to
// the first by fmax and fmin, and at a bound of clamp it passes whole.
#pragma once

#include <limits>

#include "ops/arithmetic.h"
#include "ops/comparison.h"

namespace adjoint::inline ADJOINT_ISA {

#ifndef ADJOINT_KERNELS_ONLY
/// RuntimeError unless a value to fill with has no dimensions and fits the type.
void refuse_fill(const char* op, const Tensor& value, DType type);
#endif

struct Where : Ternary {
  static constexpr auto name = "where";
  static constexpr auto doc = "Elements of self where the condition holds, of other elsewhere.";
  static constexpr const char* inputs = "condition, self, other";
  static constexpr TypeSet types = types::all;
  static constexpr int condition = 0;
  static constexpr bool inplace = false;
  static constexpr bool method = false;  // x.where(condition, other) has another order
  template <class T> ADJOINT_INLINE static T forward(bool c, T a, T b) { return c ? a : b; }
  template <class C, class G> ADJOINT_INLINE static G vjp(Wrt<1>, Gradient<G> g, First<C> c) { return select(c.value, g.value, G(0)); }
  template <class C, class G> ADJOINT_INLINE static G vjp(Wrt<2>, Gradient<G> g, First<C> c) { return select(c.value, G(0), g.value); }
};

struct MaskedFill : Ternary {
  static constexpr auto name = "masked_fill";
  static constexpr auto doc = "value where mask holds, elements of self elsewhere.";
  static constexpr const char* inputs = "self, mask, value";
  static constexpr TypeSet types = types::all;
  static constexpr int condition = 1;
  static constexpr bool keeps_type = true;
  template <class T> ADJOINT_INLINE static T forward(T x, bool m, T v) { return m ? v : x; }
  template <class C, class G> ADJOINT_INLINE static G vjp(Wrt<0>, Gradient<G> g, Second<C> m) { return select(m.value, G(0), g.value); }
  template <class C, class G> ADJOINT_INLINE static G vjp(Wrt<2>, Gradient<G> g, Second<C> m) { return select(m.value, g.value, G(0)); }
#ifndef ADJOINT_KERNELS_ONLY
  static void check(const Tensor* in, DType type) { refuse_fill(name, in[2], type); }
#endif
};

struct Ordered : Binary {
  static constexpr TypeSet types = types::boolean | types::real;
  /// The share of g of an input whose value `won`, or tied.
  template <class G, class C> ADJOINT_INLINE static G share(G g, C lost, C tied) {
    return select(lost, G(0), select(tied, G(0.5) * g, g));
  }
};

struct Maximum : Ordered {
  static constexpr auto name = "maximum";
  static constexpr auto doc = "The larger of two elements; NaN where either is.";
  template <class T> ADJOINT_INLINE static T forward(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return math::max(a, b);
    else return select(a > b, a, b);
  }
  template <class T> ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> a, Second<T> b) {
    return share(g.value, a.value < b.value, a.value == b.value);
  }
  template <class T> ADJOINT_INLINE static T vjp(Wrt<1>, Gradient<T> g, First<T> a, Second<T> b) {
    return share(g.value, b.value < a.value, a.value == b.value);
  }
};

struct Minimum : Ordered {
  static constexpr auto name = "minimum";
  static constexpr auto doc = "The smaller of two elements; NaN where either is.";
  template <class T> ADJOINT_INLINE static T forward(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return math::min(a, b);
    else return select(a < b, a, b);
  }
  template <class T> ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> a, Second<T> b) {
    return share(g.value, a.value > b.value, a.value == b.value);
  }
  template <class T> ADJOINT_INLINE static T vjp(Wrt<1>, Gradient<T> g, First<T> a, Second<T> b) {
    return share(g.value, b.value > a.value, a.value == b.value);
  }
};

struct Fmax : Ordered {
  static constexpr auto name = "fmax";
  static constexpr auto doc = "The larger of two elements; the other where one is NaN.";
  template <class T> ADJOINT_INLINE static T forward(T a, T b) { return select(a >= b || b != b, a, b); }
  template <class T> ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> a, Second<T> b) {
    return select(a.value >= b.value || b.value != b.value, g.value, T(0));
  }
  template <class T> ADJOINT_INLINE static T vjp(Wrt<1>, Gradient<T> g, First<T> a, Second<T> b) {
    return select(a.value >= b.value || b.value != b.value, T(0), g.value);
  }
};

struct Fmin : Ordered {
  static constexpr auto name = "fmin";
  static constexpr auto doc = "The smaller of two elements; the other where one is NaN.";
  template <class T> ADJOINT_INLINE static T forward(T a, T b) { return select(a <= b || b != b, a, b); }
  template <class T> ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> a, Second<T> b) {
    return select(a.value <= b.value || b.value != b.value, g.value, T(0));
  }
  template <class T> ADJOINT_INLINE static T vjp(Wrt<1>, Gradient<T> g, First<T> a, Second<T> b) {
    return select(a.value <= b.value || b.value != b.value, T(0), g.value);
  }
};

struct Clamp : Unary {
  static constexpr auto name = "clamp";
  static constexpr auto aliases = "clip";
  static constexpr auto doc = "Each element limited to [min, max], either of which may be left out; max where max < min.";
  static constexpr auto parameters = "min=None, max=None";
  static constexpr bool wants_parameter = true;
  static constexpr TypeSet types = types::real;
  template <class T, class P> ADJOINT_INLINE static T forward(T x, P min, P max) {
    const T low = bound<T>(min, std::numeric_limits<T>::lowest()), high = bound<T>(max, std::numeric_limits<T>::max());
    const T y = select(x < low, low, x);
    return select(y > high, high, y);
  }
  // Comparison with a bound that is not given, a NaN, fails.
  template <class T> ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> x, T min, T max) {
    return select(x.value < min || x.value > max || x.value != x.value, T(0), g.value);
  }
};

struct NanToNum : Unary {
  static constexpr auto name = "nan_to_num";
  static constexpr auto doc = "NaN replaced by nan, infinities by posinf and neginf: the largest finite numbers where not given.";
  static constexpr auto parameters = "nan=0.0, posinf=None, neginf=None";
  static constexpr TypeSet types = types::boolean | types::real;
  template <class T, class P> ADJOINT_INLINE static T forward(T x, P nan, P posinf, P neginf) {
    if constexpr (std::is_integral_v<T>) {
      return x;
    } else {
      constexpr T most = std::numeric_limits<T>::max();
      const T high = select(posinf != posinf, most, posinf), low = select(neginf != neginf, -most, neginf);
      const T y = select(x == math::infinity<T>, high, select(x == -math::infinity<T>, low, x));
      return select(x != x, nan, y);
    }
  }
  template <class T> ADJOINT_INLINE static T vjp(Wrt<0>, Gradient<T> g, First<T> x, T, T, T) {
    return select(apply<IsFinite>(x.value), g.value, T(0));
  }
};

using Selection = Family<Where, MaskedFill, Maximum, Minimum, Fmax, Fmin, Clamp, NanToNum>;

}  // namespace adjoint::inline ADJOINT_ISA
