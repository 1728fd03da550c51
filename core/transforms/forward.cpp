#include "transforms/forward.h"

#include <algorithm>

#include "autograd/arithmetic.h"
#include "autograd/saved.h"
#include "autograd/views.h"
#include "dispatch/named.h"
#include "dispatch/rule_node.h"
#include "for_size.h"
#include "ops/shape.h"
#include "ops/writing.h"
#include "transforms/transformed.h"

namespace adjoint {

namespace {

/// All tensors among the arguments, and the number of each parameter's first.
Tensors tensors_of(const Operator& op, std::span<const Value> arguments, std::vector<size_t>& first) {
  Tensors all;
  for (size_t i = 0; i < arguments.size(); ++i) {
    first.push_back(all.size());
    const Value& v = arguments[i];
    // What is left out has a place in structured calls, as nodes have an edge for it.
    if (op.kinds[i]->form == Form::Tensor && !v.present && !op.elementwise) all.emplace_back();
    if (!v.present) continue;
    if (op.kinds[i]->form == Form::Tensor)
      all.push_back(*v.tensor);
    else if (op.kinds[i]->form == Form::Tensors)
      all.insert(all.end(), v.tensors().begin(), v.tensors().end());
  }
  first.push_back(all.size());
  return all;
}

/// A tangent in the type and shape of its result.
Tensor fitted(Tensor tangent, const Tensor& result) {
  if (tangent.dtype() != result.dtype()) tangent = call<To>(tangent, result.dtype());
  if (!same(tangent.sizes(), result.sizes())) tangent = call<Expand>(tangent, result.sizes());
  return tangent;
}

/// Whether nothing but a new tangent uses its memory: it may be the tangent of an input, handed on.
bool has_its_memory(const Tensor& t, const DualCall& call) {
  return t->storage->refcount.load(std::memory_order_acquire) == 1 &&
         t->storage->kind != Storage::Kind::External &&
         std::ranges::none_of(call.tangents, [&](const Tensor& other) {
           return other.defined() && other->storage == t->storage;
         });
}

/// A tangent that a result has in common with an input, whose own it then is no more: a write to the one must
/// not reach the other. Where views may be written, the result gets a copy.
Tensor in_common(Tensor t, const Tensors& given, const DualCall& call, DualLevel& level) {
  for (size_t i = 0; i < given.size(); ++i) {
    const Tensor& other = call.tangents[i];
    if (!other.defined() || other->storage != t->storage) continue;
    if (given[i]->is(TensorImpl::kView) || given[i]->storage->viewed()) return owned(t);
    set_tangent(given[i], level, other, false);
  }
  return t;
}

/// What is written is linear in what was there and in the values: the same write, of the values' tangents.
void write_dual(const Operator& op, DualCall& call, const Tensors& given, Results& results) {
  const Tensor& self = given[0];
  const Tensor& written = results.one;
  uint64_t number = 0;
  for (Ref<DualLevel> level; (level = next_level(given, number)); number = level->number) {
    bool any = false;
    for (size_t i = 0; i < given.size(); ++i) {
      const Tensor& t = given[i];
      call.tangents[i] = t.defined() && is_differentiable(t.dtype()) ? tangent_of(t, *level) : Tensor();
      any |= call.tangents[i].defined();
    }
    if (!any || !is_differentiable(self.dtype())) continue;
    if (!(op.linear_terms & 1)) {  // what was there is gone, and random numbers came
      if (!call.tangents[0].defined()) continue;
      const Tensor tangent = ::adjoint::call<ZeroAll>(settled_tangent(self, *level));
      if (written.get() != self.get()) set_tangent(written, *level, tangent, true);
      continue;
    }
    Tensors arguments = given;
    arguments[0] = settled_tangent(self, *level, true);
    if (written.get() != self.get()) set_tangent(written, *level, arguments[0], true);
    // What is written may itself be the tangent of another operand, and has one of this level now.
    for (size_t i = 1; i < op.kinds.size(); ++i) {
      const size_t at = call.first[i];
      if (op.linear_terms >> i & 1 && at < call.first[i + 1])
        arguments[at] = call.tangents[at].defined() ? without_tangents(call.tangents[at], level->number)
                                                    : expanded_zero(given[at]);
    }
    Results r;
    op.boxed(call.with(arguments).data(), r);
    if (r.one.get() != arguments[0].get() || !self->is(TensorImpl::kView))
      set_tangent(written, *level, r.one, true);
  }
}

}  // namespace

Ref<DualLevel> next_level(std::span<const Tensor> tensors, uint64_t number) {
  Ref<DualLevel> lowest;
  for (const Tensor& t : tensors) {
    if (!t.defined() || !may_have_tangents(t)) continue;
    Ref<DualLevel> level = level_above(t, number);
    if (level && level->number >= thread_state.dual_skip_from && level->number <= thread_state.dual_skip_to)
      level = level_above(t, thread_state.dual_skip_to);
    if (level && (!lowest || level->number < lowest->number)) lowest = std::move(level);
  }
  return lowest;
}

void share_with_saved(std::span<const Tensor> results) {
  const Node* last = nullptr;
  for (const Tensor& t : results) {
    if (!t.defined() || !t->grad_fn || t->grad_fn == last) continue;
    last = t->grad_fn;
    for (const SavedValue& s : t->grad_fn->saved())
      if (s.slot && s.slot->is_result() && s.output_nr < results.size() && results[s.output_nr].defined())
        s.slot->share_tangents_of(results[s.output_nr]);
  }
}

std::vector<Value> DualCall::with(const Tensors& tensors) const {
  std::vector<Value> values(arguments.begin(), arguments.end());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t n = first[i + 1] - first[i];
    if (op.kinds[i]->form == Form::Tensor && n)
      values[i].tensor = &tensors[first[i]];
    else if (op.kinds[i]->form == Form::Tensors)
      values[i].list = {tensors.data() + first[i], n};
  }
  return values;
}

bool DualCall::is_recorded() const {
  if (!thread_state.grad) return false;
  const auto recorded = [](const Tensor& t) { return t.defined() && t.requires_grad(); };
  return std::ranges::any_of(primals, recorded) || std::ranges::any_of(tangents, recorded);
}

void call_dual(const Operator& op, std::span<const Value> arguments, Results& results) {
  DualCall call{op, arguments, {}, {}, {}, {}};
  const Tensors given = tensors_of(op, arguments, call.first);
  call.primals.resize(given.size());
  call.tangents.resize(given.size());
  // A view's tangent is one of its base's, which has to lie like the base by then.
  if (op.view)
    for (Ref<DualLevel> level = next_level({given.data(), 1}, 0); level;
         level = next_level({given.data(), 1}, level->number))
      settled_tangent(given[0], *level);
  if (op.elementwise && elementwise_dual(call, given, results)) return;
  call_plain(op, arguments, results);
  if (op.writes) return write_dual(op, call, given, results);
  const std::span<const Tensor> all = results.all();
  // What is an input, given back as it is, has its tangents; integers and answers have none.
  const auto takes_tangent = [&](const Tensor& t) {
    return t.defined() && is_differentiable(t.dtype()) &&
           std::ranges::none_of(given, [&](const Tensor& g) { return g.get() == t.get(); });
  };
  if (op.constant || std::ranges::none_of(all, takes_tangent)) return;
  uint64_t number = 0;
  for (Ref<DualLevel> level; (level = next_level(given, number)); number = level->number) {
    bool any = false;
    for (size_t i = 0; i < given.size(); ++i) {
      if (!given[i].defined()) continue;
      call.primals[i] = without_tangents(given[i], level->number);
      if (!is_differentiable(given[i].dtype())) continue;
      call.tangents[i] = op.view && i == 0 ? settled_tangent(given[i], *level) : tangent_of(given[i], *level);
      any |= call.tangents[i].defined();
    }
    if (!any) continue;
    call.results.assign(all.begin(), all.end());
    for (Tensor& t : call.results) t = without_tangents(t, level->number);
    const Tensors tangents = tangents_of_results(call);
    for (size_t i = 0; i < all.size() && i < tangents.size(); ++i) {
      if (!tangents[i].defined() || !takes_tangent(all[i])) continue;
      Tensor t = fitted(tangents[i], all[i]);
      if (!op.view) t = in_common(std::move(t), given, call, *level);
      const bool own = op.view || has_its_memory(t, call);
      set_tangent(all[i], *level, std::move(t), own);
    }
  }
  if (thread_state.grad) share_with_saved(all);
}

namespace {

/// Of a fused row: those of its composition, at a level of its own, which leaves no tangents behind.
Tensors composed_tangents(const DualCall& call) {
  DualLevel& level = enter_dual_level();
  struct Leave {
    const uint64_t number;
    ~Leave() { leave_dual_level(number); }
  } const leave{level.number};
  Tensors duals = call.primals;
  for (size_t i = 0; i < duals.size(); ++i)
    if (call.tangents[i].defined()) duals[i] = make_dual(duals[i], call.tangents[i], level);
  Results made;
  call.op.composed(call.op, call.with(duals).data(), made);
  Tensors tangents;
  for (const Tensor& t : made.all())
    tangents.push_back(t.defined() && is_differentiable(t.dtype()) ? tangent_of(t, level) : Tensor());
  return tangents;
}

}  // namespace

Tensors tangents_of_results(const DualCall& call) {
  const Operator& op = call.op;
  if (op.tangents) return op.tangents(call);
  if (op.elementwise) return {elementwise_tangent(call)};
  uint32_t terms = op.view ? 1 : op.linear_terms;
  const auto has_tangent = [&](size_t parameter) {
    for (size_t i = call.first[parameter]; i < call.first[parameter + 1]; ++i)
      if (call.tangents[i].defined()) return true;
    return false;
  };
  const auto otherwise = [&] {
    bool ruled = op.composed && op.rules;  // what has no derivative is refused, in the words of the other way
    for (size_t i = 0; i < op.kinds.size(); ++i)
      ruled = ruled && (!has_tangent(i) || op.rules->ruled >> i & 1);
    return ruled ? composed_tangents(call) : transposed_tangents(call);
  };
  uint32_t factors = 0;
  for (size_t i = 0; i < op.kinds.size(); ++i)
    factors |= uint32_t{op.linear_factors >> i & 1 && has_tangent(i)} << i;
  // It may be linear in some of those that have tangents only; and of a sum of which only the terms have
  // tangents, the product would have to be zero.
  for (size_t i = 0; i < op.kinds.size(); ++i)
    if (!((terms | op.linear_factors) >> i & 1) && has_tangent(i)) return otherwise();
  if (!factors && (op.linear_factors || !terms)) return otherwise();
  Tensors sum;
  do {
    Tensors arguments = call.primals;
    const uint32_t factor = factors & ~(factors - 1);
    for (size_t p = 0; p < op.kinds.size(); ++p)
      for (size_t i = call.first[p]; i < call.first[p + 1]; ++i) {
        const bool linear = (terms | factor) >> p & 1, empty = op.linear_terms >> p & 1 && !linear;
        if ((linear || empty) && arguments[i].defined())
          arguments[i] =
              linear && call.tangents[i].defined() ? call.tangents[i] : expanded_zero(arguments[i]);
      }
    Results r;
    op.boxed(call.with(arguments).data(), r);
    const auto more = r.all();
    if (sum.empty())
      sum.assign(more.begin(), more.end());
    else
      for (size_t i = 0; i < sum.size(); ++i) sum[i] = add_gradients(sum[i], more[i]);
    factors &= factors - 1;
    terms = 0;
  } while (factors);
  return sum;
}

void need_alike(const Tensor& t, const Tensor& tangent, const std::string& end) {
  if (!same(t.sizes(), tangent.sizes()))
    fail(
        "Trying to set a forward gradient that has a different size than that of the original Tensor, this "
        "is not supported. Tensor is of size ",
        t.sizes(), " while the given forward gradient is of size ", tangent.sizes(), end);
  if (device_of(t) != device_of(tangent))
    fail("Trying to set a forward gradient that is on another device than the original Tensor: expected ",
         name_of(device_of(t)), " but got ", name_of(device_of(tangent)),
         "; move it with .to(). The tensor is of size ", t.sizes(), end);
}

Tensor make_dual(const Tensor& t, const Tensor& given, DualLevel& level) {
  if (!is_differentiable(t.dtype()))
    fail<ValueError>("Expected primal to be floating point or complex, but got: ", name_of(t.dtype()));
  if (!is_differentiable(given.dtype()))
    fail<ValueError>("Expected tangent to be floating point or complex, but got: ", name_of(given.dtype()));
  need_alike(t, given, ".");
  if (given.is_complex() && !t.is_complex())
    fail("make_dual(): a tensor of ", name_of(t.dtype()), " cannot have a tangent of ",
         name_of(given.dtype()), "; pass its real part");
  if (tangent_of(t, level).defined())
    fail("Making a dual Tensor based on a Tensor that already has a forward gradient at the same level ",
         level.number,
         " is not supported. Take its primal by unpack_dual() first, or open a level of its own for the "
         "second tangent.");
  // Not the tangent's own of this level, which would never be asked for.
  const Tensor tangent = without_tangents(given, level.number);
  const Tensor dual = call<Expand>(t, t.sizes());
  set_tangent(dual, level, tangent.dtype() == t.dtype() ? tangent : call<To>(tangent, t.dtype()), false);
  return dual;
}

std::pair<Tensor, Tensor> unpack_dual(const Tensor& t, const DualLevel& level) {
  const Tensor tangent = is_differentiable(t.dtype()) ? tangent_of(t, level) : Tensor();
  const Dims sizes(t.sizes());
  Value values[2];
  argument_t<Tensor>::box(t, values[number_of_argument<Expand, "self">]);
  argument_t<Sizes>::box(sizes.span(), values[number_of_argument<Expand, "size">]);
  Results r;
  call_plain(*row_of<Expand>, values, r);
  share_tangents(r.one, t, level.number);
  return {r.one, tangent};
}

}  // namespace adjoint
