// An operator at run time: what the table holds, and the boxed form of a call.
//
// The table is made from the families (dispatch/family.h) when the library is loaded. Bindings, transforms,
// stubs and tests iterate over it; a transform sees a call as an Operator and an array of Values.
#pragma once

#include <bit>
#include <span>
#include <string>
#include <vector>

#include "autograd/node.h"
#include "dispatch/signature.h"
#include "kernels/loops.h"
#include "ops/contract/op.h"

namespace adjoint {

/// What a boxed call gives back: one tensor, or several.
struct Results {
  enum class Kind : uint8_t { One, Tuple, List } kind = Kind::One;
  Tensor one;
  Tensors many;
  /// Where a call with out= has them made.
  Into into;
  std::span<const Tensor> all() const { return kind == Kind::One ? std::span<const Tensor>(&one, 1) : many; }
};

struct ElementwiseInfo;
struct RuleTable;  // dispatch/rule_node.h
struct DualCall;   // transforms/forward.h

/// Inputs of an element-wise operator, and parameters besides.
inline constexpr int kMostInputs = 3, kMostParameters = 6;

struct Operator {
  const char* name;
  const char* doc;
  std::string signature;  // as users read it
  /// As the operator writes it: the plain order of its arguments, further ones, and those that torch warns
  /// of.
  const char *order, *orders, *old_orders;
  const char* family;
  const char* module;
  const char* returns;
  const char* aliases;
  const char* python;
  /// The function of which this is one form.
  const char* overloads;
  /// Of structured operators: the calls that tests make, a line each, and the types of the tensors in them.
  const char* samples = "";
  TypeSet types = 0;
  std::vector<const ArgKind*> kinds;
  /// A call whose arguments are boxed: `pass_door`, or for element-wise operators what unboxes them.
  void (*door)(const Operator& row, const Value* arguments, Results& results);
  /// What the door computes, of structured operators: `forward` itself. Nothing is recorded, transforms are
  /// out of sight.
  void (*compute)(const Operator& row, const Value* arguments, Results& results) = nullptr;
  /// Of a fused row: the same in recorded operators, by which it carries tangents, takes batches that it has
  /// no other rule for and is differentiated again. Null where none is stated.
  void (*composed)(const Operator& row, const Value* arguments, Results& results) = nullptr;
  const ElementwiseInfo* elementwise;  // null for structured operators
  const RuleTable* rules = nullptr;    // null for element-wise operators and those without a derivative
  /// Of an operator whose derivative is not implemented: its nodes refuse when they are asked for it. Set by
  /// `add_row`.
  const RuleTable* refusal = nullptr;
  bool view, writes, inplace, differentiable, function, method;
  /// Where it writes, elements at one address get one value.
  bool writes_one_value = false;
  /// It draws random numbers.
  bool draws = false;
  /// out= may be of another type, to which the result is converted.
  bool out_converts = false;
  /// Its results are made in out= (tensor/into.h); those of others are copied there.
  bool makes_in_out = false;
  /// Its result follows its inputs by jumps, if at all, and has no derivative to ask for.
  bool constant = false;
  /// Its tensors may be on several devices.
  bool crosses_devices = false;
  /// It knows what sparse tensors are made of.
  bool takes_sparse = false;
  /// It calls others of the table, which are what is recorded and interpreted.
  bool composite;
  /// The result is a tuple of tensors.
  bool several;
  /// How many they are; 0 where that depends on the arguments.
  size_t results = 1;
  /// It is computed by a function of another language, which may keep what it makes.
  bool declared = false;
  /// The lists of tensors that it writes, as bits by parameter.
  uint32_t writes_lists = 0;
  /// Its parameters that are tensors, and those that are lists of them, as bits. Set by `add_row`.
  uint32_t tensors = 0, lists = 0;
  /// Parameters, as bits, in which it is linear: all at once, one at a time. None: not said.
  uint32_t linear_terms = 0, linear_factors = 0;
  /// How it is computed on batches; null where the types of its parameters say so, or nothing does.
  batching::Rule batch = nullptr;
  /// The tangents of its results, where it states a rule of its own; null where its other rules give them.
  Tensors (*tangents)(const DualCall& call) = nullptr;

  /// For C++ and for transforms: the call, after the door's checks.
  void boxed(const Value* arguments, Results& results) const { door(*this, arguments, results); }
};

/// f(tensor, parameter) of each tensor among the arguments of a call, those in lists too; what is left out is
/// passed over.
template <class F>
void each_tensor(const Operator& op, const Value* arguments, F&& f) {
  for (uint32_t mask = op.tensors; mask; mask &= mask - 1) {
    const int i = std::countr_zero(mask);
    if (const Value& v = arguments[i]; v.present && v.tensor->defined()) f(*v.tensor, i);
  }
  for (uint32_t mask = op.lists; mask; mask &= mask - 1) {
    const int i = std::countr_zero(mask);
    if (!arguments[i].present) continue;
    for (const Tensor& t : arguments[i].tensors())
      if (t.defined()) f(t, i);
  }
}
/// The first of them, in the order of the parameters, of which f(tensor) is true; null without one.
template <class F>
const Tensor* find_tensor(const Operator& op, const Value* arguments, F&& f) {
  for (uint32_t mask = op.tensors | op.lists; mask; mask &= mask - 1) {
    const int i = std::countr_zero(mask);
    const Value& v = arguments[i];
    if (!v.present) continue;
    for (const Tensor& t : op.lists >> i & 1 ? v.tensors() : TensorList(v.tensor, 1))
      if (t.defined() && f(t)) return &t;
  }
  return nullptr;
}

/// What is done with the result: it is given back, it takes the place of the first argument, or that of out=.
enum class CallForm : uint8_t { Function, InPlace, Out };

/// A call: which operator, in which form, on what. See dispatch/forms.h, and transforms/interpreter.h for who
/// sees calls.
struct Call {
  const Operator& op;
  CallForm form;
  /// One for each of op.kinds.
  std::span<const Value> arguments;
  /// What is written, in the form with out=.
  std::span<const Tensor> out;
};

/// Each of the other names of a row.
template <class F>
void each_alias(std::string_view aliases, F&& f) {
  while (!aliases.empty()) f(std::string(cut(aliases, ',')));
}

/// Every operator of every family.
std::vector<const Operator*>& operators();
/// Put a row among them, whose parameters are known.
void add_row(Operator* row);

/// The door of structured operators, declared ones too: transforms, checks of what is written, the
/// computation, views, the node. `past_transforms`: the call comes from a transform, which has dealt with
/// what its inputs carry.
void pass_door(const Operator& row, const Value* arguments, Results& results, bool past_transforms = false);

/// What the door knows of an element-wise operator.
struct ElementwiseInfo {
  const char* name;    // in errors and of nodes
  const char* inputs;  // their names, comma-separated
  int arity;
  int parameters;
  int condition;  // which input is a condition; -1: none
  TypeSet types, identity;
  /// Types that take the short path: no checks, nothing to convert.
  TypeSet direct;
  ResultType result;
  bool promotes_integers, promotes_bool, keeps_type, inplace;
  Domain samples;
  /// Refuses inputs, given the type computed in; null where there is nothing to refuse.
  void (*check)(const Tensor* in, DType type);
  /// What a parameter stands for that is left out, and the operator of a call that leaves an input out; null
  /// where all have to be given.
  double (*absent)(int k, DType type);
  const ElementwiseInfo* without[3];
  RuleKind rules[3];
  uint8_t takes[3];
  /// The gradient of input i by recorded operations.
  Tensor (*recorded[3])(const Tensor& g, const Tensor* in, const Tensor& result, const double* parameters);
  Loops loops;
  const Operator* row;
  const char* recorded_as;  // the name of its node, where that is another; else null
};

/// The row of a structured operator; set when its family is registered.
template <class Op>
inline const Operator* row_of = nullptr;

/// Defined where the operator's family is instantiated.
template <class Op>
struct InfoOf {
  static ElementwiseInfo value;
};
template <class Op>
const ElementwiseInfo& info_of() {
  return InfoOf<Op>::value;
}

/// Call an element-wise operator: broadcast, promote, run, record. With `out`, the result is written there;
/// `inplace` says that out is the first input.
Tensor call_elementwise(const ElementwiseInfo& op, const Tensor* in, const double* parameters,
                        const Tensor* out = nullptr, bool inplace = false);

/// The same on boxed arguments; and for a transform that has dealt with what the inputs carry.
void call_elementwise_boxed(const Operator& row, const Value* arguments, Results& results);
void call_elementwise_plain(const Operator& row, const Value* arguments, Results& results);

template <class Op>
concept IsElementwise = std::is_base_of_v<Elementwise, Op>;

/// Of a function that computes a call: the types of what it is called with, and whether it is told before
/// that where its results are made.
template <class F>
struct FunctionTypes;
template <class R, class... P>
struct FunctionTypes<R (*)(P...)> {
  using Plain = R (*)(P...);
  using Parameters = std::tuple<P...>;
  static constexpr bool takes_into = false;
};
template <class R, class... P>
struct FunctionTypes<R (*)(Into, P...)> : FunctionTypes<R (*)(P...)> {
  static constexpr bool takes_into = true;
};
template <class Op>
using forward_types = FunctionTypes<decltype(&Op::forward)>;

/// The results of a call as its forward returns them.
template <class R>
R from_results(Results& r) {
  if constexpr (std::is_same_v<R, Tensor>)
    return std::move(r.one);
  else if constexpr (std::is_same_v<R, Tensors>)
    return std::move(r.many);
  else
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return R{std::move(r.many[I])...};
    }(std::make_index_sequence<std::tuple_size_v<R>>{});
}

/// A structured operator called from C++: its arguments are boxed, and pass the door.
template <class Op, class R, class... P>
struct DoorOf {
  static R call(P... arguments) { return into({}, arguments...); }
  static R into(Into into, P... arguments) {
    if constexpr (Op::composite && forward_types<Op>::takes_into) return Op::forward(into, arguments...);
    if constexpr (Op::composite && !forward_types<Op>::takes_into) return Op::forward(arguments...);
    Value values[sizeof...(P) + 1];
    [&]<size_t... I>(std::index_sequence<I...>) {
      (argument_t<P>::box(arguments, values[I]), ...);
    }(std::index_sequence_for<P...>{});
    Results r;
    r.into = into;
    pass_door(*row_of<Op>, values, r);
    return from_results<R>(r);
  }
};
template <class Op, class F>
struct MakeDoor;
template <class Op, class R, class... P>
struct MakeDoor<Op, R (*)(P...)> {
  using type = DoorOf<Op, R, P...>;
};
template <class Op>
using Door = typename MakeDoor<Op, typename forward_types<Op>::Plain>::type;

namespace detail {
template <class T>
Tensor first_result(T&& result) {
  if constexpr (std::is_convertible_v<T, Tensor>)
    return std::forward<T>(result);
  else if constexpr (requires { result.size(); })
    return result[0];
  else
    return std::get<0>(result);
}
template <class X>
Tensor as_input(const X& x) {
  if constexpr (std::is_convertible_v<X, Tensor>)
    return x;
  else
    return wrap_number(Scalar(x), DType::Float64);
}
}  // namespace detail

template <class Op, class... A>
Tensor call(A&&... args) {
  if constexpr (IsElementwise<Op>) {
    return [&]<size_t... I, size_t... K>(std::index_sequence<I...>, std::index_sequence<K...>, auto all) {
      const Tensor in[] = {detail::as_input(std::get<I>(all))...};
      const double p[] = {static_cast<double>(std::get<Op::arity + K>(all))..., 0.0};
      return call_elementwise(info_of<Op>(), in, p);
    }(std::make_index_sequence<Op::arity>{}, std::make_index_sequence<sizeof...(A) - Op::arity>{},
           std::tuple<const std::decay_t<A>&...>(args...));
  } else {
    return detail::first_result(Door<Op>::call(std::forward<A>(args)...));
  }
}

template <class Op, class... A>
Tensor call_into(Into into, A&&... args) {
  return Door<Op>::into(into, std::forward<A>(args)...);
}

template <class Op, class... A>
Tensors call_all(A&&... args) {
  auto r = Door<Op>::call(std::forward<A>(args)...);
  if constexpr (std::is_same_v<decltype(r), Tensors>)
    return r;
  else
    return std::apply([](auto&... t) { return Tensors{t...}; }, r);
}

}  // namespace adjoint
