// The arithmetic of gradients (autograd/arithmetic.h), by the operators.
#include "autograd/arithmetic.h"

#include <cmath>

#include "dispatch/operator.h"
#include "kernels/copy.h"
#include "ops/arithmetic.h"
#include "ops/complex.h"
#include "ops/shape.h"

namespace adjoint {

Tensor add_gradients(const Tensor& a, const Tensor& b) { return call<Add>(a, b); }

void add_in_place(const Tensor& a, const Tensor& b) {
  GradMode off(false);
  const Tensor in[] = {a, b};
  call_elementwise(info_of<Add>(), in, nullptr, &a, true);
}

Tensor own_gradient(Tensor& g, const Tensor& leaf) {
  if (thread_state.grad) return std::move(g);  // recorded: the history must stay
  if (g.unique() && g->storage->refcount.load(std::memory_order_acquire) == 1 && g->storage->kind != Storage::Kind::External &&
      (g.is_contiguous() || same(g.strides(), leaf.strides())))
    return std::move(g);
  return copy_of(g);
}

Tensor fit_gradient(Tensor g, const ResultInfo& info, const Node& from, size_t index) {
  if (!same(g.sizes(), info.sizes())) {
    bool can = g.sizes().size() >= info.sizes().size();
    const size_t lead = can ? g.sizes().size() - info.sizes().size() : 0;
    for (size_t i = 0; can && i < info.sizes().size(); ++i)
      can = info.sizes()[i] == g.sizes()[i + lead] || info.sizes()[i] == 1;
    if (!can)
      fail("Function ", from.name(), " returned an invalid gradient at index ", index, " - got ", to_string(g.sizes()),
           " but expected shape compatible with ", to_string(info.sizes()));
    g = sum_to_shape(g, info.sizes());
  }
  if (g.dtype() != info.dtype()) g = call<To>(g, info.dtype());
  return g;
}

Tensor ones_like_result(const Tensor& t) { return t.dim() == 0 ? scalar_tensor(Scalar(1), t.dtype()) : full(t.sizes(), Scalar(1), t.dtype()); }

bool has_nan(const Tensor& t) {
  if (!is_differentiable(t.dtype())) return false;
  const Tensor d = dense(t);
  return visit(d.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* p = d.data<T>();
    for (int64_t i = 0, n = d.numel(); i < n; ++i) {
      if constexpr (is_complex_v<T>) { if (p[i].re != p[i].re || p[i].im != p[i].im) return true; }
      else if (static_cast<compute_t<T>>(p[i]) != static_cast<compute_t<T>>(p[i])) return true;
    }
    return false;
  });
}

}  // namespace adjoint
