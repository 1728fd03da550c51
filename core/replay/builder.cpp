#include "replay/builder.h"

#include <algorithm>
#include <cstring>

#include "dispatch/elementwise_node.h"
#include "for_size.h"
#include "ops/creation.h"
#include "ops/writing.h"

namespace adjoint::replay {

namespace {

/// What depends on nothing is computed once, up to this size.
constexpr size_t kMostConstant = size_t{1} << 20;
/// What a row made is given back before the end from this size on.
constexpr size_t kReleased = 4096;
/// Loops over as many elements run in blocks; how many other steps one of them may be drawn past.
constexpr int64_t kLeastChained = 1024;
constexpr size_t kMostPassed = 256;

bool whole(const Slot& s, const Geometry& g, const Place& p) {
  return p.offset == 0 && g.contiguous && static_cast<size_t>(g.numel * itemsize(g.dtype)) == s.nbytes;
}

/// The bytes that a place covers, from the beginning of its slot.
std::pair<int64_t, int64_t> extent(const Geometry& g, const Place& p) {
  if (g.numel == 0) return {p.offset, p.offset};
  int64_t last = 0;
  for (size_t i = 0; i < g.sizes.size(); ++i) last += (g.sizes[i] - 1) * g.strides[i];
  return {p.offset, p.offset + (last + 1) * itemsize(g.dtype)};
}

}  // namespace

template <class F>
void Builder::each_place(const Step& s, F&& f) const {
  for (uint32_t k = s.arguments.begin; k < s.arguments.end; ++k) {
    const Argument& a = t_.arguments[k];
    if (!a.present || (a.form != Form::Tensor && a.form != Form::Tensors)) continue;
    const uint32_t i = k - s.arguments.begin;
    const bool written = s.op->writes_lists >> i & 1 ||
                         (i == 0 && s.form != CallForm::Out && (s.op->writes || s.form == CallForm::InPlace));
    for (const Place& p : t_.at(a.list))
      if (p.slot >= 0) f(p, written);
  }
  for (const Place& p : t_.at(s.out)) f(p, true);
  for (const Place& p : t_.at(s.results))
    if (p.slot >= 0) f(p, false);
}

void Builder::build() {
  p_.memory_.resize(t_.slots.size());
  plans_.resize(t_.steps.size());
  find_inputs_and_outputs();
  plan_steps();
  drop_what_nobody_needs();
  find_constants();
  schedule();
  find_lifetimes();
  lay_out_arena();
  find_what_to_undo();
  // Instructions are pointed into.
  std::array<size_t, 7> count{};
  for (const Plan& plan : plans_) ++count[static_cast<size_t>(plan.how)];
  p_.loops_.reserve(count[static_cast<size_t>(How::Loop)]);
  p_.wides_.reserve(count[static_cast<size_t>(How::Loop)]);
  p_.moves_.reserve(count[static_cast<size_t>(How::Move)] + t_.slots.size());
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
  for (position_ = 0; position_ < schedule_.size(); ++position_)
    if (const auto& steps = schedule_[position_]; steps.size() > 1)
      emit_chain(steps);
    else
      emit(steps[0]);
  // Loops were planned with tensors that no row takes.
  for (Memory& m : p_.memory_)
    std::erase_if(m.tensors,
                  [](const auto& t) { return t.first->refcount.load(std::memory_order_relaxed) == 1; });
  for (const Plan& plan : plans_) {
    p_.dropped_ += !plan.live;
    p_.constants_ += plan.once;
  }
}

void Builder::find_inputs_and_outputs() {
  for (size_t k = 0; k < p_.ends_.inputs.size(); ++k) {
    const Place& p = p_.ends_.inputs[k];
    if (p.slot < 0 || slot(p.slot).kind != Slot::Kind::Outside) continue;
    Memory& m = memory(p.slot);
    if (m.input >= 0) continue;
    m.home = Home::Outside;
    m.input = static_cast<int32_t>(k);
    m.input_offset = p.offset;
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
}

Tensor Builder::tensor(const Place& p) {
  if (p.slot < 0) return {};
  Tensor& t = tensors_[{p.slot, p.geometry, p.offset}];
  if (t.defined()) return t;
  Memory& m = memory(p.slot);
  const Geometry& g = t_.geometry(p);
  if (!m.frame) {
    m.frame = external_storage(nullptr, slot(p.slot).nbytes, [](void*) {}, nullptr);
    m.frame->data = m.base;
  }
  t = over(m.frame, g.dtype, g.sizes.span(), g.strides.span(), 0);
  t->data = m.base + p.offset;
  if (slot(p.slot).kind == Slot::Kind::Number) t->flags |= TensorImpl::kWrapped;
  m.tensors.emplace_back(t.get(), p.offset);
  return t;
}

void Builder::fill_values(const Step& s, std::vector<Value>& values, std::vector<Tensor>& tensors,
                          std::vector<std::vector<int64_t>>&, std::vector<Tensor>& out) {
  size_t n = 0;
  each_place(s, [&](const Place&, bool) { ++n; });
  for (uint32_t k = s.arguments.begin; k < s.arguments.end; ++k) n += t_.arguments[k].list.size();
  tensors.reserve(n);
  values.resize(s.arguments.size() + 1);
  for (uint32_t k = s.arguments.begin; k < s.arguments.end; ++k) {
    const Argument& a = t_.arguments[k];
    Value& v = values[k - s.arguments.begin];
    v = a.plain;
    v.present = a.present;
    if (!a.present) continue;
    switch (a.form) {
      case Form::Tensor:
        tensors.push_back(tensor(t_.at(a.list)[0]));
        v.tensor = &tensors.back();
        break;
      case Form::Tensors: {
        const size_t first = tensors.size();
        for (const Place& p : t_.at(a.list)) tensors.push_back(tensor(p));
        v.list = {tensors.data() + first, a.list.size()};
        break;
      }
      case Form::Ints:
        v.list = {t_.ints.data() + a.list.begin, a.list.size()};
        break;
      case Form::Floats:
        v.list = {t_.floats.data() + a.list.begin, a.list.size()};
        break;
      case Form::Text:
        v.list = {t_.bytes.data() + a.list.begin, a.list.size()};
        break;
      case Form::Generator:
        v.generator = nullptr;
        break;
      default:
        break;
    }
  }
  for (const Place& p : t_.at(s.out)) out.push_back(tensor(p));
}

const double* Builder::kept(const double* parameters, int n) {
  if (!n) return nullptr;
  p_.parameters_.push_back(std::make_unique<double[]>(static_cast<size_t>(n)));
  std::copy_n(parameters, n, p_.parameters_.back().get());
  return p_.parameters_.back().get();
}

/// Whether an operator's check may read elements: numbers that do not fit the type are refused, and integers that
/// divide by zero.
static bool looks_at_elements(const ElementwiseInfo& op, const Tensor* in) {
  return op.check && std::any_of(in, in + op.arity, [](const Tensor& t) {
           return t.dim() == 0 || (is_integral(t.dtype()) && t.dtype() != DType::Bool);
         });
}

bool Builder::plan_loop(const Step& s, Plan& plan) {
  std::vector<Value> values;
  std::vector<Tensor> tensors, out;
  std::vector<std::vector<int64_t>> ints;
  fill_values(s, values, tensors, ints, out);
  std::vector<Place> places;
  for (uint32_t k = s.arguments.begin; k < s.arguments.end; ++k)
    if (const Argument& a = t_.arguments[k]; a.form == Form::Tensor)
      places.push_back(a.present ? t_.at(a.list)[0] : Place{});
  if (t_.at(s.results).size() != 1) return false;
  const Place result = t_.at(s.results)[0];
  const Geometry& g = t_.geometry(result);
  if (!g.contiguous) return false;
  plan.out = result;
  plan.name = s.op->name;
  const auto add = [&](int operand, const Tensor& t, const Place& p) {
    plan.in[static_cast<size_t>(operand)] = p;
    return plan.call.add(operand, t, g.numel);
  };
  if (s.op->elementwise) {
    const Unboxed c(*s.op, values.data());
    std::erase_if(places, [](const Place& p) { return p.slot < 0; });
    Resolved r;
    if (static_cast<int>(places.size()) != c.op.arity || looks_at_elements(c.op, c.in) ||
        !resolve_straight(c.op, c.in, r) || r.result_type != g.dtype || !same(r.sizes, g.sizes.span()))
      return false;
    plan.inplace = s.form != CallForm::Function;
    if (plan.inplace) {
      if (s.form != CallForm::InPlace || !(result == places[0])) return false;
      for (size_t i = 1; i < places.size(); ++i)
        if (places[i].slot == result.slot &&
            !(places[i].offset == result.offset && c.in[i].dim() == c.in[0].dim()))
          return false;
    } else if (!whole(slot(result.slot), g, result)) {
      return false;
    }
    plan.call.loop = c.op.loops.forward[loop_slot(r.type)];
    plan.call.out_item = itemsize(r.result_type);
    for (int i = 0; i < c.op.arity; ++i)
      if (!add(i, c.in[i], places[static_cast<size_t>(i)])) return false;
    plan.call.parameters = kept(c.parameters, c.op.parameters);
    return true;
  }
  const auto derivative = derivative_of(*s.op);
  if (!derivative || !whole(slot(result.slot), g, result)) return false;
  const ElementwiseInfo& op = *derivative->of;
  Tensor in[4];
  double parameters[kMostParameters];
  for (int k = 0; k < op.arity; ++k)
    if (values[1 + k].present) in[k] = *values[1 + k].tensor;
  if (values[1 + op.arity].present) in[3] = *values[1 + op.arity].tensor;
  for (int k = 0; k < op.parameters; ++k) parameters[k] = values[2 + op.arity + k].d;
  const DType type = values[2 + op.arity + op.parameters].type;
  if (!straight_gradient(op, derivative->input, type, parameters, *values[0].tensor, in, plan.call))
    return false;
  plan.call.parameters = kept(parameters, op.parameters);
  plan.in[0] = places[0];
  const int takes = op.takes[derivative->input];
  for (int k = 0; k < 4; ++k)
    if (takes >> k & 1)
      plan.in[static_cast<size_t>(k + 1)] = places[static_cast<size_t>(k == 3 ? 1 + op.arity : 1 + k)];
  return true;
}

bool Builder::plan_walk(const Step& s, Plan& plan) {
  if (s.form != CallForm::Function || t_.at(s.results).size() != 1) return false;
  const Place result = t_.at(s.results)[0];
  const Geometry& g = t_.geometry(result);
  if (result.offset || static_cast<size_t>(g.numel * itemsize(g.dtype)) != slot(result.slot).nbytes)
    return false;
  std::vector<Value> values;
  std::vector<Tensor> tensors, out;
  std::vector<std::vector<int64_t>> ints;
  fill_values(s, values, tensors, ints, out);
  std::vector<Place> places;
  for (uint32_t k = s.arguments.begin; k < s.arguments.end; ++k)
    if (const Argument& a = t_.arguments[k]; a.form == Form::Tensor)
      places.push_back(a.present ? t_.at(a.list)[0] : Place{});
  LoopCall& call = plan.walk;
  plan.in = {};
  plan.out = result;
  plan.name = s.op->name;
  if (s.op->elementwise) {
    const Unboxed c(*s.op, values.data());
    const ElementwiseInfo& op = c.op;
    std::erase_if(places, [](const Place& p) { return p.slot < 0; });
    if (static_cast<int>(places.size()) != op.arity || looks_at_elements(op, c.in)) return false;
    Dims shape;
    const Resolved r = resolve(op, c.in, false, shape);
    const DType type = compute_dtype(r.type);
    if (r.result_type != g.dtype || !same(r.sizes, g.sizes.span()) || op.identity >> index_of(r.type) & 1)
      return false;
    call = {op.loops.forward[loop_slot(type)], kept(c.parameters, op.parameters)};
    call.operands = op.arity;
    for (int i = 0; i < op.arity; ++i) {
      if ((i == op.condition && c.in[i].dtype() != DType::Bool) ||
          (type != r.type && op.result == ResultType::Bool && c.in[i].is_wrapped()))
        return false;
      call.types[i] = i == op.condition ? DType::Bool : type;
      plan.in[static_cast<size_t>(i)] = places[static_cast<size_t>(i)];
    }
    call.out_type = result_dtype(op, type);
    return true;
  }
  const auto derivative = derivative_of(*s.op);
  if (!derivative || !g.contiguous) return false;
  const ElementwiseInfo& op = *derivative->of;
  double parameters[kMostParameters];
  for (int k = 0; k < op.parameters; ++k) parameters[k] = values[2 + op.arity + k].d;
  const DType type = compute_dtype(values[2 + op.arity + op.parameters].type);
  call = {op.loops.backward[derivative->input][loop_slot(type)], kept(parameters, op.parameters)};
  call.operands = 5;
  call.types[0] = result_dtype(op, type);
  plan.in[0] = places[0];
  const int takes = op.takes[derivative->input];
  for (int k = 0; k < 4; ++k) {
    if (!(takes >> k & 1)) continue;
    plan.in[static_cast<size_t>(k + 1)] = places[static_cast<size_t>(k == 3 ? 1 + op.arity : 1 + k)];
    call.types[k + 1] = k == 3 ? call.types[0] : k == op.condition ? DType::Bool : type;
  }
  call.out_type = type;
  return true;
}

bool Builder::plan_move(const Step& s, Plan& plan) {
  Place to, from;
  if (s.kind == Step::Kind::Copy) {
    to = t_.at(s.results)[0];
    from = t_.at(t_.arguments[s.arguments.begin].list)[0];
  } else {
    to = t_.at(t_.arguments[s.arguments.begin].list)[0];
    from = t_.at(t_.arguments[s.arguments.begin + 1].list)[0];
  }
  const Geometry &a = t_.geometry(to), &b = t_.geometry(from);
  if (to.slot == from.slot || a.dtype != b.dtype || !a.contiguous || !b.contiguous ||
      !same(a.sizes.span(), b.sizes.span()))
    return false;
  plan.how = How::Move;
  plan.out = to;
  plan.in[0] = from;
  plan.inplace = s.kind != Step::Kind::Copy;
  plan.name = "copy";
  return true;
}

void Builder::plan_steps() {
  for (size_t i = 0; i < plans_.size(); ++i) {
    const Step& s = t_.steps[i];
    Plan& plan = plans_[i];
    if (s.kind == Step::Kind::Read) {
      plan.how = How::Guard;
      continue;
    }
    plan.name = s.op->name;
    p_.draws_ |= s.op->draws;
    const bool empty = (s.op == row_of<Empty> || s.op == row_of<EmptyLike>) && !fill_uninitialized.load();
    if (empty) {
      plan.how = How::Nothing;
      plan.out = t_.at(s.results)[0];
    } else if (s.kind == Step::Kind::Copy) {
      if (!plan_move(s, plan)) plan.how = How::Copy;
      plan.out = t_.at(s.results)[0];
    } else if (s.op == row_of<Copy>) {
      plan_move(s, plan);
    } else if (plan_loop(s, plan)) {
      plan.how = How::Loop;
    } else if (plan_walk(s, plan)) {
      plan.how = How::Walk;
    }
  }
}

void Builder::drop_what_nobody_needs() {
  std::vector<bool> needed(t_.slots.size());
  for (size_t s = 0; s < needed.size(); ++s)
    needed[s] = t_.slots[s].kind == Slot::Kind::Outside || memory(static_cast<int32_t>(s)).escapes;
  for (size_t i = plans_.size(); i-- > 0;) {
    Plan& plan = plans_[i];
    const Step& s = t_.steps[i];
    // Rows may fail, which the program would notice.
    plan.live = plan.how == How::Guard || (plan.how == How::Row && s.kind == Step::Kind::Call);
    if (!plan.live)
      each_place(s, [&](const Place& p, bool written) {
        const bool made =
            std::ranges::any_of(t_.at(s.results), [&](const Place& r) { return r.slot == p.slot; });
        if ((written || made) && needed[static_cast<size_t>(p.slot)]) plan.live = true;
      });
    if (plan.live && plan.how != How::Nothing)
      each_place(s, [&](const Place& p, bool) { needed[static_cast<size_t>(p.slot)] = true; });
  }
}

void Builder::find_constants() {
  std::vector<bool> constant(t_.slots.size());
  for (size_t s = 0; s < constant.size(); ++s) {
    const Slot& slot = t_.slots[s];
    constant[s] = slot.kind == Slot::Kind::Number || (slot.kind == Slot::Kind::Given && !slot.writes &&
                                                      !memory(static_cast<int32_t>(s)).escapes);
  }
  for (size_t i = 0; i < plans_.size(); ++i) {
    Plan& plan = plans_[i];
    const Step& s = t_.steps[i];
    if (!plan.live || plan.how == How::Guard || plan.how == How::Nothing || s.op->draws || plan.inplace)
      continue;
    bool once = s.results.size() > 0;
    for (uint32_t k = s.arguments.begin; k < s.arguments.end; ++k) {
      const Argument& a = t_.arguments[k];
      if (a.present && (a.form == Form::Tensor || a.form == Form::Tensors))
        for (const Place& p : t_.at(a.list)) once &= p.slot < 0 || constant[static_cast<size_t>(p.slot)];
    }
    each_place(s, [&](const Place&, bool written) { once &= !written; });
    for (const Place& p : t_.at(s.results))
      once &= p.slot >= 0 && slot(p.slot).kind == Slot::Kind::Made && !slot(p.slot).writes &&
              !memory(p.slot).escapes && slot(p.slot).nbytes <= kMostConstant;
    plan.once = once;
    if (once)
      for (const Place& p : t_.at(s.results)) constant[static_cast<size_t>(p.slot)] = true;
  }
}

bool Builder::can_be_chained(const Plan& plan) const {
  return plan.live && !plan.once && plan.how == How::Loop && t_.geometry(plan.out).numel >= kLeastChained &&
         slot(plan.out.slot).kind == Slot::Kind::Made;
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
    // Of the chain itself: where in its slots it reads and writes, since a block sees no other elements.
    std::map<int32_t, int64_t> reads, writes;
    const auto other = [](const std::map<int32_t, int64_t>& places, const Place& p) {
      const auto at = places.find(p.slot);
      return at != places.end() && at->second != p.offset;
    };
    const auto fits = [&](const Plan& plan) {
      bool good = !other(reads, plan.out) && !other(writes, plan.out);
      for (size_t k = 0; k < plan.in.size(); ++k)
        if (const Place& p = plan.in[k]; p.slot >= 0) {
          const bool number = plan.call.constant >> k & 1;
          good = good && !(number ? writes.contains(p.slot) || p.slot == plan.out.slot : other(writes, p)) &&
                 (p.slot != plan.out.slot || p.offset == plan.out.offset);
        }
      if (!good) return false;
      for (size_t k = 0; k < plan.in.size(); ++k)
        if (plan.in[k].slot >= 0) {
          // What is read at two places is written at none.
          const auto [at, is_new] = reads.try_emplace(plan.in[k].slot, plan.in[k].offset);
          if (!is_new && at->second != plan.in[k].offset) at->second = -1;
          if (plan.call.constant >> k & 1) at->second = -1;
        }
      writes[plan.out.slot] = plan.out.offset;
      return true;
    };
    if (!fits(plans_[i])) continue;
    for (size_t j = i + 1; j < plans_.size() && passed < kMostPassed; ++j) {
      const Plan& plan = plans_[j];
      if (done[j] || !plan.live || plan.once || plan.how == How::Nothing) continue;
      bool free = can_be_chained(plan) && t_.geometry(plan.out).numel == t_.geometry(plans_[i].out).numel;
      const auto out = static_cast<size_t>(plan.out.slot);
      if (free) free = !read[out] && !written[out];
      for (const Place& p : plan.in) free = free && (p.slot < 0 || !written[static_cast<size_t>(p.slot)]);
      if (free && fits(plan)) {
        schedule_.back().push_back(static_cast<uint32_t>(j));
        done[j] = true;
        continue;
      }
      ++passed;
      const Step& s = t_.steps[j];
      each_place(s, [&](const Place& p, bool writes) {
        const bool made =
            std::ranges::any_of(t_.at(s.results), [&](const Place& r) { return r.slot == p.slot; });
        (writes || made ? written : read)[static_cast<size_t>(p.slot)] = true;
        if (writes) read[static_cast<size_t>(p.slot)] = true;
      });
    }
  }
}

void Builder::find_lifetimes() {
  std::vector<std::pair<size_t, int32_t>> order;
  for (size_t i = 0; i < plans_.size(); ++i)
    if (plans_[i].live && plans_[i].once) order.emplace_back(i, -1);
  for (size_t at = 0; at < schedule_.size(); ++at)
    for (const uint32_t i : schedule_[at]) order.emplace_back(i, static_cast<int32_t>(at));
  for (const auto& [i, position] : order) {
    const Plan& plan = plans_[i];
    const Step& s = t_.steps[i];
    each_place(s, [&](const Place& p, bool) {
      Memory& m = memory(p.slot);
      if (m.first < 0) m.first = position;
      m.last = std::max(m.last, position);
      m.touched = true;
      const Slot& slot = this->slot(p.slot);
      if (m.home != Home::None) return;
      if (slot.kind == Slot::Kind::Outside)
        fail(
            "an operation takes a tensor that is reached by none of the function's arguments, variables and "
            "their attributes");
      const bool made =
          std::ranges::any_of(t_.at(s.results), [&](const Place& r) { return r.slot == p.slot; });
      if (slot.kind == Slot::Kind::Number || (slot.kind == Slot::Kind::Given && !slot.writes && !m.escapes)) {
        m.home = Home::Constant;
        p_.place(p.slot, t_.bytes.data() + slot.bytes);
      } else if (slot.kind == Slot::Kind::Given) {
        m.home = m.escapes ? Home::Fresh : Home::Arena;
        m.first = -1;
      } else if (made) {
        m.home = plan.once              ? Home::Constant
                 : plan.how == How::Row ? Home::Kept
                 : m.escapes            ? Home::Fresh
                                        : Home::Arena;
      }
    });
  }
  // What nothing touches need not be there.
  std::erase_if(p_.outside_, [&](int32_t s) {
    return !memory(s).touched &&
           std::ranges::none_of(p_.ends_.outputs, [&](const Place& p) { return p.slot == s; });
  });
  // What only the links of one chain touch stays in its blocks.
  for (size_t s = 0; s < t_.slots.size(); ++s)
    if (Memory& m = memory(static_cast<int32_t>(s));
        m.home == Home::Arena && t_.slots[s].kind == Slot::Kind::Made && m.first >= 0 && m.first == m.last &&
        schedule_[static_cast<size_t>(m.first)].size() > 1)
      m.home = Home::Block;
  for (size_t s = 0; s < t_.slots.size(); ++s) {
    Memory& m = memory(static_cast<int32_t>(s));
    if (m.escapes && m.home == Home::None && t_.slots[s].kind == Slot::Kind::Given) m.home = Home::Fresh;
    if (m.escapes && m.home == Home::None) fail("a result was made by what is not followed");
    if (m.home == Home::Kept) p_.kept_.push_back(static_cast<int32_t>(s));
    if (m.home == Home::Constant && t_.slots[s].kind == Slot::Kind::Made) {
      m.keep = empty(IntList{{static_cast<int64_t>(t_.slots[s].nbytes)}}, DType::UInt8);
      p_.place(static_cast<int32_t>(s), m.keep.bytes());
    }
    if (m.home != Home::Fresh) continue;
    p_.fresh_.push_back(static_cast<int32_t>(s));
    p_.kept_.push_back(static_cast<int32_t>(s));
    m.sizes = Dims{static_cast<int64_t>(t_.slots[s].nbytes)};
    m.dtype = DType::UInt8;
    for (size_t i = 0; i < std::min(p_.ends_.outputs.size(), p_.ends_.whole_from); ++i)
      if (const Place& p = p_.ends_.outputs[i];
          p.slot == static_cast<int32_t>(s) && whole(t_.slots[s], t_.geometry(p), p)) {
        m.sizes = t_.geometry(p).sizes;
        m.dtype = t_.geometry(p).dtype;
      }
  }
}

void Builder::lay_out_arena() {
  std::map<size_t, size_t> holes;  // where, how many bytes
  size_t end = 0;
  // Numbers lie closer together than vectors.
  const auto rounded = [](size_t n) { return n <= 16 ? size_t{16} : (n + 63) & ~size_t{63}; };
  const auto take = [&](size_t bytes) {
    auto best = holes.end();
    for (auto h = holes.begin(); h != holes.end(); ++h)
      if (h->second >= bytes && (best == holes.end() || h->second < best->second)) best = h;
    if (best == holes.end()) {
      const size_t at = end;
      end += bytes;
      return at;
    }
    const auto [at, size] = *best;
    holes.erase(best);
    if (size > bytes) holes[at + bytes] = size - bytes;
    return at;
  };
  const auto give = [&](size_t at, size_t bytes) {
    const auto next = holes.lower_bound(at);
    if (next != holes.end() && at + bytes == next->first) {
      bytes += next->second;
      holes.erase(next);
    }
    const auto after = holes.lower_bound(at);
    if (after != holes.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == at) {
        before->second += bytes;
        return;
      }
    }
    holes[at] = bytes;
  };
  std::vector<std::vector<int32_t>> born(schedule_.size() + 1), dies(schedule_.size() + 1);
  for (size_t s = 0; s < t_.slots.size(); ++s) {
    const Memory& m = memory(static_cast<int32_t>(s));
    if (m.home != Home::Arena || m.last < 0) continue;
    born[static_cast<size_t>(m.first + 1)].push_back(static_cast<int32_t>(s));
    dies[static_cast<size_t>(m.last + 1)].push_back(static_cast<int32_t>(s));
  }
  for (size_t i = 0; i < born.size(); ++i) {
    for (const int32_t s : born[i]) {
      Memory& m = memory(s);
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
          if (o.home == Home::Arena && o.last == static_cast<int32_t>(i - 1) && o.first >= 0 &&
              o.first < o.last && slot(p.slot).nbytes == slot(s).nbytes &&
              whole(slot(p.slot), t_.geometry(p), p) &&
              itemsize(t_.geometry(p).dtype) == itemsize(t_.geometry(plan.out).dtype))
            takes = p.slot;
        }
      }
      auto& dying = dies[i];
      if (const auto d = std::ranges::find(dying, takes); takes >= 0 && d != dying.end()) {
        m.arena = memory(takes).arena;
        dying.erase(d);
      } else {
        m.arena = take(bytes);
      }
    }
    for (const int32_t s : dies[i]) give(memory(s).arena, rounded(slot(s).nbytes));
  }
  p_.arena_bytes_ = end;
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
      if (plans_[i].how == How::Guard || (plans_[i].how == How::Row && !s.op->writes_lists))
        fallible.push_back(static_cast<int32_t>(at));
      each_place(s, [&](const Place& p, bool writes) {
        if (!writes || slot(p.slot).kind != Slot::Kind::Outside) return;
        memory(p.slot).writer = s.op->name;
        const auto [begin, end] = extent(t_.geometry(p), p);
        Written& w = written[p.slot];
        if (w.first < 0) w = {static_cast<int32_t>(at), begin, end};
        w.begin = std::min(w.begin, begin);
        w.end = std::max(w.end, end);
      });
    }
  size_t bytes = 0;
  for (const auto& [s, w] : written)
    if (!fallible.empty() && fallible.back() >= w.first) {
      p_.saved_.push_back({s, w.begin, w.end});
      bytes += static_cast<size_t>(w.end - w.begin);
    }
  p_.undo_.resize(bytes);
  p_.draws_ &= !fallible.empty();
}

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
  p_.walks_.push_back(std::move(walk));
  append(Program::Kind::Walk, p_.walks_.size() - 1);
}

void Builder::emit_chain(const std::vector<uint32_t>& steps) {
  auto chain = std::make_unique<Program::Chain>();
  chain->n = t_.geometry(plans_[steps[0]].out).numel;
  chain->links.resize(steps.size());
  size_t numbers = 0;
  std::map<int32_t, size_t> last;  // of slots that stay in blocks: the last link
  for (size_t k = 0; k < steps.size(); ++k) {
    const Plan& plan = plans_[steps[k]];
    chain->buffer_bytes = std::max(chain->buffer_bytes, 512 * itemsize(t_.geometry(plan.out).dtype));
    for (size_t i = 0; i < plan.in.size(); ++i) {
      if (plan.in[i].slot < 0) continue;
      chain->buffer_bytes = std::max(chain->buffer_bytes, 512 * itemsize(t_.geometry(plan.in[i]).dtype));
      numbers += plan.call.constant >> i & 1;
      last[plan.in[i].slot] = k;
    }
    last[plan.out.slot] = k;
  }
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
      p_.guards_.push_back({nullptr, s.bytes});
      point(&p_.guards_.back().at, t_.at(s.results)[0]);
      return append(Program::Kind::Guard, p_.guards_.size() - 1);
    }
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
    row->tensors = {tensor(plan.out), tensor(t_.at(t_.arguments[s.arguments.begin].list)[0])};
  } else {
    fill_values(s, row->values, row->tensors, row->ints, row->out);
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
