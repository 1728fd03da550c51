// Numbers that a program computes with beside its tensors, as Python does: a time, a step size, a count, an
// element that it reads, and what it makes of them. See Note: replay.
//
// They are nodes in the order in which they came to be. Each has the value that it had when it was recorded;
// a replay computes them again, and gives up where a decision on one comes out otherwise, or where Python
// would raise or round in a way that is not followed here.
#pragma once

#include <cstdint>

#include "tensor/scalar.h"

namespace adjoint::replay {

struct NumberNode {
  enum class Op : uint8_t {
    Input,  // given with the call
    Read,   // an element of a tensor
    Constant,
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
    Negate,
    Magnitude,
    Floor,
    Ceiling,
    Cosine,
    // Decisions: their outcome is that of the recording.
    Less,
    LessEqual,
    Equal,
    Truth,
    Same,  // to the last bit: a number that somebody looks at, or two that nobody can tell apart
  } op;
  int32_t a = -1, b = -1;
  /// How many steps of the trace came before; of a Read, which step it is.
  uint32_t at = 0;
  Scalar value;
  /// Whether it was passed on to the core.
  bool given = false;

  bool decides() const { return op >= Op::Less; }
};

/// Bit for bit, and of one kind.
bool same_number(const Scalar& a, const Scalar& b);

/// What Python computes, to the last bit; false where it raises, or where that is not known here.
bool compute(NumberNode::Op op, const Scalar& a, const Scalar& b, Scalar& result);

/// Compute a node from those before it. False where it is not as recorded, or cannot be computed. Inputs and
/// reads are there already.
bool compute(const NumberNode& node, Scalar* values, size_t at);

}  // namespace adjoint::replay
