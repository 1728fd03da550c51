// The node of a group of a replayed call's results: what it keeps, and how it is differentiated.
//
// Its rule is a recorded pass, run over what the call kept. Where a pass asks for what was not recorded, the
// function runs again, on its inputs and with the memory that it writes as these were at the call, and the
// graph that this gives is differentiated. For a derivative of that, the results that are saved in the new
// graph take the place that the call's results have in the program's: see `join`.
//
// Start reading at `ReplayNode::apply`.
#pragma once

#include "autograd/saved.h"
#include "replay/derivative.h"

namespace adjoint::replay {

/// The memory that a call writes, as it was before.
class Before {
 public:
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
  Before() = default;

  std::vector<Part> parts_;
  std::vector<Count> counts_;
};

class ReplayNode final : public Node {
 public:
  ReplayNode(std::shared_ptr<Replay> replay, uint32_t group, std::shared_ptr<const Again> again,
             std::shared_ptr<const Before> before, std::span<const Tensor> inputs);
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
  /// See `adjoint::leads_on`.
  bool leads_on(uint32_t input_nr) const;
  /// The same, of what the result is made of.
  bool leads_past(uint32_t input_nr) const;
  /// See `adjoint::is_edge_of`.
  bool is_edge_of(uint32_t input_nr, size_t edge) const { return group().reach[input_nr][edge]; }
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

   private:
    ReplayNode& node_;
    std::vector<uint32_t> claimed_;
  };
  void differentiate_again(Gradients& in, Gradients& out);
  /// What the function took, and whether some of it was written since by who had nothing to fear of that.
  Tensors inputs_then(bool& written);
  /// Of the results of the function, run again, which is one of this node's, or of a node before it.
  struct Result {
    Edge now, then;
    const SavedTensor* kept = nullptr;
  };
  std::vector<Result> results_of(TensorList again);
  /// `stops`: where the inputs came from.
  void differentiate(const std::vector<Result>& results, TensorList inputs, std::vector<Edge> stops,
                     Gradients& in, Gradients& out);
  void put_results(const std::vector<Result>& results, std::span<const Edge> stops);
  static void join(const std::vector<Result>& results, std::span<const std::pair<Edge, Edge>> places,
                   TensorList gradients, std::span<const Edge> stops);

  const std::shared_ptr<Replay> replay_;
  const uint32_t group_;
  std::shared_ptr<const Again> again_;
  std::shared_ptr<const Before> before_;
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

/// Give a result the history of one whose graph is gone.
void set_spent(const Spent& spent, std::span<const Tensor> inputs, const Tensor& result);

}  // namespace adjoint::replay
