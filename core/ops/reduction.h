// Reductions over none (all), one or several dimensions.
//
// Integers and bool add up and multiply in int64; means and variances ask for floating point. An empty
// reduction gives the identity where there is one (0, 1, False, True, -inf for logsumexp, NaN for mean) and
// is refused for extremes. NaN propagates. Kinks follow the least-norm subgradient: a norm's gradient at 0 is
// 0; extremes over no or several dimensions share the gradient evenly among equals, those that report an
// index give it to that element. What runs is kernels/cpu/reduction.cpp; rules that are longer than a line
// are in ops/reduction.cpp.
#pragma once

#include "kernels/reduction.h"
#include "ops/contract/op.h"

namespace adjoint {

namespace rules {
/// A reduced result (or its gradient) with the reduced dimensions there again, of size 1: recorded.
Tensor keep(const Tensor& reduced, IntList sizes, const OptionalInts& dim, bool keepdim);
/// The same, expanded to the input's shape.
Tensor spread(const Tensor& g, IntList sizes, const OptionalInts& dim, bool keepdim);
/// Number of elements per result.
double length(IntList sizes, const OptionalInts& dim);
Tensor mean(const Tensor& g, IntList sizes, const OptionalInts& dim, bool keepdim);
Tensor prod(const Tensor& g, const Tensor& self, const OptionalInts& dim, bool keepdim);
Tensor var(const Tensor& g, const Tensor& self, const OptionalInts& dim, double correction, bool keepdim);
Tensor std(const Tensor& g, const Tensor& self, const Tensor& result, const OptionalInts& dim,
           double correction, bool keepdim);
/// g shared among the elements that equal the result. If that is NaN, so are all shares, unless `nan_equals`.
Tensor extreme(const Tensor& g, const Tensor& self, const Tensor& result, const OptionalInts& dim,
               bool keepdim, bool nan_equals);
Tensor logsumexp(const Tensor& g, const Tensor& self, const Tensor& result, const OptionalInts& dim,
                 bool keepdim);
Tensor vector_norm(const Tensor& g, const Tensor& self, const Tensor& result, double ord,
                   const OptionalInts& dim, bool keepdim);
/// g where the indices say, zeros elsewhere, in the shape `sizes`.
Tensor scatter_into_zeros(const Tensor& g, const Tensor& indices, IntList sizes, int64_t dim, bool keepdim);
/// g, and NaN where x is: the derivative by a NaN, which the other factors of a product alone decide.
Tensor nan_where_nan(const Tensor& g, const Recorded& x);
/// The sum of two gradients, either of which may be undefined.
Tensor add(const Tensor& a, const Tensor& b);
}  // namespace rules

struct Sum : Structured {
  static constexpr auto name = "sum";
  static constexpr auto recorded_as = [](Argument<OptionalInts, "dim"> dim) {
    return dim.value ? "sum.1" : "sum";
  };
  static constexpr bool out_converts = true;
  static constexpr auto doc = "Sum of the elements over the given dimensions. Integers add up in int64.";
  static constexpr auto signature = "self, dim=None, keepdim=False, *, dtype=None";
  static constexpr auto samples = Cases{"(3, 4)",
                                        "(3, 4), dim=1, keepdim=True",
                                        "(2, 3, 4), dim=[0, -1]",
                                        "(2, 3), dim=0, dtype=complex128",
                                        "(0, 3), dim=0",
                                        "()"};
  static Tensor forward(Into into, const Tensor& self, OptionalDims dim, bool keepdim, OptionalType dtype) {
    return kernels::sum(into, self, dim, keepdim, dtype, name);
  }
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Shape<"self"> s, Argument<OptionalInts, "dim"> dim,
               Argument<bool, "keepdim"> keepdim) { return rules::spread(g, s, dim, keepdim); }};
};

struct NanSum : Structured {
  static constexpr auto name = "nansum";
  static constexpr bool out_converts = true;
  static constexpr auto doc = "Sum of the elements over the given dimensions, NaN counted as 0.";
  static constexpr auto signature = "self, dim=None, keepdim=False, *, dtype=None";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples =
      Cases{"(3, 4)", "[[1.0, nan], [nan, 2.0]], dim=0, keepdim=True", "(2, 3, 4), dim=[0, -1]",
            "(2, 3), dim=0, dtype=float64", "(0, 3), dim=0"};
  static Tensor forward(Into into, const Tensor& self, OptionalDims dim, bool keepdim, OptionalType dtype) {
    return kernels::nansum(into, self, dim, keepdim, dtype, name);
  }
  static constexpr auto vjp = Rules{
      [](Grad g, Input<"self"> self, Argument<OptionalInts, "dim"> dim, Argument<bool, "keepdim"> keepdim) {
        const Recorded x(self);
        return select(x == x, Recorded(rules::spread(g, self.sizes(), dim, keepdim)), Recorded(0.0)).tensor;
      }};
};

struct Mean : Structured {
  static constexpr auto name = "mean";
  static constexpr auto recorded_as = [](Argument<OptionalInts, "dim"> dim) {
    return dim.value ? "mean.1" : "mean";
  };
  static constexpr bool out_converts = true;
  static constexpr auto doc = "Mean of the elements over the given dimensions; NaN where there are none.";
  static constexpr auto signature = "self, dim=None, keepdim=False, *, dtype=None";
  static constexpr TypeSet types = types::field;
  static constexpr auto samples = Cases{"(3, 4)",
                                        "(3, 4), dim=1, keepdim=True",
                                        "(2, 3, 4), dim=[0, -1]",
                                        "(2, 3), dim=0, dtype=complex128",
                                        "(0, 3), dim=1",
                                        "()"};
  static Tensor forward(Into into, const Tensor& self, OptionalDims dim, bool keepdim, OptionalType dtype) {
    return kernels::mean(into, self, dim, keepdim, dtype, name);
  }
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Shape<"self"> s, Argument<OptionalInts, "dim"> dim,
               Argument<bool, "keepdim"> keepdim) { return rules::mean(g, s, dim, keepdim); }};
};

struct Prod : Structured {
  static constexpr auto name = "prod";
  static constexpr auto recorded_as = [](Argument<OptionalInts, "dim"> dim) {
    return dim.value ? "prod.1" : "prod";
  };
  static constexpr bool out_converts = true;
  static constexpr auto doc =
      "Product of the elements over the given dimensions. Integers multiply in int64.";
  static constexpr auto signature = "self, dim=None, keepdim=False, *, dtype=None";
  static constexpr auto samples = Cases{"(3, 4)",
                                        "(3, 4), dim=1, keepdim=True",
                                        "[[0.0, 2.0, 3.0], [0.0, 0.0, 4.0]], dim=1",
                                        "(2, 3), dim=0, dtype=complex128",
                                        "(0, 3), dim=0",
                                        "()",
                                        "(2, 3, 4), dim=[0, 2]"};
  static Tensor forward(Into into, const Tensor& self, OptionalDims dim, bool keepdim, OptionalType dtype) {
    return kernels::prod(into, self, dim, keepdim, dtype, name);
  }
  static constexpr auto vjp =
      Rules{[](Grad g, Input<"self"> self, Argument<OptionalInts, "dim"> dim,
               Argument<bool, "keepdim"> keepdim) { return rules::prod(g, self, dim, keepdim); }};
};

struct Var : Structured {
  static constexpr auto name = "var";
  static constexpr bool out_converts = true;
  static constexpr auto doc =
      "Variance over the given dimensions: squared distances from the mean over n - correction. Real for "
      "complex input.";
  static constexpr auto signature = "self, dim=None, correction|unbiased=1, keepdim=False";
  static constexpr TypeSet types = types::field;
  static constexpr auto samples =
      Cases{"(3, 4)", "(3, 4), dim=1, keepdim=True", "(2, 3, 4), dim=[0, -1], correction=0", "(0, 3), dim=1"};
  static constexpr auto orders = "self, correction|unbiased";
  static Tensor forward(Into into, const Tensor& self, OptionalDims dim, std::optional<double> correction,
                        bool keepdim) {
    return std::get<0>(
        kernels::moments(into, self, dim, correction.value_or(1), keepdim, false, false, name));
  }
  static constexpr auto vjp =
      Rules{[](Grad g, Input<"self"> self, Argument<OptionalInts, "dim"> dim,
               Argument<std::optional<double>, "correction"> correction, Argument<bool, "keepdim"> keepdim) {
        return rules::var(g, self, dim, correction.value.value_or(1), keepdim);
      }};
};

struct Std : Structured {
  static constexpr auto name = "std";
  static constexpr bool out_converts = true;
  static constexpr auto doc = "Standard deviation over the given dimensions: the square root of `var`.";
  static constexpr auto signature = "self, dim=None, correction|unbiased=1, keepdim=False";
  static constexpr TypeSet types = types::field;
  static constexpr auto samples =
      Cases{"(3, 4)", "(3, 4), dim=1, keepdim=True", "(2, 3, 4), dim=[0, -1], correction=0", "(0, 3), dim=1"};
  static constexpr auto orders = "self, correction|unbiased";
  static Tensor forward(Into into, const Tensor& self, OptionalDims dim, std::optional<double> correction,
                        bool keepdim) {
    return std::get<0>(kernels::moments(into, self, dim, correction.value_or(1), keepdim, true, false, name));
  }
  static constexpr auto vjp =
      Rules{[](Grad g, Input<"self"> self, Output<> result, Argument<OptionalInts, "dim"> dim,
               Argument<std::optional<double>, "correction"> correction, Argument<bool, "keepdim"> keepdim) {
        return rules::std(g, self, result, dim, correction.value.value_or(1), keepdim);
      }};
};

struct VarMean : Structured {
  static constexpr auto name = "var_mean";
  static constexpr auto doc = "Variance and mean over the given dimensions, in one pass.";
  static constexpr auto signature = "self, dim=None, correction|unbiased=1, keepdim=False";
  static constexpr TypeSet types = types::field;
  static constexpr auto samples =
      Cases{"(3, 4)", "(3, 4), dim=1, keepdim=True", "(2, 3, 4), dim=[0, -1], correction=0", "(0, 3), dim=1"};
  static constexpr auto orders = "self, correction|unbiased";
  static constexpr auto returns = "var, mean";
  static constexpr bool method = false;
  static kernels::Pair forward(Into into, const Tensor& self, OptionalDims dim,
                               std::optional<double> correction, bool keepdim) {
    return kernels::moments(into, self, dim, correction.value_or(1), keepdim, false, true, name);
  }
  static constexpr auto vjp =
      Rules{[](GradOf<"var"> g, GradOf<"mean"> m, Input<"self"> self, Argument<OptionalInts, "dim"> dim,
               Argument<std::optional<double>, "correction"> correction, Argument<bool, "keepdim"> keepdim) {
        return rules::add(
            g.defined() ? rules::var(g, self, dim, correction.value.value_or(1), keepdim) : Tensor(),
            m.defined() ? rules::mean(m, self.sizes(), dim, keepdim) : Tensor());
      }};
};

struct StdMean : Structured {
  static constexpr auto name = "std_mean";
  static constexpr auto doc = "Standard deviation and mean over the given dimensions, in one pass.";
  static constexpr auto signature = "self, dim=None, correction|unbiased=1, keepdim=False";
  static constexpr TypeSet types = types::field;
  static constexpr auto samples =
      Cases{"(3, 4)", "(3, 4), dim=1, keepdim=True", "(2, 3, 4), dim=[0, -1], correction=0", "(0, 3), dim=1"};
  static constexpr auto orders = "self, correction|unbiased";
  static constexpr auto returns = "std, mean";
  static constexpr bool method = false;
  static kernels::Pair forward(Into into, const Tensor& self, OptionalDims dim,
                               std::optional<double> correction, bool keepdim) {
    return kernels::moments(into, self, dim, correction.value_or(1), keepdim, true, true, name);
  }
  static constexpr auto vjp =
      Rules{[](GradOf<"std"> g, GradOf<"mean"> m, Input<"self"> self, Output<"std"> result,
               Argument<OptionalInts, "dim"> dim, Argument<std::optional<double>, "correction"> correction,
               Argument<bool, "keepdim"> keepdim) {
        return rules::add(
            g.defined() ? rules::std(g, self, result, dim, correction.value.value_or(1), keepdim) : Tensor(),
            m.defined() ? rules::mean(m, self.sizes(), dim, keepdim) : Tensor());
      }};
};

/// The rule of extremes that share evenly.
inline constexpr auto shared_extreme_rule =
    [](Grad g, Input<"self"> self, Output<> result, Argument<OptionalInts, "dim"> dim,
       Argument<bool, "keepdim"> keepdim) { return rules::extreme(g, self, result, dim, keepdim, false); };

struct Amax : Structured {
  static constexpr auto name = "amax";
  static constexpr auto doc =
      "Largest element over the given dimensions. The gradient is shared evenly among equals.";
  static constexpr auto signature = "self, dim=None, keepdim=False";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples =
      Cases{"(3, 4)", "(3, 4), dim=1, keepdim=True", "(2, 3, 4), dim=[0, -1]", "(0, 3), dim=1", "()"};
  static Tensor forward(Into into, const Tensor& self, OptionalDims dim, bool keepdim) {
    return kernels::extreme(into, self, dim, keepdim, true, name);
  }
  static constexpr auto vjp = Rules{shared_extreme_rule};
};

struct Amin : Structured {
  using rules_like = Amax;
  static constexpr auto name = "amin";
  static constexpr auto doc =
      "Smallest element over the given dimensions. The gradient is shared evenly among equals.";
  static constexpr auto signature = "self, dim=None, keepdim=False";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples =
      Cases{"(3, 4)", "(3, 4), dim=1, keepdim=True", "(2, 3, 4), dim=[0, -1]", "(0, 3), dim=1", "()"};
  static Tensor forward(Into into, const Tensor& self, OptionalDims dim, bool keepdim) {
    return kernels::extreme(into, self, dim, keepdim, false, name);
  }
  static constexpr auto vjp = Rules{shared_extreme_rule};
};

struct MaxAll : Structured {
  static constexpr auto name = "_max_all";
  static constexpr auto recorded_as = "max.1";
  static constexpr bool out_converts = true;
  static void batch(BatchedCall& c, Batched<"self"> self);
  static constexpr auto overloads = "max";
  static constexpr auto doc = "Largest element of the tensor. The gradient is shared evenly among equals.";
  static constexpr auto signature = "self";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples = Cases{"(3, 4)", "()"};
  static Tensor forward(const Tensor& self) { return kernels::extreme_of_all(self, true, "max"); }
  static constexpr auto vjp = Rules{[](Grad g, Input<"self"> self, Output<> result) {
    return rules::extreme(g, self, result, {}, false, true);
  }};
};

struct MinAll : Structured {
  static constexpr auto name = "_min_all";
  static constexpr auto recorded_as = "min.1";
  static constexpr bool out_converts = true;
  static void batch(BatchedCall& c, Batched<"self"> self);
  static constexpr auto overloads = "min";
  static constexpr auto doc = "Smallest element of the tensor. The gradient is shared evenly among equals.";
  static constexpr auto signature = "self";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples = Cases{"(3, 4)", "()"};
  static Tensor forward(const Tensor& self) { return kernels::extreme_of_all(self, false, "min"); }
  static constexpr auto vjp = Rules{[](Grad g, Input<"self"> self, Output<> result) {
    return rules::extreme(g, self, result, {}, false, true);
  }};
};

/// The rule of values that were picked by index along one dimension.
inline constexpr auto extreme_index_rule =
    [](Grad g, Output<"indices"> indices, Shape<"self"> s, Argument<int64_t, "dim"> dim,
       Argument<bool, "keepdim"> keepdim) { return rules::scatter_into_zeros(g, indices, s, dim, keepdim); };

struct MaxDim : Structured {
  static constexpr auto name = "_max_dim";
  static constexpr auto recorded_as = "max";
  static constexpr auto overloads = "max";
  static constexpr auto doc =
      "Largest element along a dimension and the index where it is first found. The gradient goes to that "
      "element.";
  static constexpr auto signature = "self, dim, keepdim=False";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples = Cases{"(3, 4), 1", "(3, 4), 0, keepdim=True", "(), 0", "(0, 3), 1"};
  static constexpr auto returns = "values, indices";
  static kernels::Pair forward(Into into, const Tensor& self, Dim dim, bool keepdim) {
    return kernels::extreme_at(into, self, dim, keepdim, true, "max");
  }
  static constexpr auto vjp = Rules{extreme_index_rule};
};

struct MinDim : Structured {
  using rules_like = MaxDim;
  static constexpr auto name = "_min_dim";
  static constexpr auto recorded_as = "min";
  static constexpr auto overloads = "min";
  static constexpr auto doc =
      "Smallest element along a dimension and the index where it is first found. The gradient goes to that "
      "element.";
  static constexpr auto signature = "self, dim, keepdim=False";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples = Cases{"(3, 4), 1", "(3, 4), 0, keepdim=True", "(), 0", "(0, 3), 1"};
  static constexpr auto returns = "values, indices";
  static kernels::Pair forward(Into into, const Tensor& self, Dim dim, bool keepdim) {
    return kernels::extreme_at(into, self, dim, keepdim, false, "min");
  }
  static constexpr auto vjp = Rules{extreme_index_rule};
};

struct Aminmax : Structured {
  static constexpr auto name = "aminmax";
  static constexpr auto doc = "Smallest and largest element, of the tensor or along one dimension.";
  static constexpr auto signature = "self, *, dim=None, keepdim=False";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples = Cases{"(3, 4)", "(3, 4), dim=1, keepdim=True", "()", "(0, 3), dim=1"};
  static constexpr auto returns = "min, max";
  static kernels::Pair forward(Into into, const Tensor& self, OptionalDims dim, bool keepdim) {
    return {kernels::extreme(into, self, dim, keepdim, false, name, 0),
            kernels::extreme(into, self, dim, keepdim, true, name, 1)};
  }
  static constexpr auto vjp =
      Rules{[](GradOf<"min"> low, GradOf<"max"> high, Input<"self"> self, Output<"min"> min,
               Output<"max"> max, Argument<OptionalInts, "dim"> dim, Argument<bool, "keepdim"> keepdim) {
        return rules::add(low.defined() ? rules::extreme(low, self, min, dim, keepdim, false) : Tensor(),
                          high.defined() ? rules::extreme(high, self, max, dim, keepdim, false) : Tensor());
      }};
};

struct NoGradient : Structured {
  static constexpr bool differentiable = false;
};

struct Argmax : NoGradient {
  static constexpr auto name = "argmax";
  static constexpr auto doc =
      "Index of the first largest element: along a dimension, or in the flattened tensor. A NaN counts as "
      "largest.";
  static constexpr auto signature = "self, dim=None, keepdim=False";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples =
      Cases{"(3, 4)", "(3, 4), dim=1", "(3, 4), dim=0, keepdim=True", "(0, 3), dim=1", "()"};
  static Tensor forward(Into into, const Tensor& self, OptionalDim dim, bool keepdim) {
    return kernels::place_of_extreme(into, self, dim, keepdim, true, name);
  }
};

struct Argmin : NoGradient {
  static constexpr auto name = "argmin";
  static constexpr auto doc =
      "Index of the first smallest element: along a dimension, or in the flattened tensor. A NaN counts as "
      "smallest.";
  static constexpr auto signature = "self, dim=None, keepdim=False";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples =
      Cases{"(3, 4)", "(3, 4), dim=1", "(3, 4), dim=0, keepdim=True", "(0, 3), dim=1", "()"};
  static Tensor forward(Into into, const Tensor& self, OptionalDim dim, bool keepdim) {
    return kernels::place_of_extreme(into, self, dim, keepdim, false, name);
  }
};

struct All : NoGradient {
  static constexpr auto name = "all";
  static constexpr auto doc = "Whether all elements over the given dimensions are nonzero.";
  static constexpr auto signature = "self, dim=None, keepdim=False";
  static constexpr auto samples =
      Cases{"(3, 4)", "[[0.0, 2.0], [1.0, 3.0]], dim=1", "(0, 3), dim=[0], keepdim=True", "()"};
  static Tensor forward(Into into, const Tensor& self, OptionalDims dim, bool keepdim) {
    return kernels::truth(into, self, dim, keepdim, true, name);
  }
};

struct Any : NoGradient {
  static constexpr auto name = "any";
  static constexpr auto doc = "Whether any element over the given dimensions is nonzero.";
  static constexpr auto signature = "self, dim=None, keepdim=False";
  static constexpr auto samples =
      Cases{"(3, 4)", "[[0.0, 0.0], [1.0, 0.0]], dim=1", "(0, 3), dim=[0], keepdim=True", "()"};
  static Tensor forward(Into into, const Tensor& self, OptionalDims dim, bool keepdim) {
    return kernels::truth(into, self, dim, keepdim, false, name);
  }
};

struct SameElements : NoGradient {
  static constexpr auto name = "_same_elements";
  static constexpr auto doc =
      "Whether each element of one tensor equals that of another of its shape and type; the search ends at "
      "the "
      "first that does not.";
  static constexpr auto signature = "self, other";
  static constexpr bool method = false;
  static constexpr auto samples = Cases{
      "(3, 4), (3, 4)", "[[0.0, 2.0], [1.0, 3.0]], [[0.0, 2.0], [1.0, 3.0]]", "(0, 3), (0, 3)", "(), ()"};
  static Tensor forward(const Tensor& self, const Tensor& other) {
    return kernels::same_elements(self, other, name);
  }
};

struct CountNonzero : NoGradient {
  static constexpr auto name = "count_nonzero";
  static constexpr auto doc = "Number of nonzero elements over the given dimensions.";
  static constexpr auto signature = "self, dim=None";
  static constexpr auto samples = Cases{"[[0.0, 2.0], [0.0, 3.0]]", "[[0.0, 2.0], [0.0, 3.0]], dim=0",
                                        "(3, 4), dim=[0, 1]", "(0, 3), dim=0"};
  static Tensor forward(Into into, const Tensor& self, OptionalDims dim) {
    return kernels::count_nonzero(into, self, dim, name);
  }
};

struct LogSumExp : Structured {
  static constexpr auto name = "logsumexp";
  static constexpr bool out_converts = true;
  static constexpr auto doc = "log(sum(exp(x))) over the given dimensions, without overflow in between.";
  static constexpr auto signature = "self, dim, keepdim=False";
  static constexpr auto samples =
      Cases{"(3, 4), 1", "(3, 4), 0, keepdim=True", "(2, 3, 4), [0, -1]", "(0, 3), 0"};
  static Tensor forward(Into into, const Tensor& self, OptionalDims dim, bool keepdim) {
    return kernels::logsumexp(into, self, dim, keepdim, name);
  }
  static constexpr auto vjp = Rules{
      [](Grad g, Input<"self"> self, Output<> result, Argument<OptionalInts, "dim"> dim,
         Argument<bool, "keepdim"> keepdim) { return rules::logsumexp(g, self, result, dim, keepdim); }};
};

struct VectorNorm : Structured {
  static constexpr auto name = "_vector_norm";
  static constexpr auto recorded_as = "linalg_vector_norm";
  static constexpr auto doc =
      "Norm of the elements as a vector: (sum |x|^ord)^(1/ord); for ord 0 the number of nonzero ones, for "
      "±inf the extreme of |x|. The gradient is 0 where the norm is.";
  static constexpr auto signature = "self, ord=2.0, dim=None, keepdim=False, *, dtype=None";
  static constexpr TypeSet types = types::field;
  static constexpr auto samples = Cases{"(3, 4)",
                                        "(3, 4), 3.0, dim=1, keepdim=True",
                                        "(3, 4), inf, dim=[0]",
                                        "float32([[1.0, -2.0]]), 1.0, dtype=float64",
                                        "(3, 4), -inf, dim=1",
                                        "(3, 4), 0.0",
                                        "(0, 3), dim=0",
                                        "()"};
  static Tensor forward(Into into, const Tensor& self, double ord, OptionalDims dim, bool keepdim,
                        OptionalType dtype) {
    return kernels::vector_norm(into, self, ord, dim, keepdim, dtype, "linalg.vector_norm");
  }
  static constexpr auto vjp =
      Rules{[](Grad g, Input<"self"> self, Output<> result, Argument<double, "ord"> ord,
               Argument<OptionalInts, "dim"> dim, Argument<bool, "keepdim"> keepdim) {
        return rules::vector_norm(g, self, result, ord, dim, keepdim);
      }};
};

using Reduction =
    Family<Sum, NanSum, Mean, Prod, Var, Std, VarMean, StdMean, Amax, Amin, MaxAll, MinAll, MaxDim, MinDim,
           Aminmax, Argmax, Argmin, All, Any, SameElements, CountNonzero, LogSumExp, VectorNorm>;

}  // namespace adjoint
