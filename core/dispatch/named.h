// Names in rules: Input<"weight"> is found in the operator's `signature`, Output<"indices"> in its `returns`,
// when the row is compiled; a name that is not there does not compile. The texts are read once for each row.
#pragma once

#include <array>

#include "dispatch/operator.h"

namespace adjoint {

template <size_t n>
consteval std::array<std::string_view, n> names_in(std::string_view signature) {
  std::array<std::string_view, n> names;
  size_t i = 0;
  each_parameter(signature, [&](const ParameterText& p) { names[i++] = p.name(); });
  return names;
}
template <size_t n>
consteval int place_of(std::string_view name, const std::array<std::string_view, n>& names) {
  for (size_t i = 0; i < n; ++i)
    if (names[i] == name) return static_cast<int>(i);
  return -1;
}

static_assert(place_of("b", names_in<3>("a, b|c=(1, 2), *, d=None")) == 1 &&
              place_of("c", names_in<1>("a")) < 0);

/// The operator whose names rules use: another, where operators share rules that name these in different
/// ways.
template <class Op>
struct RulesLike {
  using type = Op;
};
template <class Op>
  requires requires { typename Op::rules_like; }
struct RulesLike<Op> {
  using type = typename Op::rules_like;
};
template <class Op>
using rules_like = typename RulesLike<Op>::type;

/// The names of an operator's arguments and results.
template <class Op>
struct NamesOf {
  static constexpr auto arguments = names_in<parameters_in(Op::signature)>(Op::signature);
  static constexpr auto results = names_in<parameters_in(Op::returns)>(Op::returns);
};
template <IsElementwise Op>
struct NamesOf<Op> {
  static constexpr auto arguments = names_in<parameters_in(Op::inputs)>(Op::inputs);
};

template <class Op, Name name>
inline constexpr int number_of_argument = [] {
  constexpr int i = place_of(name, NamesOf<rules_like<Op>>::arguments);
  static_assert(i >= 0, "a rule names an argument that the operator's signature does not have");
  return i;
}();
template <class Op, Name name>
inline constexpr int number_of_result = [] {
  constexpr bool only = NamesOf<Op>::results.empty() && std::string_view(name).empty();
  constexpr int i = only ? 0 : place_of(name, NamesOf<Op>::results);
  static_assert(i >= 0, "a rule names a result that the operator's `returns` does not have");
  return i;
}();
template <class Op, Name... arguments>
consteval uint32_t mask_of() {
  return (0u | ... | (1u << number_of_argument<Op, arguments>));
}

template <class Backward>
template <Name... results>
bool Needs<Backward>::any() const {
  return bits & (int64_t{0} | ... | (int64_t{1} << number_of_result<Backward, results>));
}

/// An argument of a boxed call.
template <class Op, Name name>
const Value& argument_of(const Value* arguments) {
  return arguments[number_of_argument<Op, name>];
}

/// The types of an operator's parameters, and of one without reference.
template <class Op>
using parameters_of = typename forward_types<Op>::Parameters;
template <class Op, int number>
using argument_type = std::remove_cvref_t<std::tuple_element_t<number, parameters_of<Op>>>;

/// Of an argument that a rule takes as a tensor.
template <class Op, Name name>
inline constexpr int number_of_tensor = [] {
  constexpr int number = number_of_argument<Op, name>;
  static_assert(argument_t<argument_type<Op, number>>::form == Form::Tensor,
                "a rule takes an argument as a tensor that is none");
  return number;
}();
/// An argument that a rule takes as X.
template <class Op, Name name, class X>
struct TypeOfArgument {
  static constexpr int number = number_of_argument<Op, name>;
  using type = argument_type<Op, number>;
  static_assert(std::is_same_v<X, type> || std::is_same_v<X, typename argument_t<type>::Plain>,
                "a rule takes an argument by another type than the operator's forward");
};

}  // namespace adjoint
