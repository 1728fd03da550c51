#include "autograd/reached.h"

#include <set>

#include "autograd/engine.h"
#include "for_size.h"

namespace adjoint {

bool Reached::has(const Node& node) {
  std::lock_guard lock(mutex_);
  if (nodes_.empty()) look();
  return nodes_.contains(&node);
}

void Reached::look() {
  std::set<std::pair<const Node*, uint32_t>> results;  // of nodes that stand for many
  std::vector<std::pair<Node*, uint32_t>> open;
  const auto visit = [&](const Edge& e) {
    Node* const node = e.node.get();
    if (!node) return;
    const bool first = nodes_.insert(node).second;
    if (stands_for_many(*node) ? results.emplace(node, e.input_nr).second : first)
      open.emplace_back(node, e.input_nr);
  };
  for (const Edge& e : roots) visit(resolved(e));
  while (!open.empty()) {
    const auto [node, input_nr] = open.back();
    open.pop_back();
    each_edge_of(*node, input_nr, visit);
  }
}

}  // namespace adjoint
