#include "replay/cut.h"

#include <algorithm>
#include <map>

#include "for_size.h"

namespace adjoint::replay {

Cut::Cut(std::vector<Edge> results, std::vector<uint32_t> numbers, std::vector<Edge> ends,
         std::vector<uint32_t> by, uint32_t outputs, uint64_t before)
    : points(std::move(results)),
      numbers_(std::move(numbers)),
      by_(std::move(by)),
      ends_(std::move(ends)),
      outputs_(outputs),
      before_(before),
      after_(thread_state.sequence) {
  for (const Edge& e : ends_)
    if (e) end_nodes_.insert(e.node.get());
  visit();
  std::vector<uint32_t> order(points.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(
      order, {}, [&](uint32_t i) { return std::pair(points[i].node->sequence, points[i].input_nr); });
  // A group ends before anything is made of its results.
  std::map<std::pair<const Node*, uint32_t>, uint64_t> taken;
  for (const Edge& e : points) taken.emplace(std::pair(e.node.get(), e.input_nr), Node::kFirst);
  for (const Visited& v : nodes_)
    for (const Edge& e : v.node->edges())
      if (const auto at = taken.find({e.node.get(), e.input_nr}); at != taken.end())
        at->second = v.node->sequence;
  uint64_t end = 0;
  for (const uint32_t i : order) {
    if (groups.empty() || points[i].node->sequence >= end) {
      groups.emplace_back();
      end = Node::kFirst;
    }
    end = std::min(end, taken.at({points[i].node.get(), points[i].input_nr}));
    groups.back().push_back(i);
  }
  std::vector<uint64_t> tops;
  for (const auto& group : groups) tops.push_back(points[group.back()].node->sequence);
  for (Visited& v : nodes_)
    v.group = static_cast<uint32_t>(std::ranges::lower_bound(tops, v.node->sequence) - tops.begin());
  last_.resize(ends_.size());
  for (const Visited& v : nodes_)
    for (const Edge& e : v.node->edges())
      if (e && is_end(e))
        for (size_t k = 0; k < ends_.size(); ++k)
          if (leads_to(e, ends_[k])) last_[k] = std::max(last_[k], v.group);
  find_inside();
}

void Cut::visit() {
  // By width, so that what leads somewhere is short.
  for (uint32_t i = 0; i < points.size(); ++i)
    if (at_.emplace(points[i].node.get(), 0).second) nodes_.push_back({points[i].node.get(), 0, -1, i});
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    at_[nodes_[n].node] = n;
    const auto edges = nodes_[n].node->edges();
    for (uint32_t k = 0; k < edges.size(); ++k) {
      const Edge& e = edges[k];
      if (!e || is_end(e)) continue;
      if (e.node->sequence >= nodes_[n].node->sequence)
        fail("the graph of its results was recorded in another order than it has");
      if (at_.emplace(e.node.get(), 0).second)
        nodes_.push_back({e.node.get(), 0, static_cast<int32_t>(n), k});
    }
  }
  std::vector<uint32_t> order(nodes_.size()), place(nodes_.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, std::greater(), [&](uint32_t i) { return nodes_[i].node->sequence; });
  for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::vector<Visited> sorted;
  sorted.reserve(nodes_.size());
  for (const uint32_t i : order) {
    sorted.push_back(nodes_[i]);
    if (int32_t& from = sorted.back().from; from >= 0)
      from = static_cast<int32_t>(place[static_cast<size_t>(from)]);
    at_[nodes_[i].node] = place[i];
  }
  nodes_ = std::move(sorted);
}

void Cut::find_inside() {
  std::vector<std::vector<uint32_t>> of(nodes_.size());  // points, by their nodes
  for (uint32_t p = 0; p < points.size(); ++p) of[at_[points[p].node.get()]].push_back(p);
  for (uint32_t n = 0; n < nodes_.size() && groups.size() > 1; ++n) {
    const auto edges = nodes_[n].node->edges();
    for (uint32_t k = 0; k < edges.size(); ++k) {
      const Edge& e = edges[k];
      if (!e || is_end(e)) continue;
      const uint32_t to = at_.at(e.node.get());
      if (nodes_[to].group == nodes_[n].group ||
          std::ranges::any_of(of[to], [&](uint32_t p) { return leads_to(e, points[p]); }))
        continue;
      of[to].push_back(static_cast<uint32_t>(points.size()));
      groups[nodes_[to].group].push_back(of[to].back());
      points.push_back(copy_of(e));
      found_.push_back({nullptr, nodes_[to].group, static_cast<int32_t>(n), k});
    }
  }
}

std::vector<Inside> Cut::inside() const {
  std::vector<Inside> all;
  for (size_t i = 0; i < found_.size(); ++i) {
    const Edge& e = points[results() + i];
    const ResultInfo& info = e.node->result(e.input_nr);
    const auto& group = groups[found_[i].group];
    Inside& in = all.emplace_back();
    in.group = found_[i].group;
    in.number = static_cast<uint32_t>(std::ranges::find(group, results() + i) - group.begin());
    in.dtype = info.dtype();
    in.sizes = {info.sizes().begin(), info.sizes().end()};
    const Visited* v = &found_[i];
    for (; v->from >= 0; v = &nodes_[static_cast<size_t>(v->from)]) in.path.push_back(v->edge);
    in.path.push_back(numbers_[v->edge]);
    std::ranges::reverse(in.path);
  }
  return all;
}

void Cut::describe(Recording& recording) const {
  recording.inside = inside();
  recording.nodes = after_ - before_;
  // What an alias of something older stands for may have been recorded before the call.
  for (const auto& group : groups) {
    uint64_t latest = before_;
    for (const uint32_t p : group) latest = std::max(latest, points[p].node->sequence);
    recording.latest.push_back(latest - before_);
  }
  for (const Visited& v : nodes_)
    recording.graph.push_back({v.from, v.from < 0 ? numbers_[v.edge] : v.edge, v.group, v.saving});
}

Cut::Brought Cut::pass(uint32_t group, TensorList seeds) const {
  std::vector<Edge> begin, stop;
  for (const uint32_t p : groups[group]) begin.push_back(copy_of(points[p]));
  for (const Edge& e : ends_) stop.push_back(copy_of(e));
  // Every point has its number, whether it can be reached or not.
  std::vector<bool> earlier(points.size());
  for (uint32_t g = 0; g < group; ++g)
    for (const uint32_t p : groups[g]) earlier[p] = true;
  for (uint32_t p = 0; p < points.size(); ++p) stop.push_back(earlier[p] ? copy_of(points[p]) : Edge());
  // A sum that comes to an end first is what eager has there then, too.
  std::vector<bool> sums(stop.size());
  for (size_t k = 0; k < ends_.size(); ++k) sums[k] = last_[k] == group;
  const Apart apart(begin, stop, sums);
  return {apart.gradients(begin, seeds, true), apart.of};
}

Group Cut::group(uint32_t group, std::span<const uint32_t> of) {
  Group made;
  const auto number = [&](uint32_t p) {
    return p < results() ? numbers_[p] : outputs_ + p - static_cast<uint32_t>(results());
  };
  for (const uint32_t p : groups[group]) {
    made.results += p < results();
    made.outputs.push_back(number(p));
  }
  for (const uint32_t n : of) {
    if (n < ends())
      made.by.push_back(by_[n]);
    else
      made.from.push_back(number(n - static_cast<uint32_t>(ends())));
  }
  // What saves something: which of the group's points lead to it, and to which edges it leads.
  const auto& roots = groups[group];
  const auto of_group = std::ranges::equal_range(nodes_, group, std::greater(), &Visited::group);
  const auto first = static_cast<uint32_t>(of_group.begin() - nodes_.begin());
  const auto last = static_cast<uint32_t>(of_group.end() - nodes_.begin());
  // Where fewer gradients come than there are edges, the last of them is a sum.
  const auto edges_to = [&](const Edge& end) {
    std::ptrdiff_t n = 0;
    for (uint32_t k = first; k < last; ++k)
      n += std::ranges::count_if(nodes_[k].node->edges(), [&](const Edge& e) { return leads_to(e, end); });
    return n;
  };
  for (uint32_t j = 0; j < of.size(); ++j)
    if (of[j] < ends() && (j + 1 == of.size() || of[j + 1] != of[j]) &&
        std::ranges::count(of, of[j]) < edges_to(ends_[of[j]]))
      made.summed.push_back(j);
  std::vector<Mask> from(of_group.size(), Mask(roots.size())), to(of_group.size(), Mask(of.size()));
  for (size_t i = 0; i < roots.size(); ++i) from[at_.at(points[roots[i]].node.get()) - first].set(i);
  const auto each_inner = [&](uint32_t n, auto&& f) {
    for (const Edge& e : nodes_[n].node->edges())
      if (e && !is_end(e))
        if (const uint32_t next = at_.at(e.node.get()); next < last) f(next - first);
  };
  for (uint32_t n = first; n < last; ++n)
    each_inner(n, [&](uint32_t next) { from[next] |= from[n - first]; });
  for (uint32_t n = last; n-- > first;) {
    Mask& reached = to[n - first];
    for (const Edge& e : nodes_[n].node->edges())
      for (size_t j = 0; e && j < of.size(); ++j)
        if (leads_to(e, of[j] < ends() ? ends_[of[j]] : points[of[j] - ends()])) reached.set(j);
    each_inner(n, [&](uint32_t next) { reached |= to[next]; });
    Saving saving{from[n - first], reached};
    if (!(nodes_[n].node->readers.load(std::memory_order_relaxed) & 1)) continue;
    const auto at = std::ranges::find(made.saving, saving);
    nodes_[n].saving = static_cast<int32_t>(at - made.saving.begin());
    if (at == made.saving.end()) made.saving.push_back(std::move(saving));
  }
  for (size_t i = 0; i < roots.size(); ++i) {
    const Mask& reached = made.reach.emplace_back(to[at_.at(points[roots[i]].node.get()) - first]);
    Mask refused(of.size());
    for (const Saving& s : made.saving)
      if (s.outputs[i]) refused |= s.edges;
    made.free_ways = made.free_ways || !std::ranges::equal(reached.words, refused.words);
  }
  return made;
}

}  // namespace adjoint::replay
