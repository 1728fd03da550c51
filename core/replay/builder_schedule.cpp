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

/// Steps that may run a few elements at a time, one after the other: where memory is written, each of them
/// means the same element of it, or the same row.
class Builder::Alike {
 public:
  explicit Alike(size_t slots) : reads_(slots), writes_(slots) {}
  /// Begin with none.
  void clear() { ++round_; }
  bool writes(int32_t slot) const { return find(writes_, slot); }
  /// Whether one more fits, which is then one of them. `row`: the length of rows, if it is known.
  bool add(const Plan& plan, Part part = Part::Whole, int64_t row = 0) {
    const auto lies_of = [&](size_t k, const Lies* written) {
      const Place& p = plan.in[k];
      // A number that a reduction or a loop has given for each row may be spread over the row.
      const bool spread = plan.spread[k].length, number = plan.call.constant >> k & 1,
                 given = spread && plan.spread[k].each && plan.spread[k].length == row && written &&
                         *written == Lies{p.offset, true};
      return std::pair(Lies{spread || number ? kAnywhere : p.offset, part == Part::Numbers}, given);
    };
    const auto written_at = [&](const Place& p) { return Lies{p.offset, part != Part::Whole}; };
    for (size_t k = 0; k < plan.in.size(); ++k) {
      const Place& p = plan.in[k];
      if (p.slot < 0) continue;
      const Lies* const written = find(writes_, p.slot);
      const auto [lies, given] = lies_of(k, written);
      if (written && !given && !(*written == lies)) return false;
      for (const Place* out : {&plan.out, &plan.also})
        if (out->slot == p.slot && !(written_at(*out) == lies)) return false;
    }
    for (const Place* out : {&plan.out, &plan.also})
      if (out->slot >= 0)
        for (const auto* all : {&reads_, &writes_})
          if (const Lies* const at = find(*all, out->slot); at && !(*at == written_at(*out))) return false;
    for (size_t k = 0; k < plan.in.size(); ++k) {
      const Place& p = plan.in[k];
      if (p.slot < 0) continue;
      const Lies lies = lies_of(k, nullptr).first;
      // What is read at two places is written at none.
      const Lies* const at = find(reads_, p.slot);
      reads_[static_cast<size_t>(p.slot)] = {round_, !at || *at == lies ? lies : Lies{kAnywhere, false}};
    }
    for (const Place* out : {&plan.out, &plan.also})
      if (out->slot >= 0) writes_[static_cast<size_t>(out->slot)] = {round_, written_at(*out)};
    return true;
  }

 private:
  static constexpr int64_t kAnywhere = -1;
  struct Lies {
    int64_t offset;  // at which a slot is met
    bool by_row;     // a number for each row
    bool operator==(const Lies&) const = default;
  };
  /// Of each slot: how it lies, if that was said in this round.
  struct Met {
    uint32_t round = 0;
    Lies lies{};
  };
  const Lies* find(const std::vector<Met>& all, int32_t slot) const {
    const Met& m = all[static_cast<size_t>(slot)];
    return m.round == round_ ? &m.lies : nullptr;
  }
  std::vector<Met> reads_, writes_;
  uint32_t round_ = 1;
};

bool Builder::can_be_chained(const Plan& plan) const {
  return plan.live && !plan.once && (plan.how == How::Loop || plan.spreads) &&
         t_.geometry(plan.out).numel >= kLeastChained &&
         (slot(plan.out.slot).kind == Slot::Kind::Made ||
          (slot(plan.out.slot).kind == Slot::Kind::Outside && plan.inplace));
}

/// A chain that is being drawn together.
struct Builder::Drawn {
  int64_t n, row;  // elements; of a row, or 0
  Alike& alike;
  std::vector<uint32_t> steps{};
  size_t whole = 0;  // links over all elements
  std::optional<uint32_t> fold{};
};

/// As what a step could be a link of a chain, as far as lengths go.
Builder::Part Builder::part_of(const Drawn& chain, Plan& plan) {
  const auto numel = [&](const Place& p) { return t_.geometry(p).numel; };
  if (can_be_chained(plan) && numel(plan.out) == chain.n)
    return !chain.row || fits_rows(plan, chain.row) ? Part::Whole : Part::None;
  if (plan.row && numel(plan.in[0]) == chain.n) {
    if (chain.row) return plan.row == chain.row ? Part::Fold : Part::None;
    const bool all_fit =
        std::ranges::all_of(chain.steps, [&](uint32_t i) { return fits_rows(plans_[i], plan.row); });
    return all_fit && !chain.fold ? Part::Fold : Part::None;
  }
  const bool numbers = chain.row && plan.how == How::Loop && numel(plan.out) == chain.n / chain.row &&
                       (plan.inplace || slot(plan.out.slot).kind == Slot::Kind::Made);
  return numbers && is_even(plan) ? Part::Numbers : Part::None;
}

/// Others over as many elements are drawn forward, past what has nothing to do with them; with reductions of
/// their rows, and loops over what these give.
void Builder::draw(Drawn& chain, size_t i, std::vector<char>& done) {
  std::vector<char> read(t_.slots.size()), written(t_.slots.size());
  size_t passed = 0;
  for (size_t j = i; j < plans_.size() && passed < kMostPassed; ++j) {
    Plan& plan = plans_[j];
    if ((done[j] && j != i) || !plan.live || plan.once || plan.how == How::Nothing) continue;
    const Part part = part_of(chain, plan);
    bool free = part != Part::None;
    for (const Place* p : {&plan.out, &plan.also})
      if (const auto s = static_cast<size_t>(p->slot); free && p->slot >= 0) free = !read[s] && !written[s];
    for (const Place& p : plan.in) free = free && (p.slot < 0 || !written[static_cast<size_t>(p.slot)]);
    if (free && chain.alike.add(plan, part, chain.row ? chain.row : plan.row)) {
      chain.steps.push_back(static_cast<uint32_t>(j));
      chain.whole += part == Part::Whole;
      if (part == Part::Fold) chain.row = plan.row;
      done[j] = true;
      continue;
    }
    if (j == i) return;
    // Of the reductions over what the chain makes, one asks for its blocks. It stands last.
    if (plan.folds >= 0 && !chain.row && !chain.fold && chain.alike.writes(plan.folds) &&
        !written[static_cast<size_t>(plan.folds)] && plan.folded == chain.n) {
      chain.fold = static_cast<uint32_t>(j);
      done[j] = true;
    }
    ++passed;
    for (const Touch& t : touches(j)) {
      (t.written || t.made ? written : read)[static_cast<size_t>(t.slot)] = true;
      if (t.written) read[static_cast<size_t>(t.slot)] = true;
    }
  }
  if (chain.fold) chain.steps.push_back(*chain.fold);
  if (chain.row && !chain.whole) {  // reductions alone
    for (const uint32_t k : chain.steps) done[k] = k == i;
    return chain.steps.clear();
  }
  ends_[static_cast<uint32_t>(i)] = why_it_ends(chain, passed);
  if (chain.row) rows_[static_cast<uint32_t>(i)] = chain.row;
}

void Builder::schedule() {
  std::vector<char> done(plans_.size());
  schedule_.reserve(plans_.size());
  Alike alike(t_.slots.size());
  for (size_t i = 0; i < plans_.size(); ++i) {
    const Plan& plan = plans_[i];
    if (done[i] || !plan.live || plan.once) continue;
    const auto alone = static_cast<uint32_t>(i);
    if (can_be_chained(plan) || plan.row) {
      alike.clear();
      Drawn chain{t_.geometry(plan.row ? plan.in[0] : plan.out).numel, plan.row, alike};
      draw(chain, i, done);
      if (!chain.steps.empty()) {
        schedule_.add(chain.steps);
        continue;
      }
    }
    schedule_.add({&alone, 1});
  }
  join_small(alike);
}

/// What takes something that a chain makes and is none of its links, and why, for people.
std::string Builder::why_it_ends(const Drawn& chain, size_t passed) const {
  for (size_t j = chain.steps[0] + 1; j < plans_.size(); ++j) {
    const Plan& plan = plans_[j];
    if (!plan.live || plan.once || std::ranges::find(chain.steps, j) != chain.steps.end()) continue;
    bool taken = false;
    for (const Touch& t : touches(j)) taken = taken || chain.alike.writes(t.slot);
    if (!taken) continue;
    if (plan.how == How::Guard) return "a decision reads what it makes";
    return text(
        plan.name,
        plan.row && plan.row != chain.row ? text(" takes rows of ", plan.row)
        : plan.how == How::Walk           ? std::string(" takes operands that are broadcast or lie otherwise")
        : plan.how != How::Loop
            ? std::string(plan.row ? " waits for what is made in between" : " is no loop over elements")
        : t_.geometry(plan.out).numel != chain.n ? text(" is over ", t_.geometry(plan.out).numel, " elements")
        : passed >= kMostPassed                  ? std::string(" lies more than 256 steps away")
                                                 : std::string(" waits for what is made in between"));
  }
  return "nothing else takes what it makes";
}

/// How a cheap loop computes from what was just made, which is in registers; null where it cannot.
const LoopMeaning::Way* Builder::way_from(const Plan& plan, const Place& made) {
  for (const LoopMeaning::Way& way : plan.meaning.ways) {
    if (!way.count) break;
    const Place& p = plan.in[static_cast<size_t>(way.steps[0].operand)];
    if (p.slot == made.slot && p.offset == made.offset) return &way;
  }
  return nullptr;
}

/// How many operands of a cheap loop are what was just made; none where it cannot be taken from registers.
int Builder::takes(const Plan& plan, const Place& made) {
  if (!way_from(plan, made)) return 0;
  return static_cast<int>(std::ranges::count_if(
      plan.in, [&](const Place& p) { return p.slot == made.slot && p.offset == made.offset; }));
}

/// Cheap loops over few elements, of which each takes what the one before it made, become one.
void Builder::join_small(Alike& alike) {
  std::vector<int32_t> uses(t_.slots.size());  // as result and as operand
  for (size_t at = 0; at < schedule_.size(); ++at)
    for (const uint32_t i : schedule_[at])
      for (const Touch& t : touches(i)) ++uses[static_cast<size_t>(t.slot)];
  const auto is_cheap = [&](Plan& plan) {
    const int64_t n = t_.geometry(plan.out).numel;
    if (plan.how != How::Loop || n >= kLeastChained) return false;
    plan.meaning = meaning(plan);
    const Pass& pass = pass_of(t_.geometry(plan.out).dtype);
    return plan.meaning && (n <= kMostTimes || (n >= pass.width && pass.times(n) <= kMostTimes));
  };
  in_registers_.resize(t_.slots.size());
  Schedule joined;
  joined.reserve(plans_.size());
  const Plan* before = nullptr;  // the last one, if it is cheap
  for (size_t at = 0; at < schedule_.size(); ++at) {
    const auto steps = schedule_[at];
    Plan& plan = plans_[steps[0]];
    const bool cheap = steps.size() == 1 && is_cheap(plan);
    const int taken = cheap && before && t_.geometry(before->out).numel == t_.geometry(plan.out).numel &&
                              t_.geometry(before->out).dtype == t_.geometry(plan.out).dtype
                          ? takes(plan, before->out)
                          : 0;
    if (taken && alike.add(plan)) {
      const int32_t s = before->out.slot;
      if (slot(s).kind == Slot::Kind::Made && !memory(s).escapes &&
          uses[static_cast<size_t>(s)] == taken + 1 && (taken == 1 || way_from(plan, before->out)->squares()))
        in_registers_[static_cast<size_t>(s)] = true;
      joined.join(steps[0]);
    } else {
      alike.clear();
      if (cheap) alike.add(plan);
      joined.add(steps);
    }
    before = cheap ? &plan : nullptr;
  }
  schedule_ = std::move(joined);
}

}  // namespace adjoint::replay
