#include "replay/ends.h"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "for_size.h"

namespace adjoint::replay {

namespace {

/// Where gradients for one end arrive.
struct End final : Node {
  std::string name() const override { return "End"; }
  void apply(Gradients&, Gradients&) override {}
};

/// Of more gradients for one end, a pass gives the sum.
constexpr size_t kMostApart = 4;

}  // namespace

std::vector<Node*> nodes_from(std::span<const Edge> begin, const std::function<bool(const Edge&)>& stop) {
  std::unordered_set<const Node*> seen;
  std::vector<Node*> nodes;
  const auto visit = [&](const Edge& e) {
    if (e && !stop(e) && seen.insert(e.node.get()).second) nodes.push_back(e.node.get());
  };
  for (const Edge& e : begin) visit(e);
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const Edge& e : nodes[i]->edges()) visit(e);
  return nodes;
}

Apart::Apart(std::span<const Edge> roots, std::span<const Edge> ends, const std::vector<bool>& sums) {
  std::map<std::pair<const Node*, uint32_t>, uint32_t> numbers;
  for (uint32_t k = 0; k < ends.size(); ++k)
    if (ends[k]) numbers.emplace(std::pair(ends[k].node.get(), ends[k].input_nr), k);
  const auto end_of = [&](const Edge& e) { return numbers.find({e.node.get(), e.input_nr}); };
  // In the order in which the engine comes to them.
  std::vector<Node*> nodes = nodes_from(roots, [&](const Edge& e) { return end_of(e) != numbers.end(); });
  std::ranges::stable_sort(nodes, [](const Node* a, const Node* b) { return a->sequence > b->sequence; });
  std::vector<std::vector<Edge*>> leading(ends.size());
  for (Node* const node : nodes)
    for (Edge& e : node->edges())
      if (const auto at = end_of(e); at != numbers.end()) leading[at->second].push_back(&e);
  for (uint32_t k = 0; k < ends.size(); ++k)
    for (size_t n = 0; n < leading[k].size(); ++n) {
      Edge& e = *leading[k][n];
      if (n == 0 || leading[k].size() <= kMostApart || sums.empty() || !sums[k]) {
        auto* const end = new End;
        const ResultInfo& info = e.node->result(e.input_nr);
        end->set_result(0, empty(info.sizes(), info.dtype()));
        places.push_back({Ref<Node>::steal(end), 0});
        of.push_back(k);
      }
      then_.emplace_back(&e, std::exchange(e, copy_of(places.back())));
    }
}

Apart::~Apart() {
  for (auto& [edge, then] : then_) *edge = std::move(then);
}

Tensors gradients_at(std::span<const GraphEnd> ends, std::span<const Edge> roots, TensorList seeds,
                     bool retain_graph) {
  if (ends.empty()) return {};
  std::vector<GraphEnd> begin;
  Tensors given;
  for (size_t i = 0; i < roots.size(); ++i)
    if (seeds[i].defined()) {
      begin.push_back({{}, copy_of(roots[i])});
      given.push_back(seeds[i]);
    }
  BackwardOptions options;
  options.create_graph = thread_state.grad;
  options.retain_graph = retain_graph || options.create_graph;
  options.accumulate = false;
  return backward(begin, given, ends, options, true);
}

Tensors Apart::gradients(std::span<const Edge> roots, TensorList seeds, bool retain_graph,
                         const std::vector<bool>& wanted) const {
  std::vector<GraphEnd> ends;
  std::vector<size_t> which;
  for (size_t i = 0; i < places.size(); ++i) {
    if (!wanted.empty() && !wanted[of[i]]) continue;
    which.push_back(i);
    ends.push_back({{}, copy_of(places[i])});
  }
  Tensors all(places.size());
  Tensors found = gradients_at(ends, roots, seeds, retain_graph);
  for (size_t k = 0; k < which.size(); ++k) all[which[k]] = std::move(found[k]);
  return all;
}

}  // namespace adjoint::replay
