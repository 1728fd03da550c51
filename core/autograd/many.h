// Nodes that stand for many: one for each result of a replayed call, which the core knows no more of than
// this.
//
// Where a pass needs more of such a node than it has, it is REPLACED by nodes of a graph that is made then:
// edges to its results lead to those from then on. Nobody rewrites an edge, since other passes may be reading
// it: who follows edges asks `resolved`. A pass that came to the node before it was replaced goes on with it.
#pragma once

#include <atomic>
#include <span>

#include "autograd/node.h"

namespace adjoint {

/// `Node::readers` of a node that stands for one of each of its results, and sees to what passes free itself:
/// hooks of a result wait for a gradient of its own. And of one that was replaced.
inline constexpr uint16_t kStandsForMany = 2, kReplaced = 6;
inline bool stands_for_many(const Node& node) {
  return node.readers.load(std::memory_order_relaxed) == kStandsForMany;
}
inline bool is_replaced(const Node& node) {
  return node.readers.load(std::memory_order_acquire) == kReplaced;
}

/// What has such nodes says of them; set before there is one.
struct ManyInOne {
  /// Whether a result leads to what the pass asks for.
  bool (*leads_on)(const Node& node, uint32_t input_nr);
  /// Whether an edge is one of this result's.
  bool (*is_edge_of)(const Node& node, uint32_t input_nr, size_t edge);
  /// How many results of the call it has.
  uint32_t (*results)(const Node& node);
  /// Where gradients of a result go, of a node that was replaced.
  const Edge& (*replacement)(const Node& node, uint32_t input_nr);
  /// A pass begins: replace those that lead from these roots to these inputs, or anywhere, if there are no
  /// inputs, where they would give it something else than the nodes that they stand for.
  void (*replace)(std::span<const Edge> roots, std::span<const Edge> inputs, bool create_graph);
};
extern std::atomic<const ManyInOne*> many_in_one;

/// Where an edge leads now.
inline const Edge& resolved(const Edge& e) {
  const Edge* at = &e;
  while (at->node && is_replaced(*at->node))
    at = &many_in_one.load(std::memory_order_relaxed)->replacement(*at->node, at->input_nr);
  return *at;
}

inline Node* resolved(Node* node, uint32_t input_nr) {
  if (!is_replaced(*node)) return node;
  return resolved(many_in_one.load(std::memory_order_relaxed)->replacement(*node, input_nr)).node.get();
}

/// f(edge) of each edge to which gradients of a result go on from a node: where it leads now.
template <class F>
void each_edge_of(Node& node, uint32_t input_nr, F f) {
  const bool many = stands_for_many(node);
  const auto edges = node.edges();
  for (size_t j = 0; j < edges.size(); ++j)
    if (edges[j] && (!many || many_in_one.load(std::memory_order_relaxed)->is_edge_of(node, input_nr, j)))
      f(resolved(edges[j]));
}

/// Passes that may have come to such nodes, in all threads.
extern std::atomic<uint32_t> passes_by_many;

/// Let what replaces a node have the hooks of its results, the tensors that retain their gradients, and hooks
/// of the node, which see the gradient of one result at a time then. With `keeps`, the node has them besides.
void give_hooks(Node& node, bool keeps);

/// Set and remove hooks of a node itself; of one that was replaced, they are at what took its place.
using NodePrehook = decltype(NodeExtras::prehooks)::value_type::second_type;
using NodePosthook = decltype(NodeExtras::posthooks)::value_type::second_type;
void set_node_hook(Node& node, uint64_t id, NodePrehook hook);
void set_node_hook(Node& node, uint64_t id, NodePosthook hook);
void remove_node_hook(Node& node, uint64_t id);

}  // namespace adjoint
