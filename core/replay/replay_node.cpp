#include "replay/replay_node.h"

#include <set>
#include <unordered_map>

#include "autograd/engine.h"
#include "autograd/meta.h"
#include "autograd/views.h"
#include "for_size.h"

namespace adjoint::replay {

namespace {

constexpr ManyInOne kOfReplays{
    [](const Node& node, uint32_t input_nr) {
      return static_cast<const ReplayNode&>(node).leads_on(input_nr);
    },
    [](const Node& node, uint32_t input_nr, size_t edge) {
      return static_cast<const ReplayNode&>(node).is_edge_of(input_nr, edge);
    },
    [](const Node& node) { return static_cast<const ReplayNode&>(node).results(); },
    [](const Node& node, uint32_t input_nr) -> const Edge& {
      return static_cast<const ReplayNode&>(node).replacement(input_nr);
    },
    replace_calls};

}  // namespace

std::atomic<uint32_t> ReplayNode::with_sums{0};

ReplayNode::ReplayNode(std::shared_ptr<Replay> replay, uint32_t group, std::shared_ptr<const Again> again,
                       std::shared_ptr<NodesOfCall> call, std::span<const Tensor> inputs)
    : replay_(std::move(replay)),
      group_(group),
      call_(std::move(call)),
      again_(std::move(again)),
      inputs_(inputs.size()),
      elements_(inputs.size()) {
  for (const uint32_t k : this->group().by) edges_.push_back(gradient_edge(inputs[k]));
  left_ = this->group().saving.size();
  if (!summed().empty()) ++with_sums;
  readers.store(kStandsForMany, std::memory_order_relaxed);
  if (!many_in_one.load(std::memory_order_relaxed)) many_in_one.store(&kOfReplays, std::memory_order_release);
  call_->nodes.push_back(this);
  ++call_->needing;
}

ReplayNode::~ReplayNode() {
  if (!summed().empty()) --with_sums;
  Before before;  // dies after the lock
  {
    std::lock_guard lock(call_->mutex);
    call_->nodes[group_] = nullptr;
    if (!released_ && --call_->needing == 0) before = std::move(call_->before);
  }
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
                       const std::vector<Scalar>& numbers, std::span<const Ref<ReplayNode>> nodes) {
  numbers_ = numbers;
  const Recording& recording = *replay_->recording_;
  const size_t first = recording.outputs.size();
  for (const uint32_t k : group().from) {
    if (k < first) {
      edges_.push_back(gradient_edge(all[k]));
    } else {
      const Inside& in = recording.inside[k - first];
      edges_.push_back({Ref<Node>::share(nodes[in.group].get()), in.number});
    }
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
  for (uint32_t i = group().results; i < outputs.size(); ++i)
    set_result(i, part().inside[i - group().results]);
  for (uint32_t i = 0; i < group().results; ++i) {
    Tensor& t = all[outputs[i]];
    set_result(i, t);
    if (recording.relations[outputs[i]].same >= 0)
      write_history(t, Ref<Node>::share(this), i);
    else
      set_history(t, Ref<Node>::share(this), i);
  }
}

void ReplayNode::release() {
  results_.clear();
  kept_.clear();
  // What leads past nothing that was freed still runs, if need be by the function itself.
  if (group().free_ways) return;
  Taken gone;
  std::lock_guard lock(call_->mutex);
  take(gone);
}

void ReplayNode::take(Taken& taken) {
  if (std::exchange(released_, true)) return;
  taken.inputs = inputs_;
  for (SavedTensor& s : inputs_) s.release();
  taken.unread = std::exchange(unread_, Tensors(inputs_.size()));
  taken.again = std::move(again_);
  if (--call_->needing == 0) taken.before = std::move(call_->before);
}

namespace {

/// In a pass, one that was replaced is one that the pass came to before.
bool is_of_replay(const Node& node) { return stands_for_many(node) || is_replaced(node); }

}  // namespace

bool ReplayNode::leads_on(uint32_t input_nr) const {
  return !current_pass_is_selective() || current_pass_captures(*this, input_nr) || leads_past(input_nr);
}

bool ReplayNode::leads_past(uint32_t input_nr) const {
  if (!current_pass_is_selective()) return true;
  using Output = std::pair<const ReplayNode*, uint32_t>;
  std::set<Output> seen;
  for (std::vector<Output> open{{this, input_nr}}; !open.empty();) {
    const auto [node, nr] = open.back();
    open.pop_back();
    const Mask& reach = node->group().reach[nr];
    for (size_t j = 0; j < node->edges_.size(); ++j) {
      if (!node->edges_[j] || !reach[j]) continue;
      const Edge& e = current_pass_target(node->edges_[j]);
      if (!current_pass_runs(e.node.get(), e.node->sequence)) continue;
      if (!is_of_replay(*e.node)) return true;
      const Output next{static_cast<const ReplayNode*>(e.node.get()), e.input_nr};
      if (current_pass_captures(*next.first, next.second)) return true;
      if (seen.insert(next).second) open.push_back(next);
    }
  }
  return false;
}

bool ReplayNode::goes_on(size_t edge) const {
  if (!current_pass_is_selective()) return true;
  if (!edges_[edge]) return false;
  const Edge& e = current_pass_target(edges_[edge]);
  return current_pass_runs(e.node.get(), e.node->sequence) &&
         (!is_of_replay(*e.node) || static_cast<const ReplayNode&>(*e.node).leads_on(e.input_nr));
}

ReplayNode::Reading::Reading(ReplayNode& node, const Gradients& in) : node_(node) {
  const std::vector<Saving>& saving = node.group().saving;
  const bool frees = current_pass_frees();
  std::vector<bool> wanted;
  if (current_pass_is_selective())
    for (size_t j = 0; j < node.edges_.size(); ++j) wanted.push_back(node.goes_on(j));
  const auto concerns = [&](const Saving& s) {
    bool from = false, to = wanted.empty();
    for (size_t i = 0; i < in.size() && !from; ++i) from = in[i].defined() && s.outputs[i];
    for (size_t j = 0; j < wanted.size() && !to; ++j) to = wanted[j] && s.edges[j];
    return from && to;
  };
  std::unique_lock lock(node.mutex_);
  for (uint32_t k = 0; k < saving.size(); ++k) {
    const bool is_spent = !node.spent_.empty() && node.spent_[k];
    if ((!is_spent && !frees) || !concerns(saving[k])) continue;
    if (is_spent)
      freed = node.spent_;
    else
      claimed_.push_back(k);
  }
  if (!freed.empty()) claimed_.clear();
  if (!claimed_.empty()) node.spent_.resize(saving.size());
  for (const uint32_t k : claimed_) node.spent_[k] = true;
  node.left_ -= claimed_.size();
  spends = !claimed_.empty() && node.left_ == 0 && node.reading_ == 0;
  ++node.reading_;
  if (freed.empty()) return;
  lock.unlock();
  if (node.is_written()) return;
  lock.lock();
  --node.reading_;
  lock.unlock();
  node.refuse_released();
}

ReplayNode::Reading::~Reading() {
  std::unique_lock lock(node_.mutex_);
  // Given back if the pass failed here.
  for (const uint32_t k : claimed_) node_.spent_[k] = false;
  node_.left_ += claimed_.size();
  const bool last = --node_.reading_ == 0 && node_.left_ == 0 && !node_.spent_.empty();
  lock.unlock();
  if (last) node_.release();
}

bool ReplayNode::is_written() {
  const auto written = [this](const SavedTensor& s) { return s.kept().defined() && !s.is_as_kept(this); };
  return std::ranges::any_of(inputs_, written) || std::ranges::any_of(results_, written);
}

bool ReplayNode::run(const Replay::Backward& pass, Gradients& in, Gradients& out, bool spends) {
  if (kept_.size() != part().kept.size()) return false;  // released
  const size_t n = inputs_.size();
  Tensors inputs(n + in.size() + kept_.size()), outputs(pass.outputs());
  for (size_t k = 0; k < n; ++k)
    if (part().reads[k] && inputs_[k].saved()) {
      if (inputs_[k].is_packed()) return false;
      // The pass may come by nothing that kept it.
      if (inputs_[k].kept().defined() && !inputs_[k].is_as_kept(this)) return false;
      inputs[k] = Tensor::share(inputs_[k].lend(this));
    }
  for (const SavedTensor& s : results_)
    if (s.kept().defined() && !s.is_as_kept(this)) return false;
  for (size_t i = 0; i < in.size(); ++i) inputs[n + i] = in[i];
  for (size_t k = 0; k < kept_.size(); ++k) inputs[n + in.size() + k] = kept_[k];
  std::vector<Scalar> numbers = numbers_;
  // What a pass that frees this node has taken goes at once, if nobody else is at it.
  const auto spend = [&](uint32_t k) {
    inputs[k].reset();
    kept_[k - n - in.size()].reset();
    results_[k - n - in.size()].release();
  };
  const Program::Drop drop = spend;
  if (pass.program->run(inputs, outputs, numbers, spends ? &drop : nullptr) != Program::Outcome::Done)
    return false;
  for (size_t j = 0; j < out.size(); ++j)
    if (edges_[j]) out[j] = std::move(outputs[j]);
  return true;
}

void ReplayNode::apply(Gradients& in, Gradients& out) {
  if (std::ranges::any_of(in, [](const Tensor& g) { return !g.defined(); })) current_pass_is_parted();
  // Other results than those that gradients came for may lead to what is asked for.
  bool asked = false;
  for (uint32_t i = 0; i < in.size() && !asked; ++i) asked = in[i].defined() && leads_past(i);
  if (!asked) return;
  if (thread_state.grad) replace();  // where it could not be done before the pass, it fails here
  if (is_replaced(*this) && (released_ || thread_state.grad)) return differentiate_replaced(in, out);
  Reading reading(*this, in);
  const Replay::Backward* pass =
      thread_state.grad || thread_state.watched || thread_state.dual_level || thread_state.batch_level
          ? nullptr
          : replay_->pass_for(part(), in);
  const bool holds = !replay_->recording_->asks || (pass && again_ && again_->holds());
  if (!pass || !holds || !run(*pass, in, out, reading.spends)) differentiate_again(in, out, reading.freed);
  reading.done();
}

// --- For the collector ------------------------------------------------------------------------------------

void each_again(const Node& node, uint32_t output_nr, runtime::FunctionRef<void(const Again&, size_t)> f) {
  if (const auto* replayed = dynamic_cast<const ReplayNode*>(&node)) replayed->each_again(output_nr, f);
}

void ReplayNode::each_again(uint32_t output_nr, runtime::FunctionRef<void(const Again&, size_t)> f) const {
  // Who has this node besides nodes of the call: the result that is asked, or all results.
  const size_t owners = refcount.load() - from_later_.load(), all = group().results;
  if (owners == 1)
    tell_again(f, all);
  else if (owners == all && output_nr == 0)
    tell_again(f, 1);
  else if (owners == all && again_.use_count() == 1)
    f(*again_, 1);
}

void ReplayNode::tell_again(runtime::FunctionRef<void(const Again&, size_t)> f, size_t shares) const {
  // This one, and those without results left that only nodes lead to which are told of.
  std::unordered_map<const ReplayNode*, uint32_t> edges;
  std::vector<std::pair<const ReplayNode*, size_t>> told{{this, shares}};
  for (size_t i = 0; i < told.size(); ++i) {
    const auto [node, owned] = told[i];
    // Not while a pass has it.
    if (node->again_.use_count() == 1) f(*node->again_, owned);
    for (const ReplayNode* const before : node->before_it_)
      if (++edges[before] == before->refcount.load() && edges[before] == before->from_later_.load())
        told.emplace_back(before, before->group().results);
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
