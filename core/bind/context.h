// The context of a Function written in Python, which is its node's Python object, and that node.
//
// While Python holds the context, that owns the node; when only the graph is left, the node owns the context
// (`FunctionNode::owns_`), as tensors do with their objects: so neither is lost while somebody can see it,
// and there is no cycle. Saved tensors lie in the node as those of any other node do.
//
// See Note: identity of tensors.
#pragma once

#include <string_view>

#include "autograd/arithmetic.h"
#include "bind/caster.h"
#include "bind/node_object.h"
#include "runtime/small_vector.h"

namespace adjoint::bind {

class FunctionNode;

/// What forward and backward of a Function share.
struct Context {
  NodeObject head;  // the node is null where none was recorded, until somebody asks for it
  PyObject* dict;
  PyObject* weakrefs;
  PyObject* function;  // the class
  PyObject* to_save;
  PyObject* for_forward;  // what jvp finds in saved_tensors; null: what backward finds
  PyObject* dirty;
  PyObject* non_differentiable;
  PyObject* needs;  // needs_input_grad
  bool materialize;
  bool materialize_all;  // for results marked as not differentiable too
};
/// The class that contexts of every Function are of, and below it that of those which `apply` makes.
extern PyTypeObject* context_type;
extern PyTypeObject* backward_type;

inline Context* context_of(PyObject* o) { return reinterpret_cast<Context*>(o); }

/// Names that are looked up, and the empty tuple.
struct Names {
  PyObject *forward, *backward, *jvp, *setup_context, *name, *backward_class, *empty;
};
extern Names names;

[[noreturn]] inline void python_failed() { throw nanobind::python_error(); }
/// A new reference, or the error that Python set.
inline nanobind::object checked(PyObject* o) {
  if (!o) python_failed();
  return nanobind::steal(o);
}

/// The node of one call of a Function.
class FunctionNode final : public Node {
 public:
  /// A node that its context owns, by the count that it starts with.
  explicit FunctionNode(PyObject* context) : context_(context) { context_of(context)->head.node = this; }
  ~FunctionNode() override {
    if (!owns_) return;
    if (!python_is_there()) {
      context_of(context_)->head.node = nullptr;  // nobody looks
      return;
    }
    const Locked python;
    context_of(context_)->head.node = nullptr;
    Py_DECREF(context_);
  }
  std::string name() const override {
    const std::string_view type = Py_TYPE(context_)->tp_name;
    return std::string(type.substr(type.rfind('.') + 1));
  }
  std::span<Edge> edges() override { return edges_; }
  void* object() override { return context_; }
  bool wants_undefined() const override { return true; }
  void release() override {
    for (SavedTensor& s : saved_) s.release();
    released_ = true;
  }
  std::vector<SavedValue> saved() override {
    std::vector<SavedValue> v;
    for (size_t i = 0; i < saved_.size(); ++i)
      v.push_back({.name = std::to_string(i), .slot = &saved_[i], .output_nr = output_nrs_[i]});
    return v;
  }
  void apply(Gradients& in, Gradients& out) override;

  nanobind::object unpack() {
    if (released_) refuse_released();
    PyObject* t = PyTuple_New(static_cast<Py_ssize_t>(saved_.size()));
    nanobind::object owner = nanobind::steal(t);
    for (size_t i = 0; i < saved_.size(); ++i)
      PyTuple_SET_ITEM(t, static_cast<Py_ssize_t>(i), wrap(saved_[i].unpack(this, output_nrs_[i], true)));
    return owner;
  }

  using Flags = runtime::SmallVector<bool, 8>;
  std::vector<Edge> edges_;  // one per tensor argument
  Flags is_tensor_;          // per argument
  std::vector<SavedTensor> saved_;
  runtime::SmallVector<uint32_t, 4> output_nrs_;
  Flags tensor_result_;
  Flags marked_;  // results marked as not differentiable
  /// Whether forward has run, and what it saved is here.
  bool recorded_ = false;
  /// The context, and whether the node owns it: else that owns the node.
  PyObject* context_;
  bool owns_ = false;

 private:
  bool released_ = false;
};

inline FunctionNode* node_of(PyObject* o) { return static_cast<FunctionNode*>(context_of(o)->head.node); }

/// Whether any argument of a Function has a tangent.
bool any_dual(PyObject* const* args, Py_ssize_t nargs);
/// Give the results of a Function the tangents that its jvp finds from those of its arguments
/// (function_tangents.cpp).
void find_tangents(PyObject* context, PyObject* const* args, Py_ssize_t nargs,
                   const std::vector<Tensors>& before, PyObject* results, bool single);
/// What `find_tangents` needs of the arguments as they were before forward, which may write them: their
/// tangents, level by level.
std::vector<Tensors> tangents_before(PyObject* const* args, Py_ssize_t nargs);

/// Make the types of contexts and put them into the module; what makes the class of one Function's too.
bool add_context_types(PyObject* module);

}  // namespace adjoint::bind
