// What is recorded of an element-wise call: a node that keeps what the derivatives of the inputs take, and no
// more.
//
// One class for each number of inputs and of tensors kept, so that a node is as small as its call needs. Run
// for values alone, a derivative is one fused loop (`fused_gradient`); run recorded, it is written in
// operators. Start reading at `ElementwiseNode::apply` (elementwise_node.cpp).
#pragma once

#include <optional>

#include "dispatch/elementwise.h"
#include "kernels/run_loop.h"

namespace adjoint {

/// What the row of a derivative stands for (`sin.backward`, which observers see); none for other rows.
struct Derivative {
  const ElementwiseInfo* of;
  int input;
};
std::optional<Derivative> derivative_of(const Operator& row);
/// The one loop of a derivative, where it takes its operands as they lie; else false.
bool straight_gradient(const ElementwiseInfo& op, int i, DType type, const double* parameters,
                       const Tensor& g, const Tensor* values, StraightCall& call);

/// Inputs of a call that writes one of them, as they were before.
struct Before {
  Edge edges[kMostInputs];
  Tensor kept[kMostInputs];  // copies of those that lie in the memory written, where they are needed
};

/// Before a write in place: edges, and copies of what rules need and the write destroys. A copy has the
/// history of what it stands for.
void capture_before_write(const ElementwiseInfo& op, const Tensor* in, Before& before);

/// Give the result of a call with A inputs its history. `before`: of a call that wrote its first input.
template <int A>
void record(const ElementwiseInfo& op, const Tensor* in, Tensor& result, Before* before, DType type,
            const double* parameters);
extern template void record<1>(const ElementwiseInfo&, const Tensor*, Tensor&, Before*, DType, const double*);
extern template void record<2>(const ElementwiseInfo&, const Tensor*, Tensor&, Before*, DType, const double*);
extern template void record<3>(const ElementwiseInfo&, const Tensor*, Tensor&, Before*, DType, const double*);

inline void record(const ElementwiseInfo& op, const Tensor* in, Tensor& result, Before* before, DType type,
                   const double* parameters) {
  switch (op.arity) {
    case 1:
      return record<1>(op, in, result, before, type, parameters);
    case 2:
      return record<2>(op, in, result, before, type, parameters);
    default:
      return record<3>(op, in, result, before, type, parameters);
  }
}

}  // namespace adjoint
