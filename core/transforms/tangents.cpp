#include "transforms/tangents.h"

#include "autograd/arithmetic.h"
#include "autograd/views.h"
#include "for_size.h"
#include "ops/shape.h"

namespace adjoint {

namespace {

// There is no level 1: a range of levels that are not looked at (`dual_skip_to`) is never empty, and never
// reaches one to come.
std::atomic<uint64_t> next_level{2};

/// The link of a level, and where the list would have it. Called with the meta's lock held.
TangentLink** place_of(AutogradMeta& meta, uint64_t number) {
  TangentLink** at = &meta.tangents;
  while (*at && (*at)->level->number > number) at = &(*at)->next;
  return at;
}

/// The tangent that `t` carries itself.
Tensor own_tangent(const Tensor& t, const DualLevel& level, bool* own = nullptr) {
  AutogradMeta* meta = t->is(TensorImpl::kDual) ? meta_of(t) : nullptr;
  if (!meta) return {};
  std::lock_guard lock(meta->lock);
  TangentLink* link = *place_of(*meta, level.number);
  return link && link->level->number == level.number ? link->get(own) : Tensor();
}

/// The base of a view that may have tangents; undefined for others.
Tensor dual_base(const Tensor& t) {
  if (!t->is(TensorImpl::kView) || !is_differentiable(t.dtype())) return {};
  const Tensor base = base_of(t);
  return base.defined() && base->is(TensorImpl::kDual) ? base : Tensor();
}

/// A copy that lies as `t` does. Where expanded elements of `t` share memory and those of the tangent do,
/// they share it in the copy, too.
Tensor laid_out_like(const Tensor& tangent, const Tensor& t) {
  Dims distinct(t.sizes());
  for (size_t i = 0; i < distinct.size(); ++i)
    if (t.strides()[i] == 0 && tangent.strides()[i] == 0 && distinct[i] > 1) distinct[i] = 1;
  if (same(distinct.span(), t.sizes())) return laid_out_like_base(tangent, ViewPart(t, t));
  const Tensor like = alias(t, distinct.span(), t.strides(), t.offset());
  const ViewPart there(like, like);
  ViewPart here = there;
  here.strides = Dims(tangent.strides());
  return call<Expand>(laid_out_like_base(replay_view(tangent, here), there), t.sizes());
}

Ref<DualLevel> own_level_above(const Tensor& t, uint64_t number) {
  AutogradMeta* meta = t->is(TensorImpl::kDual) ? meta_of(t) : nullptr;
  if (!meta) return {};
  std::lock_guard lock(meta->lock);
  Ref<DualLevel> lowest;
  for (TangentLink* link = meta->tangents; link && link->level->number > number; link = link->next)
    if (link->get().defined()) lowest = link->level;
  return lowest;
}

}  // namespace

// --- Levels ---------------------------------------------------------------------------------------

DualLevel& enter_dual_level() {
  thread_state.dual_level = new DualLevel(next_level.fetch_add(1, std::memory_order_relaxed),
                                          Ref<DualLevel>::steal(thread_state.dual_level));
  return *thread_state.dual_level;
}

uint64_t newest_dual_level() { return next_level.load(std::memory_order_relaxed) - 1; }

bool leave_dual_level(uint64_t number) {
  if (!thread_state.dual_level || thread_state.dual_level->number != number) return false;
  const auto level = Ref<DualLevel>::steal(thread_state.dual_level);
  thread_state.dual_level = Ref<DualLevel>(level->outer).detach();
  level->close();
  return true;
}

DualLevel* open_dual_level(uint64_t number) {
  DualLevel* level = thread_state.dual_level;
  while (level && level->number != number) level = level->outer.get();
  return level;
}

void DualLevel::close() {
  Tensors gone;  // die after the lock
  std::lock_guard lock(lock_);
  closed_ = true;
  for (TangentLink* link = first_; link; link = link->after_)
    if (link->tangent_.defined()) gone.push_back(std::move(link->tangent_));
}

// --- Links ----------------------------------------------------------------------------------------

TangentLink::TangentLink(DualLevel& of, Tensor tangent, bool own)
    : level(Ref<DualLevel>::share(&of)), tangent_(std::move(tangent)), own_(own) {
  std::lock_guard lock(level->lock_);
  after_ = level->first_;
  if (after_) after_->before_ = this;
  level->first_ = this;
}

TangentLink::~TangentLink() {
  std::lock_guard lock(level->lock_);
  (before_ ? before_->after_ : level->first_) = after_;
  if (after_) after_->before_ = before_;
}

Tensor TangentLink::get(bool* own) const {
  std::lock_guard lock(level->lock_);
  if (own) *own = own_;
  return level->closed_ ? Tensor() : tangent_;
}

void TangentLink::set(Tensor tangent, bool own) {
  std::lock_guard lock(level->lock_);
  std::swap(tangent_, tangent);
  own_ = own;
}

void forget_tangents(const Tensor& t) {
  AutogradMeta* meta = t->is(TensorImpl::kDual) ? meta_of(t) : nullptr;
  if (!meta) return;
  TangentLink* link;
  {
    std::lock_guard lock(meta->lock);
    link = std::exchange(meta->tangents, nullptr);
  }
  while (link) delete std::exchange(link, link->next);
}

void drop_tangents(TensorImpl* t) noexcept {
  AutogradMeta* meta = t->meta.load(std::memory_order_acquire);
  TangentLink* link = meta ? std::exchange(meta->tangents, nullptr) : nullptr;
  while (link) delete std::exchange(link, link->next);
}

bool only_transforms(const AutogradMeta& m) {
  return !m.grad.defined() && !m.accumulator.load(std::memory_order_acquire) &&
         !m.hooked.load(std::memory_order_acquire) && m.hooks.empty() && m.post_accumulate_hooks.empty() &&
         !m.former.defined() && m.gradient_type.load(std::memory_order_acquire) == kTypeOfLeaf;
}

// --- Tangents of tensors --------------------------------------------------------------------------

Ref<DualLevel> level_above(const Tensor& t, uint64_t number) {
  Ref<DualLevel> lowest = own_level_above(t, number);
  if (const Tensor base = dual_base(t); base.defined())
    if (Ref<DualLevel> other = own_level_above(base, number);
        other && (!lowest || other->number < lowest->number))
      lowest = std::move(other);
  return lowest;
}

Tensor tangent_of(const Tensor& t, const DualLevel& level, bool* is_own) {
  if (is_own) *is_own = false;
  if (Tensor own = own_tangent(t, level, is_own); own.defined()) return own;
  const Tensor base = dual_base(t);
  if (!base.defined() || !own_tangent(base, level).defined()) return {};
  return replay_view(settled_tangent(base, const_cast<DualLevel&>(level)), ViewPart(base, t));
}

void set_tangent(const Tensor& t, DualLevel& level, Tensor tangent, bool own) {
  AutogradMeta& meta = make_meta(t.get());
  auto fresh = std::make_unique<TangentLink>(level, tangent, own);
  std::lock_guard lock(meta.lock);
  TangentLink** at = place_of(meta, level.number);
  if (*at && (*at)->level->number == level.number) {
    (*at)->set(std::move(tangent), own);
  } else {
    fresh->next = *at;
    *at = fresh.release();
  }
  if (!t->is(TensorImpl::kDual))
    t->flags |= TensorImpl::kDual;  // other threads may look at a tensor that is dual already
}

Tensor settled_tangent(const Tensor& t, DualLevel& level, bool make) {
  bool own = false;
  Tensor tangent = own_tangent(t, level, &own);
  if (!tangent.defined()) {
    const Tensor base = t->is(TensorImpl::kView) ? base_of(t) : Tensor();
    if (base.defined() && is_differentiable(base.dtype()))
      if (Tensor whole = settled_tangent(base, level, make); whole.defined())
        return replay_view(whole, ViewPart(base, t));
    if (!make) return {};
    tangent = expanded_zero(t);
    own = false;
  }
  if (own && same(tangent.strides(), t.strides())) return tangent;
  // What was given to the tensor, or shares memory with another's.
  tangent = laid_out_like(tangent, t);
  set_tangent(t, level, tangent, true);
  return tangent;
}

void share_tangents(const Tensor& to, const Tensor& from, uint64_t below) {
  uint64_t number = 0;
  for (Ref<DualLevel> level; (level = level_above(from, number)) && level->number < below;
       number = level->number) {
    bool own = false;
    Tensor tangent = tangent_of(from, *level, &own);
    set_tangent(to, *level, std::move(tangent), own);
  }
}

Tensor alias_with_tangents(const Tensor& t) {
  Tensor a = alias(t);
  if (may_have_tangents(t)) share_tangents(a, t);
  return a;
}

Tensor without_tangents(const Tensor& t, uint64_t number) {
  if (!t.defined() || !level_above(t, number - 1)) return t;
  Tensor plain = alias(t);
  if (is_differentiable(t.dtype()))
    if (Edge e = gradient_edge(t); e) set_history(plain, std::move(e.node), e.input_nr);
  share_tangents(plain, t, number);
  return plain;
}

Tensor through_tangents(const Tensor& t, const std::function<Tensor(const Tensor&)>& f) {
  const Tensor result = f(without_tangents(t, 1));
  uint64_t number = 0;
  for (Ref<DualLevel> level; (level = level_above(t, number)); number = level->number)
    set_tangent(result, *level, through_tangents(tangent_of(t, *level), f), false);
  return result;
}

}  // namespace adjoint
