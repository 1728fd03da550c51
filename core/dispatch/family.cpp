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

}  // namespace

template <class Op> ElementwiseInfo InfoOf<Op>::value = {
    Op::name, Op::doc, Op::arity, count_parameters(Op::parameters), Op::types, Op::result, Op::promotes_integers,
    Op::condition, Op::inplace, Op::samples,
    {kind_at<Op, 0>(), kind_at<Op, 1>(), kind_at<Op, 2>()},
    {takes_at<Op, 0>(), takes_at<Op, 1>(), takes_at<Op, 2>()},
    {rule_pointer<Op, 0>(), rule_pointer<Op, 1>(), rule_pointer<Op, 2>()}, {}};

namespace {

template <class Op> void boxed_elementwise(const Value* v, Results& results) {
  Tensor in[Op::arity];
  for (int i = 0; i < Op::arity; ++i) in[i] = *v[i].tensor;
  double p[count_parameters(Op::parameters) + 1];
  for (int k = 0; k < count_parameters(Op::parameters); ++k) p[k] = v[Op::arity + k].d;
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
  row->kinds.resize(Op::arity + count_parameters(Op::parameters), ArgKind::Float);
  row->boxed = &boxed_elementwise<Op>;
  row->elementwise = &InfoOf<Op>::value;
  row->view = row->writes = false;
  row->differentiable = Op::result != ResultType::Bool && (Op::types & types::field) != 0 && Rule<Op, 0>::kind != RuleKind::Zero;
  row->function = row->method = true;
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
  row->differentiable = Op::differentiable && door::HasRules<Op>;
  row->function = Op::function;
  row->method = Op::method;
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
