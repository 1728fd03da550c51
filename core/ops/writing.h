// Writing elements: in place (copy_, fill_, x[…] = value) and into copies (scatter and its relatives).
//
// A write takes the gradient of what was there before away from the places written, and gives that of the
// places to the value. Operators whose name starts with an underscore and that are marked `writes` change
// their first argument; the others change a copy. Start reading at `SetBasic`.
#pragma once

#include "ops/contract/op.h"
#include "ops/indexing.h"

namespace adjoint {

// Gradients. Recorded.
Tensor kept_by_scatter(const Tensor& g, int64_t dim, const Tensor& index,
                       const std::optional<std::string>& reduce);
/// Gathered, in the leading part of the source's shape.
Tensor scatter_source(const Tensor& g, IntList sizes, int64_t dim, const Tensor& index);
/// The slices that were written, in the source's shape: a vector of one element may be written to a scalar.
Tensor slices_source(const Tensor& g, IntList sizes, int64_t dim, const Tensor& index);
Tensor scaled(const Tensor& t, const Scalar& by);
/// Says once that complex numbers become real ones by a conversion that the program asked for.
void warn_of_lost_parts(DType from, DType to);
/// Refuses a value that is not broadcast to the shape of what it is copied to.
void need_copy_fits(IntList to, IntList from);
/// Zeros: what was there before has no part in what is there now.
Tensor overwritten(const Tensor& g);

struct Copy : Structured {
  static constexpr auto name = "_copy";
  static constexpr auto recorded_as = "=CopyBackwards";
  static void batch(BatchedCall& c, Batched<"self"> self, Batched<"src"> src);
  static constexpr auto doc = "Write another tensor's values, broadcast and converted.";
  static constexpr auto signature = "self, src";
  static constexpr auto samples = Cases{"(3, 4), (4,)", "(3, 4), (3, 4)", "(0, 3), (3,)", "(), ()"};
  static constexpr bool writes = true;
  static constexpr auto linear = LinearIn<"self", "src">{};
  static constexpr bool crosses_devices = true;
  static Tensor forward(const Tensor& self, const Tensor& src);
  static Tensor source(const Tensor& g, IntList sizes);
  static constexpr auto vjp =
      Rules{[](Grad g) { return overwritten(g); }, [](Grad g, Shape<"src"> s) { return source(g, s); }};
};

struct Fill : Structured {
  static constexpr auto name = "_fill";
  static void batch(BatchedCall& c, Batched<"self"> self, Batched<"value"> value);
  static constexpr auto doc = "Write one value everywhere.";
  static constexpr auto signature = "self, value";
  static constexpr auto samples = Cases{"(3, 4), ()", "(3, 4), 2", "(0, 3), ()"};
  static constexpr bool writes = true;
  static constexpr auto linear = LinearIn<"self", "value">{};
  static constexpr bool writes_one_value = true;
  static Tensor forward(const Tensor& self, const Tensor& value);
  static Tensor source(const Tensor& g);
  static constexpr auto vjp = Rules{[](Grad g) { return overwritten(g); }, [](Grad g) { return source(g); }};
};

struct ZeroAll : Structured {
  static constexpr auto name = "_zero";
  static void batch(BatchedCall& c, Batched<"self"> self);
  static constexpr auto doc = "Write zeros everywhere.";
  static constexpr auto signature = "self";
  static constexpr auto samples = Cases{"(3, 4)", "(0, 3)", "()"};
  static constexpr bool writes = true;
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr bool writes_one_value = true;
  static Tensor forward(const Tensor& self);
  static constexpr auto vjp = Rules{[](Grad g) { return overwritten(g); }};
};

struct ZeroBasic : Structured {
  static constexpr auto name = "_zero_basic";
  static constexpr auto doc = "A copy with zeros at the part that a basic index picks.";
  static constexpr auto signature = "self, spec";
  static constexpr auto samples =
      Cases{"(3, 4), [1, 0, 2, 2, 0, 3, 0, 0]", "(3, 4), [1, 1, 1, 0]", "(0, 3), [1, 0, 1, 0, 0, 1, 0, 0]"};
  static Tensor forward(const Tensor& self, IndexSpec spec);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<IntList, "spec"> spec) { return call<ZeroBasic>(g, spec.value); }};
};

struct SetBasic : Structured {
  static constexpr auto name = "_set_basic";
  static constexpr auto recorded_as = "=CopySlices";
  static void batch(BatchedCall& c, Batched<"self"> self, Batched<"value"> value,
                    Argument<IntList, "spec"> spec);
  static constexpr auto doc = "Write a value, broadcast and converted, to the part that a basic index picks.";
  static constexpr auto signature = "self, value, spec";
  static constexpr auto samples =
      Cases{"(3, 4), (2,), [1, 0, 2, 2, 0, 3, 0, 0]", "(3, 4), (), [0, 1, 0, 0]",
            "(3, 4), (1, 4), [1, 1, 1, 0]", "(0, 3), (0,), [1, 0, 1, 0, 0, 1, 0, 0]"};
  static constexpr bool writes = true;
  static constexpr auto linear = LinearIn<"self", "value">{};
  /// Whether its part overlaps itself is looked at when that is known.
  static constexpr bool writes_one_value = true;
  static constexpr bool crosses_devices = true;
  static Tensor forward(const Tensor& self, const Tensor& value, IndexSpec spec);
  static Tensor source(const Tensor& g, IntList sizes, IntList spec);
  static constexpr auto vjp = Rules{
      [](Grad g, Argument<IntList, "spec"> spec) { return call<ZeroBasic>(g, spec.value); },
      [](Grad g, Shape<"value"> s, Argument<IntList, "spec"> spec) { return source(g, s, spec.value); }};
};

struct ZeroIndex : Structured {
  static constexpr auto name = "_zero_index";
  static void batch(BatchedCall& c, Batched<"self"> self, Argument<OptionalTensorList, "indices"> indices);
  static constexpr auto doc = "A copy with zeros at the positions that index tensors name.";
  static constexpr auto signature = "self, indices";
  static constexpr auto samples =
      Cases{"(3, 4), [[0, 2], None]", "(3, 4), [mask(3, 4)]", "(3, 4), [index(0, below=3)]"};
  static constexpr bool crosses_devices = true;
  static Tensor forward(const Tensor& self, OptionalTensorList indices);
  static constexpr auto linear = LinearIn<"self">{};
  static constexpr auto vjp =
      Rules{[](Grad g, InputList indices) { return call<ZeroIndex>(g, TensorList(indices)); }};
};

struct IndexPut : Structured {
  static constexpr auto name = "_index_put";
  static void batch(BatchedCall& c, Batched<"self"> self, Batched<"values"> values,
                    Argument<OptionalTensorList, "indices"> indices, Argument<bool, "accumulate"> add);
  static constexpr auto doc = "Write values, or add them, to the positions that index tensors name.";
  static constexpr auto signature = "self, values, indices, accumulate=False";
  static constexpr auto samples =
      Cases{"(3, 4), (2, 4), [[0, 2], None]", "(3, 4), (), [mask(3, 4)]",
            "(3, 4), (3, 4), [[0, 2, 0]], accumulate=True", "(3, 4), (0, 4), [index(0, below=3)]",
            "(3, 4), (3,), [[0, 1, 2], [3, 3, 0]]"};
  static constexpr bool writes = true;
  static constexpr auto linear = LinearIn<"self", "values">{};
  static constexpr bool crosses_devices = true;
  static Tensor forward(const Tensor& self, const Tensor& values, OptionalTensorList indices,
                        bool accumulate);
  static Tensor source(const Tensor& g, IntList sizes, const Tensors& indices);
  static constexpr auto vjp =
      Rules{[](Grad g, InputList indices, Argument<bool, "accumulate"> add) {
              return add.value ? Tensor(g) : call<ZeroIndex>(g, TensorList(indices));
            },
            [](Grad g, Shape<"values"> s, InputList indices) { return source(g, s, indices); }};
};

// --- Into copies ----------------------------------------------------------------------------------

struct Scatter : Structured {
  static constexpr auto name = "_scatter";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "A copy with the elements of src written where `index` says along one dimension.";
  static constexpr auto signature = "self, dim, index, src, reduce=None";
  static constexpr auto samples =
      Cases{"(3, 4), 0, [[0, 1, 2, 0]], (1, 4)", "(3, 4), 1, [[3, 0], [1, 2], [0, 3]], (3, 2), 'add'",
            "(3, 4), 0, index(0, 4, below=3), (0, 4)", "(), 0, index(below=1), ()"};
  static Tensor forward(Into into, const Tensor& self, Dim dim, const Tensor& index, const Tensor& src,
                        std::optional<Text> reduce);
  // Where several elements go to one place, their tangents do as they do: the last stays.
  static constexpr auto linear = LinearIn<"self", "src">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<int64_t, "dim"> dim, Input<"index"> index,
               Argument<std::optional<Text>, "reduce"> reduce) {
              return kept_by_scatter(g, dim, index,
                                     reduce.value ? std::optional(std::string(*reduce.value)) : std::nullopt);
            },
            rule_of<"src">([](Grad g, Shape<"src"> s, Argument<int64_t, "dim"> dim, Input<"index"> index) {
              return scatter_source(g, s, dim, index);
            })};
};

struct ScatterValue : Structured {
  static constexpr auto name = "_scatter_value";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "A copy with one number written where `index` says along one dimension.";
  static constexpr auto signature = "self, dim, index, value, reduce=None";
  static constexpr auto samples =
      Cases{"(3, 4), 1, [[3, 0], [1, 2], [0, 3]], 2", "(3, 4), 0, index(0, 4, below=3), 2, 'add'"};
  static Tensor forward(Into into, const Tensor& self, Dim dim, const Tensor& index, Scalar value,
                        std::optional<Text> reduce);
  static constexpr auto vjp = Rules{[](Grad g, Argument<int64_t, "dim"> dim, Input<"index"> index,
                                       Argument<std::optional<Text>, "reduce"> reduce) {
    return kept_by_scatter(g, dim, index,
                           reduce.value ? std::optional(std::string(*reduce.value)) : std::nullopt);
  }};
};

struct ScatterMultiply : Structured {
  static constexpr auto name = "_scatter_multiply";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "A copy multiplied by the elements of src where `index` says along one dimension.";
  static constexpr auto signature = "self, dim, index, src";
  static constexpr auto samples =
      Cases{"(3, 4), 1, [[3, 0], [1, 1], [0, 3]], (3, 2)", "(3, 4), 0, index(0, 4, below=3), (0, 4)"};
  static Tensor forward(Into into, const Tensor& self, Dim dim, const Tensor& index, const Tensor& src);
  static Tensor self_gradient(const Tensor& g, int64_t dim, const Tensor& index, const Tensor& src);
  static Tensor source_gradient(const Tensor& g, const Tensor& self, int64_t dim, const Tensor& index,
                                const Tensor& src);
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<int64_t, "dim"> dim, Input<"index"> index, Input<"src"> src) {
              return self_gradient(g, dim, index, src);
            },
            rule_of<"src">([](Grad g, Input<"self"> self, Argument<int64_t, "dim"> dim, Input<"index"> index,
                              Input<"src"> src) { return source_gradient(g, self, dim, index, src); })};
};

struct ScatterMultiplyValue : Structured {
  static constexpr auto name = "_scatter_multiply_value";
  static constexpr auto batch = batching::leading;
  static constexpr auto doc = "A copy multiplied by one number where `index` says along one dimension.";
  static constexpr auto signature = "self, dim, index, value";
  static constexpr auto samples =
      Cases{"(3, 4), 1, [[3, 0], [1, 1], [0, 3]], 2", "(3, 4), 0, index(0, 4, below=3), 2"};
  static Tensor forward(Into into, const Tensor& self, Dim dim, const Tensor& index, Scalar value);
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<int64_t, "dim"> dim, Input<"index"> index, Argument<Scalar, "value"> value) {
        return call<ScatterMultiplyValue>(g, dim.value, index, value.value.conj());
      }};
};

struct ScatterExtreme : Structured {
  static constexpr auto name = "_scatter_extreme";
  static constexpr TypeSet types = types::real;
  static constexpr auto batch = batching::leading;
  static constexpr auto doc =
      "A copy with the largest, or smallest, of each element and those of src that `index` sends to it.";
  static constexpr auto signature = "self, dim, index, src, largest=True";
  static constexpr auto samples =
      Cases{"(3, 4), 0, [[0, 1, 2, 0], [0, 0, 1, 1]], (2, 4)",
            "(3, 4), 1, [[3, 0], [1, 1], [0, 3]], (3, 3), largest=False",
            "(3, 4), 0, index(0, 4, below=3), (0, 4)", "(), 0, index(below=1), ()"};
  static Tensor forward(Into into, const Tensor& self, Dim dim, const Tensor& index, const Tensor& src,
                        bool largest);
  static Tensor share(const Tensor& g, const Tensor& self, int64_t dim, const Tensor& index,
                      const Tensor& src, const Tensor& result, bool of_self);
  static constexpr auto vjp =
      Rules{[](Grad g, Input<"self"> self, Argument<int64_t, "dim"> dim, Input<"index"> index,
               Input<"src"> src, Output<> result) { return share(g, self, dim, index, src, result, true); },
            rule_of<"src">([](Grad g, Input<"self"> self, Argument<int64_t, "dim"> dim, Input<"index"> index,
                              Input<"src"> src,
                              Output<> result) { return share(g, self, dim, index, src, result, false); })};
};

struct ScatterAdd : Structured {
  static constexpr auto name = "scatter_add";
  static constexpr auto batch = batching::leading;
  static constexpr bool inplace = true;
  static constexpr auto doc = "A copy with the elements of src added where `index` says along one dimension.";
  static constexpr auto signature = "self, dim, index, src";
  static constexpr auto samples =
      Cases{"(3, 4), 0, index(2, 4, below=3), (2, 4)", "(3, 4), -1, index(3, 2, below=4), (3, 5)",
            "(3, 4), 0, index(0, 4, below=3), (0, 4)", "(), 0, index(below=1), ()"};
  static Tensor forward(Into into, const Tensor& self, Dim dim, const Tensor& index, const Tensor& src);
  static constexpr auto linear = LinearIn<"self", "src">{};
  static constexpr auto vjp =
      Rules{[](Grad g) { return Tensor(g); },
            rule_of<"src">([](Grad g, Shape<"src"> s, Argument<int64_t, "dim"> dim, Input<"index"> index) {
              return scatter_source(g, s, dim, index);
            })};
};

struct IndexAdd : Structured {
  static constexpr auto name = "index_add";
  static void batch(BatchedCall& c, Batched<"self"> self, Argument<int64_t, "dim"> dim,
                    Batched<"index"> index, Batched<"source"> source, Argument<Scalar, "alpha"> alpha);
  static constexpr bool inplace = true;
  static constexpr auto doc =
      "A copy with alpha times the slices of source added at the slices that `index` names.";
  static constexpr auto signature = "self, dim, index, source, *, alpha=1";
  static constexpr auto samples = Cases{"(3, 4), 0, [2, 0, 2], (3, 4)", "(3, 4), -1, [1, 3], (3, 2), alpha=2",
                                        "(3, 4), 0, index(0, below=3), (0, 4)", "(), 0, [0], (1,)"};
  static Tensor forward(Into into, const Tensor& self, Dim dim, const Tensor& index, const Tensor& source,
                        Scalar alpha);
  static constexpr auto linear = LinearIn<"self", "source">{};
  static constexpr auto vjp =
      Rules{[](Grad g) { return Tensor(g); },
            rule_of<"source">([](Grad g, Shape<"source"> s, Argument<int64_t, "dim"> dim,
                                 Input<"index"> index, Argument<Scalar, "alpha"> alpha) {
              return scaled(slices_source(g, s, dim, index), alpha.value.conj());
            })};
};

struct IndexFill : Structured {
  static constexpr auto name = "index_fill";
  static void batch(BatchedCall& c, Batched<"self"> self, Argument<int64_t, "dim"> dim,
                    Batched<"index"> index, Batched<"value"> value);
  static constexpr bool inplace = true;
  static constexpr auto doc = "A copy with one value written to the slices that `index` names.";
  static constexpr auto signature = "self, dim, index, value";
  static constexpr auto samples = Cases{"(3, 4), 0, [2, 0], ()", "(3, 4), -1, [1, 3], 2",
                                        "(3, 4), 0, index(0, below=3), ()", "(), 0, [0], ()"};
  static Tensor forward(Into into, const Tensor& self, Dim dim, const Tensor& index, const Tensor& value);
  static Tensor kept(const Tensor& g, int64_t dim, const Tensor& index);
  static Tensor source(const Tensor& g, int64_t dim, const Tensor& index);
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<int64_t, "dim"> dim, Input<"index"> index) { return kept(g, dim, index); },
            rule_of<"value">([](Grad g, Argument<int64_t, "dim"> dim, Input<"index"> index) {
              return source(g, dim, index);
            })};
};

struct IndexCopy : Structured {
  static constexpr auto name = "index_copy";
  static void batch(BatchedCall& c, Batched<"self"> self, Argument<int64_t, "dim"> dim,
                    Batched<"index"> index, Batched<"source"> source);
  static constexpr bool inplace = true;
  static constexpr auto doc = "A copy with the slices of source written to the slices that `index` names.";
  static constexpr auto signature = "self, dim, index, source";
  static constexpr auto samples = Cases{"(3, 4), 0, [2, 0], (2, 4)", "(3, 4), -1, [1, 3], (3, 2)",
                                        "(3, 4), 0, index(0, below=3), (0, 4)", "(), 0, [0], (1,)"};
  static Tensor forward(Into into, const Tensor& self, Dim dim, const Tensor& index, const Tensor& source);
  static constexpr auto linear = LinearIn<"self", "source">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Argument<int64_t, "dim"> dim, Input<"index"> index) {
              return IndexFill::kept(g, dim, index);
            },
            rule_of<"source">([](Grad g, Shape<"source"> s, Argument<int64_t, "dim"> dim,
                                 Input<"index"> index) { return slices_source(g, s, dim, index); })};
};

struct MaskedScatter : Structured {
  static constexpr auto name = "masked_scatter";
  static constexpr bool inplace = true;
  static constexpr auto doc = "A copy with the elements of source, in order, written where a mask is true.";
  static constexpr auto signature = "self, mask, source";
  static constexpr auto samples =
      Cases{"(3, 4), mask(3, 4), (12,)", "(3, 4), mask(4), (3, 4)", "(0, 3), mask(0, 3), (0,)"};
  static Tensor forward(Into into, const Tensor& self, const Tensor& mask, const Tensor& source);
  static Tensor kept(const Tensor& g, IntList sizes, const Tensor& mask);
  static Tensor source_gradient(const Tensor& g, IntList sizes, const Tensor& mask);
  static constexpr auto linear = LinearIn<"self", "source">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Shape<"self"> s, Input<"mask"> mask) { return kept(g, s, mask); },
            rule_of<"source">(
                [](Grad g, Shape<"source"> s, Input<"mask"> mask) { return source_gradient(g, s, mask); })};
};

using Writing = Family<Copy, Fill, ZeroAll, ZeroBasic, SetBasic, ZeroIndex, IndexPut, Scatter, ScatterValue,
                       ScatterMultiply, ScatterMultiplyValue, ScatterExtreme, ScatterAdd, IndexAdd, IndexFill,
                       IndexCopy, MaskedScatter>;

}  // namespace adjoint
