#include "replay/derivative.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "autograd/meta.h"
#include "autograd/saved.h"
#include "for_size.h"

namespace adjoint::replay {

std::string Recording::difference(const Recording& o) const {
  const std::string d = trace.difference(o.trace);
  if (!d.empty()) return d;
  const bool same_passes = std::equal(
      passes.begin(), passes.end(), o.passes.begin(), o.passes.end(), [](const Pass& a, const Pass& b) {
        return a.steps == b.steps && a.seeds == b.seeds && a.gradients == b.gradients;
      });
  return inputs != o.inputs || outputs != o.outputs || !same_passes || by != o.by ||
                 differentiated != o.differentiated || relations != o.relations || spent != o.spent
             ? "other tensors are taken or returned"
             : "";
}

void Recording::begin_at_inputs() {
  std::vector<std::optional<int64_t>> begin(trace.slots.size());
  for (const Place& p : inputs)
    if (p.slot >= 0 && trace.slots[static_cast<size_t>(p.slot)].kind == Slot::Kind::Outside)
      if (auto& b = begin[static_cast<size_t>(p.slot)]; !b) {
        b = p.offset;
        trace.slots[static_cast<size_t>(p.slot)].nbytes = 0;
      }
  const auto shift = [&](std::vector<Place>& places) {
    for (Place& p : places)
      if (p.slot >= 0) p.offset -= begin[static_cast<size_t>(p.slot)].value_or(0);
  };
  for (auto* places : {&trace.places, &inputs, &outputs}) shift(*places);
  for (Pass& pass : passes) {
    shift(pass.seeds);
    shift(pass.gradients);
  }
}

Replay::Replay(Recording recording) : recording_(std::move(recording)) {
  const Trace& all = recording_.trace;
  Trace forward = all;
  Program::Ends ends{recording_.inputs, recording_.outputs, recording_.relations};
  ends.whole_from = ends.outputs.size();
  ends.numbers = recording_.numbers;
  forward.steps.resize(recording_.forward);
  if (!recording_.passes.empty()) {
    // Where what the forward part makes begins in its slot.
    std::vector<int64_t> made(all.slots.size(), -1);
    for (const Step& s : forward.steps)
      for (const Place& p : all.at(s.results))
        if (p.slot >= 0 && made[static_cast<size_t>(p.slot)] < 0)
          made[static_cast<size_t>(p.slot)] = p.offset;
    std::vector<bool> taken(all.slots.size());
    reads_.resize(recording_.inputs.size());
    for (const Pass& pass : recording_.passes)
      for (uint32_t i = pass.steps.begin; i < pass.steps.end; ++i) {
        const Step& s = all.steps[i];
        if (s.kind == Step::Kind::Read) fail("its backward pass reads the values of tensors");
        if (s.op->draws) fail("its backward pass draws random numbers");
        all.each_place(s, [&](const Place& p, bool) {
          const auto k = static_cast<size_t>(p.slot);
          const Slot& slot = all.slots[k];
          taken[k] = taken[k] || (slot.kind == Slot::Kind::Made && made[k] >= 0) ||
                     (slot.kind == Slot::Kind::Given && slot.writes);
          for (size_t n = 0; n < reads_.size(); ++n)
            reads_[n] = reads_[n] || recording_.inputs[n].slot == p.slot;
        });
      }
    // A gradient may be what the forward part made, or a part of it.
    for (const Pass& pass : recording_.passes)
      for (const Place& p : pass.gradients) {
        for (size_t n = 0; n < reads_.size(); ++n)
          reads_[n] = reads_[n] || (p.slot >= 0 && recording_.inputs[n].slot == p.slot);
        if (p.slot >= 0 && made[static_cast<size_t>(p.slot)] >= 0) taken[static_cast<size_t>(p.slot)] = true;
      }
    for (size_t k = 0; k < taken.size(); ++k) {
      if (!taken[k]) continue;
      const Place whole{static_cast<int32_t>(k), 0, std::max<int64_t>(made[k], 0)};
      kept_.push_back(whole);
      ends.outputs.push_back(whole);
      int32_t same = -1;
      for (size_t o = 0; o < recording_.outputs.size(); ++o)
        if (recording_.outputs[o].slot == whole.slot) same = static_cast<int32_t>(o);
      kept_output_.push_back(same);
    }
  }
  forward_ = std::make_unique<Pool>(std::move(forward), std::move(ends));
  for (const Pass& pass : recording_.passes) {
    Trace back = all;
    back.steps.assign(all.steps.begin() + pass.steps.begin, all.steps.begin() + pass.steps.end);
    Program::Ends back_ends{recording_.inputs, pass.gradients, {}};
    back_ends.passes = true;
    for (Number n : recording_.numbers)
      if (n.slot >= 0 || (n.step >= pass.steps.begin && n.step < pass.steps.end)) {
        if (n.slot < 0) n.step -= pass.steps.begin;
        back_ends.numbers.push_back(n);
      }
    back_ends.inputs.insert(back_ends.inputs.end(), pass.seeds.begin(), pass.seeds.end());
    back_ends.inputs.insert(back_ends.inputs.end(), kept_.begin(), kept_.end());
    for (const Place& p : kept_) back.slots[static_cast<size_t>(p.slot)].kind = Slot::Kind::Outside;
    for (Slot& s : back.slots)
      if (s.kind == Slot::Kind::Outside) s.writes = 0;
    backward_.push_back({std::make_unique<Pool>(std::move(back), std::move(back_ends)), &pass});
  }
}

bool Replay::writes() const {
  return std::ranges::any_of(recording_.trace.slots,
                             [](const Slot& s) { return s.kind == Slot::Kind::Outside && s.writes; });
}

std::string Replay::text() const {
  std::string all = program().text();
  for (const Backward& b : backward_) all += "backward\n" + b.program->any().text();
  return all;
}

const Replay::Backward* Replay::pass_for(const Gradients& seeds) const {
  for (const Backward& b : backward_) {
    bool fits = true;
    for (size_t i = 0; i < seeds.size() && fits; ++i) {
      const Place& p = b.pass->seeds[i];
      const Tensor& g = seeds[i];
      if (g.defined() != (p.slot >= 0)) fits = false;
      if (!fits || !g.defined()) continue;
      const Geometry& geometry = recording_.trace.geometry(p);
      fits = !(g->flags & TensorImpl::kTransformed) && g.dtype() == geometry.dtype &&
             same(g.sizes(), geometry.sizes.span()) && same(g.strides(), geometry.strides.span());
    }
    if (fits) return &b;
  }
  return nullptr;
}

/// Runs along while the function runs again on inputs some of which were written since: what the call made
/// and its passes take gets the elements that it had in the call. What else comes of such inputs, no pass
/// reads.
class Replay::Supplier final : public Observer {
 public:
  Supplier(const Replay& replay, std::span<const Tensor> kept) : replay_(replay), tracer_(nullptr) {
    for (size_t k = 0; k < kept.size(); ++k) kept_.emplace(replay.kept_[k].slot, std::pair(k, kept[k]));
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
    const Trace &then = replay_.recording_.trace, &now = tracer_.trace;
    if (now.steps.size() == seen_ || seen_ >= replay_.recording_.forward) return;
    const Step &a = then.steps[seen_++], &b = now.steps.back();
    if (a.kind != b.kind || a.op != b.op || a.results.size() != b.results.size() || !now.refused.empty())
      fail("jit: this backward pass needs the function once more, and it does something else now that ",
           "what it was given was written: differentiate before that changes, or call the function without "
           "jit");
    const auto put = [&](int32_t slot, const Tensor& t) {
      const auto at = kept_.find(slot);
      if (at == kept_.end() || !t.defined()) return;
      const auto& [k, kept] = at->second;
      Storage* const to = owner_of_bytes(t->storage);
      const int64_t begin = replay_.kept_[k].offset;
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
  std::unordered_map<int32_t, std::pair<size_t, Tensor>> kept_;
};

/// A supplier in this thread, for its scope; none without a replay.
struct Replay::Supplied {
  Supplied(const Replay* replay, std::span<const Tensor> kept) {
    if (!replay) return;
    observer = Ref<Observer>::steal(new Supplier(*replay, kept));
    push(observer);
  }
  ~Supplied() {
    if (observer) pop(observer.get());
  }
  Supplied(const Supplied&) = delete;
  Ref<Observer> observer;
};

class ReplayNode final : public Node {
 public:
  ReplayNode(std::shared_ptr<Replay> replay, Again again, std::span<const Tensor> inputs)
      : replay_(std::move(replay)),
        again_(std::move(again)),
        inputs_(inputs.size()),
        elements_(inputs.size()) {
    const Recording& r = replay_->recording_;
    for (const uint32_t k : r.by) edges_.push_back(gradient_edge(inputs[k]));
    saves_something();
  }
  std::string name() const override { return "JitBackward0"; }
  std::span<Edge> edges() override { return edges_; }

  /// After the call, which may have written its inputs.
  void keep(std::span<const Tensor> inputs, std::span<const Tensor> outputs, std::vector<Scalar> numbers) {
    numbers_ = std::move(numbers);
    unread_.resize(inputs.size());
    versions_.resize(inputs.size());
    for (size_t k = 0; k < inputs.size(); ++k) {
      const Tensor& t = inputs[k];
      if (!t.defined()) continue;
      elements_[k] = t->data;
      if (replay_->reads_[k] || t->grad_fn || t->is(TensorImpl::kView)) {
        inputs_[k].save(t, false, this);
      } else {
        unread_[k] = t;
        versions_[k] = t.version();
      }
    }
    const Recording& r = replay_->recording_;
    const size_t first = r.outputs.size();
    kept_.assign(outputs.begin() + static_cast<std::ptrdiff_t>(first), outputs.end());
    results_.resize(replay_->kept_output_.size());
    for (size_t k = 0; k < results_.size(); ++k)
      if (const int32_t o = replay_->kept_output_[k]; o >= 0) {
        results_[k].save(outputs[static_cast<size_t>(o)], true, this);
        kept_[k] = alias(kept_[k]);  // the result itself would be a cycle
      }
  }
  const Again* again() const { return again_ ? &again_ : nullptr; }
  void release() override {
    for (auto* all : {&inputs_, &results_})
      for (SavedTensor& s : *all) s.release();
    kept_.clear();
    unread_.assign(unread_.size(), Tensor());
    again_ = nullptr;
  }
  void apply(Gradients& in, Gradients& out) override {
    const Replay::Backward* pass =
        thread_state.grad || thread_state.watched || thread_state.dual_level || thread_state.batch_level
            ? nullptr
            : replay_->pass_for(in);
    if (pass && run(*pass, in, out)) return;
    for (SavedTensor& s : results_)
      if (s.saved()) s.lend(this);
    if (thread_state.grad && !results_.empty() && has_hooks())
      fail(
          "jit: a derivative of this pass would come by the hooks of a result of the function (or by "
          "retain_grad()), which a second run of the function does not know; register them within the "
          "function, or call it without jit");
    const Again again = again_;
    if (!again) refuse_released();
    Tensors inputs(inputs_.size()), seeds(in.begin(), in.end());
    bool written = false;
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (unread_[k].defined()) {
        // No node of the function's own graph would have kept it: it may be other by now.
        inputs[k] = unread_[k];
        written |= unread_[k].version() != versions_[k] || unread_[k]->data != elements_[k];
      } else if (inputs_[k].saved()) {
        const bool packed = inputs_[k].is_packed();
        inputs[k] = inputs_[k].unpack(this);
        if (!packed && inputs[k]->data != elements_[k])
          fail(
              "jit: this backward pass needs the function once more, and a tensor that it reads was given "
              "other memory since the call (by .data =, set_() or swap_tensors()); differentiate before "
              "that, "
              "or call the function without jit");
      }
    }
    const Replay::Supplied supplied(written ? replay_.get() : nullptr, kept_);
    Tensors gradients = again(inputs, seeds, thread_state.grad);
    for (size_t j = 0; j < out.size(); ++j) out[j] = std::move(gradients[j]);
  }

 private:
  bool has_hooks() const {
    NodeExtras* const e = extras();
    if (!e) return false;
    const std::lock_guard lock(e->mutex);
    return !e->tensor_hooks.empty() || !e->retainers.empty() || !e->prehooks.empty() || !e->posthooks.empty();
  }
  bool run(const Replay::Backward& pass, Gradients& in, Gradients& out) {
    const size_t n = inputs_.size();
    Tensors inputs(n + in.size() + kept_.size()), outputs(out.size());
    for (size_t k = 0; k < n; ++k)
      if (replay_->reads_[k] && inputs_[k].saved()) {
        if (inputs_[k].is_packed()) return false;
        inputs[k] = Tensor::share(inputs_[k].lend(this));
      }
    for (SavedTensor& s : results_)
      if (s.saved()) s.lend(this);
    for (size_t i = 0; i < in.size(); ++i) inputs[n + i] = in[i];
    for (size_t k = 0; k < kept_.size(); ++k) inputs[n + in.size() + k] = kept_[k];
    std::vector<Scalar> numbers = numbers_;
    if (pass.program->run(inputs, outputs, numbers) != Program::Outcome::Done) return false;
    for (size_t j = 0; j < out.size(); ++j)
      if (edges_[j]) out[j] = std::move(outputs[j]);
    return true;
  }

  const std::shared_ptr<Replay> replay_;
  Again again_;
  std::vector<Edge> edges_;
  std::vector<SavedTensor> inputs_, results_;
  /// Leaves that no pass reads, which may be written without harm, and their versions at the call.
  Tensors unread_;
  std::vector<uint32_t> versions_;
  /// Where the elements of all inputs were: no version tells that a tensor was given other memory.
  std::vector<const char*> elements_;
  Tensors kept_;
  /// What the call computed with.
  std::vector<Scalar> numbers_;
};

const Again* again_of(const Node& node) {
  const auto* replayed = dynamic_cast<const ReplayNode*>(&node);
  return replayed ? replayed->again() : nullptr;
}

/// The history of a result whose graph is gone.
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

Program::Outcome Replay::run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Again& again,
                             std::vector<Scalar>& numbers) {
  const size_t n = recording_.outputs.size();
  if (recording_.passes.empty() || !thread_state.grad) {
    const auto outcome = forward_->run(inputs, outputs, numbers);
    if (outcome == Program::Outcome::Done && thread_state.grad)
      for (const Spent& spent : recording_.spent)
        set_history(outputs[spent.output], Ref<Node>::steal(new SpentNode(spent, inputs)), 0);
    return outcome;
  }
  Tensors all(n + kept_.size());
  auto* node = new ReplayNode(shared_from_this(), again, inputs);
  const Ref<Node> owner = Ref<Node>::steal(node);
  if (const auto outcome = forward_->run(inputs, all, numbers); outcome != Program::Outcome::Done)
    return outcome;
  std::copy_n(all.begin(), n, outputs.begin());
  node->set_results(static_cast<uint16_t>(recording_.differentiated.size()));
  node->keep(inputs, all, numbers);
  for (uint32_t i = 0; i < recording_.differentiated.size(); ++i) {
    const Tensor& t = outputs[recording_.differentiated[i]];
    node->set_result(i, t);
    set_history(t, owner, i);
  }
  return Program::Outcome::Done;
}

}  // namespace adjoint::replay
