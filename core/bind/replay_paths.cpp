// How a call is compared with a layout. Nothing of the program runs here: entries of dicts are read in their
// order or by names whose hashes are known, plain values are compared by their builtin types, the rest by
// address. Each object that is looked into is held for as long as the walk lasts, and each container's size
// is asked again at each step, since an allocation may let the collector run, and that anything. Start
// reading at `Walk::call`.
#include "bind/replay_paths.h"

#include <algorithm>
#include <cstring>

#include "autograd/meta.h"
#include "bind/replay_types.h"
#include "bind/words.h"
#include "dispatch/operator.h"

namespace adjoint::bind::paths {

namespace {

/// Of keys: strings by value, others are edges of their own.
bool same_key(PyObject* a, PyObject* b) {
  return a == b || (PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b) && PyUnicode_Compare(a, b) == 0);
}

}  // namespace

Walk::Scratch& Walk::kept() {
  thread_local Scratch scratch;
  return scratch;
}

Walk::Walk(Layout& l, std::vector<nb::object>* keep) : layout(l), keep_(keep), scratch_(std::move(kept())) {}

Walk::~Walk() {
  for (PyObject* o : nodes) Py_XDECREF(o);
  for (const Found& f : scratch_.tensors)
    if (f.object)
      Py_DECREF(f.object);
    else if (f.impl)
      Tensor::steal(f.impl);
  // What died just now may have walked, too.
  nodes.clear();
  scratch_.tensors.clear();
  kept() = std::move(scratch_);
}

PyObject* Walk::take(size_t i) {
  const Found& f = scratch_.tensors[i];
  return f.object ? Py_NewRef(f.object) : wrap(Tensor::share(f.impl));
}

inline bool Walk::edge(const Edge& e, PyObject* v) {
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
    return found(e.node, v, unwrap(v).get());
  }
  if (e.guard == Guard::Varying && v && passes(e, v)) {
    scratch_.numbers[e.node] =
        PyFloat_CheckExact(v) ? Scalar(PyFloat_AS_DOUBLE(v)) : Scalar(int64_t{PyLong_AsLongLong(v)});
    return true;
  }
  return passes(e, v) || fails(e, v);
}

/// The same where the object may have to be kept.
inline bool Walk::look(const Edge& e, PyObject* v) {
  if (keep_) [[unlikely]] {
    const auto i = static_cast<size_t>(&e - layout.edges.data());
    (*keep_)[i] = nb::borrow(v);
    const bool number = (e.guard == Guard::Int || e.guard == Guard::Float) && e.access != By::Key;
    if (number && v && Py_TYPE(v) == Py_TYPE(e.expected.ptr()) && !passes(e, v)) {
      others_.push_back(static_cast<int32_t>(i));
      return true;
    }
  }
  return edge(e, v);
}

/// A tensor that Python holds by an object, or a gradient, of which the caller holds one count for this walk.
bool Walk::found(int32_t number, PyObject* object, TensorImpl* impl) {
  const TensorGuard& g = layout.tensors[number];
  Found& place = scratch_.tensors[number];
  const auto refuse = [&](const std::string& what) {
    return fails(layout.path_of_tensor(number) + " " + what);
  };
  if (place.impl) {
    if (!object) Tensor::steal(impl);
    return place.impl == impl || refuse("is not the tensor that it was shared with");
  }
  if (!impl) return !g.defined || refuse("is None, was a tensor");
  place.impl = impl;
  if (object)
    place.object = Py_NewRef(object);
  else
    object = static_cast<PyObject*>(impl->wrapper);
  const size_t ndim = impl->ndim;
  const int64_t* const geometry = layout.geometry.data() + g.geometry;
  const Tensor& t = reinterpret_cast<const Tensor&>(place.impl);
  // Of few dimensions: no call of memcmp.
  const int64_t *const dims = impl->dims(), *const strides = impl->strides().data();
  bool lies = ndim == g.ndim;
  for (size_t i = 0; lies && i < ndim; ++i) lies = geometry[i] == dims[i] && geometry[ndim + i] == strides[i];
  if (!g.defined || !lies || impl->dtype != g.dtype || (impl->flags & ~kUnseen) != g.flags ||
      !!impl->grad_fn != g.recorded || impl->storage->device != g.device ||
      ((impl->grad_fn || meta_of(t)) && is_hooked(t)) != g.hooked ||
      (g.hooked && gradient_type_of(t) != g.gradient_type) ||
      (impl->storage->kind == Storage::Kind::External &&
       owner_of_bytes(impl->storage)->kind == Storage::Kind::External) != g.external) {
    std::vector<int64_t> now;
    const TensorGuard seen = look_at(t, now);
    return refuse(difference(g, layout.geometry.data(), seen, now.data()));
  }
  if (g.node < 0) {
    if (object ? Py_TYPE(object) != g.type : g.type != tensor_type) return refuse("is of another class");
    PyObject* dict = object ? reinterpret_cast<TensorObject*>(object)->dict : nullptr;
    if (dict && PyDict_GET_SIZE(dict)) return refuse("has attributes, had none");
  } else {
    if (!object) return refuse("is of another class");
    if (!nodes[g.node]) nodes[g.node] = Py_NewRef(object);
  }
  Tensor grad = meta_of(t) ? gradient(t) : Tensor();
  if (g.grad >= 0) return found(g.grad, nullptr, grad.detach());
  return !grad.defined() || refuse("has a gradient, had none");
}

void Walk::hold(PyObject* list) const {
  for (PyObject* o : nodes) {
    nb::object held = nb::borrow(o ? o : Py_None);
    if (o && !PyTuple_Check(o) && PyType_SUPPORTS_WEAKREFS(Py_TYPE(o))) {
      nb::object weak = nb::steal(PyWeakref_NewRef(o, nullptr));
      if (weak.is_valid())
        held = weak;
      else
        PyErr_Clear();
    }
    PyList_Append(list, held.ptr());
  }
}

/// What a dict held when it had the version that it has now.
inline bool Walk::led(int32_t first, int32_t end) {
  for (int32_t i = first; i < end; ++i) {
    const Edge& e = layout.edges[layout.leads[i]];
    if (!edge(e, layout.led_to[i])) return false;
  }
  return true;
}

bool Walk::attributes(Node& n, PyObject* dict) {
  const uint64_t version = dict ? version_of_attributes(dict) : 0;
  if (version && version == n.attributes_version && !keep_) return led(n.leads_of_attributes, n.leads_end);
  if ((dict ? PyDict_GET_SIZE(dict) : 0) != n.named) {
    const std::string path = layout.path_of_node(static_cast<int32_t>(&n - layout.nodes.data()));
    return fails(adjoint::text(path.empty() ? "the function" : path, " has ",
                               dict ? PyDict_GET_SIZE(dict) : 0, " attributes, had ", n.named));
  }
  if (!dict) return true;
  n.attributes_version = 0;
  Py_ssize_t at = 0;
  PyObject *key, *value;
  int32_t lead = n.leads_of_attributes;
  for (int32_t i = n.split; i < n.slots; ++i) {
    if (!PyDict_Next(dict, &at, &key, &value)) return fails(layout.edges[i], nullptr);
    const Edge& e = layout.edges[i];
    if (!same_key(e.key.ptr(), key))
      return fails(adjoint::text(layout.path(i), " is not where it was: attributes were added or removed"));
    if (lead < n.leads_end && layout.leads[lead] == i) layout.led_to[lead++] = value;
    if (!look(e, value)) return false;
  }
  n.attributes_version = version_of_attributes(dict) == version ? version : 0;
  return true;
}

bool Walk::dict(Node& n, PyObject* o) {
  const std::vector<Edge>& edges = layout.edges;
  const uint64_t version = version_of_attributes(o);
  if (version && version == n.version && !keep_) {
    if (!led(n.leads, n.leads_of_attributes)) return false;
  } else {
    if (PyDict_GET_SIZE(o) != n.length)
      return fails(n, o, adjoint::text(" of ", PyDict_GET_SIZE(o), " entries, had ", n.length).c_str());
    n.version = 0;
    Py_ssize_t at = 0;
    PyObject *key, *value;
    int32_t lead = n.leads;
    for (int32_t i = n.first; i < n.split; i += 2) {
      if (!PyDict_Next(o, &at, &key, &value)) return fails(edges[i], nullptr);
      nb::object held = nb::borrow(value);
      for (int32_t which : {i, i + 1}) {
        PyObject* const there = which == i ? key : value;
        if (lead < n.leads_of_attributes && layout.leads[lead] == which) layout.led_to[lead++] = there;
        if (!look(edges[which], there)) return false;
      }
    }
    n.version = version_of_attributes(o) == version ? version : 0;
  }
  return !n.ordered || in_order(o) || fails(n, o, " in another order");
}

bool Walk::globals(Node& n, PyObject* dict) {
  if (!PyDict_Check(dict)) return fails(n, dict, ", was globals");
  const uint64_t version = version_of_dict(dict);
  const bool known = version && version == n.version && !n.varies;
  for (int32_t i = known && !keep_ ? n.split : n.first; i < n.end; ++i) {
    const Edge& e = layout.edges[i];
    PyObject* value = PyDict_GetItemWithError(dict, e.key.ptr());
    if (!value && PyErr_Occurred()) PyErr_Clear();
    if (!look(e, value)) return false;
  }
  if (known) return true;
  if (n.strict && version) return fails(n, dict, " whose entries changed, of which any may be read");
  if (n.by_attributes) {
    // Names of a module that were not there, and are looked up now.
    Py_ssize_t count = 0;
    for (nb::handle name : layout.own_names)
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
  for (int32_t i = known && !keep_ ? n.split : n.first; i < n.end; ++i) {
    const Edge& e = layout.edges[i];
    PyObject* value = nullptr;
    if (e.access == By::Base) {
      if (PyTuple_GET_SIZE(type->tp_mro) != n.length) return fails(n, o, " with other bases than before");
      value = PyTuple_GET_ITEM(type->tp_mro, e.at);
    } else if (e.access == By::Inner) {
      value = inner(o, e.at);
    } else {
      value = _PyType_Lookup(type, e.key.ptr());
    }
    if (!look(e, value)) return false;
  }
  if (known) return true;
  if (n.strict) return fails(n, o, ", which was changed");
  if (named_members(layout, type) != n.named) return fails(n, o, " with other members than before");
  _PyType_Lookup(type, names().none_has);
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
    nb::object value = nb::steal(member_of(o, e.key.ptr()));
    if (!value.is_valid()) PyErr_Clear();
    return look(e, value.ptr());
  };
  switch (n.kind) {
    case Kind::Call:
      break;
    case Kind::Tensor: {
      if (!n.length) break;
      const std::vector<HookOfPython> all = python_hooks(unwrap(o));
      if (all.size() != static_cast<size_t>(n.length))
        return fails(n, o, adjoint::text(" of ", all.size(), " hooks, had ", n.length).c_str());
      for (size_t i = 0; i < all.size(); ++i) {
        const Edge& e = edges[n.first + static_cast<int32_t>(i)];
        if (e.bits != all[i].place) return fails(n, o, " with other hooks than before");
        if (!look(e, all[i].function.get())) return false;
      }
      break;
    }
    case Kind::Plain:
      if (n.fact.is_valid() && n.fact.ptr() != o) return fails(n, o, ", another than before");
      for (int32_t i = n.first; i < n.split; ++i)
        if (!member(edges[i])) return false;
      break;
    case Kind::List:
      if (PyList_GET_SIZE(o) != n.length)
        return fails(n, o, adjoint::text(" of ", PyList_GET_SIZE(o), " items, had ", n.length).c_str());
      for (int32_t i = n.first; i < n.split; ++i) {
        const Edge& e = edges[i];
        if (e.at >= PyList_GET_SIZE(o)) return fails(e, nullptr);
        if (!look(e, PyList_GET_ITEM(o, e.at))) return false;
      }
      break;
    case Kind::Tuple:
      if (PyTuple_GET_SIZE(o) != n.length)
        return fails(n, o, adjoint::text(" of ", PyTuple_GET_SIZE(o), " items, had ", n.length).c_str());
      for (int32_t i = n.first; i < n.split; ++i)
        if (!look(edges[i], PyTuple_GET_ITEM(o, edges[i].at))) return false;
      break;
    case Kind::Dict:
      if (!dict(n, o)) return false;
      break;
    case Kind::Set: {
      nb::object elements = nb::steal(elements_of(o));
      const Py_ssize_t count = elements.is_valid() ? PyList_GET_SIZE(elements.ptr()) : -1;
      if (count < 0) PyErr_Clear();
      if (count != n.length)
        return fails(n, o, adjoint::text(" of ", count, " elements, had ", n.length).c_str());
      for (int32_t i = n.first; i < n.split; ++i)
        if (!look(edges[i], PyList_GET_ITEM(elements.ptr(), edges[i].at))) return false;
      break;
    }
    case Kind::Number: {
      nb::object value = nb::steal(base_value(o));
      if (!value.is_valid()) PyErr_Clear();
      if (!look(edges[n.first], value.ptr())) return false;
      break;
    }
    case Kind::Function: {
      auto* const f = reinterpret_cast<PyFunctionObject*>(o);
      if (f->func_code != n.fact.ptr()) return fails(n, o, " of other code than before");
      for (int32_t i = n.first; i < n.split; ++i) {
        const Edge& e = edges[i];
        PyObject* value = nullptr;
        switch (e.access) {
          case By::Cell:
            value = f->func_closure && e.at < PyTuple_GET_SIZE(f->func_closure)
                        ? PyTuple_GET_ITEM(f->func_closure, e.at)
                        : nullptr;
            break;
          case By::Defaults:
            value = f->func_defaults;
            break;
          case By::Inner:
            value = inner(o, e.at);
            break;
          case By::KeywordDefaults:
            value = f->func_kwdefaults;
            break;
          default:
            value = f->func_globals;
        }
        if (!look(e, value)) return false;
      }
      break;
    }
    case Kind::Cell:
      if (!look(edges[n.first], PyCell_GET(o))) return false;
      break;
    case Kind::Method:
      if (!look(edges[n.first], PyMethod_GET_FUNCTION(o)) || !look(edges[n.first + 1], PyMethod_GET_SELF(o)))
        return false;
      break;
    case Kind::Builtin: {
      auto* const f = reinterpret_cast<PyCFunctionObject*>(o);
      if (reinterpret_cast<uint64_t>(f->m_ml) != n.version) return fails(n, o, ", another than before");
      if (!look(edges[n.first], f->m_self)) return false;
      break;
    }
    case Kind::Weakref:
      if (!look(edges[n.first], referent(o))) return false;
      break;
    case Kind::Module:
      if (!PyModule_Check(o)) return fails(n, o, ", was a module");
      if (!look(edges[n.first], PyModule_GetDict(o))) return false;
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
    if (!(e.access == By::Member ? member(e)
                                 : look(e, *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(o) + e.at))))
      return false;
  }
  return true;
}

bool Walk::shares(const char*) {
  std::vector<TensorImpl*> tensors;
  for (const Found& f : scratch_.tensors) tensors.push_back(f.impl);
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
    const auto number = static_cast<int32_t>(i);
    if (owner != g.owner || distance != g.distance)
      return two({owner != number ? owner : g.owner, number}, " share memory otherwise than before");
    if (g.count != number && tensors[static_cast<size_t>(g.count)]->storage != tensors[i]->storage)
      return two({g.count, number}, " do not count writes together, and did");
  }
  return true;
}

bool Walk::sharing() {
  const size_t count = scratch_.tensors.size();
  if (count < 2) return true;
  if (layout.external) return shares();
  Addresses owners(scratch_.addresses, count);
  for (size_t i = 0; i < count; ++i) {
    const TensorImpl* t = scratch_.tensors[i].impl;
    if (!t) continue;
    // Who shares, whoever it is, is looked at closely.
    const auto number = static_cast<int32_t>(i);
    if (owners.first(bytes_of(t), number) != number || layout.tensors[i].owner != number) return shares();
  }
  return true;
}

bool Walk::distinct() {
  const std::vector<int32_t>& changing = layout.changing;
  if (changing.size() < 2) return true;
  Addresses seen(scratch_.addresses, changing.size());
  for (int32_t number : changing) {
    const int32_t first = seen.first(nodes[number], number);
    if (first != number)
      return fails(adjoint::text(layout.path_of_node(first), " and ", layout.path_of_node(number),
                                 " are the same object, were two"));
  }
  return true;
}

bool Walk::libraries() {
  if (layout.registered.is_valid()) {
    nb::object now = nb::steal(registrations());
    if (!now.is_valid()) PyErr_Clear();
    if (!now.is_valid() || PyObject_RichCompareBool(now.ptr(), layout.registered.ptr(), Py_EQ) != 1)
      return fails("a class was registered with an abstract class, and the function asks for such");
  }
  for (const std::shared_ptr<Layout::Library>& shared : layout.libraries) {
    Layout::Library& l = *shared;
    const uint64_t version = version_of_dict(l.dict.ptr());
    if (version && version == l.version) continue;
    size_t i = 0;
    for (nb::handle name : l.names) {
      PyObject* value = PyDict_GetItemWithError(l.dict.ptr(), name.ptr());
      if (value != l.values[i++].ptr())
        return fails(adjoint::text(words(name.ptr()), " of the library was replaced"));
    }
    l.version = version;
  }
  return true;
}

bool Walk::call(PyObject* function, PyObject* args, PyObject* kwargs) {
  const Node& top = layout.nodes.front();
  nodes.assign(layout.nodes.size(), nullptr);
  scratch_.tensors.assign(layout.tensors.size(), Found());
  scratch_.numbers.assign(layout.varying.size(), Scalar());
  if (PyTuple_GET_SIZE(args) != top.length)
    return fails(adjoint::text(PyTuple_GET_SIZE(args), " positional arguments, were ", top.length));
  if ((kwargs ? PyDict_GET_SIZE(kwargs) : 0) != top.named)
    return fails(adjoint::text(kwargs ? PyDict_GET_SIZE(kwargs) : 0, " keyword arguments, were ", top.named));
  for (int32_t number : layout.own) {
    nodes[number] = Py_XNewRef(itself(layout.nodes[number]));
    if (!nodes[number]) return fails(adjoint::text(layout.path_of_node(number), " is gone"));
  }
  if (!look(layout.edges[0], function)) return false;
  for (int32_t i = top.first + 1; i < top.split; ++i)
    if (!look(layout.edges[i], PyTuple_GET_ITEM(args, layout.edges[i].at))) return false;
  Py_ssize_t at = 0;
  PyObject *key, *value;
  for (int32_t i = top.split; i < top.end; ++i) {
    if (!PyDict_Next(kwargs, &at, &key, &value)) return fails(layout.edges[i], nullptr);
    if (!same_key(layout.edges[i].key.ptr(), key))
      return fails("keyword arguments differ, or their order does");
    if (!look(layout.edges[i], value)) return false;
  }
  for (size_t i = 1; i < nodes.size(); ++i)
    if (!node(static_cast<int32_t>(i))) return false;
  return libraries() && distinct() && sharing();
}

}  // namespace adjoint::bind::paths
