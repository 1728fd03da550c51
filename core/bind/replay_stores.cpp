// Each kind of place is read and written here and nowhere else: by replays, by calls that are only tried, by
// those that are made once more for a backward pass. What holds it is written past whatever code of the
// program it would be written by, which ran when it was recorded. Start reading at `put`.
#include "bind/replay_stores.h"

#include <structmember.h>

#include "bind/replay_types.h"
#include "bind/words.h"
#include "for_size.h"

namespace adjoint::bind::paths {

namespace {

constexpr const char* kWhere[] = {"attribute", "slot", "class attribute", "item", "key", "global",
                                  "cell",      "grad", "append"};

void check(bool done) {
  if (!done) throw nb::python_error();
}

Kind kind_of(PyObject* o) {
  return is_tensor(o) ? Kind::Tensor : PyFunction_Check(o) ? Kind::Function : Kind::Plain;
}

/// The dict that a place is an entry of.
nb::object table_of(Where where, PyObject* holder) {
  if (where == Where::Key || where == Where::Global) return nb::borrow(holder);
  nb::object dict = nb::steal(attributes_of(holder, kind_of(holder)));
  if (!dict.is_valid()) fail("jit: ", Py_TYPE(holder)->tp_name, " has no attributes");
  return dict;
}

/// Where a slot lies: the first in the order of inheritance, whatever has its name in a class that derives.
PyObject** slot_of(PyObject* holder, PyObject* name) {
  PyObject* const mro = Py_TYPE(holder)->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    const nb::object dict = dict_of(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i)));
    PyObject* const found = PyDict_GetItemWithError(dict.ptr(), name);
    if (!found || Py_TYPE(found) != &PyMemberDescr_Type) continue;
    const PyMemberDef* const member = reinterpret_cast<PyMemberDescrObject*>(found)->d_member;
    if (member->type == T_OBJECT_EX)
      return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(holder) + member->offset);
  }
  fail("jit: ", Py_TYPE(holder)->tp_name, " has no slot ", words(name));
}

void put_entry(PyObject* dict, PyObject* key, PyObject* value) {
  // The order of an OrderedDict is its own.
  const bool ordered = PyODict_Check(dict);
  if (value) return check((ordered ? PyODict_SetItem : PyDict_SetItem)(dict, key, value) == 0);
  if (PyDict_Contains(dict, key) == 1) check((ordered ? PyODict_DelItem : PyDict_DelItem)(dict, key) == 0);
}

}  // namespace

Where where_of(nb::handle kind) {
  for (size_t k = 0; k < std::size(kWhere); ++k)
    if (PyUnicode_CompareWithASCIIString(kind.ptr(), kWhere[k]) == 0) return static_cast<Where>(k);
  fail("jit: a change of the kind ", words(kind.ptr()), " cannot be made again");
}

nb::object stands(Where where, PyObject* holder, PyObject* key) {
  switch (where) {
    case Where::Append:
      return {};
    case Where::Item: {
      const Py_ssize_t at = PyLong_AsSsize_t(key);
      return nb::borrow(at < PyList_GET_SIZE(holder) ? PyList_GET_ITEM(holder, at) : nullptr);
    }
    case Where::Cell:
      return nb::borrow(PyCell_GET(holder));
    case Where::Grad: {
      nb::object grad = nb::steal(PyObject_GetAttrString(holder, "grad"));
      check(grad.is_valid());
      return grad.is_none() ? nb::object() : grad;
    }
    case Where::Slot:
      return nb::borrow(*slot_of(holder, key));
    default: {
      const nb::object table = where == Where::ClassAttribute
                                   ? dict_of(reinterpret_cast<PyTypeObject*>(holder))
                                   : table_of(where, holder);
      nb::object found = nb::borrow(PyDict_GetItemWithError(table.ptr(), key));
      check(found.is_valid() || !PyErr_Occurred());
      return found;
    }
  }
}

void put(Where where, PyObject* holder, PyObject* key, PyObject* value) {
  switch (where) {
    case Where::Append:
      return check(PyList_SetSlice(holder, value ? PyList_GET_SIZE(holder) : PyLong_AsSsize_t(key),
                                   PY_SSIZE_T_MAX, value) == 0);
    case Where::Item:
      return check(PyList_SetItem(holder, PyLong_AsSsize_t(key), Py_XNewRef(value)) == 0);
    case Where::Cell:
      return check(PyCell_Set(holder, value) == 0);
    case Where::Grad:
      return check(PyObject_SetAttrString(holder, "grad", value ? value : Py_None) == 0);
    case Where::Slot: {
      PyObject** const slot = slot_of(holder, key);
      Py_XDECREF(std::exchange(*slot, Py_XNewRef(value)));
      return;
    }
    case Where::ClassAttribute:
      if (!value && !stands(where, holder, key).is_valid()) return;
      return check(PyType_Type.tp_setattro(holder, key, value) == 0);
    default:
      return put_entry(table_of(where, holder).ptr(), key, value);
  }
}

Form Form::of(nb::handle form) {
  const nb::object head = form[0];
  const auto is = [&](const char* word) {
    return PyUnicode_Check(head.ptr()) && PyUnicode_CompareWithASCIIString(head.ptr(), word) == 0;
  };
  Form f;
  if (is("tensor")) {
    f.kind = Kind::Made;
    f.number = nb::cast<size_t>(form[1]);
  } else if (is("plain")) {
    f.value = form[3];
  } else if (head.ptr() == reinterpret_cast<PyObject*>(&PyDict_Type)) {
    f.kind = Kind::Dict;
    for (nb::handle entry : nb::iter(nb::object(form[1]))) {
      f.keys.push_back(nb::object(entry[0])[3]);
      f.parts.push_back(of(nb::object(entry[1])));
    }
  } else {
    const bool named = is("named");
    f.kind = named                                                      ? Kind::Named
             : head.ptr() == reinterpret_cast<PyObject*>(&PyTuple_Type) ? Kind::Tuple
                                                                        : Kind::List;
    if (named) f.value = form[1];
    for (nb::handle part : nb::iter(nb::object(form[named ? 2 : 1]))) f.parts.push_back(of(part));
  }
  return f;
}

nb::object Form::build(std::span<PyObject* const> made) const {
  switch (kind) {
    case Kind::Made:
      return nb::borrow(made[number]);
    case Kind::Plain:
      return value;
    case Kind::Dict: {
      nb::object dict = nb::steal(PyDict_New());
      for (size_t i = 0; i < parts.size(); ++i)
        check(PyDict_SetItem(dict.ptr(), keys[i].ptr(), parts[i].build(made).ptr()) == 0);
      return dict;
    }
    default:
      break;
  }
  const auto count = static_cast<Py_ssize_t>(parts.size());
  nb::object all = nb::steal(kind == Kind::List ? PyList_New(count) : PyTuple_New(count));
  check(all.is_valid());
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const part = parts[static_cast<size_t>(i)].build(made).release().ptr();
    kind == Kind::List ? PyList_SET_ITEM(all.ptr(), i, part) : PyTuple_SET_ITEM(all.ptr(), i, part);
  }
  if (kind != Kind::Named) return all;
  nb::object named = nb::steal(nb::hasattr(value, "_fields") ? PyObject_Call(value.ptr(), all.ptr(), nullptr)
                                                             : PyObject_CallOneArg(value.ptr(), all.ptr()));
  check(named.is_valid());
  return named;
}

int Form::visit(visitproc visit, void* arg) const {
  Py_VISIT(value.ptr());
  for (const Form& part : parts)
    if (const int stop = part.visit(visit, arg)) return stop;
  return 0;
}

void Store::operator()(PyObject* of, std::span<PyObject* const> made) const {
  put(where, of, key.ptr(), removed ? nullptr : form.build(made).ptr());
}

}  // namespace adjoint::bind::paths
