// What users are told of layouts: paths as a program would write them, and what is other than it was. Nothing
// here runs in calls that match.
#include <algorithm>

#include "bind/replay_paths.h"
#include "bind/words.h"
#include "for_size.h"

namespace adjoint::bind::paths {

std::string shown(PyObject* o) {
  if (!o) return "missing";
  if (is_tensor(o)) return "a tensor";
  if (PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyUnicode_CheckExact(o) || PyBytes_CheckExact(o) ||
      PyComplex_CheckExact(o) || PyBool_Check(o) || o == Py_None || PyRange_Check(o)) {
    nb::object repr = nb::steal(PyObject_Repr(o));
    if (repr.is_valid()) {
      std::string s = words(repr.ptr());
      if (s.size() <= 60) return s;
      size_t end = 57;
      while ((s[end] & 0xC0) == 0x80) --end;  // between two characters
      return s.substr(0, end) + "...";
    }
    PyErr_Clear();
  }
  if (PyType_Check(o)) return adjoint::text("class ", reinterpret_cast<PyTypeObject*>(o)->tp_name);
  return adjoint::text("a ", Py_TYPE(o)->tp_name);
}

std::string Layout::path_of_node(int32_t node, int depth) const {
  const Node& n = nodes[node];
  if (n.found_by >= 0) return depth < kDeepest ? path(n.found_by, depth + 1) : "...";
  if (n.kind == Kind::Call) return "";
  if (PyObject* o = n.fact.is_valid() && PyWeakref_Check(n.fact.ptr()) ? referent(n.fact.ptr()) : nullptr) {
    nb::object held = nb::borrow(o);
    if (PyType_Check(o)) return reinterpret_cast<PyTypeObject*>(o)->tp_name;
    if (const char* name = PyModule_Check(o) ? PyModule_GetName(o) : nullptr) return name;
    PyErr_Clear();
  }
  return n.kind == Kind::Globals ? "globals" : "a class";
}

std::string Layout::path(int32_t number, int depth) const {
  const Edge& e = edges[number];
  const auto key = [&] {
    return e.key.is_valid() && PyUnicode_Check(e.key.ptr()) ? words(e.key.ptr()) : std::string();
  };
  const auto member = [&](const std::string& name) {
    const std::string base = path_of_node(e.parent, depth);
    return base.empty() ? name : base + "." + name;
  };
  switch (e.access) {
    case By::Function:
      return "";
    case By::Argument:
    case By::Keyword: {
      const std::string name = key();
      return name.empty() ? adjoint::text("argument ", e.at) : name;
    }
    case By::Item:
      return adjoint::text(path_of_node(e.parent, depth), "[", e.at, "]");
    case By::Element:
      return adjoint::text("an element of ", path_of_node(e.parent, depth));
    case By::Key:
      return adjoint::text("key ", e.at, " of ", path_of_node(e.parent, depth));
    case By::Value: {
      // Members of modules are named as programs name them.
      const int32_t by = nodes[e.parent].found_by;
      const std::string name = key();
      if (by >= 0 && edges[by].access == By::Attribute && edges[by].key.is_valid() && !name.empty()) {
        const std::string registry = words(edges[by].key.ptr());
        if (registry == "_parameters" || registry == "_buffers" || registry == "_modules") {
          const std::string base = path_of_node(edges[by].parent, depth);
          if (registry == "_modules" &&
              std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }))
            return adjoint::text(base, "[", name, "]");
          return base.empty() ? name : base + "." + name;
        }
      }
      return adjoint::text(path_of_node(e.parent, depth), "[",
                           e.key.is_valid() ? shown(e.key.ptr()) : adjoint::text("key ", e.at), "]");
    }
    case By::Attribute:
    case By::Slot:
    case By::ClassName:
      return member(key());
    case By::Name: {
      const Node& n = nodes[e.parent];
      const bool of_module = n.found_by >= 0 && edges[n.found_by].access == By::ModuleDict;
      return of_module ? member(key()) : key();
    }
    case By::Member:
      return member(key());
    case By::Cell:
      return key();
    case By::Content:
    case By::ModuleDict:
    case By::Referent:
    case By::Globals:
    case By::Builtins:
      return path_of_node(e.parent, depth);
    case By::Defaults:
      return "the defaults of " +
             (path_of_node(e.parent, depth).empty() ? "the function" : path_of_node(e.parent, depth));
    case By::KeywordDefaults:
      return "the keyword defaults of " +
             (path_of_node(e.parent, depth).empty() ? "the function" : path_of_node(e.parent, depth));
    case By::Method:
      return member("__func__");
    case By::Self: {
      const std::string base = path_of_node(e.parent, depth);
      return base.empty() ? "self" : base + ".__self__";
    }
    case By::Base:
      return adjoint::text("base ", e.at, " of ", path_of_node(e.parent, depth));
    case By::Inner: {
      static constexpr const char* kNames[] = {"__name__", "__qualname__", "__doc__", "__annotations__",
                                               "__module__"};
      return member(kNames[e.at]);
    }
    case By::Grad:
      return member("grad");
    case By::Hook:
      return adjoint::text("hook ", e.at, " of ", path_of_node(e.parent, depth));
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

}  // namespace adjoint::bind::paths
