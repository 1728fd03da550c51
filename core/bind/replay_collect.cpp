// What a function reads: from its arguments, its closure, its defaults and the globals that its code names,
// through attributes whose names occur in code that ran, and through all items of containers.
//
// An instance is read as its dict and its slots say, never by its own code: that code ran, so the names it
// reads are among those that count. Of classes of the library and of what lies in its modules only the
// versions are kept. Start reading at `Collector::judge`, which says what is looked into, and
// `Collector::expand`, which looks.
#include <Python.h>
//
#include <structmember.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "autograd/meta.h"
#include "bind/replay_paths.h"
#include "dispatch/operator.h"
#include "for_size.h"
#include "tensor/sparse.h"

namespace adjoint::bind::paths {

namespace {

constexpr size_t kMostEdges = 200'000;

struct TypeFacts {
  /// Whether it is a class of the library.
  bool library = false;
  /// The first of its bases that is not written in Python.
  PyTypeObject* base = nullptr;
  /// Names and offsets of its slots.
  std::vector<std::pair<PyObject*, int32_t>> slots;
  bool is_enum = false, has_dict = false, is_module = false;
};

nb::object found(const char* module, const char* name) { return nb::module_::import_(module).attr(name); }
/// For good.
PyTypeObject* type_of(const char* module, const char* name) {
  return reinterpret_cast<PyTypeObject*>(found(module, name).release().ptr());
}

struct Types {
  PyTypeObject* partial = type_of("functools", "partial");
  PyTypeObject* enum_meta = Py_TYPE(found("enum", "Enum").ptr());
  PyTypeObject* namespace_ = type_of("types", "SimpleNamespace");
  PyTypeObject* default_dict = type_of("collections", "defaultdict");
  nb::object builtins = nb::module_::import_("builtins");
  nb::object modules = found("sys", "modules");
};
const Types& types() {
  static const Types* const all = new Types();
  return *all;
}

bool starts_with(const char* text, std::string_view start) {
  return !std::strncmp(text, start.data(), start.size());
}

PyObject* interned(const char* name) { return PyUnicode_InternFromString(name); }
struct Names {
  PyObject *module = interned("__module__"), *name = interned("__name__");
  PyObject *fget = interned("fget"), *fset = interned("fset"), *fdel = interned("fdel"),
           *func = interned("__func__");
  PyObject *partial_func = interned("func"), *args = interned("args"), *keywords = interned("keywords");
  PyObject *start = interned("start"), *stop = interned("stop"), *step = interned("step");
  PyObject *factory = interned("default_factory"), *getattr = interned("__getattr__");
  PyObject* registries[5] = {interned("_parameters"), interned("_buffers"), interned("_modules"),
                             interned("training"), interned("_hooks")};
};
const Names& names() {
  static const Names* const all = new Names();
  return *all;
}

/// Types of C whose objects never change, or whose changes the core sees.
bool is_constant_type(const char* name) {
  for (std::string_view start :
       {"adjoint.", "numpy.", "nanobind.", "datetime.", "decimal.Decimal", "re.Pattern", "types.", "typing.",
        "operator.", "_operator.", "Operator", "Composition", "_abc", "functools.singledispatch"})
    if (starts_with(name, start))
      return !starts_with(name, "numpy.ndarray") && !starts_with(name, "numpy.random") &&
             !starts_with(name, "types.SimpleNamespace");
  return false;
}

class Collector {
 public:
  Collector(Layout& l, nb::dict facts) : l_(l), facts_(std::move(facts)) {
    l.names = facts_["names"];
    l.ordered = facts_["ordered"];
    l.all = nb::cast<bool>(facts_["all"]);
    for (nb::handle code : facts_["ran"]) ran_.insert(code.ptr());
    for (nb::handle each : facts_["globals"]) {
      nb::tuple t = nb::borrow<nb::tuple>(each);
      if (nb::cast<bool>(t[2]))
        library(t[0], t[1]);
      else
        globals_.emplace(nb::object(t[0]).ptr(), nb::object(t[1]));
    }
  }

  void all(PyObject* function, PyObject* args, PyObject* kwargs) {
    call(function, args, kwargs);
    size_t done = 1;
    const auto rest = [&] {
      for (; done < l_.nodes.size() && l_.edges.size() < kMostEdges; ++done)
        expand(static_cast<int32_t>(done));
    };
    rest();
    // Globals of code that no path leads to: by their modules.
    for (auto& [dict, named] : globals_)
      if (!seen_.contains(dict)) own_globals(dict);
    if (PyDict_GET_SIZE(missing_.ptr())) own_globals(PyModule_GetDict(types().builtins.ptr()));
    rest();
    if (l_.edges.size() >= kMostEdges)
      l_.unknown.emplace_back(0, adjoint::text("it reaches more than ", kMostEdges, " values"));
    for (nb::handle code : facts_["closures"])
      if (!met_.contains(code.ptr()))
        l_.unknown.emplace_back(
            0, adjoint::text("what '", nb::cast<std::string>(code.attr("co_name")), "' (",
                             nb::cast<std::string>(code.attr("co_filename")), ":",
                             nb::cast<int>(code.attr("co_firstlineno")),
                             ") reads could not be reached: keep the function where the program sees it"));
    finish();
  }

 private:
  bool named(PyObject* key) const { return l_.all || PySet_Contains(l_.names.ptr(), key) == 1; }

  void library(nb::object dict, nb::object read) {
    Layout::Library library{dict, read, {}, version_of_dict(dict.ptr())};
    for (nb::handle name : read) library.values.push_back(nb::borrow(PyDict_GetItem(dict.ptr(), name.ptr())));
    l_.libraries.push_back(std::move(library));
  }

  const TypeFacts& facts_of(PyTypeObject* type) {
    auto [at, is_new] = type_facts_.try_emplace(type);
    TypeFacts& f = at->second;
    if (!is_new) return f;
    f.library = is_library(type);
    f.is_enum = PyType_IsSubtype(Py_TYPE(type), types().enum_meta);
    PyTypeObject* base = type;
    while (base->tp_base && is_plain(base)) base = base->tp_base;
    f.base = base;
    PyObject* mro = type->tp_mro;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
      auto* const c = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
      if (starts_with(c->tp_name, "adjoint.ModuleMembers") || starts_with(c->tp_name, "ModuleMembers") ||
          starts_with(c->tp_name, "adjoint._C.ModuleMembers"))
        f.is_module = true;
      if (!PyType_HasFeature(c, Py_TPFLAGS_HEAPTYPE)) continue;
      nb::object dict = dict_of(c);
      Py_ssize_t at_entry = 0;
      PyObject *key, *value;
      while (PyDict_Next(dict.ptr(), &at_entry, &key, &value))
        if (Py_IS_TYPE(value, &PyMemberDescr_Type)) {
          const PyMemberDef* m = reinterpret_cast<PyMemberDescrObject*>(value)->d_member;
          if (m->type == T_OBJECT_EX) f.slots.emplace_back(key, static_cast<int32_t>(m->offset));
        }
    }
    f.has_dict = type->tp_dictoffset != 0;
#ifdef Py_TPFLAGS_MANAGED_DICT
    f.has_dict = f.has_dict || PyType_HasFeature(type, Py_TPFLAGS_MANAGED_DICT);
#endif
    return f;
  }

  /// Whether instances hold nothing beside what those of the base do but slots, a dict and weak references:
  /// true for classes that are written in Python.
  static bool is_plain(PyTypeObject* type) {
    if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE))
      return type->tp_basicsize == sizeof(PyObject) && type != &PyBaseObject_Type;
    const PyTypeObject* base = type->tp_base;
    Py_ssize_t size = base->tp_basicsize;
    nb::object dict = dict_of(type);
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict.ptr(), &at, &key, &value))
      if (Py_IS_TYPE(value, &PyMemberDescr_Type) &&
          reinterpret_cast<PyMemberDescrObject*>(value)->d_member->type == T_OBJECT_EX)
        size += static_cast<Py_ssize_t>(sizeof(PyObject*));
    // Where they lie in the object: not in front of it, and not at its end.
    const auto added = [&](Py_ssize_t own, Py_ssize_t of_base) {
      return own > 0 && of_base == 0 ? static_cast<Py_ssize_t>(sizeof(PyObject*)) : 0;
    };
    size += added(type->tp_dictoffset, base->tp_dictoffset) +
            added(type->tp_weaklistoffset, base->tp_weaklistoffset);
    return type->tp_basicsize == size;
  }

  static nb::object dict_of(PyTypeObject* type) {
#if PY_VERSION_HEX < 0x030C0000
    return nb::borrow(type->tp_dict);
#else
    return nb::steal(PyType_GetDict(type));
#endif
  }

  static bool is_library(PyTypeObject* type) {
    if (type == tensor_type) return true;
    if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return starts_with(type->tp_name, "adjoint.");
    nb::object dict = dict_of(type);
    PyObject* module = PyDict_GetItem(dict.ptr(), names().module);
    if (!module || !PyUnicode_Check(module)) return false;
    const char* name = PyUnicode_AsUTF8(module);
    return name && (!std::strcmp(name, "adjoint") || starts_with(name, "adjoint."));
  }

  // ---- edges and nodes
  // --------------------------------------------------------------------------------------------

  /// A node for an object, found by the edge that is made next.
  int32_t add_node(Kind kind, PyObject* o, bool once = true) {
    const auto number = static_cast<int32_t>(l_.nodes.size());
    Node n{kind};
    n.found_by = current_;
    l_.nodes.push_back(std::move(n));
    l_.objects.push_back(nb::borrow(o));
    if (o && once) seen_.emplace(o, number);
    return number;
  }

  void edge(int32_t parent, Access access, int32_t at, PyObject* key, PyObject* value) {
    current_ = static_cast<int32_t>(l_.edges.size());
    Edge e{access};
    e.at = at;
    e.parent = parent;
    if (key) e.key = nb::borrow(key);
    l_.edges.push_back(e);
    l_.children.push_back(nb::borrow(value));
    judge(e, value);
    l_.edges[l_.edges.size() - 1] = std::move(e);
  }

  /// An edge whose value does not matter.
  void ignored(int32_t parent, Access access, PyObject* key, PyObject* value) {
    Edge e{access};
    e.parent = parent;
    e.key = nb::borrow(key);
    l_.edges.push_back(std::move(e));
    l_.children.push_back(nb::borrow(value));
  }

  void unknown(std::string why) { l_.unknown.emplace_back(current_, std::move(why)); }

  void to_node(Edge& e, Kind kind, PyObject* o) {
    e.guard = Guard::Node;
    const auto at = seen_.find(o);
    e.node = at != seen_.end() ? at->second : add_node(kind, o);
  }

  void by_identity(Edge& e, PyObject* o) {
    if (PyType_SUPPORTS_WEAKREFS(Py_TYPE(o))) {
      e.expected = nb::steal(PyWeakref_NewRef(o, nullptr));
      if (e.expected.is_valid()) {
        e.guard = Guard::Weak;
        return;
      }
      PyErr_Clear();
    }
    e.guard = Guard::Address;
    e.bits = reinterpret_cast<int64_t>(o);
    e.more = reinterpret_cast<int64_t>(Py_TYPE(o));
  }

  void same(Edge& e, PyObject* o) {
    e.guard = Guard::Same;
    e.expected = nb::borrow(o);
  }

  /// What must be found where `o` was found.
  void judge(Edge& e, PyObject* o) {
    if (e.access == Access::Attribute && PyUnicode_CompareWithASCIIString(e.key.ptr(), "_steps_taken") == 0)
      return;
    if (guard_value(e, o)) return;
    PyTypeObject* const t = Py_TYPE(o);
    if (is_tensor(o)) {
      e.guard = Guard::Tensor;
      e.node = tensor(unwrap(o), o, -1);
    } else if (t == &PyTuple_Type) {
      to_node(e, Kind::Tuple, o);
    } else if (t == &PyList_Type) {
      to_node(e, Kind::List, o);
    } else if (t == &PyDict_Type) {
      to_node(e, globals_.contains(o) ? Kind::Globals : Kind::Dict, o);
    } else if (t == &PySet_Type || t == &PyFrozenSet_Type) {
      to_node(e, Kind::Set, o);
    } else if (t == &PyFunction_Type) {
      PyObject* code = PyFunction_GET_CODE(o);
      const bool ran = ran_.contains(code);
      if (ran) met_.insert(code);
      if (ran || has_named(reinterpret_cast<PyFunctionObject*>(o)->func_dict)) {
        to_node(e, Kind::Function, o);
      } else {
        e.guard = Guard::Code;
        e.expected = nb::borrow(code);
      }
    } else if (t == &PyMethod_Type) {
      to_node(e, Kind::Method, o);
    } else if (t == &PyCell_Type) {
      to_node(e, Kind::Cell, o);
    } else if (PyModule_Check(o)) {
      to_node(e, Kind::Module, o);
    } else if (PyType_Check(o)) {
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

  void instance(Edge& e, PyObject* o, PyTypeObject* t) {
    const TypeFacts& f = facts_of(t);
    if (f.is_enum) return same(e, o);
    PyTypeObject* const base = f.base;
    if (PyType_IsSubtype(base, &PyList_Type)) return to_node(e, Kind::List, o);
    if (PyType_IsSubtype(base, &PyTuple_Type)) return to_node(e, Kind::Tuple, o);
    if (base == &PyDict_Type || base == &PyODict_Type || base == types().default_dict) {
      to_node(e, Kind::Dict, o);
      if (base == &PyODict_Type && !in_order(o)) unknown("it is an OrderedDict whose order was changed");
      return;
    }
    if (base == &PySet_Type || base == &PyFrozenSet_Type) return to_node(e, Kind::Set, o);
    if (PyType_IsSubtype(base, &PyLong_Type) || PyType_IsSubtype(base, &PyFloat_Type) ||
        PyType_IsSubtype(base, &PyComplex_Type) || PyType_IsSubtype(base, &PyUnicode_Type) ||
        PyType_IsSubtype(base, &PyBytes_Type))
      return to_node(e, Kind::Number, o);
    if ((base == &PyBaseObject_Type && t != base) || base == types().namespace_)
      return to_node(e, Kind::Plain, o);
    if (f.library || is_constant_type(t->tp_name)) return same(e, o);
    by_identity(e, o);
    if (base == &PyProperty_Type || base == &PyStaticMethod_Type || base == &PyClassMethod_Type ||
        is_descriptor(t))
      return;
    unknown(adjoint::text("it is a ", t->tp_name, ", which cannot be looked into"));
  }

  static bool is_descriptor(PyTypeObject* t) {
    return (t->tp_descr_get && !t->tp_iter) || !std::strcmp(t->tp_name, "method-wrapper") ||
           t == &PyBaseObject_Type;
  }

  bool has_named(PyObject* dict) const {
    if (!dict) return false;
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict, &at, &key, &value))
      if (PySet_Contains(l_.names.ptr(), key) == 1) return true;
    return false;
  }

  int32_t klass(PyTypeObject* type) {
    PyObject* o = reinterpret_cast<PyObject*>(type);
    if (const auto at = seen_.find(o); at != seen_.end()) return at->second;
    const int32_t number = add_node(Kind::Class, o);
    l_.nodes[number].fact = nb::steal(PyWeakref_NewRef(o, nullptr));
    l_.own.push_back(number);
    return number;
  }

  void own_globals(PyObject* dict) {
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

  int32_t tensor(const Tensor& t, PyObject* object, int32_t grad_of) {
    const auto number = static_cast<int32_t>(l_.tensors.size());
    if (t.defined()) {
      const auto [at, is_new] = tensors_.try_emplace(t.get(), number);
      if (!is_new) {
        // What was met first in an optimiser has a better name in its module.
        int32_t& by = l_.tensors[at->second].found_by;
        const bool as_key =
            by >= 0 && by < static_cast<int32_t>(l_.edges.size()) && l_.edges[by].access == Access::Key;
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
    if (g.hooked) unknown("it has a hook");
    l_.external = l_.external || g.external;
    PyTypeObject* type = object ? Py_TYPE(object) : tensor_type;
    PyObject* dict = object ? reinterpret_cast<TensorObject*>(object)->dict : nullptr;
    if ((dict && PyDict_GET_SIZE(dict)) || !facts_of(type).library) {
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

  // ---- looking into nodes
  // -----------------------------------------------------------------------------------------

  void call(PyObject* function, PyObject* args, PyObject* kwargs) {
    nb::object parameters = facts_["parameters"];
    current_ = -1;
    add_node(Kind::Call, nullptr);
    edge(0, Access::Function, 0, nullptr, function);
    const Py_ssize_t count = PyTuple_GET_SIZE(args);
    for (Py_ssize_t i = 0; i < count; ++i)
      edge(0, Access::Argument, static_cast<int32_t>(i),
           i < PyTuple_GET_SIZE(parameters.ptr()) ? PyTuple_GET_ITEM(parameters.ptr(), i) : nullptr,
           PyTuple_GET_ITEM(args, i));
    const auto split = static_cast<int32_t>(l_.edges.size());
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (kwargs && PyDict_Next(kwargs, &at, &key, &value)) edge(0, Access::Keyword, 0, key, value);
    Node& n = l_.nodes[0];
    n.length = count;
    n.named = kwargs ? PyDict_GET_SIZE(kwargs) : 0;
    n.first = 0;
    n.split = split;
    n.slots = n.end = static_cast<int32_t>(l_.edges.size());
  }

  void expand(int32_t number) {
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
      case Kind::Tensor:
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
        else
          node().changes = true;
        break;
      case Kind::List:
        node().changes = true;
        node().length = PyList_GET_SIZE(o);
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); ++i)
          edge(number, Access::Item, static_cast<int32_t>(i), nullptr, PyList_GET_ITEM(o, i));
        break;
      case Kind::Tuple:
        node().length = PyTuple_GET_SIZE(o);
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
          edge(number, Access::Item, static_cast<int32_t>(i), nullptr, PyTuple_GET_ITEM(o, i));
        break;
      case Kind::Dict: {
        node().changes = true;
        node().length = PyDict_GET_SIZE(o);
        node().ordered = PyODict_Check(o);
        Py_ssize_t at = 0;
        PyObject *key, *value;
        for (int32_t i = 0; PyDict_Next(o, &at, &key, &value); ++i) {
          edge(number, Access::Key, i, nullptr, key);
          edge(number, Access::Value, i, key_of_name(key), value);
        }
        break;
      }
      case Kind::Set: {
        node().changes = t == &PySet_Type;
        node().length = PySet_GET_SIZE(o);
        nb::object elements = nb::steal(elements_of(o));
        if (!elements.is_valid()) throw nb::python_error();
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(elements.ptr()); ++i)
          edge(number, Access::Element, static_cast<int32_t>(i), nullptr, PyList_GET_ITEM(elements.ptr(), i));
        break;
      }
      case Kind::Number: {
        nb::object value = nb::steal(base_value(o));
        if (!value.is_valid()) throw nb::python_error();
        edge(number, Access::Content, 0, nullptr, value.ptr());
        break;
      }
      case Kind::Function:
        function(number, reinterpret_cast<PyFunctionObject*>(o));
        break;
      case Kind::Cell:
        node().changes = true;
        edge(number, Access::Content, 0, nullptr, PyCell_GET(o));
        break;
      case Kind::Method:
        edge(number, Access::Method, 0, nullptr, PyMethod_GET_FUNCTION(o));
        edge(number, Access::Self, 0, nullptr, PyMethod_GET_SELF(o));
        break;
      case Kind::Builtin:
        node().version = reinterpret_cast<uint64_t>(reinterpret_cast<PyCFunctionObject*>(o)->m_ml);
        edge(number, Access::Self, 0, nullptr, PyCFunction_GET_SELF(o));
        break;
      case Kind::Weakref:
        edge(number, Access::Referent, 0, nullptr, referent(o));
        break;
      case Kind::Module: {
        // A node of its own, beside that of the globals of its functions: other names are read.
        current_ = here();
        Edge e{Access::ModuleDict};
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
        if (named(key) || (f && f->is_module && is_registry(key)))
          edge(number, Access::Attribute, 0, key, value);
        else
          ignored(number, Access::Attribute, key, value);
    }
    node().slots = here();
    if (f && (kind == Kind::Plain || kind == Kind::List || kind == Kind::Dict || kind == Kind::Set))
      for (const auto& [name, offset] : f->slots)
        if (f->library || named(name))
          edge(number, Access::Slot, offset, name,
               *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(o) + offset));
    if (kind == Kind::Dict && PyType_IsSubtype(t, types().default_dict)) {
      nb::object factory = nb::steal(PyObject_GetAttr(o, names().factory));
      if (!factory.is_valid()) throw nb::python_error();
      edge(number, Access::Member, 0, names().factory, factory.ptr());
    }
    node().end = here();
  }

  bool in_registry(int32_t edge) const {
    if (edge < 0 || edge >= static_cast<int32_t>(l_.edges.size())) return false;
    const int32_t by = l_.nodes[l_.edges[edge].parent].found_by;
    return l_.edges[edge].access == Access::Value && by >= 0 && by < edge &&
           l_.edges[by].access == Access::Attribute && is_registry(l_.edges[by].key.ptr());
  }

  static PyObject* key_of_name(PyObject* key) {
    return PyUnicode_CheckExact(key) || PyLong_CheckExact(key) ? key : nullptr;
  }

  static bool is_registry(PyObject* key) {
    for (PyObject* name : names().registries)
      if (key == name || (PyUnicode_Check(key) && PyUnicode_Compare(key, name) == 0)) return true;
    return false;
  }

  void members(int32_t number, std::initializer_list<PyObject*> which) {
    nb::object held = l_.objects[number];
    for (PyObject* name : which) {
      nb::object value = nb::steal(PyObject_GetAttr(held.ptr(), name));
      if (!value.is_valid()) throw nb::python_error();
      edge(number, Access::Member, 0, name, value.ptr());
    }
  }

  void function(int32_t number, PyFunctionObject* f) {
    l_.nodes[number].fact = nb::borrow(f->func_code);
    if (!ran_.contains(f->func_code)) return;
    const Py_ssize_t cells = f->func_closure ? PyTuple_GET_SIZE(f->func_closure) : 0;
    nb::object free = cells ? nb::borrow(f->func_code).attr("co_freevars") : nb::object();
    for (Py_ssize_t i = 0; i < cells; ++i)
      edge(number, Access::Cell, static_cast<int32_t>(i), PyTuple_GET_ITEM(free.ptr(), i),
           PyTuple_GET_ITEM(f->func_closure, i));
    edge(number, Access::Defaults, 0, nullptr, f->func_defaults);
    edge(number, Access::KeywordDefaults, 0, nullptr, f->func_kwdefaults);
    if (globals_.contains(f->func_globals) &&
        (globals_[f->func_globals].is_valid() && PyTuple_GET_SIZE(globals_[f->func_globals].ptr())))
      edge(number, Access::Globals, 0, nullptr, f->func_globals);
  }

  /// Leaves first, since they need no look while the version is the same.
  void sorted(int32_t number, std::vector<Edge> edges, std::vector<nb::object> values) {
    const auto base = static_cast<int32_t>(l_.edges.size());
    std::vector<int32_t> order(edges.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
    // Judged in order; then edges that lead on change their places.
    std::vector<std::pair<int32_t, size_t>> moved;
    for (size_t i = 0; i < edges.size(); ++i) {
      current_ = base + static_cast<int32_t>(i);
      edges[i].parent = number;
      judge(edges[i], values[i].ptr());
    }
    std::stable_partition(order.begin(), order.end(), [&](int32_t i) {
      return edges[i].guard != Guard::Node && edges[i].guard != Guard::Tensor &&
             edges[i].guard != Guard::Float;
    });
    std::vector<int32_t> place(order.size());
    for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int32_t>(i);
    const auto replaced = [&](int32_t& found_by) {
      if (found_by >= base && found_by < base + static_cast<int32_t>(order.size()))
        found_by = base + place[found_by - base];
    };
    for (Node& n : l_.nodes) replaced(n.found_by);
    for (TensorGuard& g : l_.tensors) replaced(g.found_by);
    for (auto& [by, why] : l_.unknown) replaced(by);
    size_t leaves = 0;
    for (int32_t i : order) {
      const Guard guard = edges[i].guard;
      leaves += guard != Guard::Node && guard != Guard::Tensor && guard != Guard::Float;
      l_.edges.push_back(std::move(edges[i]));
      l_.children.push_back(std::move(values[i]));
    }
    Node& n = l_.nodes[number];
    n.first = base;
    n.split = base + static_cast<int32_t>(leaves);
    n.slots = n.end = static_cast<int32_t>(l_.edges.size());
  }

  void globals(int32_t number, PyObject* dict) {
    std::vector<Edge> edges;
    std::vector<nb::object> values;
    const bool as_module = l_.nodes[number].by_attributes;
    const bool of_builtins = !as_module && dict == PyModule_GetDict(types().builtins.ptr());
    nb::object read = !as_module && globals_.contains(dict) ? globals_[dict] : nb::object();
    const auto add = [&](PyObject* name, bool absent_too) {
      PyObject* value = PyDict_GetItemWithError(dict, name);
      if (!value && PyErr_Occurred()) throw nb::python_error();
      if (!value && !absent_too) return false;
      Edge e{Access::Name};
      e.key = nb::borrow(name);
      edges.push_back(std::move(e));
      values.push_back(nb::borrow(value));
      return value != nullptr;
    };
    if (read.is_valid())
      for (nb::handle name : read)
        if (!add(name.ptr(), true)) PyDict_SetItem(missing_.ptr(), name.ptr(), Py_None);
    if (of_builtins)
      for (nb::handle name : missing_) add(name.ptr(), true);
    Py_ssize_t count = 0;
    if (as_module) {
      for (nb::handle name : l_.ordered) count += add(name.ptr(), false);
      add(names().getattr, true);
    }
    Node& n = l_.nodes[number];
    n.strict = as_module && l_.all;
    n.length = count;
    n.version = version_of_dict(dict);
    sorted(number, std::move(edges), std::move(values));
  }

  void read_class(int32_t number, PyTypeObject* type) {
    static PyObject* const none_has = interned("");
    _PyType_Lookup(type, none_has);
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
    nb::object taken = nb::steal(PySet_New(nullptr));
    for (Py_ssize_t i = 1; i < n.length; ++i) {
      auto* const base = PyTuple_GET_ITEM(type->tp_mro, i);
      Edge e{Access::Base};
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
        Edge e{Access::ClassName};
        e.key = nb::borrow(key);
        edges.push_back(std::move(e));
        values.push_back(nb::borrow(_PyType_Lookup(type, key)));
      }
    }
    sorted(number, std::move(edges), std::move(values));
  }

  bool matters(PyObject* key, PyObject* value) const {
    if (named(key)) return true;
    const bool function = PyFunction_Check(value);
    if (function && ran_.contains(PyFunction_GET_CODE(value))) return true;
    const Py_ssize_t length = PyUnicode_GET_LENGTH(key);
    const bool special = length > 4 && PyUnicode_READ_CHAR(key, 0) == '_' &&
                         PyUnicode_READ_CHAR(key, 1) == '_' && PyUnicode_READ_CHAR(key, length - 1) == '_';
    return special && (function || Py_IS_TYPE(value, &PyProperty_Type) ||
                       Py_IS_TYPE(value, &PyStaticMethod_Type) || Py_IS_TYPE(value, &PyClassMethod_Type));
  }

  void finish() {
    const Sharing shared = sharing_of(l_.found, l_.external);
    for (size_t i = 0; i < l_.tensors.size(); ++i) {
      l_.tensors[i].owner = shared.of[i].first;
      l_.tensors[i].distance = shared.of[i].second;
    }
    for (size_t i = 0; i < l_.edges.size(); ++i)
      if (l_.edges[i].guard == Guard::Float) l_.floats.push_back(static_cast<int32_t>(i));
    if (shared.overlap.first >= 0)
      l_.unknown.emplace_back(
          l_.tensors[shared.overlap.second].found_by,
          adjoint::text("it shares bytes of others with ", l_.path_of_tensor(shared.overlap.first)));
    for (size_t i = 0; i < l_.nodes.size(); ++i)
      if (l_.nodes[i].changes) l_.changing.push_back(static_cast<int32_t>(i));
  }

  Layout& l_;
  nb::dict facts_;
  std::unordered_map<PyObject*, int32_t> seen_;
  std::unordered_map<const TensorImpl*, int32_t> tensors_;
  std::unordered_map<PyTypeObject*, TypeFacts> type_facts_;
  std::unordered_map<PyObject*, nb::object> globals_;
  std::unordered_set<PyObject*> ran_, met_;
  nb::object missing_ = nb::steal(PyDict_New());
  int32_t current_ = -1;
  int depth_ = 0;
};

}  // namespace

void collect(Layout& l, PyObject* function, PyObject* args, PyObject* kwargs, nb::dict facts) {
  Collector(l, std::move(facts)).all(function, args, kwargs);
}

}  // namespace adjoint::bind::paths
