// What a function reads: from its arguments, its closure, its defaults and the globals that its code names,
// through attributes whose names occur in code that ran, and through all items of containers.
//
// An instance is read as its dict and its slots say, never by its own code: that code ran, so the names it
// reads are among those that count. Of classes of the library and of what lies in its modules only the
// versions are kept. Start reading at `Collector::judge`, which says what is looked into, and
// `Collector::expand`, which looks.
#include <algorithm>
#include <array>

#include "autograd/meta.h"
#include "bind/replay_collector.h"
#include "bind/words.h"
#include "dispatch/operator.h"
#include "for_size.h"
#include "tensor/sparse.h"

namespace adjoint::bind::paths {

namespace {

/// By version, which is of one type, and of one state of it, for good.
std::unordered_map<uint64_t, TypeFacts>& known_facts() {
  static auto* const known = new std::unordered_map<uint64_t, TypeFacts>();
  return *known;
}

bool is_descriptor(PyTypeObject* t) {
  return (t->tp_descr_get && !t->tp_iter && !t->tp_dictoffset) ||
         !std::strcmp(t->tp_name, "method-wrapper") || t == &PyBaseObject_Type;
}

}  // namespace

Collector::Collector(Layout& l, nb::dict facts, nb::dict own, bool all)
    : l_(l), facts_(std::move(facts)), own_(std::move(own)) {
  if (known_facts().size() > 4096) known_facts().clear();
  constexpr size_t kOfCode = 7;
  static const std::array<PyObject*, kOfCode + 3> keys = [] {
    std::array<PyObject*, kOfCode + 3> all{};
    size_t i = 0;
    for (const char* key :
         {"names", "own", "all", "own_any", "inside", "registries", "ran", "codes", "spaces", "through"})
      all[i++] = PyUnicode_InternFromString(key);
    return all;
  }();
  const auto fact = [&](size_t i) { return PyDict_GetItem((i < kOfCode ? facts_ : own_).ptr(), keys[i]); };
  l.names = nb::borrow(fact(0));
  l.own_names = nb::borrow(fact(1));
  l.all = all || fact(2) == Py_True;
  l.own_all = fact(3) == Py_True;
  l.inside = l.all || fact(4) == Py_True;
  if (fact(5) == Py_True) {
    l.registered = nb::steal(registrations());
    if (!l.registered.is_valid()) throw nb::python_error();
  }
  PyObject *const ran = fact(6), *const codes = fact(7), *const spaces = fact(8), *const through = fact(9);
  ran_.reserve(2 * static_cast<size_t>(PyList_GET_SIZE(ran)));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(ran); ++i) ran_.insert(PyList_GET_ITEM(ran, i));
  l.libraries.reserve(static_cast<size_t>(PyList_GET_SIZE(spaces) + PyList_GET_SIZE(through)));
  // Globals, by the place of code that ran with them, and the names that are read.
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(spaces); ++i) {
    PyObject *const each = PyList_GET_ITEM(spaces, i), *const read = PyTuple_GET_ITEM(each, 1);
    PyObject* const dict =
        PyTuple_GET_ITEM(PyList_GET_ITEM(codes, PyLong_AsSsize_t(PyTuple_GET_ITEM(each, 0))), 1);
    if (PyTuple_GET_ITEM(each, 2) == Py_True)
      library(dict, read);
    else if (globals_.emplace(dict, nb::borrow(read)).second)
      spaces_.push_back(nb::borrow(dict));
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(through); ++i) {
    PyObject* const each = PyList_GET_ITEM(through, i);
    library(PyTuple_GET_ITEM(each, 0), PyTuple_GET_ITEM(each, 1));
  }
}

void Collector::all(PyObject* function, PyObject* args, PyObject* kwargs) {
  l_.edges.reserve(256), l_.children.reserve(256), l_.nodes.reserve(64), l_.objects.reserve(64);
  seen_.reserve(64);
  call(function, args, kwargs);
  size_t done = 1;
  const auto rest = [&] {
    for (; done < l_.nodes.size() && l_.edges.size() < kMostEdges; ++done) expand(static_cast<int32_t>(done));
  };
  rest();
  // Globals of code that no path leads to: by their modules.
  for (const nb::object& dict : spaces_)
    if (!seen_.contains(dict.ptr())) own_globals(dict.ptr());
  for (nb::handle module : own_["imports"]) own_module(module.ptr());
  if (PyDict_GET_SIZE(missing_.ptr())) own_globals(PyModule_GetDict(types().builtins.ptr()));
  rest();
  if (l_.edges.size() >= kMostEdges)
    l_.unknown.emplace_back(0, adjoint::text("it reaches more than ", kMostEdges, " values"));
  for (nb::handle code : facts_["closures"])
    if (!met_.contains(code.ptr()))
      l_.unknown.emplace_back(
          0, adjoint::text("what '", words(nb::object(code.attr("co_name")).ptr()), "' (",
                           words(nb::object(code.attr("co_filename")).ptr()), ":",
                           nb::cast<int>(code.attr("co_firstlineno")),
                           ") reads could not be reached: keep the function where the program sees it"));
  finish();
}

void Collector::library(PyObject* dict, PyObject* read) {
  // Of the last states; the keys are held by what they lead to.
  using Key = std::pair<PyObject*, PyObject*>;
  struct Hash {
    size_t operator()(const Key& key) const {
      return (reinterpret_cast<size_t>(key.first) >> 4) * 31 + (reinterpret_cast<size_t>(key.second) >> 4);
    }
  };
  static auto& known = *new std::unordered_map<Key, std::shared_ptr<Layout::Library>, Hash>;
  if (known.size() > 1024) known.clear();
  const uint64_t version = version_of_dict(dict);
  std::shared_ptr<Layout::Library>& shared = known[{dict, read}];
  if (!shared || !version || shared->version != version) {
    shared =
        std::make_shared<Layout::Library>(Layout::Library{nb::borrow(dict), nb::borrow(read), {}, version});
    for (nb::handle name : shared->names)
      shared->values.push_back(nb::borrow(PyDict_GetItem(dict, name.ptr())));
  }
  l_.libraries.push_back(shared);
}

/// What must be found where `o` was found.
void Collector::judge(Edge& e, PyObject* o) {
  if (guard_value(e, o)) return;
  PyTypeObject* const t = Py_TYPE(o);
  if (is_tensor(o)) {
    e.guard = Guard::Tensor;
    e.node = tensor(unwrap(o), o, -1);
  } else if (t == &PyTuple_Type) {
    to_node(e, Kind::Tuple, o);
  } else if (t == &PyList_Type) {
    to_node(e, Kind::List, o);
  } else if (o == types().modules.ptr()) {
    by_identity(e, o);
    unknown("it is sys.modules: import what is needed by name");
  } else if (t == &PyDict_Type) {
    to_node(e, globals_.contains(o) ? Kind::Globals : Kind::Dict, o);
  } else if (t == &PySet_Type || t == &PyFrozenSet_Type) {
    to_node(e, Kind::Set, o);
  } else if (t == &PyFunction_Type) {
    PyObject* code = PyFunction_GET_CODE(o);
    const bool ran = ran_.contains(code);
    if (ran) met_.insert(code);
    if (ran || l_.inside || has_named(reinterpret_cast<PyFunctionObject*>(o)->func_dict)) {
      to_node(e, Kind::Function, o);
    } else {
      PyObject* dict = reinterpret_cast<PyFunctionObject*>(o)->func_dict;
      e.guard = Guard::Code;
      e.expected = nb::borrow(code);
      e.bits = dict ? PyDict_GET_SIZE(dict) : 0;
    }
  } else if (t == &PyMethod_Type) {
    to_node(e, Kind::Method, o);
  } else if (t == &PyCell_Type) {
    to_node(e, Kind::Cell, o);
  } else if (PyModule_Check(o)) {
    to_node(e, Kind::Module, o);
  } else if (PyType_Check(o)) {
    if (starts_with(reinterpret_cast<PyTypeObject*>(o)->tp_name, "decimal."))
      unknown("what it gives depends on decimal's context");
    if (PyType_HasFeature(reinterpret_cast<PyTypeObject*>(o), Py_TPFLAGS_HEAPTYPE)) {
      e.guard = Guard::Node;
      e.node = klass(reinterpret_cast<PyTypeObject*>(o));
    } else {
      same(e, o);
    }
  } else if (PyCFunction_CheckExact(o)) {
    PyObject* self = PyCFunction_GET_SELF(o);
    if (!self || PyModule_Check(self) ||
        (PyType_Check(self) &&
         !PyType_HasFeature(reinterpret_cast<PyTypeObject*>(self), Py_TPFLAGS_HEAPTYPE)))
      same(e, o);
    else
      to_node(e, Kind::Builtin, o);
  } else if (t == &PyProperty_Type || t == &PyStaticMethod_Type || t == &PyClassMethod_Type ||
             t == &PySlice_Type || t == types().partial) {
    to_node(e, Kind::Plain, o);
  } else if (PyWeakref_CheckRefExact(o)) {
    to_node(e, Kind::Weakref, o);
  } else {
    instance(e, o, t);
  }
}

void Collector::instance(Edge& e, PyObject* o, PyTypeObject* t) {
  const TypeFacts& f = facts_of(t);
  if (f.is_enum) {
    // Itself, and what the program put there.
    nb::object dict = f.has_dict ? nb::steal(attributes_of(o, Kind::Plain)) : nb::object();
    if (!has_named(dict.ptr(), true)) return same(e, o);
    to_node(e, Kind::Plain, o);
    l_.nodes[e.node].fact = nb::borrow(o);
    return;
  }
  if (t == types().attrgetter || t == types().methodcaller) needs_all_ = true;
  if (starts_with(t->tp_name, "decimal.")) unknown("what it gives depends on decimal's context");
  PyTypeObject* const base = f.base;
  if (PyType_IsSubtype(base, &PyList_Type)) return to_node(e, Kind::List, o);
  if (PyType_IsSubtype(base, &PyTuple_Type)) return to_node(e, Kind::Tuple, o);
  if (base == &PyDict_Type || base == &PyODict_Type || base == types().default_dict) {
    to_node(e, Kind::Dict, o);
    if (base == &PyODict_Type && !in_order(o)) unknown("it is an OrderedDict whose order was changed");
    return;
  }
  if (base == &PySet_Type || base == &PyFrozenSet_Type || base == types().deque)
    return to_node(e, Kind::Set, o);
  if (PyType_IsSubtype(base, &PyLong_Type) || PyType_IsSubtype(base, &PyFloat_Type) ||
      PyType_IsSubtype(base, &PyComplex_Type) || PyType_IsSubtype(base, &PyUnicode_Type) ||
      PyType_IsSubtype(base, &PyBytes_Type))
    return to_node(e, Kind::Number, o);
  if ((base == &PyBaseObject_Type && t != base) || base == types().namespace_)
    return to_node(e, Kind::Plain, o);
  // A function that the library wraps, a jitted one: what it keeps besides is its own affair.
  if (f.library && f.has_dict) {
    nb::object dict = nb::steal(attributes_of(o, Kind::Plain));
    if (dict.is_valid() && PyDict_Contains(dict.ptr(), names().wrapped) == 1)
      return to_node(e, Kind::Plain, o);
  }
  if (f.library || is_constant_type(t->tp_name)) return same(e, o);
  by_identity(e, o);
  if (base == &PyProperty_Type || base == &PyStaticMethod_Type || base == &PyClassMethod_Type ||
      is_descriptor(t) || (e.access == By::Name && is_house(l_.objects[e.parent].ptr())))
    return;
  unknown(adjoint::text("it is a ", t->tp_name, ", which cannot be looked into"));
}

bool Collector::has_named(PyObject* dict, bool open) const {
  if (!dict) return false;
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &at, &key, &value))
    if (PySet_Contains(l_.names.ptr(), key) == 1 &&
        !(open && PyUnicode_Check(key) && PyUnicode_GET_LENGTH(key) && PyUnicode_READ_CHAR(key, 0) == '_'))
      return true;
  return false;
}

int32_t Collector::klass(PyTypeObject* type) {
  PyObject* o = reinterpret_cast<PyObject*>(type);
  if (const auto at = seen_.find(o); at != seen_.end()) return at->second;
  const int32_t number = add_node(Kind::Class, o);
  l_.nodes[number].fact = nb::steal(PyWeakref_NewRef(o, nullptr));
  l_.own.push_back(number);
  return number;
}

void Collector::own_globals(PyObject* dict) {
  current_ = -1;
  const int32_t number = add_node(Kind::Globals, dict);
  PyObject* name = PyDict_GetItem(dict, names().name);
  PyObject* module = name && PyUnicode_Check(name) && PyDict_Check(types().modules.ptr())
                         ? PyDict_GetItem(types().modules.ptr(), name)
                         : nullptr;
  const bool known = module && PyModule_Check(module) && PyModule_GetDict(module) == dict;
  l_.nodes[number].fact = known ? nb::steal(PyWeakref_NewRef(module, nullptr)) : nb::borrow(dict);
  l_.own.push_back(number);
}

void Collector::own_module(PyObject* module) {
  if (seen_.contains(module)) return;
  current_ = -1;
  const int32_t number = add_node(Kind::Module, module);
  l_.nodes[number].fact = nb::steal(PyWeakref_NewRef(module, nullptr));
  l_.own.push_back(number);
}

int32_t Collector::tensor(const Tensor& t, PyObject* object, int32_t grad_of) {
  const auto number = static_cast<int32_t>(l_.tensors.size());
  if (t.defined()) {
    const auto [at, is_new] = tensors_.try_emplace(t.get(), number);
    if (!is_new) {
      // What was met first in an optimiser has a better name in its module.
      int32_t& by = l_.tensors[at->second].found_by;
      const bool as_key =
          by >= 0 && by < static_cast<int32_t>(l_.edges.size()) && l_.edges[by].access == By::Key;
      if (grad_of < 0 && (as_key || (in_registry(current_) && !in_registry(by)))) by = current_;
      return at->second;
    }
  }
  TensorGuard g;
  if (t.defined()) g = look_at(t, l_.geometry);
  g.found_by = current_;
  g.grad_of = grad_of;
  l_.tensors.push_back(g);
  l_.found.push_back(t);
  if (!t.defined()) return number;
  if (is_sparse(t)) unknown("it is a sparse tensor");
  l_.external = l_.external || g.external;
  PyTypeObject* type = object ? Py_TYPE(object) : tensor_type;
  PyObject* dict = object ? reinterpret_cast<TensorObject*>(object)->dict : nullptr;
  if ((dict && PyDict_GET_SIZE(dict)) || !facts_of(type).library || (object && g.hooked && runs_hooks(t))) {
    const int32_t node = add_node(Kind::Tensor, object);
    l_.tensors[number].node = node;
  } else {
    l_.tensors[number].type = type;
    klass(type);
  }
  const Tensor grad = gradient(t);
  if (grad.defined() || (t->is(TensorImpl::kRequiresGrad) && !t->grad_fn) ||
      t->is(TensorImpl::kRetainsGrad)) {
    if (++depth_ > 100) {
      unknown("its gradient has a gradient, and so on, too deep");
    } else {
      const int32_t place =
          tensor(grad, grad.defined() ? static_cast<PyObject*>(grad->wrapper) : nullptr, number);
      l_.tensors[number].grad = place;
    }
    --depth_;
  }
  return number;
}

bool Collector::in_registry(int32_t edge) const {
  if (edge < 0 || edge >= static_cast<int32_t>(l_.edges.size())) return false;
  const int32_t by = l_.nodes[l_.edges[edge].parent].found_by;
  return l_.edges[edge].access == By::Value && by >= 0 && by < edge && l_.edges[by].access == By::Attribute &&
         is_registry(l_.edges[by].key.ptr());
}

const TypeFacts& Collector::facts_of(PyTypeObject* type) {
  _PyType_Lookup(type, names().none_has);
  const uint64_t version = version_of_type(type);
  if (!version) return type_facts_.try_emplace(type, type).first->second;
  return known_facts().try_emplace(version, type).first->second;
}

void collect(Layout& l, PyObject* function, PyObject* args, PyObject* kwargs, nb::dict facts, nb::dict own) {
  Collector first(l, facts, own, false);
  first.all(function, args, kwargs);
  if (l.all || !first.needs_all()) return;
  // Something was met that reads attributes by names which no code has.
  l = Layout();
  Collector(l, std::move(facts), std::move(own), true).all(function, args, kwargs);
}

}  // namespace adjoint::bind::paths
