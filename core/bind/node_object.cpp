#include "bind/node_object.h"

#include <cctype>
#include <mutex>
#include <unordered_map>

#include "as_torch.h"
#include "autograd/arithmetic.h"
#include "bind/convert.h"
#include "bind/object.h"
#include "bind/replay.h"
#include "dispatch/operator.h"
#include "for_size.h"
#include "ops/shape.h"

namespace adjoint::bind {

PyTypeObject* node_type = nullptr;

namespace {

// The objects that are alive, so that a node seen twice is one object.
std::unordered_map<Node*, PyObject*> alive;
std::mutex alive_mutex;

Node& of(PyObject* o) {
  Node* node = reinterpret_cast<NodeObject*>(o)->node;
  return node ? *node : *make_context_node(o);
}

// A hook may refer to the node that owns it, by this object: that is found where nobody else owns the node.
int node_traverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(o));
  const Node& node = of(o);
  if (node.sequence == Node::kFirst || node.refcount.load(std::memory_order_relaxed) != 1) return 0;
  return visit_hooks(node, visit, arg);
}
int node_clear(PyObject* o) {
  if (of(o).sequence != Node::kFirst && of(o).refcount.load(std::memory_order_relaxed) == 1)
    clear_hooks(of(o));
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
PyObject* node_repr(PyObject* o) {
  tell_recorders("it shows the address of a node");
  return PyUnicode_FromFormat("<%s object at %p>", of(o).name().c_str(), &of(o));
}
PyObject* node_name(PyObject* o, PyObject*) {
  graph_in_recorders(of(o));
  const std::string name = of(o).name();
  // Those of operators end in the number of their form; a Function's node is its object.
  const bool own = !of(o).object() && !std::isdigit(static_cast<unsigned char>(name.back()));
  return PyUnicode_FromString(((own ? for_torch().before_own_nodes : "") + name).c_str());
}
Py_hash_t node_hash(PyObject* o) { return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(&of(o)) >> 4); }
PyObject* node_compare(PyObject* a, PyObject* b, int how) {
  if (!PyObject_TypeCheck(b, node_type) || (how != Py_EQ && how != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((&of(a) == &of(b)) == (how == Py_EQ));
}
PyObject* node_next(PyObject* o, void*) {
  graph_in_recorders(of(o));
  const auto edges = of(o).edges();
  PyObject* t = PyTuple_New(static_cast<Py_ssize_t>(edges.size()));
  for (size_t i = 0; t && i < edges.size(); ++i) {
    PyObject* n = edges[i] ? wrap_node(edges[i].node) : Py_NewRef(Py_None);
    PyTuple_SET_ITEM(t, static_cast<Py_ssize_t>(i), Py_BuildValue("(NI)", n, edges[i].input_nr));
  }
  return t;
}
PyObject* node_sequence(PyObject* o, PyObject*) { return PyLong_FromUnsignedLongLong(of(o).sequence); }

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
  PyObject_HEAD Node* node;
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
    PyErr_SetString(
        PyExc_TypeError,
        "incompatible function arguments: register_hooks() takes two callables, pack_hook and unpack_hook");
    return nullptr;
  }
  auto* s = reinterpret_cast<SavedObject*>(o);
  try {
    if (!PyCallable_Check(pack) || !PyCallable_Check(unpack))
      fail<TypeError>("incompatible function arguments: register_hooks(): both hooks must be callable");
    if (!s->slot->saved()) fail("Calling register_hooks on a saved tensor with value None is forbidden");
    std::optional<ReadLock> reading;
    try {
      reading.emplace(*s->node, ReadLock::Look);
    } catch (const std::exception&) {
      fail(
          "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of "
          "the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if "
          "you need to backward through the graph a second time or if you need to access saved variables "
          "after calling backward. It was saved by ",
          s->node->name());
    }
    s->slot->pack_now(s->node, *python_saved_hooks(pack, unpack));
    Py_RETURN_NONE;
  } catch (...) {
    return raise();
  }
}
// What a hook made of the tensor, or the tensor; a result without its history.
PyObject* saved_data(PyObject* o, void*) {
  auto* s = reinterpret_cast<SavedObject*>(o);
  try {
    if (!s->slot->saved()) Py_RETURN_NONE;
    ReadLock reading(*s->node, ReadLock::Look);
    if (const auto packed = s->slot->packed(s->node))
      return Py_NewRef(static_cast<PyObject*>(packed->packed->value()));
    return wrap(s->slot->unpack(s->node, 0, false));
  } catch (...) {
    return raise();
  }
}
PyObject* saved_unpack_hook(PyObject* o, void*) {
  auto* s = reinterpret_cast<SavedObject*>(o);
  const auto packed = s->slot->packed(s->node);
  return Py_NewRef(packed ? static_cast<PyObject*>(packed->packed->how()) : Py_None);
}
PyObject* saved_new(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_RuntimeError,
                  "Trying to create a SavedTensor object from Python is forbidden: nodes make them, see "
                  "_raw_saved_* of a grad_fn");
  return nullptr;
}
PyGetSetDef saved_getset[] = {
    {"data", saved_data, nullptr,
     "What pack(tensor) made, as it is; or the tensor, without history where it is the node's own result.",
     nullptr},
    {"unpack_hook", saved_unpack_hook, nullptr, "What makes the tensor again, or None.", nullptr},
    {}};
PyMethodDef saved_methods[] = {
    {"register_hooks", saved_register, METH_VARARGS,
     "Let pack(tensor) make what is kept instead, and unpack(kept) the tensor again."},
    {}};
PyType_Slot saved_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(saved_dealloc)},
    {Py_tp_methods, saved_methods},
    {Py_tp_getset, saved_getset},
    {Py_tp_new, reinterpret_cast<void*>(saved_new)},
    {Py_tp_doc, const_cast<char*>("A tensor as a node keeps it.\n"
                                  "\n"
                                  "Examples\n"
                                  "--------\n"
                                  ">>> import adjoint as ad\n"
                                  ">>> x = ad.ones(2, requires_grad=True)\n"
                                  ">>> type(x.exp().grad_fn._raw_saved_result).__name__\n"
                                  "'SavedTensor'")},
    {0, nullptr}};
PyType_Spec saved_spec = {"adjoint.autograd.SavedTensor", sizeof(SavedObject), 0, Py_TPFLAGS_DEFAULT,
                          saved_slots};

}  // namespace

PyObject* raw_saved(Node& node, SavedTensor* slot) {
  auto* o = reinterpret_cast<SavedObject*>(saved_type->tp_alloc(saved_type, 0));
  if (!o) return nullptr;
  o->node = Ref<Node>::share(&node).detach();
  o->slot = slot;
  return reinterpret_cast<PyObject*>(o);
}

namespace {

// Saved values are attributes: _saved_self, _saved_result, and _raw_saved_self; an accumulator's leaf is
// `variable`.
PyObject* node_getattr(PyObject* o, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) return nullptr;
  const bool raw = std::strncmp(text, "_raw_saved_", 11) == 0,
             saved = raw || std::strncmp(text, "_saved_", 7) == 0;
  if (saved || std::strcmp(text, "variable") == 0) {
    const char* wanted = text + (raw ? 11 : saved ? 7 : 0);
    graph_in_recorders(of(o));
    try {
      for (SavedValue& v : of(o).saved()) {
        if (v.name != wanted) continue;
        ReadLock reading(of(o), ReadLock::Look);
        if (raw && v.slot) return raw_saved(of(o), v.slot);
        if (raw) continue;
        if (v.slot) {
          Tensor kept = v.slot->unpack(&of(o), v.output_nr, true);
          // A number that stood in a tensor's place is shown as the number.
          return kept.defined() && kept.is_wrapped() ? from_scalar(item(kept)) : wrap(std::move(kept));
        }
        return v.tensor.defined() ? wrap(v.tensor) : value_of(v.text);
      }
    } catch (...) {
      return raise();
    }
  }
  return PyObject_GenericGetAttr(o, name);
}
PyObject* node_dir(PyObject* o, PyObject*) {
  PyObject* names = PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__dir__", "O", o);
  PyObject* list = names ? PySequence_List(names) : nullptr;
  Py_XDECREF(names);
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
// The rule alone, without hooks and without freeing what was saved: one gradient per result, in order, to one
// per input.
PyObject* node_call(PyObject* o, PyObject* args, PyObject* keywords) {
  try {
    Node& node = of(o);
    if (node.object())
      fail<TypeError>("'", Py_TYPE(o)->tp_name, "' object is not callable: it is the context of a Function");
    if (keywords && PyDict_Size(keywords))
      fail<TypeError>(
          "keyword arguments are not supported: a node takes one gradient per result of its call");
    const auto given = static_cast<size_t>(PyTuple_GET_SIZE(args));
    if (given != node.num_inputs)
      fail<TypeError>("expected ", node.num_inputs, " arguments, got ", given, " instead: ", node.name(),
                      " takes one gradient, or None, per result of its call");
    Gradients in(given);
    for (size_t i = 0; i < given; ++i) {
      PyObject* g = PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i));
      if (g == Py_None) continue;
      if (!is_tensor(g))
        fail<TypeError>("argument ", i, " is not a Variable: ", node.name(),
                        " takes Tensors and None, but found ", Py_TYPE(g)->tp_name);
      const ResultInfo& info = node.result(static_cast<uint32_t>(i));
      in[i] = unwrap(g);
      if (!same(in[i].sizes(), info.sizes())) in[i] = call<Expand>(in[i], info.sizes());
      in[i] = entering_gradient(std::move(in[i]), info, node, i);
    }
    const auto edges = node.edges();
    Gradients out(edges.size());
    {
      Unlocked u(true, MemoryInUse::Pass);
      ReadLock reading(node, ReadLock::Keep);
      if (std::any_of(in.begin(), in.end(), [](const Tensor& g) { return g.defined(); }) ||
          node.wants_undefined())
        node.apply(in, out);
      for (size_t i = 0; i < edges.size(); ++i) {
        if (!out[i].defined() || !edges[i]) continue;
        const ResultInfo& info = edges[i].node->result(edges[i].input_nr);
        if (!info.fits(out[i])) out[i] = fit_gradient(std::move(out[i]), info, node, i);
      }
    }
    if (edges.size() == 1) return wrap(std::move(out[0]));
    PyObject* results = PyTuple_New(static_cast<Py_ssize_t>(edges.size()));
    for (size_t i = 0; results && i < edges.size(); ++i)
      PyTuple_SET_ITEM(results, static_cast<Py_ssize_t>(i), wrap(std::move(out[i])));
    return results;
  } catch (...) {
    return raise();
  }
}
PyObject* node_requires_grad(PyObject*, void*) { Py_RETURN_TRUE; }

// Tensors that are saved: (name, bytes, packed by hooks), without unpacking any.
PyObject* node_saved(PyObject* o, PyObject*) {
  PyObject* list = PyList_New(0);
  for (SavedValue& v : of(o).saved()) {
    if (!v.slot) continue;
    PyObject* entry = Py_BuildValue("(sLO)", v.name.c_str(), static_cast<long long>(v.slot->bytes()),
                                    v.slot->is_packed() ? Py_True : Py_False);
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
  if (i < 0 || i >= of(o).num_inputs)
    return PyErr_Occurred() ? nullptr
                            : PyErr_Format(PyExc_IndexError, "this node has %d results", of(o).num_inputs);
  const ResultInfo& info = of(o).result(static_cast<uint32_t>(i));
  return Py_BuildValue("(NO)", size_from(info.sizes()), dtype_object(info.dtype()));
}

PyMethodDef methods[] = {
    {"name", node_name, METH_NOARGS, "The name: MulBackward0."},
    {"_saved", node_saved, METH_NOARGS, "What is saved: (name, bytes, packed)."},
    {"_result", node_result, METH_O, "Shape and dtype of one of the results of the recorded call."},
    {"_sequence_nr", node_sequence, METH_NOARGS,
     "The number by which passes order nodes: later ones come first."},
    {"__dir__", node_dir, METH_NOARGS, nullptr},
    {}};
PyGetSetDef getset[] = {
    {"next_functions", node_next, nullptr, "Pairs (node, input number), one per input of the call.", nullptr},
    {"metadata", node_metadata, nullptr, "A dict that lives as long as the node.", nullptr},
    {"requires_grad", node_requires_grad, nullptr, "True: what needs no gradient has no node.", nullptr},
    {"_line", node_line, nullptr, "Where it was recorded, if lines were.", nullptr},
    {}};
PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(node_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(node_clear)},
    {Py_tp_repr, reinterpret_cast<void*>(node_repr)},
    {Py_tp_hash, reinterpret_cast<void*>(node_hash)},
    {Py_tp_richcompare, reinterpret_cast<void*>(node_compare)},
    {Py_tp_getattro, reinterpret_cast<void*>(node_getattr)},
    {Py_tp_call, reinterpret_cast<void*>(node_call)},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_doc, const_cast<char*>("A node of the graph: the derivative of one recorded call.\n"
                                  "\n"
                                  "Examples\n"
                                  "--------\n"
                                  ">>> import adjoint as ad\n"
                                  ">>> x = ad.ones(2, requires_grad=True)\n"
                                  ">>> (x * 2).grad_fn.name()\n"
                                  "'MulBackward0'")},
    {0, nullptr}};
PyType_Spec spec = {
    "adjoint.autograd.Node", sizeof(NodeObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

// One class per name of node, so that type(node).__name__ says what it is.
PyTypeObject* type_named(const std::string& name) {
  static auto& types = *new std::unordered_map<std::string, PyTypeObject*>;
  PyTypeObject*& type = types[name];
  if (!type) {
    const std::string* full = new std::string("adjoint.autograd." + name);
    PyType_Slot none[] = {{0, nullptr}};
    PyType_Spec derived = {full->c_str(), sizeof(NodeObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, none};
    PyObject* bases = PyTuple_Pack(1, node_type);
    type = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&derived, bases));
    Py_XDECREF(bases);
  }
  return type;
}

}  // namespace

PyObject* wrap_node(Ref<Node> node) {
  if (node->object()) return wrap_context(std::move(node));
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
            if (!python_is_there()) return;
            const Locked python;
            Py_DECREF(p);
          }};
}

bool add_node_type(PyObject* module) {
  node_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  saved_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&saved_spec));
  return node_type && saved_type &&
         PyModule_AddObjectRef(module, "Node", reinterpret_cast<PyObject*>(node_type)) == 0 &&
         PyModule_AddObjectRef(module, "SavedTensor", reinterpret_cast<PyObject*>(saved_type)) == 0;
}

}  // namespace adjoint::bind
