// What a row has of the C++ types of its operator: the computation of a boxed call, and the table of its
// rules.
//
// Of a structured operator everything is derived from two facts: the types of `forward`'s parameters and
// those of its rules'. From them follows the `RuleTable` by which the node (rule_node.h, no template) keeps
// what is needed and runs a rule. Included only where families are instantiated (dispatch/family.h). What a
// call passes is in door.cpp. Start reading at `make_table`.
#pragma once

#include <array>

#include "dispatch/batched_call.h"
#include "dispatch/named.h"
#include "dispatch/rule_node.h"

namespace adjoint {
namespace door {

template <class P>
inline constexpr bool is_tensor = argument_t<P>::form == Form::Tensor;
template <class P>
inline constexpr bool is_list = argument_t<P>::form == Form::Tensors;

// --- Arguments that a node keeps ------------------------------------------------------------------

template <class... P>
struct OwnedTuple {
  using Tuple = std::tuple<typename argument_t<P>::Owned...>;
  static_assert(alignof(Tuple) <= 8);
  static void own(const RuleTable&, void* owned, const Value* arguments) {
    [&]<size_t... I>(std::index_sequence<I...>) {
      new (owned) Tuple{own_one<P>(arguments[I])...};
    }(std::index_sequence_for<P...>{});
  }
  template <class X>
  static auto own_one(const Value& v) -> typename argument_t<X>::Owned {
    if constexpr (requires(const typename argument_t<X>::Owned& o) { argument_t<X>::lend(o); })
      return argument_t<X>::own(argument_t<X>::unbox(v));
    else
      return {};
  }
  static void box(const void* owned, Value* values, const ArgKind** kinds) {
    [&]<size_t... I>(std::index_sequence<I...>) {
      (box_one<P>(std::get<I>(*static_cast<const Tuple*>(owned)), values[I], kinds[I]), ...);
    }(std::index_sequence_for<P...>{});
  }
  template <class X>
  static void box_one(const typename argument_t<X>::Owned& o, Value& v, const ArgKind*& kind) {
    if constexpr (requires { argument_t<X>::lend(o); }) {
      kind = &kind_of<std::remove_cvref_t<X>>;
      argument_t<X>::box(argument_t<X>::lend(o), v);
    }
  }
  static void destroy(void* owned) noexcept { static_cast<Tuple*>(owned)->~Tuple(); }
  static constexpr OwnedArguments value{.bytes = sizeof(Tuple), .own = own, .box = box, .destroy = destroy};
};

/// What the node of a call keeps of an operator's arguments.
template <class T>
struct OwnedTupleOf;
template <class... P>
struct OwnedTupleOf<std::tuple<P...>> {
  using type = typename OwnedTuple<P...>::Tuple;
};
template <class Op>
using owned_tuple = typename OwnedTupleOf<parameters_of<Op>>::type;

// --- Rules ----------------------------------------------------------------------------------------

/// What an argument of a rule needs for the gradient of parameter p of an operator, and how the rule gets it.
template <class Op, class X>
struct Taken;
template <class Op>
struct Taken<Op, Grad> {
  static constexpr Need need(int) { return {.gradients = 1}; }
  static Grad get(RuleNode&, Gradients& in, uint32_t) { return in[0]; }
};
template <class Op, Name name>
struct Taken<Op, GradOf<name>> {
  static constexpr int number = number_of_result<Op, name>;
  static constexpr Need need(int) { return {.gradients = 1u << number}; }
  static GradOf<name> get(RuleNode&, Gradients& in, uint32_t) { return in[number]; }
};
template <class Op>
struct Taken<Op, Tensors> {
  static constexpr Need need(int) { return {.gradients = 0xffff}; }
  static Tensors get(RuleNode&, Gradients& in, uint32_t) { return Tensors(in.begin(), in.end()); }
};
template <class Op, Name name>
struct Taken<Op, Input<name>> {
  static constexpr int number = number_of_tensor<Op, name>;
  static constexpr Need need(int) { return {.inputs = 1u << number}; }
  static Input<name> get(RuleNode& n, Gradients&, uint32_t) { return n.input(number); }
};
template <class Op, Name name>
struct Taken<Op, Output<name>> {
  static constexpr int number = number_of_result<Op, name>;
  static constexpr Need need(int) { return {.outputs = 1u << number}; }
  static Output<name> get(RuleNode& n, Gradients&, uint32_t) { return n.output(number); }
};
template <class Op, Name name>
struct Taken<Op, Shape<name>> {
  static constexpr int number = number_of_tensor<Op, name>;
  static constexpr Need need(int) { return {.shapes = 1u << number}; }
  static Shape<name> get(RuleNode& n, Gradients&, uint32_t) { return {n.shape(number)}; }
};
template <class Op, Name name>
struct Taken<Op, Layout<name>> {
  static constexpr int number = number_of_tensor<Op, name>;
  static constexpr Need need(int) { return {.layouts = 1u << number}; }
  static Layout<name> get(RuleNode& n, Gradients&, uint32_t) { return {n.layout(number)}; }
};
template <class Op, class X, Name name>
struct Taken<Op, Argument<X, name>> {
  using Of = TypeOfArgument<Op, name, X>;
  static constexpr Need need(int) { return {.arguments = true}; }
  static Argument<X, name> of(const void* owned) {
    const auto& all = *static_cast<const owned_tuple<Op>*>(owned);
    return {X(argument_t<typename Of::type>::lend(std::get<Of::number>(all)))};
  }
  static Argument<X, name> get(RuleNode& n, Gradients&, uint32_t) { return of(n.owned()); }
};
template <class Op>
struct Taken<Op, InputList> {
  static constexpr Need need(int) { return {.list = true}; }
  static InputList get(RuleNode& n, Gradients&, uint32_t) { return n.list(); }
};
template <class Op>
struct Taken<Op, ListSizes> {
  static constexpr Need need(int) { return {.list_sizes = true}; }
  static ListSizes get(RuleNode& n, Gradients&, uint32_t) { return n.list_sizes(); }
};
template <class Op, class Backward>
struct Taken<Op, Needs<Backward>> {
  static constexpr auto numbers = []() consteval {
    std::array<int, NamesOf<Backward>::results.size()> of{};
    for (size_t i = 0; i < of.size(); ++i)
      of[i] = place_of(NamesOf<Backward>::results[i], NamesOf<rules_like<Op>>::arguments);
    return of;
  }();
  static_assert(std::ranges::all_of(numbers, [](int i) { return i >= 0; }),
                "a result is called as none of the arguments that gradients are needed of");
  static constexpr Need need(int) { return {}; }
  static Needs<Backward> get(RuleNode&, Gradients&, uint32_t wanted) {
    int64_t bits = 0;
    for (size_t i = 0; i < numbers.size(); ++i) bits |= int64_t{wanted >> numbers[i] & 1} << i;
    return {bits};
  }
};
template <class Op, Name name>
struct Taken<Op, Needed<name>> {
  static constexpr Need need(int) { return {}; }
  static Needed<name> get(RuleNode&, Gradients&, uint32_t wanted) {
    return {bool(wanted >> number_of_argument<Op, name> & 1)};
  }
};
template <class Op, class X, Name... names>
struct Taken<Op, NeededBy<X, names...>> {
  static constexpr uint32_t by = mask_of<Op, names...>();
  static constexpr Need need(int p) { return by >> p & 1 ? Taken<Op, X>::need(p) : Need{}; }
  static NeededBy<X, names...> get(RuleNode& n, Gradients& in, uint32_t wanted) {
    return Taken<Op, X>::get(n, in, wanted);
  }
};

template <class Op, class Rule>
struct RuleTypes;
template <class Op, class C, class R, class... X>
struct RuleTypes<Op, R (C::*)(X...) const> {
  static constexpr Need need(int parameter) {
    return (Need{} | ... | Taken<Op, std::decay_t<X>>::need(parameter));
  }
  template <class F>
  static R run(const F& f, RuleNode& n, Gradients& in, uint32_t wanted) {
    return f(Taken<Op, std::decay_t<X>>::get(n, in, wanted)...);
  }
  /// Of arguments alone, from what a node keeps of them.
  template <class F>
  static R of_owned(const F& f, const void* owned) {
    return f(Taken<Op, std::decay_t<X>>::of(owned)...);
  }
};
template <class Op, class F>
using rule_types = RuleTypes<Op, decltype(&F::operator())>;

/// The parameter that a rule is of: the one it names, else the first tensor after that of the rule before.
template <class Op, class F>
inline constexpr int number_of_rule = -1;
template <class Op, Name name, class F>
inline constexpr int number_of_rule<Op, NamedRule<name, F>> = number_of_argument<Op, name>;

template <class Op>
concept HasRules = requires { Op::vjp; };

template <class Op, class List, class... P>
struct TableOf;
template <class Op, class... F, class... P>
struct TableOf<Op, Rules<F...>, P...> {
  static constexpr bool kTensor[sizeof...(P) + 1] = {is_tensor<P>..., false};
  static constexpr auto kOf = [] {
    std::array<int, sizeof...(F)> of{number_of_rule<Op, F>...};
    int next = 0;
    for (int& p : of) {
      if (p < 0)
        while (p = next, p < int(sizeof...(P)) && !kTensor[p]) ++next;
      next = p + 1;
    }
    return of;
  }();
  static constexpr bool rules_fit() {
    for (size_t i = 0; i < sizeof...(F); ++i)
      if (kOf[i] >= int(sizeof...(P)) || !kTensor[kOf[i]] || (i && kOf[i] <= kOf[i - 1])) return false;
    return true;
  }
  static_assert(rules_fit(), "a rule of a parameter that is no tensor, or rules out of order");
  static constexpr auto kNeeds = [] {
    std::array<Need, sizeof...(P)> needs{};
    size_t i = 0;
    ((needs[size_t(kOf[i])] = rule_types<rules_like<Op>, F>::need(kOf[i]), ++i), ...);
    return needs;
  }();
  static constexpr uint16_t kRuled = [] {
    uint16_t ruled = 0;
    for (int p : kOf) ruled |= uint16_t(1u << p);
    return ruled;
  }();
  static Tensor rule(RuleNode& node, int parameter, Gradients& in) {
    Tensor gradient;
    [&]<size_t... I>(std::index_sequence<I...>) {
      ((kOf[I] == parameter
            ? void(gradient = rule_types<rules_like<Op>, F>::run(std::get<I>(Op::vjp), node, in, 0))
            : void()),
       ...);
    }(std::index_sequence_for<F...>{});
    return gradient;
  }
  static constexpr auto joint = nullptr;
};
template <class Op, class F, class... P>
struct TableOf<Op, JointRule<F>, P...> {
  static constexpr auto kNeeds = [] {
    std::array<Need, sizeof...(P)> needs{};
    for (size_t p = 0; p < sizeof...(P); ++p) needs[p] = rule_types<Op, F>::need(int(p));
    return needs;
  }();
  static constexpr uint16_t kRuled = 0xffff;
  static constexpr auto rule = nullptr;
  static Tensors joint(RuleNode& node, uint32_t wanted, Gradients& in) {
    return rule_types<rules_like<Op>, F>::run(Op::vjp.f, node, in, wanted);
  }
};

template <class Op, class Of, class... P>
struct TableOf<Op, FirstOrder<Of>, P...> : TableOf<Op, Of, P...> {
  static constexpr const Operator* const* composition = &row_of<Op>;
};

template <class Op, class Of, class... P>
struct TableOf<Op, HigherOrder<Of>, P...> : TableOf<Op, FirstOrder<Of>, P...> {
  static constexpr bool higher_order = true;
};

template <class Op, class... P>
constexpr RuleTable make_table() {
  using T = TableOf<Op, std::decay_t<decltype(Op::vjp)>, P...>;
  static_assert(sizeof...(P) <= 16 && (0 + ... + is_list<P>) <= 1,
                "masks of parameters have 16 bits, and a node has one list");
  static_assert(std::is_same_v<parameters_of<Op>, parameters_of<rules_like<Op>>>, "rules of other arguments");
  RuleTable t{};
  t.name = Op::name;
  t.signature = Op::signature;
  t.parameters = sizeof...(P);
  t.list = -1;
  int i = 0;
  ((is_tensor<P> ? void(t.tensors |= uint16_t(1u << i)) : is_list<P> ? void(t.list = i) : void(), ++i), ...);
  t.ruled = T::kRuled;
  t.gradient_keeps_history = Op::gradient_keeps_history;
  t.edges_from_last = Op::edges_from_last;
  t.needs = T::kNeeds.data();
  for (const Need& n : T::kNeeds) t.all = t.all | n;
  t.owned = &OwnedTuple<P...>::value;
  if constexpr (requires { Op::recorded_as; }) {
    using Name = std::decay_t<decltype(Op::recorded_as)>;
    if constexpr (std::is_same_v<Name, const char*>) {
      t.recorded_as = [](const void*) { return Op::recorded_as; };
    } else {
      t.all.arguments = true;
      t.recorded_as = [](const void* owned) {
        return rule_types<Op, Name>::of_owned(Op::recorded_as, owned);
      };
    }
  }
  t.rule = T::rule;
  t.joint = T::joint;
  if constexpr (requires { T::composition; }) t.composition = T::composition;
  if constexpr (requires { T::higher_order; }) t.higher_order = true;
  return t;
}
template <class Op, class... P>
inline constexpr RuleTable table_of = make_table<Op, P...>();

/// What an argument of a rule for batches is.
template <class Op, class X>
struct TakenByBatch;
template <class Op, Name name>
struct TakenByBatch<Op, Batched<name>> {
  static Batched<name> get(const BatchedCall& c) { return {{c, c.given[number_of_tensor<Op, name>]}}; }
};
template <class Op, class X, Name name>
struct TakenByBatch<Op, Argument<X, name>> {
  using Of = TypeOfArgument<Op, name, X>;
  static Argument<X, name> get(const BatchedCall& c) {
    return {X(argument_t<typename Of::type>::unbox(c.given[Of::number]))};
  }
};
/// The rule for batches of an operator that has one of its own.
template <class Op, class... X>
constexpr batching::Rule batch_rule(void (*)(BatchedCall&, X...)) {
  return [](BatchedCall& c) { Op::batch(c, TakenByBatch<Op, X>::get(c)...); };
}
template <class Op>
constexpr batching::Rule batch_rule(batching::Rule rule) {
  return rule;
}

/// The computation of a call by a function of the operator, its arguments unboxed.
template <auto function, class R, class... P>
void compute(const Operator&, const Value* v, Results& results) {
  [&]<size_t... I>(std::index_sequence<I...>) {
    R r = [&] {
      if constexpr (FunctionTypes<decltype(function)>::takes_into)
        return function(results.into, argument_t<P>::unbox(v[I])...);
      else
        return function(argument_t<P>::unbox(v[I])...);
    }();
    if constexpr (std::is_same_v<R, Tensor>) {
      results.one = std::move(r);
    } else {
      results.kind = std::is_same_v<R, Tensors> ? Results::Kind::List : Results::Kind::Tuple;
      if constexpr (std::is_same_v<R, Tensors>)
        results.many = std::move(r);
      else
        results.many = std::apply([](auto&... t) { return Tensors{std::move(t)...}; }, r);
    }
  }(std::index_sequence_for<P...>{});
}

}  // namespace door
}  // namespace adjoint
