// Losses and lookups whose gradients are worth a kernel: cross-entropy, negative log-likelihood, mean squared
// error, binary cross-entropy of logits; embedding.
//
// cross_entropy is one node that keeps the logits and no probabilities: both passes are bound by memory, and
// finding the sum of exponentials again costs less than writing and reading it. `composed` says the same in
// operators.
#pragma once

#include "kernels/loss.h"
#include "ops/contract/op.h"

namespace adjoint {

// Losses that are put together from recorded operators.
namespace compose {
Tensor cross_entropy(const Tensor& self, const Tensor& target, const Tensor& weight, Text reduction,
                     int64_t ignore, double smoothing, const char* op);
Tensor mse_loss(const Tensor& self, const Tensor& target, Text reduction, const char* op);
Tensor bce_with_logits(const Tensor& self, const Tensor& target, const Tensor& weight,
                       const Tensor& pos_weight, Text reduction, const char* op);
}  // namespace compose

namespace rules {
Tensor squared_distance(const Tensor& g, const Tensor& self, const Tensor& target, bool mean);
Tensor sparse_embedding(const Tensor& g, const Tensor& indices, int64_t rows, int64_t padding);
Tensor over_frequency(const Tensor& g, const Tensor& indices, int64_t rows);
Tensor padded_embedding(const Tensor& g, const Tensor& indices, int64_t padding);
}  // namespace rules

struct CrossEntropy : Structured {
  static constexpr auto name = "cross_entropy";
  static constexpr auto doc =
      "-sum(target * log_softmax(input)) over the classes (dimension 1, or 0 of one sample). The target "
      "holds class indices, or probabilities in the input's shape. A weight per class, a class to ignore, "
      "and label smoothing as in torch.";
  static constexpr auto signature =
      "input, target, weight=None, reduction='mean', ignore_index=-100, label_smoothing=0.0";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples =
      Cases{"(3, 4), index(3, below=4)",
            "(3, 4), index(3, below=4), positive(4), reduction='sum', label_smoothing=0.1",
            "(2, 4, 3), index(2, 3, below=4), ignore_index=1, reduction='none'",
            "(3, 4), unit(3, 4)",
            "(4,), index(below=4)",
            "(0, 4), index(0, below=4), reduction='sum'"};
  static constexpr bool method = false;
  static constexpr bool composite = true;
  static Tensor forward(const Tensor& input, const Tensor& target, OptionalTensor weight, Text reduction,
                        int64_t ignore_index, double label_smoothing) {
    return compose::cross_entropy(input, target, weight, reduction, ignore_index, label_smoothing, name);
  }
};

struct CrossEntropyBackward;

struct ClassCrossEntropy : Structured {
  static constexpr auto name = "_cross_entropy";
  static constexpr auto recorded_as = "nll_loss";
  static constexpr auto doc = "cross_entropy with class indices.";
  static constexpr auto signature = "input, target, weight, reduction, ignore_index, label_smoothing";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{"(3, 4), index(3, below=4), None, 'mean', -100, 0.0",
                                        "(3, 4), index(3, below=4), positive(4), 'sum', 1, 0.1",
                                        "(2, 4, 3), index(2, 3, below=4), None, 'none', -100, 0.0",
                                        "(0, 4), index(0, below=4), None, 'sum', -100, 0.0"};
  static Tensor forward(const Tensor& input, const Tensor& target, OptionalTensor weight, Text reduction,
                        int64_t ignore_index, double label_smoothing) {
    constexpr auto op = "cross_entropy";
    return kernels::class_loss(input, target, weight,
                               {kernels::reduce_of(reduction, op), ignore_index, label_smoothing}, true, op);
  }
  static Tensor composed(const Tensor& input, const Tensor& target, OptionalTensor weight, Text reduction,
                         int64_t ignore_index, double label_smoothing);
  static constexpr auto vjp =
      FirstOrder{Rules{[](Grad g, Input<"input"> input, Input<"target"> target, Input<"weight"> weight,
                          Argument<Text, "reduction"> reduction, Argument<int64_t, "ignore_index"> ignore,
                          Argument<double, "label_smoothing"> smoothing) {
        return call<CrossEntropyBackward>(g, input, target, OptionalTensor(weight), reduction.value,
                                          ignore.value, smoothing.value);
      }}};
};

struct CrossEntropyBackward : Structured {
  static constexpr auto name = "_cross_entropy_backward";
  static void batch(BatchedCall& c, Batched<"g"> g, Batched<"input"> input, Batched<"target"> target,
                    Batched<"weight"> weight, Argument<Text, "reduction"> reduction,
                    Argument<int64_t, "ignore_index"> ignore, Argument<double, "label_smoothing"> smoothing);
  static constexpr auto doc = "The gradient of cross_entropy with class indices, in one pass.";
  static constexpr auto signature = "g, input, target, weight, reduction, ignore_index, label_smoothing";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{"(), (3, 4), index(3, below=4), None, 'mean', -100, 0.0",
                                        "(3,), (3, 4), index(3, below=4), positive(4), 'none', 1, 0.1",
                                        "(0,), (0, 4), index(0, below=4), None, 'none', -100, 0.0"};
  static Tensor forward(const Tensor& g, const Tensor& input, const Tensor& target, OptionalTensor weight,
                        Text reduction, int64_t ignore_index, double label_smoothing) {
    return kernels::class_loss_backward(g, input, target, weight,
                                        {kernels::reduce_of(reduction, name), ignore_index, label_smoothing});
  }
};

struct NllLossBackward;

struct NllLoss : Structured {
  static constexpr auto name = "nll_loss";
  static void batch(BatchedCall& c, Batched<"input"> input, Batched<"target"> target,
                    Batched<"weight"> weight, Argument<Text, "reduction"> reduction,
                    Argument<int64_t, "ignore_index"> ignore);
  static constexpr auto doc =
      "-input[n, target[n]]: the loss of log-probabilities, with a weight per class and a class to ignore.";
  static constexpr auto signature = "input, target, weight=None, reduction='mean', ignore_index=-100";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{
      "(3, 4), index(3, below=4)", "(3, 4), index(3, below=4), positive(4), reduction='sum', ignore_index=1",
      "(2, 4, 3), index(2, 3, below=4), reduction='none'", "(4,), index(below=4)",
      "(0, 4), index(0, below=4), reduction='sum'"};
  static constexpr bool method = false;
  static constexpr auto gradient_keeps_history = KeepsHistory::Always;
  static Tensor forward(const Tensor& input, const Tensor& target, OptionalTensor weight, Text reduction,
                        int64_t ignore_index) {
    return kernels::class_loss(input, target, weight, {kernels::reduce_of(reduction, name), ignore_index, 0},
                               false, name);
  }
  static Tensor composed(const Tensor& input, const Tensor& target, OptionalTensor weight, Text reduction,
                         int64_t ignore_index);
  static constexpr auto linear = LinearIn<"input">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Shape<"input"> s, Input<"target"> target, Input<"weight"> weight,
               Argument<Text, "reduction"> reduction, Argument<int64_t, "ignore_index"> ignore) {
        return call<NllLossBackward>(g, IntList(s), target, OptionalTensor(weight), reduction.value,
                                     ignore.value);
      }};
};

struct NllLossBackward : Structured {
  static constexpr auto name = "_nll_loss_backward";
  static void batch(BatchedCall& c, Batched<"g"> g, Argument<IntList, "size"> size, Batched<"target"> target,
                    Batched<"weight"> weight, Argument<Text, "reduction"> reduction,
                    Argument<int64_t, "ignore_index"> ignore);
  static constexpr auto doc = "The transpose of nll_loss: linear, as that is.";
  static constexpr auto signature = "g, size, target, weight, reduction, ignore_index";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples = Cases{"(), [3, 4], index(3, below=4), None, 'mean', -100",
                                        "(3,), [3, 4], index(3, below=4), positive(4), 'none', 1",
                                        "(0,), [0, 4], index(0, below=4), None, 'none', -100"};
  static Tensor forward(const Tensor& g, Sizes size, const Tensor& target, OptionalTensor weight,
                        Text reduction, int64_t ignore_index) {
    return kernels::nll_backward(g, size, target, weight,
                                 {kernels::reduce_of(reduction, name), ignore_index, 0});
  }
  static constexpr auto linear = LinearIn<"g">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Input<"target"> target, Input<"weight"> weight, Argument<Text, "reduction"> reduction,
               Argument<int64_t, "ignore_index"> ignore) {
        return call<NllLoss>(g, target, OptionalTensor(weight), reduction.value, ignore.value);
      }};
};

struct MseLoss : Structured {
  static constexpr auto name = "mse_loss";
  static constexpr auto doc = "(input - target)², or its mean or sum.";
  static constexpr auto signature = "input, target, reduction='mean'";
  static constexpr TypeSet types = types::field;
  static constexpr auto samples =
      Cases{"(3, 4), (3, 4)", "(3, 4), (3, 4), reduction='sum'", "(0, 3), (0, 3), reduction='none'"};
  static constexpr bool method = false;
  static constexpr bool composite = true;
  static Tensor forward(const Tensor& input, const Tensor& target, Text reduction) {
    return compose::mse_loss(input, target, reduction, name);
  }
};

struct SquaredDistance : Structured {
  static constexpr auto name = "_squared_distance";
  static constexpr auto recorded_as = "mse_loss";
  static constexpr auto doc = "Sum or mean of (input - target)² for two tensors of one shape and type.";
  static constexpr auto signature = "input, target, mean";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples =
      Cases{"(3, 4), (3, 4), True", "(3, 4), (3, 4), False", "(0, 3), (0, 3), False"};
  static Tensor forward(const Tensor& input, const Tensor& target, bool mean) {
    return kernels::squared_distance(input, target, mean);
  }
  static Tensor composed(const Tensor& input, const Tensor& target, bool mean);
  static constexpr auto vjp =
      Rules{[](Grad g, Input<"input"> a, Input<"target"> b, Argument<bool, "mean"> mean) {
              return rules::squared_distance(g, a, b, mean);
            },
            [](Grad g, Input<"input"> a, Input<"target"> b, Argument<bool, "mean"> mean) {
              return rules::squared_distance(g, b, a, mean);
            }};
};

struct BceWithLogits : Structured {
  static constexpr auto name = "binary_cross_entropy_with_logits";
  static constexpr auto doc =
      "-(pos_weight t log s(x) + (1 - t) log(1 - s(x))) with the sigmoid s, times weight, without overflow.";
  static constexpr auto signature = "input, target, weight=None, pos_weight=None, reduction='mean'";
  static constexpr TypeSet types = types::floating;
  static constexpr auto samples =
      Cases{"(3, 4), unit(3, 4)", "(3, 4), unit(3, 4), positive(3, 4), positive(4), 'sum'",
            "(0, 3), unit(0, 3), reduction='none'"};
  static constexpr bool method = false;
  static constexpr bool composite = true;
  static Tensor forward(const Tensor& input, const Tensor& target, OptionalTensor weight,
                        OptionalTensor pos_weight, Text reduction) {
    return compose::bce_with_logits(input, target, weight, pos_weight, reduction, name);
  }
};

struct EmbeddingBackward;

struct Embedding : Structured {
  static constexpr auto name = "embedding";
  static void batch(BatchedCall& c, Batched<"weight"> weight, Batched<"indices"> indices,
                    Argument<int64_t, "padding_idx"> padding,
                    Argument<bool, "scale_grad_by_freq"> by_frequency);
  static constexpr auto doc =
      "Look up rows of weight by index. The row padding_idx gets no gradient; with scale_grad_by_freq "
      "those of the others are divided by how often the indices name them.";
  static constexpr auto signature = "weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False";
  static constexpr auto samples =
      Cases{"(4, 3), index(2, 3, below=4)",
            "(4, 3), [0, 2, 3, 0], padding_idx=1, scale_grad_by_freq=False, sparse=False",
            "(4, 3), index(below=4)", "(4, 3), index(0, below=4)"};
  static constexpr bool method = false;
  static Tensor forward(const Tensor& weight, const Tensor& indices, int64_t, bool by_frequency,
                        bool sparse) {
    if (by_frequency && sparse)
      fail("embedding_backward: scale_grad_by_freq not supported with sparse gradients");
    return kernels::embedding(weight, indices, name);
  }
  static constexpr auto vjp =
      Rules{[](Grad g, Shape<"weight"> s, Input<"indices"> indices, Argument<int64_t, "padding_idx"> padding,
               Argument<bool, "scale_grad_by_freq"> by_frequency, Argument<bool, "sparse"> sparse) {
        if (by_frequency.value)
          return call<EmbeddingBackward>(rules::over_frequency(g, indices, s.sizes[0]), indices, s.sizes[0],
                                         padding.value);
        return sparse.value ? rules::sparse_embedding(g, indices, s.sizes[0], padding.value)
                            : call<EmbeddingBackward>(g, indices, s.sizes[0], padding.value);
      }};
};

struct EmbeddingBackward : Structured {
  static constexpr auto name = "_embedding_backward";
  static constexpr auto recorded_as = "embedding_dense_backward";
  static void batch(BatchedCall& c, Batched<"g"> g, Batched<"indices"> indices,
                    Argument<int64_t, "rows"> rows, Argument<int64_t, "padding_idx"> padding);
  static constexpr auto doc =
      "Zeros with g added up in the rows that the indices name, but for the row padding_idx.";
  static constexpr auto signature = "g, indices, rows, padding_idx";
  static constexpr auto samples = Cases{"(2, 3, 5), index(2, 3, below=4), 4, -1", "(3, 2), [0, 1, 2], 3, 1",
                                        "(0, 2), index(0, below=3), 3, -1"};
  static Tensor forward(const Tensor& g, const Tensor& indices, int64_t rows, int64_t padding_idx) {
    return kernels::embedding_backward(g, indices, rows, padding_idx);
  }
  static constexpr auto linear = LinearIn<"g">{};
  static constexpr auto vjp =
      Rules{[](Grad g, Input<"indices"> indices, Argument<int64_t, "padding_idx"> padding) {
        return rules::padded_embedding(g, indices, padding);
      }};
};

using Losses = Family<CrossEntropy, ClassCrossEntropy, CrossEntropyBackward, NllLoss, NllLossBackward,
                      MseLoss, SquaredDistance, BceWithLogits, Embedding, EmbeddingBackward>;

}  // namespace adjoint
