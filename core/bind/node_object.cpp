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

// A hook may refer to the node that owns it, by this object: that is found where nobody else owns the node.
int node_traverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(o));
  const Node& node = of(o);
  if (node.sequence == Node::kFirst || node.refcount.load(std::memory_order_relaxed) != 1) return 0;
  return visit_hooks(node, visit, arg);
}
int node_clear(PyObject* o) {
  if (of(o).sequence != Node::kFirst && of(o).refcount.load(std::memory_order_relaxed) == 1) clear_hooks(of(o));
  return 0;
}

void node_dealloc(PyObject* o) {
  PyObject_GC_UnTrack(o);
  PyTypeObject* type = Py_TYPE(o);
  {
    std::lock_guard lock(alive_mutex);
    alive.erase(&of(o));
  }
  Node* node = &of(o);
  type->tp_free(o);
  release_count(node);
  Py_DECREF(type);
}
PyObject* node_repr(PyObject* o) { return PyUnicode_FromFormat("<%s object at %p>", of(o).name().c_str(), &of(o)); }
PyObject* node_name(PyObject* o, PyObject*) { return PyUnicode_FromString(of(o).name().c_str()); }
Py_hash_t node_hash(PyObject* o) { return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(&of(o)) >> 4); }
PyObject* node_compare(PyObject* a, PyObject* b, int how) {
  if (!PyObject_TypeCheck(b, node_type) || (how != Py_EQ && how != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
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

struct SavedObject {
  PyObject_HEAD
  Node* node;
  SavedTensor* slot;
};
PyTypeObject* saved_type = nullptr;

void saved_dealloc(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  release_count(reinterpret_cast<SavedObject*>(o)->node);
  type->tp_free(o);
  Py_DECREF(type);
}
PyObject* saved_register(PyObject* o, PyObject* args) {
  PyObject *pack = nullptr, *unpack = nullptr;
  if (!PyArg_UnpackTuple(args, "register_hooks", 2, 2, &pack, &unpack)) {
    PyErr_SetString(PyExc_TypeError, "incompatible function arguments: register_hooks() takes two callables, pack_hook and unpack_hook");
    return nullptr;
  }
  auto* s = reinterpret_cast<SavedObject*>(o);
  try {
    if (!PyCallable_Check(pack) || !PyCallable_Check(unpack)) fail<TypeError>("incompatible function arguments: register_hooks(): both hooks must be callable");
    if (!s->slot->saved()) fail("Calling register_hooks on a saved tensor with value None is forbidden");
    Reading reading(*s->node, Reading::Look);
    s->slot->pack_now(s->node, *python_saved_hooks(pack, unpack));
    Py_RETURN_NONE;
  } catch (...) {
    return raise();
  }
}
PyMethodDef saved_methods[] = {
    {"register_hooks", saved_register, METH_VARARGS, "Let pack(tensor) make what is kept instead, and unpack(kept) the tensor again."}, {}};
PyType_Slot saved_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(saved_dealloc)},
                             {Py_tp_methods, saved_methods},
                             {Py_tp_doc, const_cast<char*>("A tensor as a node keeps it.")},
                             {0, nullptr}};
PyType_Spec saved_spec = {"adjoint.autograd.SavedTensor", sizeof(SavedObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, saved_slots};

PyObject* raw_saved(Node& node, SavedTensor* slot) {
  auto* o = reinterpret_cast<SavedObject*>(saved_type->tp_alloc(saved_type, 0));
  if (!o) return nullptr;
  o->node = Ref<Node>::share(&node).detach();
  o->slot = slot;
  return reinterpret_cast<PyObject*>(o);
}

// Of a Function, whose saved tensors have no names.
PyObject* all_raw_saved(Node& node) {
  try {
    Reading reading(node, Reading::Look);
    PyObject* list = PyList_New(0);
    for (SavedValue& v : node.saved()) {
      PyObject* raw = raw_saved(node, v.slot);
      PyList_Append(list, raw);
      Py_XDECREF(raw);
    }
    PyObject* tuple = PyList_AsTuple(list);
    Py_DECREF(list);
    return tuple;
  } catch (...) {
    return raise();
  }
}

// Saved values are attributes: _saved_self, _saved_result, and _raw_saved_self; an accumulator's leaf is `variable`.
PyObject* node_getattr(PyObject* o, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) return nullptr;
  const bool raw = std::strncmp(text, "_raw_saved_", 11) == 0, saved = raw || std::strncmp(text, "_saved_", 7) == 0;
  if (std::strcmp(text, "_raw_saved_tensors") == 0 && of(o).object()) return all_raw_saved(of(o));
  if (saved || std::strcmp(text, "variable") == 0) {
    const char* wanted = text + (raw ? 11 : saved ? 7 : 0);
    try {
      for (SavedValue& v : of(o).saved()) {
        if (v.name != wanted) continue;
        Reading reading(of(o), Reading::Look);
        if (raw && v.slot) return raw_saved(of(o), v.slot);
        if (raw) continue;
        if (v.slot) return wrap(v.slot->unpack(&of(o), v.output_nr));
        return v.tensor.defined() ? wrap(v.tensor) : value_of(v.text);
      }
    } catch (...) {
      return raise();
    }
  }
  PyObject* found = PyObject_GenericGetAttr(o, name);
  auto* context = static_cast<PyObject*>(of(o).object());
  if (found || !context || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyErr_Clear();
  return PyObject_GetAttr(context, name);
}
int node_setattr(PyObject* o, PyObject* name, PyObject* value) {
  auto* context = static_cast<PyObject*>(of(o).object());
  return context ? PyObject_SetAttr(context, name, value) : PyObject_GenericSetAttr(o, name, value);
}
PyObject* node_dir(PyObject* o, PyObject*) {
  PyObject* list = PyObject_Dir(reinterpret_cast<PyObject*>(node_type));
  if (!list) return nullptr;
  for (SavedValue& v : of(o).saved()) {
    for (const char* prefix : {"_saved_", "_raw_saved_"}) {
      if (!v.slot && prefix[1] == 'r') continue;
      PyObject* s = PyUnicode_FromString((prefix + v.name).c_str());
      PyList_Append(list, s);
      Py_XDECREF(s);
    }
  }
  return list;
}
// Tensors that are saved: (name, bytes, packed by hooks), without unpacking any.
PyObject* node_saved(PyObject* o, PyObject*) {
  PyObject* list = PyList_New(0);
  for (SavedValue& v : of(o).saved()) {
    if (!v.slot) continue;
    PyObject* entry = Py_BuildValue("(sLO)", v.name.c_str(), static_cast<long long>(v.slot->bytes()), v.slot->is_packed() ? Py_True : Py_False);
    PyList_Append(list, entry);
    Py_XDECREF(entry);
  }
  return list;
}
PyObject* node_metadata(PyObject* o, void*) {
  NodeExtras& extras = of(o).make_extras();
  std::lock_guard lock(extras.mutex);
  if (!extras.metadata) {
    PyObject* d = PyDict_New();
    extras.metadata = hold(d);
    Py_XDECREF(d);
  }
  return Py_NewRef(static_cast<PyObject*>(extras.metadata.get()));
}
PyObject* node_line(PyObject* o, void*) { return PyUnicode_FromString(of(o).line().c_str()); }
PyObject* node_result(PyObject* o, PyObject* number) {
  const long i = PyLong_AsLong(number);
  if (i < 0 || i >= of(o).num_inputs) return PyErr_Occurred() ? nullptr : PyErr_Format(PyExc_IndexError, "this node has %d results", of(o).num_inputs);
  const ResultInfo& info = of(o).result(static_cast<uint32_t>(i));
  return Py_BuildValue("(NO)", size_from(info.sizes()), dtype_object(info.dtype()));
}

PyMethodDef methods[] = {{"name", node_name, METH_NOARGS, "The name: MulBackward0."},
                         {"_saved", node_saved, METH_NOARGS, "What is saved: (name, bytes, packed)."},
                         {"_result", node_result, METH_O, "Shape and dtype of one of the results of the recorded call."},
                         {"__dir__", node_dir, METH_NOARGS, nullptr},
                         {}};
PyGetSetDef getset[] = {{"next_functions", node_next, nullptr, "Pairs (node, input number), one per input of the call.", nullptr},
                        {"metadata", node_metadata, nullptr, "A dict that lives as long as the node.", nullptr},
                        {"_sequence_nr", node_sequence, nullptr, nullptr, nullptr},
                        {"_line", node_line, nullptr, "Where it was recorded, if lines were.", nullptr},
                        {}};
PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
                       {Py_tp_traverse, reinterpret_cast<void*>(node_traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(node_clear)},
                       {Py_tp_repr, reinterpret_cast<void*>(node_repr)},
                       {Py_tp_hash, reinterpret_cast<void*>(node_hash)},
                       {Py_tp_richcompare, reinterpret_cast<void*>(node_compare)},
                       {Py_tp_getattro, reinterpret_cast<void*>(node_getattr)},
                       {Py_tp_setattro, reinterpret_cast<void*>(node_setattr)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, getset},
                       {Py_tp_doc, const_cast<char*>("A node of the graph: the derivative of one recorded call.")},
                       {0, nullptr}};
PyType_Spec spec = {"adjoint.autograd.Node", sizeof(NodeObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

// One class per name of node, so that type(node).__name__ says what it is.
PyTypeObject* type_named(const std::string& name) {
  static auto& types = *new std::unordered_map<std::string, PyTypeObject*>;
  PyTypeObject*& type = types[name];
  if (!type) {
    const std::string* full = new std::string("adjoint.autograd." + name);
    PyType_Slot none[] = {{0, nullptr}};
    PyType_Spec derived = {full->c_str(), sizeof(NodeObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, none};
    PyObject* bases = PyTuple_Pack(1, node_type);
    type = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&derived, bases));
    Py_XDECREF(bases);
  }
  return type;
}

}  // namespace

PyObject* wrap_node(Ref<Node> node) {
  const auto known = [&]() -> PyObject* {
    const auto found = alive.find(node.get());
    return found == alive.end() ? nullptr : Py_NewRef(found->second);
  };
  {
    std::lock_guard lock(alive_mutex);
    if (PyObject* o = known()) return o;
  }
  // Not under the lock: making an object may run the collector, which may end other nodes' objects.
  PyTypeObject* type = type_named(node->name());
  auto* o = type ? PyObject_GC_New(NodeObject, type) : nullptr;
  if (!o) return nullptr;
  PyObject* other;
  {
    std::lock_guard lock(alive_mutex);
    if (!(other = known())) alive[node.get()] = reinterpret_cast<PyObject*>(o);
  }
  if (other) {
    PyObject_GC_Del(o);
    Py_DECREF(type);
    return other;
  }
  o->node = node.detach();
  PyObject_GC_Track(o);
  return reinterpret_cast<PyObject*>(o);
}

Node* as_node(PyObject* o) { return PyObject_TypeCheck(o, node_type) ? &of(o) : nullptr; }

std::shared_ptr<PyObject> hold(PyObject* o) {
  return {Py_NewRef(o), [](PyObject* p) {
            if (!Py_IsInitialized()) return;
            const PyGILState_STATE state = PyGILState_Ensure();
            Py_DECREF(p);
            PyGILState_Release(state);
          }};
}

bool add_node_type(PyObject* module) {
  node_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  saved_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&saved_spec));
  return node_type && saved_type && PyModule_AddObjectRef(module, "Node", reinterpret_cast<PyObject*>(node_type)) == 0 &&
         PyModule_AddObjectRef(module, "SavedTensor", reinterpret_cast<PyObject*>(saved_type)) == 0;
}

}  // namespace adjoint::bind
