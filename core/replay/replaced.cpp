// Where a pass is to be recorded, the graph of a second run takes the place of a call's nodes; likewise where
// somebody looks on, maps or differentiates the pass, or the node would give a sum of what eager adds up with
// more.
//
// A recorded pass is differentiated again: gradients then come to the call by the pass's own nodes and by its
// results, and are to be added up where eager adds them, at each tensor inside. So from then on the call has
// the graph that eager would have: its nodes have the numbers that they would have had, keep the call's
// results, and what a pass has freed is freed in it; edges to results lead there (autograd/many.h), and
// nothing of the call's nodes runs any more. Start reading at `replace_calls`.
#include <map>
#include <unordered_set>

#include "autograd/engine.h"
#include "autograd/meta.h"
#include "autograd/views.h"
#include "for_size.h"
#include "replay/ends.h"
#include "replay/replay_node.h"

namespace adjoint::replay {

namespace {

/// What a pass from roots to inputs will come to.
struct Way {
  Way(std::span<const Edge> roots, std::span<const Edge> inputs);
  /// The calls' nodes that lead to the inputs, the latest first.
  std::vector<Ref<ReplayNode>> calls;
  /// Of each result that edges lead to, the latest node that one comes from.
  std::map<std::pair<const Node*, uint32_t>, uint64_t> latest;
  void lead(const Edge& to, uint64_t from) {
    uint64_t& at = latest[{to.node.get(), to.input_nr}];
    at = std::max(at, from);
  }
  /// Whether gradients come to an end from later nodes than this, which gives a sum there: eager adds what it
  /// sums up to what came before, one by one.
  bool comes_late(const ReplayNode& node) const {
    const auto edges = const_cast<ReplayNode&>(node).edges();
    return std::ranges::any_of(node.summed(), [&](uint32_t j) {
      if (!edges[j]) return false;
      const Edge& end = resolved(edges[j]);
      const auto at = latest.find({end.node.get(), end.input_nr});
      return at != latest.end() && at->second > node.sequence;
    });
  }
};

Way::Way(std::span<const Edge> roots, std::span<const Edge> inputs) {
  std::unordered_set<const Node*> ends;
  for (const Edge& e : inputs)
    if (e) ends.insert(resolved(e).node.get());
  struct Frame {
    Node* node;
    size_t edge;
    bool leads;
  };
  std::unordered_map<const Node*, bool> needed;
  std::vector<Frame> stack;
  const auto enter = [&](Node* node) {
    if (needed.emplace(node, ends.contains(node)).second) stack.push_back({node, 0, inputs.empty()});
  };
  for (const Edge& given : roots) {
    if (!given) continue;
    const Edge& root = resolved(given);
    lead(root, Node::kFirst);  // a cotangent is there before all
    enter(root.node.get());
    while (!stack.empty()) {
      Frame& top = stack.back();
      const auto edges = top.node->edges();
      if (top.edge == edges.size()) {
        const Frame done = top;
        stack.pop_back();
        if (done.leads && stands_for_many(*done.node))
          calls.push_back(Ref<ReplayNode>::share(static_cast<ReplayNode*>(done.node)));
        bool& is_needed = needed[done.node];
        is_needed = is_needed || done.leads;
        if (!stack.empty()) stack.back().leads = stack.back().leads || is_needed;
        continue;
      }
      if (!edges[top.edge]) {
        ++top.edge;
        continue;
      }
      const Edge& edge = resolved(edges[top.edge++]);
      Node* const next = edge.node.get();
      lead(edge, top.node->sequence);
      if (const auto at = needed.find(next); at != needed.end())
        top.leads = top.leads || at->second;
      else
        enter(next);
    }
  }
  std::ranges::sort(calls, std::greater(), [](const Ref<ReplayNode>& n) { return n->sequence; });
}

}  // namespace

bool is_recording() {
  for (const Observer* o = thread_state.observer; o; o = o->outer.get())
    if (dynamic_cast<const Tracer*>(o)) return true;
  return false;
}

void replace_calls(std::span<const Edge> roots, std::span<const Edge> inputs, bool create_graph) {
  // Recorded passes, and those that are seen or transformed, do what eager's do, call by call.
  const ThreadState& s = thread_state;
  const bool all = create_graph || s.watched || s.dual_level || s.batch_level;
  if (!all && !ReplayNode::with_sums.load(std::memory_order_relaxed)) return;
  if (!create_graph && is_recording()) return;
  // What a function made anew may come by calls again.
  std::unordered_set<const Node*> seen;
  std::vector<Ref<ReplayNode>> tried;  // so that none gets the address of another
  for (bool more = true; more;) {
    more = false;
    Way way(roots, inputs);
    for (Ref<ReplayNode>& node : way.calls) {
      if (is_replaced(*node) || !(all || way.comes_late(*node)) || !seen.insert(node.get()).second) continue;
      more = true;
      try {
        node->replace();
      } catch (const Error&) {
        // It is met again where the pass comes by, if it does.
      }
      tried.push_back(node);
    }
  }
}

ReplayNode::Known ReplayNode::known() {
  Known known;
  known.histories.resize(inputs_.size());
  known.spent.resize(replay_->parts_.size());
  const std::vector<uint32_t>& by = group().by;
  std::lock_guard lock(call_->mutex);
  for (ReplayNode* const node : call_->nodes) {
    if (!node) continue;
    std::lock_guard at_work(node->mutex_);
    known.spent[node->group_] = node->spent_;
    const std::vector<uint32_t>& its = node->group().by;
    for (size_t j = 0; j < its.size(); ++j)
      if (const Edge& e = node->edges_[j];
          e && e.node->sequence != Node::kFirst && std::ranges::find(by, its[j]) == by.end())
        known.histories[its[j]] = copy_of(e);
    // A pass may be taking from the others.
    if (node->left_ != 0 || node->spent_.empty()) node->add_kept(known);
  }
  return known;
}

namespace {

/// Nodes of this thread have the numbers from one on, for its scope.
struct Numbered {
  explicit Numbered(uint64_t first) : then(std::exchange(thread_state.sequence, first)) {}
  ~Numbered() { thread_state.sequence = then; }
  Numbered(const Numbered&) = delete;
  const uint64_t then;
};

}  // namespace

void free_spent(const Recording& recording, std::span<const Edge> now,
                const std::vector<std::vector<bool>>& spent) {
  if (std::ranges::all_of(spent, [](const auto& s) { return s.empty(); })) return;
  std::vector<Node*> nodes;
  for (const Met& m : recording.graph) {
    Node* node = nullptr;
    if (m.from < 0) {
      node = now[m.edge].node.get();
    } else if (Node* const from = nodes[static_cast<size_t>(m.from)]) {
      const auto edges = from->edges();
      if (m.edge < edges.size()) node = edges[m.edge].node.get();
    }
    nodes.push_back(node);
    if (!node || m.saving < 0 || spent[m.group].empty() || !spent[m.group][static_cast<size_t>(m.saving)])
      continue;
    ReadLock freeing(*node, ReadLock::Free);
    freeing.done();
  }
}

void ReplayNode::replace() {
  std::shared_ptr<const Again> again;
  {
    std::lock_guard lock(call_->mutex);
    if (call_->replaced || released_) return;
    again = again_;
    ++call_->needing;
  }
  struct Needing {
    NodesOfCall& call;
    ~Needing() {
      Before before;  // dies after the lock
      std::lock_guard lock(call.mutex);
      if (--call.needing == 0) before = std::move(call.before);
    }
  } needing{*call_};
  if (!again) return;
  const GradMode on(true);
  bool written = false;
  Tensors inputs = inputs_then(written);
  const Known known = this->known();
  for (size_t k = 0; k < inputs.size(); ++k)
    if (known.histories[k]) {
      inputs[k] = alias(inputs[k]);
      set_history(inputs[k], known.histories[k].node, known.histories[k].input_nr);
    }
  std::vector<Edge> now;
  {
    const Numbered numbered(call_->first_node);
    now = run_again(*again, inputs, known, written);
  }
  for (const Group& g : replay_->recording_->groups)
    for (const uint32_t o : g.outputs)
      if (!now[o])
        fail("jit: this backward pass needs the function once more, and what it gives has no graph now");
  free_spent(*replay_->recording_, now, known.spent);
  install(now);
}

void ReplayNode::install(std::span<const Edge> now) {
  std::vector<Taken> gone(call_->nodes.size());
  std::lock_guard lock(call_->mutex);
  if (std::exchange(call_->replaced, true)) return;  // by another thread
  for (ReplayNode* const node : call_->nodes) {
    if (!node) continue;
    for (const uint32_t o : node->group().outputs) node->now_.push_back(copy_of(now[o]));
    node->readers.store(kReplaced);
  }
  // A pass that came to the nodes goes on with them.
  const bool keeps = passes_by_many.load() != 0;
  for (ReplayNode* const node : call_->nodes) {
    if (!node) continue;
    give_hooks(*node, keeps);
    if (keeps) continue;
    Taken& taken = gone[node->group_];
    taken.kept.swap(node->kept_);
    taken.results.swap(node->results_);
    node->take(taken);
  }
}

}  // namespace adjoint::replay
