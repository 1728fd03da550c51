// Chains: loops over the same elements, a block at a time. What stays in a block, in which order links run,
// and which of them are one pass.
#include <set>

#include "for_size.h"
#include "kernels/reducer.h"
#include "replay/builder.h"

namespace adjoint::replay {

/// What a link of floating-point numbers computes, if it is cheap.
LoopMeaning Builder::meaning(const Plan& plan) {
  const DType type = t_.geometry(plan.out).dtype;
  if (type != DType::Float32 && type != DType::Float64) return {};
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
  return meaning_of(plan.call.loop, type, taken, constant, numbers, plan.call.parameters, plan.parameters);
}

/// Where a cheap link would begin with what another one has made (a quotient, in the gradient of that), it
/// takes this.
void Builder::take_what_is_made(const std::vector<uint32_t>& steps) {
  using Operand = std::tuple<int32_t, int64_t, int64_t, bool>;
  std::map<std::tuple<Cheap, Operand, Operand>, Place> known;
  for (const uint32_t i : steps) {
    Plan& plan = plans_[i];
    const auto free = std::ranges::find(plan.in, -1, &Place::slot);
    for (LoopMeaning::Way& way : plan.meaning.ways) {
      if (way.count < 2 || way.steps[1].operand < 0) continue;
      bool lasts = !slot(plan.out.slot).writes;
      const auto operand = [&](int s) -> Operand {
        const auto k = static_cast<size_t>(way.steps[s].operand);
        lasts &= !slot(plan.in[k].slot).writes;
        return {plan.in[k].slot, plan.in[k].offset, plan.spread[k].length, plan.spread[k].each};
      };
      const std::tuple begin{way.steps[1].what, operand(0), operand(1)};
      if (!lasts) continue;
      if (way.count == 2) {
        known.try_emplace(begin, plan.out);
      } else if (const auto made = known.find(begin); made != known.end() && free != plan.in.end()) {
        *free = made->second;
        way.steps[1] = {Cheap::Read, static_cast<int>(free - plan.in.begin())};
        std::copy(way.steps + 1, way.steps + way.count--, way.steps);
        break;
      }
    }
  }
}

/// As many cheap links as there are come one after the other, each after the one whose result it takes, so
/// that it stays in registers, if there is such.
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
    for (const int32_t out : {plan.out.slot, plan.also.slot}) {
      if (out < 0) continue;
      if (const auto w = writer.find(out); w != writer.end()) before[k].push_back(w->second);
      for (const size_t r : std::exchange(readers[out], {}))
        if (r != k) before[k].push_back(r);
      writer[out] = k;
    }
  }
  std::vector<uint32_t> ordered;
  std::vector<bool> done(steps.size());
  const auto is_cheap = [&](size_t k) { return static_cast<bool>(plans_[steps[k]].meaning); };
  for (size_t first = 0; ordered.size() < steps.size();) {
    while (done[first]) ++first;
    const Plan* const last = ordered.empty() ? nullptr : &plans_[ordered.back()];
    const bool passes = last && last->meaning;
    const size_t none = steps.size();
    size_t follows = none, cheap = none, other = none;
    for (size_t k = first; k < std::min(steps.size(), first + kSeen) && follows == none; ++k) {
      if (done[k] || !std::ranges::all_of(before[k], [&](size_t b) { return done[b]; })) continue;
      size_t& found = !is_cheap(k)                                      ? other
                      : passes && way_from(plans_[steps[k]], last->out) ? follows
                                                                        : cheap;
      if (found == none) found = k;
    }
    const size_t next = follows != none                              ? follows
                        : (passes || other == none) && cheap != none ? cheap
                                                                     : other;
    done[next] = true;
    ordered.push_back(steps[next]);
  }
  steps = std::move(ordered);
}

/// A pass over few elements. What is taken at once stays in registers.
void Builder::emit_pass(std::span<const uint32_t> steps) {
  auto pass = std::make_unique<Program::SmallPass>();
  const Geometry& g = t_.geometry(plans_[steps[0]].out);
  pass->run = pass_of(g.dtype).run;
  pass->n = g.numel;
  // Steps are pointed into.
  pass->at.reserve((LoopMeaning::kMostSteps + 1) * steps.size() + 1);
  const auto step = [&](Cheap what, const Place& p) {
    pass->steps.push_back(what);
    pass->at.push_back(nullptr);
    point(&pass->at.back(), p);
  };
  for (size_t k = 0; k < steps.size(); ++k) {
    const Plan& plan = plans_[steps[k]];
    const LoopMeaning::Way* way = plan.meaning.ways;
    int s = 0;
    if (k) {
      const Place& made = plans_[steps[k - 1]].out;
      if (!in_registers_[static_cast<size_t>(made.slot)]) step(Cheap::Write, made);
      way = way_from(plan, made);
      s = 1;
      if (takes(plan, made) == 2 && way->squares()) {
        step(Cheap::Square, made);
        s = way->count;
      }
    }
    for (; s < way->count; ++s) {
      const auto [what, o] = way->steps[s];
      if (o == LoopMeaning::kOne) {
        pass->steps.push_back(by_number(what));
        pass->at.push_back(static_cast<char*>(const_cast<void*>(one_of(g.dtype))));
      } else {
        step(pass->n > 1 && plan.call.constant >> o & 1 ? by_number(what) : what,
             plan.in[static_cast<size_t>(o)]);
      }
    }
    pass->names.push_back(plan.name);
    p_.work_ += pass->n;
  }
  step(Cheap::Write, plans_[steps.back()].out);
  p_.passes_.push_back(std::move(pass));
  append(Program::Kind::Pass, p_.passes_.size() - 1);
}

/// Whether a pass takes an operand of fewer elements where it lies: a number, or, row by row, what is spread
/// over the rows, if they are long.
bool Builder::is_direct(const Program::Chain& chain, const Plan& plan, size_t operand) const {
  const Program::Spread& spread = plan.spread[operand];
  if (!spread.length) return plan.call.constant >> operand & 1;
  const Pass& pass = pass_of(t_.geometry(plan.out).dtype);
  return spread.length == chain.row && pass.times(chain.row) <= chain.row / pass.width / 2;
}

/// Parts of a chain: passes of cheap links, and other links.
void Builder::join_links(Program::Chain& chain, const std::vector<uint32_t>& steps,
                         const std::map<int32_t, size_t>& last) {
  const auto step = [&](Cheap what, const Program::Chain::Operand& of) {
    chain.steps.push_back(what);
    chain.at.push_back(&of);
  };
  for (size_t k = 0; k < steps.size();) {
    Program::Chain::Part part{static_cast<uint32_t>(k), 0};
    part.begin = static_cast<uint32_t>(chain.steps.size());
    const DType type = t_.geometry(plans_[steps[k]].out).dtype;
    bool direct = false;
    for (; k < steps.size() && chain.steps.size() - part.begin + LoopMeaning::kMostSteps + 2 < Pass::kMost;
         ++k) {
      const Plan& plan = plans_[steps[k]];
      if (!plan.meaning || t_.geometry(plan.out).dtype != type) break;
      const LoopMeaning::Way* way = plan.meaning.ways;
      int s = 0;
      if (k > part.first) {
        const Place& made = plans_[steps[k - 1]].out;
        const LoopMeaning::Way* const taken = way_from(plan, made);
        const bool squares = taken && taken->squares() && takes(plan, made) == 2;
        const bool again =
            plan.out.slot == made.slot && plan.out.offset == made.offset;  // is written at once
        const bool needed = !again && (memory(made.slot).home != Home::Block || last.at(made.slot) != k);
        if (!taken || needed || (takes(plan, made) > 1 && !squares))
          step(Cheap::Write, chain.links[k - 1].out);
        if (taken) {
          way = taken;
          s = 1;
        }
        if (squares) {
          step(Cheap::Square, chain.links[k].in[taken->steps[0].operand]);
          s = way->count;
        }
      }
      for (; s < way->count; ++s) {
        const auto [what, o] = way->steps[s];
        const auto operand = static_cast<size_t>(o);
        if (o == LoopMeaning::kOne) {
          step(by_number(what), chain.ones[type == DType::Float64]);
          continue;
        }
        const bool is_direct = this->is_direct(chain, plan, operand);
        direct |= is_direct;
        part.by_rows |= is_direct && plan.spread[operand].length;
        const bool number = is_direct && (!plan.spread[operand].length || plan.spread[operand].each);
        step(number ? by_number(what) : what, chain.links[k].in[operand]);
      }
    }
    // One alone is its own loop, unless a buffer would have to be filled for it.
    if (k - part.first > 1 || direct) {
      step(Cheap::Write, chain.links[k - 1].out);
      part.pass = &pass_of(type);
      part.end = static_cast<uint32_t>(chain.steps.size());
    } else {
      chain.steps.resize(part.begin);
      chain.at.resize(part.begin);
      k = part.first + 1;
      part.by_rows = false;
    }
    part.last = static_cast<uint32_t>(k);
    chain.parts.push_back(part);
  }
}

/// Where the operands of a chain lie: outside, or in buffers, which are used again once nobody reads them any
/// more.
class Builder::Layout {
 public:
  using Chain = Program::Chain;
  Layout(Builder& builder, Chain& chain, const std::vector<uint32_t>& steps,
         const std::map<int32_t, size_t>& last)
      : b_(builder), chain_(chain), steps_(steps), last_(last) {
    size_t numbers = 0, fills = 0;  // are pointed into
    passes_.resize(steps.size());
    for (const Chain::Part& part : chain.parts)
      std::fill(passes_.begin() + part.first, passes_.begin() + part.last, part.pass != nullptr);
    for (size_t k = 0; k < steps.size(); ++k) {
      const Plan& plan = plan_of(k);
      for (size_t i = 0; i < plan.in.size(); ++i) {
        if (plan.in[i].slot < 0 || is_direct(k, i)) continue;
        numbers += plan.call.constant >> i & 1;
        fills += plan.spread[i].length != 0;
        if (plan.spread[i].length) last_use_[key(plan, i)] = k;
      }
    }
    chain.numbers.reserve(numbers);
    chain.fills.reserve(fills);
  }

  void run() {
    std::vector<Chain::Part> parts;
    for (const Chain::Part& part : std::exchange(chain_.parts, {})) {
      // All that a pass reads is there before it begins.
      for (uint32_t k = part.first; k < part.last; ++k)
        for (size_t i = 0; i < plan_of(k).in.size(); ++i)
          if (plan_of(k).spread[i].length && !is_direct(k, i) && !filled_.contains(key(plan_of(k), i))) {
            parts.push_back({static_cast<uint32_t>(chain_.fills.size()), 0, nullptr, 0, 0, true});
            fill(plan_of(k), i);
          }
      parts.push_back(part);
      for (uint32_t k = part.first; k < part.last; ++k) place(k);
      // A pass reads numbers of rows until its end.
      for (const auto& [slot, k] : by_row_)
        if (const auto known = buffer_.find(slot); known != buffer_.end() && last_.at(slot) == k) {
          idle_.push_back(known->second);
          buffer_.erase(known);
        }
      by_row_.clear();
    }
    chain_.parts = std::move(parts);
  }

  void operand(Chain::Operand& o, const Place& p, bool by_row) const {
    o.item = itemsize(b_.t_.geometry(p).dtype);
    o.by_row = by_row;
    if (const auto known = buffer_.find(p.slot); known != buffer_.end())
      o.buffer = known->second;
    else
      b_.point(&o.at, p);
  }

 private:
  using Key = std::tuple<int32_t, int64_t, int64_t, bool>;
  static Key key(const Plan& plan, size_t i) {
    return {plan.in[i].slot, plan.in[i].offset, plan.spread[i].length, plan.spread[i].each};
  }
  const Plan& plan_of(size_t k) const { return b_.plans_[steps_[k]]; }
  bool is_direct(size_t k, size_t operand) const {
    return passes_[k] && b_.is_direct(chain_, plan_of(k), operand);
  }
  int32_t take() {
    if (idle_.empty()) return chain_.buffers++;
    const int32_t buffer = idle_.back();
    idle_.pop_back();
    return buffer;
  }

  void fill(const Plan& plan, size_t i) {
    const int32_t to = filled_[key(plan, i)] = take();
    chain_.fills.push_back({{}, to, plan.spread[i]});
    operand(chain_.fills.back().from, plan.in[i], plan.spread[i].each);
  }

  void number(Chain::Operand& o, const Place& p) {
    auto [known, is_new] = of_number_.try_emplace({p.slot, p.offset}, chain_.buffers);
    if (is_new) {
      chain_.numbers.push_back({nullptr, itemsize(b_.t_.geometry(p).dtype), chain_.buffers++});
      b_.point(&chain_.numbers.back().at, p);
    }
    o.buffer = known->second;
  }

  void place(uint32_t k) {
    const Plan& plan = plan_of(k);
    Chain::Link& link = chain_.links[k];
    const bool numbers = b_.t_.geometry(plan.out).numel != chain_.n;
    const bool reduces = plan.row != 0;
    for (size_t i = 0; i < plan.in.size(); ++i) {
      if (plan.in[i].slot < 0) continue;
      if (is_direct(k, i)) {
        const bool each = plan.spread[i].length && plan.spread[i].each;
        operand(link.in[i], plan.in[i], each);
        link.in[i].in_place = !each;
      } else if (plan.spread[i].length)
        link.in[i].buffer = filled_.at(key(plan, i));
      else if (plan.call.constant >> i & 1)
        number(link.in[i], plan.in[i]);
      else
        operand(link.in[i], plan.in[i], numbers && !reduces);
    }
    // The result may lie where an operand ends whose elements are as long: a longer one would be written over
    // what is still to be read. Those of a reduction lie elsewhere.
    const int64_t item = reduces ? 0 : itemsize(b_.t_.geometry(plan.out).dtype);
    release(plan, k, item);
    for (const Place* p : {&plan.out, &plan.also})
      if (p->slot >= 0) {
        if (b_.memory(p->slot).home == Home::Block && !buffer_.contains(p->slot)) buffer_[p->slot] = take();
        operand(p == &plan.out ? link.out : link.also, *p, numbers);
      }
    release(plan, k);
  }

  /// The buffers of operands that nobody reads after link k; only those of such items, unless it is -1.
  void release(const Plan& plan, size_t k, int64_t item = -1) {
    for (size_t i = 0; i < plan.in.size(); ++i) {
      const int32_t slot = plan.in[i].slot;
      if (slot < 0 || (item >= 0 && itemsize(b_.t_.geometry(plan.in[i]).dtype) != item)) continue;
      if (is_direct(k, i)) {
        if (plan.spread[i].length) by_row_.emplace_back(slot, k);
        continue;
      }
      if (plan.spread[i].length) {
        if (const auto last = last_use_.find(key(plan, i)); last != last_use_.end() && last->second == k) {
          idle_.push_back(filled_.at(key(plan, i)));
          last_use_.erase(last);
        }
      }
      if (const auto known = buffer_.find(slot);
          known != buffer_.end() && last_.at(slot) == k && slot != plan.out.slot) {
        idle_.push_back(known->second);
        buffer_.erase(known);
      }
    }
  }

  Builder& b_;
  Chain& chain_;
  const std::vector<uint32_t>& steps_;
  const std::map<int32_t, size_t>& last_;  // of slots: the last link that has to do with them
  std::map<Key, size_t> last_use_;
  std::map<Key, int32_t> filled_;
  std::map<std::pair<int32_t, int64_t>, int32_t> of_number_;
  std::map<int32_t, int32_t> buffer_;
  std::vector<int32_t> idle_;
  std::vector<bool> passes_;                        // of links
  std::vector<std::pair<int32_t, size_t>> by_row_;  // slots that the pass reads directly, and the link
};

/// What lies outside and is too much for a cache is known to be taken, block after block. (Rows are long.)
void Builder::fetch_far(Program::Chain& chain, const std::vector<uint32_t>& steps) {
  constexpr int64_t kCached = int64_t{4} << 20;
  std::set<std::pair<int32_t, int64_t>> known;
  int64_t bytes = 0;
  for (size_t k = 0; k < steps.size(); ++k) {
    const Plan& plan = plans_[steps[k]];
    const auto look = [&](const Program::Chain::Operand& o, const Place& p) {
      if (p.slot < 0 || o.buffer >= 0 || t_.geometry(p).numel != chain.n ||
          !known.emplace(p.slot, p.offset).second)
        return;
      bytes += chain.n * o.item;
      chain.far.push_back(&o);
    };
    for (size_t i = 0; i < plan.in.size(); ++i) look(chain.links[k].in[i], plan.in[i]);
    look(chain.links[k].out, plan.out);
  }
  if (bytes <= kCached) chain.far.clear();
}

void Builder::emit_chain(std::vector<uint32_t> steps) {
  auto chain = std::make_unique<Program::Chain>();
  const Plan* const fold = plans_[steps.back()].folds >= 0 ? &plans_[steps.back()] : nullptr;
  const Step& last_step = t_.steps[steps.back()];
  const uint32_t head = steps[0];
  if (fold) steps.pop_back();
  chain->ends = ends_[head];
  chain->n = t_.geometry(plans_[head].row ? plans_[head].in[0] : plans_[head].out).numel;
  if (const auto row = rows_.find(head); row != rows_.end()) chain->row = row->second;
  chain->length = chain->row ? std::min(chain->n, Program::rows_of_block(chain->row) * chain->row)
                  : fold     ? Elements::kPiece
                             : Program::kBlock;
  for (const uint32_t i : steps)
    if (Plan& plan = plans_[i]; !plan.row && t_.geometry(plan.out).numel == chain->n)
      plan.meaning = meaning(plan);
  take_what_is_made(steps);
  order_links(steps);
  std::map<int32_t, size_t> last;
  int64_t widest = 1;
  for (size_t k = 0; k < steps.size(); ++k) {
    const Plan& plan = plans_[steps[k]];
    const auto meet = [&](const Place& p) {
      if (p.slot < 0) return;
      widest = std::max(widest, itemsize(t_.geometry(p).dtype));
      last[p.slot] = k;
    };
    for (const Place& p : plan.in) meet(p);
    meet(plan.out);
    meet(plan.also);
    if (slot(plan.out.slot).kind == Slot::Kind::Outside &&
        std::ranges::find(p_.chained_, plan.out.slot) == p_.chained_.end())
      p_.chained_.push_back(plan.out.slot);
    Program::Chain::Link& link = chain->links.emplace_back();
    link.name = plan.name;
    if (plan.row) {
      const BoundLaunch& bound = bind(plan.launches->calls[0], t_.steps[steps[k]], plan);
      link.routine = bound.routine();
      link.at = bound.arguments();
      link.results = plan.launches->calls[0].tensors.size() - 1;
    } else {
      link.loop = plan.call.loop;
      link.parameters = plan.call.parameters;
    }
    p_.work_ += chain->n;
  }
  if (fold) last[fold->folds] = steps.size();
  for (const DType type : {DType::Float32, DType::Float64})
    chain->ones[type == DType::Float64] = {static_cast<char*>(const_cast<void*>(one_of(type))),
                                           itemsize(type), -1, false, true};
  join_links(*chain, steps, last);
  Layout layout(*this, *chain, steps, last);
  layout.run();
  if (fold) {
    const BoundLaunch& bound = bind(fold->launches->calls[0], last_step, *fold);
    chain->folded = {bound.routine(), bound.arguments(), last_step.op->name, {}};
    for (const uint32_t i : steps)
      if (plans_[i].out.slot == fold->folds) layout.operand(chain->folded.of, plans_[i].out, false);
  }
  if (!chain->row) fetch_far(*chain, steps);
  // What lies in a cache is there for longer blocks, too.
  if (!chain->row && !fold && chain->far.empty()) chain->length *= chain->buffers ? 2 : 4;
  // What is filled with a number is written in whole vectors.
  chain->buffer_bytes = (chain->length * widest + 127) & ~int64_t{63};
  p_.chains_.push_back(std::move(chain));
  append(Program::Kind::Chain, p_.chains_.size() - 1);
}

}  // namespace adjoint::replay
