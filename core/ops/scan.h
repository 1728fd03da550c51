// Running reductions along one dimension: the i-th result is a reduction of the first i + 1 elements.
//
// The gradient of every scan that multiplies is a linear recurrence run the other way, s[i] = b[i] + a[i+1]
// s[i+1]: `LinearScan`. It divides by nothing, hence zeros need no care, and it is closed under
// differentiation. `Shift` moves a tensor by one along the dimension, as the recurrence's own gradient asks.
#pragma once

#include "kernels/scan.h"
#include "ops/contract/op.h"
#include "ops/reduction.h"

namespace adjoint {

namespace rules {
Tensors linear_scan(const Tensor& g, const Tensor& a, const Tensor& result, int64_t dim, bool reverse,
                    bool of_a);
Tensor cumprod(const Tensor& g, const Tensor& self, const Tensor& result, int64_t dim);
Tensor logcumsumexp(const Tensor& g, const Tensor& self, const Tensor& result, int64_t dim);
}  // namespace rules

struct ReversedCumsum;

struct Cumsum : Structured {
  static constexpr auto name = "cumsum";
  static constexpr bool out_converts = true;
  static constexpr bool inplace = true;
  static constexpr auto doc = "Cumulative sum along a dimension. Integers add up in int64.";
  static constexpr auto signature = "self, dim, *, dtype=None";
  static constexpr auto samples = Cases{"(3, 4), 1", "(3, 4), 0, dtype=complex128", "(0, 3), 1", "(), 0"};
  static Tensor forward(Into into, const Tensor& self, Dim dim, OptionalType dtype) {
    return kernels::cumsum(into, self, dim, dtype, false, name);
  }
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<int64_t, "dim"> dim) { return call<ReversedCumsum>(g, dim.value); }};
};

struct ReversedCumsum : Structured {
  static constexpr auto name = "_reversed_cumsum";
  static constexpr auto doc = "Sums of the elements from here to the end of a dimension.";
  static constexpr auto signature = "self, dim";
  static constexpr auto samples = Cases{"(3, 4), 1", "(0, 3), 1", "(), 0"};
  static Tensor forward(Into into, const Tensor& self, Dim dim) {
    return kernels::cumsum(into, self, dim, {}, true, name);
  }
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<int64_t, "dim"> dim) { return call<Cumsum>(g, dim.value, OptionalType()); }};
};

struct Cumprod : Structured {
  static constexpr auto name = "cumprod";
  static constexpr bool out_converts = true;
  static constexpr bool inplace = true;
  static constexpr auto doc = "Cumulative product along a dimension. Integers multiply in int64.";
  static constexpr auto signature = "self, dim, *, dtype=None";
  static constexpr auto samples = Cases{"(3, 4), 1", "[[0.0, 2.0, 3.0], [4.0, 0.0, 0.0]], -1",
                                        "(3, 2), 0, dtype=complex128", "(0, 3), 1", "(), 0"};
  static Tensor forward(Into into, const Tensor& self, Dim dim, OptionalType dtype) {
    return kernels::cumprod(into, self, dim, dtype, name);
  }
  static constexpr auto vjp =
      Rules{[](Grad g, Input<"self"> self, Output<> result, Argument<int64_t, "dim"> dim) {
        return rules::cumprod(g, self, result, dim);
      }};
};

struct LogCumSumExp : Structured {
  static constexpr auto name = "logcumsumexp";
  static constexpr auto doc = "Cumulative log(sum(exp(x))) along a dimension, without overflow in between.";
  static constexpr auto signature = "self, dim";
  static constexpr TypeSet types = types::field;
  static constexpr auto samples = Cases{"(3, 4), 1", "(3, 4), 0", "(0, 3), 1", "(), 0"};
  static Tensor forward(Into into, const Tensor& self, Dim dim) {
    return kernels::logcumsumexp(into, self, dim, name);
  }
  static constexpr auto vjp =
      Rules{[](Grad g, Input<"self"> self, Output<> result, Argument<int64_t, "dim"> dim) {
        return rules::logcumsumexp(g, self, result, dim);
      }};
};

/// The rule of values that were taken by index along one dimension.
inline constexpr auto taken_along_rule = [](Grad g, Output<"indices"> indices, Shape<"self"> s,
                                            Argument<int64_t, "dim"> dim) {
  return rules::scatter_into_zeros(g, indices, s, dim, true);
};

struct Cummax : Structured {
  static constexpr auto name = "cummax";
  static constexpr auto doc =
      "Cumulative maximum along a dimension, and the last index at which it is found.";
  static constexpr auto signature = "self, dim";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples = Cases{"(3, 4), 1", "(3, 4), 0", "(0, 3), 1", "(), 0"};
  static constexpr auto returns = "values, indices";
  static std::tuple<Tensor, Tensor> forward(Into into, const Tensor& self, Dim dim) {
    return kernels::cumulative_extreme(into, self, dim, true, name);
  }
  static constexpr auto vjp = Rules{taken_along_rule};
};

struct Cummin : Structured {
  using rules_like = Cummax;
  static constexpr auto name = "cummin";
  static constexpr auto doc =
      "Cumulative minimum along a dimension, and the last index at which it is found.";
  static constexpr auto signature = "self, dim";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples = Cases{"(3, 4), 1", "(3, 4), 0", "(0, 3), 1", "(), 0"};
  static constexpr auto returns = "values, indices";
  static std::tuple<Tensor, Tensor> forward(Into into, const Tensor& self, Dim dim) {
    return kernels::cumulative_extreme(into, self, dim, false, name);
  }
  static constexpr auto vjp = Rules{taken_along_rule};
};

struct LinearScan : Structured {
  static constexpr auto name = "_linear_scan";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "s[i] = other[i] + self[i] s[i-1] along a dimension; in reverse s[i] = other[i] + self[i+1] s[i+1].";
  static constexpr auto signature = "self, other, dim, reverse=False";
  static constexpr TypeSet types = types::field;
  static constexpr auto samples =
      Cases{"(3, 4), (3, 4), 1", "(3, 4), (3, 4), 0, reverse=True", "(0, 3), (0, 3), 1"};
  static Tensor forward(const Tensor& self, const Tensor& other, Dim dim, bool reverse) {
    return kernels::linear_scan(self, other, dim, reverse);
  }
  static constexpr auto vjp =
      JointRule{[](Grad g, Input<"self"> a, NeededBy<Output<>, "self"> result, Argument<int64_t, "dim"> dim,
                   Argument<bool, "reverse"> reverse,
                   Needed<"self"> of_a) { return rules::linear_scan(g, a, result, dim, reverse, of_a); }};
};

struct Shift : Structured {
  static constexpr auto name = "_shift";
  static constexpr auto doc =
      "The elements moved on by one place along a dimension (by = 1) or back (by = -1), with a number in the "
      "place left free.";
  static constexpr auto signature = "self, dim, by, fill=0.0";
  static constexpr auto samples = Cases{"(3, 4), 1, 1", "(3, 4), 0, -1, fill=2.0", "(0, 3), 1, 1"};
  static Tensor forward(const Tensor& self, Dim dim, int64_t by, double fill) {
    return kernels::shift(self, dim, by, fill);
  }
  static constexpr auto vjp = Rules{[](Grad g, Argument<int64_t, "dim"> dim, Argument<int64_t, "by"> by) {
    return call<Shift>(g, dim.value, -by.value, 0.0);
  }};
};

struct ProductOfOthers : Structured {
  static constexpr auto name = "_product_of_others";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "The product of all the other elements along a dimension, divided by nothing; NaN where the element "
      "itself is.";
  static constexpr auto signature = "self, dim";
  static constexpr TypeSet types = types::field;
  static constexpr auto samples = Cases{"(3, 4), 1", "[[0.0, 2.0, 3.0], [0.0, 0.0, 4.0]], 0", "(0, 3), 1"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& self, Dim dim) { return kernels::product_of_others(self, dim); }
};

using Scan =
    Family<Cumsum, ReversedCumsum, Cumprod, LogCumSumExp, Cummax, Cummin, LinearScan, Shift, ProductOfOthers>;

}  // namespace adjoint
