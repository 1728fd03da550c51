#include "for_size.h"
#include "kernels/reducer.h"
#include "replay/builder.h"

namespace adjoint::replay {

/// What a row made is given back before the end from this size on.
static constexpr size_t kReleased = 4096;

void Builder::point(void* at, const Place& p) {
  Memory& m = memory(p.slot);
  *static_cast<char**>(at) = m.base + p.offset;
  m.pointers.emplace_back(at, p.offset);
}

void Builder::append(Program::Kind kind, size_t index) {
  const auto i = static_cast<uint32_t>(index);
  if (!p_.runs_.empty() && p_.runs_.back().kind == kind && p_.runs_.back().end == i)
    p_.runs_.back().end = i + 1;
  else
    p_.runs_.push_back({kind, i, i + 1});
}

void Builder::emit_loop(const Plan& plan) {
  const int64_t n = t_.geometry(plan.out).numel;
  p_.work_ += n;
  if (n == 1 || (!plan.call.constant && n <= StraightCall::kSerial)) {
    p_.loops_.push_back({plan.call.loop, nullptr, {}, n, plan.call.parameters, plan.name});
    Program::Loops& l = p_.loops_.back();
    point(&l.out, plan.out);
    for (size_t k = 0; k < plan.in.size(); ++k)
      if (plan.in[k].slot >= 0) point(&l.in[k], plan.in[k]);
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
  for (size_t k = 0; k < plan.in.size(); ++k) {
    if (plan.in[k].slot < 0) continue;
    walk->in.push_back(tensor(plan.in[k]));
    walk->call.inputs[k] = &walk->in.back();
  }
  p_.work_ += walk->out.numel();
  auto gathered = std::make_unique<Program::Gathered>();
  if (plan_gathered(walk->call, walk->out, gathered->call)) {
    gathered->name = walk->name;
    p_.gathered_.push_back(std::move(gathered));
    GatheredCall& call = p_.gathered_.back()->call;
    point(&call.out, plan.out);
    for (size_t k = 0; k < plan.in.size(); ++k)
      if (plan.in[k].slot >= 0) point(&call.data[k], plan.in[k]);
    return append(Program::Kind::Gathered, p_.gathered_.size() - 1);
  }
  p_.walks_.push_back(std::move(walk));
  append(Program::Kind::Walk, p_.walks_.size() - 1);
}

void Builder::emit_chain(std::vector<uint32_t> steps) {
  auto chain = std::make_unique<Program::Chain>();
  const Plan* const fold = plans_[steps.back()].folds >= 0 ? &plans_[steps.back()] : nullptr;
  const Step& last_step = t_.steps[steps.back()];
  if (fold) steps.pop_back();
  const int64_t length = fold ? Elements::kPiece : Program::kBlock;
  chain->n = t_.geometry(plans_[steps[0]].out).numel;
  chain->links.resize(steps.size());
  size_t numbers = 0;
  std::map<int32_t, size_t> last;  // of slots that stay in blocks: the last link
  for (size_t k = 0; k < steps.size(); ++k) {
    const Plan& plan = plans_[steps[k]];
    chain->buffer_bytes = std::max(chain->buffer_bytes, length * itemsize(t_.geometry(plan.out).dtype));
    for (size_t i = 0; i < plan.in.size(); ++i) {
      if (plan.in[i].slot < 0) continue;
      chain->buffer_bytes = std::max(chain->buffer_bytes, length * itemsize(t_.geometry(plan.in[i]).dtype));
      numbers += plan.call.constant >> i & 1;
      last[plan.in[i].slot] = k;
    }
    last[plan.out.slot] = k;
  }
  if (fold) last[fold->folds] = steps.size();
  chain->numbers.reserve(numbers);
  std::map<std::pair<int32_t, int64_t>, int32_t> of_number;
  std::map<int32_t, int32_t> buffer;
  std::vector<int32_t> idle;
  const auto operand = [&](Program::Chain::Operand& o, const Place& p, bool number) {
    const int64_t item = itemsize(t_.geometry(p).dtype);
    if (number) {
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
      if (plan.in[i].slot >= 0) operand(link.in[i], plan.in[i], plan.call.constant >> i & 1);
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
  p_.prepared_.push_back(plan.launches);
  p_.bound_.push_back(std::make_unique<const BoundLaunch>(call, tensor_of));
  return *p_.bound_.back();
}

void Builder::emit_launches(const Step& s, const Plan& plan) {
  const char* name = s.op->name;
  for (const Launches::Call& call : plan.launches->calls) {
    const BoundLaunch& bound = bind(call, s, plan);
    p_.launches_.push_back({bound.routine(), bound.arguments(), std::exchange(name, nullptr)});
    append(Program::Kind::Launch, p_.launches_.size() - 1);
  }
  each_place(s, [&](const Place& p, bool) { p_.work_ += t_.geometry(p).numel; });
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
  each_place(s, [&](const Place& p, bool) { p_.work_ += t_.geometry(p).numel; });
  for (const int32_t k : p_.kept_) {
    const Memory& m = memory(k);
    if (m.home == Home::Kept && !m.escapes && m.last == static_cast<int32_t>(position_) &&
        slot(k).nbytes >= kReleased)
      row->release.push_back(k);
  }
  p_.rows_.push_back(std::move(row));
  append(Program::Kind::Row, p_.rows_.size() - 1);
}

void Builder::compute_constants() {
  for (size_t i = 0; i < plans_.size(); ++i)
    if (plans_[i].once) emit(i);
  const NoInterpretation inner;
  p_.run_all();
  p_.runs_.clear();
  p_.work_ = 0;
}

}  // namespace adjoint::replay
