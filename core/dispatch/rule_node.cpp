#include "dispatch/rule_node.h"

#include <algorithm>

#include "autograd/arguments.h"
#include "autograd/arithmetic.h"
#include "autograd/views.h"
#include "dispatch/operator.h"
#include "dispatch/signature.h"
#include "runtime/allocator.h"

namespace adjoint {

namespace {

/// The numbers in a mask, in order.
template <class F>
void each_of(uint32_t mask, F&& f) {
  for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
}
/// Of the few that are set: std::popcount is a call where processors of old have no instruction for it.
size_t count(uint32_t mask) {
  size_t n = 0;
  for (; mask; mask &= mask - 1) ++n;
  return n;
}
size_t count_before(uint32_t mask, int i) { return count(mask & ((1u << i) - 1)); }

const Tensor absent;

const Tensor& tensor_at(const Value* arguments, int parameter) {
  return arguments[parameter].present ? *arguments[parameter].tensor : absent;
}
TensorList list_at(const Value* arguments, int parameter) {
  return arguments[parameter].present ? arguments[parameter].tensors() : TensorList();
}

Edge edge_to(const Tensor& t) { return t.defined() && t.requires_grad() ? gradient_edge(t) : Edge(); }

std::string argument_name(std::string_view signature, int i) {
  std::string name;
  each_parameter(signature, [&](const ParameterText& p) {
    if (i-- == 0) name = p.name();
  });
  return name;
}

}  // namespace

// --- The block ------------------------------------------------------------------------------------

[[gnu::hot]] Ref<Node> RuleNode::make(const RuleTable& table, const Value* arguments, uint32_t wanted) {
  Need all;
  each_of(wanted, [&](int p) { all = all | table.needs[p]; });
  const Kept need(all);
  const size_t list = table.list < 0 ? 0 : list_at(arguments, table.list).size();
  const size_t edges = count(table.tensors) + list;
  void* block = runtime::allocate(parts_of(0, table, need, edges, list).bytes);
  auto* node = ::new (block) RuleNode(table, need, static_cast<uint32_t>(edges), static_cast<uint32_t>(list));
  const Parts parts = node->parts();
  const auto begin = [](auto part) { std::uninitialized_default_construct(part.begin(), part.end()); };
  begin(parts.edges);
  begin(parts.all_saved());
  begin(parts.shapes);
  begin(parts.layouts);
  begin(parts.list_sizes);
  if (table.all.arguments) table.owned->own(table, parts.owned, arguments);
  Ref<Node> owner = Ref<Node>::steal(node);  // from here on it is whole, and edges may be refused
  each_of(table.tensors, [&](int p) { parts.edges[node->edge_of(p)] = edge_to(tensor_at(arguments, p)); });
  for (size_t i = 0; i < list; ++i)
    parts.edges[node->edge_of(table.list) + i] = edge_to(list_at(arguments, table.list)[i]);
  return owner;
}

void RuleNode::operator delete(RuleNode* node, std::destroying_delete_t) noexcept {
  const Parts parts = node->parts();
  if (node->table_.all.arguments) node->table_.owned->destroy(parts.owned);
  std::ranges::destroy(parts.list_sizes);
  std::ranges::destroy(parts.layouts);
  std::ranges::destroy(parts.shapes);
  std::ranges::destroy(parts.all_saved());
  std::ranges::destroy(parts.edges);
  node->~RuleNode();
  runtime::deallocate(node, parts.bytes);
}

size_t RuleNode::edge_of(int parameter) const {
  const size_t number =
      count_before(table_.tensors, parameter) + (table_.list >= 0 && parameter > table_.list ? list_ : 0);
  return table_.edges_from_last ? edges_ - 1 - number : number;
}

// --- Keeping --------------------------------------------------------------------------------------

[[gnu::hot]] void RuleNode::keep(const Value* arguments, std::span<const Tensor> results) {
  const Parts parts = this->parts();
  bool any = false;
  const auto save = [&](SavedTensor& to, const Tensor& t, bool is_result) {
    if (!t.defined()) return;
    to.save(t, is_result, this);
    any = true;
  };
  size_t i = 0;
  each_of(need_.inputs, [&](int p) { save(parts.inputs[i++], tensor_at(arguments, p), false); });
  i = 0;
  each_of(need_.outputs, [&](int o) { save(parts.outputs[i++], results[static_cast<size_t>(o)], true); });
  for (i = 0; i < parts.list.size(); ++i) save(parts.list[i], list_at(arguments, table_.list)[i], false);
  i = 0;
  each_of(need_.shapes, [&](int p) {
    if (const Tensor& t = tensor_at(arguments, p); t.defined())
      parts.shapes[i] = {Dims(t.sizes()), t.dtype()};
    ++i;
  });
  i = 0;
  each_of(need_.layouts, [&](int p) {
    if (const Tensor& t = tensor_at(arguments, p); t.defined())
      parts.layouts[i] = {Dims(t.sizes()), Dims(t.strides()), t.offset(), t.dtype()};
    ++i;
  });
  for (i = 0; i < parts.list_sizes.size(); ++i)
    if (const Tensor& t = list_at(arguments, table_.list)[i]; t.defined())
      parts.list_sizes[i] = Dims(t.sizes());
  if (any) saves_something();
}

void RuleNode::release() {
  for (SavedTensor& s : parts().all_saved()) s.release();
}

Tensor RuleNode::input(int parameter) {
  if (!(need_.inputs >> parameter & 1)) return {};
  return parts().inputs[count_before(need_.inputs, parameter)].unpack(this);
}
Tensor RuleNode::output(int result) {
  if (!(need_.outputs >> result & 1)) return {};
  return parts().outputs[count_before(need_.outputs, result)].unpack(this, static_cast<uint32_t>(result));
}
InputList RuleNode::list() {
  InputList all;
  for (SavedTensor& s : parts().list) all.push_back(s.unpack(this));
  return all;
}
ListSizes RuleNode::list_sizes() {
  ListSizes all;
  for (const Dims& d : parts().list_sizes) all.push_back(d);
  return all;
}

// --- Running --------------------------------------------------------------------------------------

std::string RuleNode::name() const {
  return backward_name(table_.recorded_as ? table_.recorded_as(parts().owned) : table_.name);
}

[[gnu::hot]] void RuleNode::apply(Gradients& in, Gradients& out) {
  const std::span<Edge> edges = this->edges();
  uint32_t wanted = 0;
  each_of(table_.tensors, [&](int p) { wanted |= uint32_t{bool(edges[edge_of(p)])} << p; });
  if (table_.list >= 0)
    wanted |= uint32_t{std::ranges::any_of(edges.subspan(edge_of(table_.list), list_), &Edge::operator bool)}
              << table_.list;
  if (const uint32_t missing = wanted & ~table_.ruled)
    fail<NotImplemented>("the derivative of '", table_.name, "' with respect to argument '",
                         argument_name(table_.signature, std::countr_zero(missing)), "' is not implemented");
  const uint64_t since = thread_state.sequence;
  const bool composed =
      table_.composition && recording() && (thread_state.dual_level || !table_.higher_order);
  if (composed || table_.joint) {
    Tensors gradients = composed ? Tensors() : table_.joint(*this, wanted, in);
    if (gradients.empty() && table_.composition) gradients = composed_gradients(wanted, in);
    for (size_t i = 0; i < gradients.size() && i < out.size(); ++i) out[i] = std::move(gradients[i]);
  } else {
    each_of(wanted, [&](int p) { out[edge_of(p)] = table_.rule(*this, p, in); });
  }
  if (!thread_state.grad) [[likely]]
    return;
  each_of(wanted, [&](int p) {
    const size_t first = edge_of(p), n = p == table_.list ? list_ : 1;
    for (size_t e = first; e < first + n; ++e)
      if (edges[e] && out[e].defined() &&
          (table_.gradient_keeps_history == KeepsHistory::Always || !out[e].requires_grad()))
        keep_history(out[e], in, *this, since, read_by(p));
  });
}

Tensors RuleNode::composed_gradients(uint32_t wanted, const Gradients& in) {
  const Operator& row = **table_.composition;
  Value values[kMostArguments];
  const ArgKind* kinds[kMostArguments];
  if (table_.all.arguments) table_.owned->box(parts().owned, values, kinds);
  // Of what was not kept any value will do. It has the shape that its gradient is to have; the first input,
  // which is never left out, that of the result.
  const auto stand_in = [&](int p) {
    const Edge& edge = edges()[edge_of(p)];
    if (!edge && p) return Tensor();
    const ResultInfo& like = edge ? edge.node->result(edge.input_nr) : result(0);
    return zeros(like.sizes(), like.dtype());
  };
  Tensors tensors;
  uint32_t varied = 0;
  each_of(table_.tensors, [&](int p) {
    varied |= (wanted >> p & 1) << tensors.size();
    Tensor t = input(p);
    tensors.push_back(t.defined() ? std::move(t) : stand_in(p));
  });
  return pull_back(tensors, varied, {in.begin(), in.size()}, [&](const Tensors& own) {
    size_t i = 0;
    each_of(table_.tensors, [&](int p) {
      values[p].present = own[i].defined();
      values[p].tensor = &own[i++];
    });
    Results r;
    row.composed(row, values, r);
    return Tensors(r.all().begin(), r.all().end());
  });
}

/// The edges of the tensors in which the rule of a parameter is not linear: those that it takes; all, where
/// it takes a result.
uint64_t RuleNode::read_by(int parameter) const {
  const Need& need = table_.needs[parameter];
  if (table_.gradient_keeps_history != KeepsHistory::No || need.outputs || need.list) return ~uint64_t{0};
  uint64_t mask = 0;
  each_of(need.inputs, [&](int p) { mask |= uint64_t{1} << (edge_of(p) & 63); });
  return mask;
}

std::vector<SavedValue> RuleNode::saved() {
  const Parts parts = this->parts();
  std::vector<SavedValue> v;
  each_of(table_.all.inputs, [&](int p) {
    SavedTensor* s = need_.inputs >> p & 1 ? &parts.inputs[count_before(need_.inputs, p)] : nullptr;
    v.push_back(
        {.name = argument_name(table_.signature, p), .slot = s && s->saved() ? s : nullptr, .text = "None"});
  });
  each_of(need_.outputs, [&](int o) {
    SavedTensor& s = parts.outputs[count_before(need_.outputs, o)];
    if (s.saved())
      v.push_back({.name = o ? "result" + std::to_string(o) : "result",
                   .slot = &s,
                   .output_nr = static_cast<uint32_t>(o)});
  });
  if (table_.all.arguments) {
    Value values[kMostArguments];
    const ArgKind* kinds[kMostArguments] = {};
    table_.owned->box(parts.owned, values, kinds);
    for (int p = 0; p < table_.parameters; ++p)
      if (kinds[p])
        v.push_back({.name = argument_name(table_.signature, p), .text = describe(*kinds[p], values[p])});
  }
  return v;
}

// --- Recording ------------------------------------------------------------------------------------

Ref<Node> node_before_write(const RuleTable& table, const Value* arguments, uint32_t wanted) {
  Ref<Node> owner = RuleNode::make(table, arguments, wanted);
  if (Edge& e = owner->edges()[0]; e) e = edge_before_write(tensor_at(arguments, 0));
  return owner;
}

[[gnu::hot]] void record(const RuleTable& table, uint32_t wanted, const Value* arguments,
                         std::span<const Tensor> results, Ref<Node> owner, Tensor* written) {
  // An input given back as it is (contiguous() of a row-major tensor) has its history already.
  if (!written && results.size() == 1) {
    bool given_back = false;
    each_of(table.tensors, [&](int p) { given_back |= tensor_at(arguments, p).get() == results[0].get(); });
    if (given_back) return;
  }
  if (std::ranges::none_of(results,
                           [](const Tensor& t) { return t.defined() && is_differentiable(t.dtype()); }))
    return;
  if (results.size() > 0xffff)
    fail(table.name, "(): ", results.size(),
         " results of one recorded call are more than the 65535 that a node can have");
  if (!owner) owner = RuleNode::make(table, arguments, wanted);
  auto* node = static_cast<RuleNode*>(owner.get());
  node->set_results(static_cast<uint16_t>(results.size()));
  node->keep(arguments, results);
  for (uint32_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) continue;
    node->set_result(i, results[i]);
    // No rule takes its gradient: it is a constant, like the factors beside a determinant.
    if (!is_differentiable(results[i].dtype()) || !(table.all.gradients >> std::min(i, 15u) & 1)) continue;
    if (written)
      write_history(*written, owner, i);
    else
      set_history(results[i], owner, i);
  }
}

}  // namespace adjoint
