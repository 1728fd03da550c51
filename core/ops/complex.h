// Complex numbers and their parts.
#pragma once

#include "ops/op.h"

namespace adjoint::inline ADJOINT_ISA {

struct Conj : Unary {
  static constexpr auto name = "conj";
  static constexpr auto doc = "Complex conjugate of each element; real tensors are returned as they are.";
  static constexpr TypeSet types = types::numeric | types::boolean;
  template <class T> ADJOINT_INLINE static T forward(T x) {
    if constexpr (is_complex_v<T>) return math::conj(x);
    else return x;
  }
  template <class G> ADJOINT_INLINE static G vjp(Wrt<0>, Gradient<G> g) {
    if constexpr (requires { g.value.conj(); }) return g.value.conj();
    else return forward(g.value);
  }
};

using ComplexOps = Family<Conj>;

}  // namespace adjoint::inline ADJOINT_ISA
