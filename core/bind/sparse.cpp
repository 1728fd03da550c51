// Sparse tensors in Python: what they are made of, and how the forms of operators on them are found, which
// are written in Python (adjoint/sparse/_forms.py). Start reading at `form_in_python`.
#include "transforms/sparse.h"

#include "bind/arguments.h"
#include "bind/caster.h"
#include "bind/operators.h"
#include "bind/sparse.h"
#include "for_size.h"
#include "ops/sparse.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

/// A form of `adjoint.sparse._forms` from one of its dicts; null where it has none.
nb::object form_of(const char* dict, nb::handle key) {
  const nb::object module = nb::steal(PyImport_ImportModule("adjoint.sparse._forms"));
  if (!module.is_valid()) throw nb::python_error();
  PyObject* form = PyDict_GetItem(module.attr(dict).ptr(), key.ptr());
  return nb::borrow(form ? form : Py_None);
}

bool form_in_python(const Operator& op, std::span<const Value> arguments, bool writes, Results& results) {
  const InPython python;
  const nb::object form = form_of(writes ? "WRITES" : "FORMS", nb::str(op.name));
  if (form.is_none()) return false;
  const nb::object args = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(arguments.size())));
  for (size_t i = 0; i < arguments.size(); ++i)
    PyTuple_SET_ITEM(args.ptr(), static_cast<Py_ssize_t>(i), to_python(*op.kinds[i], arguments[i]));
  const nb::object result = nb::steal(PyObject_CallObject(form.ptr(), args.ptr()));
  if (!result.is_valid()) throw nb::python_error();
  if (result.ptr() == Py_NotImplemented) return false;
  if (!writes) read_results(op, result, results, "the form for sparse tensors must give");
  return true;
}

}  // namespace

PyObject* sparse_composition(PyObject* composition, PyObject* const* args, Py_ssize_t count) {
  bool any = false;
  for (Py_ssize_t i = 0; i < count && !any; ++i) {
    PyObject* o = args[i];
    if ((PyTuple_Check(o) || PyList_Check(o)) && PySequence_Fast_GET_SIZE(o))
      o = PySequence_Fast_GET_ITEM(o, 0);
    any = is_tensor(o) && is_sparse(unwrap(o));
  }
  if (!any) return nullptr;
  try {
    const nb::object form = form_of("COMPOSITIONS", composition);
    return form.is_none() ? nullptr : nb::object(form).release().ptr();
  } catch (nb::python_error& e) {
    PyErr_Clear();
    return nullptr;
  }
}

void bind_sparse(nb::module_& m) {
  sparse_form = form_in_python;
  m.def(
      "_sparse_parts",
      [](const Tensor& t) -> nb::object {
        if (!is_sparse(t)) return nb::none();
        const SparseParts p = sparse_parts(t);
        return nb::make_tuple(static_cast<int>(p.layout), p.coalesced, p.indices, p.others, p.values);
      },
      "Layout, whether it is coalesced, indices, other indices and values of a sparse tensor, without "
      "history; None for others.");
  m.def(
      "_sparse_positions",
      [](const Tensor& t) {
        const Tensors all = sparse_positions(t);
        nb::list list;
        for (const Tensor& one : all) list.append(one);
        return list;
      },
      "Indices for each sparse dimension of any layout.");
  m.def(
      "_sparse_become",
      [](const Tensor& self, const Tensor& result, const std::string& name) {
        become_sparse(self, result, name == "zero_" ? "zero_" : "copy_");
      },
      "Let a sparse tensor have the indices, the values and the history of another.");
  m.def(
      "_sparse_coalesce", [](const Tensor& t) { return coalesced(t); },
      "Each position named once, in order.");
  m.def(
      "_sparse_values",
      [](const Tensor& t) {
        if (!is_sparse(t)) fail("values expected sparse tensor layout but got Strided");
        return sparse_values(t);
      },
      "The values of a sparse tensor, which share its memory; recorded.");
  m.def(
      "_sparse_with",
      [](const Tensor& like, const Tensor& values) {
        if (!is_sparse(like)) fail("the pattern must be a sparse tensor");
        return sparse_with(like, values);
      },
      "A sparse tensor with other values for the same entries; recorded.");
  m.def(
      "_sparse_lookup",
      [](const Tensor& t, const Tensor& pattern) {
        if (!is_sparse(t) || !is_sparse(pattern)) fail("both must be sparse tensors");
        return call<SparseLookup>(t, pattern_of(t), pattern_of(pattern));
      },
      "The sums of a sparse tensor's values at each position of another; recorded.");
  m.def(
      "_sparse_same", [](const Tensor& a, const Tensor& b) { return same_pattern(a, b); },
      "Whether two have the same indices in the same order.");
  m.def(
      "_any_sparse",
      [](nb::list all) {
        if (sparse_in_use.load(std::memory_order_relaxed))
          for (nb::handle t : all)
            if (is_tensor(t.ptr()) && is_sparse(unwrap(t.ptr()))) return true;
        return false;
      },
      "Whether one of these is a sparse tensor.");
  m.def("_sparse_set_coalesced", [](const Tensor& t, bool on) {
    SparseParts p = sparse_parts(t);
    p.coalesced = on;
    set_sparse_parts(t, std::move(p));
  });
}

}  // namespace adjoint::bind
