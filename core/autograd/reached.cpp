#include "autograd/reached.h"

#include <set>

#include "autograd/engine.h"

namespace adjoint {

bool Reached::has(const Node& node) {
  std::lock_guard lock(mutex_);
  if (nodes_.empty()) look();
  return nodes_.contains(&node);
}

void Reached::look() {
  std::set<std::pair<const Node*, uint32_t>> results;  // of nodes that stand for many
  std::vector<std::pair<Node*, uint32_t>> open;
  const auto visit = [&](const Edge& edge) {
    const Edge& e = resolved(edge);
    Node* const node = e.node.get();
    if (!node) return;
    const bool first = nodes_.insert(node).second;
    if (stands_for_many(*node) ? results.emplace(node, e.input_nr).second : first)
      open.emplace_back(node, e.input_nr);
  };
  for (const Edge& e : roots) visit(e);
  while (!open.empty()) {
    const auto [node, input_nr] = open.back();
    open.pop_back();
    const bool many = stands_for_many(*node);
    const auto edges = node->edges();
    for (size_t j = 0; j < edges.size(); ++j)
      if (!many || many_in_one.load(std::memory_order_relaxed)->is_edge_of(*node, input_nr, j))
        visit(edges[j]);
  }
}

}  // namespace adjoint
