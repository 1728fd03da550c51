// The half of the contract that knows tensors: what structured operators are made of, and `call`, by which
// rules call operators. Part of op.h, which alone includes it; the loops, which know only elements, do
// without it.
#pragma once

#include <string_view>

#include "kernels/cpu/math/bits.h"
#include "ops/contract/arguments.h"
#include "state.h"
#include "tensor/into.h"

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
/// The same for a row whose result is that of another.
template <class Op, class... A>
Tensor call_into(Into into, A&&... args);

/// Whether a rule must express itself in operators that can be differentiated again, in either mode; else it
/// may call a fused one.
inline bool recording() { return thread_state.grad || thread_state.dual_level; }

/// The name of an argument in the operator's signature, or of a result in `returns`, as a template parameter:
/// Input<"weight">. dispatch/named.h finds it there, or says that there is none, when the row is compiled.
template <size_t N>
struct Name {
  char text[N]{};
  consteval Name(const char (&name)[N]) {
    for (size_t i = 0; i < N; ++i) text[i] = name[i];
  }
  constexpr operator std::string_view() const { return {text, N - 1}; }
};
/// Some arguments, as bits by their number.
template <class Op, Name... arguments>
consteval uint32_t mask_of();
template <Name... arguments>
struct ArgumentSet {
  template <class Op>
  static constexpr uint32_t mask = mask_of<Op, arguments...>();
};

// What a struct says of its forward rule: see Note: forward mode.
/// In which arguments an operator is linear, all at once: applied to their tangents, it gives the result's.
template <Name... arguments>
struct LinearIn {
  using Terms = ArgumentSet<arguments...>;
  using Factors = ArgumentSet<>;
};
/// In which arguments it is linear one at a time: a product.
template <Name... arguments>
struct MultilinearIn {
  using Terms = ArgumentSet<>;
  using Factors = ArgumentSet<arguments...>;
};
/// A sum of the two: addmm is ProductAndSum<MultilinearIn<"mat1", "mat2">, LinearIn<"self">>.
template <class Product, class Sum>
struct ProductAndSum {
  using Terms = typename Sum::Terms;
  using Factors = typename Product::Factors;
};

// What a rule takes.
struct Grad : Tensor {
  Grad(const Tensor& t) : Tensor(t) {}
};
/// The gradient of one of several results, undefined where it has none.
template <Name result>
struct GradOf : Tensor {
  GradOf(const Tensor& t) : Tensor(t) {}
};
template <Name argument>
struct Input : Tensor {
  Input(const Tensor& t) : Tensor(t) {}
};
/// A result, which has a name where there are several.
template <Name result = "">
struct Output : Tensor {
  Output(const Tensor& t) : Tensor(t) {}
};
/// Sizes (and type) of an input: cheaper than the input.
struct ShapeOfInput {
  Dims sizes;
  DType dtype = DType::Float32;
  operator IntList() const { return {sizes.data(), sizes.size()}; }
  int64_t dim() const { return static_cast<int64_t>(sizes.size()); }
  int64_t numel() const { return product(*this); }
};
template <Name argument>
struct Shape : ShapeOfInput {};
/// How an input lay in memory: for the few rules that depend on it.
struct LayoutOfInput {
  Dims sizes, strides;
  int64_t offset = 0;
  DType dtype = DType::Float32;
};
template <Name argument>
struct Layout : LayoutOfInput {};
/// The tensors of the list argument; those left out are undefined.
struct InputList : Tensors {};
/// The sizes of each tensor of the list argument.
struct ListSizes : std::vector<Dims> {};
/// An argument as it was given. T is its type, without what that says of its meaning: int64_t for a Dim.
template <class T, Name argument>
struct Argument {
  T value;
  operator const T&() const { return value; }
};
/// Which gradients are needed of those that `Backward` makes at once, whose results are called as the
/// arguments that they are of: as bits by result, and by name.
template <class Backward>
struct Needs {
  int64_t bits;
  template <Name... results>
  bool any() const;
};
/// Whether an argument does.
template <Name argument>
struct Needed {
  bool value;
  operator bool() const { return value; }
};
/// What a rule that makes several gradients takes for those of these arguments alone. Where none of them
/// needs one, it is not kept, and undefined.
template <class X, Name... arguments>
struct NeededBy : X {
  NeededBy(X x) : X(std::move(x)) {}
};

/// One rule per differentiable argument. A plain one is that of the next tensor; after a gap it is named.
template <class... F>
struct Rules : std::tuple<F...> {
  constexpr Rules(F... f) : std::tuple<F...>(f...) {}
};
template <Name argument, class F>
struct NamedRule : F {
  constexpr NamedRule(F f) : F(f) {}
};
template <Name argument, class F>
constexpr NamedRule<argument, F> rule_of(F f) {
  return {f};
}
/// One rule for all tensors, returning their gradients in order (undefined where not needed).
template <class F>
struct JointRule {
  F f;
  constexpr JointRule(F g) : f(g) {}
};
/// Of a fused row: rules that are kernels, which nothing can be differentiated by. Where a pass is recorded,
/// or carries tangents, and where a joint rule returns no gradients at all, the row's composition is
/// differentiated, `Op::composed`, which has the parameters and results of `forward`. Of what is not kept,
/// the gradients that are wanted must be independent.
template <class R>
struct FirstOrder : R {
  constexpr FirstOrder(R r) : R(r) {}
};

/// The same, of rules whose kernels are rows with rules of their own: a recorded pass calls them, too.
template <class R>
struct HigherOrder : FirstOrder<R> {
  constexpr HigherOrder(R r) : FirstOrder<R>(r) {}
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
/// A tensor argument as a rule for batches sees it (dispatch/batched_call.h).
struct BatchedTensor;
template <Name argument>
struct Batched;
/// Rules for batches that operators share: `static constexpr auto batch = batching::leading`. One of its own
/// is `static void batch(BatchedCall& call, …)`, which names what it takes: Batched<"self">, Argument<T,
/// "dim">.
namespace batching {
using Rule = void (*)(BatchedCall& call);
/// Each tensor has the batch as a further dimension in front, and dimensions among the other arguments count
/// on from there.
void leading(BatchedCall& call);
/// The same, for what torch counts as draws from values: samples do not share them.
void from_values(BatchedCall& call);
/// How large the results are depends on values: sample by sample, and refused where these differ.
void dynamic(BatchedCall& call);
/// Draws by seed and position: the same for each sample, unless each sample is to have its own.
void draws(BatchedCall& call);
/// By the row's composition, whose operators are batched in their turn.
void composed(BatchedCall& call);
}  // namespace batching

/// When a row's gradient is recorded as a function of inputs on which it does not depend.
enum class KeepsHistory : uint8_t { No, IfConstant, Always };

struct Structured {
  /// The types that tensors in its samples may have; index tensors and masks apart.
  static constexpr TypeSet types = types::all;
  /// The result shares the first input's storage.
  static constexpr bool view = false;
  /// Writes its first argument, bumps its version and returns it.
  static constexpr bool writes = false;
  /// Writes the tensors of these arguments, which are lists; their versions go up. It has no derivative.
  static constexpr auto writes_lists = ArgumentSet<>{};
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
  /// Linear, or flat in what it reads, yet its gradient is recorded as a function of the inputs: always, as
  /// in torch, or where it would be none of anything.
  static constexpr KeepsHistory gradient_keeps_history = KeepsHistory::No;
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
/// said in ops/contract/recorded.cpp.
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
Recorded select(const Recorded& condition, const Recorded& a, const Recorded& b);

/// Another operator inside a formula: its element function on numbers, a recorded call on tensors.
template <class Op, class... X>
ADJOINT_INLINE auto apply(const X&... x) {
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
          std::tie(x...));
}

}  // namespace adjoint::inline ADJOINT_ISA
