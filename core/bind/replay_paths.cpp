// How a call is compared with a layout. Nothing of the program runs here: entries of dicts are read in their
// order or by names whose hashes are known, plain values are compared by their builtin types, the rest by
// address. Each object that is looked into is held for as long as the walk lasts, and each container's size
// is asked again at each step, since an allocation may let the collector run, and that anything. Start
// reading at `Walk::call`.
#include "bind/replay_paths.h"

#include <algorithm>
#include <cstring>

#include "autograd/meta.h"
#include "dispatch/operator.h"

namespace adjoint::bind::paths {

namespace {

/// What is looked up to let a type have a version.
PyObject* name_that_none_has() {
  static PyObject* const name = PyUnicode_InternFromString("");
  return name;
}

/// Of keys: strings by value, others are edges of their own.
bool same_key(PyObject* a, PyObject* b) {
  return a == b || (PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b) && PyUnicode_Compare(a, b) == 0);
}

}  // namespace

// ---- words
// --------------------------------------------------------------------------------------------------------

std::string shown(PyObject* o) {
  if (!o) return "missing";
  if (is_tensor(o)) return "a tensor";
  if (PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyUnicode_CheckExact(o) || PyBytes_CheckExact(o) ||
      PyComplex_CheckExact(o) || PyBool_Check(o) || o == Py_None || PyRange_Check(o)) {
    nb::object repr = nb::steal(PyObject_Repr(o));
    if (repr.is_valid()) {
      std::string s = nb::cast<std::string>(repr);
      return s.size() > 60 ? s.substr(0, 57) + "..." : s;
    }
    PyErr_Clear();
  }
  if (PyType_Check(o)) return adjoint::text("class ", reinterpret_cast<PyTypeObject*>(o)->tp_name);
  return adjoint::text("a ", Py_TYPE(o)->tp_name);
}

std::string Layout::path_of_node(int32_t node) const {
  const Node& n = nodes[node];
  if (n.found_by >= 0) return path(n.found_by);
  if (n.kind == Kind::Call) return "";
  if (PyObject* o = n.fact.is_valid() && PyWeakref_Check(n.fact.ptr()) ? referent(n.fact.ptr()) : nullptr) {
    nb::object held = nb::borrow(o);
    if (PyType_Check(o)) return reinterpret_cast<PyTypeObject*>(o)->tp_name;
    if (const char* name = PyModule_Check(o) ? PyModule_GetName(o) : nullptr) return name;
    PyErr_Clear();
  }
  return n.kind == Kind::Globals ? "globals" : "a class";
}

std::string Layout::path(int32_t number) const {
  const Edge& e = edges[number];
  const auto key = [&] {
    return e.key.is_valid() && PyUnicode_Check(e.key.ptr()) ? nb::cast<std::string>(e.key) : std::string();
  };
  const auto member = [&](const std::string& name) {
    const std::string base = path_of_node(e.parent);
    return base.empty() ? name : base + "." + name;
  };
  switch (e.access) {
    case Access::Function:
      return "";
    case Access::Argument:
    case Access::Keyword: {
      const std::string name = key();
      return name.empty() ? adjoint::text("argument ", e.at) : name;
    }
    case Access::Item:
      return adjoint::text(path_of_node(e.parent), "[", e.at, "]");
    case Access::Element:
      return adjoint::text("an element of ", path_of_node(e.parent));
    case Access::Key:
      return adjoint::text("key ", e.at, " of ", path_of_node(e.parent));
    case Access::Value: {
      // Members of modules are named as programs name them.
      const int32_t by = nodes[e.parent].found_by;
      const std::string name = key();
      if (by >= 0 && edges[by].access == Access::Attribute && edges[by].key.is_valid() && !name.empty()) {
        const std::string registry = nb::cast<std::string>(edges[by].key);
        if (registry == "_parameters" || registry == "_buffers" || registry == "_modules") {
          const std::string base = path_of_node(edges[by].parent);
          if (registry == "_modules" &&
              std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }))
            return adjoint::text(base, "[", name, "]");
          return base.empty() ? name : base + "." + name;
        }
      }
      return adjoint::text(path_of_node(e.parent), "[",
                           e.key.is_valid() ? shown(e.key.ptr()) : adjoint::text("key ", e.at), "]");
    }
    case Access::Attribute:
    case Access::Slot:
    case Access::ClassName:
      return member(key());
    case Access::Name: {
      const Node& n = nodes[e.parent];
      const bool of_module = n.found_by >= 0 && edges[n.found_by].access == Access::ModuleDict;
      return of_module ? member(key()) : key();
    }
    case Access::Member:
      return member(key());
    case Access::Cell:
      return key();
    case Access::Content:
    case Access::ModuleDict:
    case Access::Referent:
    case Access::Globals:
    case Access::Builtins:
      return path_of_node(e.parent);
    case Access::Defaults:
      return "the defaults of " + (path_of_node(e.parent).empty() ? "the function" : path_of_node(e.parent));
    case Access::KeywordDefaults:
      return "the keyword defaults of " +
             (path_of_node(e.parent).empty() ? "the function" : path_of_node(e.parent));
    case Access::Method:
      return member("__func__");
    case Access::Self: {
      const std::string base = path_of_node(e.parent);
      return base.empty() ? "self" : base + ".__self__";
    }
    case Access::Base:
      return adjoint::text("base ", e.at, " of ", path_of_node(e.parent));
    case Access::Grad:
      return member("grad");
  }
  return "";
}

std::string Layout::path_of_tensor(int32_t number) const {
  const TensorGuard& g = tensors[number];
  if (g.grad_of >= 0) return path_of_tensor(g.grad_of) + ".grad";
  return path(g.found_by);
}

bool Walk::fails(std::string why) {
  layout.why = std::move(why);
  return false;
}

bool Walk::fails(const Edge& e, PyObject* value) {
  const std::string path = layout.path(static_cast<int32_t>(&e - layout.edges.data()));
  const std::string name = path.empty() ? "the function" : path;
  if (e.guard == Guard::Absent) return fails(adjoint::text(name, " is ", shown(value), ", was missing"));
  if (e.guard == Guard::Node && value && nodes[e.node])
    return fails(
        adjoint::text(name, " is another object than ", layout.path_of_node(e.node), ", which it was"));
  if (e.guard == Guard::Code) return fails(adjoint::text(name, " is another function than before"));
  std::string was = e.guard == Guard::Tensor    ? "a tensor"
                    : e.guard == Guard::Node    ? "another object"
                    : e.guard == Guard::Weak    ? "another object"
                    : e.guard == Guard::Varying ? "a float"
                                                : shown(e.expected.ptr());
  return fails(adjoint::text(name, " is ", shown(value), ", was ", was));
}

bool Walk::fails(const Node& n, PyObject* value, const char* what) {
  std::string path = layout.path_of_node(static_cast<int32_t>(&n - layout.nodes.data()));
  if (path.empty()) path = "the function";
  return fails(adjoint::text(path, " is ", shown(value), what));
}

// ---- the walk
// -----------------------------------------------------------------------------------------------------

Walk::~Walk() {
  for (PyObject* o : nodes) Py_XDECREF(o);
}

bool Walk::edge(const Edge& e, PyObject* v) {
  if (e.guard == Guard::Node) {
    if (!v) return fails(e, v);
    PyObject*& place = nodes[e.node];
    if (!place) {
      place = Py_NewRef(v);
      return true;
    }
    return place == v || fails(e, v);
  }
  if (e.guard == Guard::Tensor) {
    if (!v || !is_tensor(v)) return fails(e, v);
    return tensor(e.node, unwrap(v));
  }
  if (e.guard == Guard::Varying && v && PyFloat_CheckExact(v)) {
    floats[e.node] = PyFloat_AS_DOUBLE(v);
    return true;
  }
  return passes(e, v) || fails(e, v);
}

bool Walk::tensor(int32_t number, Tensor t) {
  const TensorGuard& g = layout.tensors[number];
  Tensor& place = tensors[number];
  const auto refuse = [&](const std::string& what) {
    return fails(layout.path_of_tensor(number) + " " + what);
  };
  if (place.defined())
    return place.get() == t.get() || refuse("is another tensor than before it was shared with");
  if (!t.defined()) return !g.defined || refuse("is None, was a tensor");
  const TensorImpl* impl = t.get();
  const size_t ndim = impl->ndim;
  if (!g.defined || impl->dtype != g.dtype || ndim != g.ndim || (impl->flags & ~kUnseen) != g.flags ||
      !!impl->grad_fn != g.recorded || impl->storage->device != g.device ||
      std::memcmp(impl->sizes().data(), layout.geometry.data() + g.geometry, ndim * sizeof(int64_t)) ||
      std::memcmp(impl->strides().data(), layout.geometry.data() + g.geometry + ndim,
                  ndim * sizeof(int64_t)) ||
      is_hooked(t) != g.hooked ||
      (owner_of_bytes(impl->storage)->kind == Storage::Kind::External) != g.external) {
    std::vector<int64_t> geometry;
    const TensorGuard now = look_at(t, geometry);
    return refuse(difference(g, layout.geometry.data(), now, geometry.data()));
  }
  PyObject* object = static_cast<PyObject*>(impl->wrapper);
  if (g.node < 0) {
    if (object && Py_TYPE(object) != g.type)
      return refuse(adjoint::text("is of ", shown(reinterpret_cast<PyObject*>(Py_TYPE(object)))));
    if (!object && g.type != tensor_type) return refuse("is of another class");
    if (object) {
      PyObject* dict = reinterpret_cast<TensorObject*>(object)->dict;
      if (dict && PyDict_GET_SIZE(dict)) return refuse("has attributes, had none");
    }
  } else {
    if (!object) return refuse("is of another class");
    if (!nodes[g.node]) nodes[g.node] = Py_NewRef(object);
  }
  place = std::move(t);
  if (g.grad >= 0) return tensor(g.grad, meta_of(place) ? gradient(place) : Tensor());
  return !meta_of(place) || !gradient(place).defined() || refuse("has a gradient, had none");
}

bool Walk::attributes(const Node& n, PyObject* dict) {
  if ((dict ? PyDict_GET_SIZE(dict) : 0) != n.named) {
    // The name that is too many, or missing, says more than the number.
    const std::string path = layout.path_of_node(static_cast<int32_t>(&n - layout.nodes.data()));
    return fails(adjoint::text(path.empty() ? "the function" : path, " has ",
                               dict ? PyDict_GET_SIZE(dict) : 0, " attributes, had ", n.named));
  }
  if (!dict) return true;
  Py_ssize_t at = 0;
  PyObject *key, *value;
  for (int32_t i = n.split; i < n.slots; ++i) {
    if (!PyDict_Next(dict, &at, &key, &value)) return fails(layout.edges[i], nullptr);
    const Edge& e = layout.edges[i];
    if (!same_key(e.key.ptr(), key))
      return fails(adjoint::text(layout.path(i), " is not where it was: attributes were added or removed"));
    if (!edge(e, value)) return false;
  }
  return true;
}

bool Walk::globals(Node& n, PyObject* dict) {
  if (!PyDict_Check(dict)) return fails(n, dict, ", was globals");
  const uint64_t version = version_of_dict(dict);
  const bool known = version && version == n.version;
  for (int32_t i = known ? n.split : n.first; i < n.end; ++i) {
    const Edge& e = layout.edges[i];
    PyObject* value = PyDict_GetItemWithError(dict, e.key.ptr());
    if (!value && PyErr_Occurred()) PyErr_Clear();
    if (!edge(e, value)) return false;
  }
  if (known) return true;
  if (n.strict && version) return fails(n, dict, " that changed, and any of its names may be read");
  if (n.by_attributes) {
    // Names of a module that were not there, and are looked up now.
    Py_ssize_t count = 0;
    for (nb::handle name : layout.ordered)
      if (PyDict_GetItemWithError(dict, name.ptr())) ++count;
    if (PyErr_Occurred()) PyErr_Clear();
    if (count != n.length) return fails(n, dict, " with other names than before");
  }
  n.version = version;
  return true;
}

bool Walk::klass(Node& n, PyObject* o) {
  auto* const type = reinterpret_cast<PyTypeObject*>(o);
  const uint64_t version = version_of_type(type);
  const bool known = version && version == n.version;
  for (int32_t i = known ? n.split : n.first; i < n.end; ++i) {
    const Edge& e = layout.edges[i];
    PyObject* value = nullptr;
    if (e.access == Access::Base) {
      if (PyTuple_GET_SIZE(type->tp_mro) != n.length) return fails(n, o, " with other bases than before");
      value = PyTuple_GET_ITEM(type->tp_mro, e.at);
    } else {
      value = _PyType_Lookup(type, e.key.ptr());
    }
    if (!edge(e, value)) return false;
  }
  if (known) return true;
  if (n.strict) return fails(n, o, ", which was changed");
  _PyType_Lookup(type, name_that_none_has());
  n.version = version_of_type(type);
  return true;
}

bool Walk::node(int32_t number) {
  Node& n = layout.nodes[number];
  PyObject* const o = nodes[number];
  if (!o) return fails(adjoint::text(layout.path_of_node(number), " is not reached any more"));
  if (n.type ? Py_TYPE(o) != n.type
             : n.class_node >= 0 && nodes[n.class_node] != reinterpret_cast<PyObject*>(Py_TYPE(o)))
    return fails(n, o, ", was of another class");
  const std::vector<Edge>& edges = layout.edges;
  const auto member = [&](const Edge& e) {
    nb::object value = nb::steal(PyObject_GetAttr(o, e.key.ptr()));
    if (!value.is_valid()) PyErr_Clear();
    return edge(e, value.ptr());
  };
  switch (n.kind) {
    case Kind::Call:
    case Kind::Tensor:
      break;
    case Kind::Plain:
      for (int32_t i = n.first; i < n.split; ++i)
        if (!member(edges[i])) return false;
      break;
    case Kind::List:
      if (PyList_GET_SIZE(o) != n.length)
        return fails(n, o, adjoint::text(" of ", PyList_GET_SIZE(o), " items, had ", n.length).c_str());
      for (int32_t i = n.first; i < n.split; ++i) {
        const Edge& e = edges[i];
        if (e.at >= PyList_GET_SIZE(o)) return fails(e, nullptr);
        if (!edge(e, PyList_GET_ITEM(o, e.at))) return false;
      }
      break;
    case Kind::Tuple:
      if (PyTuple_GET_SIZE(o) != n.length)
        return fails(n, o, adjoint::text(" of ", PyTuple_GET_SIZE(o), " items, had ", n.length).c_str());
      for (int32_t i = n.first; i < n.split; ++i)
        if (!edge(edges[i], PyTuple_GET_ITEM(o, edges[i].at))) return false;
      break;
    case Kind::Dict: {
      if (PyDict_GET_SIZE(o) != n.length)
        return fails(n, o, adjoint::text(" of ", PyDict_GET_SIZE(o), " entries, had ", n.length).c_str());
      Py_ssize_t at = 0;
      PyObject *key, *value;
      for (int32_t i = n.first; i < n.split; i += 2) {
        if (!PyDict_Next(o, &at, &key, &value)) return fails(edges[i], nullptr);
        nb::object held = nb::borrow(value);
        if (!edge(edges[i], key) || !edge(edges[i + 1], value)) return false;
      }
      if (n.ordered && !in_order(o)) return fails(n, o, " in another order");
      break;
    }
    case Kind::Set: {
      if (PySet_GET_SIZE(o) != n.length)
        return fails(n, o, adjoint::text(" of ", PySet_GET_SIZE(o), " elements, had ", n.length).c_str());
      nb::object elements = nb::steal(elements_of(o));
      if (!elements.is_valid() || PyList_GET_SIZE(elements.ptr()) != n.length) {
        PyErr_Clear();
        return fails(n, o, " that changes");
      }
      for (int32_t i = n.first; i < n.split; ++i)
        if (!edge(edges[i], PyList_GET_ITEM(elements.ptr(), edges[i].at))) return false;
      break;
    }
    case Kind::Number: {
      nb::object value = nb::steal(base_value(o));
      if (!value.is_valid()) PyErr_Clear();
      if (!edge(edges[n.first], value.ptr())) return false;
      break;
    }
    case Kind::Function: {
      auto* const f = reinterpret_cast<PyFunctionObject*>(o);
      if (f->func_code != n.fact.ptr()) return fails(n, o, " of other code than before");
      for (int32_t i = n.first; i < n.split; ++i) {
        const Edge& e = edges[i];
        PyObject* value = nullptr;
        switch (e.access) {
          case Access::Cell:
            value = f->func_closure && e.at < PyTuple_GET_SIZE(f->func_closure)
                        ? PyTuple_GET_ITEM(f->func_closure, e.at)
                        : nullptr;
            break;
          case Access::Defaults:
            value = f->func_defaults;
            break;
          case Access::KeywordDefaults:
            value = f->func_kwdefaults;
            break;
          default:
            value = f->func_globals;
        }
        if (!edge(e, value)) return false;
      }
      break;
    }
    case Kind::Cell:
      if (!edge(edges[n.first], PyCell_GET(o))) return false;
      break;
    case Kind::Method:
      if (!edge(edges[n.first], PyMethod_GET_FUNCTION(o)) || !edge(edges[n.first + 1], PyMethod_GET_SELF(o)))
        return false;
      break;
    case Kind::Builtin: {
      auto* const f = reinterpret_cast<PyCFunctionObject*>(o);
      if (reinterpret_cast<uint64_t>(f->m_ml) != n.version) return fails(n, o, ", another than before");
      if (!edge(edges[n.first], f->m_self)) return false;
      break;
    }
    case Kind::Weakref:
      if (!edge(edges[n.first], referent(o))) return false;
      break;
    case Kind::Module:
      if (!PyModule_Check(o)) return fails(n, o, ", was a module");
      if (!edge(edges[n.first], PyModule_GetDict(o))) return false;
      break;
    case Kind::Globals:
      return globals(n, o);
    case Kind::Class:
      return klass(n, o);
  }
  if (n.attributes) {
    nb::object dict = nb::steal(attributes_of(o, n.kind));
    if (!attributes(n, dict.ptr())) return false;
  }
  for (int32_t i = n.slots; i < n.end; ++i) {
    const Edge& e = edges[i];
    if (!(e.access == Access::Member
              ? member(e)
              : edge(e, *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(o) + e.at))))
      return false;
  }
  return true;
}

bool Walk::sharing() {
  if (tensors.size() < 2) return true;
  const Sharing now = sharing_of(tensors, layout.external);
  const auto two = [&](std::pair<int32_t, int32_t> pair, const char* what) {
    return fails(
        adjoint::text(layout.path_of_tensor(pair.first), " and ", layout.path_of_tensor(pair.second), what));
  };
  if (now.twice.first >= 0) return two(now.twice, " are the same tensor, were two");
  if (now.overlap.first >= 0) return two(now.overlap, " share memory that did not");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorGuard& g = layout.tensors[i];
    if (!g.defined) continue;
    const auto [owner, distance] = now.of[i];
    if (owner != g.owner || distance != g.distance) {
      const auto number = static_cast<int32_t>(i);
      return two({owner != number ? owner : g.owner, number}, " share memory otherwise than before");
    }
  }
  return true;
}

bool Walk::distinct() {
  const std::vector<int32_t>& changing = layout.changing;
  if (changing.size() < 2) return true;
  Addresses seen(changing.size());
  for (int32_t number : changing) {
    const int32_t first = seen.first(nodes[number], number);
    if (first != number)
      return fails(adjoint::text(layout.path_of_node(first), " and ", layout.path_of_node(number),
                                 " are the same object, were two"));
  }
  return true;
}

bool Walk::libraries() {
  for (Layout::Library& l : layout.libraries) {
    const uint64_t version = version_of_dict(l.dict.ptr());
    if (version && version == l.version) continue;
    size_t i = 0;
    for (nb::handle name : l.names) {
      PyObject* value = PyDict_GetItemWithError(l.dict.ptr(), name.ptr());
      if (value != l.values[i++].ptr())
        return fails(adjoint::text(nb::cast<std::string>(name), " of the library was replaced"));
    }
    l.version = version;
  }
  return true;
}

bool Walk::call(PyObject* function, PyObject* args, PyObject* kwargs) {
  const Node& top = layout.nodes.front();
  nodes.assign(layout.nodes.size(), nullptr);
  tensors.assign(layout.tensors.size(), Tensor());
  floats.assign(layout.varying.size(), 0.0);
  if (PyTuple_GET_SIZE(args) != top.length)
    return fails(adjoint::text(PyTuple_GET_SIZE(args), " positional arguments, were ", top.length));
  if ((kwargs ? PyDict_GET_SIZE(kwargs) : 0) != top.named)
    return fails(adjoint::text(kwargs ? PyDict_GET_SIZE(kwargs) : 0, " keyword arguments, were ", top.named));
  for (int32_t number : layout.own) {
    nodes[number] = Py_XNewRef(itself(layout.nodes[number]));
    if (!nodes[number]) return fails(adjoint::text(layout.path_of_node(number), " is gone"));
  }
  if (!edge(layout.edges[0], function)) return false;
  for (int32_t i = top.first + 1; i < top.split; ++i)
    if (!edge(layout.edges[i], PyTuple_GET_ITEM(args, layout.edges[i].at))) return false;
  Py_ssize_t at = 0;
  PyObject *key, *value;
  for (int32_t i = top.split; i < top.end; ++i) {
    if (!PyDict_Next(kwargs, &at, &key, &value)) return fails(layout.edges[i], nullptr);
    if (!same_key(layout.edges[i].key.ptr(), key))
      return fails("keyword arguments differ, or their order does");
    if (!edge(layout.edges[i], value)) return false;
  }
  for (size_t i = 1; i < nodes.size(); ++i)
    if (!node(static_cast<int32_t>(i))) return false;
  return libraries() && distinct() && sharing();
}

}  // namespace adjoint::bind::paths
