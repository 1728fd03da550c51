// Places of Python's state, and what a replayed call leaves there. Start reading at `Store`.
#pragma once

#include <vector>

#include "bind/replay_paths.h"

namespace adjoint::bind::paths {

/// The kinds of a `Change` that can be done again: see _replay/_paths.py.
enum class Where : uint8_t { Attribute, Slot, ClassAttribute, Item, Key, Global, Cell, Grad, Append };
Where where_of(nb::handle kind);

/// What stands at a place; null without an error where nothing does. Code of the program does not run.
nb::object stands(Where where, PyObject* holder, PyObject* key);
/// Leave a value there, or nothing where it is null; of an append, the items from position `key` on.
void put(Where where, PyObject* holder, PyObject* key, PyObject* value);

/// A value of containers, plain values, and what a call made, by number: `Structure.form` of _results.py.
struct Form {
  enum class Kind : uint8_t { Made, Plain, Tuple, List, Dict, Named } kind = Kind::Plain;
  size_t number = 0;
  /// A plain value, or the type of a named tuple.
  nb::object value = {};
  std::vector<nb::object> keys = {};
  std::vector<Form> parts = {};

  static Form of(nb::handle form);
  nb::object build(std::span<PyObject* const> made) const;
  int visit(visitproc visit, void* arg) const;
};

/// One thing that a call leaves in Python's state: a form at a place of the node or tensor `holder`.
struct Store {
  Where where;
  int32_t holder;
  nb::object key;
  Form form;
  /// Whether nothing is left there.
  bool removed = false;

  void operator()(PyObject* holder, std::span<PyObject* const> made) const;
};

}  // namespace adjoint::bind::paths
