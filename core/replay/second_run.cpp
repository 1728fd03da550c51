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
  Supplier(const Replay& replay, const std::unordered_map<uint32_t, Tensor>& kept)
      : replay_(replay), tracer_(nullptr) {
    for (const auto& [number, t] : kept) {
      const Place& p = replay.kept_[number];
      kept_.emplace(p.slot, std::pair(p.offset, t));
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

/// For its scope, a thread is in no mode, as it was at the call: who looks on in the pass, packs what is
/// saved, or maps and differentiates cotangents, has nothing to do with what the function did then.
/// Only who records a call that this pass is part of sees what it comes to.
struct AsAtCall {
  const ThreadState then = thread_state;
  AsAtCall() {
    ThreadState& s = thread_state;
    s.grad = true;
    if (is_recording()) return;
    s.inference = s.holomorphic = s.parallel_backward = s.within_composition = s.watched = false;
    s.interpreter = nullptr;
    s.observer = nullptr;
    s.autocast = nullptr;
    s.saved_hooks = nullptr;
    s.dual_level = nullptr;
    s.dual_skip_from = s.dual_skip_to = 0;
    s.batch_level = nullptr;
    s.flags_of_new = s.made_in = 0;
    s.device = s.default_device = Device::CPU;
  }
  ~AsAtCall() {
    // Others may come and go with the run: who works beside others, and the number of the next node.
    MemoryInUse* const memory = thread_state.memory_in_use;
    const uint64_t sequence = thread_state.sequence;
    thread_state = then;
    thread_state.memory_in_use = memory;
    thread_state.sequence = sequence;
  }
  AsAtCall(const AsAtCall&) = delete;
};

}  // namespace

// --- The second run ----------------------------------------------------------------------------------

Tensors ReplayNode::inputs_then(bool& written) {
  Tensors inputs(inputs_.size());
  const auto& by_call = replay_->written_;
  for (uint32_t k = 0; k < inputs.size(); ++k) {
    const bool read = inputs_[k].saved();
    // Hooks have it, or its contents are compared.
    const bool unpacks =
        inputs_[k].is_packed() ||
        (read && inputs_[k].kept().defined() && inputs_[k].kept()->storage->kind == Storage::Kind::External);
    inputs[k] = unpacks ? inputs_[k].unpack(this) : read ? inputs_[k].kept() : unread_[k];
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
    // What nodes of the function's own graph would have kept of it, they refuse.
    written |= moved || inputs[k].version() != versions_[k];
  }
  return inputs;
}

namespace {

/// Inputs that were written since have the versions that they had, for its scope: nodes refuse then what they
/// kept of them.
class Unwritten {
 public:
  void put(Storage& storage, uint32_t version) {
    then_.emplace_back(&storage, storage.version.exchange(version));
  }
  ~Unwritten() {
    for (auto& [storage, version] : then_ | std::views::reverse) storage->version.exchange(version);
  }

 private:
  std::vector<std::pair<Storage*, uint32_t>> then_;
};

}  // namespace

void ReplayNode::add_kept(Known& known) const {
  for (size_t k = 0; k < kept_.size(); ++k) {
    const uint32_t number = part().kept[k];
    if (kept_[k].defined())
      known.kept.emplace(number, kept_[k]);
    else
      known.halfway = true;
    if (results_[k].kept().defined())
      known.results.emplace(
          replay_->kept_[number].slot,
          Result{results_[k],
                 replay_->recording_->outputs[static_cast<size_t>(replay_->kept_output_[number])].offset});
  }
}

std::vector<Edge> ReplayNode::run_again(const Again& again, TensorList inputs, const Known& known,
                                        bool written) {
  if (written && known.halfway)
    fail("jit: this backward pass failed halfway, and what it would take to run it as it is was freed");
  // Before the run, which may give inputs another history.
  std::unordered_set<const Node*> stops;
  for (const Tensor& t : inputs)
    if (const Edge e = t.defined() ? gradient_edge(t) : Edge()) stops.insert(e.node.get());
  Tensors made;
  std::vector<Edge> now;
  try {
    const AsAtCall plain;
    const Looking looking(written ? Ref<Observer>::steal(new Supplier(*replay_, known.kept))
                                  : Ref<Observer>());
    struct Scope {
      TensorList inputs;
      const Before now;
      ~Scope() { now.put(inputs); }
    } scope{inputs, call_->before.put(inputs)};
    Unwritten unwritten;
    const auto& by_call = replay_->written_;
    for (uint32_t k = 0; k < inputs.size() && written; ++k)
      if (const Tensor& t = inputs[k]; t.defined() && t->data == elements_[k] &&
                                       t.version() != versions_[k] &&
                                       std::ranges::find(by_call, k) == by_call.end())
        unwritten.put(*t->storage, versions_[k]);
    made = again.results(inputs);
    now = outputs_of(*replay_->recording_, made);  // views are of inputs that were not written
  } catch (...) {
    // What was written may be why.
    for (SavedTensor& s : inputs_)
      if (written && s.kept().defined()) s.lend(this);
    throw;
  }
  keep_results(nodes_from(now, [&](const Edge& e) { return stops.contains(e.node.get()); }), made, known);
  return now;
}

void ReplayNode::keep_results(std::span<Node* const> nodes, TensorList made, const Known& known) const {
  if (known.results.empty()) return;
  // Where slots are now.
  std::unordered_map<const Storage*, std::pair<const Result*, const char*>> at;
  const Recording& recording = *replay_->recording_;
  size_t k = 0;
  for (const Group& g : recording.groups)
    for (const uint32_t o : g.own()) {
      const Tensor& t = made[k++];
      const Place& p = recording.outputs[o];
      if (const auto r = known.results.find(p.slot); r != known.results.end())
        at.emplace(owner_of_bytes(t->storage), std::pair(&r->second, t.bytes() - p.offset));
    }
  for (Node* const node : nodes)
    for (SavedValue& v : node->saved()) {
      if (!v.slot || !v.slot->kept().defined()) continue;
      const Tensor& t = v.slot->kept();
      if (const auto found = at.find(owner_of_bytes(t->storage)); found != at.end()) {
        const auto [result, begin] = found->second;
        v.slot->keep_in(result->kept, t.bytes() - begin - result->offset);
      }
    }
}

void ReplayNode::differentiate_again(Gradients& in, Gradients& out, std::vector<bool> freed) {
  const std::shared_ptr<const Again> again = again_;
  if (!again) refuse_released();
  bool written = false;
  const Tensors inputs = inputs_then(written);
  Known known;
  add_kept(known);
  const std::vector<Edge> now = run_again(*again, inputs, known, written);
  known.spent.resize(replay_->parts_.size());
  known.spent[group_] = std::move(freed);
  free_spent(*replay_->recording_, now, known.spent);
  std::vector<Edge> roots, ends;
  const auto found = [&](uint32_t output) {
    if (!now[output])
      fail("jit: this backward pass needs the function once more, and what it gives has no graph now");
    return copy_of(now[output]);
  };
  for (const uint32_t o : group().outputs) roots.push_back(found(o));
  for (size_t j = 0; j < group().by.size(); ++j) {
    // A leaf that got other data has another place.
    const Tensor& t = inputs[group().by[j]];
    const AutogradMeta* m = t->grad_fn ? nullptr : meta_of(t);
    LeafNode* const leaf = m ? m->accumulator.load(std::memory_order_acquire) : nullptr;
    ends.push_back(leaf ? Edge{Ref<Node>::share(leaf), 0} : copy_of(edges_[j]));
  }
  for (const uint32_t o : group().from) ends.push_back(found(o));
  differentiate(roots, ends, in, out);
}

void ReplayNode::differentiate_replaced(Gradients& in, Gradients& out) {
  // The program has this graph, and other threads may be in it: no edge is led elsewhere, each end gets the
  // sum.
  std::vector<GraphEnd> ends;
  std::vector<size_t> which;
  for (size_t j = 0; j < edges_.size(); ++j) {
    const Edge& end = resolved(edges_[j]);
    if (!end || !goes_on(j) ||
        std::ranges::any_of(ends, [&](const GraphEnd& e) { return leads_to(end, e.edge); }))
      continue;
    ends.push_back({{}, copy_of(end)});
    which.push_back(j);
  }
  Tensors found = gradients_at(ends, std::span<const Edge>(now_).first(in.size()), {in.begin(), in.size()},
                               !current_pass_frees());
  for (size_t k = 0; k < which.size(); ++k) out[which[k]] = std::move(found[k]);
}

void ReplayNode::differentiate(std::span<const Edge> roots, std::span<const Edge> leading, Gradients& in,
                               Gradients& out) {
  const size_t leaves = group().by.size();
  const auto number = [&](size_t j) {
    return j < leaves ? std::pair(false, group().by[j]) : std::pair(true, group().from[j - leaves]);
  };
  std::vector<Edge> ends;
  // Edges to one end stand side by side: where they begin.
  std::vector<size_t> first;
  for (size_t j = 0; j < leading.size(); ++j) {
    if (j != 0 && number(j) == number(j - 1)) continue;
    first.push_back(j);
    ends.push_back(copy_of(leading[j]));
  }
  first.push_back(leading.size());
  std::vector<bool> wanted(ends.size());
  for (size_t k = 0; k < ends.size(); ++k)
    for (size_t j = first[k]; j < first[k + 1]; ++j) wanted[k] = wanted[k] || goes_on(j);
  const Apart apart(roots, ends);
  Tensors gradients = apart.gradients(roots, Tensors(in.begin(), in.end()), false, wanted);
  std::vector<size_t> next(first.begin(), first.end());
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    size_t& at = next[apart.of[i]];
    Tensor& to = out[std::min(at++, first[apart.of[i] + 1] - 1)];
    to = to.defined() ? add_gradients(to, gradients[i]) : gradients[i];
  }
}

std::vector<Edge> outputs_of(const Recording& recording, TensorList again) {
  const size_t n = recording.outputs.size();
  std::vector<Edge> edges(n + recording.inside.size());
  size_t k = 0;
  for (const Group& g : recording.groups)
    for (const uint32_t o : g.own()) edges[o] = gradient_edge(again[k++]);
  for (size_t i = 0; i < recording.inside.size(); ++i) {
    const Inside& in = recording.inside[i];
    Edge e = copy_of(edges[in.path[0]]);
    for (size_t k = 1; k < in.path.size() && e; ++k) {
      const auto next = e.node->edges();
      e = in.path[k] < next.size() ? copy_of(next[in.path[k]]) : Edge();
    }
    const ResultInfo* const found = e ? &e.node->result(e.input_nr) : nullptr;
    if (found && found->dtype() == in.dtype && same(found->sizes(), in.sizes.span()))
      edges[n + i] = std::move(e);
  }
  return edges;
}

}  // namespace adjoint::replay
