#include "replay/builder.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "dispatch/declared.h"
#include "for_size.h"

namespace adjoint::replay {

namespace {

/// What depends on nothing is computed once, up to this size.
constexpr size_t kMostConstant = size_t{1} << 20;

/// From this size on what lives for a part of the call has memory of its own for that time.
constexpr size_t kOwn = size_t{1} << 15;

}  // namespace

void Builder::build(Picture* picture) {
  if (picture) picture->eager = held_by_eager(t_, p_.ends_);
  p_.memory_.resize(t_.slots.size());
  plans_.resize(t_.steps.size());
  find_numbers();
  find_inputs_and_outputs();
  merge_equal();
  find_touches();
  plan_steps();
  drop_what_nobody_needs();
  find_constants();
  plan_launches();
  drop_what_nobody_needs();  // of what is now known not to fail
  schedule();
  find_lifetimes();
  lay_out_arena();
  find_what_to_undo();
  find_drops();
  // Instructions are pointed into.
  std::array<size_t, 8> count{};
  for (size_t at = 0; at < schedule_.size(); ++at)
    if (schedule_[at].size() == 1) ++count[static_cast<size_t>(plans_[schedule_[at][0]].how)];
  for (const Plan& plan : plans_)
    if (plan.once) ++count[static_cast<size_t>(plan.how)];
  p_.loops_.reserve(count[static_cast<size_t>(How::Loop)]);
  p_.moves_.reserve(count[static_cast<size_t>(How::Move)] +
                    static_cast<size_t>(std::ranges::count(t_.slots, Slot::Kind::Given, &Slot::kind)));
  p_.guards_.reserve(count[static_cast<size_t>(How::Guard)]);
  compute_constants();
  for (size_t s = 0; s < t_.slots.size(); ++s)
    if (t_.slots[s].kind == Slot::Kind::Given && (memory(static_cast<int32_t>(s)).home == Home::Arena ||
                                                  memory(static_cast<int32_t>(s)).home == Home::Fresh)) {
      // Elements that the program gives, and then writes or returns.
      const size_t at = p_.moves_.size();
      p_.moves_.push_back({nullptr, t_.bytes.data() + t_.slots[s].bytes, t_.slots[s].nbytes});
      point(&p_.moves_[at].to, {static_cast<int32_t>(s), 0, 0});
      append(Program::Kind::Move, at);
    }
  for (position_ = 0; position_ < schedule_.size(); ++position_) emit_scheduled();
  emit_targets();
  // Walks were planned with tensors that no row takes.
  std::vector<Program::Pointer<TensorImpl>> taken;
  for (Memory& m : p_.memory_) {
    for (int32_t k = std::exchange(m.tensors, -1); k >= 0;) {
      const auto t = p_.tensors_[static_cast<size_t>(k)];
      k = t.next;
      if (t.at->refcount.load(std::memory_order_relaxed) == 1) continue;
      taken.push_back({t.at, t.offset, m.tensors});
      m.tensors = static_cast<int32_t>(taken.size() - 1);
    }
    if (m.tensors < 0) m.frame.reset();
  }
  p_.tensors_ = std::move(taken);
  for (const Plan& plan : plans_) {
    p_.dropped_ += !plan.live;
    p_.constants_ += plan.once;
  }
  if (picture) show(*picture);
  // Calls are instructions now.
  p_.operations_ = t_.steps.size();
  std::vector<Step>().swap(t_.steps);
  std::vector<Argument>().swap(t_.arguments);
  std::vector<Value>().swap(t_.plains);
  // Of places those stay that rows give.
  std::vector<Place> given;
  for (const auto& row : p_.rows_) {
    const auto places = t_.at(row->results);
    row->results = {static_cast<uint32_t>(given.size()), static_cast<uint32_t>(given.size() + places.size())};
    given.insert(given.end(), places.begin(), places.end());
  }
  t_.places = std::move(given);
  // What nothing points into.
  const auto shrink = [](auto&... lists) { (lists.shrink_to_fit(), ...); };
  shrink(p_.pointers_, p_.tensors_, p_.runs_, p_.launches_, p_.products_, p_.bound_, p_.supplies_,
         p_.targets_);
}

void Builder::find_inputs_and_outputs() {
  for (size_t k = 0; k < p_.ends_.inputs.size(); ++k) {
    const Place& p = p_.ends_.inputs[k];
    if (p.slot < 0 || slot(p.slot).kind != Slot::Kind::Outside) continue;
    Memory& m = memory(p.slot);
    if (m.input >= 0) continue;
    m.home = Home::Outside;
    m.input = static_cast<int32_t>(k);
    m.offset = p.offset;
    p_.outside_.push_back(p.slot);
  }
  for (size_t i = 0; i < p_.ends_.outputs.size(); ++i) {
    const Place& p = p_.ends_.outputs[i];
    int32_t input = -1;
    if (p.slot < 0) {
      p_.output_is_input_.push_back(-1);
      continue;
    }
    if (slot(p.slot).kind == Slot::Kind::Outside) {
      if (i < p_.ends_.relations.size())
        input = p_.ends_.relations[i].same;
      else
        for (size_t k = 0; k < p_.ends_.inputs.size() && input < 0; ++k)
          if (p_.ends_.inputs[k] == p) input = static_cast<int32_t>(k);
      if (input < 0 && memory(p.slot).input < 0)
        fail("a result is a view of a tensor that is reached nowhere");
    } else {
      memory(p.slot).escapes = true;
    }
    if (slot(p.slot).kind == Slot::Kind::Number) fail("a result is a bare number");
    p_.output_is_input_.push_back(input);
  }
  for (size_t s = 0; s < t_.slots.size(); ++s) {
    const Slot& slot = t_.slots[s];
    Memory& m = p_.memory_[s];
    if (slot.kind == Slot::Kind::Number || (slot.kind == Slot::Kind::Given && !slot.writes && !m.escapes))
      m.base = t_.bytes.data() + slot.bytes;
  }
}

Tensor Builder::tensor(const Place& p) {
  if (p.slot < 0) return {};
  first_tensor_.resize(t_.slots.size(), -1);
  int32_t& first = first_tensor_[static_cast<size_t>(p.slot)];
  for (int32_t i = first; i >= 0; i = tensors_[static_cast<size_t>(i)].next)
    if (const Known& k = tensors_[static_cast<size_t>(i)]; k.geometry == p.geometry && k.offset == p.offset)
      return k.tensor;
  Memory& m = memory(p.slot);
  const Geometry& g = t_.geometry(p);
  if (!m.frame) {
    m.frame = external_storage(nullptr, slot(p.slot).nbytes, [](void*) {}, nullptr);
    m.frame->data = m.base;
  }
  Tensor t = over(m.frame, g.dtype, g.sizes.span(), g.strides.span(), 0);
  t->data = m.base + p.offset;
  if (slot(p.slot).kind == Slot::Kind::Number) t->flags |= TensorImpl::kWrapped;
  p_.tensors_.push_back({t.get(), p.offset, m.tensors});
  m.tensors = static_cast<int32_t>(p_.tensors_.size() - 1);
  tensors_.push_back({p.geometry, first, p.offset, t});
  first = static_cast<int32_t>(tensors_.size() - 1);
  return t;
}

/// Without elements: for questions of types and shapes.
const Tensor& Builder::stand_in(const Place& p) {
  const size_t n = t_.geometries.size();
  if (stand_ins_.size() < 2 * n) stand_ins_.resize(2 * n);
  const bool number = slot(p.slot).kind == Slot::Kind::Number;
  Tensor& t = stand_ins_[2 * p.geometry + number];
  if (t.defined()) return t;
  const Geometry& g = t_.geometry(p);
  t = over(external_storage(nullptr, 0, [](void*) {}, nullptr), g.dtype, g.sizes.span(), g.strides.span(), 0);
  if (number) t->flags |= TensorImpl::kWrapped;
  return t;
}

void Builder::find_touches() {
  first_touch_.reserve(t_.steps.size() + 1);
  touches_.reserve(t_.places.size());
  for (const Step& s : t_.steps) {
    first_touch_.push_back(static_cast<uint32_t>(touches_.size()));
    t_.each_place(s, [&](const Place& p, bool written) {
      touches_.push_back({p.slot, p.geometry, p.offset, written, t_.gives(s, p.slot)});
    });
  }
  first_touch_.push_back(static_cast<uint32_t>(touches_.size()));
}

void Builder::drop_what_nobody_needs() {
  std::vector<char> needed(t_.slots.size());
  for (size_t s = 0; s < needed.size(); ++s)
    needed[s] = t_.slots[s].kind == Slot::Kind::Outside || p_.memory_[s].escapes;
  for (size_t i = plans_.size(); i-- > 0;) {
    Plan& plan = plans_[i];
    // Rows may fail, which the program would notice.
    plan.live = may_fail(plan, t_.steps[i]);
    const auto all = touches(i);
    for (const Touch& t : all)
      plan.live = plan.live || ((t.written || t.made) && needed[static_cast<size_t>(t.slot)]);
    if (plan.live && plan.how != How::Nothing)
      for (const Touch& t : all) needed[static_cast<size_t>(t.slot)] = true;
  }
}

void Builder::find_constants() {
  std::vector<char> constant(t_.slots.size());
  for (size_t s = 0; s < constant.size(); ++s) {
    const Slot& slot = t_.slots[s];
    constant[s] = !varies_[s] && (slot.kind == Slot::Kind::Number ||
                                  (slot.kind == Slot::Kind::Given && !slot.writes && !p_.memory_[s].escapes));
  }
  for (size_t i = 0; i < plans_.size(); ++i) {
    Plan& plan = plans_[i];
    const Step& s = t_.steps[i];
    if (!plan.live || plan.how == How::Guard || plan.how == How::Nothing || s.op->draws ||
        of_program(*s.op) || plan.inplace || steps_that_take_[i])
      continue;
    bool once = s.results.size() > 0;
    // Results stand last.
    const auto all = touches(i);
    for (const Touch& t : all.first(all.size() - std::min<size_t>(all.size(), s.results.size())))
      once = once && !t.written && constant[static_cast<size_t>(t.slot)];
    for (const Place& p : t_.at(s.results))
      once = once && p.slot >= 0 && slot(p.slot).kind == Slot::Kind::Made && !slot(p.slot).writes &&
             !memory(p.slot).escapes && slot(p.slot).nbytes <= kMostConstant;
    plan.once = once;
    if (once)
      for (const Place& p : t_.at(s.results)) constant[static_cast<size_t>(p.slot)] = true;
  }
}

void Builder::find_lifetimes() {
  const auto runs = [&](size_t i, int32_t position) {
    const Plan& plan = plans_[i];
    for (const int32_t aside : plan.aside) {
      Memory& m = memory(aside);
      m.first = m.last = position;
      m.home = slot(aside).nbytes >= kOwn ? Home::Own : Home::Arena;
    }
    for (const Touch& t : touches(i)) {
      Memory& m = memory(t.slot);
      if (m.first < 0) m.first = position;
      m.last = std::max(m.last, position);
      m.touched = true;
      if (m.home != Home::None) continue;
      const Slot& slot = this->slot(t.slot);
      if (slot.kind == Slot::Kind::Outside)
        fail(
            "an operation takes a tensor that is reached by none of the function's arguments, variables and "
            "their attributes");
      if (slot.kind == Slot::Kind::Number || (slot.kind == Slot::Kind::Given && !slot.writes && !m.escapes)) {
        m.home = Home::Constant;
        p_.place(t.slot, t_.bytes.data() + slot.bytes);
      } else if (slot.kind == Slot::Kind::Given) {
        m.home = m.escapes ? Home::Fresh : Home::Arena;
        m.first = -1;
      } else if (t.made) {
        m.home = plan.once              ? Home::Constant
                 : plan.how == How::Row ? Home::Kept
                 : m.escapes            ? Home::Fresh
                 : slot.nbytes >= kOwn  ? Home::Own
                                        : Home::Arena;
      }
    }
  };
  for (size_t i = 0; i < plans_.size(); ++i)
    if (plans_[i].live && plans_[i].once) runs(i, -1);
  for (size_t at = 0; at < schedule_.size(); ++at)
    for (const uint32_t i : schedule_[at]) runs(i, static_cast<int32_t>(at));
  // What nothing touches need not be there.
  std::erase_if(p_.outside_, [&](int32_t s) {
    return !memory(s).touched &&
           std::ranges::none_of(p_.ends_.outputs, [&](const Place& p) { return p.slot == s; });
  });
  // What only the links of one chain touch stays in its blocks.
  for (size_t s = 0; s < t_.slots.size(); ++s)
    if (Memory& m = memory(static_cast<int32_t>(s)); (m.home == Home::Arena || m.home == Home::Own) &&
                                                     t_.slots[s].kind == Slot::Kind::Made && m.first >= 0 &&
                                                     m.first == m.last) {
      const auto steps = schedule_[static_cast<size_t>(m.first)];
      if (steps.size() > 1 && !(is_pass(steps) && !in_registers_[s]) &&
          !(plans_[steps.back()].folds >= 0 && t_.gives(t_.steps[steps.back()], static_cast<int32_t>(s))))
        m.home = Home::Block;
    }
  // Beside much memory that comes and goes, an arena that stays would be held for longer than eager holds it.
  const auto most = [&](Home home) {
    std::vector<int64_t> bytes(schedule_.size() + 2);
    for (size_t s = 0; s < t_.slots.size(); ++s)
      if (const Memory& m = p_.memory_[s]; m.home == home && m.last >= 0) {
        bytes[static_cast<size_t>(m.first + 1)] += static_cast<int64_t>(t_.slots[s].nbytes);
        bytes[static_cast<size_t>(m.last + 2)] -= static_cast<int64_t>(t_.slots[s].nbytes);
      }
    std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
    return std::ranges::max(bytes);
  };
  if (const int64_t small = most(Home::Arena);
      small > static_cast<int64_t>(Program::kMostArena) && small < most(Home::Own))
    for (size_t s = 0; s < t_.slots.size(); ++s)
      if (Memory& m = p_.memory_[s];
          m.home == Home::Arena && m.first >= 0 && m.last >= 0 && t_.slots[s].nbytes >= kInTime)
        m.home = Home::Own;
  for (size_t s = 0; s < t_.slots.size(); ++s) {
    Memory& m = memory(static_cast<int32_t>(s));
    if (m.escapes && m.home == Home::None && t_.slots[s].kind == Slot::Kind::Given) m.home = Home::Fresh;
    if (m.escapes && m.home == Home::None) fail("a result was made by what is not followed");
    if (m.home == Home::Kept) p_.kept_.push_back(static_cast<int32_t>(s));
    if (m.home == Home::Constant && t_.slots[s].kind == Slot::Kind::Made) {
      m.keep = empty(IntList{{static_cast<int64_t>(t_.slots[s].nbytes)}}, DType::UInt8);
      p_.place(static_cast<int32_t>(s), m.keep.bytes());
    }
    if (m.home != Home::Fresh && m.home != Home::Own) continue;
    p_.kept_.push_back(static_cast<int32_t>(s));
    if (m.home == Home::Own) continue;
    if (m.first < 0 || t_.slots[s].nbytes < kInTime) p_.fresh_.push_back(static_cast<int32_t>(s));
    for (size_t i = 0; i < std::min(p_.ends_.outputs.size(), p_.ends_.whole_from); ++i)
      if (const Place& p = p_.ends_.outputs[i];
          p.slot == static_cast<int32_t>(s) && whole(t_.slots[s], t_.geometry(p), p)) {
        m.made_as = static_cast<int32_t>(p.geometry);
      }
  }
}

void Builder::lay_out_arena() {
  struct Hole {
    size_t at, bytes;
  };
  std::vector<Hole> holes;  // by place
  size_t end = 0;
  // Numbers lie closer together than vectors.
  const auto rounded = [](size_t n) { return n <= 16 ? size_t{16} : (n + 63) & ~size_t{63}; };
  const auto take = [&](size_t bytes) {
    auto best = holes.end();
    for (auto h = holes.begin(); h != holes.end(); ++h)
      if (h->bytes >= bytes && (best == holes.end() || h->bytes < best->bytes)) best = h;
    if (best == holes.end()) {
      const size_t at = end;
      end += bytes;
      return at;
    }
    const size_t at = best->at;
    best->at += bytes;
    best->bytes -= bytes;
    if (!best->bytes) holes.erase(best);
    return at;
  };
  const auto give = [&](size_t at, size_t bytes) {
    const auto next = std::ranges::lower_bound(holes, at, {}, &Hole::at);
    const bool to_next = next != holes.end() && at + bytes == next->at;
    if (next != holes.begin() && std::prev(next)->at + std::prev(next)->bytes == at) {
      std::prev(next)->bytes += bytes + (to_next ? next->bytes : 0);
      if (to_next) holes.erase(next);
    } else if (to_next) {
      next->at = at;
      next->bytes += bytes;
    } else {
      holes.insert(next, {at, bytes});
    }
  };
  // At each place of the schedule, and before all: the first slot that begins there and the first that ends,
  // and of each slot the next that does; -1: none.
  struct Ends {
    int32_t born = -1, dies = -1;
  };
  std::vector<Ends> at(schedule_.size() + 1), next(t_.slots.size());
  std::vector<char> taken_over(t_.slots.size());
  for (size_t s = t_.slots.size(); s-- > 0;) {
    const Memory& m = memory(static_cast<int32_t>(s));
    if (m.last < 0) continue;
    if (m.home == Home::Arena || m.home == Home::Own) {
      next[s].born = std::exchange(at[static_cast<size_t>(m.first + 1)].born, static_cast<int32_t>(s));
      next[s].dies = std::exchange(at[static_cast<size_t>(m.last + 1)].dies, static_cast<int32_t>(s));
    } else if (t_.slots[s].nbytes >= kInTime) {
      if (m.home == Home::Fresh && m.first >= 0) taken_.push_back({m.first, static_cast<int32_t>(s)});
      if (m.home == Home::Kept && !m.escapes) given_.push_back({m.last, static_cast<int32_t>(s)});
    }
  }
  for (size_t i = 0; i < at.size(); ++i) {
    const auto position = static_cast<int32_t>(i) - 1;
    for (int32_t s = at[i].born; s >= 0; s = next[static_cast<size_t>(s)].born) {
      Memory& m = memory(s);
      const bool own = m.home == Home::Own;
      if (own) taken_.push_back({position, s});
      const size_t bytes = rounded(slot(s).nbytes);
      // In place of an operand that ends here.
      int32_t takes = -1;
      if (i > 0 && schedule_[i - 1].size() == 1 && plans_[schedule_[i - 1][0]].how == How::Loop &&
          !plans_[schedule_[i - 1][0]].inplace) {
        const Plan& plan = plans_[schedule_[i - 1][0]];
        for (size_t k = 0; k < plan.in.size(); ++k) {
          const Place& p = plan.in[k];
          if (p.slot < 0 || plan.call.constant >> k & 1) continue;
          const Memory& o = memory(p.slot);
          if (o.home == m.home && o.last == position && o.first >= 0 && o.first < o.last &&
              slot(p.slot).nbytes == slot(s).nbytes && whole(slot(p.slot), t_.geometry(p), p) &&
              itemsize(t_.geometry(p).dtype) == itemsize(t_.geometry(plan.out).dtype))
            takes = p.slot;
        }
      }
      if (takes >= 0 && !taken_over[static_cast<size_t>(takes)]) {
        own ? void(m.takes = takes) : void(m.offset = memory(takes).offset);
        taken_over[static_cast<size_t>(takes)] = true;
      } else if (!own) {
        m.offset = static_cast<int64_t>(take(bytes));
      }
    }
    for (int32_t s = at[i].dies; s >= 0; s = next[static_cast<size_t>(s)].dies) {
      if (taken_over[static_cast<size_t>(s)]) continue;
      if (memory(s).home == Home::Own)
        given_.push_back({position, s});
      else
        give(static_cast<size_t>(memory(s).offset), rounded(slot(s).nbytes));
    }
  }
  std::ranges::stable_sort(taken_, {}, &Birth::position);
  std::ranges::stable_sort(given_, {}, &Birth::position);
  p_.arena_bytes_ = end;
}

/// What nothing reads of the inputs that the program lets go of.
void Builder::find_drops() {
  for (const auto& d : p_.ends_.dropped) {
    const Place& p = p_.ends_.inputs[d.first];
    if (p.slot < 0 ||
        (!memory(p.slot).touched &&
         std::ranges::none_of(p_.ends_.outputs, [&](const Place& o) { return o.slot == p.slot; })))
      drops_.push_back(d);
  }
  for (size_t k = p_.ends_.spent_from; k < p_.ends_.inputs.size(); ++k) {
    const int32_t s = p_.ends_.inputs[k].slot;
    if (s >= 0 && memory(s).last >= 0 && slot(s).nbytes >= kInTime &&
        std::ranges::none_of(p_.ends_.outputs, [&](const Place& o) { return o.slot == s; }))
      spent_.push_back({memory(s).last, static_cast<int32_t>(k)});
  }
  std::ranges::stable_sort(spent_, {}, &Birth::position);
  for (size_t at = 0; at < schedule_.size(); ++at)
    for (const uint32_t i : schedule_[at])
      if (plans_[i].how == How::Guard) last_decision_ = static_cast<int32_t>(at);
}

void Builder::find_what_to_undo() {
  std::vector<int32_t> fallible;
  struct Written {
    int32_t first = -1;
    int64_t begin = 0, end = 0;
  };
  std::map<int32_t, Written> written;
  for (size_t at = 0; at < schedule_.size(); ++at)
    for (const uint32_t i : schedule_[at]) {
      const Step& s = t_.steps[i];
      // The step of an optimiser is checked before it writes.
      if (may_fail(plans_[i], s) && (plans_[i].how == How::Guard || !s.op->writes_lists))
        fallible.push_back(static_cast<int32_t>(at));
      for (const Touch& t : touches(i)) {
        if (!t.written || slot(t.slot).kind != Slot::Kind::Outside) continue;
        memory(t.slot).writer = s.op->name;
        const auto [begin, end] = t_.extent(t.place());
        Written& w = written[t.slot];
        if (w.first < 0) w = {static_cast<int32_t>(at), begin, end};
        w.begin = std::min(w.begin, begin);
        w.end = std::max(w.end, end);
      }
    }
  size_t bytes = 0;
  for (const auto& [s, w] : written)
    if (w.begin < w.end && !fallible.empty() && fallible.back() >= w.first) {
      p_.saved_.push_back({s, w.begin, w.end});
      bytes += static_cast<size_t>(w.end - w.begin);
    }
  p_.undo_.resize(bytes);
  p_.draws_ &= !fallible.empty();
}

}  // namespace adjoint::replay
