#include "bind/node_object.h"

#include <mutex>
#include <unordered_map>

#include "bind/convert.h"
#include "bind/object.h"

namespace adjoint::bind {

namespace {

struct NodeObject {
  PyObject_HEAD
  Node* node;
};
PyTypeObject* node_type = nullptr;
// The objects that are alive, so that a node seen twice is one object.
std::unordered_map<Node*, PyObject*> alive;
std::mutex alive_mutex;

Node& of(PyObject* o) { return *reinterpret_cast<NodeObject*>(o)->node; }

void node_dealloc(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  {
    std::lock_guard lock(alive_mutex);
    alive.erase(&of(o));
  }
  release_count(&of(o));
  type->tp_free(o);
  Py_DECREF(type);
}
PyObject* node_repr(PyObject* o) { return PyUnicode_FromFormat("<%s object at %p>", of(o).name().c_str(), &of(o)); }
PyObject* node_name(PyObject* o, PyObject*) { return PyUnicode_FromString(of(o).name().c_str()); }
Py_hash_t node_hash(PyObject* o) { return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(&of(o)) >> 4); }
PyObject* node_compare(PyObject* a, PyObject* b, int how) {
  if (Py_TYPE(b) != node_type || (how != Py_EQ && how != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((&of(a) == &of(b)) == (how == Py_EQ));
}
PyObject* node_next(PyObject* o, void*) {
  const auto edges = of(o).edges();
  PyObject* t = PyTuple_New(static_cast<Py_ssize_t>(edges.size()));
  for (size_t i = 0; t && i < edges.size(); ++i) {
    PyObject* n = edges[i] ? wrap_node(edges[i].node) : Py_NewRef(Py_None);
    PyTuple_SET_ITEM(t, static_cast<Py_ssize_t>(i), Py_BuildValue("(NI)", n, edges[i].input_nr));
  }
  return t;
}
PyObject* node_sequence(PyObject* o, void*) { return PyLong_FromUnsignedLongLong(of(o).sequence); }

// The value that a text stands for: a number, a bool, None or a tuple of them; else the text itself.
PyObject* value_of(const std::string& text) {
  PyObject* scope = PyDict_New();
  PyObject* v = scope ? PyRun_String(text.c_str(), Py_eval_input, scope, scope) : nullptr;
  Py_XDECREF(scope);
  if (v) return v;
  PyErr_Clear();
  return PyUnicode_FromString(text.c_str());
}

// Saved values are attributes: _saved_self, _saved_result; an accumulator's leaf is `variable`.
PyObject* node_getattr(PyObject* o, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) return nullptr;
  const bool saved = std::strncmp(text, "_saved_", 7) == 0;
  if (saved || std::strcmp(text, "variable") == 0) {
    try {
      Reading reading(of(o), Reading::Look);
      for (SavedValue& v : of(o).saved())
        if (v.name == (saved ? text + 7 : text)) return v.tensor.defined() ? wrap(std::move(v.tensor)) : value_of(v.text);
    } catch (...) {
      return raise();
    }
  }
  return PyObject_GenericGetAttr(o, name);
}
PyObject* node_dir(PyObject* o, PyObject*) {
  PyObject* list = PyObject_Dir(reinterpret_cast<PyObject*>(node_type));
  if (!list) return nullptr;
  try {
    Reading reading(of(o), Reading::Look);
    for (SavedValue& v : of(o).saved()) {
      PyObject* s = PyUnicode_FromString(("_saved_" + v.name).c_str());
      PyList_Append(list, s);
      Py_XDECREF(s);
    }
  } catch (...) {
    // Freed values have no names to list.
  }
  return list;
}

PyMethodDef methods[] = {{"name", node_name, METH_NOARGS, "The name: MulBackward0."}, {"__dir__", node_dir, METH_NOARGS, nullptr}, {}};
PyGetSetDef getset[] = {{"next_functions", node_next, nullptr, "Pairs (node, input number), one per input of the call.", nullptr},
                        {"_sequence_nr", node_sequence, nullptr, nullptr, nullptr},
                        {}};
PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
                       {Py_tp_repr, reinterpret_cast<void*>(node_repr)},
                       {Py_tp_hash, reinterpret_cast<void*>(node_hash)},
                       {Py_tp_richcompare, reinterpret_cast<void*>(node_compare)},
                       {Py_tp_getattro, reinterpret_cast<void*>(node_getattr)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, getset},
                       {Py_tp_doc, const_cast<char*>("A node of the graph: the derivative of one recorded call.")},
                       {0, nullptr}};
PyType_Spec spec = {"adjoint.autograd.Node", sizeof(NodeObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

PyObject* wrap_node(Ref<Node> node) {
  std::lock_guard lock(alive_mutex);
  PyObject*& known = alive[node.get()];
  if (known) return Py_NewRef(known);
  auto* o = reinterpret_cast<NodeObject*>(node_type->tp_alloc(node_type, 0));
  known = reinterpret_cast<PyObject*>(o);
  if (o) o->node = node.detach();
  return reinterpret_cast<PyObject*>(o);
}

Node* as_node(PyObject* o) { return Py_TYPE(o) == node_type ? &of(o) : nullptr; }

bool add_node_type(PyObject* module) {
  node_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return node_type && PyModule_AddObjectRef(module, "Node", reinterpret_cast<PyObject*>(node_type)) == 0;
}

}  // namespace adjoint::bind
