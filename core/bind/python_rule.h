// A rule of a declared operator, as a function of Python: what it takes, and what it gives. See
// primitive.cpp.
#pragma once

#include "bind/arguments.h"
#include "bind/buffer.h"
#include "bind/caster.h"
#include "dispatch/declared.h"

namespace adjoint::bind {

namespace nb = nanobind;

/// What a rule takes for one of its parameters. `Given` are the gradients or tangents that it starts from.
struct Source {
  enum Kind : int { Given, Argument, Result, Shape, Needs } kind;
  int parameter;
};

/// A Python function and what it takes.
struct Rule {
  std::shared_ptr<PyObject> function;
  std::vector<Source> sources;

  Rule() = default;
  explicit Rule(nb::handle o) {
    if (o.is_none()) return;
    function = hold(nb::object(o[nb::int_(0)]).ptr());
    for (nb::handle source : o[nb::int_(1)])
      sources.push_back({static_cast<Source::Kind>(nb::cast<int>(source[nb::int_(0)])),
                         nb::cast<int>(source[nb::int_(1)])});
  }
  explicit operator bool() const { return bool(function); }

  Need need(const Declaration& d) const {
    Need n;
    for (const Source& s : sources) {
      const auto bit = [&](uint16_t& mask) { mask = static_cast<uint16_t>(mask | 1u << s.parameter); };
      if (s.kind == Source::Shape) bit(n.shapes);
      if (s.kind == Source::Result)
        n.outputs = static_cast<uint16_t>((1u << (d.several ? d.results : 1)) - 1);
      if (s.kind != Source::Argument) continue;
      const Form form = d.kinds[static_cast<size_t>(s.parameter)]->form;
      if (form == Form::Tensor)
        bit(n.inputs);
      else if (form == Form::Tensors)
        n.list = true;
      else
        n.arguments = true;
    }
    return n;
  }

  /// Its result on the arguments that `of` gives for each source, as new references.
  template <class F>
  nb::object run(F&& of) const {
    const nb::object arguments = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(sources.size())));
    for (size_t i = 0; i < sources.size(); ++i) {
      PyObject* o = of(sources[i]);
      if (!o) throw nb::python_error();
      PyTuple_SET_ITEM(arguments.ptr(), static_cast<Py_ssize_t>(i), o);
    }
    nb::object r = nb::steal(PyObject_CallObject(function.get(), arguments.ptr()));
    if (!r.is_valid()) throw nb::python_error();
    return r;
  }
};

/// Tensors as a tuple; one that is undefined is None.
template <class List>
PyObject* tuple_of(List&& tensors) {
  PyObject* t = PyTuple_New(static_cast<Py_ssize_t>(tensors.size()));
  for (size_t i = 0; t && i < tensors.size(); ++i)
    PyTuple_SET_ITEM(t, static_cast<Py_ssize_t>(i), wrap(tensors[i]));
  return t;
}

/// The tensors that a rule gives, as many as there are: it may give one as itself, and None for what is zero.
inline Tensors tensors_from(nb::handle r, size_t count, const char* name, const char* rule,
                            const char* each) {
  Tensors all;
  const auto take = [&](nb::handle o) {
    if (!is_tensor(o.ptr()) && !o.is_none())
      fail<TypeError>("the ", rule, " of '", name, "' must give a Tensor or None for each ", each,
                      ", but it gave ", Py_TYPE(o.ptr())->tp_name);
    all.push_back(o.is_none() ? Tensor() : unwrap(o.ptr()));
  };
  if (PyTuple_Check(r.ptr()) || PyList_Check(r.ptr())) {
    // What belongs to a list of tensors may come as a list.
    for (nb::handle o : r) {
      if (PyTuple_Check(o.ptr()) || PyList_Check(o.ptr()))
        for (nb::handle inner : o) take(inner);
      else
        take(o);
    }
  } else if (count == 1) {
    take(r);
  } else {
    fail<TypeError>("the ", rule, " of '", name, "' must give a tuple with a Tensor or None for each ", each,
                    ", but it gave ", Py_TYPE(r.ptr())->tp_name);
  }
  if (all.size() != count)
    fail("the ", rule, " of '", name, "' must give a Tensor or None for each ", each, ": expected ", count,
         ", but it gave ", all.size());
  return all;
}

}  // namespace adjoint::bind
