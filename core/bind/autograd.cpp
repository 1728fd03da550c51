// Modes, backward and hooks.
#include "autograd/engine.h"
#include "autograd/views.h"
#include "autograd/meta.h"
#include "bind/caster.h"
#include "bind/node_object.h"

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
    if (e.is_none()) list.emplace_back();
    else if (is_tensor(e.ptr())) list.push_back(unwrap(e.ptr()));
    else fail<TypeError>(what, ": expected Tensors, but found ", Py_TYPE(e.ptr())->tp_name);
  }
  return list;
}

nb::object run(nb::handle tensors, nb::handle cotangents, nb::handle inputs, bool retain_graph, bool create_graph, bool accumulate,
               bool allow_unused) {
  const Tensors roots = tensor_list(tensors, "tensors");
  Tensors gs = cotangents.is_none() ? Tensors() : tensor_list(cotangents, "grad_tensors");
  const Tensors ends = inputs.is_none() ? Tensors() : tensor_list(inputs, "inputs");
  BackwardOptions options;
  options.retain_graph = retain_graph;
  options.create_graph = create_graph;
  options.accumulate = accumulate;
  Tensors result;
  {
    Unlocked u(true);
    result = backward(roots, gs, ends, options, allow_unused);
  }
  if (accumulate) return nb::none();
  PyObject* t = PyTuple_New(static_cast<Py_ssize_t>(result.size()));
  for (size_t i = 0; i < result.size(); ++i) PyTuple_SET_ITEM(t, static_cast<Py_ssize_t>(i), wrap(std::move(result[i])));
  return nb::steal(t);
}

/// A Python callable that C++ threads may hold and drop.
std::shared_ptr<nb::object> hold(nb::object f) {
  return {new nb::object(std::move(f)), [](nb::object* p) {
            if (!Py_IsInitialized()) return;
            nb::gil_scoped_acquire gil;
            delete p;
          }};
}

Tensor call_hook(nb::object& f, const Tensor& g) {
  nb::gil_scoped_acquire gil;
  nb::object r = nb::steal(PyObject_CallOneArg(f.ptr(), nb::steal(wrap(g)).ptr()));
  if (!r.is_valid()) throw nb::python_error();
  if (r.is_none()) return {};
  if (!is_tensor(r.ptr())) fail<TypeError>("a hook must return a Tensor or None, but returned ", Py_TYPE(r.ptr())->tp_name);
  return unwrap(r.ptr());
}

void poll() {
  nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() < 0) throw nb::python_error();
}

}  // namespace

void bind_autograd(nb::module_& m) {
  poll_interrupt = poll;
  m.def("is_grad_enabled", [] { return thread_state.grad; });
  m.def("_set_grad_enabled", [](bool on) { return std::exchange(thread_state.grad, on); }, "Switch recording on or off; returns what it was.");
  m.def("is_inference_mode_enabled", [] { return thread_state.inference; });
  m.def("_set_inference_mode", [](bool on) {
    thread_state.inference = on;
    thread_state.flags_of_new = on ? TensorImpl::kInference : 0;
  });
  m.def("_run_backward", &run, nb::arg("tensors").none(), nb::arg("grad_tensors").none(), nb::arg("inputs").none(), nb::arg("retain_graph"),
        nb::arg("create_graph"), nb::arg("accumulate"), nb::arg("allow_unused"));
  m.def("_register_hook", [](const Tensor& t, nb::object f) {
    auto held = hold(std::move(f));
    return register_hook(t, [held](const Tensor& g) { return call_hook(*held, g); });
  });
  m.def("_remove_hook", [](const Tensor& t, uint64_t id) { remove_hook(t, id); });
  m.def("_register_post_accumulate_grad_hook", [](const Tensor& t, nb::object f) {
    auto held = hold(std::move(f));
    return register_post_accumulate_hook(t, [held](const Tensor& leaf) {
      nb::gil_scoped_acquire gil;
      nb::object r = nb::steal(PyObject_CallOneArg(held->ptr(), nb::steal(wrap(leaf)).ptr()));
      if (!r.is_valid()) throw nb::python_error();
    });
  });
  m.def("_gradient_edge", [](const Tensor& t) -> nb::object {
    Edge e = gradient_edge(t);
    if (!e) return nb::none();
    const uint32_t nr = e.input_nr;
    return nb::make_tuple(nb::steal(wrap_node(std::move(e.node))), nr);
  });
}

}  // namespace adjoint::bind
