// A replayed call in the graph: a node, whose rule is a program too.
//
// When a function is recorded whose results need gradients, a backward pass through what it recorded is run
// once more, and is recorded with it. The trace is then cut: what the forward part makes and the backward
// part takes, the node keeps. Where a pass asks for something that was not recorded (a graph of itself, other
// cotangents), the function runs again, and that is differentiated: replay_node.cpp.
//
// A result of which another is made is a place where gradients meet: what the program does there (hooks,
// retain_grad, a derivative by it) concerns what the other brings, too. So results stand in GROUPS, those of
// one being made of none of the same, and each group has a node, which leads to those of the groups before:
// to their results, and to tensors inside where gradients meet as well. How they are found: cut.h.
//
// Start reading at `Replay::run`.
#pragma once

#include <functional>
#include <memory>

#include "autograd/node.h"
#include "replay/program.h"

namespace adjoint::replay {

/// A backward pass in a trace: its steps, the cotangents that were given, and the gradients that came.
struct Pass {
  Range steps;
  std::vector<Place> seeds, gradients;  // slot -1: none
  /// Of gradients that are views: what of, since that decides whether they are added to in place.
  std::vector<Place> bases;
  bool operator==(const Pass&) const = default;
};

/// An output whose graph was freed by the function itself: what its node is called and says, and the inputs
/// that it would lead to.
struct Spent {
  uint32_t output;
  std::string name, error;
  std::vector<uint32_t> by;
  bool operator==(const Spent&) const = default;
};

/// A set of numbers.
struct Mask {
  explicit Mask(size_t n) : words((n + 63) / 64) {}
  void set(size_t i) { words[i / 64] |= uint64_t{1} << i % 64; }
  bool operator[](size_t i) const { return words[i / 64] >> i % 64 & 1; }
  bool any() const {
    return std::ranges::any_of(words, [](uint64_t w) { return w != 0; });
  }
  void operator|=(const Mask& o) {
    for (size_t k = 0; k < words.size(); ++k) words[k] |= o.words[k];
  }
  bool operator==(const Mask& o) const { return std::ranges::equal(words, o.words); }
  runtime::SmallVector<uint64_t, 2> words;
};

/// What is saved on the way from some outputs of a group to some of its edges: a pass takes it, and frees it.
struct Saving {
  Mask outputs, edges;
  bool operator==(const Saving&) const = default;
};

/// A tensor inside that later groups lead to, as an output of its group.
struct Inside {
  uint32_t group, number;
  /// A result, and by which edges it leads there.
  std::vector<uint32_t> path;
  DType dtype;
  Dims sizes;
  bool operator==(const Inside& o) const {
    return group == o.group && number == o.number && path == o.path && dtype == o.dtype &&
           std::ranges::equal(sizes, o.sizes);
  }
};

/// Results that need gradients and of which none is made of another, and tensors inside.
struct Group {
  /// Those inside are counted on from the recording's outputs.
  std::vector<uint32_t> outputs;
  /// How many of these are results.
  uint32_t results = 0;
  /// The inputs that they lead to, and the outputs of groups before, each as often as gradients arrive there
  /// apart; in this order are a pass's gradients, and the node's edges.
  std::vector<uint32_t> by, from;
  /// The edges over which a sum goes, of gradients that eager gives on one by one.
  std::vector<uint32_t> summed;
  std::vector<Saving> saving;
  /// Of each output, the edges that it leads to.
  std::vector<Mask> reach;
  /// Whether some output leads to some edge past nothing that is saved: a pass that asks for that is never
  /// refused.
  bool free_ways = false;
  std::span<const uint32_t> own() const { return {outputs.data(), results}; }
  std::vector<Pass> passes;
  bool operator==(const Group&) const = default;
};

/// A node of the graph that was recorded, latest first: how the results lead to it, by which edge of which of
/// these (or -1: as which output), and what it saves, if it does: a `Saving` of its group, or -1.
struct Met {
  int32_t from;
  uint32_t edge, group;
  int32_t saving;
};

/// A gradient that the program replaces, as an input: whose, and the step before which it lets go of it.
struct Replaced {
  uint32_t leaf, gradient;
  int64_t step;
};

/// A finished recording, and where the program's tensors lie in it.
struct Recording {
  Trace trace;
  std::vector<Place> inputs, outputs;
  /// Where the forward part ends.
  uint32_t forward = 0;
  std::vector<Group> groups;
  std::vector<Inside> inside;
  /// What other ways to the same may have otherwise: the graph; how many nodes were recorded with it; and of
  /// each group, the place of its latest among these.
  std::vector<Met> graph;
  uint64_t nodes = 0;
  std::vector<uint64_t> latest;
  /// The outputs that retain their gradient.
  std::vector<uint32_t> retained;
  /// Whether code of Python ran in passes, so that one who replays them asks whether it would again.
  bool asks = false;
  std::vector<Relation> relations;
  /// See `Program::Ends`.
  std::vector<uint32_t> counts;
  std::vector<Spent> spent;
  std::vector<Replaced> replaced = {};
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

/// Runs the function again on what it took, as it was at the call: its results are the outputs that need
/// gradients, group by group, with their graphs.
class Again {
 public:
  virtual ~Again() = default;
  virtual Tensors results(TensorList inputs) const = 0;
  /// Whether recorded passes do what passes would do now.
  virtual bool holds() const = 0;
};

/// What a node owns of it, in as many shares as it has results.
using MakeAgain = runtime::FunctionRef<std::shared_ptr<const Again>(size_t shares)>;

/// A recording made ready to run, when it runs for the first time.
class Replay : public std::enable_shared_from_this<Replay> {
 public:
  /// Throws Error where it cannot be run.
  explicit Replay(std::shared_ptr<const Recording> recording);
  /// Make the program, if there is none yet. Throws Error where it cannot be run. Passes are planned when
  /// they come.
  void plan() { forward_->plan(); }
  bool is_planned() const { return forward_->is_planned(); }
  /// `again` may give null where no result needs a gradient. With `drop`, gradients that are replaced and
  /// that nothing reads go when the function would let go of them.
  Program::Outcome run(std::span<const Tensor> inputs, std::span<Tensor> outputs, MakeAgain again,
                       std::vector<Scalar>& numbers, const Program::Drop* drop = nullptr);
  /// Once it is planned.
  const Program& program() const { return forward_->any(); }
  /// Of the call, with all bytes: of the recording, and of passes as far as they ran.
  Program::Statistics statistics() const;
  /// An instruction a line, for people: of the call, and of each pass.
  std::string text() const;
  /// Take the time of each instruction from now on, or no longer.
  void time(bool on);
  /// The call and then each pass, whose inputs are the call's, a cotangent for each of `outputs`, and what
  /// was `kept`: results of the call after its own. Of its results the first are gradients by the inputs
  /// `by`.
  struct Shown {
    Picture picture;
    std::vector<uint32_t> kept, outputs, by;
    int64_t timed;
  };
  std::vector<Shown> pictures() const;
  size_t outputs() const { return recording_->outputs.size(); }
  /// Whether what was there before gets another history.
  bool changes_histories() const { return !changed_.empty(); }
  bool has_passes() const { return !recording_->groups.empty(); }
  const Recording& recording() const { return *recording_; }
  /// Whether memory is written that was there before.
  bool writes() const;

 private:
  friend class ReplayNode;
  friend class Before;
  friend class Supplier;
  struct Backward {
    std::unique_ptr<Pool> program;
    const Pass* pass;
    /// Gradients, and what they are views of.
    size_t outputs() const { return pass->gradients.size() + pass->bases.size(); }
  };
  /// What there is for a group.
  struct Part {
    /// What its passes take of the forward part: numbers of `kept_`.
    std::vector<uint32_t> kept;
    /// The inputs that its passes read.
    std::vector<bool> reads;
    std::vector<Backward> backward;
    /// Of tensors inside: no more than their geometry.
    Tensors inside;
  };
  /// What the call writes of an input's memory, from that input's first element on.
  struct Write {
    uint32_t input;
    int64_t begin, end;
  };
  void find_kept();
  void find_writes();
  void add_backward(const Group& group, Part& part) const;
  /// The inputs, with what gets another history standing as it is now.
  Tensors as_now(std::span<const Tensor> inputs) const;
  /// Whether an input gets another history by the call, which writes it.
  bool changes(uint32_t input) const { return std::ranges::find(changed_, input) != changed_.end(); }
  /// The program for these cotangents, or null.
  const Backward* pass_for(const Part& part, const Gradients& seeds) const;

  const std::shared_ptr<const Recording> recording_;
  /// What passes take of the forward part, as places of whole slots.
  std::vector<Place> kept_;
  /// Of each of these, the output that is the same memory, or -1.
  std::vector<int32_t> kept_output_;
  std::vector<Part> parts_;
  /// The inputs in memory that the call writes, and what it writes.
  std::vector<uint32_t> written_;
  std::vector<Write> writes_;
  /// The inputs whose history the call changes: results of groups, too.
  std::vector<uint32_t> changed_;
  std::unique_ptr<Pool> forward_;
  runtime::Counted counted_;
};

/// f(again, shares) of what this node of a replayed call would run again, and nodes that only it leads to,
/// for the collector to ask by way of a result of the node, the one of this number. A share is told of by way
/// of one result: nobody else but results, and nodes of the same call, has the node then.
void each_again(const Node& node, uint32_t output_nr, runtime::FunctionRef<void(const Again&, size_t)> f);

}  // namespace adjoint::replay
