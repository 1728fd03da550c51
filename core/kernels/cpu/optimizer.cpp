// The steps of the optimisers: the elements of all slots as one range, whose parts are shared among threads.
// The formulas are in optimizer.isa.cpp.
#include "kernels/cpu/optimizer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/variants.h"
#include "runtime/parallel.h"

namespace adjoint::kernels {
namespace {

/// Elements that are not worth a second thread.
constexpr int64_t kGrain = 1 << 15;

/// Calls part(slot's number, begin, end) for parts of slots that cover them all.
template <class F>
void for_slots(std::span<const OptimizerSlot> slots, const F& part) {
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

void sgd_step(std::span<const OptimizerSlot> slots, const SgdOptions& options) {
  for_slots(slots, [&](size_t k, int64_t begin, int64_t end) {
    by_type(slots[k], [&](const auto& table) { table.sgd(slots[k], begin, end, options); });
  });
}

void adam_step(std::span<const OptimizerSlot> slots, const AdamOptions& options) {
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
}

void rmsprop_step(std::span<const OptimizerSlot> slots, const RmspropOptions& options) {
  for (const OptimizerSlot& slot : slots) count_step(slot);
  for_slots(slots, [&](size_t k, int64_t begin, int64_t end) {
    by_type(slots[k], [&](const auto& table) { table.rmsprop(slots[k], begin, end, options); });
  });
}

void program_step(std::span<const OptimizerSlot> slots, const StepProgram& program) {
  for (const OptimizerSlot& slot : slots) count_step(slot);
  for_slots(slots, [&](size_t k, int64_t begin, int64_t end) {
    by_type(slots[k], [&](const auto& table) { table.program(slots[k], begin, end, program); });
  });
}

}  // namespace adjoint::kernels
