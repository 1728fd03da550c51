// The state of one collection: see replay_collect.cpp, which judges what is looked into, and
// replay_expand.cpp, which looks.
#pragma once

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "bind/replay_paths.h"
#include "bind/replay_types.h"

namespace adjoint::bind::paths {

constexpr size_t kMostEdges = 200'000;

class Collector {
 public:
  /// With `all`, as if any attribute might be read.
  Collector(Layout& l, nb::dict facts, nb::dict own, bool all);
  bool needs_all() const { return needs_all_; }
  void all(PyObject* function, PyObject* args, PyObject* kwargs);

 private:
  bool named(PyObject* key) const { return l_.all || PySet_Contains(l_.names.ptr(), key) == 1; }

  void library(PyObject* dict, PyObject* read);
  const TypeFacts& facts_of(PyTypeObject* type);

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

  void edge(int32_t parent, By access, int32_t at, PyObject* key, PyObject* value) {
    current_ = static_cast<int32_t>(l_.edges.size());
    Edge& e = l_.edges.emplace_back(Edge{access});
    e.at = at;
    e.parent = parent;
    if (key) e.key = nb::borrow(key);
    l_.children.push_back(nb::borrow(value));
    judge(e, value);  // which makes nodes, and no edges
  }

  /// An edge whose value does not matter.
  void ignored(int32_t parent, By access, PyObject* key, PyObject* value) {
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
  void judge(Edge& e, PyObject* o);
  void instance(Edge& e, PyObject* o, PyTypeObject* t);
  bool has_named(PyObject* dict, bool open = false) const;

  int32_t klass(PyTypeObject* type);
  /// Globals of code that no path leads to, and a module that code imports when it runs: by themselves.
  void own_globals(PyObject* dict);
  void own_module(PyObject* module);
  int32_t tensor(const Tensor& t, PyObject* object, int32_t grad_of);

  // ---- looking into nodes
  // -----------------------------------------------------------------------------------------

  void call(PyObject* function, PyObject* args, PyObject* kwargs);
  void expand(int32_t number);

  bool in_registry(int32_t edge) const;
  static PyObject* key_of_name(PyObject* key) {
    return PyUnicode_CheckExact(key) || PyLong_CheckExact(key) ? key : nullptr;
  }

  static bool is_registry(PyObject* key) {
    for (PyObject* name : names().registries)
      if (key == name) return true;
    if (!PyUnicode_Check(key) || PyUnicode_CHECK_INTERNED(key)) return false;
    return std::ranges::any_of(names().registries,
                               [&](PyObject* name) { return PyUnicode_Compare(key, name) == 0; });
  }

  void members(int32_t number, std::initializer_list<PyObject*> which);
  void function(int32_t number, PyFunctionObject* f);
  void sorted(int32_t number, std::vector<Edge> edges, std::vector<nb::object> values);
  void globals(int32_t number, PyObject* dict);
  /// Whether a hook is code of Python's that ran in the call, so that what it reads counts.
  bool runs(PyObject* hook) const {
    if (PyMethod_Check(hook)) hook = PyMethod_GET_FUNCTION(hook);
    return PyFunction_Check(hook) && ran_.contains(PyFunction_GET_CODE(hook));
  }
  bool runs_hooks(const Tensor& t) const {
    return std::ranges::any_of(python_hooks(t), [&](const auto& h) { return runs(h.function.get()); });
  }
  void hooks(int32_t number, const Tensor& t);
  void read_class(int32_t number, PyTypeObject* type);
  bool matters(PyObject* key, PyObject* value) const;
  void finish();

  Layout& l_;
  /// Of the code that ran, and of this call.
  nb::dict facts_, own_;
  std::unordered_map<PyObject*, int32_t> seen_;
  std::unordered_map<const TensorImpl*, int32_t> tensors_;
  std::unordered_map<PyTypeObject*, TypeFacts> type_facts_;
  std::unordered_map<PyObject*, nb::object> globals_;
  std::unordered_set<PyObject*> ran_, met_;
  std::vector<nb::object> spaces_;
  nb::object missing_ = nb::steal(PyDict_New());
  int32_t current_ = -1;
  int depth_ = 0;
  bool needs_all_ = false;
};

}  // namespace adjoint::bind::paths
