// The door of structured operators: forward without recording, then the node that the operator's rules ask for.
//
// Everything here is derived from two facts of an operator: the types of `forward`'s parameters and the types of its
// rules' parameters. `Needed` reads from the latter what must be kept; `OperatorNode` keeps it, for those inputs that
// need a gradient and no others. Included only where families are instantiated (dispatch/family.cpp).
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "autograd/arithmetic.h"
#include "autograd/views.h"
#include "autograd/saved.h"
#include "dispatch/operator.h"
#include "kernels/copy.h"
#include "transforms/interpreter.h"

namespace adjoint {
namespace door {

// --- Owned copies of arguments ---------------------------------------------------------------------------------------

struct Unused {};  // a second empty type: two members of one type would not share an address
template <class P> using own_t = typename argument_t<P>::Owned;

template <class P> inline constexpr bool is_tensor = argument_t<P>::form == Form::Tensor;
template <class P> inline constexpr bool is_list = argument_t<P>::form == Form::Tensors;

// --- What rules take -------------------------------------------------------------------------------------------------

struct Need {
  uint32_t inputs = 0, outputs = 0, shapes = 0, layouts = 0;
  bool arguments = false, list = false, list_sizes = false;
  constexpr Need operator|(Need o) const {
    return {inputs | o.inputs,       outputs | o.outputs, shapes | o.shapes,         layouts | o.layouts,
            arguments || o.arguments, list || o.list,      list_sizes || o.list_sizes};
  }
};
template <class X> struct NeedOf { static constexpr Need value{}; };
template <int I> struct NeedOf<Input<I>> { static constexpr Need value{.inputs = 1u << I}; };
template <int I> struct NeedOf<Output<I>> { static constexpr Need value{.outputs = 1u << I}; };
template <int I> struct NeedOf<Shape<I>> { static constexpr Need value{.shapes = 1u << I}; };
template <int I> struct NeedOf<Layout<I>> { static constexpr Need value{.layouts = 1u << I}; };
template <class T, int I> struct NeedOf<Argument<T, I>> { static constexpr Need value{.arguments = true}; };
template <> struct NeedOf<InputList> { static constexpr Need value{.list = true}; };
template <> struct NeedOf<ListSizes> { static constexpr Need value{.list_sizes = true}; };

template <class F> struct RuleTypes;
template <class C, class R, class... X> struct RuleTypes<R (C::*)(X...) const> {
  static constexpr Need need = (Need{} | ... | NeedOf<std::decay_t<X>>::value);
  using Arguments = std::tuple<std::decay_t<X>...>;
};

template <class Op> concept HasRules = requires { Op::vjp; };

template <class T> struct IsJoint : std::false_type {};
template <class F> struct IsJoint<JointRule<F>> : std::true_type {};
template <class T> struct RuleList;
template <class... F> struct RuleList<Rules<F...>> {
  static constexpr int size = sizeof...(F);
  static constexpr Need needs[sizeof...(F)] = {RuleTypes<decltype(&F::operator())>::need...};
};
template <class F> struct RuleList<JointRule<F>> {
  static constexpr int size = 1;
  static constexpr Need needs[1] = {RuleTypes<decltype(&F::operator())>::need};
};
template <class Op> using rules_t = RuleList<std::decay_t<decltype(Op::vjp)>>;

template <class Op> constexpr Need whole_need() {
  Need all;
  for (const Need& n : rules_t<Op>::needs) all = all | n;
  return all;
}

// --- The node ----------------------------------------------------------------------------------------------------------

template <class Op, class R, class... P> class OperatorNode final : public Node {
 public:
  static constexpr Need kNeed = whole_need<Op>();
  static constexpr int kTensors = (0 + ... + is_tensor<P>);
  static constexpr bool kList = (is_list<P> || ...);
  static constexpr int kParameters = sizeof...(P);

  std::string name() const override {
    if constexpr (requires { Op::recorded_as(arguments_); }) return backward_name(Op::recorded_as(arguments_));
    else return backward_name(Op::name);
  }
  std::span<Edge> edges() override {
    if constexpr (kList) return edges_;
    else return {edges_.data(), edges_.size()};
  }

  void apply(Gradients& in, Gradients& out) override {
    if constexpr (IsJoint<std::decay_t<decltype(Op::vjp)>>::value) {
      uint64_t mask = 0;
      for (size_t i = 0; i < edges_.size(); ++i) mask |= uint64_t{bool(edges_[i])} << std::min<size_t>(i, 63);
      Tensors gs = run(Op::vjp.f, in, mask);
      for (size_t i = 0; i < gs.size() && i < out.size(); ++i) out[i] = std::move(gs[i]);
      if (thread_state.grad) [[unlikely]]
        for (size_t i = 0; i < out.size(); ++i) keep_history(out[i], edges(), read_by(0));
    } else {
      [&]<size_t... I>(std::index_sequence<I...>) {
        ((edges_[edge_of(I)] ? void(out[edge_of(I)] = run(std::get<I>(Op::vjp), in, ~uint64_t{0})) : void()), ...);
      }(std::make_index_sequence<std::min<size_t>(rules_t<Op>::size, kTensors)>{});
      if (thread_state.grad) [[unlikely]]
        for (int i = 0; i < std::min(rules_t<Op>::size, kTensors); ++i)
          if (const size_t e = edge_of(static_cast<size_t>(i)); edges_[e]) keep_history(out[e], edges(), read_by(i));
      for (int i = rules_t<Op>::size; i < kTensors; ++i)
        if (edges_[edge_of(static_cast<size_t>(i))]) fail<NotImplemented>("the derivative of '", Op::name, "' with respect to tensor argument ", i, " is not implemented");
    }
  }

  void release() override {
    for (auto& s : inputs_) s.release();
    for (auto& s : outputs_) s.release();
    if constexpr (kNeed.list)
      for (auto& s : list_) s.release();
  }

  std::vector<SavedValue> saved() override {
    std::vector<SavedValue> v;
    const std::string_view names = Op::signature;
    for (int i = 0; i < kParameters; ++i)
      if (kNeed.inputs >> i & 1) {
        SavedTensor& s = inputs_[slot(kNeed.inputs, i)];
        v.push_back({.name = argument_name(names, i), .slot = s.saved() ? &s : nullptr, .text = "None"});
      }
    for (int i = 0; i < 8; ++i)
      if (kNeed.outputs >> i & 1 && outputs_[slot(kNeed.outputs, i)].saved())
        v.push_back({.name = i ? "result" + std::to_string(i) : "result", .slot = &outputs_[slot(kNeed.outputs, i)], .output_nr = static_cast<uint32_t>(i)});
    if constexpr (kNeed.arguments)
      [&]<size_t... I>(std::index_sequence<I...>) { (add_argument<P>(v, names, I, std::get<I>(arguments_)), ...); }(std::index_sequence_for<P...>{});
    return v;
  }

  /// Keep what the rules of the inputs in `wanted` (bits by tensor number) need.
  void keep(uint64_t wanted, std::span<const Tensor* const> parameters, std::span<const Tensor> results, const P&... arguments) {
    Need need;
    if constexpr (IsJoint<std::decay_t<decltype(Op::vjp)>>::value) need = kNeed;
    else
      for (int i = 0; i < rules_t<Op>::size; ++i)
        if (wanted >> i & 1) need = need | rules_t<Op>::needs[i];
    for (int i = 0; i < kParameters; ++i) {
      if (!parameters[i] || !parameters[i]->defined()) continue;
      const Tensor& t = *parameters[i];
      if constexpr (kNeed.inputs != 0)
        if (need.inputs >> i & 1) inputs_[slot(kNeed.inputs, i)].save(t, false, this);
      if constexpr (kNeed.shapes != 0)
        if (need.shapes >> i & 1) shapes_[slot(kNeed.shapes, i)] = {Dims(t.sizes()), t.dtype()};
      if constexpr (kNeed.layouts != 0)
        if (need.layouts >> i & 1) layouts_[slot(kNeed.layouts, i)] = {Dims(t.sizes()), Dims(t.strides()), t.offset(), t.dtype()};
    }
    if constexpr (kList && (kNeed.list || kNeed.list_sizes)) (keep_list(need, arguments), ...);
    if constexpr (kNeed.outputs != 0)
      for (size_t i = 0; i < results.size(); ++i)
        if (need.outputs >> i & 1) outputs_[slot(kNeed.outputs, static_cast<int>(i))].save(results[i], true, this);
    if constexpr (kNeed.arguments) arguments_ = {argument_t<P>::own(arguments)...};
    const auto kept = [](const auto& saved) { return std::ranges::any_of(saved, &SavedTensor::saved); };
    bool any = kept(inputs_) || kept(outputs_);
    if constexpr (kNeed.list) any |= kept(list_);
    if (any) saves_something();
  }

  std::conditional_t<kList, std::vector<Edge>, std::array<Edge, kTensors>> edges_;
  /// Which edge is that of tensor argument number i.
  static constexpr size_t edge_of(size_t i) { return Op::edges_from_last ? static_cast<size_t>(kTensors) - 1 - i : i; }

 private:
  static constexpr int slot(uint32_t mask, int i) { return __builtin_popcount(mask & ((1u << i) - 1)); }
  /// The inputs, by the numbers of their edges, in which rule i is not linear: those that it takes; all, where it takes a result.
  static uint64_t read_by(int i) {
    const Need& need = rules_t<Op>::needs[i];
    if (Op::gradient_keeps_history || need.outputs || need.list) return ~uint64_t{0};
    constexpr bool tensors[] = {is_tensor<P>...};
    uint64_t mask = 0;
    for (int p = 0, number = 0; p < kParameters; ++p)
      if (tensors[p]) mask |= uint64_t{need.inputs >> p & 1} << edge_of(static_cast<size_t>(number++));
    return mask;
  }
  template <class X> static void add_argument(std::vector<SavedValue>& v, std::string_view names, size_t i, const own_t<X>& a) {
    if constexpr (!std::is_same_v<own_t<X>, Nothing>) {
      const auto lent = argument_t<X>::lend(a);
      Value boxed;
      argument_t<X>::box(lent, boxed);
      v.push_back({.name = argument_name(names, static_cast<int>(i)), .text = describe(kind_of<X>, boxed)});
    }
  }
  static std::string argument_name(std::string_view signature, int i) {
    std::string name;
    each_parameter(signature, [&](const ParameterText& p) {
      if (i-- == 0) name = p.name();
    });
    return name;
  }

  template <class F> auto run(const F& f, Gradients& in, uint64_t mask) {
    using Arguments = typename RuleTypes<decltype(&F::operator())>::Arguments;
    return [&]<class... X>(std::tuple<X...>*) { return f(fetch(static_cast<X*>(nullptr), in, mask)...); }(static_cast<Arguments*>(nullptr));
  }

  Grad fetch(Grad*, Gradients& in, uint64_t) { return Grad(in[0]); }
  template <int I> GradOf<I> fetch(GradOf<I>*, Gradients& in, uint64_t) { return GradOf<I>(in[I]); }
  Tensors fetch(Tensors*, Gradients& in, uint64_t) { return Tensors(in.begin(), in.end()); }
  template <int I> Input<I> fetch(Input<I>*, Gradients&, uint64_t) { return Input<I>(inputs_[slot(kNeed.inputs, I)].unpack(this)); }
  template <int I> Output<I> fetch(Output<I>*, Gradients&, uint64_t) { return Output<I>(outputs_[slot(kNeed.outputs, I)].unpack(this, I)); }
  template <int I> Shape<I> fetch(Shape<I>*, Gradients&, uint64_t) {
    const auto& s = shapes_[slot(kNeed.shapes, I)];
    return {s.sizes, s.dtype};
  }
  template <class T, int I> Argument<T, I> fetch(Argument<T, I>*, Gradients&, uint64_t) {
    return {T(argument_t<std::tuple_element_t<I, std::tuple<P...>>>::lend(std::get<I>(arguments_)))};
  }
  template <int I> Layout<I> fetch(Layout<I>*, Gradients&, uint64_t) {
    const auto& s = layouts_[slot(kNeed.layouts, I)];
    return {s.sizes, s.strides, s.offset, s.dtype};
  }
  InputList fetch(InputList*, Gradients&, uint64_t) {
    InputList all;
    for (auto& s : list_) all.push_back(s.unpack(this));
    return all;
  }
  ListSizes fetch(ListSizes*, Gradients&, uint64_t) { return list_sizes_; }
  Needs fetch(Needs*, Gradients&, uint64_t mask) { return {mask}; }

  template <class X> void keep_list(const Need& need, const X& x) {
    if constexpr (is_list<X>) {
      if constexpr (kNeed.list)
        if (need.list) {
          list_.resize(x.size());
          for (size_t i = 0; i < x.size(); ++i)
            if (x[i].defined()) list_[i].save(x[i], false, this);
        }
      if constexpr (kNeed.list_sizes)
        if (need.list_sizes)
          for (const Tensor& t : x) list_sizes_.push_back(t.defined() ? Dims(t.sizes()) : Dims());
    }
  }

  struct KeptShape {
    Dims sizes;
    DType dtype;
  };
  std::array<SavedTensor, __builtin_popcount(kNeed.inputs)> inputs_;
  std::array<SavedTensor, __builtin_popcount(kNeed.outputs)> outputs_;
  std::array<KeptShape, __builtin_popcount(kNeed.shapes)> shapes_;
  std::array<Layout<0>, __builtin_popcount(kNeed.layouts)> layouts_;
  [[no_unique_address]] std::conditional_t<kNeed.list, std::vector<SavedTensor>, Nothing> list_;
  [[no_unique_address]] std::conditional_t<kNeed.list_sizes, ListSizes, Unused> list_sizes_;
  [[no_unique_address]] std::conditional_t<kNeed.arguments, std::tuple<own_t<P>...>, Nothing> arguments_;
};

// --- Results -------------------------------------------------------------------------------------------------------------

template <class R> std::vector<Tensor> list_of(const R& r) {
  if constexpr (std::is_same_v<R, Tensor>) return {r};
  else if constexpr (std::is_same_v<R, Tensors>) return r;
  else return std::apply([](const auto&... t) { return Tensors{t...}; }, r);
}

/// The tensor that an argument is, optional ones included; null for all else.
template <class X> const Tensor* as_tensor(const X& x) {
  if constexpr (std::is_base_of_v<Tensor, X>) return &x;
  else return nullptr;
}

/// The results of a call as its forward returns them.
template <class R> R from_results(Results& r) {
  if constexpr (std::is_same_v<R, Tensor>) return std::move(r.one);
  else if constexpr (std::is_same_v<R, Tensors>) return std::move(r.many);
  else return [&]<size_t... I>(std::index_sequence<I...>) { return R{std::move(r.many[I])...}; }(std::make_index_sequence<std::tuple_size_v<R>>{});
}

template <class X> uint64_t wants_gradient(const X& x, int& number) {
  if constexpr (std::is_base_of_v<Tensor, X>) {
    // Tensors behind a long list have no bit of their own: they count, and Needs asks for all of them.
    const uint64_t bit = x.defined() && x.requires_grad() ? uint64_t{1} << std::min(number, 63) : 0;
    ++number;
    return bit;
  } else if constexpr (is_list<X>) {
    bool any = false;
    for (const Tensor& t : x) any |= t.defined() && t.requires_grad();
    number += static_cast<int>(x.size());
    return any ? 1 : 0;
  } else {
    return 0;
  }
}

/// A node with the edges of its arguments.
template <class N, class... P> Ref<Node> connected(const P&... arguments) {
  N* node = new N;
  Ref<Node> owner = Ref<Node>::steal(node);
  size_t e = 0;
  auto connect = [&]<class X>(const X& x) {
    if constexpr (std::is_base_of_v<Tensor, X>) {
      if constexpr (N::kList) node->edges_.emplace_back();
      if (x.defined() && x.requires_grad()) node->edges_[N::edge_of(e)] = gradient_edge(x);
      ++e;
    } else if constexpr (is_list<X>) {
      for (const Tensor& t : x) node->edges_.push_back(t.defined() && t.requires_grad() ? gradient_edge(t) : Edge{});
      e += x.size();
    }
  };
  (connect(arguments), ...);
  return owner;
}

/// Boxed calls, for transforms and bindings.
template <class Op, class R, class... P> void boxed(const Value* v, Results& results) {
  [&]<size_t... I>(std::index_sequence<I...>) {
    R r = DoorOf<Op, R, P...>::call(argument_t<P>::unbox(v[I])...);
    if constexpr (std::is_same_v<R, Tensor>) {
      results.one = std::move(r);
    } else {
      results.kind = std::is_same_v<R, Tensors> ? Results::Kind::List : Results::Kind::Tuple;
      results.many = list_of(r);
    }
  }(std::index_sequence_for<P...>{});
}

}  // namespace door

// Kept although it may be inlined into every use here: other units call it too.
template <class Op, class R, class... P> [[gnu::used]] R DoorOf<Op, R, P...>::call(P... arguments) {
  if constexpr (Op::composite) return Op::forward(arguments...);
  runtime::check_no_lock(Op::name);
  int number = 0;
  const uint64_t wanted = (uint64_t{0} | ... | door::wants_gradient<std::decay_t<P>>(arguments, number));
  bool tracked = thread_state.grad && wanted != 0 && Op::differentiable;
  if constexpr (Op::writes) {
    const Tensor& self = std::get<0>(std::tie(arguments...));
    // Integers take the values, and no history.
    tracked = tracked && is_differentiable(self.dtype());
    // A recorded write gives each of its elements a gradient, so that two at one address would count twice.
    check_writable(self, Op::name, tracked, Op::writes_one_value && !tracked);
  }
  // A write changes what its inputs are: their edges are taken before it.
  Ref<Node> owner;
  if constexpr (Op::writes && Op::differentiable && door::HasRules<Op>)
    if (tracked) {
      owner = door::connected<door::OperatorNode<Op, R, P...>>(arguments...);
      if (Edge& e = owner->edges()[0]; e) e = edge_before_write(std::get<0>(std::tie(arguments...)));
    }
  bool was_supplied = false;
  R result = [&] {
    Below below;
    if constexpr (!Op::writes && !Op::view)
      if (below.interpreter) [[unlikely]] {
        const void* given[] = {&arguments..., nullptr};
        Results r;
        if ((was_supplied = supplied(below.interpreter, *row_of<Op>, given, r))) return door::from_results<R>(r);
      }
    if constexpr (Op::writes) return write(std::get<0>(std::tie(arguments...)), Op::name, [&] { return Op::forward(arguments...); });
    else return Op::forward(arguments...);
  }();
  std::conditional_t<std::is_same_v<R, Tensor> || std::is_same_v<R, Tensors>, Nothing, Tensors> listed;
  std::span<const Tensor> results;
  if constexpr (std::is_same_v<R, Tensor>) results = {&result, 1};
  else if constexpr (std::is_same_v<R, Tensors>) results = result;
  else results = listed = door::list_of(result);
  if constexpr (!Op::writes && !Op::view)
    if (thread_state.interpreter && !was_supplied) [[unlikely]] tell_computed(*row_of<Op>, results);
  if constexpr (Op::view)
    for (const Tensor& t : results) register_view(std::get<0>(std::tie(arguments...)), t, std::is_same_v<R, Tensors>);
  if (!tracked) return result;
  if constexpr (Op::differentiable && door::HasRules<Op>) {
    using N = door::OperatorNode<Op, R, P...>;
    // An input given back as it is (contiguous() of a row-major tensor) has its history already.
    if constexpr (!Op::writes && std::is_same_v<R, Tensor>) {
      const Tensor* inputs[] = {door::as_tensor(arguments)...};
      for (const Tensor* t : inputs)
        if (t && t->get() == result.get()) return result;
    }
    bool any = false;
    for (const Tensor& t : results) any |= is_differentiable(t.dtype());
    if (!any) return result;
    if (results.size() > 0xffff)
      fail(Op::name, "(): ", results.size(), " results of one recorded call are more than the 65535 that a node can have");
    if (!owner) owner = door::connected<N>(arguments...);
    N* node = static_cast<N*>(owner.get());
    node->set_results(static_cast<uint16_t>(results.size()));
    const Tensor* parameters[] = {door::as_tensor(arguments)..., nullptr};
    node->keep(wanted, {parameters, sizeof...(P)}, results, arguments...);
    for (uint32_t i = 0; i < results.size(); ++i) {
      node->set_result(i, results[i]);
      if (!is_differentiable(results[i].dtype())) continue;
      if constexpr (Op::writes) write_history(result, owner, i, 2);  // held by the program, and here
      else set_history(results[i], owner, i);
    }
  } else if constexpr (Op::differentiable) {
    fail<NotImplemented>("the derivative of '", Op::name, "' is not implemented");
  }
  return result;
}

}  // namespace adjoint
