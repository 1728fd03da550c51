// The order in which steps run: loops over the same many elements are drawn together to chains, and few
// elements' cheap loops that follow each other to passes.
#include <algorithm>
#include <optional>

#include "for_size.h"
#include "replay/builder.h"

namespace adjoint::replay {

namespace {

/// How many other steps a link of a chain may be drawn past.
constexpr size_t kMostPassed = 256;
/// A loop by itself is as quick as so many ways through the steps of a pass.
constexpr int64_t kMostTimes = 2;

}  // namespace

/// Loops that may run a few elements at a time, one after the other: where memory is written, each of them
/// means the same element of it.
class Builder::Alike {
 public:
  bool writes(int32_t slot) const { return writes_.contains(slot); }
  /// Whether one more fits, which is then one of them.
  bool add(const Plan& plan) {
    bool good = !other(reads_, plan.out) && !other(writes_, plan.out);
    for (size_t k = 0; k < plan.in.size(); ++k)
      if (const Place& p = plan.in[k]; p.slot >= 0) {
        const bool number = plan.call.constant >> k & 1 || plan.spread[k].length;
        good = good && !(number ? writes_.contains(p.slot) || p.slot == plan.out.slot : other(writes_, p)) &&
               (p.slot != plan.out.slot || p.offset == plan.out.offset);
      }
    if (!good) return false;
    for (size_t k = 0; k < plan.in.size(); ++k)
      if (plan.in[k].slot >= 0) {
        // What is read at two places is written at none.
        const auto [at, is_new] = reads_.try_emplace(plan.in[k].slot, plan.in[k].offset);
        if (!is_new && at->second != plan.in[k].offset) at->second = -1;
        if (plan.call.constant >> k & 1 || plan.spread[k].length) at->second = -1;
      }
    writes_[plan.out.slot] = plan.out.offset;
    return true;
  }

 private:
  using Places = std::map<int32_t, int64_t>;  // the offset at which each slot is met
  static bool other(const Places& places, const Place& p) {
    const auto at = places.find(p.slot);
    return at != places.end() && at->second != p.offset;
  }
  Places reads_, writes_;
};

bool Builder::can_be_chained(const Plan& plan) const {
  return plan.live && !plan.once && (plan.how == How::Loop || plan.spreads) &&
         t_.geometry(plan.out).numel >= kLeastChained &&
         (slot(plan.out.slot).kind == Slot::Kind::Made ||
          (slot(plan.out.slot).kind == Slot::Kind::Outside && plan.inplace));
}

void Builder::schedule() {
  std::vector<bool> done(plans_.size());
  for (size_t i = 0; i < plans_.size(); ++i) {
    if (done[i] || !plans_[i].live || plans_[i].once) continue;
    schedule_.push_back({static_cast<uint32_t>(i)});
    if (!can_be_chained(plans_[i])) continue;
    // Others over as many elements are drawn forward, past what has nothing to do with them.
    std::vector<bool> read(t_.slots.size()), written(t_.slots.size());
    size_t passed = 0;
    std::optional<uint32_t> fold;
    Alike alike;
    if (!alike.add(plans_[i])) continue;
    for (size_t j = i + 1; j < plans_.size() && passed < kMostPassed; ++j) {
      const Plan& plan = plans_[j];
      if (done[j] || !plan.live || plan.once || plan.how == How::Nothing) continue;
      bool free = can_be_chained(plan) && t_.geometry(plan.out).numel == t_.geometry(plans_[i].out).numel;
      const auto out = static_cast<size_t>(plan.out.slot);
      if (free) free = !read[out] && !written[out];
      for (const Place& p : plan.in) free = free && (p.slot < 0 || !written[static_cast<size_t>(p.slot)]);
      if (free && alike.add(plan)) {
        schedule_.back().push_back(static_cast<uint32_t>(j));
        done[j] = true;
        continue;
      }
      const Step& s = t_.steps[j];
      // Of the reductions over what the chain makes, one asks for its blocks. It stands last.
      if (plan.folds >= 0 && !fold && alike.writes(plan.folds) && !written[static_cast<size_t>(plan.folds)] &&
          plan.folded == t_.geometry(plans_[i].out).numel) {
        fold = static_cast<uint32_t>(j);
        done[j] = true;
      }
      ++passed;
      each_place(s, [&](const Place& p, bool writes) {
        const bool made = t_.gives(s, p.slot);
        (writes || made ? written : read)[static_cast<size_t>(p.slot)] = true;
        if (writes) read[static_cast<size_t>(p.slot)] = true;
      });
    }
    if (fold) schedule_.back().push_back(*fold);
    ends_[static_cast<uint32_t>(i)] = why_it_ends(schedule_.back(), alike, passed);
  }
  join_small();
}

/// What takes something that a chain makes and is none of its links, and why, for people.
std::string Builder::why_it_ends(const std::vector<uint32_t>& chain, const Alike& alike,
                                 size_t passed) const {
  const int64_t n = t_.geometry(plans_[chain[0]].out).numel;
  for (size_t j = chain[0] + 1; j < plans_.size(); ++j) {
    const Plan& plan = plans_[j];
    if (!plan.live || plan.once || std::ranges::find(chain, j) != chain.end()) continue;
    bool taken = false;
    each_place(t_.steps[j], [&](const Place& p, bool) { taken |= alike.writes(p.slot); });
    if (!taken) continue;
    if (plan.how == How::Guard) return "a decision reads what it makes";
    return text(plan.name, plan.how == How::Walk   ? " takes operands that are broadcast or lie otherwise"
                           : plan.how != How::Loop ? " is no loop over elements"
                           : t_.geometry(plan.out).numel != n
                               ? text(" is over ", t_.geometry(plan.out).numel, " elements")
                           : passed >= kMostPassed ? std::string(" lies more than 256 steps away")
                                                   : std::string(" waits for what is made in between"));
  }
  return "nothing else takes what it makes";
}

/// How many operands of a cheap step are what was just made; none where it cannot be taken from registers.
int Builder::takes(const Plan& plan, const Place& made) {
  const auto is_made = [&](int operand) {
    const Place& p = plan.in[static_cast<size_t>(operand)];
    return p.slot == made.slot && p.offset == made.offset;
  };
  const LoopMeaning& m = plan.meaning;
  const bool first = is_made(m.first), second = m.second >= 0 && is_made(m.second);
  return first || m.backward != Cheap::None ? first + second : 0;
}

/// Cheap loops over few elements, of which each takes what the one before it made, become one.
void Builder::join_small() {
  std::map<int32_t, int> uses;  // as result and as operand
  for (const auto& steps : schedule_)
    for (const uint32_t i : steps) each_place(t_.steps[i], [&](const Place& p, bool) { ++uses[p.slot]; });
  const auto is_cheap = [&](Plan& plan) {
    const int64_t n = t_.geometry(plan.out).numel;
    if (plan.how != How::Loop || n >= kLeastChained) return false;
    for (size_t k = 0; k < plan.in.size(); ++k)
      if (n > 1 && plan.call.constant >> k & 1 && !(n <= kRepeated && is_known(plan.in[k]))) return false;
    plan.meaning = meaning(plan);
    return plan.meaning.forward != Cheap::None && pass_of(t_.geometry(plan.out).dtype).times(n) <= kMostTimes;
  };
  std::vector<std::vector<uint32_t>> joined;
  Alike alike;
  const Plan* before = nullptr;  // the last one, if it is cheap
  for (auto& steps : schedule_) {
    Plan& plan = plans_[steps[0]];
    const bool cheap = steps.size() == 1 && is_cheap(plan);
    const int taken = cheap && before && t_.geometry(before->out).numel == t_.geometry(plan.out).numel &&
                              t_.geometry(before->out).dtype == t_.geometry(plan.out).dtype
                          ? takes(plan, before->out)
                          : 0;
    if (taken && alike.add(plan)) {
      const int32_t s = before->out.slot;
      if (slot(s).kind == Slot::Kind::Made && !memory(s).escapes && uses[s] == taken + 1 &&
          (taken == 1 || plan.meaning.squares()))
        in_registers_.insert(s);
      joined.back().push_back(steps[0]);
    } else {
      alike = Alike();
      if (cheap) alike.add(plan);
      joined.push_back(std::move(steps));
    }
    before = cheap ? &plan : nullptr;
  }
  schedule_ = std::move(joined);
}

}  // namespace adjoint::replay
