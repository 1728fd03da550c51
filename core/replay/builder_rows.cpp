// What may run by rows: operands that repeat within a block, reductions of rows, and loops that do not mind
// in which pieces they run.
#include <cstring>

#include "for_size.h"
#include "kernels/reducer.h"
#include "replay/builder.h"
#include "runtime/parallel.h"

namespace adjoint::replay {

/// Whether the loop of a plan gives an element the same bits in any piece.
bool Builder::is_even(Plan& plan) const {
  if (plan.even) return *plan.even;
  DType types[StraightCall::kOperands];
  unsigned taken = 0;
  for (size_t k = 0; k < plan.in.size(); ++k)
    if (plan.in[k].slot >= 0) {
      types[k] = t_.geometry(plan.in[k]).dtype;
      taken |= 1u << k;
    }
  return *(plan.even = adjoint::is_even(plan.call.loop, t_.geometry(plan.out).dtype, types, taken,
                                        plan.call.parameters, plan.parameters));
}

/// Whether a link over all elements may run in blocks of whole rows.
bool Builder::fits_rows(Plan& plan, int64_t row) const {
  if (is_even(plan)) return true;
  return Program::rows_of_block(row) * row % Program::kBlock == 0 &&
         std::ranges::all_of(plan.spread, [](const auto& s) { return s.length % Program::kBlock == 0; });
}

/// Whether a walk may be a link of a chain: its operands lie side by side, or are one number, a number for
/// each row of the result, or one row. In blocks the loop gets other pieces than by itself, where it goes row
/// by row.
bool Builder::plan_spread(Plan& plan) const {
  const Geometry& g = t_.geometry(plan.out);
  if (!g.contiguous || g.dtype != plan.walk.out_type || g.numel < 2 ||
      !whole(slot(plan.out.slot), g, plan.out))
    return false;
  StraightCall call{plan.walk.loop, plan.walk.parameters, itemsize(plan.walk.out_type)};
  bool aligned = true;
  for (size_t k = 0; k < plan.in.size(); ++k) {
    if (plan.in[k].slot < 0) continue;
    const Geometry& o = t_.geometry(plan.in[k]);
    if (o.dtype != plan.walk.types[k] || o.sizes.size() > g.sizes.size()) return false;
    if (o.contiguous && o.numel == g.numel) continue;
    // From the innermost dimension out: elements repeat, or follow each other; then the other way round.
    int64_t inner = 1, outer = 1, next = 1;
    bool each = false, turned = false;
    for (size_t i = 0; i < g.sizes.size(); ++i) {
      const int64_t size = g.sizes[g.sizes.size() - 1 - i];
      if (size == 1) continue;
      const bool there = i < o.sizes.size() && o.sizes[o.sizes.size() - 1 - i] != 1;
      const int64_t stride = there ? o.strides[o.strides.size() - 1 - i] : 0;
      if (stride != 0 && stride != next) return false;
      if (inner == 1) each = stride == 0;
      turned |= (stride == 0) != each;
      if (turned && (stride == 0) == each) return false;
      (turned ? outer : inner) *= size;
      if (stride) next *= size;
    }
    if (outer == 1 && each)
      call.constant |= 1u << k;
    else
      plan.spread[k] = {inner, each};
    aligned &= inner % Program::kBlock == 0;
  }
  plan.call = call;
  plan.parameters = plan.walk.numbers;
  return aligned || is_even(plan);
}

/// Of a launch: whether it reduces all of what a chain may make, piece by piece.
void Builder::find_fold(const Step& s, Plan& plan) const {
  if (plan.launches->calls.size() != 1 || !plan.launches->made.empty()) return;
  const Launches::Call& call = plan.launches->calls[0];
  if (!folds_in_pieces(*call.routine)) return;
  const Launches::Operand& x = call.tensors[1];
  uint64_t mask;
  std::memcpy(&mask, &call.bytes[0], sizeof mask);
  const Geometry& g = x.geometry;
  const size_t rank = g.sizes.size();
  // A rest of few elements is added up in another order by itself.
  const int64_t rest = g.numel % Elements::kPiece;
  if (x.slot < 0 || !rank || rank >= 64 || mask != (uint64_t{1} << rank) - 1 || (rest && rest < 8)) return;
  const int32_t of = slots_of(t_, s)[static_cast<size_t>(x.slot)];
  if (!whole(slot(of), g, {of, 0, x.offset})) return;
  // Chains that several threads share, and one would fold, stay shared.
  if (g.numel > 2 * StraightCall::kSerial && g.numel <= Elements::kAlone && runtime::get_num_threads() > 1)
    return;
  plan.folds = of;
  plan.folded = g.numel;
}

/// Of a launch: whether it reduces the rows of an operand, each to a number.
void Builder::find_rows(const Step& s, Plan& plan) const {
  if (plan.launches->calls.size() != 1 || !plan.launches->made.empty() || s.form != CallForm::Function)
    return;
  const Launches::Call& call = plan.launches->calls[0];
  if (!folds_rows(*call.routine)) return;
  const size_t results = call.tensors.size() - 1;
  const Launches::Operand& x = call.tensors[results];
  if (x.slot < 0) return;
  const Geometry& g = x.geometry;
  uint64_t mask;  // the first of the arguments that are bytes
  std::memcpy(&mask, &call.bytes[0], sizeof mask);
  int64_t row = 1;
  bool kept = false;
  for (size_t i = g.sizes.size(); i-- > 0;) {
    if (g.sizes[i] == 1) continue;
    const bool reduced = mask >> i & 1;
    if (reduced && kept) return;
    kept |= !reduced;
    if (reduced) row *= g.sizes[i];
  }
  if (row < 2 || row > kLongestRow || g.numel < kLeastChained || g.numel <= row || !g.contiguous) return;
  const std::vector<int32_t> named = slots_of(t_, s);
  const auto place = [&](const Launches::Operand& o) {
    Place p{named[static_cast<size_t>(o.slot)], 0, o.offset};
    while (p.geometry < t_.geometries.size() && !(t_.geometries[p.geometry] == o.geometry)) ++p.geometry;
    return p;
  };
  const Place of = place(x);
  if (of.geometry == t_.geometries.size() || slot(of.slot).kind == Slot::Kind::Number) return;
  Place made[2];
  for (size_t i = 0; i < results; ++i) {
    if (call.tensors[i].slot < 0) continue;
    made[i] = place(call.tensors[i]);
    const Geometry& m = call.tensors[i].geometry;
    if (made[i].geometry == t_.geometries.size() || m.numel != g.numel / row ||
        slot(made[i].slot).kind != Slot::Kind::Made || made[i].slot == of.slot ||
        !whole(slot(made[i].slot), m, made[i]))
      return;
  }
  if (made[0].slot < 0) return;
  plan.row = row;
  plan.in[0] = of;
  plan.out = made[0];
  plan.also = made[1];
}

}  // namespace adjoint::replay
