// The graph of a call's results, cut into groups as eager's passes come through it.
//
// Eager runs nodes from the latest to the first. So the nodes are cut by their sequence numbers, at results:
// a group is what was recorded up to its results and after those of the group before, and nothing in it is
// made of its results. A node for each group then runs what eager runs in one go, and what eager adds up,
// where gradients of several groups meet, is added up there in eager's order: at results, and at tensors
// inside which nodes of later groups took (POINTS, both of them).
//
// Start reading at `Cut::Cut`.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "replay/derivative.h"
#include "replay/ends.h"

namespace adjoint::replay {

class Cut {
 public:
  /// `numbers` are those of the results, and `by` those of the ends, in the recording; `outputs` is how many
  /// it has.
  /// `before`: the number of the first node that the call recorded, or would have.
  /// Fails where a node leads to one that was recorded after it, so that no cut has one side after the other.
  Cut(std::vector<Edge> results, std::vector<uint32_t> numbers, std::vector<Edge> ends,
      std::vector<uint32_t> by, uint32_t outputs, uint64_t before);
  /// Of each group its points: results, as they were recorded, and then tensors inside, as places in
  /// `points`.
  std::vector<std::vector<uint32_t>> groups;
  std::vector<Edge> points;
  size_t ends() const { return ends_.size(); }
  size_t results() const { return numbers_.size(); }

  /// What a pass from a group's points brings, and for which of `ends` and then `points` each is.
  struct Brought {
    Tensors gradients;
    std::vector<uint32_t> of;
  };
  Brought pass(uint32_t group, TensorList seeds) const;
  /// The group, where a gradient leaves it for each of `of`; but for its passes.
  Group group(uint32_t group, std::span<const uint32_t> of);
  /// What a recording says of the graph, once it has all groups.
  void describe(Recording& recording) const;
  /// The tensors inside, in order.
  std::vector<Inside> inside() const;

 private:
  struct Visited {
    Node* node;
    uint32_t group;
    /// How the results lead here: by which edge of which node, or as which result.
    int32_t from;
    uint32_t edge;
    int32_t saving = -1;
  };
  bool is_end(const Edge& e) const { return end_nodes_.contains(e.node.get()); }
  void visit();
  void find_inside();

  std::vector<uint32_t> numbers_, by_;
  std::vector<Edge> ends_;
  std::unordered_set<const Node*> end_nodes_;
  uint32_t outputs_;
  uint64_t before_, after_;
  /// Of each end, the latest group that leads there.
  std::vector<uint32_t> last_;
  /// Latest first.
  std::vector<Visited> nodes_;
  std::unordered_map<const Node*, uint32_t> at_;
  /// Of points inside: through which edge of which node they are found, and the group.
  std::vector<Visited> found_;
};

}  // namespace adjoint::replay
