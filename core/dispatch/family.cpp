// The table rows and doors of one family: compiled once per family, with ADJOINT_FAMILY and ADJOINT_FAMILY_HEADER.
#include ADJOINT_FAMILY_HEADER

#include "dispatch/door.h"

#define ADJOINT_TEXT_(x) #x
#define ADJOINT_TEXT(x) ADJOINT_TEXT_(x)

namespace adjoint {
namespace {

template <class Op, int I>
Tensor recorded_rule(const Tensor& g, const Tensor* in, const Tensor& result, const double* p) {
  if constexpr (Rule<Op, I>::kind == RuleKind::MinusOne) {
    return (-Recorded(g)).tensor;
  } else {
    return [&]<size_t... K>(std::index_sequence<K...>) {
      auto r = Rule<Op, I>::apply(Recorded(g), Recorded(in[0]), Recorded(in[1]), Recorded(in[2]), Recorded(result),
                                  Recorded(static_cast<double>(p ? p[K] : 0.0))...);
      return Recorded(r).tensor;
    }(std::make_index_sequence<count_parameters(Op::parameters)>{});
  }
}

template <class Op, int I> constexpr auto rule_pointer() {
  using Pointer = Tensor (*)(const Tensor&, const Tensor*, const Tensor&, const double*);
  if constexpr (I < Op::arity) {
    constexpr RuleKind kind = Rule<Op, I>::kind;
    if constexpr (kind == RuleKind::Derivative || kind == RuleKind::Vjp || kind == RuleKind::MinusOne)
      return Pointer(&recorded_rule<Op, I>);
    else return Pointer(nullptr);
  } else {
    return Pointer(nullptr);
  }
}

template <class Op, int I> constexpr RuleKind kind_at() {
  if constexpr (I < Op::arity) return Rule<Op, I>::kind;
  else return RuleKind::Zero;
}
template <class Op, int I> constexpr uint8_t takes_at() {
  if constexpr (I < Op::arity) return static_cast<uint8_t>(Rule<Op, I>::takes);
  else return 0;
}

template <class Op> concept Checks = requires { &Op::check; };
template <class Op> constexpr auto check_of() -> void (*)(const Tensor*, DType) {
  if constexpr (Checks<Op>) return &Op::check;
  else return nullptr;
}
// Inputs of one type, not bool, need no check but of their values. Fractions as parameters change the type of integers.
template <class Op> constexpr TypeSet direct_types() {
  return Op::keeps_type ? 0 : Op::types & ~Op::identity & ~(Op::checks_values || *Op::parameters ? types::boolean | types::integer : 0);
}

/// Whether parameter number k has the default None.
constexpr bool defaults_to_none(std::string_view parameters, int k) {
  while (parameters.starts_with('*') || k-- > 0) {
    parameters.remove_prefix(parameters.find(',') + 1);
    parameters.remove_prefix(parameters.find_first_not_of(' '));
  }
  return parameters.substr(0, parameters.find(',')).ends_with("=None");
}
static_assert(defaults_to_none("min=None, max=None", 1) && defaults_to_none("*, a=1, b=None", 1) && !defaults_to_none("*, a=1, b=None", 0));

}  // namespace

template <class Op> ElementwiseInfo InfoOf<Op>::value = {
    Op::name, Op::doc, Op::inputs, Op::arity, count_parameters(Op::parameters), Op::condition, Op::types, Op::identity, direct_types<Op>(),
    Op::result, Op::promotes_integers, Op::keeps_type, Op::inplace, Op::wants_parameter, Op::samples, check_of<Op>(),
    {kind_at<Op, 0>(), kind_at<Op, 1>(), kind_at<Op, 2>()},
    {takes_at<Op, 0>(), takes_at<Op, 1>(), takes_at<Op, 2>()},
    {rule_pointer<Op, 0>(), rule_pointer<Op, 1>(), rule_pointer<Op, 2>()}, {}, nullptr};

namespace {

template <class Op> void boxed_elementwise(const Value* v, Results& results) {
  Tensor in[Op::arity];
  for (int i = 0; i < Op::arity; ++i) in[i] = *v[i].tensor;
  double p[count_parameters(Op::parameters) + 1];
  for (int k = 0; k < count_parameters(Op::parameters); ++k) p[k] = parameter_of(v[Op::arity + k]);
  results.one = call_elementwise(info_of<Op>(), in, p);
}

template <class Op> void add_elementwise(int index) {
  InfoOf<Op>::value.loops = choose_loops(ADJOINT_TEXT(ADJOINT_FAMILY), index);
  auto* row = new Operator{};
  row->name = Op::name;
  row->doc = Op::doc;
  row->signature = std::string(Op::inputs) + (*Op::parameters ? std::string(", ") + Op::parameters : "");
  row->family = ADJOINT_TEXT(ADJOINT_FAMILY);
  row->module = "";
  row->returns = "";
  row->aliases = Op::aliases;
  row->python = Op::python;
  row->kinds.assign(Op::arity, ArgKind::Tensor);
  for (int k = 0; k < count_parameters(Op::parameters); ++k)
    row->kinds.push_back(defaults_to_none(Op::parameters, k) ? ArgKind::OptionalFloat : ArgKind::Float);
  row->boxed = &boxed_elementwise<Op>;
  row->elementwise = &InfoOf<Op>::value;
  row->view = row->writes = false;
  row->inplace = Op::inplace;
  row->differentiable = Op::result != ResultType::Bool && (Op::types & types::field) != 0;
  row->function = true;
  row->method = Op::method;
  row->several = row->composite = false;
  InfoOf<Op>::value.row = row;
  operators().push_back(row);
}

template <class Op, class R, class... P> void add_structured(R (*)(P...)) {
  auto* row = new Operator{};
  row->name = Op::name;
  row->doc = Op::doc;
  row->signature = Op::signature;
  row->family = ADJOINT_TEXT(ADJOINT_FAMILY);
  row->module = Op::module;
  row->returns = Op::returns;
  row->aliases = Op::aliases;
  row->python = Op::python;
  row->kinds = {door::kind_of<P>()...};
  row->boxed = &door::boxed<Op, R, P...>;
  row->elementwise = nullptr;
  row->view = Op::view;
  row->writes = Op::writes;
  row->inplace = Op::inplace;
  row->differentiable = Op::differentiable && (door::HasRules<Op> || Op::composite);
  row->function = Op::function;
  row->method = Op::method;
  row->several = !std::is_same_v<R, Tensor>;
  row->composite = Op::composite;
  row_of<Op> = row;
  operators().push_back(row);
}

template <class Op> void add(int index) {
  if constexpr (IsElementwise<Op>) add_elementwise<Op>(index);
  else add_structured<Op>(&Op::forward);
}

}  // namespace

#define ADJOINT_REGISTER_(family) register_##family
#define ADJOINT_REGISTER(family) ADJOINT_REGISTER_(family)

// Called by dispatch/table.cpp, which the build writes with one line per family.
void ADJOINT_REGISTER(ADJOINT_FAMILY)() {
  int index = 0;
  ADJOINT_FAMILY::each([&]<class Op>() {
    add<Op>(index++);
  });
}

}  // namespace adjoint
