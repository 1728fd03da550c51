// Functions written in Python: the context that `forward` and `backward` share, and the node that calls `backward`.
//
// The node owns the context; the context knows its node without owning it, and the node dies with the results. Saved
// tensors lie in the node as those of any other node do. Start reading at `apply`.
#include <Python.h>
#include <structmember.h>

#include <algorithm>

#include "autograd/arithmetic.h"
#include "autograd/saved.h"
#include "autograd/views.h"
#include "bind/caster.h"
#include "bind/node_object.h"
#include "dispatch/operator.h"
#include "ops/shape.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

class FunctionNode;

struct Context {
  PyObject_HEAD
  FunctionNode* node;  // null before there is one, and when it is gone
  bool gone;           // there was one
  PyObject* dict;
  PyObject* weakrefs;
  PyObject* function;  // the class
  PyObject* to_save;
  PyObject* dirty;
  PyObject* non_differentiable;
  PyObject* needs;  // needs_input_grad
  bool materialize;
};
PyTypeObject* context_type = nullptr;

Context* context_of(PyObject* o) { return reinterpret_cast<Context*>(o); }

struct Names {
  PyObject *forward, *backward, *setup_context, *name, *empty;
} names;

[[noreturn]] void python_failed() { throw nb::python_error(); }
nb::object checked(PyObject* o) {
  if (!o) python_failed();
  return nb::steal(o);
}

class FunctionNode final : public Node {
 public:
  FunctionNode(PyObject* context, std::string name) : name_(std::move(name)), context_(Py_NewRef(context)) { context_of(context)->node = this; }
  ~FunctionNode() override {
    if (!Py_IsInitialized()) return;
    nb::gil_scoped_acquire gil;
    context_of(context_)->node = nullptr;
    context_of(context_)->gone = true;
    Py_DECREF(context_);
  }
  std::string name() const override { return name_; }
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

  nb::object unpack() {
    if (released_) refuse_released();
    PyObject* t = PyTuple_New(static_cast<Py_ssize_t>(saved_.size()));
    nb::object owner = nb::steal(t);
    for (size_t i = 0; i < saved_.size(); ++i)
      PyTuple_SET_ITEM(t, static_cast<Py_ssize_t>(i), wrap(saved_[i].unpack(this, output_nrs_[i])));
    return owner;
  }

  std::vector<Edge> edges_;  // one per tensor argument
  std::vector<bool> is_tensor_;  // per argument
  std::vector<SavedTensor> saved_;
  std::vector<uint32_t> output_nrs_;
  std::vector<bool> tensor_result_;

 private:
  std::string name_;
  PyObject* context_;  // owned
  bool released_ = false;
};

void FunctionNode::apply(Gradients& in, Gradients& out) {
  nb::gil_scoped_acquire gil;
  Context* ctx = context_of(context_);
  nb::object arguments = checked(PyTuple_New(static_cast<Py_ssize_t>(num_inputs) + 1));
  PyTuple_SET_ITEM(arguments.ptr(), 0, Py_NewRef(context_));
  for (uint32_t i = 0; i < num_inputs; ++i) {
    Tensor g = in[i];
    if (!g.defined() && ctx->materialize && tensor_result_[i]) g = zeros(result(i).sizes(), result(i).dtype());
    PyTuple_SET_ITEM(arguments.ptr(), static_cast<Py_ssize_t>(i) + 1, wrap(std::move(g)));
  }
  nb::object function = nb::steal(PyObject_GetAttr(ctx->function, names.backward));
  if (!function.is_valid()) python_failed();
  nb::object r = nb::steal(PyObject_CallObject(function.ptr(), arguments.ptr()));
  if (!r.is_valid()) python_failed();
  if (!PyTuple_Check(r.ptr())) r = PyList_Check(r.ptr()) ? checked(PyList_AsTuple(r.ptr())) : nb::object(nb::make_tuple(r));
  const size_t given = static_cast<size_t>(PyTuple_GET_SIZE(r.ptr())), wanted = is_tensor_.size();
  // More is fine where the rest says nothing.
  bool excess = given > wanted;
  for (size_t i = wanted; i < given && excess; ++i) excess = PyTuple_GET_ITEM(r.ptr(), static_cast<Py_ssize_t>(i)) == Py_None;
  if (given != wanted && !excess)
    fail("function ", name_, " returned an incorrect number of gradients (expected ", wanted, ", got ", given,
         "): backward must return one gradient, or None, for each argument of forward");
  size_t e = 0;
  for (size_t i = 0; i < wanted; ++i) {
    PyObject* g = PyTuple_GET_ITEM(r.ptr(), static_cast<Py_ssize_t>(i));
    if (!is_tensor_[i]) {
      if (g != Py_None)
        fail("function ", name_, " returned a gradient different than None at position ", i + 1, ", but the corresponding forward input was not a Variable");
      continue;
    }
    if (is_tensor(g)) {
      if (edges_[e]) {
        out[e] = unwrap(g);
        const DType wanted_type = edges_[e].node->result(edges_[e].input_nr).dtype();
        if (out[e].is_complex() && !is_complex(wanted_type))
          fail("function ", name_, " returned an invalid gradient at index ", i, " - expected a real one of type ", name_of(wanted_type), " but got a complex one of type ",
               name_of(out[e].dtype()), ": the input is real. Return its real part");
      }
    } else if (g != Py_None) {
      fail<TypeError>("function ", name_, " returned a gradient at position ", i + 1, " that is no Tensor: expected Variable or None (got ", Py_TYPE(g)->tp_name, ")");
    }
    ++e;
  }
}

// --- the context ---------------------------------------------------------------------------------------------------------

int context_traverse(PyObject* o, visitproc visit, void* arg) {
  Context* c = context_of(o);
  Py_VISIT(Py_TYPE(o));
  Py_VISIT(c->dict);
  Py_VISIT(c->function);
  Py_VISIT(c->to_save);
  Py_VISIT(c->dirty);
  Py_VISIT(c->non_differentiable);
  return 0;
}
int context_clear(PyObject* o) {
  Context* c = context_of(o);
  Py_CLEAR(c->dict);
  Py_CLEAR(c->function);
  Py_CLEAR(c->to_save);
  Py_CLEAR(c->dirty);
  Py_CLEAR(c->non_differentiable);
  Py_CLEAR(c->needs);
  return 0;
}
void context_dealloc(PyObject* o) {
  PyObject_GC_UnTrack(o);
  if (context_of(o)->weakrefs) PyObject_ClearWeakRefs(o);
  PyTypeObject* type = Py_TYPE(o);
  context_clear(o);
  type->tp_free(o);
  Py_DECREF(type);
}

template <PyObject* Context::*member> PyObject* keep_arguments(PyObject* o, PyObject* args) {
  constexpr const char* name = member == &Context::to_save ? nullptr : member == &Context::dirty ? "mark_dirty" : "mark_non_differentiable";
  for (Py_ssize_t i = 0; name && i < PyTuple_GET_SIZE(args); ++i)
    if (PyObject* a = PyTuple_GET_ITEM(args, i); !is_tensor(a))
      return PyErr_Format(PyExc_TypeError, "%s can only accept variable, but argument %zd is of type %s", name, i, Py_TYPE(a)->tp_name);
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
PyObject* get_saved(PyObject* o, void*) {
  Context* c = context_of(o);
  try {
    if (c->node) {
      Ref<Node> alive = Ref<Node>::share(c->node);
      return c->node->unpack().release().ptr();
    }
    if (c->gone) fail("Trying to access saved tensors after they have already been freed: the graph that the context belongs to is gone");
    return c->to_save ? Py_NewRef(c->to_save) : PyTuple_New(0);
  } catch (...) {
    return raise();
  }
}
PyObject* get_saved_variables(PyObject* o, void* closure) {
  if (PyErr_WarnEx(PyExc_DeprecationWarning, "'saved_variables' is deprecated; use 'saved_tensors'", 1) < 0) return nullptr;
  return get_saved(o, closure);
}
PyObject* get_needs(PyObject* o, void*) { return Py_NewRef(context_of(o)->needs ? context_of(o)->needs : names.empty); }
int set_needs(PyObject* o, PyObject* value, void*) {
  if (!value || !PyTuple_Check(value)) {
    PyErr_SetString(PyExc_TypeError, "needs_input_grad must be a tuple of bools");
    return -1;
  }
  Py_XSETREF(context_of(o)->needs, Py_NewRef(value));
  return 0;
}
PyObject* get_next(PyObject* o, void*) {
  if (!context_of(o)->node) return PyTuple_New(0);
  nb::object node = nb::steal(wrap_node(Ref<Node>::share(context_of(o)->node)));
  return PyObject_GetAttrString(node.ptr(), "next_functions");
}

PyMethodDef context_methods[] = {
    {"save_for_backward", keep_arguments<&Context::to_save>, METH_VARARGS, "Keep tensors for backward, which finds them in `saved_tensors`. None may stand among them."},
    {"save_for_forward", ignore, METH_VARARGS, "Keep tensors for jvp; has no effect while there is no forward mode."},
    {"mark_shared_storage", ignore, METH_VARARGS, "Without effect: which results share memory is known."},
    {"mark_dirty", keep_arguments<&Context::dirty>, METH_VARARGS, "Say which inputs forward changed in place; they must be returned."},
    {"mark_non_differentiable", keep_arguments<&Context::non_differentiable>, METH_VARARGS, "Say which results have no gradient."},
    {"set_materialize_grads", set_materialize, METH_O, "Whether backward gets zeros for gradients that nobody computed, or None."},
    {}};
PyGetSetDef context_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {"saved_tensors", get_saved, nullptr, "The tensors that save_for_backward was given.", nullptr},
    {"saved_variables", get_saved_variables, nullptr, "The old name of saved_tensors.", nullptr},
    {"needs_input_grad", get_needs, set_needs, "For each argument of forward, whether its gradient is wanted.", nullptr},
    {"next_functions", get_next, nullptr, nullptr, nullptr},
    {}};
PyMemberDef context_members[] = {{"__dictoffset__", T_PYSSIZET, offsetof(Context, dict), READONLY, nullptr},
                                 {"__weaklistoffset__", T_PYSSIZET, offsetof(Context, weakrefs), READONLY, nullptr},
                                 {"to_save", T_OBJECT, offsetof(Context, to_save), 0, nullptr},
                                 {"dirty_tensors", T_OBJECT, offsetof(Context, dirty), 0, nullptr},
                                 {"non_differentiable", T_OBJECT, offsetof(Context, non_differentiable), 0, nullptr},
                                 {"materialize_grads", T_BOOL, offsetof(Context, materialize), 0, nullptr},
                                 {}};
PyType_Slot context_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(context_dealloc)},
                               {Py_tp_traverse, reinterpret_cast<void*>(context_traverse)},
                               {Py_tp_clear, reinterpret_cast<void*>(context_clear)},
                               {Py_tp_methods, context_methods},
                               {Py_tp_getset, context_getset},
                               {Py_tp_members, context_members},
                               {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
                               {Py_tp_doc, const_cast<char*>("What forward and backward of a Function share. Attributes may be set on it.")},
                               {0, nullptr}};
PyType_Spec context_spec = {"adjoint.autograd.FunctionCtx", sizeof(Context), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, context_slots};

// --- applying ------------------------------------------------------------------------------------------------------------

bool among(PyObject* tuple, PyObject* o) {
  if (!tuple) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    if (PyTuple_GET_ITEM(tuple, i) == o) return true;
  return false;
}

struct Call {
  PyObject* context;
  PyObject* const* args;
  Py_ssize_t nargs;
  Ref<Node> node;  // null: not recorded
};

// The input again as a tensor of its own, over the same memory.
nb::object another(const Tensor& t) {
  GradMode off(false);
  Tensor again = alias(t, t.sizes(), t.strides(), t.offset());
  register_view(t, again, false);
  return nb::steal(wrap(std::move(again)));
}

// Give a result its place in the graph. Returns what stands for it from now on.
nb::object place(const Call& c, nb::object o, uint32_t number, Py_ssize_t count) {
  Context* ctx = context_of(c.context);
  bool input = false;
  for (Py_ssize_t i = 0; i < c.nargs; ++i) input |= c.args[i] == o.ptr();
  const bool dirty = among(ctx->dirty, o.ptr());
  const Tensor t = unwrap(o.ptr());
  const bool differentiable = c.node && is_differentiable(t.dtype()) && !among(ctx->non_differentiable, o.ptr());
  if (!differentiable) {
    if (!input) {
      if (t.requires_grad() && c.node && !t->is(TensorImpl::kView)) forget_history(t);
      return o;
    }
    if (dirty && !(c.node && t.requires_grad())) return o;
    if (!t.requires_grad()) return another(t);
    return nb::steal(wrap(detach(t)));
  }
  if (dirty) {
    if (count > 1 && t->is(TensorImpl::kView))
      fail("If your Function modifies views in place, it must have a single differentiable output: function ", c.node->name(), " returned ", count);
    const std::string function = nb::cast<std::string>(nb::str(checked(PyObject_GetAttr(ctx->function, names.name))));
    if (!t->is(TensorImpl::kView) && t.requires_grad() && is_leaf(t))
      fail("a leaf Variable that requires grad has been used in an in-place operation. Its shape is ", to_string(t.sizes()), ", and ", function,
           " marked it as dirty: apply the Function to a clone() of the leaf");
    check_writable(t, function.c_str(), true);
    wrote(t, "a Function");
    Tensor written = t;
    write_history(written, c.node, number, 3);  // held by the program, and here twice
    return o;
  }
  if (input) {
    o = another(t);
    const Tensor again = unwrap(o.ptr());
    again->flags = static_cast<uint16_t>((again->flags & ~TensorImpl::kNoGradView) | TensorImpl::kFunctionView);
    set_history(again, c.node, number);
    return o;
  }
  if (t->is(TensorImpl::kView))
    t->flags = static_cast<uint16_t>((t->flags & ~TensorImpl::kNoGradView) | (count > 1 ? TensorImpl::kMultiView : TensorImpl::kFunctionView));
  set_history(t, c.node, number);
  // What forward wrote to it is part of the Function.
  t->view_version.store(t.version(), std::memory_order_release);
  return o;
}

void save_what_was_asked(const Call& c, PyObject* results) {
  Context* ctx = context_of(c.context);
  auto& node = static_cast<FunctionNode&>(*c.node);
  const Py_ssize_t n = ctx->to_save ? PyTuple_GET_SIZE(ctx->to_save) : 0;
  node.saved_.resize(static_cast<size_t>(n));
  node.output_nrs_.resize(static_cast<size_t>(n));
  bool any = false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(ctx->to_save, i);
    if (o == Py_None) continue;
    if (!is_tensor(o)) fail<TypeError>("save_for_backward can only save variables, but argument ", i, " is of type ", Py_TYPE(o)->tp_name);
    const Tensor& t = unwrap(o);
    // A result of this node, a view that it wrote too: no pointer back.
    bool result = false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(results) && !result; ++k)
      if (PyTuple_GET_ITEM(results, k) == o && !among(ctx->non_differentiable, o) && is_differentiable(t.dtype())) {
        result = true;
        node.output_nrs_[static_cast<size_t>(i)] = static_cast<uint32_t>(k);
      }
    node.saved_[static_cast<size_t>(i)].save(t, result, &node);
    any = true;
  }
  if (any) node.saves_something();
  Py_CLEAR(ctx->to_save);
}

std::string node_name(PyObject* cls) {
  return nb::cast<std::string>(nb::str(checked(PyObject_GetAttr(cls, names.name)))) + "Backward";
}

PyObject* apply(PyObject* cls, PyObject* const* args, Py_ssize_t positional, PyObject* keywords) {
  // Arguments given by name follow the others, for backward too.
  const Py_ssize_t nargs = positional + (keywords ? PyTuple_GET_SIZE(keywords) : 0);
  nb::object context;
  try {
    context = checked(PyType_GenericNew(context_type, nullptr, nullptr));
    Context* ctx = context_of(context.ptr());
    ctx->materialize = true;
    ctx->function = Py_NewRef(cls);
    ctx->needs = PyTuple_New(nargs);
    bool any = false;
    for (Py_ssize_t i = 0; i < nargs; ++i) {
      const bool wanted = is_tensor(args[i]) && unwrap(args[i]).requires_grad();
      any |= wanted;
      PyTuple_SET_ITEM(ctx->needs, i, Py_NewRef(wanted ? Py_True : Py_False));
    }
    const bool recorded = any && thread_state.grad;
    Call c{context.ptr(), args, nargs, {}};
    if (recorded) {
      auto* node = new FunctionNode(context.ptr(), node_name(cls));
      c.node = Ref<Node>::steal(node);
      // The edges are those from before forward, which may write.
      for (Py_ssize_t i = 0; i < nargs; ++i) {
        node->is_tensor_.push_back(is_tensor(args[i]));
        if (is_tensor(args[i])) node->edges_.push_back(unwrap(args[i]).requires_grad() ? gradient_edge(unwrap(args[i])) : Edge{});
      }
      ctx->node = nullptr;  // saved_tensors are those to be saved, until they are
    }
    nb::object result;
    {
      GradMode off(false);
      nb::object forward = checked(PyObject_GetAttr(cls, names.forward));
      nb::object setup = checked(PyObject_GetAttr(cls, names.setup_context));
      if (setup.is_none()) {
        std::vector<PyObject*> all{context.ptr()};
        all.insert(all.end(), args, args + nargs);
        result = checked(PyObject_Vectorcall(forward.ptr(), all.data(), static_cast<size_t>(positional) + 1, keywords));
      } else {
        result = checked(PyObject_Vectorcall(forward.ptr(), args, static_cast<size_t>(positional), keywords));
        nb::object inputs = checked(PyTuple_New(nargs));
        for (Py_ssize_t i = 0; i < nargs; ++i) PyTuple_SET_ITEM(inputs.ptr(), i, Py_NewRef(args[i]));
        checked(PyObject_CallFunctionObjArgs(setup.ptr(), context.ptr(), inputs.ptr(), result.ptr(), nullptr));
      }
    }
    const bool single = !PyTuple_Check(result.ptr());
    if (single && !is_tensor(result.ptr()) && recorded)
      fail<TypeError>(static_cast<FunctionNode&>(*c.node).name(), ": forward must return a Tensor or a tuple of Tensors (not ", Py_TYPE(result.ptr())->tp_name, ")");
    nb::object results = single ? nb::object(nb::make_tuple(result)) : result;
    const Py_ssize_t count = PyTuple_GET_SIZE(results.ptr());
    for (Py_ssize_t i = 0; ctx->dirty && i < PyTuple_GET_SIZE(ctx->dirty); ++i)
      if (!among(results.ptr(), PyTuple_GET_ITEM(ctx->dirty, i)))
        fail("Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified inplace must "
             "all be outputs of the Function. It is number ", i, " of those marked by ", nb::cast<std::string>(nb::str(checked(PyObject_GetAttr(cls, names.name)))));
    if (recorded) {
      auto& node = static_cast<FunctionNode&>(*c.node);
      node.set_results(static_cast<uint16_t>(count));
      for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* o = PyTuple_GET_ITEM(results.ptr(), i);
        node.tensor_result_.push_back(is_tensor(o));
        if (is_tensor(o)) node.set_result(static_cast<uint32_t>(i), unwrap(o));
      }
    }
    nb::object placed = checked(PyTuple_New(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
      nb::object o = nb::borrow(PyTuple_GET_ITEM(results.ptr(), i));
      PyTuple_SET_ITEM(placed.ptr(), i, (is_tensor(o.ptr()) ? place(c, o, static_cast<uint32_t>(i), count) : o).release().ptr());
    }
    if (recorded) {
      save_what_was_asked(c, placed.ptr());
      ctx->node = static_cast<FunctionNode*>(c.node.get());
    } else {
      Py_CLEAR(ctx->to_save);
    }
    Py_CLEAR(ctx->dirty);
    Py_CLEAR(ctx->non_differentiable);
    // The collector is to find results that the context keeps itself.
    for (Py_ssize_t i = 0; recorded && i < count; ++i)
      if (PyObject* o = PyTuple_GET_ITEM(placed.ptr(), i); is_tensor(o) && !PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
    if (single) return Py_NewRef(PyTuple_GET_ITEM(placed.ptr(), 0));
    return placed.release().ptr();
  } catch (...) {
    // What the context names may name the context.
    if (context.is_valid()) {
      Context* ctx = context_of(context.ptr());
      Py_CLEAR(ctx->to_save);
      Py_CLEAR(ctx->dirty);
      Py_CLEAR(ctx->non_differentiable);
    }
    return raise();
  }
}

template <class F> PyCFunction method(F* f) { return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f)); }
PyMethodDef base_methods[] = {{"apply", method(apply), METH_CLASS | METH_FASTCALL | METH_KEYWORDS, "Run forward on the arguments and record it."}, {}};
PyType_Slot base_slots[] = {{Py_tp_methods, base_methods}, {Py_tp_doc, const_cast<char*>("The part of Function that is in the core.")}, {0, nullptr}};
PyType_Spec base_spec = {"adjoint._C.FunctionBase", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, base_slots};

}  // namespace

bool add_function_types(PyObject* module) {
  names = {PyUnicode_InternFromString("forward"), PyUnicode_InternFromString("backward"), PyUnicode_InternFromString("_setup_context"), PyUnicode_InternFromString("__name__"), PyTuple_New(0)};
  context_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&context_spec));
  PyObject* base = PyType_FromSpec(&base_spec);
  return context_type && base && PyModule_AddObjectRef(module, "FunctionCtx", reinterpret_cast<PyObject*>(context_type)) == 0 &&
         PyModule_AddObjectRef(module, "FunctionBase", base) == 0;
}

}  // namespace adjoint::bind
