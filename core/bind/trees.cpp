// Nested containers taken apart and put together: the walks of src/adjoint/tree, which says what trees
// and their forms are.
//
// What a container is, Python says: `kinds` has for each type the definition by which it is taken apart, or
// None for leaves. Tuples, lists and dicts, of which nearly all trees are made, are taken as they are. Start
// reading at `take_apart`.
#include "bind/caster.h"
#include "for_size.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

/// The class of forms, that of leaves, and all kinds of containers: given by Python, and kept for good.
nb::object *form_class, *leaf_form, *all_kinds;

struct Names {
  PyObject* type = PyUnicode_InternFromString("type");
  PyObject* context = PyUnicode_InternFromString("_context");
  PyObject* children = PyUnicode_InternFromString("_children");
  PyObject* num_children = PyUnicode_InternFromString("num_children");
  PyObject* num_nodes = PyUnicode_InternFromString("num_nodes");
  PyObject* num_leaves = PyUnicode_InternFromString("num_leaves");
};
const Names& names() {
  static const Names all;
  return all;
}

nb::object owned(PyObject* o) {
  if (!o) throw nb::python_error();
  return nb::steal(o);
}
void set(const nb::object& o, PyObject* name, const nb::object& value) {
  if (PyObject_SetAttr(o.ptr(), name, value.ptr())) throw nb::python_error();
}

/// Containers that contain themselves, or are too deep.
struct Deeper {
  Deeper() {
    if (Py_EnterRecursiveCall(" in a nested container")) throw nb::python_error();
  }
  ~Deeper() { Py_LeaveRecursiveCall(); }
  Deeper(const Deeper&) = delete;
};

struct Counts {
  int64_t nodes = 0, leaves = 0;
};

/// The form of a tree, whose leaves are appended.
nb::object take_apart(nb::handle tree, nb::list& leaves, nb::handle kinds, nb::handle is_leaf,
                      Counts& counts) {
  PyTypeObject* const cls = Py_TYPE(tree.ptr());
  const bool dict = cls == &PyDict_Type, listed = cls == &PyTuple_Type || cls == &PyList_Type;
  nb::object definition;
  if (!dict && !listed) definition = owned(PyObject_GetItem(kinds.ptr(), reinterpret_cast<PyObject*>(cls)));
  if ((definition.is_valid() && definition.is_none()) ||
      (!is_leaf.is_none() && nb::cast<bool>(is_leaf(tree)))) {
    leaves.append(tree);
    ++counts.nodes;
    ++counts.leaves;
    return *leaf_form;
  }
  const Deeper deeper;
  nb::object type = nb::borrow(reinterpret_cast<PyObject*>(cls)), children, context = nb::none();
  if (listed) {
    children = owned(PySequence_List(tree.ptr()));
  } else if (dict) {
    children = owned(PyDict_Values(tree.ptr()));
    context = owned(PyDict_Keys(tree.ptr()));
  } else {
    const nb::object parts = definition.attr("flatten_fn")(tree);
    children = owned(PySequence_List(nb::object(parts[0]).ptr()));
    context = parts[1];
    type = definition.attr("type");
  }
  Counts own{1, 0};
  nb::list forms;
  const Py_ssize_t count = PyList_GET_SIZE(children.ptr());
  for (Py_ssize_t i = 0; i < count; ++i)
    forms.append(take_apart(PyList_GET_ITEM(children.ptr(), i), leaves, kinds, is_leaf, own));
  auto* const form_type = reinterpret_cast<PyTypeObject*>(form_class->ptr());
  const nb::object form = owned(form_type->tp_alloc(form_type, 0));
  set(form, names().type, type);
  set(form, names().context, context);
  set(form, names().children, forms);
  set(form, names().num_children, nb::int_(count));
  set(form, names().num_nodes, nb::int_(own.nodes));
  set(form, names().num_leaves, nb::int_(own.leaves));
  counts.nodes += own.nodes;
  counts.leaves += own.leaves;
  return form;
}

/// The tree of a form, with leaves from number `at` on.
nb::object put_together(nb::handle form, nb::handle leaves, Py_ssize_t& at) {
  if (form.is(*leaf_form)) {
    if (at >= PyTuple_GET_SIZE(leaves.ptr())) throw nb::value_error("a tree of more leaves than there are");
    return nb::borrow(PyTuple_GET_ITEM(leaves.ptr(), at++));
  }
  const nb::object type = owned(PyObject_GetAttr(form.ptr(), names().type));
  if (type.is_none()) return put_together(*leaf_form, leaves, at);
  const Deeper deeper;
  const nb::object forms =
      owned(PySequence_Tuple(owned(PyObject_GetAttr(form.ptr(), names().children)).ptr()));
  const nb::object context = owned(PyObject_GetAttr(form.ptr(), names().context));
  const Py_ssize_t count = PyTuple_GET_SIZE(forms.ptr());
  nb::list children;
  for (Py_ssize_t i = 0; i < count; ++i)
    children.append(put_together(PyTuple_GET_ITEM(forms.ptr(), i), leaves, at));
  if (type.is(&PyList_Type)) return children;
  if (type.is(&PyTuple_Type)) return owned(PyList_AsTuple(children.ptr()));
  if (type.is(&PyDict_Type) && PyList_Check(context.ptr()) && PyList_GET_SIZE(context.ptr()) == count) {
    const nb::object keys = owned(PyList_AsTuple(context.ptr()));  // whose hashes may change the list
    nb::object made = owned(PyDict_New());
    for (Py_ssize_t i = 0; i < count; ++i)
      if (PyDict_SetItem(made.ptr(), PyTuple_GET_ITEM(keys.ptr(), i), PyList_GET_ITEM(children.ptr(), i)))
        throw nb::python_error();
    return made;
  }
  return nb::object((*all_kinds)[type]).attr("unflatten_fn")(children, context);
}

}  // namespace

void bind_trees(nb::module_& m) {
  m.def("_set_tree_forms", [](nb::object form, nb::object leaf, nb::object kinds) {
    form_class = new nb::object(std::move(form));
    leaf_form = new nb::object(std::move(leaf));
    all_kinds = new nb::object(std::move(kinds));
  });
  m.def(
      "_take_apart",
      [](nb::handle tree, nb::list leaves, nb::handle kinds, nb::handle is_leaf) {
        Counts counts;
        return take_apart(tree, leaves, kinds, is_leaf, counts);
      },
      nb::arg().none(), nb::arg(), nb::arg(), nb::arg().none(),
      "The form of a tree, whose leaves are appended to a list.");
  m.def(
      "_put_together",
      [](nb::handle form, nb::handle leaves) {
        Py_ssize_t at = 0;
        return put_together(form, owned(PySequence_Tuple(leaves.ptr())), at);
      },
      "The tree of a form with these leaves.");
}

}  // namespace adjoint::bind
