// Nodes of the graph as Python objects.
#pragma once

#include <Python.h>

#include "autograd/saved.h"

namespace adjoint::bind {

/// The head of every object that is a node. The context of a Function is one, and has more.
struct NodeObject {
  PyObject_HEAD Node* node;
};
extern PyTypeObject* node_type;

PyObject* wrap_node(Ref<Node> node);
/// The object of a Function's node: its context.
PyObject* wrap_context(Ref<Node> node);
/// The node of a context that has none so far.
Node* make_context_node(PyObject* context);
bool add_node_type(PyObject* module);
/// A tensor as a node keeps it, an object whose hooks may be set.
PyObject* raw_saved(Node& node, SavedTensor* slot);
/// Function and its context (function.cpp).
bool add_function_types(PyObject* module);
/// The node of an object that is one, else null.
Node* as_node(PyObject* o);

/// For the collector: the hooks of a node that Python set.
int visit_hooks(const Node& node, visitproc visit, void* arg);
void clear_hooks(Node& node);
/// The function of a hook that Python set; null for others, and once it was removed.
std::shared_ptr<PyObject> function_of(const GradientHook& hook);

/// A Python object that C++ threads may hold and drop.
std::shared_ptr<PyObject> hold(PyObject* o);
/// The object that a pair of Python functions makes of a saved tensor.
std::unique_ptr<SavedHooks> python_saved_hooks(PyObject* pack, PyObject* unpack);

}  // namespace adjoint::bind
