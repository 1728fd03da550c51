// Rows without their plans: what a call launches depends on shapes, types and plain arguments alone, so that
// it can be kept once and run again wherever the operands lie.
//
// To find out, a row is run over operands on kRecorded (kernels/launch.h), where there are no elements: what
// would reach them is launched, which is shown and not done, or refused. So a row that asks what lies in its
// operands stays a row, as does one that draws, warns or fails.
//
// Start reading at `prepare`.
#pragma once

#include <memory>

#include "kernels/launch.h"
#include "replay/trace.h"

namespace adjoint::replay {

/// The launches of a step, over slots of its own numbering: first those that the step names, in the order in
/// which it does, then those that are made on the way.
struct Launches {
  struct Operand {
    int32_t slot = -1;  // -1: `number`, or left out
    Geometry geometry{};
    int64_t offset = 0;
    Tensor number;
  };
  struct Call {
    const launch::Routine* routine;
    std::vector<Operand> tensors;  // of all arguments, in order
    std::vector<size_t> lengths;   // of lists of tensors
    std::vector<std::array<std::byte, 16>> bytes;
    std::vector<Dims> numbers;
    std::vector<std::shared_ptr<void>> others;
  };
  std::vector<Call> calls;
  std::vector<size_t> made;  // how many bytes each
  size_t bytes_held() const;
};

/// A launch with its arguments, which are patched where they point to memory that moved. All lie in one
/// block.
class BoundLaunch {
 public:
  /// Values and lists of numbers stay where they are in `call`.
  BoundLaunch(const Launches::Call& call, runtime::FunctionRef<Tensor(const Launches::Operand&)> tensor);
  BoundLaunch(BoundLaunch&& o) noexcept = default;
  ~BoundLaunch();
  const launch::Routine* routine() const { return routine_; }
  const void* const* arguments() const { return at_.get(); }
  size_t bytes_held() const { return sizeof(BoundLaunch) + words_ * sizeof(void*); }

 private:
  explicit BoundLaunch(const Launches::Call& call);

  const launch::Routine* routine_;
  /// The addresses of the arguments, and behind them tensors, lists of tensors and lists of numbers.
  std::unique_ptr<const void*[]> at_;
  uint32_t words_, tensors_;
};

/// The slots that a step names, each once: of its arguments, then of its results.
std::vector<int32_t> slots_of(const Trace& trace, const Step& step);
/// Null where the row cannot do without its plan.
std::shared_ptr<const Launches> prepare(const Trace& trace, const Step& step);

}  // namespace adjoint::replay
