// Chains: loops over the same elements, a block at a time. What stays in a block, in which order links run,
// and which of them are one pass.
#include "for_size.h"
#include "kernels/reducer.h"
#include "replay/builder.h"

namespace adjoint::replay {

/// What a link of floating-point numbers computes, if it is cheap.
LoopMeaning Builder::meaning(const Plan& plan) {
  const DType type = t_.geometry(plan.out).dtype;
  if ((type != DType::Float32 && type != DType::Float64) || plan.call.parameters) return {};
  unsigned taken = 0;
  const void* numbers[StraightCall::kOperands] = {};
  for (size_t k = 0; k < plan.in.size(); ++k) {
    const Place& p = plan.in[k];
    if (p.slot < 0) continue;
    if (t_.geometry(p).dtype != type) return {};
    taken |= 1u << k;
    // The only element is no number beside others: loops ask for at least two.
    if (plan.call.constant >> k & 1 && is_known(p)) numbers[k] = memory(p.slot).base + p.offset;
  }
  const unsigned constant = t_.geometry(plan.out).numel > 1 ? plan.call.constant : 0;
  if (!constant) std::ranges::fill(numbers, nullptr);
  return meaning_of(plan.call.loop, type, taken, constant, numbers);
}

/// Cheap links are drawn behind the one whose result they take, so that it stays in registers.
void Builder::order_links(std::vector<uint32_t>& steps) const {
  constexpr size_t kSeen = 64;  // how far ahead one is looked for
  // Links that must have run: who wrote what a link reads or writes, and who read what it writes over.
  std::vector<std::vector<size_t>> before(steps.size());
  std::map<int32_t, size_t> writer;
  std::map<int32_t, std::vector<size_t>> readers;
  for (size_t k = 0; k < steps.size(); ++k) {
    const Plan& plan = plans_[steps[k]];
    for (const Place& p : plan.in) {
      if (p.slot < 0) continue;
      if (const auto w = writer.find(p.slot); w != writer.end()) before[k].push_back(w->second);
      readers[p.slot].push_back(k);
    }
    const int32_t out = plan.out.slot;
    if (const auto w = writer.find(out); w != writer.end()) before[k].push_back(w->second);
    for (const size_t r : std::exchange(readers[out], {}))
      if (r != k) before[k].push_back(r);
    writer[out] = k;
  }
  std::vector<uint32_t> ordered;
  std::vector<bool> done(steps.size());
  const auto follows = [&](size_t k, const Plan& last) {
    const Plan& plan = plans_[steps[k]];
    return !done[k] && plan.meaning.forward != Cheap::None &&
           std::ranges::any_of(plan.in, [&](const Place& p) { return p.slot == last.out.slot; }) &&
           std::ranges::all_of(before[k], [&](size_t b) { return done[b]; });
  };
  for (size_t first = 0; ordered.size() < steps.size();) {
    while (done[first]) ++first;
    size_t next = first;
    if (!ordered.empty() && plans_[ordered.back()].meaning.forward != Cheap::None)
      for (size_t k = first; k < std::min(steps.size(), first + kSeen); ++k)
        if (follows(k, plans_[ordered.back()])) {
          next = k;
          break;
        }
    done[next] = true;
    ordered.push_back(steps[next]);
  }
  steps = std::move(ordered);
}

/// step(what, operand) for a cheap link whose operand, at least one, was just made.
template <class F>
void Builder::join_step(const Plan& plan, const Place& made, const F& step) {
  const auto& [forward, backward, first, second] = plan.meaning;
  const Place& p = plan.in[static_cast<size_t>(first)];
  const bool is_first = p.slot == made.slot && p.offset == made.offset;
  if (takes(plan, made) == 2 && plan.meaning.squares())
    step(Cheap::Square, first);
  else if (is_first)
    step(forward, second >= 0 ? second : first);
  else
    step(backward, first);
}

/// A pass over few elements. What is taken at once stays in registers.
void Builder::emit_pass(const std::vector<uint32_t>& steps) {
  auto pass = std::make_unique<Program::SmallPass>();
  const Geometry& g = t_.geometry(plans_[steps[0]].out);
  pass->run = pass_of(g.dtype).run;
  pass->n = g.numel;
  // Steps are pointed into: at most two for a link, and the ends.
  pass->at.reserve(2 * steps.size() + 2);
  const auto step = [&](Cheap what, const Place& p, bool number) {
    pass->steps.push_back(what);
    pass->at.push_back(nullptr);
    if (number && pass->n > 1)
      pass->at.back() = const_cast<char*>(repeat(p, pass->n));
    else
      point(&pass->at.back(), p);
  };
  for (size_t k = 0; k < steps.size(); ++k) {
    const Plan& plan = plans_[steps[k]];
    const auto operand = [&](Cheap what, int o) {
      step(what, plan.in[static_cast<size_t>(o)], plan.call.constant >> o & 1);
    };
    if (k == 0) {
      operand(Cheap::Read, plan.meaning.first);
      operand(plan.meaning.forward, plan.meaning.second >= 0 ? plan.meaning.second : plan.meaning.first);
    } else {
      const Place& made = plans_[steps[k - 1]].out;
      if (!in_registers_.contains(made.slot)) step(Cheap::Write, made, false);
      join_step(plan, made, operand);
    }
    pass->names.push_back(plan.name);
    p_.work_ += pass->n;
  }
  step(Cheap::Write, plans_[steps.back()].out, false);
  p_.passes_.push_back(std::move(pass));
  append(Program::Kind::Pass, p_.passes_.size() - 1);
}

/// Parts of a chain: passes of cheap links, of which each takes what the last one made, and other links.
void Builder::join_links(Program::Chain& chain, const std::vector<uint32_t>& steps,
                         const std::map<int32_t, size_t>& last) {
  const auto step = [&](Cheap what, const Program::Chain::Operand& of) {
    chain.steps.push_back(what);
    chain.at.push_back(&of);
  };
  for (size_t k = 0; k < steps.size();) {
    const auto begin = static_cast<uint32_t>(chain.steps.size());
    const size_t first = k;
    for (; k < steps.size() && chain.steps.size() - begin + 3 < Pass::kMost; ++k) {
      const Plan& plan = plans_[steps[k]];
      const auto& [forward, backward, a, b] = plan.meaning;
      if (forward == Cheap::None) break;
      const Program::Chain::Link& link = chain.links[k];
      const auto operand = [&](int o) -> const Program::Chain::Operand& {
        return link.in[static_cast<size_t>(o)];
      };
      if (k == first) {
        step(Cheap::Read, operand(a));
        step(forward, b >= 0 ? operand(b) : operand(a));
        continue;
      }
      const Place& made = plans_[steps[k - 1]].out;
      const int taken = takes(plan, made);
      if (!taken) break;
      const bool squares = taken == 2 && plan.meaning.squares();
      const bool again = plan.out.slot == made.slot && plan.out.offset == made.offset;  // is written at once
      if ((!again && (memory(made.slot).home != Home::Block || last.at(made.slot) != k)) ||
          (taken == 2 && !squares))
        step(Cheap::Write, chain.links[k - 1].out);
      join_step(plan, made, [&](Cheap what, int o) { step(what, operand(o)); });
    }
    if (k - first > 1) {
      step(Cheap::Write, chain.links[k - 1].out);
      const DType type = t_.geometry(plans_[steps[first]].out).dtype;
      chain.parts.push_back({static_cast<uint32_t>(first), static_cast<uint32_t>(k), &pass_of(type), begin,
                             static_cast<uint32_t>(chain.steps.size())});
    } else {
      chain.steps.resize(begin);
      chain.at.resize(begin);
      k = first + 1;
      chain.parts.push_back({static_cast<uint32_t>(first), static_cast<uint32_t>(k)});
    }
  }
}

void Builder::emit_chain(std::vector<uint32_t> steps) {
  auto chain = std::make_unique<Program::Chain>();
  const Plan* const fold = plans_[steps.back()].folds >= 0 ? &plans_[steps.back()] : nullptr;
  const Step& last_step = t_.steps[steps.back()];
  if (fold) steps.pop_back();
  for (const uint32_t i : steps) plans_[i].meaning = meaning(plans_[i]);
  const uint32_t head = steps[0];
  order_links(steps);
  const int64_t length = fold ? Elements::kPiece : Program::kBlock;
  chain->ends = ends_[head];
  for (const uint32_t i : steps)
    if (const int32_t s = plans_[i].out.slot;
        slot(s).kind == Slot::Kind::Outside && std::ranges::find(p_.chained_, s) == p_.chained_.end())
      p_.chained_.push_back(s);
  chain->n = t_.geometry(plans_[steps[0]].out).numel;
  chain->links.resize(steps.size());
  size_t numbers = 0, fewer = 0;
  std::map<int32_t, size_t> last;  // of slots that stay in blocks: the last link
  for (size_t k = 0; k < steps.size(); ++k) {
    const Plan& plan = plans_[steps[k]];
    chain->buffer_bytes = std::max(chain->buffer_bytes, length * itemsize(t_.geometry(plan.out).dtype));
    for (size_t i = 0; i < plan.in.size(); ++i) {
      if (plan.in[i].slot < 0) continue;
      chain->buffer_bytes = std::max(chain->buffer_bytes, length * itemsize(t_.geometry(plan.in[i]).dtype));
      numbers += plan.call.constant >> i & 1;
      fewer += plan.spread[i].length != 0;
      last[plan.in[i].slot] = k;
    }
    last[plan.out.slot] = k;
  }
  if (fold) last[fold->folds] = steps.size();
  chain->numbers.reserve(numbers);
  chain->fewer.reserve(fewer);
  std::map<std::tuple<int32_t, int64_t, int64_t, bool>, int32_t> of_fewer;
  std::map<std::pair<int32_t, int64_t>, int32_t> of_number;
  std::map<int32_t, int32_t> buffer;
  std::vector<int32_t> idle;
  const auto operand = [&](Program::Chain::Operand& o, const Place& p, bool number,
                           const Program::Spread& spread = {}) {
    const int64_t item = itemsize(t_.geometry(p).dtype);
    if (spread.length) {
      auto [known, is_new] =
          of_fewer.try_emplace({p.slot, p.offset, spread.length, spread.each}, chain->buffers);
      if (is_new) {
        chain->fewer.push_back({{nullptr, item, chain->buffers++}, spread});
        point(&chain->fewer.back().first.at, p);
      }
      o.buffer = known->second;
    } else if (number) {
      auto [known, is_new] = of_number.try_emplace({p.slot, p.offset}, chain->buffers);
      if (is_new) {
        chain->numbers.push_back({nullptr, item, chain->buffers++});
        point(&chain->numbers.back().at, p);
      }
      o.buffer = known->second;
    } else if (const auto b = buffer.find(p.slot); b != buffer.end()) {
      o.buffer = b->second;
    } else {
      o.item = item;
      point(&o.at, p);
    }
  };
  for (size_t k = 0; k < steps.size(); ++k) {
    const Plan& plan = plans_[steps[k]];
    Program::Chain::Link& link = chain->links[k];
    link.loop = plan.call.loop;
    link.parameters = plan.call.parameters;
    link.name = plan.name;
    for (size_t i = 0; i < plan.in.size(); ++i)
      if (plan.in[i].slot >= 0) operand(link.in[i], plan.in[i], plan.call.constant >> i & 1, plan.spread[i]);
    // The result may lie where an operand ends.
    for (const Place& p : plan.in)
      if (const auto b = buffer.find(p.slot);
          p.slot >= 0 && b != buffer.end() && last[p.slot] == k && p.slot != plan.out.slot) {
        idle.push_back(b->second);
        buffer.erase(b);
      }
    if (memory(plan.out.slot).home == Home::Block && !buffer.contains(plan.out.slot)) {
      if (idle.empty()) idle.push_back(chain->buffers++);
      buffer[plan.out.slot] = idle.back();
      idle.pop_back();
    }
    operand(link.out, plan.out, false);
    p_.work_ += chain->n;
  }
  join_links(*chain, steps, last);
  if (fold) {
    const BoundLaunch& bound = bind(fold->launches->calls[0], last_step, *fold);
    chain->folded = {bound.routine(), bound.arguments(), last_step.op->name, {}};
    // As the last link that makes it has it.
    for (size_t k = 0; k < steps.size(); ++k)
      if (plans_[steps[k]].out.slot == fold->folds) operand(chain->folded.of, plans_[steps[k]].out, false);
  }
  p_.chains_.push_back(std::move(chain));
  append(Program::Kind::Chain, p_.chains_.size() - 1);
}

}  // namespace adjoint::replay
