#include "replay/prepared.h"

#include <cstring>
#include <map>

#include "for_size.h"
#include "replay/row.h"
#include "runtime/warning.h"

namespace adjoint::replay {

namespace {

using launch::Kind;

/// A scope in which all that is made is made there.
class Here {
  const DeviceScope scope_{kRecorded};
  const Device before_ = thread_state.default_device;

 public:
  Here() { thread_state.default_device = kRecorded; }
  ~Here() { thread_state.default_device = before_; }
};

class Keeper final : public launch::Recorder {
 public:
  Keeper(const Trace& trace, const Step& step) : trace_(trace), names_(slots_of(trace, step)) {
    for (const int32_t s : names_) storage(s);
  }

  Tensor tensor(const Place& p) {
    if (p.slot < 0) return {};
    const Geometry& g = trace_.geometry(p);
    Tensor t = over(storage(p.slot), g.dtype, g.sizes.span(), g.strides.span(), 0);
    t->data += p.offset;
    if (kind(p.slot) == Slot::Kind::Number) t->flags |= TensorImpl::kWrapped;
    return t;
  }

  void launched(const launch::Routine& routine, const void* const* at) override {
    Launches::Call& call = launches_.calls.emplace_back();
    call.routine = &routine;
    for (size_t i = 0; i < routine.arguments.size(); ++i) {
      const auto [kind, size, keeping] = routine.arguments[i];
      switch (kind) {
        case Kind::Value: {
          std::array<std::byte, 16> piece{};
          for (size_t k = 0; k < size; k += sizeof piece) {
            std::memcpy(&piece, static_cast<const char*>(at[i]) + k, std::min(sizeof piece, size - k));
            call.bytes.push_back(piece);
          }
          break;
        }
        case Kind::Numbers:
          call.numbers.emplace_back(*static_cast<const IntList*>(at[i]));
          break;
        case Kind::Other:
          if (!keeping) throw NotLaunched();
          call.others.push_back({keeping->copy(at[i]), keeping->release});
          keeping->each_tensor(call.others.back().get(), [&](Tensor& t) {
            call.tensors.push_back(operand(t, false));
            t = Tensor();
          });
          break;
        case Kind::Generator:
          throw NotLaunched();
        case Kind::Tensor:
        case Kind::Out:
          call.tensors.push_back(operand(*static_cast<const Tensor*>(at[i]), kind == Kind::Out));
          break;
        case Kind::Tensors:
        case Kind::Outs:
          call.lengths.push_back(static_cast<const TensorList*>(at[i])->size());
          for (const Tensor& t : *static_cast<const TensorList*>(at[i]))
            call.tensors.push_back(operand(t, kind == Kind::Outs));
          break;
      }
    }
  }

  /// The launches, if these are the results that the trace has.
  Launches finish(std::span<const Tensor> made, std::span<const Place> results) {
    if (made.size() != results.size()) throw NotLaunched();
    for (size_t i = 0; i < made.size(); ++i) {
      const Place& p = results[i];
      if (made[i].defined() != (p.slot >= 0)) throw NotLaunched();
      if (p.slot < 0) continue;
      const Storage* const s = owner_of_bytes(made[i]->storage);
      if (!lies_as(made[i], trace_.geometry(p)) || made[i].bytes() - s->data != p.offset ||
          s->nbytes != trace_.slots[static_cast<size_t>(p.slot)].nbytes || s->device != kRecorded)
        throw NotLaunched();
      const auto name = static_cast<int32_t>(std::ranges::find(names_, p.slot) - names_.begin());
      const auto [known, is_new] = numbers_.try_emplace(s, name);
      if (!is_new && known->second != name) rename(known->second, name);
      // One memory for each slot.
      if (const Storage*& of = memory_of_result_[p.slot]; of && of != s)
        throw NotLaunched();
      else
        of = s;
      held_.push_back(made[i]);
    }
    drop_renamed();
    return std::move(launches_);
  }

 private:
  Slot::Kind kind(int32_t slot) const { return trace_.slots[static_cast<size_t>(slot)].kind; }

  /// The memory that stands for a slot of the trace.
  Ref<Storage> storage(int32_t slot) {
    Ref<Storage>& s = storages_[slot];
    if (s) return s;
    const Slot& of = trace_.slots[static_cast<size_t>(slot)];
    if (of.kind == Slot::Kind::Number) {
      s = external_storage(const_cast<char*>(trace_.bytes.data() + of.bytes), of.nbytes, nullptr, nullptr);
    } else {
      const DeviceScope here(kRecorded);
      s = allocate_storage(of.nbytes);
    }
    numbers_[s.get()] = static_cast<int32_t>(std::ranges::find(names_, slot) - names_.begin());
    return s;
  }

  Launches::Operand operand(const Tensor& t, bool written) {
    Launches::Operand o;
    if (!t.defined()) return o;
    o.geometry = {t.dtype(), t.is_contiguous(), t.numel(), Dims(t.sizes()), Dims(t.strides())};
    Storage* const s = owner_of_bytes(t->storage);
    o.offset = t.bytes() - s->data;
    auto known = numbers_.find(s);
    if (known == numbers_.end()) {
      if (s->device == Device::CPU && t.dim() == 0 && !written) {
        o.number = t;
        return o;
      }
      if (s->device != kRecorded) throw NotLaunched();
      held_.push_back(t);
      known = numbers_.emplace(s, static_cast<int32_t>(names_.size() + launches_.made.size())).first;
      launches_.made.push_back(s->nbytes);
    }
    o.slot = known->second;
    return o;
  }

  /// Memory that was made turns out to be a result's.
  void rename(int32_t from, int32_t to) {
    if (from < static_cast<int32_t>(names_.size())) throw NotLaunched();
    for (Launches::Call& call : launches_.calls)
      for (Launches::Operand& o : call.tensors)
        if (o.slot == from) o.slot = to;
    launches_.made[static_cast<size_t>(from) - names_.size()] = 0;
    for (auto& [storage, number] : numbers_)
      if (number == from) number = to;
  }
  void drop_renamed() {
    const auto first = static_cast<int32_t>(names_.size());
    std::vector<int32_t> number;
    int32_t next = first;
    std::vector<bool> used(launches_.made.size());
    for (const Launches::Call& call : launches_.calls)
      for (const Launches::Operand& o : call.tensors)
        if (o.slot >= first) used[static_cast<size_t>(o.slot - first)] = true;
    std::vector<size_t> made;
    for (size_t i = 0; i < used.size(); ++i) {
      number.push_back(used[i] ? next++ : -1);
      if (used[i]) made.push_back(launches_.made[i]);
    }
    for (Launches::Call& call : launches_.calls)
      for (Launches::Operand& o : call.tensors)
        if (o.slot >= first) o.slot = number[static_cast<size_t>(o.slot - first)];
    launches_.made = std::move(made);
  }

  const Trace& trace_;
  const std::vector<int32_t> names_;
  Launches launches_;
  std::map<int32_t, Ref<Storage>> storages_;
  std::map<const Storage*, int32_t> numbers_;
  std::map<int32_t, const Storage*> memory_of_result_;
  std::vector<Tensor> held_;  // so that no other memory gets its address
};

}  // namespace

std::vector<int32_t> slots_of(const Trace& trace, const Step& step) {
  std::vector<int32_t> slots;
  const auto add = [&](const Place& p, bool) {
    if (std::ranges::find(slots, p.slot) == slots.end()) slots.push_back(p.slot);
  };
  trace.each_place(step, add);
  return slots;
}

std::shared_ptr<const Launches> prepare(const Trace& trace, const Step& step) {
  if (step.kind != Step::Kind::Call || step.op->draws || step.op->declared || step.op->view) return nullptr;
  try {
    Keeper keeper(trace, step);
    RowArguments arguments(trace, step, [&](const Place& p) { return keeper.tensor(p); });
    const NoInterpretation inner;
    const runtime::NoWarnings silent;
    const Here here;
    Results results;
    compute_row(*step.op, step.form, arguments, results);
    // What writes gives what it wrote.
    if (step.op->elementwise && step.form != CallForm::Function)
      results.one = step.form == CallForm::InPlace ? arguments.tensors[0] : arguments.out[0];
    return std::make_shared<const Launches>(keeper.finish(results.all(), trace.at(step.results)));
  } catch (...) {
    return nullptr;
  }
}

size_t Launches::bytes_held() const {
  size_t all = sizeof *this + calls.capacity() * sizeof(Call) + made.capacity() * sizeof(size_t);
  for (const Call& c : calls)
    all += c.tensors.capacity() * sizeof(Operand) + c.lengths.capacity() * sizeof(size_t) +
           c.bytes.capacity() * sizeof c.bytes[0] + c.numbers.capacity() * sizeof(Dims) +
           c.others.capacity() * (sizeof c.others[0] + 64);
  return all;
}

// Nothing is there yet, and the destructor knows.
BoundLaunch::BoundLaunch(const Launches::Call& call) : routine_(call.routine), tensors_(0) {
  static_assert(sizeof(Tensor) == sizeof(void*) && sizeof(TensorList) == 2 * sizeof(void*) &&
                sizeof(IntList) == 2 * sizeof(void*));
  for (const launch::Argument& a : routine_->arguments)
    tensors_ += a.kind == Kind::Tensor || a.kind == Kind::Out;
  for (const size_t n : call.lengths) tensors_ += static_cast<uint32_t>(n);
  words_ = static_cast<uint32_t>(routine_->arguments.size() + tensors_ +
                                 2 * (call.lengths.size() + call.numbers.size()));
  at_ = std::make_unique<const void*[]>(words_);
  std::uninitialized_value_construct_n(reinterpret_cast<Tensor*>(&at_[routine_->arguments.size()]), tensors_);
}

BoundLaunch::BoundLaunch(const Launches::Call& call,
                         runtime::FunctionRef<Tensor(const Launches::Operand&)> tensor)
    : BoundLaunch(call) {
  const void** at = at_.get();
  auto* next = reinterpret_cast<Tensor*>(at + routine_->arguments.size());
  auto* list = reinterpret_cast<TensorList*>(next + tensors_);
  auto* numbers = reinterpret_cast<IntList*>(list + call.lengths.size());
  const Launches::Operand* operand = call.tensors.data();
  const size_t* length = call.lengths.data();
  const std::array<std::byte, 16>* bytes = call.bytes.data();
  const Dims* number = call.numbers.data();
  const std::shared_ptr<void>* other = call.others.data();
  for (const auto& [kind, size, keeping] : routine_->arguments) {
    switch (kind) {
      case Kind::Value:
        *at = bytes;
        bytes += (size + sizeof *bytes - 1) / sizeof *bytes;
        break;
      case Kind::Numbers:
        *at = std::construct_at(numbers++, (number++)->span());
        break;
      case Kind::Other: {
        void* const copy = keeping->copy((other++)->get());
        *at = copy;
        keeping->each_tensor(copy, [&](Tensor& t) { t = tensor(*operand++); });
        break;
      }
      case Kind::Generator:  // not launched
        break;
      case Kind::Tensor:
      case Kind::Out:
        *next = tensor(*operand++);
        *at = next++;
        break;
      case Kind::Tensors:
      case Kind::Outs: {
        const size_t n = *length++;
        *at = std::construct_at(list++, next, n);
        for (size_t k = 0; k < n; ++k) *next++ = tensor(*operand++);
        break;
      }
    }
    ++at;
  }
}

BoundLaunch::~BoundLaunch() {
  if (!at_) return;
  const auto& arguments = routine_->arguments;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].kind == Kind::Other) arguments[i].keeping->release(const_cast<void*>(at_[i]));
  std::destroy_n(reinterpret_cast<Tensor*>(&at_[arguments.size()]), tensors_);
}

}  // namespace adjoint::replay
