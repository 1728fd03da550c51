// Operators that are declared while the program runs: rows of the table like the others, whose parts are
// functions of another language.
//
// A family's operator says by C++ types what its arguments are and what its rules take. A declared one says
// the same by values, a `Declaration`; what is computed, its derivative and its rules for transforms are
// virtual functions. Its calls pass the same door as families', and its node is the same `RuleNode`. Rows are
// never destroyed, like all others. Start reading at `DeclaredOperator`; who declares is bind/primitive.cpp.
#pragma once

#include <deque>

#include "dispatch/operator.h"
#include "dispatch/rule_node.h"

namespace adjoint {

/// What a declared operator is, but for its functions.
struct Declaration {
  std::string name, doc, family, order, samples;
  std::vector<const ArgKind*> kinds;
  TypeSet types = 0;
  /// How many results it has: 0 for a list of them.
  size_t results = 1;
  bool several = false;
  uint32_t linear_terms = 0, linear_factors = 0;
  /// The parameters whose gradient has a rule, as bits, and what each of these rules takes. `joint`: one rule
  /// makes all.
  uint16_t ruled = 0;
  bool joint = false;
  std::vector<Need> needs;
  /// Whether it states rules of its own for forward mode and for batches; `leading`: it takes a batch in
  /// front.
  bool has_jvp = false, has_batch = false, leading = false;
  /// Whether its calls have effects that others see in their order, as messages between processes.
  bool ordered = false;
  /// Whether its function is known to do nothing but compute from its arguments; of others that is asked.
  bool pure = false;
};

/// What its node keeps of the arguments that are no tensors.
struct KeptArguments {
  const Operator* op;
  std::vector<Value> values;
  std::deque<Dims> ints;
  std::deque<std::vector<double>> floats;
  std::deque<std::string> texts;

  KeptArguments(const Operator& op, const Value* arguments);
};

class DeclaredOperator : public Operator {
 public:
  explicit DeclaredOperator(Declaration declaration);
  DeclaredOperator(const DeclaredOperator&) = delete;
  virtual ~DeclaredOperator() = default;

  /// The results. Nothing is recorded, and transforms are out of sight.
  virtual void forward(std::span<const Value> arguments, Results& results) const = 0;
  /// The gradient of one parameter, or those of all tensors in order, of which `wanted` are asked for.
  virtual Tensor vjp(RuleNode& node, int parameter, Gradients& in) const = 0;
  virtual Tensors joint_vjp(RuleNode& node, uint32_t wanted, Gradients& in) const = 0;
  virtual Tensors jvp(const DualCall& call) const = 0;
  virtual void compute_batch(BatchedCall& call) const = 0;
  /// Why its function, as it is now, may do more than compute from its arguments; empty where it does not.
  virtual std::string impure() const = 0;

  const Declaration declaration;
  /// The arguments that the node of a call keeps.
  static const std::vector<Value>& kept(RuleNode& node) {
    return static_cast<const KeptArguments*>(node.owned())->values;
  }

  /// Whose call a node is of; null of other rows.
  static const DeclaredOperator* of(const RuleNode& node) {
    return node.table().owned == &kKept ? &of(node.table()) : nullptr;
  }

 private:
  /// A table that leads back to the row.
  struct Table : RuleTable {
    const DeclaredOperator* row;
  };
  Table table_{};

  static const DeclaredOperator& of(const RuleTable& table) { return *static_cast<const Table&>(table).row; }
  static void keep(const RuleTable& table, void* owned, const Value* arguments);
  static Tensor run_rule(RuleNode& node, int parameter, Gradients& in);
  static Tensors run_joint(RuleNode& node, uint32_t wanted, Gradients& in);
  static const OwnedArguments kKept;
};

/// Null unless it is declared by a program, whose function may be another at each call.
inline const DeclaredOperator* of_program(const Operator& op) {
  if (!op.declared) return nullptr;
  const auto& declared = static_cast<const DeclaredOperator&>(op);
  return declared.declaration.pure ? nullptr : &declared;
}

}  // namespace adjoint
