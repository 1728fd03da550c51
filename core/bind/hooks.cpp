// Hooks written in Python: of tensors, of leaves, of nodes, and at the end of a pass.
//
// A hook of a tensor is a cell that its handle can empty, wherever it lies by then. What the collector has to
// know of hooks is here too: a hook may refer to the tensor or the node that owns it. Start reading at
// `PythonHook`.
#include "autograd/engine.h"
#include "autograd/many.h"
#include "autograd/meta.h"
#include "autograd/views.h"
#include "bind/caster.h"
#include "bind/node_object.h"
#include "bind/replay.h"
#include "bind/words.h"
#include "for_size.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

std::string name_of_hook(PyObject* f) {
  nb::object name = nb::steal(PyObject_GetAttrString(f, "__name__"));
  if (!name.is_valid()) {
    PyErr_Clear();
    return Py_TYPE(f)->tp_name;
  }
  return words(nb::str(name).ptr());
}

/// The function of a hook, until it is removed.
class HookCell {
 public:
  explicit HookCell(std::shared_ptr<PyObject> f) : function_(std::move(f)) {}
  const uint64_t number = ++hooks_set;
  std::shared_ptr<PyObject> get() {
    std::lock_guard lock(mutex_);
    return function_;
  }
  void clear() {
    std::shared_ptr<PyObject> gone;  // dies after the lock
    std::lock_guard lock(mutex_);
    gone.swap(function_);
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<PyObject> function_;
};
/// What a handle knows of a hook: it keeps nothing alive.
struct HookHandle {
  std::weak_ptr<HookCell> cell;
  uint64_t id;
};

// What a hook put in the place of a gradient must look like it.
void check_changed(PyObject* f, const Tensor& g, const Tensor& changed) {
  if (!g.defined())
    fail("can't replace a None gradient with a non-None value, as hook '", name_of_hook(f), "' does");
  if (device_of(changed) != device_of(g))
    fail("hook '", name_of_hook(f), "' has changed the device of value: expected device ",
         name_of(device_of(g)), " but got ", name_of(device_of(changed)),
         ". Return a gradient on the same device");
  if (!same(changed.sizes(), g.sizes()))
    fail("hook '", name_of_hook(f), "' has changed the size of value: from ", g.sizes(), " to ",
         changed.sizes(), ". Return a gradient of the same shape");
  if (changed.dtype() != g.dtype())
    fail("hook '", name_of_hook(f), "' has changed the type of value (was ", name_of(g.dtype()), " got ",
         name_of(changed.dtype()), "). Return a gradient of the same dtype");
}

Tensor call_hook(PyObject* f, const Tensor& g) {
  const InPython python;
  nb::object r = nb::steal(PyObject_CallOneArg(f, nb::steal(wrap(g)).ptr()));
  if (!r.is_valid()) throw nb::python_error();
  if (r.is_none()) return {};
  if (!is_tensor(r.ptr()))
    fail<TypeError>("expected Variable, but hook returned '", Py_TYPE(r.ptr())->tp_name, "'. Let hook '",
                    name_of_hook(f), "' return a Tensor or None");
  const Tensor changed = unwrap(r.ptr());
  check_changed(f, g, changed);
  return changed;
}

/// A hook of a tensor that Python set. Its handle can empty it wherever it lies by then.
struct PythonHook {
  std::shared_ptr<HookCell> cell;
  Tensor operator()(const Tensor& g) const {
    const std::shared_ptr<PyObject> function = cell->get();
    if (!function) return {};
    hook_runs_in_recorders(cell->number, function.get());
    return call_hook(function.get(), g);
  }
};

nb::object tuple_of(const Gradients& gs) {
  PyObject* t = PyTuple_New(static_cast<Py_ssize_t>(gs.size()));
  for (size_t i = 0; i < gs.size(); ++i) PyTuple_SET_ITEM(t, static_cast<Py_ssize_t>(i), wrap(gs[i]));
  return nb::steal(t);
}
// What a hook of a node returned: nothing, or a gradient for each.
void take_back(nb::object r, PyObject* f, Gradients& gs) {
  if (!r.is_valid()) throw nb::python_error();
  if (r.is_none()) return;
  if (is_tensor(r.ptr())) r = nb::make_tuple(r);
  if (!PyTuple_Check(r.ptr()))
    fail<TypeError>("expected tuple, but hook returned '", Py_TYPE(r.ptr())->tp_name, "': hook '",
                    name_of_hook(f), "' must return a tuple of Tensors, or None");
  if (static_cast<size_t>(PyTuple_GET_SIZE(r.ptr())) != gs.size())
    fail("hook '", name_of_hook(f), "' has returned an incorrect number of values (got ",
         PyTuple_GET_SIZE(r.ptr()), ", but expected ", gs.size(), ")");
  for (size_t i = 0; i < gs.size(); ++i) {
    PyObject* e = PyTuple_GET_ITEM(r.ptr(), static_cast<Py_ssize_t>(i));
    if (e == Py_None)
      gs[i].reset();
    else if (is_tensor(e))
      check_changed(f, gs[i], unwrap(e)), gs[i] = unwrap(e);
    else
      fail<TypeError>("hook '", name_of_hook(f), "' must return Tensors or None, but returned ",
                      Py_TYPE(e)->tp_name, " at ", i);
  }
}

std::atomic<uint64_t> next_node_hook{1};

/// Hooks of a node that Python set.
struct PythonPrehook {
  std::shared_ptr<PyObject> function;
  uint64_t number = ++hooks_set;
  void operator()(Gradients& in) const {
    const InPython python;
    hook_runs_in_recorders(number, function.get());
    take_back(nb::steal(PyObject_CallOneArg(function.get(), tuple_of(in).ptr())), function.get(), in);
  }
};
struct PythonPosthook {
  std::shared_ptr<PyObject> function;
  uint64_t number = ++hooks_set;
  void operator()(Gradients& out, const Gradients& in) const {
    const InPython python;
    hook_runs_in_recorders(number, function.get());
    take_back(nb::steal(PyObject_CallFunctionObjArgs(function.get(), tuple_of(out).ptr(), tuple_of(in).ptr(),
                                                     nullptr)),
              function.get(), out);
  }
};

/// A hook of a leaf that Python set, for when its gradient is there.
struct PythonLeafHook {
  std::shared_ptr<PyObject> function;
  uint64_t number = ++hooks_set;
  void operator()(const Tensor& leaf) const {
    const InPython python;
    hook_runs_in_recorders(number, function.get());
    const nb::object given = nb::steal(wrap(leaf));
    nb::object r = nb::steal(PyObject_CallOneArg(function.get(), given.ptr()));
    if (!r.is_valid()) throw nb::python_error();
    // What a function that writes to the leaf returns is the leaf: `lambda p: p.add_(p.grad, alpha=-lr)`.
    if (!r.is_none() && !r.is(given))
      fail("Tensor post accumulate grad hooks should return None, but '", name_of_hook(function.get()),
           "' returned ", Py_TYPE(r.ptr())->tp_name);
  }
};

template <class Hook>
uint64_t add_node_hook(Node& node, Hook hook) {
  const uint64_t id = next_node_hook++;
  set_node_hook(node, id, std::move(hook));
  return id;
}

Node& node_of(nb::handle o) {
  Node* node = as_node(o.ptr());
  if (!node) fail<TypeError>("expected a node of the graph, but found ", Py_TYPE(o.ptr())->tp_name);
  return *node;
}

int visit_hook(const GradientHook& hook, visitproc visit, void* arg) {
  const auto* python = hook.target<PythonHook>();
  if (!python || python->cell.use_count() != 1) return 0;
  // One that runs has another owner than the cell and the copy made here.
  const auto function = python->cell->get();
  if (function && function.use_count() == 2) Py_VISIT(function.get());
  return 0;
}
}  // namespace

std::shared_ptr<PyObject> function_of(const GradientHook& hook) {
  const auto* python = hook.target<PythonHook>();
  return python ? python->cell->get() : nullptr;
}

std::vector<HookOfPython> python_hooks(const Tensor& t) {
  std::vector<HookOfPython> all;
  const auto note = [&](int64_t place, const auto* hook) {
    if (hook) all.push_back({hook->number, place, hook->function});
  };
  const auto note_cell = [&](int64_t place, const GradientHook& hook) {
    const auto* python = hook.target<PythonHook>();
    if (!python) return;
    if (auto function = python->cell->get()) all.push_back({python->cell->number, place, function});
  };
  const auto of_node = [&](const Node* node) {
    NodeExtras* const extras = node ? node->extras() : nullptr;
    if (!extras) return;
    std::lock_guard lock(extras->mutex);
    for (const auto& h : extras->tensor_hooks) note_cell(4 + static_cast<int64_t>(h.input_nr), h.hook);
    for (const auto& [id, hook] : extras->prehooks) note(0, hook.template target<PythonPrehook>());
    for (const auto& [id, hook] : extras->posthooks) note(1, hook.template target<PythonPosthook>());
  };
  AutogradMeta* const meta = meta_of(t);
  if (t->grad_fn) {
    of_node(resolved(t->grad_fn, t->output_nr));
  } else if (meta) {
    of_node(meta->accumulator.load(std::memory_order_acquire));
    std::lock_guard lock(meta->lock);
    for (const auto& [id, hook] : meta->hooks) note_cell(2, hook);
    for (const auto& [id, hook] : meta->post_accumulate_hooks)
      note(3, hook.template target<PythonLeafHook>());
  }
  return all;
}

int visit_hooks(const TensorImpl* leaf, visitproc visit, void* arg) {
  AutogradMeta* m = leaf->meta.load(std::memory_order_acquire);
  if (!m || !m->hooked.load(std::memory_order_acquire)) return 0;
  // The collector has Python's lock, and waits for no other: who holds that may want Python's.
  std::unique_lock lock(m->lock, std::try_to_lock);
  if (!lock) return 0;
  for (const auto& [id, hook] : m->hooks)
    if (const int stop = visit_hook(hook, visit, arg)) return stop;
  return 0;
}
int visit_hooks(const Node& node, visitproc visit, void* arg) {
  NodeExtras* extras = node.extras();
  if (!extras) return 0;
  std::unique_lock lock(extras->mutex, std::try_to_lock);
  if (!lock) return 0;
  for (const auto& h : extras->tensor_hooks)
    if (const int stop = visit_hook(h.hook, visit, arg)) return stop;
  for (const auto& [id, hook] : extras->prehooks)
    if (const auto* python = hook.target<PythonPrehook>(); python && python->function.use_count() == 1)
      Py_VISIT(python->function.get());
  for (const auto& [id, hook] : extras->posthooks)
    if (const auto* python = hook.target<PythonPosthook>(); python && python->function.use_count() == 1)
      Py_VISIT(python->function.get());
  return 0;
}
void clear_hooks(Node& node) {
  NodeExtras* extras = node.extras();
  if (!extras) return;
  // They die after the lock.
  decltype(extras->tensor_hooks) tensor_hooks;
  decltype(extras->prehooks) prehooks;
  decltype(extras->posthooks) posthooks;
  std::unique_lock lock(extras->mutex, std::try_to_lock);
  if (!lock) return;
  tensor_hooks.swap(extras->tensor_hooks);
  prehooks.swap(extras->prehooks);
  posthooks.swap(extras->posthooks);
}
void clear_hooks(TensorImpl* leaf) {
  AutogradMeta* m = leaf->meta.load(std::memory_order_acquire);
  if (!m) return;
  decltype(m->hooks) gone;  // die after the lock
  std::unique_lock lock(m->lock, std::try_to_lock);
  if (lock) gone.swap(m->hooks);
}

void bind_hooks(nb::module_& m) {
  nb::class_<HookHandle>(m, "HookHandle", "A hook of a tensor, for whoever is to remove it.")
      .def_ro("id", &HookHandle::id)
      .def("clear", [](const HookHandle& h) {
        if (auto cell = h.cell.lock()) cell->clear();
      });
  m.def("_register_hook", [](nb::object o, nb::object f) {
    if (!is_tensor(o.ptr())) fail<TypeError>("register_hook(): expected a Tensor");
    const Tensor& t = unwrap(o.ptr());
    // A hook may refer to its own leaf: the collector is to find that.
    if (!PyObject_GC_IsTracked(o.ptr())) PyObject_GC_Track(o.ptr());
    auto cell = std::make_shared<HookCell>(hold(f.ptr()));
    hook_in_recorders();
    return HookHandle{cell, register_hook(t, PythonHook{cell})};
  });
  m.def(
      "_hooks_of",
      [](const Tensor& t, bool told) {
        if (told && !python_hooks(t).empty()) tell_recorders("it reads which hooks a tensor has");
        nb::dict hooks;
        for (const auto& [id, hook] : hooks_of(t))
          if (const auto* python = hook.target<PythonHook>())
            if (const auto function = python->cell->get()) hooks[nb::int_(id)] = nb::borrow(function.get());
        return hooks;
      },
      nb::arg(), nb::arg("told") = false,
      "The hooks of a tensor, by number, in the order in which they run. With `told`, for the program.");
  m.def("_remove_hook", [](const Tensor& t, uint64_t id) { remove_hook(t, id); });
  m.def("_register_post_accumulate_grad_hook", [](const Tensor& t, nb::object f) {
    hook_in_recorders();
    return register_post_accumulate_hook(t, PythonLeafHook{hold(f.ptr())});
  });
  m.def("_register_node_hook", [](nb::handle node, nb::handle f, bool before) {
    hook_in_recorders();
    return before ? add_node_hook(node_of(node), NodePrehook(PythonPrehook{hold(f.ptr())}))
                  : add_node_hook(node_of(node), NodePosthook(PythonPosthook{hold(f.ptr())}));
  });
  m.def("_remove_node_hook", [](nb::handle node, uint64_t id) { remove_node_hook(node_of(node), id); });
  m.def("_at_end_of_pass", [](nb::handle f) {
    auto held = hold(f.ptr());
    at_end_of_pass([held] {
      const InPython python;
      nb::object r = nb::steal(PyObject_CallNoArgs(held.get()));
      if (!r.is_valid()) throw nb::python_error();
    });
  });
}

}  // namespace adjoint::bind
