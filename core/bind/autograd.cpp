// Modes, backward, hooks of what is saved, and what is reported of a pass.
#include <thread>

#include "autograd/arguments.h"
#include "autograd/engine.h"
#include "autograd/views.h"
#include "bind/batching.h"
#include "bind/caster.h"
#include "bind/node_object.h"
#include "bind/overrides.h"
#include "bind/replay.h"
#include "bind/words.h"
#include "for_size.h"
#include "transforms/tangents.h"
#include "transforms/thread_modes.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

Tensors tensor_list(nb::handle o, const char* what) {
  Tensors list;
  if (is_tensor(o.ptr())) {
    list.push_back(unwrap(o.ptr()));
    return list;
  }
  for (nb::handle e : nb::iter(o)) {
    if (e.is_none())
      list.emplace_back();
    else if (is_tensor(e.ptr()))
      list.push_back(unwrap(e.ptr()));
    else
      fail<TypeError>("gradients can be either Tensors or None, but got ", Py_TYPE(e.ptr())->tp_name, " in ",
                      what);
  }
  return list;
}

// Tensors, or pairs (node, number of its result).
std::vector<GraphEnd> graph_ends(nb::handle o, const char* what) {
  std::vector<GraphEnd> list;
  for (nb::handle e : nb::iter(o)) {
    if (is_tensor(e.ptr())) {
      list.push_back({unwrap(e.ptr()), {}});
      continue;
    }
    Node* node = PyTuple_Check(e.ptr()) && PyTuple_GET_SIZE(e.ptr()) >= 2
                     ? as_node(PyTuple_GET_ITEM(e.ptr(), 0))
                     : nullptr;
    if (!node) {
      if (std::string_view(what) == "inputs")
        fail("all inputs have to be Tensors or GradientEdges, but got ", Py_TYPE(e.ptr())->tp_name);
      fail<TypeError>(what, ": expected Tensors or GradientEdges, but found ", Py_TYPE(e.ptr())->tp_name);
    }
    const int64_t nr = as_int(PyTuple_GET_ITEM(e.ptr(), 1), "output_nr");
    if (nr < 0 || nr >= node->num_inputs)
      fail<IndexError>(what, ": ", node->name(), " has no result number ", nr);
    list.push_back({{}, {Ref<Node>::share(node), static_cast<uint32_t>(nr)}});
  }
  return list;
}

// Passes inside passes (from hooks and Functions) take stack; deep down, each goes on in a thread of its own.
constexpr int kMostNested = 40;
thread_local int nested = 0;

struct HookStack {
  std::vector<std::shared_ptr<SavedHooks>> hooks;
  // Why none may be pushed; empty: they may.
  std::string disabled;
};
thread_local HookStack own_saved_hooks;

void use_top() {
  thread_state.saved_hooks = own_saved_hooks.hooks.empty() ? nullptr : own_saved_hooks.hooks.back().get();
}

Tensors run_somewhere(std::span<const GraphEnd> roots, const Tensors& gs, std::span<const GraphEnd> ends,
                      const BackwardOptions& options, bool allow_unused) {
  struct Depth {
    Depth() { ++nested; }
    ~Depth() { --nested; }
  } depth;
  if (nested <= kMostNested) return backward(roots, gs, ends, options, allow_unused);
  Tensors result;
  std::exception_ptr error;
  const ThreadModes modes;
  const MemoryInUse::Away waiting;
  std::thread([&, sequence = &thread_state.sequence] {
    const ThreadModes::Here here(modes);
    const MemoryInUse memory(true, MemoryInUse::Pass);
    try {
      result = backward(roots, gs, ends, options, allow_unused);
    } catch (...) {
      error = std::current_exception();
    }
    *sequence = thread_state.sequence;
  }).join();
  if (error) std::rethrow_exception(error);
  return result;
}

nb::object run(nb::handle tensors, nb::handle cotangents, nb::handle inputs, bool retain_graph,
               bool create_graph, bool accumulate, bool allow_unused) {
  const auto roots = graph_ends(tensors, "tensors");
  Tensors gs = cotangents.is_none() ? Tensors() : tensor_list(cotangents, "grad_tensors");
  const auto ends = inputs.is_none() ? std::vector<GraphEnd>() : graph_ends(inputs, "inputs");
  BackwardOptions options;
  options.retain_graph = retain_graph;
  options.create_graph = create_graph;
  options.accumulate = accumulate;
  Tensors result;
  // Hooks of saved tensors that a hook opened and left open end with the pass.
  struct Hooks {
    const size_t count = own_saved_hooks.hooks.size();
    ~Hooks() {
      if (own_saved_hooks.hooks.size() <= count) return;
      own_saved_hooks.hooks.resize(count);
      use_top();
    }
  } hooks;
  {
    Unlocked u(true, MemoryInUse::Pass);
    result = run_somewhere(roots, gs, ends, options, allow_unused);
  }
  if (accumulate) return nb::none();
  PyObject* t = PyTuple_New(static_cast<Py_ssize_t>(result.size()));
  for (size_t i = 0; i < result.size(); ++i)
    PyTuple_SET_ITEM(t, static_cast<Py_ssize_t>(i), wrap(std::move(result[i])));
  return nb::steal(t);
}

// --- hooks of saved tensors -----------------------------------------------------------------------

class PythonPacked final : public Packed {
 public:
  PythonPacked(const Tensor& t, std::shared_ptr<PyObject> value, std::shared_ptr<PyObject> unpack)
      : sizes_(t.sizes()),
        dtype_(t.dtype()),
        device_(device_of(t)),
        value_(std::move(value)),
        unpack_(std::move(unpack)) {}
  Tensor unpack() override {
    const InPython python;
    nb::object r = nb::steal(PyObject_CallOneArg(unpack_.get(), value_.get()));
    if (!r.is_valid()) throw nb::python_error();
    if (!is_tensor(r.ptr()))
      fail<TypeError>("Output of saved tensor unpack_hook expected to be a Tensor but got result of type ",
                      Py_TYPE(r.ptr())->tp_name);
    const Tensor t = unwrap(r.ptr());
    // Rules rely on it.
    if (!same(t.sizes(), sizes_.span()) || t.dtype() != dtype_ || device_of(t) != device_)
      fail("saved tensor unpack_hook returned a tensor of shape ", t.sizes(), ", ", name_of(t.dtype()),
           " on ", name_of(device_of(t)), ", but what was saved has shape ", to_string(sizes_.span()), ", ",
           name_of(dtype_), " on ", name_of(device_), ": it must return the same values");
    return t;
  }
  void* value() const override { return value_.get(); }
  void* how() const override { return unpack_.get(); }

 private:
  Dims sizes_;
  DType dtype_;
  Device device_;
  std::shared_ptr<PyObject> value_, unpack_;
};

class PythonSavedHooks final : public SavedHooks {
 public:
  PythonSavedHooks(PyObject* pack, PyObject* unpack) : pack_(hold(pack)), unpack_(hold(unpack)) {}
  std::unique_ptr<Packed> pack(const Tensor& t) override {
    const InPython python;
    const nb::object given = nb::steal(wrap(t));
    nb::object r = nb::steal(PyObject_CallOneArg(pack_.get(), given.ptr()));
    if (!r.is_valid()) throw nb::python_error();
    // Unpacking gives the history again. What is written in place later would keep the node by its new one.
    if (r.is(given) && t->grad_fn) r = nb::steal(wrap(alias_with_tangents(t)));
    return std::make_unique<PythonPacked>(t, hold(r.ptr()), unpack_);
  }

 private:
  std::shared_ptr<PyObject> pack_, unpack_;
};

void poll() {
  const InPython python;
  if (PyErr_CheckSignals() < 0) throw nb::python_error();
}

void without_lock(const std::function<void()>& wait) {
  const InPython python;
  const Unlocked meanwhile(true);
  wait();
}

/// What Python has switched on in a thread: context variables, modes that answer calls, and the hooks of
/// saved tensors.
class PythonState final : public ForeignState {
 public:
  PythonState() : hooks_(own_saved_hooks) {
    const InPython python;
    overrides_ = overrides_here();
    context_ = hold(nb::steal(PyContext_CopyCurrent()).ptr());
  }
  void* enter() override {
    own_saved_hooks = hooks_;
    // Python's state of this thread lasts from here to `leave`, and with it the context; the lock is let go
    // in between.
    auto* entered = new Entered{PyGILState_Ensure(), nullptr, nullptr};
    entered->context = PyContext_Copy(context_.get());  // a context is entered once at a time
    if (entered->context && PyContext_Enter(entered->context) < 0) PyErr_Clear();
    enter_overrides(overrides_);
    entered->thread = PyEval_SaveThread();
    return entered;
  }
  void leave(void* handle) noexcept override {
    const std::unique_ptr<Entered> entered(static_cast<Entered*>(handle));
    PyEval_RestoreThread(entered->thread);
    if (entered->context && PyContext_Exit(entered->context) < 0) PyErr_Clear();
    Py_XDECREF(entered->context);
    enter_overrides({});
    own_saved_hooks = HookStack();
    PyGILState_Release(entered->gil);
  }

 private:
  struct Entered {
    PyGILState_STATE gil;
    PyObject* context;
    PyThreadState* thread;
  };
  HookStack hooks_;
  Overrides overrides_;
  std::shared_ptr<PyObject> context_;
};

std::shared_ptr<ForeignState> python_state() { return std::make_shared<PythonState>(); }

nb::object& line_reporter() {
  static nb::object& f = *new nb::object;
  return f;
}
std::string python_line() {
  const InPython python;
  if (!line_reporter().is_valid()) return "";
  nb::object r = nb::steal(PyObject_CallNoArgs(line_reporter().ptr()));
  if (!r.is_valid()) {
    PyErr_Clear();
    return "";
  }
  return words(nb::str(r).ptr());
}
void warn_of_anomaly(const Node& node) {
  const InPython python;
  // An error in flight must not be lost for the warning.
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const std::string line = node.line();
  const std::string message =
      text("Error detected in ", node.name(), ". ",
           line.empty() ? "No forward pass information available. Enable detect anomaly during forward pass "
                          "for more information."
                        : "Traceback of forward call that caused the error:\n" + line);
  // Where warnings are errors, the error that there is stands all the same.
  const auto warn = [](const std::string& what) {
    if (PyErr_WarnEx(PyExc_UserWarning, what.c_str(), 1) < 0) PyErr_WriteUnraisable(nullptr);
  };
  warn(message);
  if (const NodeExtras* e = node.extras(); e && !e->induced_by.empty()) {
    const std::string parent =
        text("\n\nPrevious calculation was induced by ", e->induced_by,
             ". Traceback of forward call that induced the previous calculation:\n", e->induced_trace);
    warn(parent);
  }
  PyErr_Restore(type, value, traceback);
}

}  // namespace

std::unique_ptr<SavedHooks> python_saved_hooks(PyObject* pack, PyObject* unpack) {
  return std::make_unique<PythonSavedHooks>(pack, unpack);
}

void bind_autograd(nb::module_& m) {
  runtime::poll_interrupt = poll;
  while_others_run = without_lock;
  foreign_state = python_state;
  where_now = python_line;
  report_anomaly = warn_of_anomaly;
  m.def(
      "is_grad_enabled",
      [] { return thread_state.grad || (thread_state.inference && thread_state.grad_asked); },
      "Whether operations are recorded in this thread.\n\nReturns\n-------\nbool\n\n"
      "Examples\n--------\n>>> import adjoint as ad\n>>> with ad.no_grad():\n"
      "...     ad.is_grad_enabled()\nFalse");
  m.def(
      "_set_grad_enabled",
      [](bool on) {
        const bool before =
            std::exchange(thread_state.inference ? thread_state.grad_asked : thread_state.grad, on);
        return before;
      },
      "Switch recording on or off; returns what it was.");
  m.def(
      "is_inference_mode_enabled", [] { return thread_state.inference; },
      "Whether this thread is in inference mode.\n\nReturns\n-------\nbool\n\nExamples\n"
      "--------\n>>> import adjoint as ad\n>>> ad.is_inference_mode_enabled()\nFalse");
  m.def("_set_inference_mode", [](bool on) {
    if (on == thread_state.inference) return;
    // The one takes the place of the other.
    if (on)
      thread_state.grad_asked = std::exchange(thread_state.grad, false);
    else
      thread_state.grad = thread_state.grad_asked;
    thread_state.inference = on;
    thread_state.flags_of_new = (thread_state.flags_of_new & ~uint32_t{TensorImpl::kInference}) |
                                (on ? uint32_t{TensorImpl::kInference} : 0u);
  });
  m.def("_run_backward", &run, nb::arg("tensors").none(), nb::arg("grad_tensors").none(),
        nb::arg("inputs").none(), nb::arg("retain_graph"), nb::arg("create_graph"), nb::arg("accumulate"),
        nb::arg("allow_unused"));
  m.def("_gradient_edge", [](const Tensor& t) -> nb::object {
    Edge e = gradient_edge(t);
    if (!e) return nb::none();
    const uint32_t nr = e.input_nr;
    return nb::make_tuple(nb::steal(wrap_node(std::move(e.node))), nr);
  });
  // For adjoint.func: see autograd/arguments.h.
  m.def("_argument_for", &argument_for, nb::arg("tensor"), nb::arg("continued"));
  m.def("_is_argument", &is_argument);
  m.def("_asks_for_gradients", &asks_for_gradients);
  m.def("_tangents_lead_beyond", [](nb::handle roots, nb::handle own) {
    return tangents_lead_beyond(tensor_list(roots, "roots"), tensor_list(own, "own"));
  });
  m.def("_finish_arguments",
        [](nb::handle arguments) { finish_arguments(tensor_list(arguments, "arguments")); });
  m.def("_resume_arguments",
        [](nb::handle arguments) { resume_arguments(tensor_list(arguments, "arguments")); });
  m.def("_leads_beyond", [](nb::handle roots, nb::handle own) {
    std::vector<Edge> edges;
    for (GraphEnd& end : graph_ends(roots, "roots"))
      edges.push_back(end.tensor.defined() ? gradient_edge(end.tensor) : std::move(end.edge));
    return leads_beyond(edges, tensor_list(own, "own")) || records_outside();
  });
  m.def("_result_of", [](const Tensor& t, nb::handle own, bool continued) {
    return result_of(t, tensor_list(own, "own"), continued);
  });
  m.def("_push_saved_tensors_hooks", [](nb::handle pack, nb::handle unpack) {
    if (!own_saved_hooks.disabled.empty()) fail(own_saved_hooks.disabled);
    own_saved_hooks.hooks.push_back(python_saved_hooks(pack.ptr(), unpack.ptr()));
    use_top();
  });
  m.def("_pop_saved_tensors_hooks", [] {
    if (!own_saved_hooks.hooks.empty()) own_saved_hooks.hooks.pop_back();
    use_top();
  });
  m.def(
      "_disable_saved_tensors_hooks",
      [](const std::string& message) {
        if (!message.empty() && !own_saved_hooks.hooks.empty()) fail(message);
        return std::exchange(own_saved_hooks.disabled, message);
      },
      "Why hooks may not be used from now on; empty: they may. Returns what it was.");
  m.def("_current_pass_is_selective", &current_pass_is_selective,
        "Whether the pass that runs here only leads to some inputs.");
  m.def("_current_pass", &current_pass, "A number for the backward pass that runs in this thread, or 0.");
  // A key that keeps no node: its address, and its sequence number, which tells it from another that gets the
  // address.
  m.def("_node_key", [](const Tensor& t) {
    const Edge e = gradient_edge(t);
    return nb::make_tuple(reinterpret_cast<uintptr_t>(e.node.get()), e ? e.node->sequence : 0);
  });
  m.def("_current_pass_runs", [](uintptr_t address, uint64_t sequence) {
    return current_pass_runs(reinterpret_cast<const Node*>(address), sequence);
  });
  m.def("_current_pass_runs_node", [](nb::handle node) {
    return current_pass_runs(as_node(node.ptr()), as_node(node.ptr())->sequence);
  });
  m.def(
      "_set_gradient_home",
      [](const Tensor& leaf, nb::object home) {
        set_gradient_home(leaf, home.is_none() ? Tensor() : nb::cast<Tensor>(home));
      },
      nb::arg("leaf"), nb::arg("home").none(),
      "Let the first gradient of a leaf that has a hook be written to a tensor like it; None: to its own.");
  m.def("_current_pass_is_shared", &current_pass_is_shared,
        "Whether several threads share the pass that runs here.");
  m.def("_current_pass_accumulates", &current_pass_accumulates,
        "Whether the pass that runs here adds to .grad, and does not only return gradients.");
  m.def(
      "_current_node",
      []() -> nb::object {
        Ref<Node> node = current_node_of_pass();
        return node ? nb::steal(wrap_node(std::move(node))) : nb::none();
      },
      "The node whose rule runs in this thread, or None.");
  m.def(
      "_order_of_pass",
      [] {
        nb::list nodes;
        for (Ref<Node>& node : order_of_pass()) nodes.append(nb::steal(wrap_node(std::move(node))));
        return nodes;
      },
      "The nodes of the backward pass that runs in this thread, in the order in which they run.");
  m.def("_set_version", [](const Tensor& t, int64_t version) {
    if (version < 0) fail("Cannot set a version counter to a value below 0, but got ", version);
    // Where `data` was replaced, writes are counted in two places: see version_of_both.
    for (Storage* s : {t->storage, counter_of(*t->storage)})
      if (s) s->version.store(static_cast<uint32_t>(version), std::memory_order_release);
  });
  m.def("_saved_tensors_hooks_disabled", [] { return !own_saved_hooks.disabled.empty(); });
  m.def(
      "_set_record_lines",
      [](bool on, nb::object reporter) {
        if (!reporter.is_none()) line_reporter() = reporter;
        return recording_lines.exchange(on);
      },
      nb::arg("on"), nb::arg("reporter").none());
  m.def("_set_parallel_backward", [](bool on) { return std::exchange(thread_state.parallel_backward, on); });
  m.def("_set_holomorphic", [](bool on) { return std::exchange(thread_state.holomorphic, on); });
  m.def("_set_check_external", [](bool on) { return checking_external.exchange(on); });
  m.def("_is_recording_lines", [] { return recording_lines.load(); });
  m.def("_set_detect_anomaly", [](bool on, bool nan) {
    tell_recorders("it switches whether anomalies are looked for");
    detecting_anomalies = on;
    checking_nan = nan;
  });
  m.def("_detect_anomaly", [] {
    tell_recorders("it asks whether anomalies are looked for");
    return nb::make_tuple(detecting_anomalies.load(), checking_nan.load());
  });
}

}  // namespace adjoint::bind
