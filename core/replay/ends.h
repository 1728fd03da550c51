// Where a pass through a graph ends: gradients that arrive at one end are told apart.
//
// While a pass is recorded, edges that lead to its ends lead to nodes of their own. So what arrives at one
// end comes as it is, and the node of the replayed call gives it on like that: whoever adds it up, with what
// comes from elsewhere, does so in the order that eager has. Start reading at `Apart`.
#pragma once

#include "autograd/engine.h"

namespace adjoint::replay {

inline Edge copy_of(const Edge& e) { return {e.node, e.input_nr}; }
inline bool leads_to(const Edge& e, const Edge& to) {
  return e && e.node.get() == to.node.get() && e.input_nr == to.input_nr;
}

/// The nodes that edges lead to, but for those that stop(edge).
std::vector<Node*> nodes_from(std::span<const Edge> begin, const std::function<bool(const Edge&)>& stop);

/// By a pass of its own: the gradients of ends, by those of roots, of which some may be undefined.
Tensors gradients_at(std::span<const GraphEnd> ends, std::span<const Edge> roots, TensorList seeds,
                     bool retain_graph);

/// While it lives, edges of a graph that lead to ends lead to nodes of their own; where there are many, edges
/// to an end of which `sums` says so lead to one.
class Apart {
 public:
  Apart(std::span<const Edge> roots, std::span<const Edge> ends, const std::vector<bool>& sums = {});
  ~Apart();
  Apart(const Apart&) = delete;
  /// What arrives there; seeds may be undefined. With `wanted`, for those ends alone of which it says so.
  Tensors gradients(std::span<const Edge> roots, TensorList seeds, bool retain_graph,
                    const std::vector<bool>& wanted = {}) const;

  /// In the order of ends: these nodes, and for which end each is.
  std::vector<Edge> places;
  std::vector<uint32_t> of;

 private:
  std::vector<std::pair<Edge*, Edge>> then_;
};

}  // namespace adjoint::replay
