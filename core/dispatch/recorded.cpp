// What the arithmetic of formulas means on tensors.
#include "dispatch/operator.h"
#include "ops/arithmetic.h"
#include "ops/comparison.h"
#include "ops/complex.h"
#include "ops/selection.h"

namespace adjoint::inline ADJOINT_ISA {

Recorded::Recorded(double number) : tensor(wrap_number(Scalar(number), DType::Float64)) {}
Recorded Recorded::conj() const { return tensor.is_complex() ? Recorded(call<Conj>(tensor)) : *this; }

Recorded operator-(const Recorded& a) { return call<Neg>(a.tensor); }
Recorded operator+(const Recorded& a, const Recorded& b) { return call<Add>(a.tensor, b.tensor); }
Recorded operator-(const Recorded& a, const Recorded& b) { return call<Sub>(a.tensor, b.tensor); }
Recorded operator*(const Recorded& a, const Recorded& b) { return call<Mul>(a.tensor, b.tensor); }
Recorded operator/(const Recorded& a, const Recorded& b) { return call<Div>(a.tensor, b.tensor); }
Recorded operator<(const Recorded& a, const Recorded& b) { return call<Less>(a.tensor, b.tensor); }
Recorded operator<=(const Recorded& a, const Recorded& b) { return call<LessEqual>(a.tensor, b.tensor); }
Recorded operator>(const Recorded& a, const Recorded& b) { return call<Greater>(a.tensor, b.tensor); }
Recorded operator>=(const Recorded& a, const Recorded& b) { return call<GreaterEqual>(a.tensor, b.tensor); }
Recorded operator==(const Recorded& a, const Recorded& b) { return call<Equal>(a.tensor, b.tensor); }
Recorded operator!=(const Recorded& a, const Recorded& b) { return call<NotEqual>(a.tensor, b.tensor); }
Recorded operator&&(const Recorded& a, const Recorded& b) { return call<LogicalAnd>(a.tensor, b.tensor); }
Recorded operator||(const Recorded& a, const Recorded& b) { return call<LogicalOr>(a.tensor, b.tensor); }
Recorded operator!(const Recorded& a) { return call<LogicalNot>(a.tensor); }
Recorded select(const Recorded& condition, const Recorded& a, const Recorded& b) {
  return call<Where>(condition.tensor, a.tensor, b.tensor);
}

}  // namespace adjoint::inline ADJOINT_ISA
