#include "replay/derivative.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "autograd/meta.h"
#include "for_size.h"
#include "replay/replay_node.h"

namespace adjoint::replay {

std::string Recording::difference(const Recording& o) const {
  const std::string d = trace.difference(o.trace);
  if (!d.empty()) return d;
  return inputs != o.inputs || outputs != o.outputs || groups != o.groups || inside != o.inside ||
                 relations != o.relations || counts != o.counts || spent != o.spent ||
                 retained != o.retained || asks != o.asks
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
  for (Group& group : groups)
    for (Pass& pass : group.passes) {
      shift(pass.seeds);
      shift(pass.gradients);
      shift(pass.bases);
    }
}

Replay::Replay(std::shared_ptr<const Recording> recording) : recording_(std::move(recording)) {
  Program::Ends ends{recording_->inputs, recording_->outputs, recording_->relations, recording_->counts};
  ends.whole_from = ends.outputs.size();
  ends.numbers = recording_->numbers;
  for (const Replaced& r : recording_->replaced) ends.dropped.emplace_back(r.gradient, r.step);
  find_kept();
  ends.outputs.insert(ends.outputs.end(), kept_.begin(), kept_.end());
  forward_ = std::make_unique<Pool>(std::shared_ptr<const Trace>(recording_, &recording_->trace),
                                    Range{0, recording_->forward}, std::move(ends));
  for (size_t g = 0; g < parts_.size(); ++g) add_backward(recording_->groups[g], parts_[g]);
  for (const Inside& in : recording_->inside)
    parts_[in.group].inside.push_back(over(external_storage(
                                               nullptr, 0, [](void*) {}, nullptr),
                                           in.dtype, in.sizes.span(), Dims(in.sizes.size()).span(), 0));
  if (has_passes()) find_writes();
  for (const Group& group : recording_->groups)
    for (const uint32_t o : group.own())
      if (const int32_t k = recording_->relations[o].same; k >= 0)
        changed_.push_back(static_cast<uint32_t>(k));
  counted_.set(recording_->trace.bytes_held());
}

void Replay::find_writes() {
  const Trace& all = recording_->trace;
  std::map<int32_t, std::pair<int64_t, int64_t>> written;
  for (size_t i = 0; i < recording_->forward; ++i)
    all.each_place(all.steps[i], [&](const Place& p, bool writes) {
      if (!writes || all.slots[static_cast<size_t>(p.slot)].kind != Slot::Kind::Outside) return;
      const auto [begin, end] = all.extent(p);
      const auto [at, is_new] = written.try_emplace(p.slot, begin, end);
      if (!is_new) at->second = {std::min(at->second.first, begin), std::max(at->second.second, end)};
    });
  for (uint32_t k = 0; k < recording_->inputs.size(); ++k) {
    const Place& p = recording_->inputs[k];
    const auto at = written.find(p.slot);
    if (at == written.end()) continue;
    written_.push_back(k);
    const auto [begin, end] = at->second;
    if (std::ranges::none_of(writes_,
                             [&](const Write& w) { return recording_->inputs[w.input].slot == p.slot; }))
      writes_.push_back({k, begin - p.offset, end - p.offset});
  }
}

void Replay::find_kept() {
  const Trace& all = recording_->trace;
  // Where what the forward part makes begins in its slot.
  std::vector<int64_t> made(all.slots.size(), -1);
  for (size_t i = 0; i < recording_->forward; ++i)
    for (const Place& p : all.at(all.steps[i].results))
      if (p.slot >= 0 && made[static_cast<size_t>(p.slot)] < 0) made[static_cast<size_t>(p.slot)] = p.offset;
  std::vector<int32_t> number(all.slots.size(), -1);
  for (const Group& group : recording_->groups) {
    std::vector<bool> taken(all.slots.size());
    Part& part = parts_.emplace_back();
    part.reads.resize(recording_->inputs.size());
    const auto reads = [&](int32_t slot) {
      for (size_t n = 0; n < part.reads.size(); ++n)
        part.reads[n] = part.reads[n] || recording_->inputs[n].slot == slot;
    };
    for (const Pass& pass : group.passes) {
      for (uint32_t i = pass.steps.begin; i < pass.steps.end; ++i) {
        const Step& s = all.steps[i];
        if (s.kind == Step::Kind::Read) fail("its backward pass reads the values of tensors");
        if (s.op->draws) fail("its backward pass draws random numbers");
        all.each_place(s, [&](const Place& p, bool written) {
          const auto k = static_cast<size_t>(p.slot);
          const Slot& slot = all.slots[k];
          if (written && slot.kind == Slot::Kind::Outside)
            fail("its backward pass writes a tensor that was there before");
          taken[k] = taken[k] || (slot.kind == Slot::Kind::Made && made[k] >= 0) ||
                     (slot.kind == Slot::Kind::Given && slot.writes);
          reads(p.slot);
        });
      }
      // A gradient may be what the forward part made, or a part of it.
      for (const Place& p : pass.gradients)
        if (p.slot >= 0) {
          reads(p.slot);
          if (made[static_cast<size_t>(p.slot)] >= 0) taken[static_cast<size_t>(p.slot)] = true;
        }
    }
    for (size_t k = 0; k < taken.size(); ++k) {
      if (!taken[k]) continue;
      if (number[k] < 0) {
        number[k] = static_cast<int32_t>(kept_.size());
        kept_.push_back({static_cast<int32_t>(k), 0, std::max<int64_t>(made[k], 0)});
        int32_t same = -1;
        for (size_t o = 0; o < recording_->outputs.size(); ++o)
          if (recording_->outputs[o].slot == static_cast<int32_t>(k)) same = static_cast<int32_t>(o);
        kept_output_.push_back(same);
      }
      part.kept.push_back(static_cast<uint32_t>(number[k]));
    }
  }
}

void Replay::add_backward(const Group& group, Part& part) const {
  for (const Pass& pass : group.passes) {
    Program::Ends ends{recording_->inputs, pass.gradients, {}};
    ends.passes = true;
    for (Number n : recording_->numbers)
      if (n.slot >= 0 || (n.step >= pass.steps.begin && n.step < pass.steps.end)) {
        if (n.slot < 0) n.step -= pass.steps.begin;
        ends.numbers.push_back(n);
      }
    const auto first_seed = static_cast<ptrdiff_t>(ends.inputs.size());
    ends.inputs.insert(ends.inputs.end(), pass.seeds.begin(), pass.seeds.end());
    ends.spent_from = ends.inputs.size();
    for (const uint32_t k : part.kept) ends.inputs.push_back(kept_[k]);
    for (size_t i = 0; i < pass.gradients.size(); ++i) {
      Relation& r = ends.relations.emplace_back();
      const auto at = std::ranges::find(ends.inputs, pass.gradients[i]);
      // What was no view when it was given and is one now lies as it did, and is another tensor.
      const bool is_seed = at - ends.inputs.begin() >= first_seed;
      if (pass.gradients[i].slot >= 0 && at != ends.inputs.end() && !(is_seed && pass.bases[i].slot >= 0)) {
        r.same = static_cast<int32_t>(at - ends.inputs.begin());
      } else if (pass.bases[i].slot >= 0) {
        r.base_output = static_cast<int32_t>(ends.outputs.size());
        ends.outputs.push_back(pass.bases[i]);
      }
    }
    part.backward.push_back(
        {std::make_unique<Pool>(std::shared_ptr<const Trace>(recording_, &recording_->trace), pass.steps,
                                std::move(ends)),
         &pass});
  }
}

Tensors Replay::as_now(std::span<const Tensor> inputs) const {
  Tensors now(inputs.begin(), inputs.end());
  for (const uint32_t k : changed_) {
    now[k] = alias(inputs[k]);
    if (inputs[k]->grad_fn) set_history(now[k], Ref<Node>::share(inputs[k]->grad_fn), inputs[k]->output_nr);
  }
  return now;
}

bool Replay::writes() const {
  return std::ranges::any_of(recording_->trace.slots,
                             [](const Slot& s) { return s.kind == Slot::Kind::Outside && s.writes; });
}

Program::Statistics Replay::statistics() const {
  Program::Statistics s;
  s.operations = recording_->forward;
  if (is_planned()) s = program().statistics();
  s.bytes += recording_->trace.bytes_held();
  for (const Part& part : parts_)
    for (const Backward& b : part.backward)
      if (b.program->is_planned()) s.bytes += b.program->any().statistics().bytes;
  return s;
}

std::string Replay::text() const {
  std::string all = forward_->text();
  for (const Part& part : parts_)
    for (const Backward& b : part.backward) all += "backward\n" + b.program->text();
  return all;
}

void Replay::time(bool on) {
  forward_->time(on);
  for (const Part& part : parts_)
    for (const Backward& b : part.backward) b.program->time(on);
}

std::vector<Replay::Shown> Replay::pictures() const {
  std::vector<Shown> all;
  all.push_back({forward_->picture(), {}, {}, {}, forward_->times().runs});
  for (size_t g = 0; g < parts_.size(); ++g)
    for (const Backward& b : parts_[g].backward) {
      const Group& group = recording_->groups[g];
      all.push_back({b.program->picture(), parts_[g].kept, group.outputs, group.by, b.program->times().runs});
    }
  return all;
}

const Replay::Backward* Replay::pass_for(const Part& part, const Gradients& seeds) const {
  for (const Backward& b : part.backward) {
    bool fits = true;
    for (size_t i = 0; i < seeds.size() && fits; ++i) {
      const Place& p = b.pass->seeds[i];
      const Tensor& g = seeds[i];
      if (g.defined() != (p.slot >= 0)) fits = false;
      if (!fits || !g.defined()) continue;
      const Geometry& geometry = recording_->trace.geometry(p);
      fits = !(g->flags & TensorImpl::kTransformed) && g.dtype() == geometry.dtype &&
             same(g.sizes(), geometry.sizes.span()) && same(g.strides(), geometry.strides.span());
    }
    if (fits) return &b;
  }
  return nullptr;
}

Program::Outcome Replay::run(std::span<const Tensor> inputs, std::span<Tensor> outputs, MakeAgain again,
                             std::vector<Scalar>& numbers, const Program::Drop* drop) {
  const size_t n = recording_->outputs.size();
  if (!has_passes()) {
    const auto outcome = forward_->run(inputs, outputs, numbers, drop);
    if (outcome == Program::Outcome::Done && thread_state.grad)
      for (const Spent& spent : recording_->spent) set_spent(spent, inputs, outputs[spent.output]);
    return outcome;
  }
  if (!thread_state.grad) return Program::Outcome::Undone;
  const auto call = std::make_shared<NodesOfCall>(*this, inputs);
  call->first_node = thread_state.sequence;
  std::vector<Ref<ReplayNode>> nodes;
  for (uint32_t g = 0; g < parts_.size(); ++g)
    nodes.push_back(Ref<ReplayNode>::steal(
        new ReplayNode(shared_from_this(), g, again(recording_->groups[g].results), call, inputs)));
  Tensors all(n + kept_.size());
  if (const auto outcome = forward_->run(inputs, all, numbers); outcome != Program::Outcome::Done)
    return outcome;
  // They come in passes where eager's nodes would.
  for (size_t g = 0; g < nodes.size(); ++g) nodes[g]->sequence = call->first_node + recording_->latest[g];
  thread_state.sequence = call->first_node + recording_->nodes;
  // What is written stands for itself as it was, to all nodes, before the first of them changes its history.
  Tensors then;
  if (!changed_.empty()) then = as_now(inputs);
  const std::span<const Tensor> found = changed_.empty() ? inputs : std::span<const Tensor>(then);
  for (const Ref<ReplayNode>& node : nodes) node->enter(found, all, numbers, nodes);
  std::copy_n(all.begin(), n, outputs.begin());
  for (const uint32_t k : recording_->retained) retain_grad(outputs[k]);
  return Program::Outcome::Done;
}

}  // namespace adjoint::replay
