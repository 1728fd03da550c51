// Order: sorting, the k largest, medians; and moving values to and from the places that indices name.
//
// NaN counts as larger than any number. Equal elements keep their order, whether stability was asked for or
// not. Values carry gradients, which go back to where they were taken from; indices do not.
#pragma once

#include "kernels/sorting.h"
#include "ops/contract/op.h"
#include "ops/reduction.h"

namespace adjoint {

struct GatherAlong;

struct ScatterAlong : Structured {
  static constexpr auto name = "_scatter_along";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "Zeros of the given size along a dimension, with self added up where the indices say.";
  static constexpr auto signature = "self, indices, dim, size";
  static constexpr auto samples =
      Cases{"(3, 2), [[0, 2], [3, 1], [1, 1]], 1, 4", "(2, 3), index(2, 3, below=4), 0, 4",
            "(0, 3), index(0, 3, below=4), 1, 4"};
  static Tensor forward(const Tensor& self, const Tensor& indices, Dim dim, int64_t size) {
    return kernels::scatter_along(self, indices, dim, size);
  }
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp = Rules{[](Grad g, Input<"indices"> indices, Argument<int64_t, "dim"> dim) {
    return call<GatherAlong>(g, indices, dim.value);
  }};
};

struct GatherAlong : Structured {
  static constexpr auto name = "_gather_along";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "The elements of self that the indices name along a dimension.";
  static constexpr auto signature = "self, indices, dim";
  static constexpr auto samples = Cases{"(3, 4), index(3, 2, below=4), 1", "(3, 4), index(5, 4, below=3), 0",
                                        "(0, 3), index(0, 2, below=3), 1"};
  static Tensor forward(const Tensor& self, const Tensor& indices, Dim dim) {
    return kernels::gather_along(self, indices, dim);
  }
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Input<"indices"> indices, Shape<"self"> s, Argument<int64_t, "dim"> dim) {
        return rules::scatter_into_zeros(g, indices, s, dim, true);
      }};
};

struct Sort : Structured {
  static constexpr auto name = "sort";
  static constexpr auto doc = "Sort along a dimension: the sorted values, and the indices that they had.";
  static constexpr auto signature = "self, dim=-1, descending=False, stable=False";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples =
      Cases{"(3, 4)", "(3, 4), dim=0, descending=True", "(3, 4), stable=True", "(0, 3)", "()"};
  static constexpr auto returns = "values, indices";
  static kernels::Pair forward(Into into, const Tensor& self, Dim dim, bool descending, bool) {
    return kernels::sort(into, self, dim, descending, true, name);
  }
  static constexpr auto vjp =
      Rules{[](Grad g, Output<"indices"> indices, Shape<"self"> s, Argument<int64_t, "dim"> dim) {
        return rules::scatter_into_zeros(g, indices, s, dim, true);
      }};
};

struct Argsort : Structured {
  static constexpr auto name = "argsort";
  static constexpr auto doc = "The indices that sort the elements along a dimension.";
  static constexpr auto signature = "self, dim=-1, descending=False, stable=False";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples =
      Cases{"(3, 4)", "(3, 4), dim=0, descending=True", "(3, 4), stable=True", "(0, 3)", "()"};
  static constexpr bool differentiable = false;
  static Tensor forward(Into into, const Tensor& self, Dim dim, bool descending, bool) {
    return std::get<1>(kernels::sort(into, self, dim, descending, false, name));
  }
};

struct TopK : Structured {
  static constexpr auto name = "topk";
  static constexpr auto doc = "The k largest (or smallest) elements along a dimension, and their indices.";
  static constexpr auto signature = "self, k, dim=-1, largest=True, sorted=True";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples =
      Cases{"(3, 4), 2", "(3, 4), 2, dim=0, largest=False, sorted=True", "(3, 4), 0", "(), 1", "(0, 3), 2"};
  static constexpr auto returns = "values, indices";
  static kernels::Pair forward(Into into, const Tensor& self, int64_t k, Dim dim, bool largest, bool sorted) {
    return kernels::topk(into, self, k, dim, largest, sorted, name);
  }
  static constexpr auto vjp =
      Rules{[](Grad g, Output<"indices"> indices, Shape<"self"> s, Argument<int64_t, "dim"> dim) {
        return rules::scatter_into_zeros(g, indices, s, dim, true);
      }};
};

struct KthValue : Structured {
  static constexpr auto name = "kthvalue";
  static constexpr auto doc = "The k-th smallest element along a dimension, counted from 1, and its index.";
  static constexpr auto signature = "self, k, dim=-1, keepdim=False";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples = Cases{"(3, 4), 2", "(3, 4), 3, dim=0, keepdim=True", "(), 1", "(0, 3), 2"};
  static constexpr auto returns = "values, indices";
  static kernels::Pair forward(Into into, const Tensor& self, int64_t k, Dim dim, bool keepdim) {
    return kernels::kth_value(into, self, k, dim, keepdim, name);
  }
  static constexpr auto vjp = Rules{[](Grad g, Output<"indices"> indices, Shape<"self"> s,
                                       Argument<int64_t, "dim"> dim, Argument<bool, "keepdim"> keepdim) {
    return rules::scatter_into_zeros(g, indices, s, dim, keepdim);
  }};
};

/// The rule of a median along a dimension.
inline constexpr auto median_picked_rule =
    [](Grad g, Output<"indices"> indices, Shape<"self"> s, Argument<int64_t, "dim"> dim,
       Argument<bool, "keepdim"> keepdim) { return rules::scatter_into_zeros(g, indices, s, dim, keepdim); };

struct MedianDim : Structured {
  static constexpr auto name = "_median_dim";
  static constexpr auto recorded_as = "median.1";
  static constexpr auto overloads = "median";
  static constexpr auto doc =
      "The median along a dimension (the lower one of an even number), and its index.";
  static constexpr auto signature = "self, dim, keepdim=False";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples = Cases{"(3, 4), 1", "(3, 4), 0, keepdim=True", "(), 0", "(0, 3), 1"};
  static constexpr auto returns = "values, indices";
  static kernels::Pair forward(Into into, const Tensor& self, Dim dim, bool keepdim) {
    return kernels::median(into, self, dim, keepdim, false, "median");
  }
  static constexpr auto vjp = Rules{median_picked_rule};
};

struct NanMedianDim : Structured {
  using rules_like = MedianDim;
  static constexpr auto name = "_nanmedian_dim";
  static constexpr auto recorded_as = "nanmedian.1";
  static constexpr auto overloads = "nanmedian";
  static constexpr auto doc = "The median along a dimension of the elements that are not NaN, and its index.";
  static constexpr auto signature = "self, dim, keepdim=False";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples =
      Cases{"[[1.0, nan, 3.0], [nan, 2.0, 5.0]], 1", "(3, 4), 0, keepdim=True", "(), 0", "(0, 3), 1"};
  static constexpr auto returns = "values, indices";
  static kernels::Pair forward(Into into, const Tensor& self, Dim dim, bool keepdim) {
    return kernels::median(into, self, dim, keepdim, true, "nanmedian");
  }
  static constexpr auto vjp = Rules{median_picked_rule};
};

/// The rule of a median of everything: equals share evenly, as of max().
inline constexpr auto shared_median_rule = [](Grad g, Input<"self"> self, Output<> result) {
  return rules::extreme(g, self, result, {}, false, true);
};

struct MedianAll : Structured {
  static constexpr auto name = "_median_all";
  static constexpr auto recorded_as = "median";
  static constexpr auto overloads = "median";
  static constexpr auto doc =
      "The median of the tensor: the lower one of an even number; NaN where there is a NaN or nothing.";
  static constexpr auto signature = "self";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples = Cases{"(3, 4)", "(5,)", "()"};
  static Tensor forward(const Tensor& self) { return kernels::median_of_all(self, false, "median"); }
  static constexpr auto vjp = Rules{shared_median_rule};
};

struct NanMedianAll : Structured {
  using rules_like = MedianAll;
  static constexpr auto name = "_nanmedian_all";
  static constexpr auto recorded_as = "nanmedian";
  static constexpr auto overloads = "nanmedian";
  static constexpr auto doc = "The median of the elements of the tensor that are not NaN.";
  static constexpr auto signature = "self";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples = Cases{"(3, 4)", "[1.0, nan, 3.0]", "()"};
  static Tensor forward(const Tensor& self) { return kernels::median_of_all(self, true, "nanmedian"); }
  static constexpr auto vjp = Rules{shared_median_rule};
};

struct ModeIndex : Structured {
  static constexpr auto name = "_mode_index";
  static constexpr auto doc =
      "The last place of the element that is most frequent along a dimension, the least of several.";
  static constexpr auto signature = "self, dim, keepdim=False";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples = Cases{"[[3.0, 1.0, 3.0, 1.0], [2.0, 0.0, 0.0, 2.0]], 1",
                                        "(3, 4), 0, keepdim=True", "(), 0", "(0, 3), 1"};
  static constexpr bool differentiable = false;
  static Tensor forward(const Tensor& self, Dim dim, bool keepdim) {
    return kernels::mode_index(self, dim, keepdim, "mode");
  }
};

struct SearchSorted : Structured {
  static constexpr auto name = "_search_sorted";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "How many elements of rising sequences, of one row or one for each row of values, stand before each "
      "value.";
  static constexpr auto signature = "self, values, right=False";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples =
      Cases{"[1.0, 3.0, 5.0], [[0.0, 3.0], [9.0, 4.0]]",
            "[[1.0, 3.0], [2.0, 2.0]], [[1.0, 2.0, 3.0], [2.0, 1.0, 3.0]], right=True", "[1.0, 2.0], (0, 3)"};
  static constexpr bool differentiable = false;
  static Tensor forward(Into into, const Tensor& self, const Tensor& values, bool right) {
    return kernels::search_sorted(into, self, values, right, "searchsorted");
  }
};

struct EvenInterval : Structured {
  static constexpr auto name = "_even_interval";
  static constexpr auto doc =
      "The number of the interval that each element lies in, of those between edges that are equally far "
      "apart; "
      "the last one includes its end. What lies outside belongs to the first or the last, NaN to the first.";
  static constexpr auto signature = "self, edges";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{"[[0.0, 0.3], [0.5, 2.0]], [0.0, 0.25, 0.5, 0.75, 1.0]",
                                        "(0, 3), [0.0, 1.0]", "0.5, [0.0, 0.5, 1.0]"};
  static constexpr bool differentiable = false;
  static constexpr bool method = false;
  static Tensor forward(const Tensor& self, const Tensor& edges) {
    return kernels::even_interval(self, edges, name);
  }
};

struct Unique : Structured {
  static constexpr auto name = "_unique";
  static constexpr auto batch = batching::dynamic;
  static constexpr auto doc =
      "The distinct elements in order; where asked for, the place of each element's value and how often each "
      "occurs.";
  static constexpr auto signature = "self, return_inverse=False, return_counts=False";
  static constexpr TypeSet types = types::ordered;
  static constexpr auto samples =
      Cases{"[3.0, 1.0, 3.0, 2.0]", "[[3.0, 1.0], [1.0, 2.0]], return_inverse=True, return_counts=True",
            "(0,), True, True", "(), True, True", "(0, 3)"};
  static constexpr auto returns = "output, inverse_indices, counts";
  static constexpr bool differentiable = false;
  static std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& self, bool return_inverse,
                                                    bool return_counts) {
    return kernels::unique(self, return_inverse, return_counts, "unique");
  }
};

using Sorting = Family<ScatterAlong, GatherAlong, Sort, Argsort, TopK, KthValue, MedianDim, NanMedianDim,
                       MedianAll, NanMedianAll, ModeIndex, SearchSorted, EvenInterval, Unique>;

}  // namespace adjoint
