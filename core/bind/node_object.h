// Nodes of the graph as Python objects.
#pragma once

#include <Python.h>

#include "autograd/node.h"

namespace adjoint::bind {

PyObject* wrap_node(Ref<Node> node);
bool add_node_type(PyObject* module);
/// The node of an object that is one, else null.
Node* as_node(PyObject* o);

}  // namespace adjoint::bind
