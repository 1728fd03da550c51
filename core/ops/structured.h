// The half of the contract that knows tensors: what structured operators are made of, and `call`, by which
// rules call operators. Part of op.h, which alone includes it; the loops, which know only elements, do
// without it.
#pragma once

#include "kernels/cpu/math/bits.h"
#include "ops/arguments.h"
#include "state.h"

namespace adjoint::inline ADJOINT_ISA::types {
/// What can be sorted.
inline constexpr TypeSet ordered = boolean | real;
}  // namespace adjoint::inline ADJOINT_ISA::types

namespace adjoint {

/// Call an operator through the door: `call<Sum>(g, dims, true)`. Arguments convert to the types of
/// Op::forward.
template <class Op, class... A>
Tensor call(A&&... args);
template <class Op, class... A>
Tensors call_all(A&&... args);

/// Whether a rule must express itself in operators that can be differentiated again, in either mode; else it
/// may call a fused one.
inline bool recording() { return thread_state.grad || thread_state.dual_level; }

// What a struct says of its forward rule: see Note: forward mode.
/// In which parameters an operator is linear, all at once: applied to their tangents, it gives the result's.
template <int... I>
struct LinearIn {
  static constexpr uint32_t terms = (0u | ... | (1u << I)), factors = 0;
};
/// In which parameters it is linear one at a time: a product.
template <int... I>
struct MultilinearIn {
  static constexpr uint32_t terms = 0, factors = (0u | ... | (1u << I));
};
/// A sum of the two: addmm is ProductAndSum<MultilinearIn<1, 2>, LinearIn<0>>.
template <class Product, class Sum>
struct ProductAndSum {
  static constexpr uint32_t terms = Sum::terms, factors = Product::factors;
};

// What a rule takes.
struct Grad : Tensor {
  Grad(const Tensor& t) : Tensor(t) {}
};
template <int I>
struct GradOf : Tensor {
  GradOf(const Tensor& t) : Tensor(t) {}
};
template <int I>
struct Input : Tensor {
  Input(const Tensor& t) : Tensor(t) {}
};
template <int I>
struct Output : Tensor {
  Output(const Tensor& t) : Tensor(t) {}
};
/// Sizes (and type) of input I: cheaper than the input.
template <int I>
struct Shape {
  Dims sizes;
  DType dtype = DType::Float32;
  operator IntList() const { return {sizes.data(), sizes.size()}; }
  int64_t dim() const { return static_cast<int64_t>(sizes.size()); }
  int64_t numel() const { return product(*this); }
};
/// How input I lay in memory: for the few rules that depend on it.
template <int I>
struct Layout {
  Dims sizes, strides;
  int64_t offset = 0;
  DType dtype = DType::Float32;
};
/// The tensors of the list argument; those left out are undefined.
struct InputList : Tensors {};
/// The sizes of each tensor of the list argument.
struct ListSizes : std::vector<Dims> {};
/// Argument number I, as it was given.
template <class T, int I>
struct Argument {
  T value;
  operator const T&() const { return value; }
};
/// Which parameters need a gradient, for a rule that makes several at once.
struct Needs {
  uint32_t mask;
  bool operator[](int parameter) const { return mask >> parameter & 1; }
};
/// What a rule that makes several gradients takes for those of these parameters alone. Where none of them
/// needs one, it is not kept, and undefined.
template <class X, int... parameters>
struct NeededBy : X {
  NeededBy(X x) : X(std::move(x)) {}
};

/// One rule per differentiable parameter. A plain one is that of the next tensor; after a gap it is numbered.
template <class... F>
struct Rules : std::tuple<F...> {
  constexpr Rules(F... f) : std::tuple<F...>(f...) {}
};
template <int parameter, class F>
struct NumberedRule : F {
  constexpr NumberedRule(F f) : F(f) {}
};
template <int parameter, class F>
constexpr NumberedRule<parameter, F> rule_of(F f) {
  return {f};
}
/// One rule for all tensors, returning their gradients in order (undefined where not needed).
template <class F>
struct JointRule {
  F f;
  constexpr JointRule(F g) : f(g) {}
};

/// Calls that tests make, as Python would write their arguments: (3, 4) stands for a tensor of that shape,
/// [2, 0] for one with these values (tests/samples.py). Each argument is given in one of them at least.
template <size_t... N>
struct Cases {
  char text[(N + ...)] = {};  // a line each
  consteval Cases(const char (&... cases)[N]) {
    size_t at = 0;
    const auto add = [&](const char* from, size_t n) {
      for (size_t i = 0; i + 1 < n; ++i) text[at++] = from[i];
      text[at++] = '\n';
    };
    (add(cases, N), ...);
    text[at - 1] = '\0';
  }
};

class BatchedCall;
/// How an operator is computed on a batch of its inputs, where it says so by `batch`: see
/// transforms/batching_call.h.
namespace batching {
using Rule = void (*)(BatchedCall& call);
/// Each tensor has the batch as a further dimension in front, and dimensions among the other arguments count
/// on from there.
void leading(BatchedCall& call);
/// How large the results are depends on values: sample by sample, and refused where these differ.
void dynamic(BatchedCall& call);
}  // namespace batching

struct Structured {
  /// The types that tensors in its samples may have; index tensors and masks apart.
  static constexpr TypeSet types = types::all;
  /// The result shares the first input's storage.
  static constexpr bool view = false;
  /// Writes its first argument, bumps its version and returns it.
  static constexpr bool writes = false;
  /// Writes the tensors of these arguments, which are lists, as bits; their versions go up. It has no
  /// derivative.
  static constexpr uint32_t writes_lists = 0;
  /// For writes: two elements at one address may both be written, since they get one value.
  static constexpr bool writes_one_value = false;
  /// The result has the first input's shape and stands for it, so that there is a form that writes it there:
  /// cumsum_.
  static constexpr bool inplace = false;
  /// out= may be of another type, to which the result is converted.
  static constexpr bool out_converts = false;
  /// Never differentiable, whatever its inputs (argmax, comparison …).
  static constexpr bool differentiable = true;
  /// Tensors of several devices may meet in it: it is done where the first of them is.
  static constexpr bool crosses_devices = false;
  /// Its arguments or its result may be sparse tensors: it knows what they are made of, and no other operator
  /// does.
  static constexpr bool takes_sparse = false;
  /// `forward` is written in recorded operators: the call itself makes no node and has no rule.
  static constexpr bool composite = false;
  /// Linear, yet its gradient is recorded as a function of the inputs, on which it does not depend: as in
  /// torch.
  static constexpr bool gradient_keeps_history = false;
  /// The node's edges are those of the tensor arguments from the last to the first, where programs know the
  /// order in which gradients arrive.
  static constexpr bool edges_from_last = false;
  /// Names of several results; empty for one.
  static constexpr const char* returns = "";
  /// How Python reaches it: function, method, or both.
  static constexpr bool function = true;
  static constexpr bool method = true;
  /// Where it lives: "" is the top; "linalg", "special", "nn.functional".
  static constexpr const char* module = "";
  static constexpr const char* aliases = "";
  static constexpr const char* python = "";
  /// The function of which this operator is one form, chosen by the arguments: _max_dim is one of max.
  static constexpr const char* overloads = "";
  /// Further orders of the arguments, and those that torch warns of (dispatch/signature.h).
  static constexpr const char *orders = "", *old_orders = "";
};

}  // namespace adjoint

namespace adjoint::inline ADJOINT_ISA {

/// A tensor on which an element-wise formula is evaluated by recorded operations. What its operators call is
/// said in ops/recorded.cpp.
struct Recorded {
  Tensor tensor;
  Recorded(Tensor t) : tensor(std::move(t)) {}
  Recorded(double number);
  explicit Recorded(int number) : Recorded(static_cast<double>(number)) {}
  /// The tensor itself where it is real.
  Recorded conj() const;
};
/// A number inside a formula, of the type of `like`.
Recorded number(double value, const Tensor& like);
Recorded operator-(const Recorded& a);
Recorded operator+(const Recorded& a, const Recorded& b);
Recorded operator-(const Recorded& a, const Recorded& b);
Recorded operator*(const Recorded& a, const Recorded& b);
Recorded operator/(const Recorded& a, const Recorded& b);
// Comparisons give tensors of bool, which `select` takes.
Recorded operator<(const Recorded& a, const Recorded& b);
Recorded operator<=(const Recorded& a, const Recorded& b);
Recorded operator>(const Recorded& a, const Recorded& b);
Recorded operator>=(const Recorded& a, const Recorded& b);
Recorded operator==(const Recorded& a, const Recorded& b);
Recorded operator!=(const Recorded& a, const Recorded& b);
Recorded operator&&(const Recorded& a, const Recorded& b);
Recorded operator||(const Recorded& a, const Recorded& b);
Recorded operator!(const Recorded& a);
Recorded select(const Recorded& condition, const Recorded& a, const Recorded& b);

/// Another operator inside a formula: its element function on numbers, a recorded call on tensors.
template <class Op, class... X>
ADJOINT_INLINE auto apply(X... x) {
  if constexpr (!(std::is_same_v<X, Recorded> || ...))
    return Op::forward(x...);
  else if constexpr (sizeof...(X) == Op::arity)
    return Recorded(call<Op>(x.tensor...));
  else  // the last are parameters
    return
        [&]<size_t... I, size_t... K>(std::index_sequence<I...>, std::index_sequence<K...>, const auto& all) {
          return Recorded(
              call<Op>(std::get<I>(all).tensor..., item(std::get<Op::arity + K>(all).tensor).as_double()...));
        }(std::make_index_sequence<Op::arity>{}, std::make_index_sequence<sizeof...(X) - Op::arity>{},
          std::tuple<X...>(x...));
}

}  // namespace adjoint::inline ADJOINT_ISA
