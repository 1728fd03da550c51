// What contexts of Functions can do, how they and their nodes own each other, and how a node calls
// `backward`.
//
// Start reading at `change_sides` and `wrap_context`, then at `FunctionNode::apply`.
#include "bind/context.h"

#include <structmember.h>

#include "bind/words.h"

namespace nb = nanobind;

namespace adjoint::bind {

PyTypeObject* context_type = nullptr;
PyTypeObject* backward_type = nullptr;
Names names;

void FunctionNode::apply(Gradients& in, Gradients& out) {
  const Device device = thread_state.device;
  const InPython python;
  Context* ctx = context_of(context_);
  nb::object arguments = checked(PyTuple_New(static_cast<Py_ssize_t>(num_inputs) + 1));
  PyTuple_SET_ITEM(arguments.ptr(), 0, wrap_context(Ref<Node>::share(this)));
  for (uint32_t i = 0; i < num_inputs; ++i) {
    Tensor g = in[i];
    if (!g.defined() && ctx->materialize && tensor_result_[i] && (ctx->materialize_all || !marked_[i])) {
      const DeviceScope there(device);
      g = zeros(result(i).sizes(), result(i).dtype());
    }
    PyTuple_SET_ITEM(arguments.ptr(), static_cast<Py_ssize_t>(i) + 1, wrap(std::move(g)));
  }
  nb::object function = nb::steal(PyObject_GetAttr(ctx->function, names.backward));
  if (!function.is_valid()) python_failed();
  nb::object r = nb::steal(PyObject_CallObject(function.ptr(), arguments.ptr()));
  if (!r.is_valid()) python_failed();
  if (!PyTuple_Check(r.ptr()))
    r = checked(PyList_Check(r.ptr()) ? PyList_AsTuple(r.ptr()) : PyTuple_Pack(1, r.ptr()));
  const size_t given = static_cast<size_t>(PyTuple_GET_SIZE(r.ptr())), wanted = is_tensor_.size();
  // More is fine where the rest says nothing.
  bool excess = given > wanted;
  for (size_t i = wanted; i < given && excess; ++i)
    excess = PyTuple_GET_ITEM(r.ptr(), static_cast<Py_ssize_t>(i)) == Py_None;
  if (given != wanted && !excess)
    fail("function ", name(), " returned an incorrect number of gradients (expected ", wanted, ", got ",
         given, "): backward must return one gradient, or None, for each argument of forward");
  size_t e = 0;
  for (size_t i = 0; i < wanted; ++i) {
    PyObject* g = PyTuple_GET_ITEM(r.ptr(), static_cast<Py_ssize_t>(i));
    if (!is_tensor_[i]) {
      if (g != Py_None)
        fail("function ", name(), " returned a gradient different than None at position ", i + 1,
             ", but the corresponding forward input was not a Variable");
      continue;
    }
    if (is_tensor(g)) {
      if (edges_[e]) {
        const ResultInfo& info = edges_[e].node->result(edges_[e].input_nr);
        out[e] = on_device(unwrap(g), info, *this, i);
        const DType wanted_type = info.dtype();
        if (out[e].is_complex() && !is_complex(wanted_type))
          fail("function ", name(), " returned an invalid gradient at index ", i,
               " - expected a real one of type ", name_of(wanted_type), " but got a complex one of type ",
               name_of(out[e].dtype()), ": the input is real. Return its real part");
      }
    } else if (g != Py_None) {
      fail("function ", name(), " returned a gradient at position ", i + 1,
           " that is no Tensor: expected Variable or None (got ", Py_TYPE(g)->tp_name, ")");
    }
    ++e;
  }
}

namespace {

/// Give the context to a node that others hold too; false where nobody does.
bool change_sides(PyObject* o) {
  FunctionNode* node = node_of(o);
  if (!node || node->owns_ || node->refcount.load(std::memory_order_acquire) == 1) return false;
  // Resurrect: the count that just reached zero is one again, and the node holds it.
  Py_SET_REFCNT(o, 1);
  node->owns_ = true;
  release_count(static_cast<Node*>(node));
  return true;
}

bool graph_needs(PyObject* o) {
  const FunctionNode* node = node_of(o);
  return node && !node->owns_ && node->refcount.load(std::memory_order_relaxed) > 1;
}
int context_traverse(PyObject* o, visitproc visit, void* arg) {
  Context* c = context_of(o);
  Py_VISIT(Py_TYPE(o));
  // What a context keeps belongs to the graph as long as others hold the node.
  if (graph_needs(o)) return 0;
  Py_VISIT(c->dict);
  Py_VISIT(c->function);
  Py_VISIT(c->to_save);
  Py_VISIT(c->for_forward);
  Py_VISIT(c->dirty);
  Py_VISIT(c->non_differentiable);
  return c->head.node && c->head.node->refcount.load(std::memory_order_relaxed) == 1
             ? visit_hooks(*c->head.node, visit, arg)
             : 0;
}
void clear_members(PyObject* o) {
  Context* c = context_of(o);
  Py_CLEAR(c->dict);
  Py_CLEAR(c->function);
  Py_CLEAR(c->to_save);
  Py_CLEAR(c->for_forward);
  Py_CLEAR(c->dirty);
  Py_CLEAR(c->non_differentiable);
  Py_CLEAR(c->needs);
}
int context_clear(PyObject* o) {
  if (graph_needs(o)) return 0;
  clear_members(o);
  if (Node* node = context_of(o)->head.node; node && node->refcount.load(std::memory_order_relaxed) == 1)
    clear_hooks(*node);
  return 0;
}
void context_dealloc(PyObject* o) {
  if (change_sides(o)) return;
  PyObject_GC_UnTrack(o);
  if (context_of(o)->weakrefs) PyObject_ClearWeakRefs(o);
  PyTypeObject* type = Py_TYPE(o);
  // The last owner: the node goes with it, or has gone.
  if (FunctionNode* node = node_of(o)) {
    context_of(o)->head.node = nullptr;
    release_count(static_cast<Node*>(node));
  }
  clear_members(o);
  type->tp_free(o);
  Py_DECREF(type);
}

template <PyObject* Context::* member>
PyObject* keep_arguments(PyObject* o, PyObject* args) {
  constexpr const char* name = member == &Context::to_save || member == &Context::for_forward ? nullptr
                               : member == &Context::dirty ? "mark_dirty"
                                                           : "mark_non_differentiable";
  for (Py_ssize_t i = 0; name && i < PyTuple_GET_SIZE(args); ++i)
    if (PyObject* a = PyTuple_GET_ITEM(args, i); !is_tensor(a))
      return PyErr_Format(PyExc_RuntimeError,
                          member == &Context::dirty
                              ? "%s can only accept variables, but argument %zd is of type %s"
                              : "%s only accepts variable arguments, but argument %zd is of type %s",
                          name, i, Py_TYPE(a)->tp_name);
  Py_XSETREF(context_of(o)->*member, Py_NewRef(args));
  Py_RETURN_NONE;
}
PyObject* set_materialize(PyObject* o, PyObject* on) {
  const int value = PyObject_IsTrue(on);
  if (value < 0) return nullptr;
  context_of(o)->materialize = value;
  Py_RETURN_NONE;
}
PyObject* ignore(PyObject*, PyObject*) { Py_RETURN_NONE; }
PyObject* forget_saved(PyObject* o, PyObject*) {
  if (FunctionNode* node = node_of(o); node && node->recorded_) {
    node->release();
    if (node->extras()) node->release_packed();
  }
  Py_RETURN_NONE;
}
PyObject* get_saved(PyObject* o, void*) {
  Context* c = context_of(o);
  try {
    if (FunctionNode* node = node_of(o); node && node->recorded_) {
      Ref<Node> alive = Ref<Node>::share(node);
      return node->unpack().release().ptr();
    }
    if (c->for_forward) return Py_NewRef(c->for_forward);
    return c->to_save ? Py_NewRef(c->to_save) : PyTuple_New(0);
  } catch (...) {
    return raise();
  }
}
PyObject* get_saved_variables(PyObject* o, void* closure) {
  if (PyErr_WarnEx(PyExc_DeprecationWarning, "'saved_variables' is deprecated; use 'saved_tensors'", 1) < 0)
    return nullptr;
  return get_saved(o, closure);
}
PyObject* get_needs(PyObject* o, void*) {
  return Py_NewRef(context_of(o)->needs ? context_of(o)->needs : names.empty);
}
int set_needs(PyObject* o, PyObject* value, void*) {
  if (!value || !PyTuple_Check(value)) {
    PyErr_SetString(PyExc_TypeError, "needs_input_grad must be a tuple of bools");
    return -1;
  }
  Py_XSETREF(context_of(o)->needs, Py_NewRef(value));
  return 0;
}
// The tensors as the node keeps them; it has no names for them.
PyObject* get_raw_saved(PyObject* o, void*) {
  try {
    FunctionNode* node = node_of(o);
    if (!node || !node->recorded_) return Py_NewRef(names.empty);
    ReadLock reading(*node, ReadLock::Look);
    nb::object tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(node->saved_.size())));
    for (size_t i = 0; i < node->saved_.size(); ++i)
      PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i),
                       checked(raw_saved(*node, &node->saved_[i])).release().ptr());
    return tuple.release().ptr();
  } catch (...) {
    return raise();
  }
}
Py_hash_t context_hash(PyObject* o) { return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(o) >> 4); }
PyObject* context_compare(PyObject* a, PyObject* b, int how) {
  if (how != Py_EQ && how != Py_NE) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((a == b) == (how == Py_EQ));
}

PyMethodDef context_methods[] = {
    {"save_for_backward", keep_arguments<&Context::to_save>, METH_VARARGS,
     "Keep tensors for backward, which finds them in `saved_tensors`. None may stand among them."},
    {"save_for_forward", keep_arguments<&Context::for_forward>, METH_VARARGS,
     "Keep tensors for jvp, which finds them in `saved_tensors`."},
    {"_forget_saved", forget_saved, METH_NOARGS, "Let go of what was saved, once it has been read."},
    {"mark_shared_storage", ignore, METH_VARARGS, "Without effect: which results share memory is known."},
    {"mark_dirty", keep_arguments<&Context::dirty>, METH_VARARGS,
     "Say which inputs forward changed in place; they must be returned."},
    {"mark_non_differentiable", keep_arguments<&Context::non_differentiable>, METH_VARARGS,
     "Say which results have no gradient."},
    {"set_materialize_grads", set_materialize, METH_O,
     "Whether backward gets zeros for gradients that nobody computed, or None."},
    {}};
PyGetSetDef context_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {"saved_tensors", get_saved, nullptr, "The tensors that save_for_backward was given.", nullptr},
    {"saved_variables", get_saved_variables, nullptr, "The old name of saved_tensors.", nullptr},
    {"needs_input_grad", get_needs, set_needs,
     "For each argument of forward, whether its gradient is wanted.", nullptr},
    {"_raw_saved_tensors", get_raw_saved, nullptr, "What save_for_backward kept, as the node keeps it.",
     nullptr},
    {}};
PyMemberDef context_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(Context, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Context, weakrefs), READONLY, nullptr},
    {"to_save", T_OBJECT, offsetof(Context, to_save), 0, nullptr},
    {"saved_for_forward", T_OBJECT, offsetof(Context, for_forward), READONLY, nullptr},
    {"dirty_tensors", T_OBJECT, offsetof(Context, dirty), 0, nullptr},
    {"non_differentiable", T_OBJECT, offsetof(Context, non_differentiable), 0, nullptr},
    {"materialize_grads", T_BOOL, offsetof(Context, materialize), 0, nullptr},
    {"_materialize_non_diff_grads", T_BOOL, offsetof(Context, materialize_all), 0, nullptr},
    {}};
PyType_Slot context_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(context_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(context_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(context_clear)},
    {Py_tp_methods, context_methods},
    {Py_tp_getset, context_getset},
    {Py_tp_members, context_members},
    {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
    // By nothing else does Python call a method without making an object of it.
    {Py_tp_getattro, reinterpret_cast<void*>(PyObject_GenericGetAttr)},
    {Py_tp_setattro, reinterpret_cast<void*>(PyObject_GenericSetAttr)},
    {Py_tp_hash, reinterpret_cast<void*>(context_hash)},
    {Py_tp_richcompare, reinterpret_cast<void*>(context_compare)},
    {Py_tp_doc,
     const_cast<char*>("What forward and backward of a Function share. Attributes may be set on it.")},
    {0, nullptr}};
PyType_Spec context_spec = {"adjoint.autograd.FunctionCtx", sizeof(Context), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, context_slots};

// The class of the contexts of one Function, by which their nodes are named. It is told apart by what frees
// it: the type's own deallocator, since Python's would not let a context change sides.
PyType_Slot backward_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(context_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(context_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(context_clear)},
    {Py_tp_doc, const_cast<char*>("The node of a Function, which is its context too.")},
    {0, nullptr}};
PyTypeObject* make_backward_type(const std::string& name, PyTypeObject* base) {
  // Types keep the pointer.
  const auto* full = new std::string("adjoint.autograd.function." + name);
  PyType_Spec spec = {full->c_str(), sizeof(Context), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, backward_slots};
  nb::object bases = checked(PyTuple_Pack(1, base));
  return reinterpret_cast<PyTypeObject*>(
      checked(PyType_FromSpecWithBases(&spec, bases.ptr())).release().ptr());
}
PyObject* backward_class(PyObject*, PyObject* function) {
  try {
    const std::string name = words(nb::str(checked(PyObject_GetAttr(function, names.name))).ptr());
    nb::object type =
        nb::steal(reinterpret_cast<PyObject*>(make_backward_type(name + "Backward", backward_type)));
    if (PyObject_SetAttrString(type.ptr(), "_forward_cls", function) < 0) python_failed();
    return type.release().ptr();
  } catch (...) {
    return raise();
  }
}
PyMethodDef backward_class_def = {"_backward_class", backward_class, METH_O,
                                  "The class of the contexts of a Function."};

}  // namespace

PyObject* wrap_context(Ref<Node> node) {
  auto& function = static_cast<FunctionNode&>(*node);
  if (!function.owns_) return Py_NewRef(function.context_);
  // Back to Python: the context owns the node again, with the ownership that `node` brings.
  function.owns_ = false;
  (void)node.detach();
  return function.context_;
}
Node* make_context_node(PyObject* context) { return new FunctionNode(context); }

bool add_context_types(PyObject* module) {
  names = {PyUnicode_InternFromString("forward"),
           PyUnicode_InternFromString("backward"),
           PyUnicode_InternFromString("jvp"),
           PyUnicode_InternFromString("_setup_context"),
           PyUnicode_InternFromString("__name__"),
           PyUnicode_InternFromString("_backward_cls"),
           PyTuple_New(0)};
  PyObject* bases = PyTuple_Pack(1, node_type);
  context_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&context_spec, bases));
  Py_XDECREF(bases);
  if (!context_type) return false;
  backward_type = make_backward_type("BackwardCFunction", context_type);
  PyObject* make = PyCFunction_New(&backward_class_def, nullptr);
  return make && PyModule_AddObject(module, "_backward_class", make) == 0 &&
         PyModule_AddObjectRef(module, "BackwardCFunction", reinterpret_cast<PyObject*>(backward_type)) ==
             0 &&
         PyModule_AddObjectRef(module, "FunctionCtx", reinterpret_cast<PyObject*>(context_type)) == 0;
}

}  // namespace adjoint::bind
