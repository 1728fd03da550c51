// Comparison, the logic of its results, and questions about single elements. None has a derivative.
#pragma once

#include "ops/contract/op.h"

namespace adjoint::inline ADJOINT_ISA {

struct Comparison : Binary {
  static constexpr TypeSet types = types::boolean | types::real;
  static constexpr ResultType result = ResultType::Bool;
};

struct Equal : Comparison {
  static constexpr auto name = "eq";
  static constexpr auto python = "__eq__";
  static constexpr auto doc = "Whether elements are equal.";
  static constexpr TypeSet types = types::all;
  template <class T>
  ADJOINT_INLINE static bool forward(T a, T b) {
    return a == b;
  }
};
struct NotEqual : Comparison {
  static constexpr auto name = "ne";
  static constexpr auto python = "__ne__";
  static constexpr auto aliases = "not_equal";
  static constexpr auto doc = "Whether elements differ.";
  static constexpr TypeSet types = types::all;
  template <class T>
  ADJOINT_INLINE static bool forward(T a, T b) {
    return !(a == b);
  }
};
struct Less : Comparison {
  static constexpr auto name = "lt";
  static constexpr auto python = "__lt__";
  static constexpr auto aliases = "less";
  static constexpr auto doc = "Whether elements of self are less than those of other.";
  template <class T>
  ADJOINT_INLINE static bool forward(T a, T b) {
    return a < b;
  }
};
struct LessEqual : Comparison {
  static constexpr auto name = "le";
  static constexpr auto python = "__le__";
  static constexpr auto aliases = "less_equal";
  static constexpr auto doc = "Whether elements of self are at most those of other.";
  template <class T>
  ADJOINT_INLINE static bool forward(T a, T b) {
    return a <= b;
  }
};
struct Greater : Comparison {
  static constexpr auto name = "gt";
  static constexpr auto python = "__gt__";
  static constexpr auto aliases = "greater";
  static constexpr auto doc = "Whether elements of self are greater than those of other.";
  template <class T>
  ADJOINT_INLINE static bool forward(T a, T b) {
    return a > b;
  }
};
struct GreaterEqual : Comparison {
  static constexpr auto name = "ge";
  static constexpr auto python = "__ge__";
  static constexpr auto aliases = "greater_equal";
  static constexpr auto doc = "Whether elements of self are at least those of other.";
  template <class T>
  ADJOINT_INLINE static bool forward(T a, T b) {
    return a >= b;
  }
};

struct Logical : Binary {
  static constexpr TypeSet types = types::all;
  static constexpr ResultType result = ResultType::Bool;
  template <class T>
  ADJOINT_INLINE static bool truth(T x) {
    return !(x == T(0));
  }
};
struct LogicalAnd : Logical {
  static constexpr auto name = "logical_and";
  static constexpr auto doc = "Whether both elements are nonzero.";
  template <class T>
  ADJOINT_INLINE static bool forward(T a, T b) {
    return int(truth(a)) & int(truth(b));  // without a branch
  }
};
struct LogicalOr : Logical {
  static constexpr auto name = "logical_or";
  static constexpr auto doc = "Whether either element is nonzero.";
  template <class T>
  ADJOINT_INLINE static bool forward(T a, T b) {
    return int(truth(a)) | int(truth(b));
  }
};
struct LogicalXor : Logical {
  static constexpr auto name = "logical_xor";
  static constexpr auto doc = "Whether just one of the elements is nonzero.";
  template <class T>
  ADJOINT_INLINE static bool forward(T a, T b) {
    return truth(a) != truth(b);
  }
};
struct LogicalNot : Unary {
  static constexpr auto name = "logical_not";
  static constexpr auto doc = "Whether each element is zero.";
  static constexpr TypeSet types = types::all;
  static constexpr ResultType result = ResultType::Bool;
  template <class T>
  ADJOINT_INLINE static bool forward(T a) {
    return a == T(0);
  }
};

struct Predicate : Unary {
  static constexpr TypeSet types = types::all;
  static constexpr ResultType result = ResultType::Bool;
  static constexpr bool inplace = false;
};
struct IsNan : Predicate {
  static constexpr auto name = "isnan";
  static constexpr auto doc = "Whether each element is NaN; a complex one, whether either part is.";
  template <class T>
  ADJOINT_INLINE static bool forward(T x) {
    if constexpr (std::is_integral_v<T>)
      return false;
    else
      return math::isnan(x);
  }
};
struct IsInf : Predicate {
  static constexpr auto name = "isinf";
  static constexpr auto doc = "Whether each element is infinite; a complex one, whether either part is.";
  template <class T>
  ADJOINT_INLINE static bool forward(T x) {
    if constexpr (std::is_integral_v<T>)
      return false;
    else
      return math::isinf(x);
  }
};
struct IsFinite : Predicate {
  static constexpr auto name = "isfinite";
  static constexpr auto doc = "Whether each element is neither infinite nor NaN.";
  template <class T>
  ADJOINT_INLINE static bool forward(T x) {
    if constexpr (std::is_integral_v<T>)
      return true;
    else
      return math::isfinite(x);
  }
};
struct IsPosInf : Predicate {
  static constexpr auto name = "isposinf";
  static constexpr bool out_converts = false;
  static constexpr auto doc = "Whether each element is positive infinity.";
  static constexpr TypeSet types = types::boolean | types::real;
  template <class T>
  ADJOINT_INLINE static bool forward(T x) {
    if constexpr (std::is_integral_v<T>)
      return false;
    else
      return x == math::infinity<T>;
  }
};
struct IsNegInf : Predicate {
  static constexpr auto name = "isneginf";
  static constexpr bool out_converts = false;
  static constexpr auto doc = "Whether each element is negative infinity.";
  static constexpr TypeSet types = types::boolean | types::real;
  template <class T>
  ADJOINT_INLINE static bool forward(T x) {
    if constexpr (std::is_integral_v<T>)
      return false;
    else
      return x == -math::infinity<T>;
  }
};
struct SignBit : Predicate {
  static constexpr auto name = "signbit";
  static constexpr bool out_converts = false;
  static constexpr auto doc = "Whether each element has its sign bit set: negative numbers and -0.";
  static constexpr TypeSet types = types::boolean | types::real;
  template <class T>
  ADJOINT_INLINE static bool forward(T x) {
    if constexpr (std::is_integral_v<T>)
      return x < T(0);
    else
      return math::copysign(T(1), x) < T(0);
  }
};

using ComparisonOps = Family<Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, LogicalAnd, LogicalOr,
                             LogicalXor, LogicalNot, IsNan, IsInf, IsFinite, IsPosInf, IsNegInf, SignBit>;

}  // namespace adjoint::inline ADJOINT_ISA
