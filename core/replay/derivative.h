// A replayed call in the graph: one node, whose rule is a program too.
//
// When a function is recorded whose results need gradients, a backward pass through what it recorded is run
// once more, and is recorded with it. The trace is then cut: what the forward part makes and the backward
// part takes, the node keeps. Where a pass asks for something that was not recorded (a graph of itself, other
// cotangents), the function runs again, and that is differentiated.
//
// Start reading at `Replay::run`.
#pragma once

#include <functional>
#include <memory>

#include "replay/program.h"

namespace adjoint::replay {

/// A backward pass in a trace: its steps, the cotangents that were given, and the gradients that came.
struct Pass {
  Range steps;
  std::vector<Place> seeds, gradients;  // slot -1: none
};

/// An output whose graph was freed by the function itself: what its node is called and says, and the inputs
/// that it would lead to.
struct Spent {
  uint32_t output;
  std::string name, error;
  std::vector<uint32_t> by;
  bool operator==(const Spent&) const = default;
};

/// A finished recording, and where the program's tensors lie in it.
struct Recording {
  Trace trace;
  std::vector<Place> inputs, outputs;
  /// Where the forward part ends.
  uint32_t forward = 0;
  std::vector<Pass> passes;
  /// With passes: the outputs that need gradients, and the inputs by which.
  std::vector<uint32_t> differentiated, by;
  std::vector<Relation> relations;
  std::vector<Spent> spent;
  std::vector<Number> numbers;
  std::string difference(const Recording& other) const;
  /// Find where the numbers of `tracked`, the same call with its numbers tracked, went: arguments that were
  /// others in the recording `before`, when the numbers were `there`. Of these `returned` are what the
  /// program got. Empty where the recordings are else the same; then `numbers` says which.
  std::string vary(const Recording& before, const Recording& tracked, std::span<const Scalar> there,
                   std::span<const std::pair<uint32_t, Scalar>> returned);
  /// Count offsets in memory that was there before from the first input that lies in it, wherever that
  /// begins.
  void begin_at_inputs();
};

/// The gradients by the inputs in `by`, found by running the function again. `inputs`: what it took; throws
/// where they were written since.
using Again = std::function<Tensors(TensorList inputs, TensorList seeds, bool create_graph)>;

class Replay : public std::enable_shared_from_this<Replay> {
 public:
  /// Throws Error where it cannot be run.
  explicit Replay(Recording recording);
  /// `again` may be empty where no result needs a gradient.
  Program::Outcome run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Again& again,
                       std::vector<Scalar>& numbers);
  const Program& program() const { return forward_->any(); }
  /// An instruction a line, for people: of the call, and of each pass.
  std::string text() const;
  size_t outputs() const { return recording_.outputs.size(); }
  bool has_passes() const { return !recording_.passes.empty(); }
  const Recording& recording() const { return recording_; }
  /// Whether memory is written that was there before.
  bool writes() const;

 private:
  friend class ReplayNode;
  class Supplier;
  struct Supplied;
  struct Backward {
    std::unique_ptr<Pool> program;
    const Pass* pass;
  };
  /// The program for these cotangents, or null.
  const Backward* pass_for(const Gradients& seeds) const;

  Recording recording_;
  /// What the passes take of the forward part, as places of whole slots.
  std::vector<Place> kept_;
  /// Of each of these, the output that is the same memory, or -1.
  std::vector<int32_t> kept_output_;
  /// The inputs that passes read.
  std::vector<bool> reads_;
  std::unique_ptr<Pool> forward_;
  std::vector<Backward> backward_;
};

/// What a node calls where a pass was not recorded; null for other nodes, and once the node was released.
const Again* again_of(const Node& node);

}  // namespace adjoint::replay
