// Which nodes gradients come to in a pass. A node that stands for one of each of its results has edges of all
// of them: where a pass brings gradients of some alone, nodes that only others lead to are none of its own.
#pragma once

#include <unordered_set>

#include "autograd/many.h"

namespace adjoint {

class Reached {
 public:
  std::span<const Edge> roots;
  /// Gradients came for some results alone of a node that stands for many.
  std::atomic<bool> parted{false};
  /// Looks through the graph, once.
  bool has(const Node& node);

 private:
  void look();
  runtime::SmallLock mutex_;
  std::unordered_set<const Node*> nodes_;
};

}  // namespace adjoint
