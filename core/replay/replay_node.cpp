#include "replay/replay_node.h"

#include <cstring>
#include <unordered_set>

#include "autograd/arithmetic.h"
#include "autograd/meta.h"
#include "autograd/views.h"
#include "for_size.h"
#include "replay/ends.h"

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
  Before now;
  for (const Part& p : parts_) {
    const auto n = static_cast<size_t>(p.bytes.numel());
    char* const at = inputs[p.input].bytes() + p.begin;
    now.parts_.push_back({p.input, p.begin, empty(p.bytes.sizes(), DType::UInt8)});
    std::memcpy(now.parts_.back().bytes.bytes(), at, n);
    std::memcpy(at, p.bytes.bytes(), n);
  }
  for (const Count& c : counts_) {
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

// --- The node ---------------------------------------------------------------------------------------------

ReplayNode::ReplayNode(std::shared_ptr<Replay> replay, uint32_t group, std::shared_ptr<const Again> again,
                       std::shared_ptr<const Before> before, std::span<const Tensor> inputs)
    : replay_(std::move(replay)),
      group_(group),
      again_(std::move(again)),
      before_(std::move(before)),
      inputs_(inputs.size()),
      elements_(inputs.size()) {
  for (const uint32_t k : this->group().by) edges_.push_back(gradient_edge(inputs[k]));
  saves_something();
}

ReplayNode::~ReplayNode() {
  for (ReplayNode* const node : before_it_) --node->from_later_;
}

namespace {

/// The history of an input that the call detaches: an input it stays, and what made it need not live on.
class Detached final : public Node {
 public:
  explicit Detached(const Tensor& t) { set_result(0, t); }
  std::string name() const override { return "Detached"; }
  void apply(Gradients&, Gradients&) override {}
};

}  // namespace

void ReplayNode::enter(std::span<const Tensor> inputs, std::span<Tensor> all,
                       const std::vector<Scalar>& numbers) {
  numbers_ = numbers;
  for (const uint32_t k : group().from) {
    edges_.push_back(gradient_edge(all[k]));
    if (auto* const node = dynamic_cast<ReplayNode*>(edges_.back().node.get())) {
      before_it_.push_back(node);
      ++node->from_later_;
    }
  }
  unread_.resize(inputs.size());
  versions_.resize(inputs.size());
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Tensor& t = inputs[k];
    if (!t.defined()) continue;
    elements_[k] = t->data;
    versions_[k] = t.version();
    Tensor then = t;
    if (t->grad_fn) {
      const bool leads_here = std::ranges::find(group().by, static_cast<uint32_t>(k)) != group().by.end();
      if (!leads_here || !part().reads[k]) then = alias(t);
      // A write may give the tensor itself a history that leads here.
      if (!leads_here)
        set_history(then, Ref<Node>::steal(new Detached(t)), 0);
      else if (!part().reads[k])
        set_history(then, Ref<Node>::share(t->grad_fn), t->output_nr);
    }
    if (part().reads[k])
      inputs_[k].save(then, false, this);
    else
      unread_[k] = std::move(then);
  }
  const size_t first = replay_->recording_->outputs.size();
  results_.resize(part().kept.size());
  for (size_t k = 0; k < results_.size(); ++k) {
    const uint32_t number = part().kept[k];
    kept_.push_back(all[first + number]);
    if (const int32_t o = replay_->kept_output_[number]; o >= 0) {
      results_[k].save(all[static_cast<size_t>(o)], true, this);
      kept_[k] = alias(kept_[k]);  // the result itself would be a cycle
    }
  }
  const std::vector<uint32_t>& outputs = group().outputs;
  set_results(static_cast<uint16_t>(outputs.size()));
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    Tensor& t = all[outputs[i]];
    set_result(i, t);
    if (replay_->recording_->relations[outputs[i]].same >= 0)
      write_history(t, Ref<Node>::share(this), i);
    else
      set_history(t, Ref<Node>::share(this), i);
  }
}

void ReplayNode::release() {
  for (auto* all : {&inputs_, &results_})
    for (SavedTensor& s : *all) s.release();
  kept_.clear();
  unread_.assign(unread_.size(), Tensor());
  before_ = nullptr;
  again_ = nullptr;
}

bool ReplayNode::run(const Replay::Backward& pass, Gradients& in, Gradients& out) {
  const size_t n = inputs_.size();
  Tensors inputs(n + in.size() + kept_.size()), outputs(pass.outputs());
  for (size_t k = 0; k < n; ++k)
    if (part().reads[k] && inputs_[k].saved()) {
      if (inputs_[k].is_packed()) return false;
      inputs[k] = Tensor::share(inputs_[k].lend(this));
    }
  for (SavedTensor& s : results_)
    if (s.saved()) s.lend(this);
  for (size_t i = 0; i < in.size(); ++i) inputs[n + i] = in[i];
  for (size_t k = 0; k < kept_.size(); ++k) inputs[n + in.size() + k] = kept_[k];
  std::vector<Scalar> numbers = numbers_;
  // What a pass that frees this node has taken goes at once, if nobody else is at it: see Node::readers.
  constexpr uint16_t kSavedAndClaimedByOne = 1 | 2 | 4;
  const auto spend = [&](uint32_t k) {
    inputs[k].reset();
    kept_[k - n - in.size()].reset();
    results_[k - n - in.size()].release();
  };
  const Program::Drop drop = spend;
  const bool frees = readers.load(std::memory_order_relaxed) == kSavedAndClaimedByOne;
  if (pass.program->run(inputs, outputs, numbers, frees ? &drop : nullptr) != Program::Outcome::Done)
    return false;
  for (size_t j = 0; j < out.size(); ++j)
    if (edges_[j]) out[j] = std::move(outputs[j]);
  return true;
}

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

void ReplayNode::apply(Gradients& in, Gradients& out) {
  const Replay::Backward* pass =
      thread_state.grad || thread_state.watched || thread_state.dual_level || thread_state.batch_level
          ? nullptr
          : replay_->pass_for(part(), in);
  const bool holds = !replay_->recording_->asks || (pass && again_ && again_->holds());
  if (pass && holds && run(*pass, in, out)) return;
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
  std::unordered_map<uint32_t, size_t> at;  // of an output of the recording, among `again`
  for (const Group& g : replay_->recording_->groups)
    for (const uint32_t k : g.outputs) at.emplace(k, at.size());
  std::vector<Result> results;
  const auto add = [&](uint32_t output, Edge then) {
    Result& r = results.emplace_back(gradient_edge(again[at.at(output)]), std::move(then));
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

// --- For the collector ------------------------------------------------------------------------------------

void each_again(const Node& node, uint32_t output_nr, runtime::FunctionRef<void(const Again&, size_t)> f) {
  if (const auto* replayed = dynamic_cast<const ReplayNode*>(&node)) replayed->each_again(output_nr, f);
}

void ReplayNode::each_again(uint32_t output_nr, runtime::FunctionRef<void(const Again&, size_t)> f) const {
  // Who has this node besides nodes of the call: the result that is asked, or all results.
  const size_t owners = refcount.load() - from_later_.load(), all = group().outputs.size();
  if (owners == 1)
    tell_again(f, all);
  else if (owners == all && output_nr == 0)
    tell_again(f, 1);
  else if (owners == all && again_.use_count() == 1)
    f(*again_, 1);
}

void ReplayNode::tell_again(runtime::FunctionRef<void(const Again&, size_t)> f, size_t shares) const {
  // Not while a pass has it.
  if (again_.use_count() == 1) f(*again_, shares);
  for (auto at = before_it_.begin(); at != before_it_.end(); ++at) {
    if (std::find(before_it_.begin(), at, *at) != at) continue;
    // One without results left, which this one alone leads to.
    const auto edges = static_cast<uint32_t>(std::ranges::count(before_it_, *at));
    if ((*at)->refcount.load() == edges && (*at)->from_later_.load() == edges)
      (*at)->tell_again(f, (*at)->group().outputs.size());
  }
}

// --- A result whose graph is gone -------------------------------------------------------------------------

namespace {

class SpentNode final : public Node {
 public:
  SpentNode(const Spent& spent, std::span<const Tensor> inputs) : name_(spent.name), error_(spent.error) {
    for (const uint32_t k : spent.by) edges_.push_back(gradient_edge(inputs[k]));
  }
  std::string name() const override { return name_; }
  std::span<Edge> edges() override { return edges_; }
  void apply(Gradients&, Gradients&) override { fail(error_); }

 private:
  std::vector<Edge> edges_;
  const std::string name_, error_;
};

}  // namespace

void set_spent(const Spent& spent, std::span<const Tensor> inputs, const Tensor& result) {
  set_history(result, Ref<Node>::steal(new SpentNode(spent, inputs)), 0);
}

}  // namespace adjoint::replay
