// Choosing among elements.
#pragma once

#include "ops/op.h"

namespace adjoint::inline ADJOINT_ISA {

struct Where : Ternary {
  static constexpr auto name = "where";
  static constexpr auto doc = "Elements of self where the condition holds, of other elsewhere.";
  static constexpr const char* inputs = "condition, self, other";
  static constexpr TypeSet types = types::all;
  static constexpr bool condition = true;
  static constexpr bool inplace = false;
  template <class T> ADJOINT_INLINE static T forward(bool c, T a, T b) { return c ? a : b; }
  template <class C, class G> ADJOINT_INLINE static G vjp(Wrt<1>, Gradient<G> g, First<C> c) { return select(c.value, g.value, G(0)); }
  template <class C, class G> ADJOINT_INLINE static G vjp(Wrt<2>, Gradient<G> g, First<C> c) { return select(c.value, G(0), g.value); }
};

using Selection = Family<Where>;

}  // namespace adjoint::inline ADJOINT_ISA
