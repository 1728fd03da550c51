// How a family comes into the table: the source of a family, ops/<family>.cpp, says at its end
//
//     ADJOINT_FAMILY(Reduction)
//
// which makes the rows and the doors of its operators there. A family of element-wise operators has loops
// besides; its source is ops/<family>.isa.cpp, which the build compiles once like the others, and once more
// per instruction set with ADJOINT_KERNELS_ONLY defined: then the same line makes the loops
// (ops/contract/loops.h). ADJOINT_RARE_FAMILY says that few programs spend their time in them: the widest
// registers get no loops of their own, and the next narrower serve. ADJOINT_PORTABLE_FAMILY says that of all
// registers: its loops are compiled once, and serve every processor.
//
// The build finds these files by their names and knows nothing else of operators. Start reading at
// `add_family`.
#pragma once

#ifdef ADJOINT_KERNELS_ONLY
#include "ops/contract/loops.h"

#define ADJOINT_FAMILY(family) ADJOINT_LOOPS(family)
#if ADJOINT_LEVEL < 4
#define ADJOINT_RARE_FAMILY(family) ADJOINT_LOOPS(family)
#else
#define ADJOINT_RARE_FAMILY(family)
#endif
#if ADJOINT_LEVEL == 0
#define ADJOINT_PORTABLE_FAMILY(family) ADJOINT_LOOPS(family)
#else
#define ADJOINT_PORTABLE_FAMILY(family)
#endif

#else
#include "dispatch/derived.h"

#define ADJOINT_FAMILY(family)                                                               \
  namespace adjoint {                                                                        \
  static const bool family##_is_in_the_table = (table::add_family(#family, family()), true); \
  }
#define ADJOINT_RARE_FAMILY(family) ADJOINT_FAMILY(family)
#define ADJOINT_PORTABLE_FAMILY(family) ADJOINT_FAMILY(family)

namespace adjoint {
namespace table {

struct NotTaken {};
template <bool is>
auto taken(const Tensor& t) {
  if constexpr (is)
    return Recorded(t);
  else
    return NotTaken();
}
template <class Op, int I>
Tensor recorded_rule(const Tensor& g, const Tensor* in, const Tensor& result, const double* p) {
  if constexpr (Rule<Op, I>::kind == RuleKind::MinusOne) {
    return (-Recorded(g)).tensor;
  } else {
    return [&]<size_t... K>(std::index_sequence<K...>) {
      constexpr int takes = Rule<Op, I>::takes;
      auto r = Rule<Op, I>::apply(Recorded(g), taken<(takes & kFirst) != 0>(in[0]),
                                  taken<(takes & kSecond) != 0>(in[1]), taken<(takes & kThird) != 0>(in[2]),
                                  taken<(takes & kResult) != 0>(result), Recorded(p ? p[K] : 0.0)...);
      return Recorded(std::move(r)).tensor;
    }(std::make_index_sequence<count_parameters(Op::parameters)>{});
  }
}

/// What is said of input I: its rule, and the operator of a call that leaves it out.
template <class Op, int I>
void set_input(ElementwiseInfo& info) {
  if constexpr (I < Op::arity) {
    constexpr RuleKind kind = Rule<Op, I>::kind;
    info.rules[I] = kind;
    info.takes[I] = static_cast<uint8_t>(Rule<Op, I>::takes);
    if constexpr (kind == RuleKind::Derivative || kind == RuleKind::Vjp || kind == RuleKind::MinusOne)
      info.recorded[I] = &recorded_rule<Op, I>;
    if constexpr (I == 1 && requires { typename Op::without_second; })
      info.without[I] = &InfoOf<typename Op::without_second>::value;
    if constexpr (I == 2 && requires { typename Op::without_third; })
      info.without[I] = &InfoOf<typename Op::without_third>::value;
  }
}

// Inputs of one type, not bool, need no check but of their values.
template <class Op>
constexpr TypeSet direct_types() {
  return Op::keeps_type
             ? 0
             : Op::types & ~Op::identity & ~(Op::checks_values ? types::boolean | types::integer : 0);
}

/// Whether parameter number k has the default None.
constexpr bool defaults_to_none(std::string_view parameters, int k) {
  bool none = false;
  each_parameter(parameters, [&](const ParameterText& p) {
    if (k-- == 0) none = p.value == "None";
  });
  return none;
}
/// Whether any of n has it.
constexpr bool some_none(std::string_view parameters, int n) {
  for (int k = 0; k < n; ++k)
    if (defaults_to_none(parameters, k)) return true;
  return false;
}
static_assert(defaults_to_none("min=None, max=None", 1) && defaults_to_none("*, a=1, b=None", 1) &&
              !defaults_to_none("*, a=1, b=None", 0));

/// The texts of a row side by side, in the order in which `new_row` reads them: making a row takes the
/// address of all instead of one each. Of an element-wise operator, whose order of arguments is made of two
/// texts, these stand where others have a module and the names of results.
template <class Op>
inline constexpr auto texts_of = [] {
  constexpr std::array<std::string_view, 13> texts = [] {
    std::string_view module, returns, samples, order, separator, more;
    if constexpr (IsElementwise<Op>) {
      module = order = Op::inputs;
      returns = more = Op::parameters;
      if (!more.empty()) separator = ", ";
    } else {
      module = Op::module;
      returns = Op::returns;
      order = Op::signature;
      if constexpr (requires { Op::samples.text; }) samples = Op::samples.text;
    }
    return std::array<std::string_view, 13>{
        Op::name, Op::doc, Op::orders, Op::old_orders, Op::aliases, Op::python, Op::overloads,
        module,   returns, samples,    order,          separator,   more};
  }();
  constexpr size_t bytes = [&] {
    size_t n = texts.size();
    for (std::string_view text : texts) n += text.size();
    return n;
  }();
  std::array<char, bytes> all{};
  size_t at = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    for (char c : texts[i]) all[at++] = c;
    at += i < 10 || i == 12;  // its end
  }
  return all;
}();

/// A row with the texts, and with what a structured operator is unless it says otherwise.
Operator* new_row(const char* family, const char* texts);
void add_kind(Operator& row, const ArgKind& kind);
/// Put the row of an element-wise operator into the table, whose `info` says what is no text.
void add_elementwise(ElementwiseInfo& info, const char* family, const char* texts, int index, bool method,
                     bool out_converts);

}  // namespace table

template <class Op>
constinit ElementwiseInfo InfoOf<Op>::value = {};

namespace table {

template <class Op>
void add_elementwise(const char* family, int index) {
  static_assert(Op::arity == parameters_in(Op::inputs) &&
                    count_parameters(Op::parameters) == parameters_in(Op::parameters),
                "the names of an element-wise operator's inputs or parameters are not as many as it has");
  static_assert(Op::arity <= kMostInputs && parameters_in(Op::parameters) <= kMostParameters,
                "more than an element-wise call has room for");
  static_assert(Op::condition < 0 || Op::arity == 3,
                "an operator with a condition chooses between two others");
  static_assert(names_are_unique(Op::inputs) && names_are_unique(Op::parameters),
                "two arguments of one name");
  static_assert(
      !some_none(Op::parameters, count_parameters(Op::parameters)) || requires { &Op::absent; },
      "says what a parameter left out stands for");
  // (Asked of the types: the address of a row is no constant under sanitizers.)
  static_assert(
      (Op::arity < 2 || !defaults_to_none(Op::inputs, 1) || requires { typename Op::without_second; }) &&
          (Op::arity < 3 || !defaults_to_none(Op::inputs, 2) || requires { typename Op::without_third; }),
      "says which operator a call is that leaves an input out");
  ElementwiseInfo& info = InfoOf<Op>::value;
  info.arity = Op::arity;
  info.parameters = count_parameters(Op::parameters);
  info.condition = Op::condition;
  info.types = Op::types;
  info.identity = Op::identity;
  info.direct = direct_types<Op>();
  info.result = Op::result;
  info.promotes_integers = Op::promotes_integers;
  info.promotes_bool = Op::promotes_bool;
  info.keeps_type = Op::keeps_type;
  info.inplace = Op::inplace;
  info.samples = Op::samples;
  if constexpr (requires { Op::recorded_as; }) info.recorded_as = Op::recorded_as;
  if constexpr (requires { &Op::check; }) info.check = &Op::check;
  if constexpr (requires { &Op::absent; }) info.absent = &Op::absent;
  set_input<Op, 0>(info);
  set_input<Op, 1>(info);
  set_input<Op, 2>(info);
  add_elementwise(info, family, texts_of<Op>.data(), index, Op::method, Op::out_converts);
}

template <class Op, class R, class... P>
void add_structured(const char* family, R (*)(P...)) {
  static_assert((IsArgument<P> && ...),
                "a parameter has a type that calls cannot carry: see ops/contract/arguments.h");
  static_assert(parameters_in(Op::signature) == sizeof...(P),
                "the signature names another number of arguments than forward takes");
  static_assert(names_are_unique(Op::signature), "two arguments of one name");
  static_assert(orders_fit(Op::signature, Op::orders) && orders_fit(Op::signature, Op::old_orders),
                "an order names what the signature does not");
  static_assert(sizeof...(P) <= kMostArguments, "more arguments than calls have room for");
  Operator* row = new_row(family, texts_of<Op>.data());
  (add_kind(*row, kind_of<P>), ...);
  row->types = Op::types;
  row->compute = &door::compute<&Op::forward, R, P...>;
  if constexpr (requires { &Op::composed; }) row->composed = &door::compute<&Op::composed, R, P...>;
  static_assert(!decltype(Op::writes_lists)::template mask<Op> || !Op::differentiable,
                "what writes lists of tensors has no derivative");
  // In the order in which they lie, as few stores.
  row->view = Op::view;
  row->writes = Op::writes;
  row->inplace = Op::inplace;
  row->differentiable = Op::differentiable && (door::HasRules<Op> || Op::composite);
  row->function = Op::function;
  row->method = Op::method;
  row->writes_one_value = Op::writes_one_value;
  row->draws = false;
  row->out_converts = Op::out_converts;
  row->makes_in_out = forward_types<Op>::takes_into;
  row->constant = !Op::differentiable;
  row->crosses_devices = Op::crosses_devices;
  row->takes_sparse = Op::takes_sparse;
  row->composite = Op::composite;
  row->several = !std::is_same_v<R, Tensor>;
  row->writes_lists = decltype(Op::writes_lists)::template mask<Op>;
  if constexpr (std::is_same_v<R, Tensors>)
    row->results = 0;
  else if constexpr (!std::is_same_v<R, Tensor>)
    row->results = std::tuple_size_v<R>;
  if constexpr (Op::differentiable && door::HasRules<Op>) row->rules = &door::table_of<Op, P...>;
  if constexpr (requires { Op::linear; }) {
    using Linear = std::remove_const_t<decltype(Op::linear)>;
    row->linear_terms = Linear::Terms::template mask<Op>;
    row->linear_factors = Linear::Factors::template mask<Op>;
  }
  if constexpr (requires { Op::batch; }) row->batch = door::batch_rule<Op>(Op::batch);
  row_of<Op> = row;
  add_row(row);
}

/// Add the rows of every operator of a family.
template <class... Ops>
void add_family(const char* family, Family<Ops...>) {
  int index = 0;
  auto add = [&]<class Op>() {
    if constexpr (IsElementwise<Op>)
      add_elementwise<Op>(family, index++);
    else
      add_structured<Op>(family, typename forward_types<Op>::Plain());
  };
  (add.template operator()<Ops>(), ...);
}

}  // namespace table
}  // namespace adjoint

#endif
