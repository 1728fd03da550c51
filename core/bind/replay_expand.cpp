// Looking into the nodes of a layout, each once, in the order in which they were met: what a call reads of
// them becomes their edges. Start reading at `Collector::expand`.
#include <algorithm>
#include <numeric>

#include "bind/replay_collector.h"
#include "dispatch/operator.h"
#include "for_size.h"

namespace adjoint::bind::paths {

void Collector::call(PyObject* function, PyObject* args, PyObject* kwargs) {
  nb::object parameters = own_["parameters"];
  current_ = -1;
  add_node(Kind::Call, nullptr);
  edge(0, By::Function, 0, nullptr, function);
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  for (Py_ssize_t i = 0; i < count; ++i)
    edge(0, By::Argument, static_cast<int32_t>(i),
         i < PyTuple_GET_SIZE(parameters.ptr()) ? PyTuple_GET_ITEM(parameters.ptr(), i) : nullptr,
         PyTuple_GET_ITEM(args, i));
  const auto split = static_cast<int32_t>(l_.edges.size());
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (kwargs && PyDict_Next(kwargs, &at, &key, &value)) edge(0, By::Keyword, 0, key, value);
  Node& n = l_.nodes[0];
  n.length = count;
  n.named = kwargs ? PyDict_GET_SIZE(kwargs) : 0;
  n.first = 0;
  n.split = split;
  n.slots = n.end = static_cast<int32_t>(l_.edges.size());
}

void Collector::expand(int32_t number) {
  nb::object held = l_.objects[number];
  PyObject* const o = held.ptr();
  PyTypeObject* const t = Py_TYPE(o);
  const Kind kind = l_.nodes[number].kind;
  const auto here = [&] { return static_cast<int32_t>(l_.edges.size()); };
  const auto node = [&]() -> Node& { return l_.nodes[number]; };
  node().first = here();
  // Its class.
  if (kind != Kind::Class && kind != Kind::Globals && kind != Kind::Module) {
    if (PyType_HasFeature(t, Py_TPFLAGS_HEAPTYPE)) {
      current_ = node().found_by;
      const int32_t of = klass(t);
      node().class_node = of;
    } else {
      node().type = t;
    }
  }
  switch (kind) {
    case Kind::Call:
      break;
    case Kind::Tensor:
      hooks(number, unwrap(o));
      break;
    case Kind::Plain:
      if (t == &PyProperty_Type)
        members(number, {names().fget, names().fset, names().fdel});
      else if (t == &PyStaticMethod_Type || t == &PyClassMethod_Type)
        members(number, {names().func});
      else if (t == &PySlice_Type)
        members(number, {names().start, names().stop, names().step});
      else if (t == types().partial)
        members(number, {names().partial_func, names().args, names().keywords});
      else if (const TypeFacts& own = facts_of(t); own.library && own.base != &PyBaseObject_Type)
        node().wraps = true;
      else
        node().changes = true;
      break;
    case Kind::List:
      node().changes = true;
      node().length = PyList_GET_SIZE(o);
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); ++i)
        edge(number, By::Item, static_cast<int32_t>(i), nullptr, PyList_GET_ITEM(o, i));
      break;
    case Kind::Tuple:
      node().length = PyTuple_GET_SIZE(o);
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
        edge(number, By::Item, static_cast<int32_t>(i), nullptr, PyTuple_GET_ITEM(o, i));
      break;
    case Kind::Dict: {
      node().changes = true;
      node().length = PyDict_GET_SIZE(o);
      node().ordered = PyODict_Check(o);
      Py_ssize_t at = 0;
      PyObject *key, *value;
      for (int32_t i = 0; PyDict_Next(o, &at, &key, &value); ++i) {
        edge(number, By::Key, i, nullptr, key);
        edge(number, By::Value, i, key_of_name(key), value);
      }
      break;
    }
    case Kind::Set: {
      node().changes = !PyFrozenSet_Check(o);
      nb::object elements = nb::steal(elements_of(o));
      if (!elements.is_valid()) throw nb::python_error();
      node().length = PyList_GET_SIZE(elements.ptr());
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(elements.ptr()); ++i)
        edge(number, By::Element, static_cast<int32_t>(i), nullptr, PyList_GET_ITEM(elements.ptr(), i));
      break;
    }
    case Kind::Number: {
      nb::object value = nb::steal(base_value(o));
      if (!value.is_valid()) throw nb::python_error();
      edge(number, By::Content, 0, nullptr, value.ptr());
      break;
    }
    case Kind::Function:
      function(number, reinterpret_cast<PyFunctionObject*>(o));
      break;
    case Kind::Cell:
      node().changes = true;
      edge(number, By::Content, 0, nullptr, PyCell_GET(o));
      break;
    case Kind::Method:
      edge(number, By::Method, 0, nullptr, PyMethod_GET_FUNCTION(o));
      edge(number, By::Self, 0, nullptr, PyMethod_GET_SELF(o));
      break;
    case Kind::Builtin:
      node().version = reinterpret_cast<uint64_t>(reinterpret_cast<PyCFunctionObject*>(o)->m_ml);
      edge(number, By::Self, 0, nullptr, PyCFunction_GET_SELF(o));
      break;
    case Kind::Weakref:
      edge(number, By::Referent, 0, nullptr, referent(o));
      break;
    case Kind::Module: {
      // A node of its own, beside that of the globals of its functions: other names are read.
      current_ = here();
      Edge e{By::ModuleDict};
      e.parent = number;
      e.guard = Guard::Node;
      PyObject* dict = PyModule_GetDict(o);
      e.node = add_node(Kind::Globals, dict, false);
      l_.nodes[e.node].by_attributes = true;
      l_.edges.push_back(std::move(e));
      l_.children.push_back(nb::borrow(dict));
      break;
    }
    case Kind::Globals:
      globals(number, o);
      return;
    case Kind::Class:
      read_class(number, reinterpret_cast<PyTypeObject*>(o));
      return;
  }
  node().split = here();
  const TypeFacts* f = kind == Kind::Function || PyType_HasFeature(t, Py_TPFLAGS_HEAPTYPE) ||
                               kind == Kind::Tensor || kind == Kind::Plain
                           ? &facts_of(t)
                           : nullptr;
  if ((kind == Kind::Function) || (f && f->has_dict && kind != Kind::Module && kind != Kind::Weakref)) {
    node().attributes = true;
    nb::object dict = nb::steal(attributes_of(o, kind));
    node().named = dict.is_valid() ? PyDict_GET_SIZE(dict.ptr()) : 0;
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (dict.is_valid() && PyDict_Next(dict.ptr(), &at, &key, &value))
      if (node().wraps ? PyUnicode_Check(key) && PyUnicode_Compare(key, names().wrapped) == 0
                       : named(key) || (f && f->is_module && is_registry(key)))
        edge(number, By::Attribute, 0, key, value);
      else
        ignored(number, By::Attribute, key, value);
  }
  node().slots = here();
  if (f && (kind == Kind::Plain || kind == Kind::List || kind == Kind::Dict || kind == Kind::Set))
    for (const auto& [name, offset] : f->slots)
      if (f->library || named(name))
        edge(number, By::Slot, offset, name,
             *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(o) + offset));
  if (kind == Kind::Dict && PyType_IsSubtype(t, types().default_dict)) {
    nb::object factory = nb::steal(member_of(o, names().factory));
    if (!factory.is_valid()) throw nb::python_error();
    edge(number, By::Member, 0, names().factory, factory.ptr());
  }
  node().end = here();
}

void Collector::hooks(int32_t number, const Tensor& t) {
  if (!runs_hooks(t)) return;
  const std::vector<HookOfPython> all = python_hooks(t);
  l_.nodes[number].length = static_cast<Py_ssize_t>(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    PyObject* const hook = all[i].function.get();
    if (runs(hook))
      edge(number, By::Hook, static_cast<int32_t>(i), nullptr, hook);
    else
      ignored(number, By::Hook, nullptr, hook);
    l_.edges.back().at = static_cast<int32_t>(i);
    l_.edges.back().bits = all[i].place;
  }
}

void Collector::members(int32_t number, std::initializer_list<PyObject*> which) {
  nb::object held = l_.objects[number];
  for (PyObject* name : which) {
    nb::object value = nb::steal(PyObject_GetAttr(held.ptr(), name));
    if (!value.is_valid()) throw nb::python_error();
    edge(number, By::Member, 0, name, value.ptr());
  }
}

void Collector::function(int32_t number, PyFunctionObject* f) {
  l_.nodes[number].fact = nb::borrow(f->func_code);
  for (int i = 0; l_.inside && i < kInnerOfFunction; ++i)
    edge(number, By::Inner, i, nullptr, inner(reinterpret_cast<PyObject*>(f), i));
  if (!l_.inside && !ran_.contains(f->func_code)) return;
  if (f->func_builtins != PyModule_GetDict(types().builtins.ptr())) {
    current_ = l_.nodes[number].found_by;
    unknown("it has builtins of its own");
  }
  const Py_ssize_t cells = f->func_closure ? PyTuple_GET_SIZE(f->func_closure) : 0;
  nb::object free = cells ? nb::borrow(f->func_code).attr("co_freevars") : nb::object();
  for (Py_ssize_t i = 0; i < cells; ++i) {
    // The names of a class's body, which its annotations are evaluated by (since 3.14) and nothing else
    // reads.
    PyObject* name = PyTuple_GET_ITEM(free.ptr(), i);
    if (!ran_.contains(f->func_code) && PyUnicode_CompareWithASCIIString(name, "__classdict__") == 0)
      continue;
    edge(number, By::Cell, static_cast<int32_t>(i), name, PyTuple_GET_ITEM(f->func_closure, i));
  }
  edge(number, By::Defaults, 0, nullptr, f->func_defaults);
  edge(number, By::KeywordDefaults, 0, nullptr, f->func_kwdefaults);
  if (globals_.contains(f->func_globals) &&
      (globals_[f->func_globals].is_valid() && PyTuple_GET_SIZE(globals_[f->func_globals].ptr())))
    edge(number, By::Globals, 0, nullptr, f->func_globals);
}

/// Leaves first, since they need no look while the version is the same.
namespace {

/// Whether an edge needs no look while the version is the same.
bool is_leaf(const Edge& e) {
  return e.guard != Guard::Node && e.guard != Guard::Tensor && e.guard != Guard::Float &&
         e.access != By::Inner;
}

}  // namespace

void Collector::sorted(int32_t number, std::vector<Edge> edges, std::vector<nb::object> values) {
  const auto base = static_cast<int32_t>(l_.edges.size());
  // Judged in order; then edges that lead on change their places.
  for (size_t i = 0; i < edges.size(); ++i) {
    current_ = base + static_cast<int32_t>(i);
    edges[i].parent = number;
    judge(edges[i], values[i].ptr());
  }
  std::vector<int32_t> order(edges.size());
  std::iota(order.begin(), order.end(), 0);
  size_t leaves = 0;
  if (!std::ranges::is_partitioned(edges, is_leaf)) {
    std::stable_partition(order.begin(), order.end(), [&](int32_t i) { return is_leaf(edges[i]); });
    std::vector<int32_t> place(order.size());
    for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int32_t>(i);
    const auto replaced = [&](int32_t& found_by) {
      if (found_by >= base && found_by < base + static_cast<int32_t>(order.size()))
        found_by = base + place[found_by - base];
    };
    for (Node& n : l_.nodes) replaced(n.found_by);
    for (TensorGuard& g : l_.tensors) replaced(g.found_by);
    for (auto& [by, why] : l_.unknown) replaced(by);
  }
  for (int32_t i : order) {
    leaves += is_leaf(edges[i]);
    l_.edges.push_back(std::move(edges[i]));
    l_.children.push_back(std::move(values[i]));
  }
  Node& n = l_.nodes[number];
  n.first = base;
  n.split = base + static_cast<int32_t>(leaves);
  n.slots = n.end = static_cast<int32_t>(l_.edges.size());
}

void Collector::globals(int32_t number, PyObject* dict) {
  std::vector<Edge> edges;
  std::vector<nb::object> values;
  const bool as_module = l_.nodes[number].by_attributes;
  const bool of_builtins = !as_module && dict == PyModule_GetDict(types().builtins.ptr());
  nb::object read = !as_module && globals_.contains(dict) ? globals_[dict] : nb::object();
  const auto add = [&](PyObject* name, bool absent_too) {
    PyObject* value = PyDict_GetItemWithError(dict, name);
    if (!value && PyErr_Occurred()) throw nb::python_error();
    if (!value && !absent_too) return false;
    Edge e{By::Name};
    e.key = nb::borrow(name);
    edges.push_back(std::move(e));
    values.push_back(nb::borrow(value));
    return value != nullptr;
  };
  if (read.is_valid()) {
    const Py_ssize_t all = PyTuple_GET_SIZE(read.ptr());
    edges.reserve(static_cast<size_t>(all)), values.reserve(static_cast<size_t>(all));
    for (Py_ssize_t i = 0; i < all; ++i)
      if (PyObject* const name = PyTuple_GET_ITEM(read.ptr(), i); !add(name, true))
        PyDict_SetItem(missing_.ptr(), name, Py_None);
  }
  if (of_builtins)
    for (nb::handle name : missing_) add(name.ptr(), true);
  Py_ssize_t count = 0;
  if (as_module) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(l_.own_names.ptr()); ++i)
      count += add(PyTuple_GET_ITEM(l_.own_names.ptr(), i), false);
    // Any entry may be read: those that can change while the module does not are looked into.
    Py_ssize_t at = 0;
    PyObject *name, *value;
    while (l_.own_all && !is_installed(dict) && PyDict_Next(dict, &at, &name, &value)) {
      Edge plain{By::Name};
      const bool fixed = guard_value(plain, value) || PyType_Check(value) || PyFunction_Check(value) ||
                         PyCFunction_Check(value) ||
                         (PyModule_Check(value) && is_installed(PyModule_GetDict(value)));
      if (!fixed && PyUnicode_CheckExact(name) && !is_special_name(name) &&
          PySequence_Contains(l_.own_names.ptr(), name) == 0)
        add(name, false);
    }
    add(names().getattr, true);
  }
  Node& n = l_.nodes[number];
  n.strict = as_module && l_.all;
  n.length = count;
  n.version = version_of_dict(dict);
  sorted(number, std::move(edges), std::move(values));
}

void Collector::read_class(int32_t number, PyTypeObject* type) {
  if (PyType_HasFeature(Py_TYPE(type), Py_TPFLAGS_HEAPTYPE)) {
    current_ = l_.nodes[number].found_by;
    const int32_t meta = klass(Py_TYPE(type));
    l_.nodes[number].class_node = meta;
  }
  const TypeFacts& f = facts_of(type);
  Node& n = l_.nodes[number];
  n.version = version_of_type(type);
  n.strict = f.library;
  n.length = PyTuple_GET_SIZE(type->tp_mro);
  if (f.library) {
    n.strict = true;
    n.first = n.split = n.slots = n.end = static_cast<int32_t>(l_.edges.size());
    return;
  }
  std::vector<Edge> edges;
  std::vector<nb::object> values;
  for (int i = 0; l_.inside && i < kInnerOfClass; ++i) {
    Edge e{By::Inner};
    e.at = i;
    edges.push_back(std::move(e));
    values.push_back(nb::borrow(inner(reinterpret_cast<PyObject*>(type), i)));
  }
  nb::object taken = nb::steal(PySet_New(nullptr));
  for (Py_ssize_t i = 1; i < n.length; ++i) {
    auto* const base = PyTuple_GET_ITEM(type->tp_mro, i);
    Edge e{By::Base};
    e.at = static_cast<int32_t>(i);
    edges.push_back(std::move(e));
    values.push_back(nb::borrow(base));
  }
  for (Py_ssize_t i = 0; i < n.length; ++i) {
    auto* const c = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (!PyType_HasFeature(c, Py_TPFLAGS_HEAPTYPE) || facts_of(c).library) continue;
    nb::object dict = dict_of(c);
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict.ptr(), &at, &key, &value)) {
      if (!PyUnicode_CheckExact(key) || !matters(key, value) || PySet_Contains(taken.ptr(), key) == 1)
        continue;
      PySet_Add(taken.ptr(), key);
      Edge e{By::ClassName};
      e.key = nb::borrow(key);
      edges.push_back(std::move(e));
      values.push_back(nb::borrow(_PyType_Lookup(type, key)));
    }
  }
  l_.nodes[number].named = named_members(l_, type);
  sorted(number, std::move(edges), std::move(values));
}

bool Collector::matters(PyObject* key, PyObject* value) const {
  if (PySet_Contains(l_.names.ptr(), key) == 1 || (l_.all && !is_special_name(key))) return true;
  const bool function = PyFunction_Check(value);
  if (function && ran_.contains(PyFunction_GET_CODE(value))) return true;
  return is_special(key, value);
}

void Layout::find_leads() {
  leads.clear();
  const auto lead = [&](int32_t first, int32_t end) {
    for (int32_t i = first; i < end; ++i)
      if (const Guard g = edges[i].guard; g == Guard::Node || g == Guard::Tensor || g == Guard::Varying)
        leads.push_back(i);
    return static_cast<int32_t>(leads.size());
  };
  for (Node& n : nodes) {
    n.leads = static_cast<int32_t>(leads.size());
    n.leads_of_attributes = n.kind == Kind::Dict ? lead(n.first, n.split) : n.leads;
    n.leads_end = n.attributes ? lead(n.split, n.slots) : n.leads_of_attributes;
    // What they led to is found by the next walk.
    n.attributes_version = 0;
    if (n.kind == Kind::Dict) n.version = 0;
  }
  led_to.assign(leads.size(), nullptr);
}

void Collector::finish() {
  std::vector<TensorImpl*> tensors;
  for (const Tensor& t : l_.found) tensors.push_back(t.get());
  const Sharing shared = sharing_of(tensors, l_.external);
  l_.find_leads();
  for (size_t i = 0; i < l_.tensors.size(); ++i) {
    l_.tensors[i].owner = shared.of[i].first;
    l_.tensors[i].distance = shared.of[i].second;
    l_.tensors[i].count = shared.counts[i];
  }
  for (size_t i = 0; i < l_.edges.size(); ++i)
    if (const Guard g = l_.edges[i].guard;
        (g == Guard::Float || g == Guard::Int) && l_.edges[i].access != By::Key)
      l_.numbers.push_back(static_cast<int32_t>(i));
  if (shared.overlap.first >= 0)
    l_.unknown.emplace_back(
        l_.tensors[shared.overlap.second].found_by,
        adjoint::text("it shares bytes of others with ", l_.path_of_tensor(shared.overlap.first)));
  for (size_t i = 0; i < l_.nodes.size(); ++i)
    if (l_.nodes[i].changes) l_.changing.push_back(static_cast<int32_t>(i));
}

}  // namespace adjoint::bind::paths
