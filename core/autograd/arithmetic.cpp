// The arithmetic of gradients by the operators: the one file of this room that knows any.
#include "autograd/arithmetic.h"

#include <algorithm>
#include <cmath>

#include "autograd/meta.h"
#include "autograd/views.h"
#include "dispatch/batched_call.h"
#include "dispatch/constants.h"
#include "dispatch/operator.h"
#include "kernels/chain.h"
#include "kernels/launch.h"
#include "kernels/part.h"
#include "kernels/slices.h"
#include "kernels/values.h"
#include "ops/arithmetic.h"
#include "ops/complex.h"
#include "ops/part.h"
#include "ops/rearranging.h"
#include "ops/shape.h"
#include "ops/sparse.h"
#include "ops/writing.h"
#include "transforms/batching.h"
#include "transforms/interpreter.h"
#include "transforms/sparse.h"

namespace adjoint {

Tensor add_gradients(const Tensor& a, const Tensor& b) { return call<Add>(a, b); }

void write_gradient(const Tensor& home, const Tensor& g) {
  const GradMode off(false);
  call<Copy>(home, g);
}
[[gnu::hot]] void add_in_place(const Tensor& a, const Tensor& b) {
  GradMode off(false);
  if (is_sparse(b)) [[unlikely]] {
    // Indices go after indices; to a dense tensor, only what is named is written.
    if (is_sparse(a)) return become_sparse(a, call<Add>(a, b), "add");
    call<IndexPut>(a, sparse_parts(b).values, OptionalTensorList(sparse_positions(b)), true);
    return;
  }
  const Tensor in[] = {a, b};
  call_elementwise(info_of<Add>(), in, nullptr, &a, true);
}

void add_in_place(const Tensor& a, std::span<const Tensor> many) {
  const int slot = loop_slot(a.dtype());
  const bool alike = slot >= 0 && a.is_contiguous() && std::ranges::all_of(many, [&](const Tensor& b) {
                       return b.dtype() == a.dtype() && b.is_contiguous() && same(b.sizes(), a.sizes());
                     });
  if (alike && many.size() > 1 && !thread_state.watched)  // who looks on sees each sum
    return on<&fold_in_blocks>(Out(a), many, info_of<Add>().loops.forward[slot]);
  for (const Tensor& b : many) add_in_place(a, b);
}

/// A rule's last step is often a view of what it made: nobody has that but the view, which is all of it.
static bool is_whole_of_what_nobody_has(const Tensor& g) {
  if (!g->is(TensorImpl::kView) || !g.unique() || g->storage->refcount.load(std::memory_order_acquire) != 2 ||
      g->storage->kind == Storage::Kind::External ||
      g->storage->nbytes > static_cast<size_t>(g.numel() * g.itemsize()))
    return false;
  const Tensor base = base_of(g);
  return base.defined() && base->refcount.load(std::memory_order_acquire) == 2;  // the view's and this one
}

// A leaf that fills its memory without gaps has a gradient of its own strides; other leaves have one in
// row-major order.
Tensor own_gradient(Tensor& g, const Tensor& leaf) {
  if (is_sparse(g)) [[unlikely]] {
    if (thread_state.grad || !g.requires_grad())
      return g.unique() && g->storage->refcount.load(std::memory_order_acquire) == 1 ? std::move(g)
                                                                                     : call<Clone>(g);
    return call<Clone>(detach(g));
  }
  // The leaf may have got other data since.
  if (g.numel() != leaf.numel() ||
      (leaf->storage->kind == Storage::Kind::External && !same(g.sizes(), leaf.sizes()))) [[unlikely]]
    fail("a gradient of shape ", g.sizes(), " arrived for a leaf of shape ", leaf.sizes(),
         ": its .data were replaced, or its memory by set_(), between forward and backward. Run backward "
         "first, or keep the shape");
  const bool like_leaf = !leaf.is_contiguous() && without_gaps(leaf);
  const bool lies_well = like_leaf ? same(g.strides(), leaf.strides()) : g.is_contiguous();
  const bool carries = g->flags & TensorImpl::kTransformed;
  const bool unshared = g.unique() && g->storage->refcount.load(std::memory_order_acquire) == 1 &&
                        g->storage->kind != Storage::Kind::External;
  if (lies_well && unshared) return thread_state.grad || !g.requires_grad() ? std::move(g) : alias(g);
  if (lies_well && !thread_state.grad && !carries && is_whole_of_what_nobody_has(g)) return alias(g);
  if ((thread_state.grad || carries) && lies_well) return call<Clone>(g);
  Tensor fresh;
  if (thread_state.watched && !thread_state.interpreter && !carries && !thread_state.grad) [[unlikely]] {
    // Made, not written: its version is that of a gradient which nobody saw arrive.
    fresh = like_leaf ? empty_as(leaf, g.dtype()) : empty(g.sizes(), g.dtype());
    {
      const NoInterpretation inner;
      copy_into(fresh, g);
    }
    announce_copied(fresh, g, true);
    return fresh;
  }
  if (thread_state.watched) [[unlikely]]
    fresh = like_leaf ? call<EmptyLike>(leaf, OptionalType(g.dtype()), false, std::nullopt)
                      : constant<Empty>(Sizes(g.sizes()), OptionalType(g.dtype()), false);
  else
    fresh = like_leaf ? empty_as(leaf, g.dtype()) : empty(g.sizes(), g.dtype());
  if (thread_state.grad || carries || thread_state.watched) return call<Copy>(fresh, g);
  copy_into(fresh, g);
  return fresh;
}

namespace {

/// Which of the inputs in `mask` the graph of `g` leads to. What the rule of `of` recorded has numbers from
/// `since` on, begins at the cotangents and at what was saved, and is a few nodes. Where it is more, as of a
/// layer's composition, all of them: such a layer is not flat in what it reads. What was saved may have
/// another history than the input (of a replayed call's result, say), and then stands for all as well.
uint64_t inputs_reached(const Tensor& g, const Gradients& cotangents, Node& of, uint64_t since,
                        uint64_t mask) {
  constexpr size_t kMost = 32;
  const std::span<const Edge> inputs = of.edges();
  Node* nodes[kMost];
  size_t end = 0;
  uint64_t found = 0;
  const auto look_at = [&](Node* node, uint32_t input_nr) {
    if (!node) return;
    if (node->sequence >= since && node->sequence != Node::kFirst) {
      if (std::find(nodes, nodes + end, node) != nodes + end) return;
      if (end == kMost)
        found = mask;
      else
        nodes[end++] = node;
      return;
    }
    bool known = false;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].node.get() == node && inputs[i].input_nr == input_nr) {
        known = true;
        found |= mask & uint64_t{1} << (i & 63);
      }
    for (const Tensor& c : cotangents) known |= c.defined() && c->grad_fn == node && c->output_nr == input_nr;
    if (!known) found = mask;
  };
  look_at(g->grad_fn, g->output_nr);
  for (size_t i = 0; i < end && found != mask; ++i)
    for (const Edge& e : nodes[i]->edges()) look_at(e.node.get(), e.input_nr);
  return found;
}

}  // namespace

void keep_history(Tensor& g, const Gradients& cotangents, Node& of, uint64_t since, uint64_t mask) {
  if (!g.defined() || thread_state.within_composition) return;
  const std::span<const Edge> edges = of.edges();
  uint64_t inputs = 0;
  for (size_t i = 0; i < edges.size(); ++i)
    if (edges[i]) inputs |= mask & uint64_t{1} << (i & 63);
  mask = g->grad_fn ? inputs & ~inputs_reached(g, cotangents, of, since, inputs) : inputs;
  for (size_t i = 0; i < edges.size() && mask; ++i) {
    if (!edges[i] || !(mask >> (i & 63) & 1)) continue;
    // Stands for the input, of which only the history is needed.
    const ResultInfo& info = edges[i].node->result(edges[i].input_nr);
    const Node& node = *edges[i].node;
    const Tensor zero = over(Ref<Storage>::share(zeros(IntList(), info.dtype())->storage), info.dtype(),
                             info.sizes(), Dims(info.sizes().size(), 0).span(), 0);
    // Inside of a vmap() it stands for each sample, so that the history stays there, of a constant that a
    // rule made too.
    const Tensor stand_in = of_each_sample(zero, node);
    set_history(stand_in, edges[i].node, edges[i].input_nr);
    g = call<Attach>(g, stand_in);
  }
}

Tensor moved_to(Tensor g, Device device) {
  return call<ToDevice>(g, static_cast<int64_t>(device), static_cast<int64_t>(device_of(g)));
}

Tensor conjugate_of(Tensor g) { return g.defined() && g.is_complex() ? call<Conj>(g) : g; }

Tensor fit_gradient(Tensor g, const ResultInfo& info, const Node& from, size_t index) {
  if (!same(g.sizes(), info.sizes())) {
    bool can = g.sizes().size() >= info.sizes().size();
    const size_t lead = can ? g.sizes().size() - info.sizes().size() : 0;
    for (size_t i = 0; can && i < info.sizes().size(); ++i)
      can = info.sizes()[i] == g.sizes()[i + lead] || info.sizes()[i] == 1;
    if (!can)
      fail("Function ", from.name(), " returned an invalid gradient at index ", index, " - got ", g.sizes(),
           " but expected shape compatible with ", info.sizes());
    g = sum_to_shape(g, info.sizes());
  }
  if (g.dtype() != info.dtype() && !info.any_type) g = call<To>(g, info.dtype());
  return g;
}

Tensor on_device(Tensor g, const ResultInfo& info, const Node& from, size_t index) {
  if (const Device found = device_of(g); found != info.device()) [[unlikely]] {
    if (g.dim() != 0 || found == Device::Meta)
      fail("Function ", from.name(), " returned an invalid gradient at index ", index, " - expected device ",
           name_of(info.device()), " but got ", name_of(found),
           ": a gradient is on the device of what it is the gradient of; move it with .to()");
    return moved_to(std::move(g), info.device());
  }
  return g;
}

Tensor entering_gradient(Tensor g, const ResultInfo& info, const Node& from, size_t index) {
  g = on_device(std::move(g), info, from, index);
  return info.fits(g) ? g : fit_gradient(std::move(g), info, from, index);
}

Tensor expanded_zero(const Tensor& t) {
  const DeviceScope scope(device_of(t));
  return over(Ref<Storage>::share(scalar_tensor(Scalar(0), t.dtype())->storage), t.dtype(), t.sizes(),
              Dims(t.sizes().size(), 0).span(), 0);
}

Tensor ones_like_result(const Tensor& t) {
  const DeviceScope scope(device_of(t));
  return t.dim() == 0 ? scalar_tensor(Scalar(1), t.dtype()) : full(t.sizes(), Scalar(1), t.dtype());
}

Tensor replay_view(const Tensor& base, const ViewPart& p) {
  Dims sizes(p.sizes), strides(p.strides);
  Tensor from = base;
  if (is_complex(p.base_dtype) && !is_complex(p.dtype)) from = call<ViewAsReal>(base);
  const bool pairs = is_complex(p.dtype) && !is_complex(p.base_dtype);
  if (pairs) {
    for (int64_t& s : strides) s *= 2;
    sizes.push_back(2);
    strides.push_back(1);
  }
  if (from.itemsize() != itemsize(p.dtype) / (pairs ? 2 : 1))
    fail<NotImplemented>("the history of a view of ", name_of(p.base_dtype), " elements as ",
                         name_of(p.dtype), " cannot be recorded again");
  const Tensor view = call<AsStrided>(from, sizes.span(), strides.span(),
                                      std::optional<int64_t>(from.offset() + p.bytes / from.itemsize()));
  return pairs ? call<ViewAsComplex>(view) : view;
}

Tensor laid_out_like_base(const Tensor& g, const ViewPart& p) {
  int64_t span = 1;
  for (size_t i = 0; i < p.base_sizes.size(); ++i)
    span += p.base_sizes[i] ? (p.base_sizes[i] - 1) * p.base_strides[i] : 0;
  Tensor memory = zeros({&span, 1}, g.dtype());
  const Tensor like =
      over(Ref<Storage>::share(memory->storage), g.dtype(), p.base_sizes.span(), p.base_strides.span(), 0);
  memory.reset();  // it alone looks at these bytes, so that it can stand for a batch
  return call<Copy>(like, g);
}

bool cut_part(const Tensor& g, const ViewPart& p, bool may_take, Tensor* rest, Tensor* slice) {
  if (thread_state.grad || thread_state.watched || g->flags & TensorImpl::kTransformed ||
      p.dtype != p.base_dtype || g.dtype() != p.dtype || p.bytes < 0)
    return false;
  int64_t expected = 1;
  for (size_t i = p.base_sizes.size(); i-- > 0;) {
    if (p.base_strides[i] != expected && p.base_sizes[i] != 1) return false;
    expected *= p.base_sizes[i];
  }
  const int64_t item = g.itemsize(), offset = p.bytes / item;
  int64_t last = offset;
  for (size_t i = 0; i < p.sizes.size(); ++i) {
    if (p.sizes[i] == 0 || p.strides[i] < 0) return false;
    last += (p.sizes[i] - 1) * p.strides[i];
  }
  if (last >= g.numel()) return false;
  const bool own = may_take && g.is_contiguous() && g.unique() &&
                   g->storage->refcount.load(std::memory_order_acquire) == 1 &&
                   g->storage->kind != Storage::Kind::External;
  const Tensor all = own || !rest ? g : copy_of(g);
  if (!all.is_contiguous()) return false;
  if (p.sizes.empty()) {
    if (slice) on<&kernels::take_number>(Out(*slice = empty_scalar(g.dtype())), all, offset);
    if (rest) on<&kernels::clear_number>(Out(all), offset);
  } else {
    const Tensor part = alias(all, p.sizes.span(), p.strides.span(), all.offset() + offset);
    if (slice) *slice = copy_of(part);
    if (rest) copy_into(part, scalar_tensor(Scalar(0), part.dtype()));
  }
  if (rest) *rest = all;
  return true;
}

Tensor contents_in_order(const Tensor& t) { return dense(t); }
Tensor owned(const Tensor& t) { return call<Clone>(t); }
void write_zeros(const Tensor& t) { call<ZeroAll>(t); }

bool has_nan(const Tensor& t) {
  if (!is_differentiable(t.dtype())) return false;
  const Tensor all = batching::all_samples(t);
  if (is_sparse(all)) return has_nan(sparse_parts(all).values);
  const DeviceScope scope(device_of(all));
  return check<&kernels::any_nan>(dense(all));
}

}  // namespace adjoint
