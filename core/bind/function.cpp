// Functions written in Python: what `apply` does with the arguments, with what `forward` returns, and with
// what it saved.
//
// Start reading at `apply`; the context that `forward` and `backward` share is in context.h.
#include <algorithm>

#include "autograd/views.h"
#include "bind/batching.h"
#include "bind/context.h"
#include "bind/overrides.h"
#include "bind/words.h"
#include "dispatch/operator.h"
#include "ops/shape.h"
#include "transforms/batching.h"
#include "transforms/forward.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

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

// The input again as a tensor of its own, over the same memory. Its class stays where results of calls have
// that too.
nb::object another(PyObject* input) {
  const Tensor t = unwrap(input);
  GradMode off(false);
  Tensor again = alias_for_view(t);
  register_view(t, again, false);
  return nb::steal(overridden(&input, 1) ? wrap_as(Py_TYPE(input), std::move(again))
                                         : wrap(std::move(again)));
}

// The flags of a view that forward made, which of `count` results: its base cannot rewrite the history that
// it gets.
uint32_t made_here(const Tensor& view, Py_ssize_t count) {
  return (view->flags & ~TensorImpl::kNoGradView) |
         (count > 1 ? TensorImpl::kMultiView : TensorImpl::kFunctionView);
}

// Count what forward says that it wrote. What it did is seen, or told; who looks on has to know the version.
void count_dirty(const Tensor& t) {
  count_write(t, "a Function");
  if (thread_state.watched) announce_copied(t, t, false);
}

// Give a result its place in the graph. Returns what stands for it from now on.
nb::object place(const Call& c, nb::object o, uint32_t number, Py_ssize_t count) {
  Context* ctx = context_of(c.context);
  bool input = false;
  for (Py_ssize_t i = 0; i < c.nargs; ++i) input |= c.args[i] == o.ptr();
  const bool dirty = among(ctx->dirty, o.ptr());
  Tensor t = unwrap(o.ptr());
  const bool differentiable =
      c.node && is_differentiable(t.dtype()) && !among(ctx->non_differentiable, o.ptr());
  if (!differentiable) {
    if (!input) {
      if (t.requires_grad() && !t->is(TensorImpl::kView)) {
        // What nobody recorded leads nowhere; the program's own tensor stays as it is.
        if (!c.node) return nb::steal(wrap(detach(t)));
        forget_history(t);
      }
      // Once a write through it asks for gradients, they would have to pass the Function.
      if (t->is(TensorImpl::kView) && thread_state.grad) t->flags = made_here(t, count);
      return o;
    }
    const bool required = t.requires_grad();
    if (dirty && !(c.node && required)) {
      count_dirty(t);
      if (!required) return o;
    }
    if (!required) return another(o.ptr());
    return nb::steal(wrap(detach(t)));
  }
  if (dirty) {
    if (count > 1 && t->is(TensorImpl::kView))
      fail(
          "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot "
          "return more than one Tensor. This is not supported by the current autograd engine. You should "
          "either make sure the input is not a view (using .clone() for example) or make your Function only "
          "return one Tensor (potentially splitting it into two Functions: one doing the inplace that "
          "returns a single Tensor and a second one that does the other operations). ",
          c.node->name(), " returned ", count);
    const std::string function = words(nb::str(checked(PyObject_GetAttr(ctx->function, names.name))).ptr());
    constexpr const char* kNoInput =
        "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated "
        "should be passed to ctx.mark_dirty().";
    if (!input && t->is(TensorImpl::kView))
      fail(kNoInput, " ", function, " marked a view that it made itself");
    if (!t->is(TensorImpl::kView) && t.requires_grad() && is_leaf(t))
      fail("a leaf Variable that requires grad has been used in an in-place operation. Its shape is ",
           t.sizes(), ", and ", function, " marked it as dirty: apply the Function to a clone() of the leaf");
    check_writable(t, function.c_str(), true);
    count_dirty(t);
    write_history(t, c.node, number);
    if (!input && PyErr_WarnEx(PyExc_UserWarning, kNoInput, 1) < 0) python_failed();
    return o;
  }
  if (input) {
    o = another(o.ptr());
    const Tensor again = unwrap(o.ptr());
    again->flags = (again->flags & ~TensorImpl::kNoGradView) | TensorImpl::kFunctionView;
    set_history(again, c.node, number);
    return o;
  }
  if (t->is(TensorImpl::kView)) t->flags = made_here(t, count);
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
    if (!is_tensor(o))
      fail<TypeError>("save_for_backward can only save variables, but argument ", i, " is of type ",
                      Py_TYPE(o)->tp_name);
    const Tensor& t = unwrap(o);
    // A result of this node, a view that it wrote too: no pointer back.
    bool result = false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(results) && !result; ++k)
      if (PyTuple_GET_ITEM(results, k) == o && !among(ctx->non_differentiable, o) &&
          is_differentiable(t.dtype())) {
        result = true;
        node.output_nrs_[static_cast<size_t>(i)] = static_cast<uint32_t>(k);
      }
    node.saved_[static_cast<size_t>(i)].save(t, result, &node);
    any = true;
  }
  if (any) node.saves_something();
  Py_CLEAR(ctx->to_save);
}

/// The results that are tensors, by their numbers.
Tensors given_tensors(PyObject* results) {
  Tensors all(static_cast<size_t>(PyTuple_GET_SIZE(results)));
  for (size_t i = 0; i < all.size(); ++i)
    if (PyObject* o = PyTuple_GET_ITEM(results, static_cast<Py_ssize_t>(i)); is_tensor(o)) all[i] = unwrap(o);
  return all;
}

PyObject* apply_batched(PyObject* cls, PyObject* const* args, Py_ssize_t nargs) {
  nb::object all = checked(PyTuple_New(nargs));
  for (Py_ssize_t i = 0; i < nargs; ++i) PyTuple_SET_ITEM(all.ptr(), i, Py_NewRef(args[i]));
  return nb::module_::import_("adjoint.func._batched_functions")
      .attr("apply")(nb::handle(cls), all)
      .release()
      .ptr();
}

/// Past batching: adjoint.func._batched_functions has dealt with batches.
PyObject* apply_to(PyObject* cls, PyObject* const* args, Py_ssize_t positional, PyObject* keywords,
                   bool past_batching) {
  // Arguments given by name follow the others, for backward too.
  const Py_ssize_t nargs = positional + (keywords ? PyTuple_GET_SIZE(keywords) : 0);
  nb::object context;
  try {
    nb::object type = checked(PyObject_GetAttr(cls, names.backward_class));
    if (!PyType_Check(type.ptr()) ||
        !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type.ptr()), backward_type))
      fail<TypeError>("_backward_cls of a Function must be the class that Adjoint made for it");
    context = checked(PyType_GenericNew(reinterpret_cast<PyTypeObject*>(type.ptr()), nullptr, nullptr));
    Context* ctx = context_of(context.ptr());
    ctx->materialize = ctx->materialize_all = true;
    ctx->function = Py_NewRef(cls);
    ctx->needs = PyTuple_New(nargs);
    bool any = false, batched = false;
    for (Py_ssize_t i = 0; i < nargs; ++i) {
      const bool wanted = is_tensor(args[i]) && unwrap(args[i]).requires_grad();
      any |= wanted;
      batched |= is_tensor(args[i]) && is_batched(unwrap(args[i]));
      PyTuple_SET_ITEM(ctx->needs, i, Py_NewRef(wanted ? Py_True : Py_False));
    }
    if (batched && !past_batching) [[unlikely]] {
      if (keywords) fail<TypeError>("vmap: arguments of a Function are given by their places");
      return apply_batched(cls, args, nargs);
    }
    const bool recorded = any && thread_state.grad;
    Call c{context.ptr(), args, nargs, {}};
    if (recorded) {
      auto* node = new FunctionNode(context.ptr());
      c.node = Ref<Node>::share(node);
      // The edges are those from before forward, which may write.
      for (Py_ssize_t i = 0; i < nargs; ++i) {
        node->is_tensor_.push_back(is_tensor(args[i]));
        if (is_tensor(args[i]))
          node->edges_.push_back(unwrap(args[i]).requires_grad() ? gradient_edge(unwrap(args[i])) : Edge{});
      }
    }
    const bool dual = any_dual(args, nargs);
    const std::vector<Tensors> tangents = dual ? tangents_before(args, nargs) : std::vector<Tensors>();
    nb::object result;
    {
      GradMode off(false);
      const WithoutLevels plainly(1);
      nb::object forward = checked(PyObject_GetAttr(cls, names.forward));
      nb::object setup = checked(PyObject_GetAttr(cls, names.setup_context));
      if (setup.is_none()) {
        runtime::SmallVector<PyObject*, 8> all({context.ptr()});
        for (Py_ssize_t i = 0; i < nargs; ++i) all.push_back(args[i]);
        result = checked(
            PyObject_Vectorcall(forward.ptr(), all.data(), static_cast<size_t>(positional) + 1, keywords));
      } else {
        result = checked(PyObject_Vectorcall(forward.ptr(), args, static_cast<size_t>(positional), keywords));
        nb::object inputs = checked(PyTuple_New(nargs));
        for (Py_ssize_t i = 0; i < nargs; ++i) PyTuple_SET_ITEM(inputs.ptr(), i, Py_NewRef(args[i]));
        checked(
            PyObject_CallFunctionObjArgs(setup.ptr(), context.ptr(), inputs.ptr(), result.ptr(), nullptr));
      }
    }
    const bool single = !PyTuple_Check(result.ptr());
    // What is in a list would lose its history without a word.
    if (recorded && (PyList_Check(result.ptr()) || PyDict_Check(result.ptr())))
      fail<TypeError>(c.node->name(), ": forward must return a Tensor or a tuple of Tensors (not ",
                      Py_TYPE(result.ptr())->tp_name, ")");
    nb::object results = single ? checked(PyTuple_Pack(1, result.ptr())) : result;
    const Py_ssize_t count = PyTuple_GET_SIZE(results.ptr());
    for (Py_ssize_t i = 0; ctx->dirty && i < PyTuple_GET_SIZE(ctx->dirty); ++i)
      if (!among(results.ptr(), PyTuple_GET_ITEM(ctx->dirty, i)))
        fail(
            "Some elements marked as dirty during the forward method were not returned as output. The inputs "
            "that are modified inplace must all be outputs of the Function. It is number ",
            i, " of those marked by ", words(nb::str(checked(PyObject_GetAttr(cls, names.name))).ptr()));
    if (recorded) {
      auto& node = static_cast<FunctionNode&>(*c.node);
      node.set_results(static_cast<uint16_t>(count));
      for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* o = PyTuple_GET_ITEM(results.ptr(), i);
        node.tensor_result_.push_back(is_tensor(o));
        node.marked_.push_back(among(ctx->non_differentiable, o));
        if (is_tensor(o)) node.set_result(static_cast<uint32_t>(i), unwrap(o));
      }
    }
    nb::object placed = checked(PyTuple_New(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
      nb::object o = nb::borrow(PyTuple_GET_ITEM(results.ptr(), i));
      PyTuple_SET_ITEM(
          placed.ptr(), i,
          (is_tensor(o.ptr()) ? place(c, o, static_cast<uint32_t>(i), count) : o).release().ptr());
    }
    if (dual) find_tangents(context.ptr(), args, nargs, tangents, placed.ptr(), single);
    Py_CLEAR(ctx->for_forward);
    if (recorded) {
      save_what_was_asked(c, placed.ptr());
      if (dual) share_with_saved(given_tensors(placed.ptr()));
      static_cast<FunctionNode&>(*c.node).recorded_ = true;
    } else {
      Py_CLEAR(ctx->to_save);
    }
    Py_CLEAR(ctx->dirty);
    Py_CLEAR(ctx->non_differentiable);
    // The collector is to find results that the context keeps itself.
    for (Py_ssize_t i = 0; recorded && i < count; ++i)
      if (PyObject* o = PyTuple_GET_ITEM(placed.ptr(), i); is_tensor(o) && !PyObject_GC_IsTracked(o))
        PyObject_GC_Track(o);
    if (single) return Py_NewRef(PyTuple_GET_ITEM(placed.ptr(), 0));
    return placed.release().ptr();
  } catch (...) {
    // What the context names may name the context.
    if (context.is_valid()) {
      Context* ctx = context_of(context.ptr());
      Py_CLEAR(ctx->to_save);
      Py_CLEAR(ctx->for_forward);
      Py_CLEAR(ctx->dirty);
      Py_CLEAR(ctx->non_differentiable);
    }
    return raise();
  }
}

PyObject* apply(PyObject* cls, PyObject* const* args, Py_ssize_t positional, PyObject* keywords) {
  return apply_to(cls, args, positional, keywords, false);
}

template <class F>
PyCFunction method(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}
PyMethodDef base_methods[] = {{"apply", method(apply), METH_CLASS | METH_FASTCALL | METH_KEYWORDS,
                               "Run forward on the arguments and record it."},
                              {}};
PyType_Slot base_slots[] = {{Py_tp_methods, base_methods},
                            {Py_tp_doc, const_cast<char*>("The part of Function that is in the core.")},
                            {0, nullptr}};
PyType_Spec base_spec = {"adjoint._C.FunctionBase", sizeof(PyObject), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, base_slots};

}  // namespace

nb::object apply_past_batching(nb::handle cls, nb::tuple args) {
  return checked(
      apply_to(cls.ptr(), PySequence_Fast_ITEMS(args.ptr()), PyTuple_GET_SIZE(args.ptr()), nullptr, true));
}

bool add_function_types(PyObject* module) {
  PyObject* base = PyType_FromSpec(&base_spec);
  return add_context_types(module) && base && PyModule_AddObjectRef(module, "FunctionBase", base) == 0;
}

}  // namespace adjoint::bind
