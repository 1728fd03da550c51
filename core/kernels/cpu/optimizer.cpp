// The steps of the optimisers: the elements of all slots as one range, whose parts are shared among threads.
// The formulas are in optimizer.isa.cpp.
#include "kernels/cpu/optimizer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "for_size.h"
#include "kernels/copy.h"
#include "kernels/cpu/variants.h"
#include "runtime/interrupt.h"
#include "runtime/parallel.h"

namespace adjoint::kernels {
namespace {

/// Elements that are not worth a second thread.
constexpr int64_t kGrain = 1 << 15;

/// The lists of a step as slots. What does not lie row by row is copied, and at the end copied back.
struct Slots : std::vector<OptimizerSlot> {
  [[gnu::noinline]] Slots(TensorList params, TensorList grads, std::initializer_list<TensorList> states,
                          TensorList steps) {
    reserve(params.size());
    for (size_t i = 0; i < params.size(); ++i) {
      OptimizerSlot& slot = emplace_back();
      slot.parameter = written(params[i]);
      slot.gradient = (grads[i].is_contiguous() ? grads[i] : held_.emplace_back(copy_of(grads[i]))).bytes();
      int k = 0;
      for (const TensorList& list : states) slot.state[k++] = list.empty() ? nullptr : written(list[i]);
      slot.step = steps.empty() ? nullptr : steps[i].data<float>();
      slot.size = params[i].numel();
      slot.type = params[i].dtype() == DType::Float32 ? SlotType::Float32 : SlotType::Float64;
    }
  }
  void finish() const {
    for (const auto& [to, from] : copies_) copy_into(to, from);
  }

 private:
  char* written(const Tensor& t) {
    return (t.is_contiguous() ? t : copies_.emplace_back(t, copy_of(t)).second).bytes();
  }
  const runtime::Uninterrupted whole_;
  std::vector<std::pair<Tensor, Tensor>> copies_;  // where a written tensor is while it is written
  Tensors held_;
};

/// Calls part(slot's number, begin, end) for parts of slots that cover them all.
template <class F>
void for_slots(const Slots& slots, const F& part) {
  // Where each slot starts, in units of kUnit elements, so that parts are whole blocks.
  constexpr int64_t kUnit = 1024;
  std::vector<int64_t> starts{0};
  starts.reserve(slots.size() + 1);
  for (const OptimizerSlot& slot : slots) starts.push_back(starts.back() + (slot.size + kUnit - 1) / kUnit);
  runtime::parallel_for(0, starts.back(), kGrain / kUnit, [&](int64_t begin, int64_t end) {
    size_t k = static_cast<size_t>(std::ranges::upper_bound(starts, begin) - starts.begin()) - 1;
    for (; k < slots.size() && starts[k] < end; ++k)
      if (slots[k].size > 0)
        part(k, std::max<int64_t>(0, begin - starts[k]) * kUnit,
             std::min(slots[k].size, (end - starts[k]) * kUnit));
  });
}

/// The step that is now being taken, counted from 1.
double count_step(const OptimizerSlot& slot) { return slot.step ? static_cast<double>(++*slot.step) : 1.0; }

/// f(the functions for the slot's type)
template <class F>
void by_type(const OptimizerSlot& slot, const F& f) {
  if (slot.type == SlotType::Float32)
    f(best_variant<OptimizerTable<float>>());
  else
    f(best_variant<OptimizerTable<double>>());
}

}  // namespace

void sgd_step(TensorList params, TensorList first, TensorList second, TensorList third, TensorList steps,
              TensorList grads, const SgdOptions& options) {
  const Slots slots(params, grads, {first, second, third}, steps);
  for_slots(slots, [&](size_t k, int64_t begin, int64_t end) {
    by_type(slots[k], [&](const auto& table) { table.sgd(slots[k], begin, end, options); });
  });
  slots.finish();
}

void adam_step(TensorList params, TensorList first, TensorList second, TensorList third, TensorList steps,
               TensorList grads, const AdamOptions& options) {
  const Slots slots(params, grads, {first, second, third}, steps);
  struct Correction {
    double first, root_of_second;
  };
  std::vector<Correction> corrections;
  corrections.reserve(slots.size());
  double last = -1;
  for (const OptimizerSlot& slot : slots) {
    const double t = count_step(slot);
    corrections.push_back(
        t == last ? corrections.back()
                  : Correction{1 - std::pow(options.beta1, t), std::sqrt(1 - std::pow(options.beta2, t))});
    last = t;
  }
  for_slots(slots, [&](size_t k, int64_t begin, int64_t end) {
    const auto [first, root_of_second] = corrections[k];
    by_type(slots[k],
            [&](const auto& table) { table.adam(slots[k], begin, end, options, first, root_of_second); });
  });
  slots.finish();
}

void rmsprop_step(TensorList params, TensorList first, TensorList second, TensorList third, TensorList steps,
                  TensorList grads, const RmspropOptions& options) {
  const Slots slots(params, grads, {first, second, third}, steps);
  for (const OptimizerSlot& slot : slots) count_step(slot);
  for_slots(slots, [&](size_t k, int64_t begin, int64_t end) {
    by_type(slots[k], [&](const auto& table) { table.rmsprop(slots[k], begin, end, options); });
  });
  slots.finish();
}

void program_step(TensorList params, TensorList first, TensorList second, TensorList third, TensorList steps,
                  TensorList grads, IntList code, std::span<const double> numbers) {
  const Slots slots(params, grads, {first, second, third}, steps);
  const StepProgram program{code, numbers};
  for (const OptimizerSlot& slot : slots) count_step(slot);
  for_slots(slots, [&](size_t k, int64_t begin, int64_t end) {
    by_type(slots[k], [&](const auto& table) { table.program(slots[k], begin, end, program); });
  });
  slots.finish();
}

}  // namespace adjoint::kernels
