#include "ops/composed.h"

#include "dispatch/family.h"
#include "for_size.h"
#include "ops/shape.h"

namespace adjoint {

Tensor multiple(const Tensor& self, const Tensor& other, const Tensor& alpha) {
  const Category scale = category(alpha.dtype());
  const Category most = std::max(category(self.dtype()), category(other.dtype()));
  if (alpha.is_wrapped() && scale == Category::Floating && most <= Category::Integer)
    fail("For integral input tensors, argument alpha must not be a floating point number.");
  if (alpha.is_wrapped() && scale == Category::Complex && most != Category::Complex)
    fail("For non-complex input tensors, argument alpha must not be a complex number.");
  return call<Mul>(other, alpha);
}

Tensor Rsub::forward(const Tensor& self, const Tensor& other, Scalar alpha) {
  if (alpha == Scalar(1)) return call<Sub>(other, self);
  return call<SubMultiple>(other, self, wrap_number(alpha, self.dtype()));
}

Tensor DivRounded::forward(const Tensor& self, const Tensor& other, std::optional<Text> rounding_mode) {
  if (!rounding_mode) return call<Div>(self, other);
  if (*rounding_mode == "floor") return call<FloorDivide>(self, other);
  if (*rounding_mode == "trunc") return call<TruncDivide>(self, other);
  fail("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '", *rounding_mode, "'");
}

Tensors WhereTrue::forward(const Tensor& condition) {
  const int64_t one[] = {1};
  return call_all<Unbind>(call<Nonzero>(condition.dim() ? condition : call<Reshape>(condition, IntList(one))),
                          1);
}

}  // namespace adjoint

ADJOINT_FAMILY(Composed)
