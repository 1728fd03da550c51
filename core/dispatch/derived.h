// What a row has of the C++ types of its operator: the computation of a boxed call, and the table of its
// rules.
//
// Of a structured operator everything is derived from two facts: the types of `forward`'s parameters and
// those of its rules'. From them follows the `RuleTable` by which the node (rule_node.h, no template) keeps
// what is needed and runs a rule. Included only where families are instantiated (dispatch/family.h). What a
// call passes is in door.cpp. Start reading at `make_table`.
#pragma once

#include <array>

#include "dispatch/operator.h"
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
  static constexpr OwnedArguments value{sizeof(Tuple), own, box, destroy};
};

// --- Rules ----------------------------------------------------------------------------------------

/// What an argument of a rule needs for the gradient of parameter p, and how the rule gets it.
template <class X>
struct Taken;
template <>
struct Taken<Grad> {
  static constexpr Need need(int) { return {.gradients = 1}; }
  template <class T>
  static Grad get(RuleNode&, Gradients& in, uint32_t) {
    return Grad(in[0]);
  }
};
template <int I>
struct Taken<GradOf<I>> {
  static constexpr Need need(int) { return {.gradients = 1u << I}; }
  template <class T>
  static GradOf<I> get(RuleNode&, Gradients& in, uint32_t) {
    return GradOf<I>(in[I]);
  }
};
template <>
struct Taken<Tensors> {
  static constexpr Need need(int) { return {.gradients = 0xffff}; }
  template <class T>
  static Tensors get(RuleNode&, Gradients& in, uint32_t) {
    return Tensors(in.begin(), in.end());
  }
};
template <int I>
struct Taken<Input<I>> {
  static constexpr Need need(int) { return {.inputs = 1u << I}; }
  template <class T>
  static Input<I> get(RuleNode& n, Gradients&, uint32_t) {
    return Input<I>(n.input(I));
  }
};
template <int I>
struct Taken<Output<I>> {
  static constexpr Need need(int) { return {.outputs = 1u << I}; }
  template <class T>
  static Output<I> get(RuleNode& n, Gradients&, uint32_t) {
    return Output<I>(n.output(I));
  }
};
template <int I>
struct Taken<Shape<I>> {
  static constexpr Need need(int) { return {.shapes = 1u << I}; }
  template <class T>
  static Shape<I> get(RuleNode& n, Gradients&, uint32_t) {
    return {n.shape(I).sizes, n.shape(I).dtype};
  }
};
template <int I>
struct Taken<Layout<I>> {
  static constexpr Need need(int) { return {.layouts = 1u << I}; }
  template <class T>
  static Layout<I> get(RuleNode& n, Gradients&, uint32_t) {
    const Layout<0>& l = n.layout(I);
    return {l.sizes, l.strides, l.offset, l.dtype};
  }
};
template <class X, int I>
struct Taken<Argument<X, I>> {
  static constexpr Need need(int) { return {.arguments = true}; }
  /// T is the list of the parameters' types.
  template <class T>
  static Argument<X, I> get(RuleNode& n, Gradients&, uint32_t) {
    return []<class... P>(std::tuple<P...>*, const void* owned) {
      using Type = argument_t<std::tuple_element_t<I, std::tuple<P...>>>;
      return Argument<X, I>{
          X(Type::lend(std::get<I>(*static_cast<const typename OwnedTuple<P...>::Tuple*>(owned))))};
    }(static_cast<T*>(nullptr), n.owned());
  }
};
template <>
struct Taken<InputList> {
  static constexpr Need need(int) { return {.list = true}; }
  template <class T>
  static InputList get(RuleNode& n, Gradients&, uint32_t) {
    return n.list();
  }
};
template <>
struct Taken<ListSizes> {
  static constexpr Need need(int) { return {.list_sizes = true}; }
  template <class T>
  static ListSizes get(RuleNode& n, Gradients&, uint32_t) {
    return n.list_sizes();
  }
};
template <>
struct Taken<Needs> {
  static constexpr Need need(int) { return {}; }
  template <class T>
  static Needs get(RuleNode&, Gradients&, uint32_t wanted) {
    return {wanted};
  }
};
template <class X, int... parameters>
struct Taken<NeededBy<X, parameters...>> {
  static constexpr Need need(int p) { return ((p == parameters) || ...) ? Taken<X>::need(p) : Need{}; }
  template <class T>
  static NeededBy<X, parameters...> get(RuleNode& n, Gradients& in, uint32_t wanted) {
    return Taken<X>::template get<T>(n, in, wanted);
  }
};

template <class Rule>
struct RuleTypes;
template <class C, class R, class... X>
struct RuleTypes<R (C::*)(X...) const> {
  static constexpr Need need(int parameter) {
    return (Need{} | ... | Taken<std::decay_t<X>>::need(parameter));
  }
  template <class T, class F>
  static R run(const F& f, RuleNode& n, Gradients& in, uint32_t wanted) {
    return f(Taken<std::decay_t<X>>::template get<T>(n, in, wanted)...);
  }
};
template <class F>
using rule_types = RuleTypes<decltype(&F::operator())>;

/// The parameter that a rule is of: the one it names, else the first tensor after that of the rule before.
template <class F>
struct NumberOf {
  static constexpr int value = -1;
};
template <int parameter, class F>
struct NumberOf<NumberedRule<parameter, F>> {
  static constexpr int value = parameter;
};

template <class Op>
concept HasRules = requires { Op::vjp; };

template <class Op, class List, class... P>
struct TableOf;
template <class Op, class... F, class... P>
struct TableOf<Op, Rules<F...>, P...> {
  static constexpr bool kTensor[] = {is_tensor<P>..., false};
  static constexpr auto kOf = [] {
    std::array<int, sizeof...(F)> of{NumberOf<F>::value...};
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
    ((needs[size_t(kOf[i])] = rule_types<F>::need(kOf[i]), ++i), ...);
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
      ((kOf[I] == parameter ? void(gradient = rule_types<F>::template run<std::tuple<P...>>(
                                       std::get<I>(Op::vjp), node, in, 0))
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
    for (size_t p = 0; p < sizeof...(P); ++p) needs[p] = rule_types<F>::need(int(p));
    return needs;
  }();
  static constexpr uint16_t kRuled = 0xffff;
  static constexpr auto rule = nullptr;
  static Tensors joint(RuleNode& node, uint32_t wanted, Gradients& in) {
    return rule_types<F>::template run<std::tuple<P...>>(Op::vjp.f, node, in, wanted);
  }
};

template <class Op, class... P>
constexpr RuleTable make_table() {
  using T = TableOf<Op, std::decay_t<decltype(Op::vjp)>, P...>;
  static_assert(sizeof...(P) <= 16 && (0 + ... + is_list<P>) <= 1,
                "masks of parameters have 16 bits, and a node has one list");
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
  if constexpr (requires(const typename OwnedTuple<P...>::Tuple& a) { Op::recorded_as(a); })
    t.recorded_as = [](const void* owned) {
      return Op::recorded_as(*static_cast<const typename OwnedTuple<P...>::Tuple*>(owned));
    };
  t.rule = T::rule;
  t.joint = T::joint;
  return t;
}
template <class Op, class... P>
inline constexpr RuleTable table_of = make_table<Op, P...>();

/// The computation of a call, its arguments unboxed.
template <class Op, class R, class... P>
void compute(const Operator&, const Value* v, Results& results) {
  [&]<size_t... I>(std::index_sequence<I...>) {
    R r = Op::forward(argument_t<P>::unbox(v[I])...);
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
