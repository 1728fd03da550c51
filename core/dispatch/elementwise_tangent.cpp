// The forward rule of an element-wise operator, from its derivative or its reverse rule.
//
// An element's derivative d is a number: the tangent is t d, and the reverse rule g ↦ g conj(d) gives it, with conj(t) for g
// where numbers are complex. A rule stated as a vjp is, on real numbers, the product with a number, too. On complex numbers it
// may be linear over the reals only; then its values at 1 and at i say all of it: <g, J t> = <vjp(g), t> with <a, b> the real
// part of conj(a) b, so that the real part of J t is <vjp(1), t> and the imaginary part <vjp(i), t>.
#include "for_size.h"

#include "dispatch/elementwise.h"

#include "autograd/arithmetic.h"
#include "ops/arithmetic.h"
#include "ops/complex.h"
#include "ops/shape.h"
#include "transforms/forward.h"
#include "transforms/transformed.h"

namespace adjoint {

std::vector<Value> boxed_call(const ElementwiseInfo& op, const Tensor* in, const double* parameters) {
  std::vector<Value> values(static_cast<size_t>(op.arity + op.parameters));
  for (int i = 0; i < op.arity; ++i) {
    values[i].present = true;
    values[i].tensor = &in[i];
  }
  for (int k = 0; k < op.parameters; ++k) {
    values[op.arity + k].present = true;
    values[op.arity + k].d = parameters[k];
  }
  return values;
}

[[gnu::cold]] bool elementwise_transformed(const ElementwiseInfo& op, const Tensor* in, const double* parameters, Tensor& result) {
  Results r;
  if (!transformed(*op.row, boxed_call(op, in, parameters), r)) return false;
  result = std::move(r.one);
  return true;
}

[[gnu::cold]] Tensor elementwise_aside(const ElementwiseInfo& op, const Tensor* in, const double* parameters) {
  Tensor kept[kMostInputs];
  for (int i = 0; i < op.arity; ++i) kept[i] = thread_state.grad && in[i]->storage == in[0]->storage ? call<Clone>(in[i]) : in[i];
  return call_elementwise(op, kept, parameters);
}

namespace {

/// The real part of conj(a) t.
Tensor inner(const Tensor& a, const Tensor& t) {
  const Tensor product = call<Mul>(call<Conj>(a), t);
  return product.is_complex() ? call<RealPart>(product) : product;
}

struct TangentRule {
  const ElementwiseInfo& op;
  const Tensor* in;  // the inputs, and as number 3 the result
  const double* parameters;
  DType type;     // computed in
  bool fused;     // nothing is recorded, and nothing carries anything
  bool complex;   // numbers that are, on either side

  Tensor gradient(int i, const Tensor& g) const {
    if (!fused) return op.recorded[i](g, in, in[3], parameters);
    return fused_gradient(op, i, type, parameters, same(g.sizes(), in[3].sizes()) ? g : call<Expand>(g, in[3].sizes()), in);
  }

  Tensor tangent(int i, Tensor t) const {
    const RuleKind kind = op.rules[i];
    if (kind == RuleKind::Missing)
      fail<NotImplemented>("Trying to use forward AD with ", op.name, " that does not support it because it has not been implemented yet: "
                           "its derivative with respect to input ", i, " is not");
    if (t.dtype() != type) t = call<To>(t, type);
    if (kind == RuleKind::One) return op.result == ResultType::Real && t.is_complex() ? call<RealPart>(t) : t;
    if (kind == RuleKind::MinusOne) return call<Neg>(t);
    if (!complex) return gradient(i, t);
    if (kind == RuleKind::Derivative) return call<Conj>(gradient(i, call<Conj>(t)));
    const DType g_type = result_dtype(op, type);
    const Tensor re = inner(gradient(i, scalar_tensor(Scalar(1), g_type)), t);
    if (!is_complex(g_type)) return re;
    return call<MakeComplex>(re, inner(gradient(i, scalar_tensor(Scalar(Complex<double>{0, 1}), g_type)), t));
  }
};

}  // namespace

Tensor elementwise_tangent(const DualCall& c) {
  Tensor given[4];
  const ElementwiseInfo& op = given_inputs(*c.op.elementwise, c.arguments.data(), given);
  double parameters[kMostParameters];
  for (int k = 0; k < op.parameters; ++k) parameters[k] = parameter_of(*c.op.elementwise, c.arguments.data(), k);
  bool carries = false;
  for (int i = 0; i < op.arity; ++i) {
    given[i] = c.primals[i];
    carries |= is_transformed(given[i]) || (c.tangents[i].defined() && is_transformed(c.tangents[i]));
  }
  given[3] = c.results[0];
  const DType type = promoted(op, given);
  const TangentRule rule{op, given, parameters, type, !carries && !c.is_recorded(), is_complex(type) || is_complex(result_dtype(op, type))};
  Tensor sum;
  bool own = false;
  for (int i = 0; i < op.arity; ++i) {
    if (!c.tangents[i].defined() || op.rules[i] == RuleKind::Zero) continue;
    const Tensor t = rule.tangent(i, c.tangents[i]);
    if (!sum.defined()) {
      own = op.rules[i] != RuleKind::One;
      sum = t;
    } else if (rule.fused && own && t.dtype() == sum.dtype() && same(t.sizes(), sum.sizes())) {
      add_in_place(sum, t);
    } else {
      sum = add_gradients(sum, t);
      own = true;
    }
  }
  return sum;
}

}  // namespace adjoint
