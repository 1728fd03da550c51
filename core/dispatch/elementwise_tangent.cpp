// The forward rule of an element-wise operator, from its derivative or its reverse rule.
//
// An element's derivative d is a number: the tangent is t d, and the reverse rule g ↦ g conj(d) gives it,
// with conj(t) for g where numbers are complex. A rule stated as a vjp is, on real numbers, the product with
// a number, too. On complex numbers it may be linear over the reals only; then its values at 1 and at i say
// all of it: <g, J t> = <vjp(g), t> with <a, b> the real part of conj(a) b, so that the real part of J t is
// <vjp(1), t> and the imaginary part <vjp(i), t>.
#include <algorithm>

#include "autograd/arithmetic.h"
#include "dispatch/elementwise.h"
#include "for_size.h"
#include "kernels/chain.h"
#include "kernels/run_loop.h"
#include "ops/arithmetic.h"
#include "ops/complex.h"
#include "ops/shape.h"
#include "runtime/parallel.h"
#include "tensor/device.h"
#include "transforms/forward.h"
#include "transforms/transformed.h"

namespace adjoint {

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
  DType type;    // computed in
  bool fused;    // nothing is recorded, and nothing carries anything
  bool complex;  // numbers that are, on either side

  Tensor gradient(int i, const Tensor& g) const {
    if (!fused) return op.recorded[i](g, in, in[3], parameters);
    return fused_gradient(op, i, type, parameters,
                          same(g.sizes(), in[3].sizes()) ? g : call<Expand>(g, in[3].sizes()), in);
  }

  Tensor tangent(int i, Tensor t) const {
    const RuleKind kind = op.rules[i];
    if (kind == RuleKind::Missing)
      fail<NotImplemented>("Trying to use forward AD with ", op.name,
                           " that does not support it because it has not been implemented yet: its "
                           "derivative with respect to input ",
                           i, " is not");
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
  Unboxed unboxed(c.op, c.arguments.data());
  const ElementwiseInfo& op = unboxed.op;
  Tensor* const given = unboxed.in;
  bool carries = false;
  for (int i = 0; i < op.arity; ++i) {
    given[i] = c.primals[i];
    carries |= is_transformed(given[i]) || (c.tangents[i].defined() && is_transformed(c.tangents[i]));
  }
  given[3] = c.results[0];
  const DType type = promoted(op, given);
  const TangentRule rule{op,
                         given,
                         unboxed.parameters,
                         type,
                         !carries && !c.is_recorded(),
                         is_complex(type) || is_complex(result_dtype(op, type))};
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

bool elementwise_dual(DualCall& c, std::span<const Tensor> all, Results& results) {
  if (thread_state.watched || thread_state.device != Device::CPU || c.op.writes) return false;
  const Unboxed unboxed(c.op, c.arguments.data());
  const ElementwiseInfo& op = unboxed.op;
  const Tensor* const in = unboxed.in;
  const double* const parameters = unboxed.parameters;
  Resolved r;
  if (!resolve_straight(op, in, r) || r.tracked || op.result != ResultType::Same) return false;
  const DType type = r.type;
  const int slot = loop_slot(type);
  const int64_t n = product(r.sizes);
  if (n <= StraightCall::kSerial || (type != DType::Float32 && type != DType::Float64)) return false;
  const Ref<DualLevel> level = next_level(all, 0);
  if (!level || next_level(all, level->number)) return false;
  const auto lies_well = [n](const Tensor& t) {
    return !(t->flags & TensorImpl::kNotAsTheyLie) && t.is_contiguous() && (t.numel() == n || t.numel() == 1);
  };
  // What makes a term of the result's tangent of each input's; null: it is one.
  Loop loops[kMostInputs] = {};
  int terms = 0;
  bool computes = false;
  for (int i = 0; i < op.arity; ++i) {
    if (!lies_well(in[i])) return false;
    if (i == op.condition || op.rules[i] == RuleKind::Zero) continue;
    const Tensor& t = c.tangents[i] = tangent_of(in[i], *level);  // held while its memory is read
    if (!t.defined()) continue;
    if (op.rules[i] == RuleKind::Missing || t.dtype() != type || t.numel() != in[i].numel() ||
        (thread_state.grad && t.requires_grad()) || !lies_well(t))
      return false;
    if (op.rules[i] != RuleKind::One)
      loops[i] =
          op.rules[i] == RuleKind::MinusOne ? info_of<Neg>().loops.forward[slot] : op.loops.backward[i][slot];
    computes |= loops[i] != nullptr;
    ++terms;
  }
  // One term is a walk of its own as quickly: processors read few streams ahead better than many.
  if (terms < 2 || !computes) return false;
  const Tensor value = empty(r.sizes, type), tangent = empty(r.sizes, type);
  runtime::parallel_for(0, n, StraightCall::kSerial, [&](int64_t begin, int64_t end) {
    Chain chain;
    Chain::Link& function = chain.then(op.loops.forward[slot], parameters, chain.elements(value, n));
    for (int i = 0; i < op.arity; ++i) function.in[i] = chain.elements(in[i], n);
    const Chain::Place sum = chain.elements(tangent, n), other = chain.block();
    Chain::Place before{};  // the sum of the terms so far
    for (int i = 0; i < op.arity; ++i) {
      if (!c.tangents[i].defined()) continue;
      Chain::Place term = chain.elements(c.tangents[i], n);
      if (loops[i]) {
        Chain::Link& slope = chain.then(loops[i], parameters, before.at ? other : sum);
        slope.in[0] = term;
        for (int k = 0; k < 4; ++k)
          if (op.takes[i] >> k & 1) slope.in[k + 1] = k == 3 ? function.out : function.in[k];
        term = slope.out;
      }
      if (before.at) {
        Chain::Link& add = chain.then(info_of<Add>().loops.forward[slot], nullptr, sum);
        add.in[0] = before, add.in[1] = term;
        term = sum;
      }
      before = term;
    }
    chain.run(begin, end);
  });
  // As it is counted where terms are added in place, to the first that is no tangent itself.
  bool own = false;
  for (int i = 0, term = 0; i < op.arity; ++i) {
    if (!c.tangents[i].defined()) continue;
    if (own) tangent->storage->bump();
    own |= term++ || op.rules[i] != RuleKind::One;
  }
  results.one = value;
  set_tangent(value, *level, tangent, true);
  return true;
}

}  // namespace adjoint
