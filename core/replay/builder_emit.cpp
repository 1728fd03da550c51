#include <cstring>

#include "for_size.h"
#include "kernels/copy.h"
#include "replay/builder.h"

namespace adjoint::replay {

/// Work between two looks at whether the user wants an end.
static constexpr int64_t kUnchecked = 20000;

void Builder::point(void* at, const Place& p) {
  Memory& m = memory(p.slot);
  *static_cast<char**>(at) = m.base + p.offset;
  p_.pointers_.push_back({at, p.offset, m.pointers});
  m.pointers = static_cast<int32_t>(p_.pointers_.size() - 1);
}

void Builder::append(Program::Kind kind, size_t index) {
  const auto i = static_cast<uint32_t>(index);
  if (Program::Run* last = p_.runs_.empty() ? nullptr : &p_.runs_.back();
      last && last->kind == kind && last->end == i && !last->checks)
    p_.runs_.back().end = i + 1;
  else
    p_.runs_.push_back({kind, i, i + 1});
  // Who looks at the clock after each small launch spends a third of his time on it.
  const bool is_launch = kind == Program::Kind::Launch || kind == Program::Kind::Product;
  if (kind != Program::Kind::Row && (!is_launch || p_.work_ - checked_ < kUnchecked)) return;
  p_.runs_.back().checks = true;
  checked_ = p_.work_;
}

/// n times a number that no call changes; null where one may.
const char* Builder::repeat(const Place& p, int64_t n) {
  if (!is_known(p)) return nullptr;
  const Memory& m = memory(p.slot);
  const auto item = static_cast<size_t>(itemsize(t_.geometry(p).dtype));
  std::array<uint64_t, 3> key{0, 0, static_cast<uint64_t>(n) << 8 | item};
  std::memcpy(key.data(), m.base + p.offset, item);
  std::unique_ptr<char[]>& all = p_.repeated_[key];
  if (!all) {
    all = std::make_unique<char[]>(static_cast<size_t>(n) * item + 16);
    repeat_value(all.get(), m.base + p.offset, static_cast<int64_t>(item), n);
  }
  return all.get();
}

void Builder::emit_loop(const Plan& plan) {
  const int64_t n = t_.geometry(plan.out).numel;
  p_.work_ += n;
  const char* repeated[StraightCall::kOperands] = {};
  unsigned numbers = n == 1 ? 0 : plan.call.constant;
  if (n <= kRepeated)
    for (size_t k = 0; k < plan.in.size(); ++k)
      if (numbers >> k & 1 && (repeated[k] = repeat(plan.in[k], n))) numbers &= ~(1u << k);
  if (!numbers && n <= StraightCall::kSerial) {
    p_.loops_.push_back({plan.call.loop, nullptr, {}, n, plan.call.parameters, plan.name});
    Program::Loops& l = p_.loops_.back();
    point(&l.out, plan.out);
    for (size_t k = 0; k < plan.in.size(); ++k)
      if (repeated[k])
        l.in[k] = repeated[k];
      else if (plan.in[k].slot >= 0)
        point(&l.in[k], plan.in[k]);
    append(Program::Kind::Loops, p_.loops_.size() - 1);
  } else {
    p_.wides_.push_back({plan.call, nullptr, n, plan.name});
    Program::Wide& w = p_.wides_.back();
    point(&w.out, plan.out);
    for (size_t k = 0; k < plan.in.size(); ++k)
      if (plan.in[k].slot >= 0) point(&w.call.data[k], plan.in[k]);
    append(Program::Kind::Wide, p_.wides_.size() - 1);
  }
}

void Builder::emit_walk(const Step& s, const Plan& plan) {
  auto walk = std::make_unique<Program::Walk>();
  walk->call = plan.walk;
  walk->out = tensor(plan.out);
  walk->name = s.op->name;
  walk->in.reserve(plan.in.size());
  bool converted[StraightCall::kOperands] = {};
  const NoInterpretation inner;
  for (size_t k = 0; k < plan.in.size(); ++k) {
    if (plan.in[k].slot < 0) continue;
    const Tensor given = tensor(plan.in[k]);
    converted[k] = is_known(plan.in[k]) && given.dtype() != plan.walk.types[k] && given.numel() <= kRepeated;
    walk->in.push_back(converted[k] ? copy_of(given, plan.walk.types[k]) : given);
    walk->call.inputs[k] = &walk->in.back();
    if (converted[k]) p_.converted_.push_back(walk->in.back());
  }
  p_.work_ += walk->out.numel();
  auto gathered = std::make_unique<Program::Gathered>();
  if (plan_gathered(walk->call, walk->out, gathered->call)) {
    gathered->name = walk->name;
    p_.gathered_.push_back(std::move(gathered));
    GatheredCall& call = p_.gathered_.back()->call;
    if (unsigned taken = 0; call.step < call.n) {
      for (size_t k = 0; k < plan.in.size(); ++k) taken |= unsigned{plan.in[k].slot >= 0} << k;
      if (adjoint::is_even(call.loop, plan.walk.out_type, plan.walk.types, taken, call.parameters,
                           plan.walk.numbers))
        call.step = call.n;
    }
    point(&call.out, plan.out);
    for (size_t k = 0; k < plan.in.size(); ++k)
      if (converted[k])
        call.data[k] = walk->call.inputs[k]->bytes();
      else if (plan.in[k].slot >= 0)
        point(&call.data[k], plan.in[k]);
    return append(Program::Kind::Gathered, p_.gathered_.size() - 1);
  }
  p_.walks_.push_back(std::move(walk));
  append(Program::Kind::Walk, p_.walks_.size() - 1);
}

void Builder::emit_move(const Place& to, const Place& from, size_t bytes) {
  p_.moves_.push_back({nullptr, nullptr, bytes});
  p_.work_ += static_cast<int64_t>(bytes / 8);
  Program::Move& m = p_.moves_.back();
  point(&m.to, to);
  point(&m.from, from);
  append(Program::Kind::Move, p_.moves_.size() - 1);
}

const BoundLaunch& Builder::bind(const Launches::Call& call, const Step& s, const Plan& plan) {
  const std::vector<int32_t> named = slots_of(t_, s);
  const auto tensor_of = [&](const Launches::Operand& o) -> Tensor {
    if (o.slot < 0) return o.number;
    const auto k = static_cast<size_t>(o.slot);
    Place p{k < named.size() ? named[k] : plan.aside[k - named.size()], 0, o.offset};
    while (p.geometry < t_.geometries.size() && !(t_.geometries[p.geometry] == o.geometry)) ++p.geometry;
    if (p.geometry == t_.geometries.size()) t_.geometries.push_back(o.geometry);
    return tensor(p);
  };
  p_.prepared_.insert(plan.launches);
  return p_.bound_.emplace_back(call, tensor_of);
}

void Builder::emit_launches(const Step& s, const Plan& plan) {
  const char* name = s.op->name;
  t_.each_place(s, [&](const Place& p, bool) { p_.work_ += t_.geometry(p).numel; });
  for (const Launches::Call& call : plan.launches->calls) {
    const BoundLaunch& bound = bind(call, s, plan);
    if (kernels::KeptProduct kept; kernels::keep_product(*bound.routine(), bound.arguments(), kept)) {
      p_.work_ += kept.m * kept.n * kept.k / 16;
      p_.products_.push_back({kept, std::exchange(name, nullptr)});
      append(Program::Kind::Product, p_.products_.size() - 1);
      continue;
    }
    p_.launches_.push_back({bound.routine(), bound.arguments(), std::exchange(name, nullptr)});
    append(Program::Kind::Launch, p_.launches_.size() - 1);
  }
}

void Builder::supply(Program::Supply::Kind kind, int32_t slot, int32_t from) {
  p_.supplies_.push_back({kind, slot, from});
  append(Program::Kind::Supply, p_.supplies_.size() - 1);
}

/// The instructions of one place in the schedule, with memory that comes before and goes after them.
void Builder::emit_scheduled() {
  using Supply = Program::Supply::Kind;
  const std::span<const uint32_t> steps = schedule_[position_];
  const auto each = [&](const std::vector<Birth>& all, size_t& next, auto&& f) {
    for (; next < all.size() && all[next].position == static_cast<int32_t>(position_); ++next)
      f(all[next].slot);
  };
  // As long as decisions follow, another trace may need it.
  const bool decided = static_cast<int32_t>(position_) > last_decision_;
  std::erase_if(drops_, [&](const auto& d) {
    const bool now = decided && d.second <= steps[0];
    if (now) supply(Supply::Drop, static_cast<int32_t>(d.first));
    return now;
  });
  each(taken_, next_taken_,
       [&](int32_t s) { supply(memory(s).takes < 0 ? Supply::Take : Supply::TakeOver, s, memory(s).takes); });
  if (steps.size() == 1)
    emit(steps[0]);
  else if (is_pass(steps))
    emit_pass(steps);
  else
    emit_chain({steps.begin(), steps.end()});
  each(given_, next_given_, [&](int32_t s) { supply(Supply::Give, s); });
  each(spent_, next_spent_, [&](int32_t k) { supply(Supply::Drop, k); });
}

void Builder::emit(size_t i) {
  const Plan& plan = plans_[i];
  const Step& s = t_.steps[i];
  switch (plan.how) {
    case How::Nothing:
      return;
    case How::Loop:
      return emit_loop(plan);
    case How::Walk:
      return emit_walk(s, plan);
    case How::Move: {
      const Geometry& g = t_.geometry(plan.out);
      return emit_move(plan.out, plan.in[0], static_cast<size_t>(g.numel * itemsize(g.dtype)));
    }
    case How::Guard: {
      if (const int32_t r = reading_of_step_[i]; r >= 0) {
        point(&p_.readings_[static_cast<size_t>(r)].at, t_.at(s.results)[0]);
        return append(Program::Kind::Reading, static_cast<size_t>(r));
      }
      p_.guards_.push_back({nullptr, s.bytes});
      point(&p_.guards_.back().at, t_.at(s.results)[0]);
      return append(Program::Kind::Guard, p_.guards_.size() - 1);
    }
    case How::Launch:
      return emit_launches(s, plan);
    case How::Copy:
    case How::Row:
      break;
  }
  auto row = std::make_unique<Program::Row>();
  row->op = s.op;
  row->form = s.form;
  row->results = s.results;
  if (plan.how == How::Copy) {
    row->copies = true;
    row->arguments.tensors = {tensor(plan.out), tensor(t_.at(t_.arguments[s.arguments.begin].list)[0])};
  } else {
    row->arguments = arguments(s);
    for (const Number& n : p_.ends_.numbers)
      if (n.slot < 0 && n.step == i) {
        const Argument& a = t_.arguments[s.arguments.begin + n.argument];
        Value& v = row->arguments.values[n.argument];
        if (a.form == Form::Floats)
          target(n, &t_.floats[a.list.begin + n.element], Program::Target::Kind::Double);
        else if (a.form == Form::Scalar)
          target(n, &v.scalar, Program::Target::Kind::Scalar);
        else
          target(n, &v.d, Program::Target::Kind::Double);
      }
    for (const Place& p : t_.at(s.results)) {
      const bool made = p.slot >= 0 &&
                        (plan.once || memory(p.slot).first == static_cast<int32_t>(position_)) &&
                        slot(p.slot).kind == Slot::Kind::Made;
      // One memory of several results is taken from the first.
      const bool again = std::ranges::find(row->makes, p.slot) != row->makes.end();
      row->makes.push_back(made && !again ? p.slot : -1);
    }
  }
  for (const Touch& t : touches(i)) p_.work_ += t_.geometries[t.geometry].numel;
  p_.rows_.push_back(std::move(row));
  append(Program::Kind::Row, p_.rows_.size() - 1);
}

void Builder::compute_constants() {
  for (size_t i = 0; i < plans_.size(); ++i)
    if (plans_[i].live && plans_[i].once) emit(i);
  const NoInterpretation inner;
  if (!p_.run_all(p_.runs_, nullptr)) fail("what depends on nothing came out otherwise");
  p_.runs_.clear();
  p_.work_ = checked_ = 0;
}

}  // namespace adjoint::replay
