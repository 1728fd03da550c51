// What a node of a replayed call does where a pass asks for what was not recorded: the function runs again,
// as at the call. Start reading at `ReplayNode::differentiate_again`.
#include <cstring>
#include <ranges>
#include <unordered_set>

#include "autograd/arithmetic.h"
#include "autograd/meta.h"
#include "autograd/views.h"
#include "for_size.h"
#include "replay/ends.h"
#include "replay/replay_node.h"

namespace adjoint::replay {

// --- What was before --------------------------------------------------------------------------------------

Before::Before(const Replay& replay, std::span<const Tensor> inputs) {
  for (const Replay::Write& w : replay.writes_)
    parts_.push_back({w.input, w.begin, empty(IntList{{w.end - w.begin}}, DType::UInt8)});
  for (Part& p : parts_)
    std::memcpy(p.bytes.bytes(), inputs[p.input].bytes() + p.begin, static_cast<size_t>(p.bytes.numel()));
  for (const uint32_t k : replay.written_) {
    const Tensor& t = inputs[k];
    const Storage* const other = counter_of(*t->storage);
    counts_.push_back({k, t.version(), other ? other->version.load(std::memory_order_relaxed) : 0,
                       t->view_version.load(std::memory_order_relaxed)});
  }
}

Before Before::put(std::span<const Tensor> inputs) const {
  // Inputs may share memory and counts (a view and its base): what is changed last is put back first.
  Before now;
  for (const Part& p : parts_ | std::views::reverse) {
    const auto n = static_cast<size_t>(p.bytes.numel());
    char* const at = inputs[p.input].bytes() + p.begin;
    now.parts_.push_back({p.input, p.begin, empty(p.bytes.sizes(), DType::UInt8)});
    std::memcpy(now.parts_.back().bytes.bytes(), at, n);
    std::memcpy(at, p.bytes.bytes(), n);
  }
  for (const Count& c : counts_ | std::views::reverse) {
    const Tensor& t = inputs[c.input];
    Storage* const other = counter_of(*t->storage);
    now.counts_.push_back({c.input, t->storage->version.exchange(c.version),
                           other ? other->version.exchange(c.other) : 0, t->view_version.exchange(c.view)});
  }
  return now;
}

// --- What was written since -------------------------------------------------------------------------------

/// Runs along while the function runs again on inputs some of which were written since: what the call made
/// and its passes take gets the elements that it had in the call. What else comes of such inputs, no pass
/// reads.
class Supplier final : public Observer {
 public:
  Supplier(const Replay& replay, const Replay::Part& part, std::span<const Tensor> kept)
      : replay_(replay), tracer_(nullptr) {
    for (size_t k = 0; k < kept.size(); ++k) {
      const Place& p = replay.kept_[part.kept[k]];
      kept_.emplace(p.slot, std::pair(p.offset, kept[k]));
    }
  }
  Ref<Observer> for_thread() const override { return tracer_.for_thread(); }
  void computed(const Call& call, std::span<const Tensor> results) override {
    tracer_.computed(call, results);
    give_back(call, results);
  }
  void announced(const Call& call, std::span<const Tensor> results) override {
    tracer_.announced(call, results);
    give_back(call, results);
  }
  void told(const Notice& notice) override { tracer_.told(notice); }

 private:
  void give_back(const Call& call, std::span<const Tensor> results) {
    const Trace &then = replay_.recording_->trace, &now = tracer_.trace;
    if (now.steps.size() == seen_ || seen_ >= replay_.recording_->forward) return;
    const Step &a = then.steps[seen_++], &b = now.steps.back();
    if (a.kind != b.kind || a.op != b.op || a.results.size() != b.results.size() || !now.refused.empty())
      fail("jit: this backward pass needs the function once more, and it does something else now that ",
           "what it was given was written: differentiate before that changes, or call the function without "
           "jit");
    const auto put = [&](int32_t slot, const Tensor& t) {
      const auto at = kept_.find(slot);
      if (at == kept_.end() || !t.defined()) return;
      const auto& [begin, kept] = at->second;
      Storage* const to = owner_of_bytes(t->storage);
      const char* const end = kept->storage->data + owner_of_bytes(kept->storage)->nbytes;
      const int64_t n = std::min(static_cast<int64_t>(to->nbytes) - begin, int64_t{end - kept.bytes()});
      if (n > 0) std::memcpy(to->data + begin, kept.bytes(), static_cast<size_t>(n));
    };
    const std::span<const Place> places = then.at(a.results);
    for (size_t i = 0; i < places.size() && i < results.size(); ++i) put(places[i].slot, results[i]);
    std::vector<int32_t> slots;
    then.each_place(a, [&](const Place& p, bool written) {
      if (written) slots.push_back(p.slot);
    });
    size_t n = 0;
    each_written(call, [&](const Tensor& t) {
      if (n < slots.size()) put(slots[n], t);
      ++n;
    });
  }

  const Replay& replay_;
  Tracer tracer_;
  size_t seen_ = 0;
  std::unordered_map<int32_t, std::pair<int64_t, Tensor>> kept_;
};

namespace {

/// An observer in this thread, for its scope; none where it is null.
struct Looking {
  explicit Looking(Ref<Observer> o) : observer(std::move(o)) {
    if (observer) push(observer);
  }
  ~Looking() {
    if (observer) pop(observer.get());
  }
  Looking(const Looking&) = delete;
  Ref<Observer> observer;
};

}  // namespace

// --- The second run ----------------------------------------------------------------------------------

Tensors ReplayNode::inputs_then(bool& written) {
  Tensors inputs(inputs_.size());
  const auto& by_call = replay_->written_;
  for (uint32_t k = 0; k < inputs.size(); ++k) {
    const bool read = inputs_[k].saved();
    inputs[k] = read ? inputs_[k].unpack(this) : unread_[k];
    if (!inputs[k].defined() || inputs_[k].is_packed()) continue;
    const bool moved = inputs[k]->data != elements_[k];
    if (moved && (read || std::ranges::find(by_call, k) != by_call.end()))
      fail(
          "jit: this backward pass needs the function once more, and a tensor that it reads was given "
          "other memory since the call (by .data =, set_() or swap_tensors()); differentiate before that, "
          "or call the function without jit");
    // What the second run writes gets its history.
    if (replay_->changes(k)) {
      const Tensor then = inputs[k];
      inputs[k] = alias(then);
      if (then->grad_fn) set_history(inputs[k], Ref<Node>::share(then->grad_fn), then->output_nr);
    }
    // No node of the function's own graph would have kept it: it may be other by now.
    if (!read) written |= moved || inputs[k].version() != versions_[k];
  }
  return inputs;
}

void ReplayNode::differentiate_again(Gradients& in, Gradients& out) {
  for (SavedTensor& s : results_)
    if (s.saved()) s.lend(this);
  const std::shared_ptr<const Again> again = again_;
  if (!again) refuse_released();
  bool written = false;
  const Tensors inputs = inputs_then(written);
  if (written && std::ranges::any_of(kept_, [](const Tensor& t) { return !t.defined(); }))
    fail("jit: this backward pass failed halfway, and what it would take to run it as it is was freed");
  std::vector<Edge> stops;
  for (const Tensor& t : inputs)
    if (Edge e = t.defined() ? gradient_edge(t) : Edge()) stops.push_back(std::move(e));
  Tensors made;
  {
    const Looking supplying(written ? Ref<Observer>::steal(new Supplier(*replay_, part(), kept_))
                                    : Ref<Observer>());
    struct Scope {
      TensorList inputs;
      const Before now;
      ~Scope() { now.put(inputs); }
    } scope{inputs, before_->put(inputs)};
    made = again->results(inputs);
  }
  differentiate(results_of(made), inputs, std::move(stops), in, out);
}

void ReplayNode::differentiate(const std::vector<Result>& results, TensorList inputs, std::vector<Edge> stops,
                               Gradients& in, Gradients& out) {
  const size_t own = group().outputs.size(), leaves = group().by.size();
  std::vector<Edge> roots, ends;
  for (const Result& r : results)
    if (!r.now)
      fail("jit: this backward pass needs the function once more, and what it gives has no graph now");
  for (size_t i = 0; i < own; ++i) roots.push_back(copy_of(results[i].now));
  // Edges to one end stand side by side: where they begin.
  std::vector<size_t> first;
  for (size_t j = 0, n = own; j < edges_.size(); ++j) {
    const auto number = [&](size_t i) { return i < leaves ? group().by[i] : group().from[i - leaves]; };
    if (j != 0 && j != leaves && number(j) == number(j - 1)) continue;
    first.push_back(j);
    if (j >= leaves) {
      ends.push_back(copy_of(results[n++].now));
      continue;
    }
    // A leaf that got other data has another place.
    const Tensor& t = inputs[number(j)];
    const AutogradMeta* m = t->grad_fn ? nullptr : meta_of(t);
    LeafNode* const leaf = m ? m->accumulator.load(std::memory_order_acquire) : nullptr;
    ends.push_back(leaf ? Edge{Ref<Node>::share(leaf), 0} : copy_of(edges_[j]));
  }
  first.push_back(edges_.size());
  for (const Tensor& t : in)
    if (Edge e = t.defined() ? gradient_edge(t) : Edge()) stops.push_back(std::move(e));
  if (thread_state.grad) put_results(results, stops);
  Tensors gradients;
  std::vector<std::pair<Edge, Edge>> places;
  std::vector<uint32_t> of;
  {
    const Apart apart(roots, ends);
    gradients = apart.gradients(roots, Tensors(in.begin(), in.end()), false);
    of = apart.of;
    for (size_t i = 0; i < of.size(); ++i)
      places.emplace_back(copy_of(apart.places[i]), copy_of(ends[of[i]]));
  }
  if (thread_state.grad) join(results, places, gradients, stops);
  std::vector<size_t> next(first.begin(), first.end());
  for (size_t i = 0; i < of.size(); ++i) {
    if (!gradients[i].defined()) continue;
    size_t& at = next[of[i]];
    Tensor& to = out[std::min(at++, first[of[i] + 1] - 1)];
    to = to.defined() ? add_gradients(to, gradients[i]) : gradients[i];
  }
}

std::vector<ReplayNode::Result> ReplayNode::results_of(TensorList again) {
  const Recording& recording = *replay_->recording_;
  std::unordered_map<uint32_t, size_t> at;  // of an output of the recording, among `again`
  for (const Group& g : recording.groups)
    for (const uint32_t k : g.own()) at.emplace(k, at.size());
  const auto inside = [&](const Inside& in) {
    Edge e = gradient_edge(again[at.at(in.path[0])]);
    for (size_t k = 1; k < in.path.size() && e; ++k) {
      const auto edges = e.node->edges();
      e = in.path[k] < edges.size() ? copy_of(edges[in.path[k]]) : Edge();
    }
    const ResultInfo* const found = e ? &e.node->result(e.input_nr) : nullptr;
    return found && found->dtype() == in.dtype && same(found->sizes(), in.sizes.span()) ? std::move(e)
                                                                                        : Edge();
  };
  std::vector<Result> results;
  const auto add = [&](uint32_t output, Edge then) {
    const size_t n = recording.outputs.size();
    Result& r = results.emplace_back(
        output < n ? gradient_edge(again[at.at(output)]) : inside(recording.inside[output - n]),
        std::move(then));
    for (size_t k = 0; k < results_.size(); ++k)
      if (replay_->kept_output_[part().kept[k]] == static_cast<int32_t>(output) && results_[k].saved())
        r.kept = &results_[k];
  };
  for (uint32_t i = 0; i < group().outputs.size(); ++i) add(group().outputs[i], {Ref<Node>::share(this), i});
  const std::vector<uint32_t>& from = group().from;
  for (size_t j = 0; j < from.size(); ++j)
    if (j == 0 || from[j] != from[j - 1]) add(from[j], copy_of(edges_[group().by.size() + j]));
  return results;
}

namespace {

/// Edges that lead to the nodes of these.
std::function<bool(const Edge&)> beyond(std::span<const Edge> stops) {
  std::unordered_set<const Node*> nodes;
  for (const Edge& e : stops) nodes.insert(e.node.get());
  return [nodes = std::move(nodes)](const Edge& e) { return nodes.contains(e.node.get()); };
}

/// What a node kept; undefined where it was written since, which is an error once that is asked for.
Tensor kept_by(const SavedTensor& slot, Node& node) {
  try {
    return Tensor::share(slot.lend(&node));
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

/// What nodes of the new graph kept of results are the call's results, with these as history.
void ReplayNode::put_results(const std::vector<Result>& results, std::span<const Edge> stops) {
  const auto hooks = std::exchange(thread_state.saved_hooks, nullptr);
  std::vector<Edge> begin;
  for (const Result& r : results) begin.push_back(copy_of(r.now));
  for (Node* const node : nodes_from(begin, beyond(stops)))
    for (SavedValue& v : node->saved()) {
      if (!v.slot || !v.slot->saved() || v.slot->is_packed()) continue;
      const Tensor t = kept_by(*v.slot, *node);
      if (!t.defined()) continue;
      for (const Result& r : results) {
        if (v.slot->is_result() ? r.now.node.get() != node || r.now.input_nr != v.output_nr
                                : r.now.node.get() != t->grad_fn || r.now.input_nr != t->output_nr)
          continue;
        const Tensor then = r.kept ? kept_by(*r.kept, *this) : Tensor();
        const bool whole = then.defined() && then.dtype() == t.dtype() && same(then.sizes(), t.sizes()) &&
                           same(then.strides(), t.strides());
        const Tensor result = alias(whole ? then : t);
        set_history(result, r.then.node, r.then.input_nr);
        v.slot->save(result, false, node);
        break;
      }
    }
  thread_state.saved_hooks = hooks;
}

/// Let edges of the graph of these gradients that lead to results of the new graph lead to those of the call,
/// and to ends where they lead to what stood for them.
void ReplayNode::join(const std::vector<Result>& results, std::span<const std::pair<Edge, Edge>> places,
                      TensorList gradients, std::span<const Edge> stops) {
  std::vector<Edge> begin;
  for (const Result& r : results) begin.push_back(copy_of(r.now));
  for (const Tensor& t : gradients)
    if (t.defined()) begin.push_back(gradient_edge(t));
  for (Node* const node : nodes_from(begin, beyond(stops)))
    for (Edge& e : node->edges()) {
      for (const auto& [place, end] : places)
        if (leads_to(e, place)) e = copy_of(end);
      for (const Result& r : results)
        if (leads_to(e, r.now)) e = copy_of(r.then);
    }
}

}  // namespace adjoint::replay
