// What a run changed of what it could reach, and how two layouts differ. Changes are read from the very
// objects that were collected, which a layout holds until it is told to release them. Start reading at
// `Comparison`.
#include <algorithm>
#include <unordered_map>

#include "autograd/meta.h"
#include "bind/replay_paths.h"
#include "dispatch/operator.h"
#include "for_size.h"

namespace adjoint::bind::paths {

namespace {

nb::object object_or_none(PyObject* o) { return o ? nb::borrow(o) : nb::none(); }

class Comparison {
 public:
  explicit Comparison(Layout& l) : l_(l) {}
  nb::list all() {
    for (size_t i = 1; i < l_.nodes.size(); ++i) node(static_cast<int32_t>(i));
    for (size_t i = 0; i < l_.tensors.size(); ++i) tensor(i);
    return changes_;
  }

 private:
  void tell(const char* kind, int32_t node, PyObject* key, PyObject* was, PyObject* now) {
    changes_.append(nb::make_tuple(kind, node, l_.path_of_node(node), object_or_none(key),
                                   object_or_none(was), object_or_none(now), was != nullptr, now != nullptr));
  }
  bool same(int32_t edge, PyObject* now) const {
    const Edge& e = l_.edges[edge];
    return l_.children[edge].ptr() == now ||
           (e.guard != Guard::Node && e.guard != Guard::Tensor && e.guard != Guard::Any && passes(e, now));
  }
  void item(const char* kind, int32_t node, int32_t edge, PyObject* key, PyObject* now) {
    if (!same(edge, now)) tell(kind, node, key, l_.children[edge].ptr(), now);
  }

  /// Entries of a dict that were there, given by their keys and the edges of their values.
  void entries(const char* kind, int32_t node, PyObject* dict,
               const std::vector<std::pair<PyObject*, int32_t>>& before) {
    Py_ssize_t at = 0;
    PyObject *key, *value;
    size_t i = 0;
    // In the same order, as nearly always, without a table.
    const size_t count = dict ? static_cast<size_t>(PyDict_GET_SIZE(dict)) : 0;
    bool aligned = true;
    while (dict && i < before.size() && PyDict_Next(dict, &at, &key, &value)) {
      if (key != before[i].first) {
        aligned = false;
        break;
      }
      ++i;
    }
    aligned = aligned && i == before.size();
    if (aligned && count == before.size()) {
      at = 0;
      for (i = 0; i < count && PyDict_Next(dict, &at, &key, &value); ++i)
        item(kind, node, before[i].second, key, value);
      return;
    }
    std::unordered_map<PyObject*, PyObject*> now;
    std::vector<PyObject*> added;
    std::unordered_map<PyObject*, int32_t> known;
    for (const auto& [k, edge] : before) known.emplace(k, edge);
    at = 0;
    while (dict && PyDict_Next(dict, &at, &key, &value)) {
      now.emplace(key, value);
      if (!known.contains(key)) added.push_back(key);
    }
    for (const auto& [k, edge] : before) {
      const auto found = now.find(k);
      item(kind, node, edge, k, found == now.end() ? nullptr : found->second);
    }
    for (PyObject* k : added) tell(kind, node, k, nullptr, now[k]);
    if (!aligned && count == before.size() && added.empty()) tell("order", node, nullptr, nullptr, nullptr);
  }

  void node(int32_t number) {
    const Node& n = l_.nodes[number];
    nb::object held = l_.objects[number];
    PyObject* const o = held.ptr();
    if (!o) return;
    const bool typed = n.type || n.class_node >= 0;
    if (typed &&
        Py_TYPE(o) != (n.type ? n.type : reinterpret_cast<PyTypeObject*>(l_.objects[n.class_node].ptr())))
      tell("class", number, nullptr, nullptr, reinterpret_cast<PyObject*>(Py_TYPE(o)));
    switch (n.kind) {
      case Kind::List: {
        const Py_ssize_t count = PyList_GET_SIZE(o);
        for (Py_ssize_t i = 0; i < std::min(count, n.length); ++i)
          item("item", number, n.first + static_cast<int32_t>(i), nb::int_(i).ptr(), PyList_GET_ITEM(o, i));
        if (count > n.length) {
          nb::object added = nb::steal(PyList_GetSlice(o, n.length, count));
          tell("append", number, nb::int_(n.length).ptr(), nullptr, added.ptr());
        } else if (count < n.length) {
          tell("shorten", number, nb::int_(count).ptr(), nullptr, nullptr);
        }
        break;
      }
      case Kind::Dict: {
        std::vector<std::pair<PyObject*, int32_t>> before;
        for (int32_t i = n.first; i < n.split; i += 2) before.emplace_back(l_.children[i].ptr(), i + 1);
        entries("key", number, o, before);
        // Its own order is not that of its entries.
        if (n.ordered && !in_order(o)) tell("order", number, nullptr, nullptr, nullptr);
        break;
      }
      case Kind::Set: {
        nb::object elements = nb::steal(elements_of(o));
        if (!elements.is_valid()) throw nb::python_error();
        bool changed = PyList_GET_SIZE(elements.ptr()) != n.length;
        for (int32_t i = n.first; !changed && i < n.split; ++i)
          changed = !same(i, PyList_GET_ITEM(elements.ptr(), i - n.first));
        if (changed) tell("set", number, nullptr, nullptr, nullptr);
        break;
      }
      case Kind::Cell:
        item("cell", number, n.first, nullptr, PyCell_GET(o));
        break;
      case Kind::Function: {
        auto* const f = reinterpret_cast<PyFunctionObject*>(o);
        if (f->func_code != n.fact.ptr()) tell("code", number, nullptr, nullptr, nullptr);
        for (int32_t i = n.first; i < n.split; ++i) {
          if (l_.edges[i].access == By::Inner)
            item("attribute of a function", number, i, nullptr, inner(o, l_.edges[i].at));
          if (l_.edges[i].access == By::Defaults) item("defaults", number, i, nullptr, f->func_defaults);
          if (l_.edges[i].access == By::KeywordDefaults)
            item("defaults", number, i, nullptr, f->func_kwdefaults);
        }
        break;
      }
      case Kind::Globals: {
        for (int32_t i = n.first; i < n.end; ++i)
          item("global", number, i, l_.edges[i].key.ptr(), PyDict_GetItemWithError(o, l_.edges[i].key.ptr()));
        if (n.by_attributes && (version_of_dict(o) != n.version || !n.version))
          for (nb::handle name : l_.own_names)
            if (PyObject* now = PyDict_GetItemWithError(o, name.ptr()); now && !has_edge(n, name.ptr()))
              tell("global", number, name.ptr(), nullptr, now);
        if (PyErr_Occurred()) throw nb::python_error();
        break;
      }
      case Kind::Class: {
        auto* const type = reinterpret_cast<PyTypeObject*>(o);
        if (n.version && version_of_type(type) == n.version) break;
        for (int32_t i = n.first; i < n.end; ++i)
          if (l_.edges[i].access == By::ClassName)
            item("class attribute", number, i, l_.edges[i].key.ptr(),
                 _PyType_Lookup(type, l_.edges[i].key.ptr()));
        for (nb::handle name : l_.names)
          if (PyObject* now = _PyType_Lookup(type, name.ptr());
              now && !n.strict && !has_edge(n, name.ptr()) && PyObject_HasAttr(o, name.ptr()) &&
              owns(type, name.ptr()))
            tell("class attribute", number, name.ptr(), nullptr, now);
        break;
      }
      default:
        break;
    }
    if (n.attributes) {
      nb::object dict = nb::steal(attributes_of(o, n.kind));
      std::vector<std::pair<PyObject*, int32_t>> before;
      for (int32_t i = n.split; i < n.slots; ++i)
        if (!n.wraps || l_.edges[i].guard != Guard::Any) before.emplace_back(l_.edges[i].key.ptr(), i);
      if (n.wraps)
        for (const auto& [key, edge] : before)
          item("attribute", number, edge, key,
               dict.is_valid() ? PyDict_GetItemWithError(dict.ptr(), key) : nullptr);
      else
        entries("attribute", number, dict.ptr(), before);
    }
    for (int32_t i = n.slots; i < n.end; ++i)
      if (l_.edges[i].access == By::Slot)
        item("slot", number, i, l_.edges[i].key.ptr(),
             *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(o) + l_.edges[i].at));
  }

  bool has_edge(const Node& n, PyObject* name) const {
    for (int32_t i = n.first; i < n.end; ++i)
      if (l_.edges[i].key.is_valid() && PyUnicode_Compare(l_.edges[i].key.ptr(), name) == 0) return true;
    return false;
  }
  static bool owns(PyTypeObject* type, PyObject* name) {
    nb::object dict = nb::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dict__"));
    return dict.is_valid() && PyMapping_HasKey(dict.ptr(), name) == 1;
  }

  void tensor(size_t i) {
    const TensorGuard& g = l_.tensors[i];
    const Tensor& t = l_.found[i];
    if (!t.defined()) return;
    const auto tell_of = [&](const char* kind, nb::object was, nb::object now, bool before, bool after) {
      changes_.append(
          nb::make_tuple(kind, -1, l_.path_of_tensor(static_cast<int32_t>(i)), i, was, now, before, after));
    };
    const Tensor grad = gradient(t), was = g.grad >= 0 ? l_.found[g.grad] : Tensor();
    if (grad.get() != was.get())
      tell_of("grad", nb::steal(wrap(was)), nb::steal(wrap(grad)), was.defined(), grad.defined());
    std::vector<int64_t> geometry;
    if (look_at(t, geometry).hooks != g.hooks) tell_of("hooks", nb::none(), nb::none(), true, true);
    PyObject* object = static_cast<PyObject*>(t->wrapper);
    if (g.node < 0 && object) {
      PyObject* dict = reinterpret_cast<TensorObject*>(object)->dict;
      if (dict && PyDict_GET_SIZE(dict))
        tell_of("attribute of a tensor", nb::none(), nb::borrow(dict), false, true);
    }
  }

  Layout& l_;
  nb::list changes_;
};

/// What an edge leads to from its parent, new; null without an error when it is not there.
nb::object follow(const Edge& e, PyObject* o, const Node& parent) {
  switch (e.access) {
    case By::Item:
      if (PyList_Check(o))
        return e.at < PyList_GET_SIZE(o) ? nb::borrow(PyList_GET_ITEM(o, e.at)) : nb::object();
      return PyTuple_Check(o) && e.at < PyTuple_GET_SIZE(o) ? nb::borrow(PyTuple_GET_ITEM(o, e.at))
                                                            : nb::object();
    case By::Key:
    case By::Value: {
      Py_ssize_t at = 0;
      PyObject *key, *value;
      for (int32_t i = 0; PyDict_Check(o) && PyDict_Next(o, &at, &key, &value); ++i)
        if (i == e.at) return nb::borrow(e.access == By::Key ? key : value);
      return {};
    }
    case By::Element: {
      nb::object elements = nb::steal(elements_of(o));
      return elements.is_valid() && e.at < PyList_GET_SIZE(elements.ptr())
                 ? nb::borrow(PyList_GET_ITEM(elements.ptr(), e.at))
                 : nb::object();
    }
    case By::Attribute: {
      nb::object dict = nb::steal(attributes_of(o, parent.kind));
      return dict.is_valid() ? nb::borrow(PyDict_GetItemWithError(dict.ptr(), e.key.ptr())) : nb::object();
    }
    case By::Slot:
      return nb::borrow(*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(o) + e.at));
    case By::Cell: {
      PyObject* closure = reinterpret_cast<PyFunctionObject*>(o)->func_closure;
      return closure && e.at < PyTuple_GET_SIZE(closure) ? nb::borrow(PyTuple_GET_ITEM(closure, e.at))
                                                         : nb::object();
    }
    case By::Content:
      return PyCell_Check(o) ? nb::borrow(PyCell_GET(o)) : nb::object();
    case By::Defaults:
      return nb::borrow(reinterpret_cast<PyFunctionObject*>(o)->func_defaults);
    case By::KeywordDefaults:
      return nb::borrow(reinterpret_cast<PyFunctionObject*>(o)->func_kwdefaults);
    case By::Globals:
      return nb::borrow(reinterpret_cast<PyFunctionObject*>(o)->func_globals);
    case By::Method:
      return nb::borrow(PyMethod_GET_FUNCTION(o));
    case By::Self:
      return nb::borrow(PyMethod_Check(o) ? PyMethod_GET_SELF(o) : PyCFunction_GET_SELF(o));
    case By::Member: {
      nb::object value = nb::steal(member_of(o, e.key.ptr()));
      if (!value.is_valid()) PyErr_Clear();
      return value;
    }
    case By::Referent:
      return nb::borrow(referent(o));
    case By::Inner:
      return nb::borrow(inner(o, e.at));
    case By::Hook: {
      const auto all = is_tensor(o) ? python_hooks(unwrap(o)) : std::vector<HookOfPython>();
      return static_cast<size_t>(e.at) < all.size()
                 ? nb::borrow(all[static_cast<size_t>(e.at)].function.get())
                 : nb::object();
    }
    case By::ModuleDict:
      return nb::borrow(PyModule_GetDict(o));
    case By::Name:
      return nb::borrow(PyDict_GetItemWithError(o, e.key.ptr()));
    case By::ClassName:
      return nb::borrow(_PyType_Lookup(reinterpret_cast<PyTypeObject*>(o), e.key.ptr()));
    default:
      return {};
  }
}

}  // namespace

nb::list changes(Layout& l) { return Comparison(l).all(); }

nb::object reach(Layout& l, int32_t number, PyObject* function, PyObject* args, PyObject* kwargs) {
  std::vector<int32_t> edges;
  nb::object o;
  for (int32_t at = number;;) {
    const Node& n = l.nodes[at];
    if (n.fact.is_valid() && (n.kind == Kind::Class || (n.kind == Kind::Globals && n.found_by < 0))) {
      o = nb::borrow(itself(n));
      break;
    }
    if (n.found_by < 0) break;
    edges.push_back(n.found_by);
    at = l.edges[n.found_by].parent;
    if (at == 0) break;
  }
  for (auto i = edges.rbegin(); i != edges.rend(); ++i) {
    const Edge& e = l.edges[*i];
    if (e.access == By::Function)
      o = nb::borrow(function);
    else if (e.access == By::Argument)
      o = e.at < PyTuple_GET_SIZE(args) ? nb::borrow(PyTuple_GET_ITEM(args, e.at)) : nb::object();
    else if (e.access == By::Keyword)
      o = kwargs ? nb::borrow(PyDict_GetItemWithError(kwargs, e.key.ptr())) : nb::object();
    else if (o.is_valid())
      o = follow(e, o.ptr(), l.nodes[e.parent]);
  }
  return o;
}

std::string difference(const Layout& a, const Layout& b, const std::vector<int32_t>& but) {
  const auto equal_but = [](const Edge& x, const Edge& y) {
    const Guard g = number_guard(x);
    return g == number_guard(y) && (g == Guard::Float || g == Guard::Int);
  };
  const auto fact = [](const Node& n) {
    PyObject* o = n.fact.ptr();
    return o && PyWeakref_Check(o) ? referent(o) : o;
  };
  const size_t edges = std::min(a.edges.size(), b.edges.size());
  for (size_t i = 0; i < edges; ++i) {
    const Edge &x = a.edges[i], &y = b.edges[i];
    const auto at = static_cast<int32_t>(i);
    if (x.parent != y.parent || x.access != y.access)
      return adjoint::text(a.path(at), " and ", b.path(at), " are read at the same place");
    const bool keys = x.key.is_valid() == y.key.is_valid() &&
                      (!x.key.is_valid() || x.key.is(y.key) ||
                       PyObject_RichCompareBool(x.key.ptr(), y.key.ptr(), Py_EQ) == 1);
    if (!keys) return adjoint::text(a.path(at), " and ", b.path(at), " are read at the same place");
    bool equal = x.guard == y.guard && x.node == y.node;
    if (equal && x.guard == Guard::Weak)
      equal = referent(x.expected.ptr()) == referent(y.expected.ptr());
    else if (equal && x.guard == Guard::Code)
      equal = x.expected.is(y.expected);
    else if (equal && (x.guard == Guard::Address || x.guard == Guard::Builtin))
      equal = x.bits == y.bits;
    else if (equal && x.guard != Guard::Node && x.guard != Guard::Tensor && x.guard != Guard::Absent &&
             x.guard != Guard::Varying)
      equal = passes(x, y.expected.ptr());
    if (!equal && !(equal_but(x, y) && std::ranges::find(but, at) != but.end()))
      return adjoint::text(
          a.path(at).empty() ? "the function" : a.path(at), " is ",
          y.expected.is_valid() && y.guard != Guard::Weak ? shown(y.expected.ptr()) : "something else",
          ", was ",
          x.expected.is_valid() && x.guard != Guard::Weak ? shown(x.expected.ptr()) : "something else");
  }
  if (a.nodes.size() != b.nodes.size() || a.edges.size() != b.edges.size()) return "more is read, or less";
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    const Node &x = a.nodes[i], &y = b.nodes[i];
    if (x.kind != y.kind || x.type != y.type || x.class_node != y.class_node || x.length != y.length ||
        x.named != y.named || fact(x) != fact(y) || x.changes != y.changes ||
        (x.kind == Kind::Builtin && x.version != y.version))
      return adjoint::text(a.path_of_node(static_cast<int32_t>(i)), " is of another kind or size");
  }
  if (a.tensors.size() != b.tensors.size()) return "more tensors are read, or fewer";
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const TensorGuard &x = a.tensors[i], &y = b.tensors[i];
    const std::string differs = difference(x, a.geometry.data(), y, b.geometry.data());
    if (!differs.empty()) return adjoint::text(a.path_of_tensor(static_cast<int32_t>(i)), " ", differs);
    if (x.owner != y.owner || x.distance != y.distance || x.count != y.count)
      return adjoint::text(a.path_of_tensor(static_cast<int32_t>(i)), " shares memory otherwise");
    if (x.type != y.type || x.grad != y.grad || x.node != y.node)
      return adjoint::text(a.path_of_tensor(static_cast<int32_t>(i)), " is of another class");
  }
  return {};
}

bool Layout::take(PyObject* function, PyObject* args, PyObject* kwargs, Layout& other) {
  if (!objects.empty() || !varying.empty()) return false;
  why.clear();
  std::vector<nb::object> kept(edges.size());
  Walk walk(*this, &kept);
  // What the collector ran meanwhile may have taken it, too.
  bool fits = walk.call(function, args, kwargs) && objects.empty();
  Layout& l = walk.others().empty() ? *this : other;
  if (fits && &l == &other) other = *this;
  for (int32_t i : walk.others()) {
    const auto k = static_cast<size_t>(i);
    if (fits) {
      Edge& e = other.edges[k];
      const Guard guard = e.guard;
      fits = guard_value(e, kept[k].ptr()) && e.guard == guard;
    }
    // What holds it has no version in this one at which all was as expected.
    Node& n = nodes[static_cast<size_t>(edges[k].parent)];
    n.attributes_version = 0;
    if (n.kind == Kind::Globals || n.kind == Kind::Class || n.kind == Kind::Dict) n.version = 0;
  }
  if (!fits) return false;
  l.children = std::move(kept);
  l.objects.reserve(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) l.objects.push_back(nb::borrow(walk.object(i)));
  l.found.reserve(walk.count());
  for (size_t i = 0; i < walk.count(); ++i) {
    l.found.push_back(walk.tensor(i) ? Tensor::share(walk.tensor(i)) : Tensor());
    if (l.tensors[i].hooked) l.tensors[i].hooks = hooks_on(l.found.back());
  }
  return true;
}

}  // namespace adjoint::bind::paths
