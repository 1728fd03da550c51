// Operations on the bits of integers; on bool they are logic.
#pragma once

#include "ops/contract/op.h"

namespace adjoint::inline ADJOINT_ISA {

struct Bitwise : Binary {
  static constexpr TypeSet types = types::boolean | types::integer;
};

struct BitwiseAnd : Bitwise {
  static constexpr auto name = "bitwise_and";
  static constexpr auto python = "__and__";
  static constexpr auto doc = "Bitwise and of two tensors, element by element.";
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct BitwiseOr : Bitwise {
  static constexpr auto name = "bitwise_or";
  static constexpr auto python = "__or__";
  static constexpr auto doc = "Bitwise or of two tensors, element by element.";
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct BitwiseXor : Bitwise {
  static constexpr auto name = "bitwise_xor";
  static constexpr auto python = "__xor__";
  static constexpr auto doc = "Bitwise exclusive or of two tensors, element by element.";
  template <class T>
  ADJOINT_INLINE static T forward(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

struct BitwiseNot : Unary {
  static constexpr auto name = "bitwise_not";
  static constexpr bool out_converts = false;
  static constexpr auto python = "__invert__";
  static constexpr auto aliases = "bitwise_invert";
  static constexpr auto doc = "Bitwise complement of each element; logical not for bool.";
  static constexpr TypeSet types = types::boolean | types::integer;
  template <class T>
  ADJOINT_INLINE static T forward(T a) {
    if constexpr (std::is_same_v<T, bool>)
      return !a;
    else
      return static_cast<T>(~a);
  }
};

struct BitShift : Binary {
  static constexpr TypeSet types = types::integer;
  template <class T>
  static constexpr bool in_range(T by) {
    return by >= 0 && by < static_cast<T>(8 * sizeof(T));
  }
};

struct LeftShift : BitShift {
  static constexpr auto name = "bitwise_left_shift";
  static constexpr auto python = "__lshift__";
  static constexpr auto doc =
      "Bits of self moved up by other places; 0 where other is negative or not less than their number.";
  template <class T>
  ADJOINT_INLINE static T forward(T a, T by) {
    return in_range(by) ? static_cast<T>(static_cast<uint64_t>(a) << by) : T(0);
  }
};

struct RightShift : BitShift {
  static constexpr auto name = "bitwise_right_shift";
  static constexpr auto python = "__rshift__";
  static constexpr auto doc = "Bits of self moved down by other places, copies of the sign moving in.";
  template <class T>
  ADJOINT_INLINE static T forward(T a, T by) {
    return in_range(by) ? static_cast<T>(a >> by) : a < 0 ? T(-1) : T(0);
  }
};

using BitwiseOps = Family<BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot, LeftShift, RightShift>;

}  // namespace adjoint::inline ADJOINT_ISA
