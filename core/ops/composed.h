// Forms of arithmetic operators that are put together from others: a scale that is more than a number,
// quotients rounded as a text says. Nothing here has a rule: what is recorded are the operators that are
// called.
#pragma once

#include "ops/arithmetic.h"
#include "ops/division.h"
#include "ops/indexing.h"
#include "ops/part.h"

namespace adjoint {

struct Composite : Structured {
  static constexpr bool composite = true;
};

/// alpha * other, where alpha is of a type that the tensors have.
Tensor multiple(const Tensor& self, const Tensor& other, const Tensor& alpha);

/// `add(x, y, alpha=…)` on integers, or with a scale that is complex or a tensor.
struct AddMultiple : Composite {
  static constexpr auto name = "_add_multiple";
  static constexpr bool out_converts = true;
  static constexpr auto overloads = "add";
  static constexpr auto old_orders = "self, alpha, other";
  static constexpr auto doc = "self + alpha * other.";
  static constexpr auto signature = "self, other, *, alpha";
  static constexpr auto samples =
      Cases{"(3, 4), (4,), alpha=()", "(3, 4), (3, 1), alpha=2", "(0, 3), (), alpha=2"};
  static Tensor forward(const Tensor& self, const Tensor& other, const Tensor& alpha) {
    return call<Add>(self, multiple(self, other, alpha));
  }
};

struct SubMultiple : Composite {
  static constexpr auto name = "_sub_multiple";
  static constexpr bool out_converts = true;
  static constexpr auto overloads = "sub";
  static constexpr auto old_orders = "self, alpha, other";
  static constexpr auto doc = "self - alpha * other.";
  static constexpr auto signature = "self, other, *, alpha";
  static constexpr TypeSet types = types::numeric;
  static constexpr auto samples =
      Cases{"(3, 4), (4,), alpha=()", "(3, 4), (3, 1), alpha=2", "(0, 3), (), alpha=2"};
  static Tensor forward(const Tensor& self, const Tensor& other, const Tensor& alpha) {
    return call<Sub>(self, multiple(self, other, alpha));
  }
};

struct Rsub : Composite {
  static constexpr auto name = "rsub";
  static constexpr bool out_converts = true;
  static constexpr auto doc = "other - alpha * self.";
  static constexpr auto signature = "self, other, *, alpha=1";
  static constexpr TypeSet types = types::numeric;
  static constexpr auto samples = Cases{"(3, 4), (4,)", "(3, 4), (3, 1), alpha=2", "(0, 3), ()"};
  static constexpr auto orders = "self, other, alpha";
  static Tensor forward(const Tensor& self, const Tensor& other, Scalar alpha);
};

struct DivRounded : Composite {
  static constexpr auto name = "_div_rounded";
  static constexpr bool out_converts = true;
  static constexpr auto overloads = "div";
  static constexpr auto doc = "The quotient, rounded towards zero ('trunc') or down ('floor') where asked.";
  static constexpr auto signature = "self, other, *, rounding_mode";
  static constexpr TypeSet types = types::real;
  static constexpr auto samples =
      Cases{"(3, 4), (4,), rounding_mode='floor'", "(3, 4), (3, 1), rounding_mode='trunc'",
            "(0, 3), (), rounding_mode=None"};
  static Tensor forward(const Tensor& self, const Tensor& other, std::optional<Text> rounding_mode);
};

struct WhereTrue : Composite {
  static constexpr auto name = "_where_true";
  static constexpr auto overloads = "where";
  static constexpr auto doc = "The indices where the condition is not zero, one tensor per dimension.";
  static constexpr auto signature = "condition";
  static constexpr auto samples = Cases{"[[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]]", "(3, 4)", "(0, 3)"};
  static constexpr bool method = false;
  static constexpr bool differentiable = false;
  static Tensors forward(const Tensor& condition);
};

using Composed = Family<AddMultiple, SubMultiple, Rsub, DivRounded, WhereTrue>;

}  // namespace adjoint
