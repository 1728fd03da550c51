// Nodes of the graph as Python objects.
#pragma once

#include <Python.h>

#include "autograd/saved.h"

namespace adjoint::bind {

PyObject* wrap_node(Ref<Node> node);
bool add_node_type(PyObject* module);
/// Function and its context (function.cpp).
bool add_function_types(PyObject* module);
/// The node of an object that is one, else null.
Node* as_node(PyObject* o);

/// For the collector: the hooks of a node that Python set, and the context of a Function.
int visit_hooks(const Node& node, visitproc visit, void* arg);
void clear_hooks(Node& node);

/// A Python object that C++ threads may hold and drop.
std::shared_ptr<PyObject> hold(PyObject* o);
/// The object that a pair of Python functions makes of a saved tensor.
std::unique_ptr<SavedHooks> python_saved_hooks(PyObject* pack, PyObject* unpack);

}  // namespace adjoint::bind
