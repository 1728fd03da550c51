#include <bit>
#include <cstring>
#include <numeric>

#include "dispatch/elementwise_node.h"
#include "for_size.h"
#include "kernels/reducer.h"
#include "ops/creation.h"
#include "ops/writing.h"
#include "replay/builder.h"
#include "runtime/parallel.h"

namespace adjoint::replay {

/// Rows that make more bytes are not prepared.
static constexpr size_t kMostPrepared = size_t{1} << 20;

const double* Builder::kept(const double* parameters, int n) {
  if (!n) return nullptr;
  p_.parameters_.push_back(std::make_unique<double[]>(static_cast<size_t>(n)));
  std::copy_n(parameters, n, p_.parameters_.back().get());
  return p_.parameters_.back().get();
}

/// Whether an operator's check may read elements that change: numbers that do not fit the type are refused,
/// and integers that divide by zero. What the program gave is there already, and passed when it was recorded.
bool Builder::looks_at_elements(const ElementwiseInfo& op, const Tensor* in,
                                const std::vector<Place>& places) const {
  if (!op.check) return false;
  // A number fits its own type.
  const bool fits = is_floating(in[0].dtype()) && std::all_of(in, in + op.arity, [&](const Tensor& t) {
                      return t.dtype() == in[0].dtype();
                    });
  for (size_t i = 0; i < static_cast<size_t>(op.arity); ++i) {
    const Memory& m = p_.memory_[static_cast<size_t>(places[i].slot)];
    if ((!m.base || varies_[static_cast<size_t>(places[i].slot)]) &&
        ((in[i].dim() == 0 && !fits) || (is_integral(in[i].dtype()) && in[i].dtype() != DType::Bool)))
      return true;
  }
  return false;
}

void Builder::operands_of(const Step& s, bool stand_in, Operands& all) {
  all.assign(t_, s, [&](const Place& p) {
    return !stand_in ? tensor(p) : p.slot < 0 ? Tensor() : this->stand_in(p);
  });
  all.places.clear();
  for (uint32_t k = s.arguments.begin; k < s.arguments.end; ++k)
    if (const Argument& a = t_.arguments[k]; a.form == Form::Tensor && (a.present || !s.op->elementwise))
      all.places.push_back(a.present ? t_.at(a.list)[0] : Place{});
}

bool Builder::plan_loop(const Step& s, const Operands& operands, Plan& plan) {
  const std::vector<Value>& values = operands.values;
  const std::vector<Place>& places = operands.places;
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
    Resolved r;
    if (static_cast<int>(places.size()) != c.op.arity || looks_at_elements(c.op, c.in, places) ||
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
    plan.call.parameters = kept(c.parameters, plan.parameters = c.op.parameters);
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
  plan.call.parameters = kept(parameters, plan.parameters = op.parameters);
  plan.in[0] = places[0];
  const int takes = op.takes[derivative->input];
  for (int k = 0; k < 4; ++k)
    if (takes >> k & 1)
      plan.in[static_cast<size_t>(k + 1)] = places[static_cast<size_t>(k == 3 ? 1 + op.arity : 1 + k)];
  return true;
}

bool Builder::plan_walk(const Step& s, const Operands& operands, Plan& plan) {
  const bool inplace = s.form == CallForm::InPlace;
  if ((s.form != CallForm::Function && !inplace) || t_.at(s.results).size() != 1) return false;
  const Place result = t_.at(s.results)[0];
  const Geometry& g = t_.geometry(result);
  if (result.offset || static_cast<size_t>(g.numel * itemsize(g.dtype)) != slot(result.slot).nbytes)
    return false;
  const std::vector<Value>& values = operands.values;
  const std::vector<Place>& places = operands.places;
  LoopCall& call = plan.walk;
  plan.in = {};
  plan.out = result;
  plan.name = s.op->name;
  if (s.op->elementwise) {
    const Unboxed c(*s.op, values.data());
    const ElementwiseInfo& op = c.op;
    if (static_cast<int>(places.size()) != op.arity || looks_at_elements(op, c.in, places)) return false;
    Dims shape;
    const Resolved r = resolve(op, c.in, inplace, shape);
    const DType type = compute_dtype(r.type);
    // In place: of whole memory that no other operand lies in.
    if (inplace && (!(result == places[0]) || !g.contiguous || type != g.dtype ||
                    std::count_if(places.begin(), places.end(),
                                  [&](const Place& p) { return p.slot == result.slot; }) != 1))
      return false;
    plan.inplace = inplace;
    if (r.result_type != g.dtype || !same(r.sizes, g.sizes.span()) || op.identity >> index_of(r.type) & 1)
      return false;
    call = {op.loops.forward[loop_slot(type)], kept(c.parameters, op.parameters), op.parameters};
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
  if (!derivative || inplace || !g.contiguous) return false;
  const ElementwiseInfo& op = *derivative->of;
  double parameters[kMostParameters];
  for (int k = 0; k < op.parameters; ++k) parameters[k] = values[2 + op.arity + k].d;
  const DType type = compute_dtype(values[2 + op.arity + op.parameters].type);
  call = {op.loops.backward[derivative->input][loop_slot(type)], kept(parameters, op.parameters),
          op.parameters};
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

/// Element-wise calls of the same operands are one: later ones go, and their results are the first one's.
void Builder::merge_equal() {
  // Of calls that could be equal to later ones, the last, by operator and operands; of each the one before.
  std::vector<int32_t> last(std::bit_ceil(2 * t_.steps.size()), -1), before(t_.steps.size(), -1);
  const auto place_of = [&](const Operator* op, const std::vector<Place>& taken) -> int32_t& {
    uint64_t h = reinterpret_cast<uintptr_t>(op) >> 4;
    for (const Place& p : {taken.front(), taken.back()}) {
      uint64_t which = static_cast<uint32_t>(p.slot);
      if (p.slot >= 0 && slot(p.slot).kind == Slot::Kind::Number)
        std::memcpy(&which, t_.bytes.data() + slot(p.slot).bytes,
                    std::min(sizeof which, slot(p.slot).nbytes));
      h = (h ^ which) * 0x9E3779B97F4A7C15u;
      h ^= h >> 32;
    }
    return last[h & (last.size() - 1)];
  };
  std::vector<Place> taken;
  std::vector<int32_t> now(t_.slots.size());  // which slot stands for each
  std::iota(now.begin(), now.end(), 0);
  bool renamed = false;
  const auto lasting = [&](const Place& p) { return p.slot < 0 || !slot(p.slot).writes; };
  for (size_t i = 0; i < t_.steps.size(); ++i) {
    Step& s = t_.steps[i];
    const auto rename = [&](Range r) {
      for (uint32_t k = r.begin; k < r.end; ++k)
        if (Place& p = t_.places[k]; p.slot >= 0) p.slot = now[static_cast<size_t>(p.slot)];
    };
    if (renamed) {
      each_list(s, rename);
      rename(s.results);  // of a read, and of what gives an operand back
    }
    if (s.kind != Step::Kind::Call || s.form != CallForm::Function || s.results.size() != 1 || s.op->draws ||
        steps_that_take_[i] || !(s.op->elementwise || derivative_of(*s.op)))
      continue;
    const Place made = t_.at(s.results)[0];
    taken.clear();
    each_list(s, [&](Range r) {
      for (const Place& p : t_.at(r)) taken.push_back(p);
    });
    if (slot(made.slot).kind != Slot::Kind::Made || taken.empty() || !lasting(made) ||
        !std::ranges::all_of(taken, lasting))
      continue;
    const auto is_same = [&](const Step& o) {
      size_t at = 0;
      bool equal = o.op == s.op && o.arguments.size() == s.arguments.size();
      if (equal)
        each_list(o, [&](Range r) {
          for (const Place& p : t_.at(r)) {
            equal = equal && at < taken.size() &&
                    (p == taken[at] || (p.slot >= 0 && slot(p.slot).kind == Slot::Kind::Number));
            ++at;
          }
        });
      return equal && at == taken.size() && t_.alike(o, s) && t_.at(o.results)[0].geometry == made.geometry;
    };
    int32_t& latest = place_of(s.op, taken);
    int32_t same = latest;
    while (same >= 0 && !is_same(t_.steps[static_cast<size_t>(same)]))
      same = before[static_cast<size_t>(same)];
    if (same < 0 || memory(made.slot).escapes || made.offset) {
      before[i] = std::exchange(latest, static_cast<int32_t>(i));
      continue;
    }
    now[static_cast<size_t>(made.slot)] = t_.at(t_.steps[static_cast<size_t>(same)].results)[0].slot;
    renamed = true;
    s.arguments = s.results = {};
  }
}

void Builder::plan_steps() {
  std::vector<char> keeps(t_.steps.size());  // whether numbers go to arguments that are no tensors
  for (const Number& n : p_.ends_.numbers)
    if (n.slot < 0 && n.step < keeps.size()) keeps[n.step] = true;
  Operands operands;
  for (size_t i = 0; i < plans_.size(); ++i) {
    const Step& s = t_.steps[i];
    Plan& plan = plans_[i];
    if (s.kind == Step::Kind::Call && !s.arguments.size() && !s.results.size()) {
      plan.how = How::Nothing;
      continue;
    }
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
    } else if (s.op->elementwise || derivative_of(*s.op)) {
      // What is planned keeps its parameters, and elements that it converts.
      operands_of(s, true, operands);
      if (!keeps[i] && plan_loop(s, operands, plan)) {
        plan.how = How::Loop;
      } else if (!steps_that_take_[i]) {
        operands_of(s, false, operands);
        if (plan_walk(s, operands, plan)) plan.how = How::Walk;
      }
      plan.spreads = plan.how == How::Walk && plan_spread(plan);
      // By itself it is what it was.
      if (plan.how == How::Walk && plan.inplace && !plan.spreads) plan.how = How::Row;
    }
  }
}

void Builder::plan_launches() {
  if (fill_uninitialized.load()) return;
  struct Known {
    const Step* step;
    std::shared_ptr<const Launches> launches;
  };
  std::map<const Operator*, std::vector<Known>> known;
  for (size_t i = 0; i < plans_.size(); ++i) {
    const Step& s = t_.steps[i];
    Plan& plan = plans_[i];
    if (plan.how != How::Row || !plan.live || plan.once || s.kind != Step::Kind::Call) continue;
    // Launches keep the numbers that they were made with.
    if (steps_that_take_[i]) continue;
    auto& others = known[s.op];
    auto k = std::ranges::find_if(others, [&](const Known& o) { return t_.alike(*o.step, s); });
    if (k == others.end()) k = others.insert(k, {&s, prepare(t_, s)});
    if (!k->launches) continue;
    size_t bytes = 0;
    for (const size_t n : k->launches->made) bytes += n;
    for (const Place& p : t_.at(s.results)) bytes += p.slot < 0 ? 0 : slot(p.slot).nbytes;
    // Large memory is taken when it is needed and given back at once.
    if (bytes > kMostPrepared) continue;
    plan.how = How::Launch;
    plan.launches = k->launches;
    find_fold(s, plan);
    find_rows(s, plan);
    plan.sure = std::ranges::all_of(k->launches->calls,
                                    [](const Launches::Call& call) { return folds_rows(*call.routine); });
    for (const size_t n : plan.launches->made) {
      plan.aside.push_back(static_cast<int32_t>(t_.slots.size()));
      t_.slots.push_back({Slot::Kind::Made, 0, n});
    }
  }
  p_.memory_.resize(t_.slots.size());
}

}  // namespace adjoint::replay
