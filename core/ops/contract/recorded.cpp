// What the arithmetic of formulas means on tensors.
#include "dispatch/operator.h"
#include "ops/arithmetic.h"
#include "ops/comparison.h"
#include "ops/complex.h"
#include "ops/selection.h"

namespace adjoint::inline ADJOINT_ISA {

Recorded::Recorded(double number) : tensor(wrap_number(Scalar(number), DType::Float64)) {}
Recorded number(double value, const Tensor& like) { return wrap_number(Scalar(value), like.dtype()); }
Recorded Recorded::conj() const { return tensor.is_complex() ? Recorded(call<Conj>(tensor)) : *this; }

namespace {

// Arithmetic of bare numbers stays bare and exact; it would otherwise happen in the default type.
template <class Op>
Recorded combine(const Recorded& a, const Recorded& b) {
  if (!a.tensor.is_wrapped() || !b.tensor.is_wrapped()) return call<Op>(a.tensor, b.tensor);
  const Scalar x = item(a.tensor), y = item(b.tensor);
  if (x.is_complex() || y.is_complex())
    return wrap_number(Scalar(Op::forward(x.as_complex(), y.as_complex())), DType::Complex128);
  return Recorded(Op::forward(x.as_double(), y.as_double()));
}

}  // namespace

Recorded operator-(const Recorded& a) {
  return a.tensor.is_wrapped() ? Recorded(-1.0) * a : Recorded(call<Neg>(a.tensor));
}
Recorded operator+(const Recorded& a, const Recorded& b) { return combine<Add>(a, b); }
Recorded operator-(const Recorded& a, const Recorded& b) { return combine<Sub>(a, b); }
Recorded operator*(const Recorded& a, const Recorded& b) { return combine<Mul>(a, b); }
Recorded operator/(const Recorded& a, const Recorded& b) { return combine<Div>(a, b); }
Recorded operator<(const Recorded& a, const Recorded& b) { return call<Less>(a.tensor, b.tensor); }
Recorded operator<=(const Recorded& a, const Recorded& b) { return call<LessEqual>(a.tensor, b.tensor); }
Recorded operator>(const Recorded& a, const Recorded& b) { return call<Greater>(a.tensor, b.tensor); }
Recorded operator>=(const Recorded& a, const Recorded& b) { return call<GreaterEqual>(a.tensor, b.tensor); }
Recorded operator==(const Recorded& a, const Recorded& b) { return call<Equal>(a.tensor, b.tensor); }
Recorded operator!=(const Recorded& a, const Recorded& b) { return call<NotEqual>(a.tensor, b.tensor); }
Recorded operator&&(const Recorded& a, const Recorded& b) { return call<LogicalAnd>(a.tensor, b.tensor); }
Recorded operator||(const Recorded& a, const Recorded& b) { return call<LogicalOr>(a.tensor, b.tensor); }
Recorded select(const Recorded& condition, const Recorded& a, const Recorded& b) {
  // Two bare numbers would make the default type of it, which may round them.
  auto rounds = [](const Tensor& t) {
    return !t.is_complex() && item(t).as_double() != static_cast<float>(item(t).as_double());
  };
  if (a.tensor.is_wrapped() && b.tensor.is_wrapped() && (rounds(a.tensor) || rounds(b.tensor)))
    return call<Where>(condition.tensor, scalar_tensor(item(a.tensor), DType::Float64),
                       scalar_tensor(item(b.tensor), DType::Float64));
  return call<Where>(condition.tensor, a.tensor, b.tensor);
}

}  // namespace adjoint::inline ADJOINT_ISA
