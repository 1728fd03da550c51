#include "replay/trace.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "dispatch/declared.h"
#include "dispatch/named.h"
#include "for_size.h"
#include "ops/part.h"
#include "ops/shape.h"
#include "tensor/sparse.h"

namespace adjoint::replay {

namespace {

/// Elements that the program gives are kept up to this size.
constexpr size_t kMostGiven = 4096;
/// Elements that are read are compared with those that were found up to this size.
constexpr size_t kMostCompared = 1024;

/// Bit for bit: a NaN equals itself, and -0 is not 0.
bool same_plain(Form form, const Value& a, const Value& b) {
  switch (form) {
    case Form::Scalar: {
      if (a.scalar.kind() != b.scalar.kind()) return false;
      if (a.scalar.is_integral()) return a.scalar.as_int() == b.scalar.as_int();
      const auto x = a.scalar.as_complex(), y = b.scalar.as_complex();
      return std::memcmp(&x, &y, sizeof x) == 0;
    }
    case Form::Int:
      return a.i == b.i;
    case Form::Float:
      return std::memcmp(&a.d, &b.d, sizeof a.d) == 0;
    case Form::Bool:
      return a.b == b.b;
    case Form::Type:
      return a.type == b.type;
    default:
      return true;
  }
}

bool is_plain(Form form) {
  return form == Form::Scalar || form == Form::Int || form == Form::Float || form == Form::Bool ||
         form == Form::Type;
}

/// Passes of several threads are not followed.
struct OtherThread final : Observer {
  Ref<Observer> for_thread() const override { return Ref<Observer>::steal(new OtherThread); }
};

}  // namespace

bool Trace::alike(const Step& a, const Step& b) const {
  if (a.kind != b.kind || a.form != b.form || a.op != b.op || a.arguments.size() != b.arguments.size())
    return false;
  std::vector<std::pair<int32_t, int32_t>> slots_of_both;
  const auto same_places = [&](std::span<const Place> x, std::span<const Place> y) {
    return std::ranges::equal(x, y, [&](const Place& p, const Place& q) {
      if (p.slot < 0 || q.slot < 0) return p.slot == q.slot;
      for (const auto& [s, t] : slots_of_both)
        if ((s == p.slot) != (t == q.slot)) return false;
      slots_of_both.emplace_back(p.slot, q.slot);
      const Slot &s = slots[static_cast<size_t>(p.slot)], &t = slots[static_cast<size_t>(q.slot)];
      return p.geometry == q.geometry && p.offset == q.offset && s.nbytes == t.nbytes &&
             (s.kind == Slot::Kind::Number) == (t.kind == Slot::Kind::Number) &&
             (s.kind != Slot::Kind::Number ||
              std::memcmp(bytes.data() + s.bytes, bytes.data() + t.bytes, s.nbytes) == 0);
    });
  };
  const auto part = [](const auto& list, Range r) { return std::span(list).subspan(r.begin, r.size()); };
  for (uint32_t i = 0; i < a.arguments.size(); ++i) {
    const Argument &x = arguments[a.arguments.begin + i], &y = arguments[b.arguments.begin + i];
    if (x.form != y.form || x.present != y.present) return false;
    if (!x.present) continue;
    const bool same = x.form == Form::Tensor || x.form == Form::Tensors ? same_places(at(x.list), at(y.list))
                      : x.form == Form::Ints ? std::ranges::equal(part(ints, x.list), part(ints, y.list))
                      : x.form == Form::Floats
                          ? std::ranges::equal(part(floats, x.list), part(floats, y.list))
                      : x.form == Form::Text ? std::ranges::equal(part(bytes, x.list), part(bytes, y.list))
                                             : !is_plain(x.form) || same_plain(x.form, plain(x), plain(y));
    if (!same) return false;
  }
  return same_places(at(a.out), at(b.out)) && same_places(at(a.results), at(b.results));
}

std::string Trace::difference(const Trace& o) const {
  const size_t n = std::min(steps.size(), o.steps.size());
  const auto name = [](const Step& s) {
    return s.kind == Step::Kind::Read ? std::string("a number that is read")
           : s.op                     ? std::string(s.op->name)
                                      : std::string("a copy");
  };
  for (size_t i = 0; i < n; ++i)
    if (!(steps[i] == o.steps[i]))
      return text("operation ", i + 1, " is ", name(o.steps[i]), ", and was ", name(steps[i]));
  if (steps.size() != o.steps.size())
    return text(o.steps.size(), " operations ran, and ", steps.size(), " before");
  for (const Step& s : steps) {
    for (uint32_t k = s.arguments.begin; k < s.arguments.end; ++k)
      if (const Argument &a = arguments[k], &b = o.arguments[k];
          a.form != b.form || a.present != b.present || !(a.list == b.list) ||
          (a.present && is_plain(a.form) && !same_plain(a.form, plain(a), o.plain(b))))
        return text("an argument of ", name(s), " is another at each call");
    if (s.kind == Step::Kind::Read &&
        std::memcmp(bytes.data() + s.bytes.begin, o.bytes.data() + s.bytes.begin, s.bytes.size()) != 0)
      return "a number that is read is another at each call";
  }
  const auto bits = [](double x) { return std::bit_cast<uint64_t>(x); };
  if (ints != o.ints || !std::ranges::equal(floats, o.floats, {}, bits, bits))
    return "an argument is another list of numbers at each call";
  if (generators != o.generators) return "it draws from another generator at each call";
  if (places != o.places || slots != o.slots) return "the same operations ran on other memory";
  if (geometries.size() != o.geometries.size() ||
      !std::equal(geometries.begin(), geometries.end(), o.geometries.begin()))
    return "shapes differ";
  if (bytes != o.bytes) return "a tensor that the program makes of numbers has others at each call";
  return "";
}

Trace Trace::part(Range of) const {
  return {slots,      geometries, {steps.begin() + of.begin, steps.begin() + of.end},
          places,     arguments,  plains,
          ints,       floats,     bytes,
          generators, numbers,    items,
          refused};
}

void Trace::shrink() {
  const auto all = [](auto&... lists) { (lists.shrink_to_fit(), ...); };
  all(slots, geometries, steps, places, arguments, plains, ints, floats, bytes);
}

size_t Trace::bytes_held() const {
  return slots.capacity() * sizeof(Slot) + geometries.capacity() * sizeof(Geometry) +
         steps.capacity() * sizeof(Step) + places.capacity() * sizeof(Place) +
         arguments.capacity() * sizeof(Argument) + plains.capacity() * sizeof(Value) + ints.capacity() * 8 +
         floats.capacity() * 8 + bytes.capacity();
}

Tracer::Tracer(std::string (*where)()) : where_(where) {
  constexpr size_t kFew = 64;  // so that short programs ask for memory once
  trace.slots.reserve(kFew);
  versions_.reserve(kFew);
  trace.geometries.reserve(8);
  trace.steps.reserve(kFew);
  trace.places.reserve(4 * kFew);
  trace.arguments.reserve(4 * kFew);
  trace.plains.reserve(kFew);
}

void Tracer::refuse(const std::string& why) {
  if (trace.refused.empty()) {
    const std::string line = where_ ? where_() : "";
    trace.refused = line.empty() ? why : why + " (" + line + ")";
  }
}

void Tracer::fork() {
  forked_ = true;
  if (draws_) refuse("it draws random numbers, and draws the same again (a checkpoint)");
}

Ref<Observer> Tracer::for_thread() const {
  const_cast<Tracer*>(this)->refuse("a backward pass runs in several threads");
  return Ref<Observer>::steal(new OtherThread);
}

uint32_t Tracer::geometry(const Tensor& t) {
  const auto is = [&](const Geometry& g) {
    return g.numel == t.numel() && g.dtype == t.dtype() && same(g.sizes.span(), t.sizes()) &&
           same(g.strides.span(), t.strides());
  };
  // Programs have few shapes, and the last ones come again.
  for (size_t i = trace.geometries.size(); i-- > 0;)
    if (is(trace.geometries[i])) return static_cast<uint32_t>(i);
  trace.geometries.push_back({t.dtype(), t.is_contiguous(), t.numel(), Dims(t.sizes()), Dims(t.strides())});
  return static_cast<uint32_t>(trace.geometries.size() - 1);
}

int32_t Tracer::slot(const Tensor& t, Slot::Kind kind) {
  Storage* const storage = owner_of_bytes(t->storage);
  Slot s{kind, 0, storage->nbytes};
  if (kind == Slot::Kind::Given || kind == Slot::Kind::Number) {
    if (storage->nbytes > kMostGiven || storage->kind == Storage::Kind::External)
      refuse(text("a tensor of ", storage->nbytes,
                  " bytes is made of elements that the program gives: make it outside, and pass it"));
    else {
      trace.bytes.resize((trace.bytes.size() + 15) & ~size_t{15});  // elements of any type may lie there
      s.bytes = trace.bytes.size();
      trace.bytes.insert(trace.bytes.end(), storage->data, storage->data + storage->nbytes);
    }
  } else if (kind == Slot::Kind::Outside) {
    held_.push_back(Ref<Storage>::share(storage));
  }
  const auto number = static_cast<int32_t>(trace.slots.size());
  trace.slots.push_back(s);
  versions_.push_back(storage->version.load(std::memory_order_relaxed));
  if (kind != Slot::Kind::Number) at_.put(storage, number);
  return number;
}

uint32_t* Tracer::version(int32_t slot, Storage* storage, uint32_t& now) {
  Storage* const owner = owner_of_bytes(storage);
  const auto k = static_cast<size_t>(slot);
  const bool own = storage == owner || trace.slots[k].kind != Slot::Kind::Outside;
  now = (own ? owner : storage)->version.load(std::memory_order_relaxed);
  if (own) return &versions_[k];
  const auto [at, is_new] = counted_.try_emplace(storage, now);
  if (is_new) held_.push_back(Ref<Storage>::share(storage));
  return is_new ? nullptr : &at->second;
}

Place Tracer::place(const Tensor& t, uint32_t writes) {
  if (!t.defined()) return {};
  // Of a tensor with a tangent, calls down here take what it is without it.
  if (t->flags & TensorImpl::kNotAsTheyLie) {
    refuse(is_sparse(t) ? "sparse tensors are not followed" : "a tensor is on another device");
    return {};
  }
  Storage* const storage = owner_of_bytes(t->storage);
  int32_t number;
  if (t.is_wrapped()) {
    number = slot(t, Slot::Kind::Number);
  } else if (const int32_t found = at_.find(storage); found >= 0) {
    number = found;
  } else {
    number = slot(t, Slot::Kind::Outside);
    versions_[static_cast<size_t>(number)] -= writes;
  }
  uint32_t now = 0;
  const uint32_t* const known = version(number, t->storage, now);
  if (known && now != *known + writes) refuse("a tensor was written by what is not followed");
  return {number, geometry(t), t.bytes() - storage->data};
}

Place Tracer::result(const Tensor& t) {
  if (!t.defined()) return {};
  return {slot(t, Slot::Kind::Made), geometry(t), t.bytes() - owner_of_bytes(t->storage)->data};
}

Range Tracer::keep(std::span<const Tensor> tensors) {
  Range r{static_cast<uint32_t>(trace.places.size()), 0};
  for (const Tensor& t : tensors) trace.places.push_back(place(t));
  r.end = static_cast<uint32_t>(trace.places.size());
  return r;
}

void Tracer::add(const Call& call, std::span<const Tensor> results, bool announced) {
  if (!trace.refused.empty()) return;
  const Operator& op = call.op;
  if (const DeclaredOperator* const declared = of_program(op))
    if (const std::string why = declared->impure(); !why.empty())
      return refuse(text(op.name, "() is declared in Python, and ", why));
  draws_ = draws_ || op.draws;
  if (draws_ && forked_) return fork();
  // What is written is met at the version that it has now, and counted.
  std::unordered_map<const Storage*, uint32_t> writes;
  std::unordered_map<Storage*, uint32_t> counts;
  each_written(call, [&](const Tensor& t) {
    ++writes[owner_of_bytes(t->storage)];
    ++counts[t->storage];
  });
  for (const auto& [storage, n] : counts) {
    const int32_t found = at_.find(owner_of_bytes(storage));
    if (found < 0 || trace.slots[static_cast<size_t>(found)].kind == Slot::Kind::Outside)
      counts_[storage] += n;
    if (found < 0) continue;  // met below, for the first time
    uint32_t now = 0;
    if (uint32_t* const known = version(found, storage, now)) {
      if (now != *known + n) return refuse("a tensor was written by what is not followed");
      *known = now;
    }
    trace.slots[static_cast<size_t>(found)].writes += n;
  }
  each_written(call, [&](const Tensor& t) {
    if (const Storage* s = owner_of_bytes(t->storage); at_.find(s) < 0) {
      const int32_t number = slot(t, Slot::Kind::Outside);
      trace.slots[static_cast<size_t>(number)].writes = writes[s];
    }
  });
  std::string line;
  for (const auto& [storage, _] : writes)
    if (const int32_t s = at_.find(storage);
        where_ && trace.slots[static_cast<size_t>(s)].kind == Slot::Kind::Outside)
      if (const auto [at, is_new] = written_at_.try_emplace(s); is_new)
        at->second = line.empty() ? line = where_() : line;
  Step step;
  step.op = &op;
  step.form = call.form;
  step.arguments.begin = static_cast<uint32_t>(trace.arguments.size());
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const Value& v = call.arguments[i];
    Argument a{op.kinds[i]->form, v.present, {}};
    if (v.present) switch (a.form) {
        case Form::Tensor:
          a.list = keep({v.tensor, 1});
          break;
        case Form::Tensors:
          a.list = keep(v.tensors());
          break;
        case Form::Ints:
          a.list.begin = static_cast<uint32_t>(trace.ints.size());
          trace.ints.insert(trace.ints.end(), v.ints().begin(), v.ints().end());
          a.list.end = static_cast<uint32_t>(trace.ints.size());
          break;
        case Form::Floats:
          a.list.begin = static_cast<uint32_t>(trace.floats.size());
          trace.floats.insert(trace.floats.end(), v.floats().begin(), v.floats().end());
          a.list.end = static_cast<uint32_t>(trace.floats.size());
          break;
        case Form::Text:
          a.list.begin = static_cast<uint32_t>(trace.bytes.size());
          trace.bytes.insert(trace.bytes.end(), v.text().begin(), v.text().end());
          a.list.end = static_cast<uint32_t>(trace.bytes.size());
          break;
        case Form::Generator:
          if (v.generator) {
            auto& all = trace.generators;
            a.list.begin = static_cast<uint32_t>(std::ranges::find(all, v.generator) - all.begin());
            a.list.end = a.list.begin + 1;
            if (a.list.begin == all.size()) all.push_back(v.generator);
          }
          break;
        default:
          if (is_plain(a.form)) {
            a.list.begin = static_cast<uint32_t>(trace.plains.size());
            trace.plains.push_back(v);
            a.list.end = a.list.begin + 1;
          }
      }
    trace.arguments.push_back(a);
  }
  step.arguments.end = static_cast<uint32_t>(trace.arguments.size());
  if (&op == row_of<AsStrided> && argument_of<AsStrided, "storage_offset">(call.arguments.data()).present) {
    const Place p = trace.at(trace.arguments[step.arguments.begin].list)[0];
    if (p.slot >= 0 && trace.slots[static_cast<size_t>(p.slot)].kind == Slot::Kind::Outside)
      return refuse("as_strided() with an offset takes a tensor that was there before");
  }
  step.out = keep(call.out);
  // What is made lies in no memory that the call was given.
  const auto given = [&](const Tensor& t) {
    const Storage* s = owner_of_bytes(t->storage);
    if (writes.contains(s)) return true;
    const int32_t found = at_.find(s);
    if (found < 0) return false;
    for (uint32_t k = step.arguments.begin; k < step.arguments.end; ++k) {
      const Argument& a = trace.arguments[k];
      if (a.form != Form::Tensor && a.form != Form::Tensors) continue;
      for (const Place& p : trace.at(a.list))
        if (p.slot == found) return true;
    }
    return false;
  };
  bool makes = false;
  const auto first = static_cast<uint32_t>(trace.places.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& t = results[i];
    Place p;
    if (t.defined() && t->flags & TensorImpl::kNotAsTheyLie)
      return refuse(text(op.name, "() makes a tensor that is sparse or on another device"));
    if (!t.defined()) {
    } else if (given(t)) {
      p = place(t);
    } else {
      // Several results may lie in one memory.
      int32_t other = -1;
      for (size_t k = 0; k < i; ++k)
        if (results[k].defined() && results[k]->storage == t->storage) other = trace.places[first + k].slot;
      p = other < 0 ? result(t) : Place{other, geometry(t), t.bytes() - owner_of_bytes(t->storage)->data};
      makes = true;
    }
    trace.places.push_back(p);
  }
  step.results = {first, static_cast<uint32_t>(trace.places.size())};
  if (announced && &op == row_of<To>) step.kind = Step::Kind::Copy;
  // A view is a place.
  if (makes || !writes.empty() || op.draws) trace.steps.push_back(step);
}

void Tracer::computed(const Call& call, std::span<const Tensor> results) { add(call, results, false); }
void Tracer::announced(const Call& call, std::span<const Tensor> results) { add(call, results, true); }

void Tracer::told(const Notice& n) {
  // Who is told of it before it is done: what is undone is memory, not which memory a tensor has.
  if (tries_ && n.kind == Notice::Kind::Replaced)
    fail("jit: a call that is only tried gives a tensor other memory or another shape, by ", n.by);
  if (!trace.refused.empty()) return;
  switch (n.kind) {
    case Notice::Kind::Given:
      slot(n.tensor, Slot::Kind::Given);
      return;
    case Notice::Kind::Gradient:
      gradients_.try_emplace(n.tensor.get(), std::string_view(n.by) == "grad"
                                                 ? static_cast<int64_t>(trace.steps.size())
                                                 : int64_t{-1});
      return;
    case Notice::Kind::Replaced:
      return refuse(text("a tensor gets other memory or another shape, by ", n.by));
    case Notice::Kind::Read:
      break;
  }
  const Tensor& t = n.tensor;
  const auto nbytes = static_cast<size_t>(t.numel() * t.itemsize());
  // Of few elements, what they were is a decision. Who has their address may read, or write, again.
  const std::string_view by = n.by;
  const bool takes_address = by == "numpy" || by == "__dlpack__" || by == "data_ptr";
  if (t.numel() != 1 && (takes_address || !t.is_contiguous() || nbytes > kMostCompared))
    return refuse(text("the elements of a tensor are read, by ", n.by));
  Step step;
  step.kind = Step::Kind::Read;
  step.results = keep({&t, 1});
  if (!trace.refused.empty()) return;
  step.bytes = {static_cast<uint32_t>(trace.bytes.size()),
                static_cast<uint32_t>(trace.bytes.size() + nbytes)};
  trace.bytes.insert(trace.bytes.end(), t.bytes(), t.bytes() + nbytes);
  trace.items = trace.items || by == "item";
  trace.steps.push_back(step);
}

}  // namespace adjoint::replay
