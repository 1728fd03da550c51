// The tasks of a pass over the graph: what it knows of each node, found by the node.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "autograd/node.h"

namespace adjoint {

/// What one pass knows of one node.
struct Task {
  Node* node;
  uint32_t dependencies = 0;
  bool needed = true;
  /// One of the inputs that the pass was asked for.
  bool wanted = false;
  /// First capture at this node, an index into Pass::captures_, or -1.
  int32_t capture = -1;
  Gradients gradients;
  explicit Task(Node* n) : node(n) {}
};

/// The nodes of tasks that are visited(number), first to last, as a pass that has not begun runs those
/// needed; next(edge): the number of the task that it leads to.
template <class Visited, class Next>
std::vector<Ref<Node>> order_of(const std::vector<Task>& tasks, const Visited& visited, const Next& next) {
  std::vector<uint32_t> missing(tasks.size()), ready;
  const auto each = [&](uint32_t t, auto&& f) {
    for (const Edge& e : tasks[t].node->edges())
      if (e) f(next(e));
  };
  for (uint32_t t = 0; t < tasks.size(); ++t)
    if (visited(t)) each(t, [&](uint32_t n) { ++missing[n]; });
  const auto before = [&](uint32_t a, uint32_t b) {
    return tasks[a].node->sequence < tasks[b].node->sequence;
  };
  const auto push = [&](uint32_t t) {
    ready.push_back(t);
    std::ranges::push_heap(ready, before);
  };
  for (uint32_t t = 0; t < tasks.size(); ++t)
    if (visited(t) && !missing[t]) push(t);
  std::vector<Ref<Node>> nodes;
  while (!ready.empty()) {
    std::ranges::pop_heap(ready, before);
    const uint32_t t = ready.back();
    ready.pop_back();
    if (tasks[t].needed) nodes.push_back(Ref<Node>::share(tasks[t].node));
    each(t, [&](uint32_t n) {
      if (!--missing[n]) push(n);
    });
  }
  return nodes;
}

/// From node to task: open addressing over pointers.
class TaskIndex {
 public:
  TaskIndex() : slots_(64), mask_(63) {}
  /// The slot of `node`: its task number, or ~0u for a new one, to be set by the caller.
  uint32_t& operator[](Node* node) {
    if (used_ * 2 >= slots_.size()) grow();
    size_t i = hash(node) & mask_;
    while (slots_[i].node != node) {
      if (!slots_[i].node) {
        slots_[i].node = node;
        ++used_;
        break;
      }
      i = (i + 1) & mask_;
    }
    return slots_[i].task;
  }
  /// The task of `node`, or ~0u.
  uint32_t find(const Node* node) const {
    size_t i = hash(node) & mask_;
    while (slots_[i].node && slots_[i].node != node) i = (i + 1) & mask_;
    return slots_[i].node ? slots_[i].task : ~0u;
  }

 private:
  struct Slot {
    Node* node = nullptr;
    uint32_t task = ~0u;
  };
  static size_t hash(const Node* n) { return (reinterpret_cast<uintptr_t>(n) * 0x9e3779b97f4a7c15ull) >> 20; }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const Slot& s : old) {
      if (!s.node) continue;
      size_t i = hash(s.node) & mask_;
      while (slots_[i].node) i = (i + 1) & mask_;
      slots_[i] = s;
    }
  }
  std::vector<Slot> slots_;
  size_t mask_;
  size_t used_ = 0;
};

}  // namespace adjoint
