// What a function reads of Python, as a flat program that is walked at each call: see Note: what a function
// reads.
//
// A `Node` is an object that is looked into: a list, an instance, a function, the globals of a module. Its
// `Edge`s are what was found in it, in the order in which it is read, and each says what must be found there
// again: a plain value (`Guard`), or another node. A node is visited once: a second edge to it asks for the
// same object, and two nodes that may be written ask for two. Nodes stand after the first that leads to them,
// so one pass in order reaches all. Nothing of the program is held but names, plain values, code and whatever
// is there for good; classes and modules are known by weak references. What is collected: replay_collect.cpp;
// how it is compared: replay_paths.cpp; what a run changed, and how two layouts differ: replay_changes.cpp.
// Start reading at `Walk`.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "autograd/meta.h"
#include "bind/caster.h"
#include "bind/object.h"
#include "bind/replay.h"

namespace adjoint::bind::paths {

namespace nb = nanobind;

/// How an object is found in its parent.
enum class By : uint8_t {
  // Of the call.
  Function,
  Argument,
  Keyword,
  // Of a list or tuple, by position; of a dict, in its order; of a set, in its order.
  Item,
  Key,
  Value,
  Element,
  // Of an instance, a function, a tensor: in its dict, in its order; then at an offset.
  Attribute,
  Slot,
  // Of a function, a cell, a method, a builtin.
  Cell,
  Content,
  Defaults,
  KeywordDefaults,
  Globals,
  Builtins,
  Method,
  Self,
  // Of objects of builtin types: by a name that runs no code of the program.
  Member,
  Referent,
  // Of a module, of its dict or other globals, of a class.
  ModuleDict,
  Name,
  ClassName,
  Base,
  // What makes a function or a class, by its number.
  Inner,
  // Of a tensor.
  Grad,
  Hook,
};

/// What must be found.
enum class Guard : uint8_t {
  Node,
  Tensor,  // or none, where `node` is not known
  Absent,  // nothing
  Any,     // whatever it is
  Same,    // this object
  Int,
  Float,
  Varying,  // any float, or any int
  Complex,
  Text,
  Bytes,
  Equal,    // of the same builtin type, equal
  Weak,     // what this weak reference refers to
  Address,  // what lies there, of that type: descriptors, which are as good as each other
  Code,     // a function of this code
  Builtin,  // a C function of this definition
};

struct Edge {
  By access;
  Guard guard = Guard::Any;
  /// Position or offset.
  int32_t at = 0;
  int32_t parent = 0;
  /// The node that it leads to; of a tensor, its number among tensors.
  int32_t node = -1;
  nb::object key = {};
  nb::object expected = {};
  /// An int, a float, a real part, an address; an imaginary part.
  int64_t bits = 0, more = 0;
};

/// The guard of a plain value, also where it may vary.
inline Guard number_guard(const Edge& e) {
  if (e.guard != Guard::Varying) return e.guard;
  return PyFloat_CheckExact(e.expected.ptr()) ? Guard::Float : Guard::Int;
}

enum class Kind : uint8_t {
  Call,
  Plain,  // members by name, or nothing but attributes
  List,
  Tuple,
  Dict,
  Set,
  Number,  // an instance of a subclass of int, float, str or bytes: its value is its first edge
  Function,
  Cell,
  Method,
  Builtin,
  Weakref,
  Module,
  Globals,
  Class,
  Tensor,
};

struct Node {
  Kind kind;
  /// Whether there is a dict of attributes; whether nothing of a module or class may change.
  bool attributes = false, strict = false;
  /// Whether it is the library's, and of its attributes only the function that it wraps counts.
  bool wraps = false;
  /// Of globals: whether they are read as attributes of a module, too. Of a dict: whether it is an
  /// OrderedDict.
  bool by_attributes = false, ordered = false;
  /// Of globals: whether there are numbers among them that vary.
  bool varies = false;
  /// Whether it can be written, so that it must not be another node too.
  bool changes = false;
  /// The edge by which it was found first; -1: itself, by `fact`.
  int32_t found_by = -1;
  int32_t first = 0, end = 0;
  /// Where the edges of the container end, and from where on edges are read although the version is the same.
  int32_t split = 0;
  int32_t slots = 0;
  Py_ssize_t length = 0, named = 0;
  /// Its type, where that is there for good; else `class_node`; else null.
  PyTypeObject* type = nullptr;
  int32_t class_node = -1;
  int32_t tensor = -1;
  /// Edges that lead on, in `Layout::leads`: from the container, then from the attributes.
  int32_t leads = 0, leads_of_attributes = 0, leads_end = 0;
  /// The version of the attributes when all of them were last found as expected; of `version` see below.
  uint64_t attributes_version = 0;
  /// Code of a function; a weak reference to a class or a module, or globals themselves.
  nb::object fact = {};
  /// Of globals, a class, a dict: the version at which all was as expected. Of a builtin, its definition.
  uint64_t version = 0;
};

/// What a tensor must look like.
struct TensorGuard {
  /// None where there is no gradient.
  bool defined = false;
  bool recorded = false, hooked = false, external = false;
  DType dtype = DType::Float32;
  Device device = Device::CPU;
  uint8_t ndim = 0;
  uint32_t flags = 0;
  /// Which hooks it has: changes that a run makes to these are not compared with those of another run.
  uint64_t hooks = 0;
  GradientType gradient_type = kTypeOfLeaf;
  /// Where its sizes and strides are.
  int32_t geometry = 0;
  /// The place of its gradient; none: -1. Of a gradient's place: whose it is.
  int32_t grad = -1, grad_of = -1;
  /// The class of its object, where no node tells.
  PyTypeObject* type = nullptr;
  /// The first tensor on the same storage, and how far behind its first element this one's is, in bytes.
  int32_t owner = 0;
  int64_t distance = 0;
  /// The first tensor that counts writes together with it.
  int32_t count = 0;
  int32_t found_by = -1;
  int32_t node = -1;
};

struct Layout {
  static constexpr int kDeepest = 50;
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::vector<TensorGuard> tensors;
  std::vector<int64_t> geometry;
  /// Globals of the library's own modules: the dict, its version, and the names that were read with their
  /// values. Layouts of one state share them.
  struct Library {
    nb::object dict, names;
    std::vector<nb::object> values;
    uint64_t version;
  };
  std::vector<std::shared_ptr<Library>> libraries;
  /// The names of attributes that ran code reads, and whether it may read any; of these those that the
  /// program's own code names, in order, which alone lead through modules.
  nb::object names, own_names;
  bool all = false, own_all = false;
  /// Whether it may look at what makes a function or a class: names, defaults, annotations, closures.
  bool inside = false;
  /// How often a class was registered with an abstract one, where that is asked for.
  nb::object registered;
  /// Whether bytes of others are among the tensors', which may overlap although their storages differ.
  bool external = false;
  /// Nodes that are reached by themselves, and those that must be objects of their own.
  std::vector<int32_t> own, changing;
  /// What could not be followed, with the edge that leads there.
  std::vector<std::pair<int32_t, std::string>> unknown;
  /// Edges to floats and ints, and those of them that may be any.
  std::vector<int32_t> numbers, varying;
  std::string why;

  /// Edges that lead on from dicts, and what they led to when the dict had the version that its node notes:
  /// as long as it has, it holds them.
  std::vector<int32_t> leads;
  std::vector<PyObject*> led_to;

  // Until released: the objects of nodes and edges, and the tensors, as they were found.
  std::vector<nb::object> objects, children;
  std::vector<Tensor> found;

  /// Fill `leads`.
  void find_leads();
  /// Hold what a call reads as if it was collected for it. Where numbers are others, `other` becomes a layout
  /// with these, which does so. False where more is not as it was, numbers may vary, or a call holds this one
  /// already.
  bool take(PyObject* function, PyObject* args, PyObject* kwargs, Layout& other);
  /// As a program would write it; of what lies deeper than `kDeepest`, the end.
  std::string path(int32_t edge, int depth = 0) const;
  std::string path_of_node(int32_t node, int depth = 0) const;
  std::string path_of_tensor(int32_t number) const;
};

/// The walk of one call: what was found, in the order of the layout. A tensor that Python holds is held by
/// its object, whose count is cheap; a gradient by itself.
class Walk {
 public:
  /// With `keep`, which has a place for each edge, what each leads to is kept there, and nothing is skipped
  /// because it has the version that it had; numbers may be others.
  explicit Walk(Layout& l, std::vector<nb::object>* keep = nullptr);
  ~Walk();
  Walk(const Walk&) = delete;
  /// Whether all is as the layout says; else `layout.why` tells what is not.
  bool call(PyObject* function, PyObject* args, PyObject* kwargs);
  /// The tensor of a number, null for None; good as long as this walk lives and Python's lock is held.
  TensorImpl* tensor(size_t i) const { return scratch_.tensors[i].impl; }
  /// Its object, new.
  PyObject* take(size_t i);
  size_t count() const { return scratch_.tensors.size(); }
  /// Let go of a gradient.
  void drop(size_t i) {
    if (Found& f = scratch_.tensors[i]; !f.object) Tensor::steal(std::exchange(f.impl, nullptr));
  }
  /// The object of a node.
  PyObject* object(size_t i) const { return nodes[i]; }
  /// Append the objects of nodes, in order: by weak references, where there may be such.
  void hold(PyObject* list) const;
  /// Edges to numbers that are others, where that is no reason to fail.
  const std::vector<int32_t>& others() const { return others_; }
  const std::vector<Scalar>& numbers() const { return scratch_.numbers; }

 private:
  struct Found {
    PyObject* object = nullptr;  // owned
    TensorImpl* impl = nullptr;  // owned where there is no object
  };
  /// What a thread keeps from walk to walk.
  struct Scratch {
    std::vector<PyObject*> nodes;  // owned
    std::vector<Found> tensors;
    std::vector<Scalar> numbers;
    std::vector<std::pair<const void*, int32_t>> addresses;
  };
  static Scratch& kept();

  bool edge(const Edge& e, PyObject* value);
  bool look(const Edge& e, PyObject* value);
  bool found(int32_t number, PyObject* object, TensorImpl* impl);
  bool node(int32_t number);
  bool attributes(Node& n, PyObject* dict);
  bool dict(Node& n, PyObject* dict);
  bool globals(Node& n, PyObject* dict);
  bool klass(Node& n, PyObject* type);
  bool led(int32_t first, int32_t end);
  bool libraries();
  bool sharing();
  bool distinct();
  [[gnu::noinline, gnu::cold]] bool fails(const Edge& e, PyObject* value);
  [[gnu::noinline, gnu::cold]] bool fails(const Node& n, PyObject* value, const char* what);
  [[gnu::noinline, gnu::cold]] bool fails(std::string why);
  [[gnu::noinline, gnu::cold]] bool shares(const char* what = nullptr);

  Layout& layout;
  std::vector<nb::object>* const keep_;
  std::vector<int32_t> others_;
  Scratch scratch_;
  std::vector<PyObject*>& nodes = scratch_.nodes;
};

/// Look at a tensor: all of its guard but what it shares.
TensorGuard look_at(const Tensor& t, std::vector<int64_t>& geometry);
/// Words for how tensors differ; empty where they do not.
std::string difference(const TensorGuard& a, const int64_t* a_geometry, const TensorGuard& b,
                       const int64_t* b_geometry);
/// Who shares memory with whom, for tensors that are there: their owners and distances; the numbers of two
/// that overlap although their storages differ, or of one that is there twice, else (-1, -1).
struct Sharing {
  std::vector<std::pair<int32_t, int64_t>> of;
  /// The first that counts writes with each.
  std::vector<int32_t> counts;
  std::pair<int32_t, int32_t> overlap{-1, -1}, twice{-1, -1};
};
Sharing sharing_of(std::span<TensorImpl* const> tensors, bool external);
/// Who owns the bytes.
inline const void* bytes_of(const TensorImpl* t) { return owner_of_bytes(t->storage); }
/// Numbers that no other state of the dict, or of the type, has; 0 where there are none.
uint64_t version_of_dict(PyObject* dict);
/// The same for a dict of attributes, which instances may write around.
uint64_t version_of_attributes(PyObject* dict);
uint64_t version_of_type(PyTypeObject* type);
/// The attributes of an object that has any, without making a dict; new. Null without an error.
PyObject* attributes_of(PyObject* o, Kind kind);
/// What an edge to a plain value guards; false where the object is no such value.
bool guard_value(Edge& e, PyObject* o);
bool passes(const Edge& e, PyObject* value);
/// What makes a function, or a class, borrowed: name, qualified name, and of a function documentation,
/// annotations, module.
inline constexpr int kInnerOfFunction = 5, kInnerOfClass = 2;
PyObject* inner(PyObject* o, int which);
/// How often any class was registered with an abstract one, so far; new.
PyObject* registrations();
/// Of a weak reference, borrowed; null when it is gone.
PyObject* referent(PyObject* weak);
/// The object of a node that is reached by itself, borrowed.
PyObject* itself(const Node& n);
/// Whether an OrderedDict has the order of its entries; the elements of a set, a new list; the value of an
/// instance of a subclass of int, float, complex, str or bytes, new.
bool in_order(PyObject* ordered);
PyObject* elements_of(PyObject* set);
PyObject* base_value(PyObject* o);
/// A member of an object of a builtin type, by its name; new.
PyObject* member_of(PyObject* o, PyObject* name);
/// As an error would show it, shortened.
std::string shown(PyObject* o);

/// What flags of tensors do not tell of what a program may do with them.
inline constexpr uint32_t kUnseen = TensorImpl::kOwnsWrapper | TensorImpl::kEmbedded;
bool is_hooked(const Tensor& t);
/// A number that tells the hooks of a tensor from those that it had before; 0 where there are none.
uint64_t hooks_on(const Tensor& t);

/// One entry for each address, in a table without chains.
class Addresses {
 public:
  using Entries = std::vector<std::pair<const void*, int32_t>>;
  Addresses(Entries& entries, size_t count) : entries_(entries) {
    size_t size = 16;
    while (size < 2 * count) size *= 2;
    mask_ = size - 1;
    entries_.assign(size, {nullptr, -1});
  }
  /// The number that came with the address first.
  int32_t first(const void* address, int32_t number) {
    const auto a = reinterpret_cast<uint64_t>(address);
    for (size_t i = (a >> 4) * 0x9E3779B97F4A7C15u >> 32 & mask_;; i = (i + 1) & mask_) {
      if (!entries_[i].first) entries_[i] = {address, number};
      if (entries_[i].first == address) return entries_[i].second;
    }
  }

 private:
  size_t mask_;
  Entries& entries_;
};

/// Fill a layout: see replay_collect.cpp.
void collect(Layout& l, PyObject* function, PyObject* args, PyObject* kwargs, nb::dict facts, nb::dict own);
/// What a run changed: tuples of kind, node, path of the holder, key, what was there and what is.
nb::list changes(Layout& l);
/// Where two layouts differ, but for floats at these edges; empty where they do not.
std::string difference(const Layout& a, const Layout& b, const std::vector<int32_t>& but);
nb::object reach(Layout& l, int32_t node, PyObject* function, PyObject* args, PyObject* kwargs);

}  // namespace adjoint::bind::paths
