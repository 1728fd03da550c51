// Tangents: what a tensor carries in forward mode, one for each level, as x + t ε. See Note: forward mode.
//
// A level is opened by a thread and closed by it, the last first; a number that no other has tells them
// apart, and inner levels have higher numbers. A tangent may itself carry tangents of lower levels, never of
// its own or higher ones. A tensor that carries any has the flag kDual and a list of links in its meta.
// Closing a level takes its tangents from all tensors, which also breaks the cycles that recorded tangents
// may make; so a level keeps a list of its links.
//
// A view of a dual has as tangent a view of its base's tangent. Where the base got its tangent after the view
// was made, the view has no link, and the tangent is taken from the base when asked for. For that, the
// tangent must lie like its tensor and have its memory for itself (`settled_tangent`). Start reading at
// `DualLevel`.
#pragma once

#include "autograd/meta.h"
#include "runtime/lock.h"
#include "tensor/tensor.h"

namespace adjoint {

class TangentLink;

class DualLevel {
 public:
  std::atomic<uint32_t> refcount{1};
  const uint64_t number;
  /// The level that was open in this thread before.
  const Ref<DualLevel> outer;

  DualLevel(uint64_t n, Ref<DualLevel> around) : number(n), outer(std::move(around)) {}
  static void destroy(DualLevel* level) noexcept { delete level; }

 private:
  friend class TangentLink;
  friend bool leave_dual_level(uint64_t number);
  void close();
  runtime::SmallLock lock_;  // guards the links of this level
  TangentLink* first_ = nullptr;
  bool closed_ = false;
};

/// Open a level in this thread; close the innermost one. False where `number` is not its number.
DualLevel& enter_dual_level();
bool leave_dual_level(uint64_t number);
/// The highest number that any thread has given to a level.
uint64_t newest_dual_level();
/// The open level of that number in this thread; null where there is none.
DualLevel* open_dual_level(uint64_t number);

/// The place of one tangent of one tensor. It lies in the list of the tensor (`next`, guarded by the meta's
/// lock) and in that of the level, whose lock guards the rest.
class TangentLink {
 public:
  TangentLink(DualLevel& level, Tensor tangent, bool own);
  ~TangentLink();
  TangentLink(const TangentLink&) = delete;

  const Ref<DualLevel> level;
  TangentLink* next = nullptr;
  /// The tangent, undefined where the level is closed; and whether its memory is its tensor's and its views'
  /// alone.
  Tensor get(bool* own = nullptr) const;
  void set(Tensor tangent, bool own);

 private:
  friend class DualLevel;
  Tensor tangent_;
  bool own_;
  TangentLink *before_ = nullptr, *after_ = nullptr;
};

/// Take all its tangents from a tensor, as detach_() does.
void forget_tangents(const Tensor& t);
/// Called when a dual tensor dies.
void drop_tangents(TensorImpl* t) noexcept;

/// The tangent of a level that `t` carries itself, or has as a view of a base that does; undefined for none.
/// `is_own`: whether its memory is for `t` and its views alone.
Tensor tangent_of(const Tensor& t, const DualLevel& level, bool* is_own = nullptr);
/// The lowest level above `number` of which `t` has a tangent.
Ref<DualLevel> level_above(const Tensor& t, uint64_t number);
/// Let `t` carry a tangent, of its own sizes and type, in place of the one that it has. `own`: nothing else
/// uses its memory.
void set_tangent(const Tensor& t, DualLevel& level, Tensor tangent, bool own);
/// The tangent, which from now on lies as `t` does in memory of its own: views of it can be taken, and it can
/// be written. With `make`, zeros where there was none. The tangent of a view is a view of its base's, if the
/// base has one or `make`s one.
Tensor settled_tangent(const Tensor& t, DualLevel& level, bool make = false);
/// Whether it is worth asking for tangents.
inline bool may_have_tangents(const Tensor& t) {
  return t->is(TensorImpl::kDual) || (t->is(TensorImpl::kView) && thread_state.dual_level);
}
/// Let `to` carry the tangents of `from` of levels below a number.
void share_tangents(const Tensor& to, const Tensor& from, uint64_t below = ~uint64_t{0});
/// The same elements, without history.
Tensor alias_with_tangents(const Tensor& t);
/// `t` without its tangents of levels from `number` on, with its history: itself where it has none.
Tensor without_tangents(const Tensor& t, uint64_t number);
/// Whether a meta holds nothing but tangents and the samples of a batch.
bool only_transforms(const AutogradMeta& meta);

/// f of a tensor and, level by level, of its tangents: for what is linear and changes how tensors are
/// represented.
Tensor through_tangents(const Tensor& t, const std::function<Tensor(const Tensor&)>& f);

}  // namespace adjoint
