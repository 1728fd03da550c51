// Forward mode: what a call does to the tangents of its inputs. See Note: forward mode.
//
// A call with dual inputs is done once, plainly, and recorded with the inputs as they are, so that a reverse
// pass over what it saved has tangents too. Then, level by level from the outermost, the tangent of each
// result is computed from the inputs without their tangents of this level and of inner ones, by calls that
// are recorded and carry outer levels' tangents. So levels nest, and forward and reverse mode compose. Start
// reading at `call_dual` in forward.cpp.
#pragma once

#include <algorithm>

#include "dispatch/operator.h"
#include "transforms/tangents.h"

namespace adjoint {

/// The outermost level above a number of which any of the tensors has a tangent that is looked at in this
/// thread.
Ref<DualLevel> next_level(std::span<const Tensor> tensors, uint64_t number);
inline bool is_dual(const Tensor& t) { return may_have_tangents(t) && next_level({&t, 1}, 0); }

/// What the nodes of these results saved of them gets their tangents.
void share_with_saved(std::span<const Tensor> results);

/// For its scope, tangents of a level and of those inside of it that are open now are not looked at.
class WithoutLevels {
 public:
  explicit WithoutLevels(uint64_t from) : from_(thread_state.dual_skip_from), to_(thread_state.dual_skip_to) {
    // Those that are opened for its scope are looked at.
    const uint64_t innermost =
        thread_state.dual_level ? thread_state.dual_level->number : newest_dual_level();
    thread_state.dual_skip_from = to_ ? std::min(from, from_) : from;
    thread_state.dual_skip_to = std::max({from, innermost, to_});
  }
  ~WithoutLevels() {
    thread_state.dual_skip_from = from_;
    thread_state.dual_skip_to = to_;
  }
  WithoutLevels(const WithoutLevels&) = delete;

 private:
  uint64_t from_, to_;
};

/// A call of which some input is dual.
void call_dual(const Operator& op, std::span<const Value> arguments, Results& results);

/// A view of `t` that has, of a level, this tangent. Refuses what does not fit.
/// Refuse a tangent that a program gives to `t` if its shape or device is another; `end` ends the sentence.
void need_alike(const Tensor& t, const Tensor& tangent, const std::string& end);
Tensor make_dual(const Tensor& t, const Tensor& tangent, DualLevel& level);
/// A view of `t` without its tangents of a level and of inner ones; and the tangent, undefined where there is
/// none.
std::pair<Tensor, Tensor> unpack_dual(const Tensor& t, const DualLevel& level);

/// One call, at one level: its inputs without tangents of this level and inner ones, the tangents, and the
/// results, likewise. All tensors of the arguments are counted through, those of lists too.
struct DualCall {
  const Operator& op;
  std::span<const Value> arguments;
  Tensors primals, tangents;
  /// The number of each parameter's first tensor; one more at the end.
  std::vector<size_t> first;
  Tensors results;

  /// The arguments with other tensors in them.
  std::vector<Value> with(const Tensors& tensors) const;
  /// Whether what the rule computes would be recorded.
  bool is_recorded() const;
};

/// The tangents of the results; undefined where they are zero. How they are found: see the note.
Tensors tangents_of_results(const DualCall& call);
/// Of element-wise operators, from the derivative.
Tensor elementwise_tangent(const DualCall& call);
/// Value and tangent of a large call in one walk over memory, where several inputs have tangents. False where
/// this is not one: nothing is done then.
bool elementwise_dual(DualCall& call, std::span<const Tensor> given, Results& results);
/// Of any other, by transposing its reverse rule.
Tensors transposed_tangents(const DualCall& call);

}  // namespace adjoint
