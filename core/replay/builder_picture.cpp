// A program as a picture: its instructions as nodes, and its memory. Start reading at `Builder::show`.
#include <algorithm>
#include <map>
#include <set>

#include "for_size.h"
#include "replay/builder.h"
#include "tensor/number.h"

namespace adjoint::replay {

namespace {

/// The most of what counts at one time: bytes from one place in the schedule to another.
class Held {
 public:
  explicit Held(size_t places) : change_(places + 2) {}
  void add(int64_t first, int64_t last, size_t bytes) {
    if (last < first) return;
    change_[static_cast<size_t>(first)] += static_cast<int64_t>(bytes);
    change_[static_cast<size_t>(last + 1)] -= static_cast<int64_t>(bytes);
  }
  size_t most() const {
    int64_t now = 0, most = 0;
    for (const int64_t c : change_) most = std::max(most, now += c);
    return static_cast<size_t>(most);
  }

 private:
  std::vector<int64_t> change_;
};

}  // namespace

size_t held_by_eager(const Trace& trace, const Program::Ends& ends) {
  const auto end = static_cast<int64_t>(trace.steps.size());
  std::vector<std::pair<int64_t, int64_t>> times(trace.slots.size(), {-1, -1});
  for (int64_t i = 0; i < end; ++i)
    trace.each_place(trace.steps[static_cast<size_t>(i)], [&](const Place& p, bool) {
      auto& [first, last] = times[static_cast<size_t>(p.slot)];
      if (first < 0) first = i;
      last = i;
    });
  for (const Place& p : ends.outputs)
    if (p.slot >= 0) times[static_cast<size_t>(p.slot)].second = end;
  Held held(trace.steps.size());
  for (size_t s = 0; s < trace.slots.size(); ++s)
    if (const Slot& slot = trace.slots[s];
        times[s].second >= 0 && (slot.kind == Slot::Kind::Made || slot.kind == Slot::Kind::Given))
      held.add(std::max<int64_t>(times[s].first, 0), times[s].second, slot.nbytes);
  return held.most();
}

std::string Builder::name_of(std::span<const uint32_t> steps) const {
  const Plan& first = plans_[steps[0]];
  const Step& s = t_.steps[steps[0]];
  if (steps.size() > 1) {
    std::string all;
    for (size_t k = 0; k < steps.size(); ++k)
      all += text(k == 0 ? "" : k % 6 ? " " : "\n", t_.steps[steps[k]].op->name);
    const bool pass = is_pass(steps);
    const auto row = rows_.find(steps[0]);
    const int64_t n = t_.geometry(first.row ? first.in[0] : first.out).numel;
    const auto ends = ends_.find(steps[0]);
    return text(pass ? "loop" : "blocks", " of ", n,
                row == rows_.end() ? std::string() : text(" in rows of ", row->second), "\n", all,
                ends == ends_.end() ? std::string() : "\n" + ends->second);
  }
  switch (first.how) {
    case How::Guard:
      return reading_of_step_[steps[0]] >= 0 ? "an element becomes a number" : "a number must be what it was";
    case How::Loop:
    case How::Walk:
      return text("loop ", s.op->name, " of ", t_.geometry(first.out).numel,
                  first.how == How::Walk ? ", strided" : "");
    case How::Move:
    case How::Copy:
      return "copy";
    case How::Launch:
      return text("launch ", s.op->name);
    case How::Nothing:
    case How::Row:
      break;
  }
  return text("row ", s.op->name);
}

void Builder::show(Picture& picture) const {
  using Kind = Picture::Kind;
  std::vector<Picture::Node>& nodes = picture.nodes;
  const auto add = [&](Kind kind, std::string text, int32_t number = -1) {
    nodes.push_back({kind, std::move(text), number});
    return static_cast<uint32_t>(nodes.size() - 1);
  };
  std::vector<int64_t> from(t_.slots.size(), -1);  // the node that wrote a slot last
  std::map<int32_t, uint32_t> inputs, readings;
  std::optional<uint32_t> given;
  const auto number = [&](uint32_t n) {
    const int32_t r = n < reading_.size() ? reading_[n] : -1;
    if (const auto at = readings.find(r); at != readings.end()) return at->second;
    if (!given) given = add(Kind::Number, "numbers");
    return *given;
  };
  const auto source = [&](const Place& p) {
    const auto s = static_cast<size_t>(p.slot);
    if (from[s] >= 0) return static_cast<uint32_t>(from[s]);
    const Memory& m = p_.memory_[s];
    if (m.home == Home::Outside) {
      const auto at = std::ranges::find(p_.ends_.inputs, p);
      const auto k =
          at == p_.ends_.inputs.end() ? m.input : static_cast<int32_t>(at - p_.ends_.inputs.begin());
      const auto [node, is_new] = inputs.try_emplace(k, 0);
      if (is_new) node->second = add(Kind::Input, "", k);
      return node->second;
    }
    if (varies_[s])
      for (const Number& n : p_.ends_.numbers)
        if (n.slot == p.slot) return number(n.number);
    const Geometry& g = t_.geometry(p);
    const bool plain = g.numel == 1 && m.home == Home::Constant && is_known(p);
    from[s] = add(Kind::Constant, plain ? to_string(read_element(m.base + p.offset, g.dtype)) : "constant");
    return static_cast<uint32_t>(from[s]);
  };
  const auto take = [&](std::vector<std::pair<uint32_t, std::string>>& takes, uint32_t node,
                        std::string shape) {
    std::pair<uint32_t, std::string> one(node, std::move(shape));
    if (std::ranges::find(takes, one) == takes.end()) takes.push_back(std::move(one));
  };
  const auto shape = [&](const Place& p) { return to_string(t_.geometry(p).sizes.span()); };
  for (size_t at = 0; at < schedule_.size(); ++at) {
    const std::span<const uint32_t> steps = schedule_[at];
    if (plans_[steps[0]].how == How::Nothing) continue;
    std::vector<std::pair<uint32_t, std::string>> takes;
    std::set<int32_t> written;
    for (const uint32_t i : steps) {
      const Step& s = t_.steps[i];
      std::vector<int32_t> gives;
      t_.each_place(s, [&](const Place& p, bool writes) {
        const bool made = t_.gives(s, p.slot);
        if ((writes || !made) && !written.contains(p.slot)) take(takes, source(p), shape(p));
        if (writes || made) gives.push_back(p.slot);
      });
      written.insert(gives.begin(), gives.end());
      for (const Number& n : p_.ends_.numbers)
        if (n.slot < 0 && n.step == i) take(takes, number(n.number), "");
    }
    const Plan& plan = plans_[steps[0]];
    const bool blocks = steps.size() > 1 && !is_pass(steps);
    const uint32_t node = add(plan.how == How::Guard ? Kind::Decision
                              : blocks               ? Kind::Blocks
                                                     : Kind::Instruction,
                              name_of(steps));
    nodes[node].takes = std::move(takes);
    for (const int32_t s : written) from[static_cast<size_t>(s)] = node;
    if (plan.how == How::Guard && reading_of_step_[steps[0]] >= 0)
      readings[reading_of_step_[steps[0]]] = node;
  }
  for (size_t i = 0; i < p_.ends_.outputs.size(); ++i)
    if (const Place& p = p_.ends_.outputs[i]; p.slot >= 0) {
      const uint32_t of = source(p), node = add(Kind::Result, "", static_cast<int32_t>(i));
      take(nodes[node].takes, of, shape(p));
    }
  for (const int32_t s : p_.outside_)
    if (slot(s).writes && from[static_cast<size_t>(s)] >= 0) {
      const auto of = static_cast<uint32_t>(from[static_cast<size_t>(s)]);
      const int32_t k = p_.memory_[static_cast<size_t>(s)].input;
      const uint32_t node = add(Kind::Written, "", k);
      take(nodes[node].takes, of, shape(p_.ends_.inputs[static_cast<size_t>(k)]));
    }

  const auto end = static_cast<int64_t>(schedule_.size());
  Held held(schedule_.size());
  for (size_t s = 0; s < t_.slots.size(); ++s) {
    const Memory& m = p_.memory_[s];
    if (m.home != Home::Own && m.home != Home::Fresh && m.home != Home::Kept) continue;
    const bool at_once =
        m.home == Home::Fresh && std::ranges::find(p_.fresh_, static_cast<int32_t>(s)) != p_.fresh_.end();
    const int64_t first = at_once ? 0 : std::max<int64_t>(m.first, 0) + (m.takes >= 0);
    const bool stays = m.escapes || (m.home == Home::Kept && t_.slots[s].nbytes < kInTime);
    held.add(first, stays ? end : m.last, t_.slots[s].nbytes);
    if (m.escapes) picture.left += t_.slots[s].nbytes;
  }
  picture.peak = p_.arena_bytes_ + held.most();
}

}  // namespace adjoint::replay
