#include "replay/program.h"

#include <chrono>
#include <cmath>
#include <cstring>

#include "autograd/views.h"
#include "dispatch/declared.h"
#include "kernels/copy.h"
#include "replay/builder.h"
#include "runtime/interrupt.h"
#include "runtime/parallel.h"
#include "runtime/random.h"
#include "runtime/scratch.h"
#include "tensor/number.h"

namespace adjoint::replay {

Program::Program(const Trace& trace, Range steps, const Ends& ends, Picture* picture)
    : trace_(trace.part(steps)), ends_(ends) {
  if (ends_.passes) {
    for (size_t k = ends_.spent_from; k < ends_.inputs.size(); ++k)
      trace_.slots[static_cast<size_t>(ends_.inputs[k].slot)].kind = Slot::Kind::Outside;
    for (Slot& s : trace_.slots)
      if (s.kind == Slot::Kind::Outside) s.writes = 0;
  }
  Builder(*this).build(picture);
  counted_.set(bytes_held() - bytes_of_tensors());  // which the allocator counts
}
Program::~Program() = default;

void Program::place(int32_t slot, char* base) {
  Memory& m = memory_[static_cast<size_t>(slot)];
  m.base = base;
  if (m.frame) m.frame->data = base;
  for (int32_t i = m.pointers; i >= 0; i = pointers_[static_cast<size_t>(i)].next) {
    const Pointer<void>& p = pointers_[static_cast<size_t>(i)];
    *static_cast<char**>(p.at) = base + p.offset;
  }
  for (int32_t i = m.tensors; i >= 0; i = tensors_[static_cast<size_t>(i)].next)
    tensors_[static_cast<size_t>(i)].at->data = base + tensors_[static_cast<size_t>(i)].offset;
}

/// Whether memory that is written block by block shares bytes with other outside memory, as only what belongs
/// to others can.
bool Program::overlap(std::span<const Tensor> inputs) const {
  const auto owner = [&](int32_t s) {
    return owner_of_bytes(inputs[static_cast<size_t>(memory_[static_cast<size_t>(s)].input)]->storage);
  };
  for (const int32_t s : chained_) {
    const Storage* const a = owner(s);
    if (a->kind != Storage::Kind::External) continue;
    for (const int32_t other : outside_) {
      const Storage* const b = owner(other);
      if (other != s && a->data < b->data + b->nbytes && b->data < a->data + a->nbytes) return true;
    }
  }
  return false;
}

namespace {

/// A row that made something else than when it was recorded.
struct AnotherWay {};

}  // namespace

void Program::run_row(Row& row) {
  Results r;
  if (const DeclaredOperator* const op = of_program(*row.op); !op)
    compute_row(*row.op, row.form, row.arguments, r);
  else if (!compute_row_of_program(*op, row.form, row.arguments, r))
    throw AnotherWay();
  if (row.op->elementwise && row.form != CallForm::Function) return;
  const std::span<const Tensor> made = r.all();
  if (made.size() != row.makes.size()) throw AnotherWay();
  for (size_t i = 0; i < made.size(); ++i) {
    const Place& p = trace_.places[row.results.begin + i];
    if (made[i].defined() != (p.slot >= 0)) throw AnotherWay();
    if (p.slot < 0) continue;
    if (!lies_as(made[i], trace_.geometry(p))) throw AnotherWay();
    if (row.makes[i] < 0) continue;
    Storage* const storage = made[i]->storage;
    if (made[i].bytes() - storage->data != p.offset) throw AnotherWay();
    Memory& m = memory_[static_cast<size_t>(p.slot)];
    m.keep = made[i];
    if (m.base != storage->data) place(p.slot, storage->data);
  }
}

void Program::supply(const Supply& s, const Drop* drop) {
  if (s.kind == Supply::Kind::Drop) {
    if (drop) (*drop)(static_cast<uint32_t>(s.slot));
    return;
  }
  Memory& m = memory_[static_cast<size_t>(s.slot)];
  if (s.kind == Supply::Kind::Give) return m.keep.reset();
  if (s.kind == Supply::Kind::TakeOver) {
    m.keep = std::move(memory_[static_cast<size_t>(s.from)].keep);
  } else if (m.made_as >= 0) {
    const Geometry& g = trace_.geometries[static_cast<size_t>(m.made_as)];
    m.keep = empty(g.sizes.span(), g.dtype);
  } else {
    m.keep = empty(IntList{{static_cast<int64_t>(trace_.slots[static_cast<size_t>(s.slot)].nbytes)}},
                   DType::UInt8);
  }
  if (m.keep.bytes() != m.base) place(s.slot, m.keep.bytes());
}

bool Program::run_all(std::span<const Run> runs, const Drop* drop) {
  for (const Run& run : runs) {
    switch (run.kind) {
      case Kind::Loops:
        for (const Loops *l = &loops_[run.begin], *end = l + (run.end - run.begin); l != end; ++l)
          l->loop(l->out, l->in, l->n, l->parameters);
        break;
      case Kind::Pass:
        for (uint32_t i = run.begin; i < run.end; ++i)
          passes_[i]->run(passes_[i]->steps.data(), passes_[i]->at.data(),
                          static_cast<int>(passes_[i]->steps.size()), passes_[i]->n);
        break;
      case Kind::Wide:
        for (uint32_t i = run.begin; i < run.end; ++i) wides_[i].call.run(wides_[i].out, wides_[i].n);
        break;
      case Kind::Gathered:
        for (uint32_t i = run.begin; i < run.end; ++i) gathered_[i]->call.run();
        break;
      case Kind::Walk:
        for (uint32_t i = run.begin; i < run.end; ++i) run_loop(walks_[i]->call, walks_[i]->out);
        break;
      case Kind::Chain:
        for (uint32_t i = run.begin; i < run.end; ++i) run_chain(*chains_[i]);
        break;
      case Kind::Move:
        for (uint32_t i = run.begin; i < run.end; ++i)
          std::memcpy(moves_[i].to, moves_[i].from, moves_[i].bytes);
        break;
      case Kind::Launch:
        for (const Launch *l = &launches_[run.begin], *end = l + (run.end - run.begin); l != end; ++l)
          if (l->routine->call(l->at)) return false;
        break;
      case Kind::Product:
        for (const Product *p = &products_[run.begin], *end = p + (run.end - run.begin); p != end; ++p)
          p->call.run(p->call);
        break;
      case Kind::Row:
        for (uint32_t i = run.begin; i < run.end; ++i) {
          Row& row = *rows_[i];
          if (row.copies)
            copy_into(row.arguments.tensors[0], row.arguments.tensors[1]);
          else
            run_row(row);
        }
        break;
      case Kind::Supply:
        for (uint32_t i = run.begin; i < run.end; ++i) supply(supplies_[i], drop);
        break;
      case Kind::Reading:
        for (const Reading *r = &readings_[run.begin], *end = r + (run.end - run.begin); r != end; ++r) {
          values_[reading_nodes_[r->nodes.begin]] = read_element(r->at, r->dtype);
          if (!compute_numbers({reading_nodes_.data() + r->nodes.begin, r->nodes.size()},
                               {targets_.data() + r->targets.begin, r->targets.size()}))
            return false;
        }
        break;
      case Kind::Guard:
        for (uint32_t i = run.begin; i < run.end; ++i)
          if (std::memcmp(guards_[i].at, trace_.bytes.data() + guards_[i].bytes.begin,
                          guards_[i].bytes.size()) != 0)
            return false;
        break;
    }
    if (run.checks) runtime::check_interrupt();
  }
  return true;
}

bool Program::run_timed(const Drop* drop) {
  const auto now = [] {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  };
  int64_t clock = std::numeric_limits<int64_t>::max();  // what it takes to look at it
  for (int k = 0; k < 16; ++k) {
    const int64_t begin = now();
    clock = std::min<int64_t>(clock, now() - begin);
  }
  size_t at = 0;
  for (const Run& run : runs_) {
    times_->least.resize(at + run.end - run.begin, std::numeric_limits<int64_t>::max());
    for (uint32_t i = run.begin; i < run.end; ++i, ++at) {
      const Run one{run.kind, i, i + 1};
      const int64_t begin = now();
      if (!run_all({&one, 1}, drop)) return false;
      times_->least[at] = std::min(times_->least[at], std::max<int64_t>(now() - begin - clock, 0));
    }
    if (run.checks) runtime::check_interrupt();
  }
  ++times_->runs;
  return true;
}

bool Program::compute_numbers(std::span<const uint32_t> nodes, std::span<const Target> targets) {
  for (const uint32_t n : nodes)
    if (!compute(trace_.numbers[n], values_.data(), n)) return false;
  for (const Target& t : targets) {
    const Scalar& value = values_[t.number];
    switch (t.kind) {
      case Target::Kind::Double:
        *static_cast<double*>(t.at) = t.negated ? -value.as_double() : value.as_double();
        break;
      case Target::Kind::Scalar:
        *static_cast<Scalar*>(t.at) = value;
        break;
      case Target::Kind::Element:
        // Others would be refused, or change the type that is computed in.
        if (!std::isfinite(value.as_double()) || !fits(value, t.dtype)) return false;
        write_element(static_cast<char*>(t.at), t.dtype, value);
        break;
    }
  }
  return true;
}

namespace {
/// What an output stands on that counts writes with another tensor, or for itself (`x.data`); null for
/// others.
Ref<Storage> count_of(const Relation& r, const Tensor& from, size_t output, std::span<const Tensor> inputs,
                      std::span<const Tensor> outputs) {
  if (r.count_of_input >= 0)
    return Ref<Storage>::share(inputs[static_cast<size_t>(r.count_of_input)]->storage);
  if (r.count_of_output < 0) return {};
  const auto first = static_cast<size_t>(r.count_of_output);
  if (first != output) return Ref<Storage>::share(outputs[first]->storage);
  Ref<Storage> own = recounted_storage(Ref<Storage>::share(from->storage), r.version, {});
  own->checked = true;
  return own;
}
}  // namespace

Program::Outcome Program::run(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                              std::vector<Scalar>& numbers, const Drop* drop) {
  struct Leave {
    Program& p;
    ~Leave() {
      for (const int32_t s : p.kept_) p.memory_[static_cast<size_t>(s)].keep.reset();
    }
  } leave{*this};
  if (!values_.empty()) {
    std::ranges::copy(numbers, values_.begin());
    if (!compute_numbers(first_nodes_, first_targets_)) return Outcome::Undone;
  }
  for (const int32_t s : outside_) {
    Memory& m = memory_[static_cast<size_t>(s)];
    const Tensor& t = inputs[static_cast<size_t>(m.input)];
    if (trace_.slots[static_cast<size_t>(s)].writes && t->storage->readonly) return Outcome::Undone;
    char* const base = t.bytes() - m.offset;
    if (base != m.base) place(s, base);
  }
  if (!chained_.empty() && overlap(inputs)) return Outcome::Undone;
  const NoInterpretation inner;
  if (arena_bytes_ && !arena_.defined()) {
    arena_ = empty(IntList{{static_cast<int64_t>(arena_bytes_ + 64)}}, DType::UInt8);
    char* const at =
        reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(arena_.bytes()) + 63) & ~uintptr_t{63});
    if (at != arena_at_) {
      arena_at_ = at;
      for (size_t s = 0; s < memory_.size(); ++s)
        if (memory_[s].home == Home::Arena) place(static_cast<int32_t>(s), at + memory_[s].offset);
    }
  }
  for (const int32_t s : fresh_) supply({Supply::Kind::Take, s}, nullptr);
  size_t kept = 0;
  for (const Saved& s : saved_) {
    std::memcpy(undo_.data() + kept, memory_[static_cast<size_t>(s.slot)].base + s.begin,
                static_cast<size_t>(s.end - s.begin));
    kept += static_cast<size_t>(s.end - s.begin);
  }
  std::vector<std::pair<runtime::Generator*, runtime::Generator::State>> drawn;
  if (draws_) drawn.emplace_back(&runtime::default_generator(), runtime::default_generator().state());
  for (runtime::Generator* const own : trace_.generators) drawn.emplace_back(own, own->state());
  const auto undo = [&] {
    size_t at = 0;
    for (const Saved& s : saved_) {
      std::memcpy(memory_[static_cast<size_t>(s.slot)].base + s.begin, undo_.data() + at,
                  static_cast<size_t>(s.end - s.begin));
      at += static_cast<size_t>(s.end - s.begin);
    }
    for (const auto& [generator, state] : drawn) generator->set_state(state);
  };
  bool done = false;
  try {
    done = times_ ? run_timed(drop) : run_all(runs_, drop);
  } catch (const runtime::Interrupted&) {
    undo();
    throw;
  } catch (...) {
    // Whatever it was, the program meets it by itself.
  }
  if (!done) {
    undo();
    return Outcome::Undone;
  }
  for (size_t k = 0; k < ends_.counts.size(); ++k)
    for (uint32_t n = ends_.counts[k]; n; --n)
      count_write(inputs[k], memory_[static_cast<size_t>(ends_.inputs[k].slot)].writer);
  for (size_t i = 0; i < ends_.outputs.size(); ++i) {
    const Place& p = ends_.outputs[i];
    if (p.slot < 0) continue;
    if (output_is_input_[i] >= 0) {
      outputs[i] = inputs[static_cast<size_t>(output_is_input_[i])];
      continue;
    }
    const Memory& m = memory_[static_cast<size_t>(p.slot)];
    const Tensor& from = m.home == Home::Outside ? inputs[static_cast<size_t>(m.input)] : m.keep;
    const Geometry& g = trace_.geometry(p);
    bool taken =
        m.home == Home::Outside || (i < ends_.relations.size() &&
                                    (ends_.relations[i].base_input & ends_.relations[i].base_output) != -1);
    for (size_t k = 0; k < i; ++k) taken |= outputs[k].get() == from.get();
    if (i < ends_.relations.size())
      if (Ref<Storage> count = count_of(ends_.relations[i], from, i, inputs, outputs)) {
        outputs[i] = over(std::move(count), g.dtype, g.sizes.span(), g.strides.span(), 0);
        outputs[i]->data = m.base + p.offset;
        continue;
      }
    if (i >= ends_.whole_from || (!taken && lies_as(from, g) && from.bytes() == m.base + p.offset)) {
      outputs[i] = from;
    } else {
      outputs[i] = over(Ref<Storage>::share(from->storage), g.dtype, g.sizes.span(), g.strides.span(), 0);
      outputs[i]->data = m.base + p.offset;
    }
  }
  for (size_t i = 0; i < ends_.outputs.size(); ++i)
    if (const Place& p = ends_.outputs[i];
        p.slot >= 0 && memory_[static_cast<size_t>(p.slot)].home != Home::Outside &&
        (i >= ends_.relations.size() || ends_.relations[i].count_of_output < 0))
      outputs[i]->storage->version.store(trace_.slots[static_cast<size_t>(p.slot)].writes,
                                         std::memory_order_relaxed);
  for (size_t i = 0; i < ends_.relations.size(); ++i)
    if (const Relation& r = ends_.relations[i]; r.same < 0 && outputs[i].defined())
      outputs[i]->set(TensorImpl::kInference, r.flags & TensorImpl::kInference);
  for (size_t i = 0; i < ends_.relations.size(); ++i) {
    const Relation& r = ends_.relations[i];
    if (r.base_input < 0 && r.base_output < 0) continue;
    const Tensor& base = r.base_input >= 0 ? inputs[static_cast<size_t>(r.base_input)]
                                           : outputs[static_cast<size_t>(r.base_output)];
    register_view(base, outputs[i], false);
    outputs[i]->flags = (outputs[i]->flags & ~TensorImpl::kSpecialView) | r.flags;
  }
  if (arena_bytes_ > kMostArena) arena_.reset();
  if (!values_.empty()) numbers = values_;
  return Outcome::Done;
}

Program::Statistics Program::statistics() const {
  Statistics s;
  s.operations = operations_;
  s.loops = loops_.size() + wides_.size() + gathered_.size() + walks_.size();
  for (const auto& pass : passes_) s.loops += pass->names.size();
  s.chains = chains_.size();
  for (const auto& chain : chains_) s.chained += chain->links.size() + (chain->folded.routine != nullptr);
  s.moves = moves_.size();
  const auto is_named = [](const auto& launch) { return launch.name != nullptr; };
  s.prepared = static_cast<size_t>(std::ranges::count_if(launches_, is_named) +
                                   std::ranges::count_if(products_, is_named));
  for (const Run& run : runs_)
    if (run.kind == Kind::Row) s.rows += run.end - run.begin;  // not those that were computed once
  s.guards = guards_.size();
  s.dropped = dropped_;
  s.constants = constants_;
  s.arena_bytes = arena_bytes_;
  s.bytes = bytes_held();
  return s;
}

size_t Program::bytes_of_tensors() const {
  const auto frames = std::ranges::count_if(memory_, [](const Memory& m) { return bool(m.frame); });
  return tensors_.size() * sizeof(TensorImpl) + static_cast<size_t>(frames) * sizeof(Storage);
}

size_t Program::bytes_held() const {
  const auto bytes = [](const auto& list) {
    return list.capacity() * sizeof(typename std::decay_t<decltype(list)>::value_type);
  };
  size_t all = trace_.bytes_held() + bytes(memory_) + bytes(pointers_) + bytes(tensors_) + bytes(runs_) +
               bytes(loops_) + bytes(moves_) + bytes(launches_) + bytes(products_) + bytes(guards_) +
               bytes(supplies_) + bytes(values_) + bytes(targets_) + bytes(readings_) + bytes(saved_) +
               undo_.capacity() + wides_.size() * sizeof(Wide) + gathered_.size() * sizeof(Gathered) +
               walks_.size() * sizeof(Walk) + bytes_of_tensors();
  for (const BoundLaunch& launch : bound_) all += launch.bytes_held();
  for (const auto& launches : prepared_) all += launches->bytes_held();
  for (const auto& walk : walks_) all += bytes(walk->in);
  for (const auto& row : rows_)
    all += sizeof(Row) + bytes(row->arguments.values) + bytes(row->arguments.tensors) +
           bytes(row->arguments.out) + bytes(row->makes);
  for (const auto& pass : passes_)
    all += sizeof(SmallPass) + bytes(pass->steps) + bytes(pass->at) + bytes(pass->names);
  for (const auto& c : chains_)
    all += sizeof(Chain) + bytes(c->links) + bytes(c->parts) + bytes(c->steps) + bytes(c->at) +
           bytes(c->numbers) + bytes(c->fills);
  for (const auto& [of, repeated] : repeated_) all += (of[2] >> 8) * (of[2] & 255) + 16;
  return all;
}

void Program::append_text(const Run& run, uint32_t i, std::string& all) const {
  switch (run.kind) {
    case Kind::Loops:
      all += adjoint::text("loop   ", loops_[i].name, " of ", loops_[i].n, "\n");
      break;
    case Kind::Pass:
      all += "loop   (";
      for (size_t k = 0; k < passes_[i]->names.size(); ++k)
        all += adjoint::text(k ? " " : "", passes_[i]->names[k]);
      all += adjoint::text(") of ", passes_[i]->n, "\n");
      break;
    case Kind::Wide:
      all += adjoint::text("loop   ", wides_[i].name, " of ", wides_[i].n, "\n");
      break;
    case Kind::Gathered:
      all += adjoint::text("loop   ", gathered_[i]->name, " of ", gathered_[i]->call.n, ", gathered\n");
      break;
    case Kind::Walk:
      all += adjoint::text("loop   ", walks_[i]->name, " of ", walks_[i]->out.numel(), ", strided\n");
      break;
    case Kind::Chain:
      all += chains_[i]->text();
      break;
    case Kind::Move:
      all += adjoint::text("move   ", moves_[i].bytes, " bytes\n");
      break;
    case Kind::Launch:
      if (launches_[i].name) all += adjoint::text("launch ", launches_[i].name, "\n");
      break;
    case Kind::Product:
      if (products_[i].name) all += adjoint::text("launch ", products_[i].name, "\n");
      break;
    case Kind::Row:
      all += adjoint::text("row    ", rows_[i]->op->name, "\n");
      break;
    case Kind::Guard:
      all += "guard  a number that is read\n";
      break;
    case Kind::Reading:
      all +=
          adjoint::text("number an element, and ", readings_[i].nodes.size() - 1, " that follow from it\n");
      break;
    case Kind::Supply:
      break;
  }
}

std::string Program::text(const Times& times) const {
  std::string all;
  int64_t took = 0, memory = 0;
  const auto tell = [&] {
    if (times.runs && !all.empty()) all.insert(all.size() - 1, adjoint::text(", ", took, " ns"));
    took = 0;
  };
  size_t at = 0;
  std::string line;
  for (const Run& run : runs_)
    for (uint32_t i = run.begin; i < run.end; ++i, ++at) {
      line.clear();
      append_text(run, i, line);
      if (!line.empty()) {
        tell();
        all += line;
      }
      // Launches without a name belong to the one before.
      if (times.runs) (run.kind == Kind::Supply ? memory : took) += times.least[at];
    }
  tell();
  if (times.runs && memory) all += adjoint::text("memory taken and given back, ", memory, " ns\n");
  return all;
}

void Program::Times::add(const Times& other) {
  if (!runs) least = other.least;
  for (size_t k = 0; k < least.size(); ++k) least[k] = std::min(least[k], other.least[k]);
  runs += other.runs;
}

}  // namespace adjoint::replay
