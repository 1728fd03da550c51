// The node of structured operators: it keeps what the rules of one call need, and runs them.
//
// One class serves all operators. What it must know of one is a constant, a `RuleTable`, which
// dispatch/derived.h derives from the types of the operator's parameters and rules. A rule says by its types
// what it takes; kept is what the rules take of those parameters that need a gradient, and nothing else. The
// node lies in one block with all that it keeps:
//
//     RuleNode | edges | saved tensors (inputs, results, list) | shapes | layouts | sizes of the list | other
//     arguments
//
// each part as long as this call needs it. Everything is numbered by the parameters of `forward`, from 0; the
// edges alone by tensors, where a list counts as many as it has. Start reading at `RuleTable`.
#pragma once

#include <bit>
#include <new>
#include <span>

#include "autograd/saved.h"
#include "ops/contract/arguments.h"
#include "ops/contract/op.h"

namespace adjoint {

class RuleNode;
struct Operator;

/// What a rule takes: bits by the numbers of parameters, and of results.
struct Need {
  uint16_t inputs = 0, outputs = 0, shapes = 0, layouts = 0;
  bool arguments = false, list = false, list_sizes = false;
  /// The results whose gradient it takes; those from 15 on share a bit.
  uint16_t gradients = 0;
  constexpr Need operator|(const Need& o) const {
    return {uint16_t(inputs | o.inputs),   uint16_t(outputs | o.outputs),    uint16_t(shapes | o.shapes),
            uint16_t(layouts | o.layouts), arguments || o.arguments,         list || o.list,
            list_sizes || o.list_sizes,    uint16_t(gradients | o.gradients)};
  }
};

/// What a node keeps, and how many of each.
struct Kept {
  uint16_t inputs, outputs, shapes, layouts;
  uint8_t input_count, output_count, shape_count, layout_count;
  bool list, list_sizes;
  explicit Kept(const Need& n)
      : inputs(n.inputs),
        outputs(n.outputs),
        shapes(n.shapes),
        layouts(n.layouts),
        input_count(count(inputs)),
        output_count(count(outputs)),
        shape_count(count(shapes)),
        layout_count(count(layouts)),
        list(n.list),
        list_sizes(n.list_sizes) {}

 private:
  static uint8_t count(uint16_t mask) { return static_cast<uint8_t>(mask ? std::popcount(mask) : 0); }
};

/// How the arguments that are no tensors are kept: a tuple of which the node knows only this.
struct RuleTable;
struct OwnedArguments {
  size_t bytes;
  /// Copy the arguments that are no tensors to `owned`.
  void (*own)(const RuleTable& table, void* owned, const Value* arguments);
  /// Box them, each with its kind; those that are not kept have none.
  void (*box)(const void* owned, Value* values, const ArgKind** kinds);
  void (*destroy)(void* owned) noexcept;
};

/// All that the node knows of an operator.
struct RuleTable {
  const char* name;
  const char* signature;
  int parameters;
  /// Which of them are tensors, which one is a list of tensors (-1: none), and which have a rule.
  uint16_t tensors;
  int list;
  uint16_t ruled;
  KeepsHistory gradient_keeps_history;
  bool edges_from_last;
  /// What the rule of each parameter takes, and all of them together.
  const Need* needs;
  Need all;
  const OwnedArguments* owned;
  /// The name to be recorded by, where it depends on the arguments; null else.
  const char* (*recorded_as)(const void* owned);
  /// The gradient of one parameter; or, where one rule makes all (null else), those of the tensors in
  /// `wanted`, in order.
  Tensor (*rule)(RuleNode& node, int parameter, Gradients& in);
  Tensors (*joint)(RuleNode& node, uint32_t wanted, Gradients& in);
  bool ordered = false;
  /// Of rules that are of first order only (FirstOrder): the row, whose composition stands for them. Null
  /// else.
  const Operator* const* composition = nullptr;
  /// Only where tangents are carried does it, as the rules can be recorded (HigherOrder).
  bool higher_order = false;
};

class RuleNode final : public Node {
 public:
  /// The node of a call with these arguments; in `wanted` are those that need a gradient.
  static Ref<Node> make(const RuleTable& table, const Value* arguments, uint32_t wanted);
  /// Keep what the rules take.
  void keep(const Value* arguments, std::span<const Tensor> results);

  std::string name() const override;
  std::span<Edge> edges() override { return {reinterpret_cast<Edge*>(this + 1), edges_}; }
  void apply(Gradients& in, Gradients& out) override;
  void release() override;
  std::vector<SavedValue> saved() override;
  bool ordered() const override { return table_.ordered; }
  /// The edge of tensor number i among the arguments, those of a list counted.
  size_t edge_of_tensor(size_t i) const { return table_.edges_from_last ? edges_ - 1 - i : i; }

  // What rules take. Tensors that were not kept, since no parameter that needs them needs a gradient, are
  // undefined.
  Tensor input(int parameter);
  Tensor output(int result);
  const ShapeOfInput& shape(int parameter) { return parts().shapes[before(need_.shapes, parameter)]; }
  const LayoutOfInput& layout(int parameter) { return parts().layouts[before(need_.layouts, parameter)]; }
  InputList list();
  ListSizes list_sizes();
  const void* owned() { return parts().owned; }
  const RuleTable& table() const { return table_; }

  /// The block is longer than the class.
  static void operator delete(RuleNode* node, std::destroying_delete_t) noexcept;

  /// The first edge of a parameter.
  size_t edge_of(int parameter) const;

 private:
  /// Where in the block things are.
  struct Parts {
    std::span<Edge> edges;
    std::span<SavedTensor> inputs, outputs, list;
    std::span<ShapeOfInput> shapes;
    std::span<LayoutOfInput> layouts;
    std::span<Dims> list_sizes;
    void* owned;
    size_t bytes;
    std::span<SavedTensor> all_saved() const {
      return {inputs.data(), inputs.size() + outputs.size() + list.size()};
    }
  };
  RuleNode(const RuleTable& table, const Kept& need, uint32_t edges, uint32_t list)
      : table_(table), need_(need), edges_(edges), list_(list) {}
  static Parts parts_of(uintptr_t block, const RuleTable& table, const Kept& need, size_t edges, size_t list);
  Parts parts() const { return parts_of(reinterpret_cast<uintptr_t>(this), table_, need_, edges_, list_); }
  /// How many of the bits in a mask stand before number i.
  static int before(uint32_t mask, int i) { return std::popcount(mask & ((1u << i) - 1)); }
  uint64_t read_by(int parameter) const;
  /// The gradients of the tensors in `wanted`, in order, by what the row is composed of.
  Tensors composed_gradients(uint32_t wanted, const Gradients& in);

  const RuleTable& table_;
  const Kept need_;
  const uint32_t edges_, list_;
};

/// (Inlined: of what is not looked at, the place is not computed.)
[[gnu::always_inline]] inline RuleNode::Parts RuleNode::parts_of(uintptr_t block, const RuleTable& table,
                                                                 const Kept& need, size_t edges,
                                                                 size_t list) {
  uintptr_t at = block + sizeof(RuleNode);
  const auto take = [&]<class T>(std::span<T>& part, size_t n) {
    static_assert(sizeof(T) % 8 == 0 && alignof(T) <= 8);
    part = {reinterpret_cast<T*>(at), n};
    at += n * sizeof(T);
  };
  Parts p;
  take(p.edges, edges);
  take(p.inputs, need.input_count);
  take(p.outputs, need.output_count);
  take(p.list, need.list ? list : 0);
  take(p.shapes, need.shape_count);
  take(p.layouts, need.layout_count);
  take(p.list_sizes, need.list_sizes ? list : 0);
  p.owned = reinterpret_cast<void*>(at);
  p.bytes = at - block + (table.all.arguments ? table.owned->bytes : 0);
  return p;
}

/// Record a structured call that was computed. `owner` is its node where that had to be made before: of a
/// call that wrote its first argument, which is `written` then.
void record(const RuleTable& table, uint32_t wanted, const Value* arguments, std::span<const Tensor> results,
            Ref<Node> owner, Tensor* written);

/// The node of a call that is about to write its first argument: what edges it has, is decided before that.
Ref<Node> node_before_write(const RuleTable& table, const Value* arguments, uint32_t wanted);

}  // namespace adjoint
