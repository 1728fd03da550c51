// The steps of the optimisers: every parameter of a group updated by one call, in place.
//
// They take lists of one length: parameters, up to three lists of state, numbers of steps, all of which they
// write, and gradients; a list of state or steps may be empty. The caller (ops/optimizer.cpp) checks types
// and sizes. What each optimiser keeps in its states is said with its function. Start with `sgd_step`.
#pragma once

#include <cstdint>
#include <iterator>

#include "tensor/tensor.h"

namespace adjoint::kernels {

enum class SlotType : uint8_t { Float32, Float64 };

/// One parameter with its gradient and state, as plain contiguous memory.
struct OptimizerSlot {
  /// Elements of the parameter, written.
  void* parameter;
  /// Elements of the gradient, only read.
  const void* gradient;
  /// State tensors, written; which is which depends on the optimiser. Null where an option needs none.
  void* state[3];
  /// The number of steps taken, a zero-dimensional float32 tensor; raised by one first. Null for SGD.
  float* step;
  /// Elements in each of the tensors above.
  int64_t size;
  /// The type of every tensor but `step`.
  SlotType type;
};

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  /// AdamW: the decay shrinks the parameter itself and does not enter the moments.
  bool decoupled = false;
  bool maximize = false;
};

struct RmspropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool maximize = false;
};

/// What one instruction of a `StepProgram` does with blocks of elements. Truth is 1 and 0.
enum class StepOperation : uint8_t {
  Move,
  Add,
  Sub,
  Mul,
  MultiplyAdd,
  Div,
  Maximum,
  Sqrt,
  Abs,
  Sign,
  Less,
  Where,
  End
};
inline constexpr const char* kStepOperations[] = {"move",    "add",  "sub", "mul",  "multiply_add", "div",
                                                  "maximum", "sqrt", "abs", "sign", "less",         "where"};
static_assert(std::size(kStepOperations) == static_cast<size_t>(StepOperation::End));

/// The formulas of a step that treats all elements alike, as instructions over registers that hold a block
/// each. Registers 0 to 4 are the parameter, the gradient and the states; then come the numbers, and then
/// others.
struct StepProgram {
  static constexpr int64_t kFirstNumber = 5, kRegisters = 48, kWords = 5;
  /// For each instruction its operation, the register that it writes, and three that it may read.
  std::span<const int64_t> code;
  std::span<const double> numbers;
};

/// g = ±gradient + weight_decay · p;  b = momentum · b + (1 - dampening) · g;  p -= lr · (b, or g + momentum
/// · b). state[0]: the momentum buffer b, null without momentum. A fresh buffer is zero and takes dampening
/// 0.
void sgd_step(TensorList params, TensorList first, TensorList second, TensorList third, TensorList steps,
              TensorList grads, const SgdOptions& options);

/// m += (1 - β₁)(g - m);  v = β₂ v + (1 - β₂) g²;  p -= lr / (1 - β₁ᵗ) · m / (√v / √(1 - β₂ᵗ) + ε).
/// state[0]: m; state[1]: v; state[2]: the largest v so far (amsgrad), else null.
void adam_step(TensorList params, TensorList first, TensorList second, TensorList third, TensorList steps,
               TensorList grads, const AdamOptions& options);

/// v = α v + (1 - α) g²;  d = g / (√(v - a²) + ε);  b = momentum · b + d;  p -= lr · (b, or d).
/// state[0]: v; state[1]: the mean gradient a (centered), else null; state[2]: b, null without momentum.
void rmsprop_step(TensorList params, TensorList first, TensorList second, TensorList third, TensorList steps,
                  TensorList grads, const RmspropOptions& options);

/// The step that a program states, which is well formed: registers are written before they are read, the
/// gradient and numbers are not written, and of the states only those that are there are named.
void program_step(TensorList params, TensorList first, TensorList second, TensorList third, TensorList steps,
                  TensorList grads, IntList code, std::span<const double> numbers);

}  // namespace adjoint::kernels

namespace adjoint {

/// The formulas on elements `begin` to `end` of a slot, for one instruction set. Adam is told 1 - β₁ᵗ and √(1
/// - β₂ᵗ).
template <class T>
struct OptimizerTable {
  void (*sgd)(const kernels::OptimizerSlot& slot, int64_t begin, int64_t end,
              const kernels::SgdOptions& options);
  void (*adam)(const kernels::OptimizerSlot& slot, int64_t begin, int64_t end,
               const kernels::AdamOptions& options, double correction1, double root_of_correction2);
  void (*rmsprop)(const kernels::OptimizerSlot& slot, int64_t begin, int64_t end,
                  const kernels::RmspropOptions& options);
  void (*program)(const kernels::OptimizerSlot& slot, int64_t begin, int64_t end,
                  const kernels::StepProgram& program);
};

}  // namespace adjoint
