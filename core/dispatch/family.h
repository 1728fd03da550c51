// How a family comes into the table: the source of a family, ops/<family>.cpp, says at its end
//
//     ADJOINT_FAMILY(Reduction)
//
// which makes the rows and the doors of its operators there. A family of element-wise operators has loops
// besides; its source is ops/<family>.isa.cpp, which the build compiles once like the others, and once more
// per instruction set with ADJOINT_KERNELS_ONLY defined: then the same line makes the loops (ops/loops.h).
// ADJOINT_RARE_FAMILY says that few programs spend their time in them: the widest registers get no loops of
// their own, and the next narrower serve. ADJOINT_PORTABLE_FAMILY says that of all registers: its loops are
// compiled once, and serve every processor.
//
// The build finds these files by their names and knows nothing else of operators. Start reading at
// `add_family`.
#pragma once

#ifdef ADJOINT_KERNELS_ONLY
#include "ops/loops.h"

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

template <class Op, int I>
Tensor recorded_rule(const Tensor& g, const Tensor* in, const Tensor& result, const double* p) {
  if constexpr (Rule<Op, I>::kind == RuleKind::MinusOne) {
    return (-Recorded(g)).tensor;
  } else {
    return [&]<size_t... K>(std::index_sequence<K...>) {
      auto r = Rule<Op, I>::apply(Recorded(g), Recorded(in[0]), Recorded(in[1]), Recorded(in[2]),
                                  Recorded(result), Recorded(static_cast<double>(p ? p[K] : 0.0))...);
      return Recorded(r).tensor;
    }(std::make_index_sequence<count_parameters(Op::parameters)>{});
  }
}

template <class Op, int I>
constexpr auto rule_pointer() {
  using Pointer = Tensor (*)(const Tensor&, const Tensor*, const Tensor&, const double*);
  if constexpr (I < Op::arity) {
    constexpr RuleKind kind = Rule<Op, I>::kind;
    if constexpr (kind == RuleKind::Derivative || kind == RuleKind::Vjp || kind == RuleKind::MinusOne)
      return Pointer(&recorded_rule<Op, I>);
    else
      return Pointer(nullptr);
  } else {
    return Pointer(nullptr);
  }
}

template <class Op, int I>
constexpr RuleKind kind_at() {
  if constexpr (I < Op::arity)
    return Rule<Op, I>::kind;
  else
    return RuleKind::Zero;
}
template <class Op, int I>
constexpr uint8_t takes_at() {
  if constexpr (I < Op::arity)
    return static_cast<uint8_t>(Rule<Op, I>::takes);
  else
    return 0;
}

template <class Op>
concept Checks = requires { &Op::check; };
template <class Op>
constexpr auto check_of() -> void (*)(const Tensor*, DType) {
  if constexpr (Checks<Op>)
    return &Op::check;
  else
    return nullptr;
}
template <class Op>
constexpr auto absent_of() -> double (*)(int, DType) {
  if constexpr (requires { &Op::absent; })
    return &Op::absent;
  else
    return nullptr;
}
template <class Op>
constexpr const ElementwiseInfo* without_second() {
  if constexpr (requires { typename Op::without_second; })
    return &InfoOf<typename Op::without_second>::value;
  else
    return nullptr;
}
template <class Op>
constexpr const ElementwiseInfo* without_third() {
  if constexpr (requires { typename Op::without_third; })
    return &InfoOf<typename Op::without_third>::value;
  else
    return nullptr;
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

}  // namespace table

/// What errors and nodes call an operator: a form that has no name of its own has that of its function.
template <class Op>
constexpr const char* known_as() {
  return *Op::name == '_' && *Op::overloads ? Op::overloads : Op::name;
}

template <class Op>
ElementwiseInfo InfoOf<Op>::value = {
    known_as<Op>(),
    Op::doc,
    Op::inputs,
    Op::arity,
    count_parameters(Op::parameters),
    Op::condition,
    Op::types,
    Op::identity,
    table::direct_types<Op>(),
    Op::result,
    Op::promotes_integers,
    Op::promotes_bool,
    Op::keeps_type,
    Op::inplace,
    Op::samples,
    table::check_of<Op>(),
    table::absent_of<Op>(),
    {nullptr, table::without_second<Op>(), table::without_third<Op>()},
    {table::kind_at<Op, 0>(), table::kind_at<Op, 1>(), table::kind_at<Op, 2>()},
    {table::takes_at<Op, 0>(), table::takes_at<Op, 1>(), table::takes_at<Op, 2>()},
    {table::rule_pointer<Op, 0>(), table::rule_pointer<Op, 1>(), table::rule_pointer<Op, 2>()},
    {},
    nullptr};

namespace table {

/// What both kinds of operators say in the same way.
template <class Op>
Operator* new_row(const char* family, const char* order) {
  auto* row = new Operator{};
  row->name = Op::name;
  row->doc = Op::doc;
  row->order = order;
  row->signature = shown_signature(order);
  row->orders = Op::orders;
  row->old_orders = Op::old_orders;
  row->family = family;
  row->aliases = Op::aliases;
  row->python = Op::python;
  row->overloads = Op::overloads;
  row->out_converts = Op::out_converts;
  return row;
}

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
  InfoOf<Op>::value.loops = choose_loops(family, index);
  static const std::string order =
      std::string(Op::inputs) + (*Op::parameters ? std::string(", ") + Op::parameters : "");
  Operator* row = new_row<Op>(family, order.c_str());
  row->module = row->returns = "";
  for (int i = 0; i < Op::arity; ++i)
    row->kinds.push_back(defaults_to_none(Op::inputs, i) ? &kind_of<OptionalTensor> : &kind_of<Tensor>);
  for (int k = 0; k < count_parameters(Op::parameters); ++k)
    row->kinds.push_back(defaults_to_none(Op::parameters, k) ? &kind_of<std::optional<double> >
                                                             : &kind_of<double>);
  row->door = &call_elementwise_boxed;
  row->elementwise = &InfoOf<Op>::value;
  row->view = row->writes = false;
  row->inplace = Op::inplace;
  row->differentiable = Op::result != ResultType::Bool && (Op::types & types::field) != 0;
  row->function = true;
  row->method = Op::method;
  row->several = row->composite = false;
  InfoOf<Op>::value.row = row;
  add_row(row);
}

template <class Op, class R, class... P>
void add_structured(const char* family, R (*)(P...)) {
  static_assert((IsArgument<P> && ...),
                "a parameter has a type that calls cannot carry: see ops/arguments.h");
  static_assert(parameters_in(Op::signature) == sizeof...(P),
                "the signature names another number of arguments than forward takes");
  static_assert(names_are_unique(Op::signature), "two arguments of one name");
  static_assert(orders_fit(Op::signature, Op::orders) && orders_fit(Op::signature, Op::old_orders),
                "an order names what the signature does not");
  static_assert(sizeof...(P) <= kMostArguments, "more arguments than calls have room for");
  Operator* row = new_row<Op>(family, Op::signature);
  row->module = Op::module;
  row->returns = Op::returns;
  if constexpr (requires { Op::samples.text; }) row->samples = Op::samples.text;
  row->types = Op::types;
  row->kinds = {&kind_of<P>...};
  row->compute = &door::compute<&Op::forward, R, P...>;
  if constexpr (requires { &Op::composed; }) row->composed = &door::compute<&Op::composed, R, P...>;
  row->door = Op::composite ? row->compute
                            : [](const Operator& o, const Value* v, Results& r) { pass_door(o, v, r); };
  row->elementwise = nullptr;
  row->view = Op::view;
  row->writes = Op::writes;
  row->writes_lists = decltype(Op::writes_lists)::template mask<Op>;
  row->writes_one_value = Op::writes_one_value;
  static_assert(!decltype(Op::writes_lists)::template mask<Op> || !Op::differentiable,
                "what writes lists of tensors has no derivative");
  row->inplace = Op::inplace;
  row->differentiable = Op::differentiable && (door::HasRules<Op> || Op::composite);
  row->function = Op::function;
  row->method = Op::method;
  row->several = !std::is_same_v<R, Tensor>;
  if constexpr (std::is_same_v<R, Tensors>)
    row->results = 0;
  else if constexpr (!std::is_same_v<R, Tensor>)
    row->results = std::tuple_size_v<R>;
  row->composite = Op::composite;
  row->crosses_devices = Op::crosses_devices;
  row->takes_sparse = Op::takes_sparse;
  row->constant = !Op::differentiable;
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
      add_structured<Op>(family, &Op::forward);
  };
  (add.template operator()<Ops>(), ...);
}

}  // namespace table
}  // namespace adjoint

#endif
