// What a program did to elements, as data: the calls that an observer saw, over numbered memory.
//
// A trace knows no tensor and no address. Each memory that a call met is a SLOT; a tensor is a PLACE: a slot,
// a geometry, and where in the slot its first element lies. So views, detached tensors and what nodes keep
// need no entry of their own: they are other places in the same slot.
//
// A memory is known when it was there before (OUTSIDE: an argument, a weight), when the program gave its
// elements (GIVEN, which are kept), or when a seen call made it. It is also known at which version it was
// left: a tensor that comes by otherwise was written by nobody who was seen, and the trace is refused. So a
// place in the core that was forgotten costs speed, never an answer.
//
// Start reading at `Tracer::call` (trace.cpp). See Note: replay.
#pragma once

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "replay/numbers.h"
#include "transforms/interpreter.h"

namespace adjoint::replay {

struct Geometry {
  DType dtype;
  bool contiguous;
  int64_t numel;
  Dims sizes, strides;
  bool operator==(const Geometry& o) const {
    return dtype == o.dtype && same(sizes.span(), o.sizes.span()) && same(strides.span(), o.strides.span());
  }
};

struct Place {
  int32_t slot = -1;  // none: the tensor is left out
  uint32_t geometry = 0;
  int64_t offset = 0;  // in bytes, from the beginning of the slot
  bool operator==(const Place&) const = default;
};

struct Slot {
  enum class Kind : uint8_t { Outside, Given, Number, Made } kind;
  /// How often it is written. By so much the version of what is made goes up.
  uint32_t writes = 0;
  size_t nbytes;
  /// Of Given and Number: where its bytes begin in Trace::bytes.
  size_t bytes = 0;
  bool operator==(const Slot&) const = default;
};

/// A part of one of the trace's lists.
struct Range {
  uint32_t begin = 0, end = 0;
  uint32_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// One argument, which lies in the lists of the trace: tensors, numbers of a list, one plain value.
struct Argument {
  Form form;
  bool present;
  Range list;
};

struct Step {
  enum class Kind : uint8_t { Call, Copy, Read } kind = Kind::Call;
  CallForm form = CallForm::Function;
  const Operator* op = nullptr;
  Range arguments;     // Trace::arguments
  Range out, results;  // Trace::places
  Range bytes;         // of a Read: what was found, in Trace::bytes
  bool operator==(const Step&) const = default;
};

struct Trace {
  std::vector<Slot> slots;
  std::vector<Geometry> geometries;
  std::vector<Step> steps;
  std::vector<Place> places;
  std::vector<Argument> arguments;
  std::vector<Value> plains;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::vector<char> bytes;
  /// Those that calls were given to draw from. Who replays it keeps them.
  std::vector<runtime::Generator*> generators;
  /// What Python computes of numbers that vary, where it was tracked.
  std::vector<NumberNode> numbers;
  /// Whether elements were read as numbers (`item()`).
  bool items = false;
  /// Why it cannot be replayed; empty where it can.
  std::string refused;

  Value& plain(const Argument& a) { return plains[a.list.begin]; }
  const Value& plain(const Argument& a) const { return plains[a.list.begin]; }
  std::span<const Place> at(Range r) const { return {places.data() + r.begin, r.size()}; }
  const Geometry& geometry(const Place& p) const { return geometries[p.geometry]; }
  /// The bytes that a place covers, from the beginning of its slot.
  std::pair<int64_t, int64_t> extent(const Place& p) const {
    const Geometry& g = geometry(p);
    if (g.numel == 0) return {p.offset, p.offset};
    int64_t last = 0;
    for (size_t i = 0; i < g.sizes.size(); ++i) last += (g.sizes[i] - 1) * g.strides[i];
    return {p.offset, p.offset + (last + 1) * itemsize(g.dtype)};
  }
  /// f(place, written) of each place that a step touches.
  template <class F>
  void each_place(const Step& s, F&& f) const;
  /// Whether a slot has results of the step.
  bool gives(const Step& s, int32_t slot) const {
    return std::ranges::any_of(at(s.results), [&](const Place& p) { return p.slot == slot; });
  }
  /// Whether two steps are the same call, of tensors that lie alike in other memory.
  bool alike(const Step& a, const Step& b) const;
  /// Where two recordings of one program part, for people; empty where they are the same.
  std::string difference(const Trace& other) const;
  size_t bytes_held() const;
  /// Once it is written: no more memory than it takes.
  void shrink();
  /// The same with these steps alone.
  Trace part(Range steps) const;
};

/// The slot of each memory that was met: a table without chains.
class Slots {
 public:
  /// -1: none.
  int32_t find(const Storage* s) const {
    const auto& [key, slot] = entries_[place(s)];
    // Not what lies now where one lay that is gone: an unseen call may have made it.
    return key && s->marks.load(std::memory_order_relaxed) & Storage::kMet ? slot : -1;
  }
  void put(const Storage* s, int32_t slot) {
    if (2 * used_ >= entries_.size()) grow();
    auto& entry = entries_[place(s)];
    used_ += !entry.first;
    entry = {s, slot};
    const_cast<Storage*>(s)->mark(Storage::kMet);
  }

 private:
  size_t place(const Storage* s) const {
    const size_t mask = entries_.size() - 1;
    size_t i = (reinterpret_cast<uintptr_t>(s) >> 4) * 0x9E3779B97F4A7C15u >> 32 & mask;
    while (entries_[i].first && entries_[i].first != s) i = (i + 1) & mask;
    return i;
  }
  void grow() {
    const auto all = std::exchange(entries_, {});
    entries_.resize(4 * all.size());
    for (const auto& entry : all)
      if (entry.first) entries_[place(entry.first)] = entry;
  }
  std::vector<std::pair<const Storage*, int32_t>> entries_{64};
  size_t used_ = 0;
};

/// Writes a trace while it stands in a thread.
class Tracer final : public Observer {
 public:
  /// `where` says for people which line of the program runs.
  explicit Tracer(std::string (*where)());

  Ref<Observer> for_thread() const override;
  void computed(const Call& call, std::span<const Tensor> results) override;
  void announced(const Call& call, std::span<const Tensor> results) override;
  void told(const Notice& notice) override;

  /// The trace cannot be used; the first reason counts.
  void refuse(const std::string& why);
  /// A hook is set: where, should that be why the call is not replayed.
  void hooked() {
    if (where_ && hooked_at_.empty()) hooked_at_ = where_();
  }
  const std::string& hooked_at() const { return hooked_at_; }
  /// The number that the first node of the call gets.
  uint64_t first_node = 0;
  /// The number of the last hook that was set before the call.
  uint64_t hooks_before = 0;
  /// Of those before, the numbers of such as may run in it; and whether any did.
  std::unordered_set<uint64_t> known_hooks;
  bool ran_hooks = false;
  /// Where the program recorded a write to memory that was there before.
  std::string written_at(const Tensor& t) const {
    const auto line = written_at_.find(at_.find(owner_of_bytes(t->storage)));
    return line == written_at_.end() ? "" : line->second;
  }
  /// The call will be undone.
  void only_try() { tries_ = true; }
  /// A generator is copied: what is drawn cannot be followed.
  void fork();
  /// Note a number of the program's; its place among them.
  int32_t number(NumberNode node) {
    node.at = static_cast<uint32_t>(trace.steps.size()) - (node.op == NumberNode::Op::Read);
    trace.numbers.push_back(node);
    return static_cast<int32_t>(trace.numbers.size() - 1);
  }
  /// Where a tensor of the program lies: an argument, a result.
  Place place(const Tensor& t, uint32_t writes = 0);
  /// The step before which the program first gave this leaf another gradient, or none; -1 where a pass came
  /// first, or nobody did.
  int64_t gradient_replaced(const Tensor& leaf) const {
    const auto at = gradients_.find(leaf.get());
    return at == gradients_.end() ? -1 : at->second;
  }
  /// How many writes this storage of outside memory counted: those through it, and not through `x.data`.
  uint32_t counted(const Storage* storage) const {
    const auto at = counts_.find(storage);
    return at == counts_.end() ? 0 : at->second;
  }
  Trace trace;

 private:
  void add(const Call& call, std::span<const Tensor> results, bool announced);
  Place result(const Tensor& t);
  uint32_t geometry(const Tensor& t);
  int32_t slot(const Tensor& t, Slot::Kind kind);
  Range keep(std::span<const Tensor> tensors);
  /// The version at which the slot was left, as it is counted for this storage, and as it is now; null where
  /// it was not met, and is from here on.
  uint32_t* version(int32_t slot, Storage* storage, uint32_t& now);

  std::string (*where_)();
  std::string hooked_at_;
  std::unordered_map<int32_t, std::string> written_at_;  // by slot
  bool forked_ = false, draws_ = false, tries_ = false;
  Slots at_;
  std::vector<uint32_t> versions_;
  /// Of outside memory that is looked at with a count of writes of its own (`.data = …`): that.
  std::unordered_map<const Storage*, uint32_t> counted_;
  std::unordered_map<const Storage*, uint32_t> counts_;
  std::vector<Ref<Storage>> held_;  // outside memory, so that no other gets its address
  std::unordered_map<const TensorImpl*, int64_t> gradients_;
};

/// What a call writes: f(tensor) of each, as often as its version goes up.
template <class F>
void each_written(const Call& call, F&& f) {
  if (call.form == CallForm::Out) {
    for (const Tensor& t : call.out) f(t);
  } else if (call.op.writes || call.form == CallForm::InPlace) {
    f(*call.arguments[0].tensor);
  }
  for (uint32_t mask = call.op.writes_lists; mask; mask &= mask - 1)
    for (const Tensor& t : call.arguments[static_cast<size_t>(std::countr_zero(mask))].tensors()) f(t);
}

template <class F>
void Trace::each_place(const Step& s, F&& f) const {
  for (uint32_t k = s.arguments.begin; k < s.arguments.end; ++k) {
    const Argument& a = arguments[k];
    if (!a.present || (a.form != Form::Tensor && a.form != Form::Tensors)) continue;
    const uint32_t i = k - s.arguments.begin;
    const bool written = s.op->writes_lists >> i & 1 ||
                         (i == 0 && s.form != CallForm::Out && (s.op->writes || s.form == CallForm::InPlace));
    for (const Place& p : at(a.list))
      if (p.slot >= 0) f(p, written);
  }
  for (const Place& p : at(s.out)) f(p, true);
  for (const Place& p : at(s.results))
    if (p.slot >= 0) f(p, false);
}

}  // namespace adjoint::replay
