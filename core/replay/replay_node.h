// The node of a group of a replayed call's results: what it keeps, and how it is differentiated.
//
// Its rule is a recorded pass, run over what the call kept. Where a pass asks for what was not recorded, the
// function runs again, on its inputs and with the memory that it writes as these were at the call, and the
// graph that this gives is differentiated (second_run.cpp). Before a pass that is recorded itself, that graph
// takes the place of the call's nodes, for this pass and all others that begin later (replaced.cpp).
//
// Start reading at `ReplayNode::apply`.
#pragma once

#include <unordered_map>

#include "autograd/many.h"
#include "autograd/saved.h"
#include "replay/derivative.h"

namespace adjoint::replay {

/// The memory that a call writes, as it was before.
class Before {
 public:
  Before() = default;
  Before(const Replay& replay, std::span<const Tensor> inputs);
  /// Let that memory be as it was; gives what it is now.
  Before put(std::span<const Tensor> inputs) const;

 private:
  struct Part {
    uint32_t input;
    int64_t begin;  // from the input's first element
    Tensor bytes;
  };
  struct Count {
    uint32_t input, version, other, view;
  };

  std::vector<Part> parts_;
  std::vector<Count> counts_;
};

class ReplayNode;

/// What the nodes of a call share.
struct NodesOfCall {
  NodesOfCall(const Replay& replay, std::span<const Tensor> inputs) : before(replay, inputs) {}
  runtime::SmallLock mutex;
  Before before;
  /// By group; null: gone.
  runtime::SmallVector<ReplayNode*, 4> nodes;
  /// How many need what was before.
  uint32_t needing = 0;
  /// The number of the first node that the call would have recorded.
  uint64_t first_node = 0;
  bool replaced = false;
};

class ReplayNode final : public Node {
 public:
  ReplayNode(std::shared_ptr<Replay> replay, uint32_t group, std::shared_ptr<const Again> again,
             std::shared_ptr<NodesOfCall> call, std::span<const Tensor> inputs);
  ~ReplayNode() override;
  std::string name() const override { return "JitBackward0"; }
  std::span<Edge> edges() override { return edges_; }
  void apply(Gradients& in, Gradients& out) override;
  void release() override;
  /// After the call: keep what passes take, and be the history of its results. `all`: they, and what is kept.
  /// `numbers`: those that it computed with.
  /// `nodes`: of all groups.
  void enter(std::span<const Tensor> inputs, std::span<Tensor> all, const std::vector<Scalar>& numbers,
             std::span<const Ref<ReplayNode>> nodes);
  /// See `ManyInOne`, of which these are what a node says of itself.
  bool leads_on(uint32_t input_nr) const;
  /// The same, of what the result is made of.
  bool leads_past(uint32_t input_nr) const;
  bool is_edge_of(uint32_t input_nr, size_t edge) const { return group().reach[input_nr][edge]; }
  uint32_t results() const { return group().results; }
  const Edge& replacement(uint32_t input_nr) const { return now_[input_nr]; }
  /// Edges over which the sum of what eager gives one by one goes: `Group::summed`.
  std::span<const uint32_t> summed() const { return group().summed; }
  /// How many nodes have such edges, in all graphs: passes look for them then.
  static std::atomic<uint32_t> with_sums;
  /// Run the function again, and let the graph that this gives take the place of the call's nodes. Nothing
  /// where all was freed, or that was done.
  void replace();
  /// See `adjoint::replay::each_again`.
  void each_again(uint32_t output_nr, runtime::FunctionRef<void(const Again&, size_t)> f) const;

 private:
  void tell_again(runtime::FunctionRef<void(const Again&, size_t)> f, size_t shares) const;
  const Group& group() const { return replay_->recording_->groups[group_]; }
  const Replay::Part& part() const { return replay_->parts_[group_]; }
  bool run(const Replay::Backward& pass, Gradients& in, Gradients& out, bool spends);
  /// A pass that is at work here. Eager frees what passes come by, node by node, and refuses the next that
  /// comes by the same; here that is known by parts (`Saving`), instead of by `Node::readers`.
  class Reading {
   public:
    Reading(ReplayNode& node, const Gradients& in);
    Reading(const Reading&) = delete;
    ~Reading();
    void done() { claimed_.clear(); }
    /// Whether no other pass will ask for anything.
    bool spends = false;
    /// What was freed before, where the pass asks for some of it, and something was written besides: the
    /// graph of a second run tells which of both the pass comes to.
    std::vector<bool> freed;

   private:
    ReplayNode& node_;
    std::vector<uint32_t> claimed_;
  };
  void differentiate_again(Gradients& in, Gradients& out, std::vector<bool> freed);
  /// Whether something that is kept was written since.
  bool is_written();
  /// What the function took, and whether some of it was written since by who had nothing to fear of that.
  Tensors inputs_then(bool& written);
  /// Differentiate what came in from these edges to those, for each of which there is one where gradients
  /// leave.
  void differentiate(std::span<const Edge> roots, std::span<const Edge> ends, Gradients& in, Gradients& out);
  void differentiate_replaced(Gradients& in, Gradients& out);
  /// What a node kept; it dies after the lock.
  struct Taken {
    std::vector<SavedTensor> inputs, results;
    Tensors unread, kept;
    std::shared_ptr<const Again> again;
    Before before;
  };
  /// All that a second run needs; the call is locked.
  void take(Taken& taken);
  /// A result that passes take, as it is kept, and where it lies in its slot.
  struct Result {
    SavedTensor kept;
    int64_t offset;
  };
  /// What nodes of the call know.
  struct Known {
    /// Of inputs, where this node has none.
    std::vector<Edge> histories;
    /// What was kept, by numbers of `Replay::kept_`.
    std::unordered_map<uint32_t, Tensor> kept;
    /// Whether some of that is missing, since a pass failed after it had taken it.
    bool halfway = false;
    /// Results among it, by slot.
    std::unordered_map<int32_t, Result> results;
    /// By group.
    std::vector<std::vector<bool>> spent;
  };
  Known known();
  void add_kept(Known& known) const;
  /// The graph of a second run, as the edges of all outputs. What nodes in it kept of results are the call's,
  /// and what a node kept of what was written since, it refuses.
  std::vector<Edge> run_again(const Again& again, TensorList inputs, const Known& known, bool written);
  void keep_results(std::span<Node* const> nodes, TensorList made, const Known& known) const;
  /// Whether the pass asks for what comes by an edge.
  bool goes_on(size_t edge) const;
  /// Let the edges of all outputs in another graph stand for the call's.
  void install(std::span<const Edge> now);

  const std::shared_ptr<Replay> replay_;
  const uint32_t group_;
  const std::shared_ptr<NodesOfCall> call_;
  /// These under its lock, but for what reads them because this thread is at work here: nothing was freed
  /// then.
  std::shared_ptr<const Again> again_;
  bool released_ = false;
  /// Of each output, in the graph that took the place of the call's.
  std::vector<Edge> now_;
  std::vector<Edge> edges_;
  /// The nodes of groups before that edges lead to, one for each; how many edges of later ones lead here.
  std::vector<ReplayNode*> before_it_;
  std::atomic<uint32_t> from_later_{0};
  /// Of inputs that a pass reads, and of others that have a history; the results that a pass takes.
  std::vector<SavedTensor> inputs_, results_;
  /// Leaves that no pass reads, which may be written without harm.
  Tensors unread_;
  std::vector<uint32_t> versions_;
  /// Where the elements of all inputs were: no version tells that a tensor was given other memory.
  std::vector<const char*> elements_;
  Tensors kept_;
  std::vector<Scalar> numbers_;
  /// Passes at work; which parts of what was saved a pass has freed, or will.
  runtime::SmallLock mutex_;
  uint32_t reading_ = 0;
  std::vector<bool> spent_;
  size_t left_;
};

/// See `ManyInOne::replace`.
void replace_calls(std::span<const Edge> roots, std::span<const Edge> inputs, bool create_graph);
/// Whether this thread records a call.
bool is_recording();

/// What passes have freed of a call, by group and `Saving`, is freed in the graph of a second run, too.
void free_spent(const Recording& recording, std::span<const Edge> outputs,
                const std::vector<std::vector<bool>>& spent);

/// Where the outputs of a recording are, and what is inside, in the graph of what `Again` gave; no edge where
/// they are not found, or are not of groups.
std::vector<Edge> outputs_of(const Recording& recording, TensorList again);

/// Give a result the history of one whose graph is gone.
void set_spent(const Spent& spent, std::span<const Tensor> inputs, const Tensor& result);

}  // namespace adjoint::replay
