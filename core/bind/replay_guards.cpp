// What the guards of a layout compare: plain values by their builtin types, tensors by their geometry, memory
// by who shares it. Nothing of the program runs here. Start reading at `passes`.
#include <algorithm>
#include <cstring>

#include "autograd/many.h"
#include "autograd/meta.h"
#include "bind/replay_types.h"
#include "dispatch/operator.h"

namespace adjoint::bind::paths {

uint64_t version_of_dict([[maybe_unused]] PyObject* dict) {
#if PY_VERSION_HEX < 0x030E0000
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#pragma GCC diagnostic pop
#else
  return 0;
#endif
}

uint64_t version_of_type(PyTypeObject* type) {
#if PY_VERSION_HEX < 0x030C0000
  if (!PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
#endif
  return type->tp_version_tag;
}

PyObject* attributes_of(PyObject* o, Kind kind) {
  if (kind == Kind::Tensor) return Py_XNewRef(reinterpret_cast<TensorObject*>(o)->dict);
  if (kind == Kind::Function) return Py_XNewRef(reinterpret_cast<PyFunctionObject*>(o)->func_dict);
  PyObject* dict = PyObject_GenericGetDict(o, nullptr);
  if (!dict) PyErr_Clear();
  if (dict && !PyDict_Check(dict)) Py_CLEAR(dict);
  return dict;
}

uint64_t version_of_attributes(PyObject* dict) {
#if PY_VERSION_HEX >= 0x030D0000
  // What an instance holds inline is written without the dict's knowledge.
  if (reinterpret_cast<PyDictObject*>(dict)->ma_values) return 0;
#endif
  return version_of_dict(dict);
}

PyObject* referent(PyObject* weak) {
#if PY_VERSION_HEX < 0x030D0000
  PyObject* o = PyWeakref_GET_OBJECT(weak);
  return o == Py_None ? nullptr : o;
#else
  PyObject* o = nullptr;
  if (PyWeakref_GetRef(weak, &o) != 1) {
    PyErr_Clear();
    return nullptr;
  }
  Py_DECREF(o);  // the caller holds it by the path, or compares addresses
  return o;
#endif
}

PyObject* itself(const Node& n) {
  PyObject* o = n.fact.ptr();
  if (!PyWeakref_Check(o)) return o;
  o = referent(o);
  return o && n.kind == Kind::Globals ? PyModule_GetDict(o) : o;
}

bool in_order(PyObject* ordered) {
  nb::object keys = nb::steal(PyODict_Type.tp_iter(ordered));
  Py_ssize_t at = 0;
  PyObject *key, *value;
  bool same = keys.is_valid();
  while (same && PyDict_Next(ordered, &at, &key, &value)) {
    nb::object next = nb::steal(PyIter_Next(keys.ptr()));
    same = next.ptr() == key;
  }
  if (PyErr_Occurred()) PyErr_Clear();
  return same;
}

PyObject* inner(PyObject* o, int which) {
  if (PyType_Check(o)) {
    auto* const type = reinterpret_cast<PyHeapTypeObject*>(o);
    return which == 0 ? type->ht_name : type->ht_qualname;
  }
  auto* const f = reinterpret_cast<PyFunctionObject*>(o);
  PyObject* const all[] = {f->func_name, f->func_qualname, f->func_doc, f->func_annotations, f->func_module};
  return all[which];
}

PyObject* registrations() {
  static PyObject* const count =
      nb::object(nb::module_::import_("_abc").attr("get_cache_token")).release().ptr();
  return PyObject_CallNoArgs(count);
}

PyObject* elements_of(PyObject* set) {
  if (!PyAnySet_Check(set)) {
    nb::object elements = nb::steal(types().deque->tp_iter(set));
    return elements.is_valid() ? PySequence_List(elements.ptr()) : nullptr;
  }
  nb::object elements = nb::steal((PyFrozenSet_Check(set) ? PyFrozenSet_Type : PySet_Type).tp_iter(set));
  return elements.is_valid() ? PySequence_List(elements.ptr()) : nullptr;
}

PyObject* member_of(PyObject* o, PyObject* name) {
  if (!PyDict_Check(o)) return PyObject_GetAttr(o, name);
  // Of a defaultdict, whose subclass may answer by code of its own.
  PyObject* const member = _PyType_Lookup(types().default_dict, name);
  return Py_TYPE(member)->tp_descr_get(member, o, reinterpret_cast<PyObject*>(Py_TYPE(o)));
}

PyObject* base_value(PyObject* o) {
  if (PyLong_Check(o)) return PyLong_Type.tp_as_number->nb_int(o);
  if (PyFloat_Check(o)) return PyFloat_FromDouble(PyFloat_AS_DOUBLE(o));
  if (PyComplex_Check(o)) return PyComplex_FromDoubles(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o));
  if (PyUnicode_Check(o)) return PyUnicode_FromObject(o);
  return PyBytes_FromStringAndSize(PyBytes_AS_STRING(o), PyBytes_GET_SIZE(o));
}

// ---- plain values
// -------------------------------------------------------------------------------------------------

namespace {

int64_t bits_of(double d) {
  int64_t bits;
  std::memcpy(&bits, &d, sizeof bits);
  return bits;
}

bool same_text(PyObject* a, PyObject* b) { return a == b || PyUnicode_Compare(a, b) == 0; }
}  // namespace

bool guard_value(Edge& e, PyObject* o) {
  if (!o) {
    e.guard = Guard::Absent;
    return true;
  }
  PyTypeObject* t = Py_TYPE(o);
  if (t == &PyLong_Type) {
    int overflow = 0;
    e.bits = PyLong_AsLongLongAndOverflow(o, &overflow);
    e.guard = overflow ? Guard::Equal : Guard::Int;
  } else if (t == &PyFloat_Type) {
    e.guard = Guard::Float;
    e.bits = bits_of(PyFloat_AS_DOUBLE(o));
  } else if (t == &PyComplex_Type) {
    e.guard = Guard::Complex;
    e.bits = bits_of(PyComplex_RealAsDouble(o));
    e.more = bits_of(PyComplex_ImagAsDouble(o));
  } else if (t == &PyUnicode_Type) {
    e.guard = Guard::Text;
  } else if (t == &PyBytes_Type) {
    e.guard = Guard::Bytes;
  } else if (t == &PyRange_Type) {
    e.guard = Guard::Equal;
  } else if (o == Py_None || t == &PyBool_Type || o == Py_Ellipsis || o == Py_NotImplemented ||
             t == &PyCode_Type) {
    e.guard = Guard::Same;
  } else {
    return false;
  }
  e.expected = nb::borrow(o);
  return true;
}

bool passes(const Edge& e, PyObject* v) {
  PyObject* const expected = e.expected.ptr();
  switch (e.guard) {
    case Guard::Absent:
      return !v;
    case Guard::Any:
      return true;
    case Guard::Same:
      return v == expected;
    case Guard::Int: {
      if (v == expected) return true;
      if (!v || !PyLong_CheckExact(v)) return false;
      int overflow = 0;
      return PyLong_AsLongLongAndOverflow(v, &overflow) == e.bits && !overflow;
    }
    case Guard::Float:
      return v == expected || (v && PyFloat_CheckExact(v) && bits_of(PyFloat_AS_DOUBLE(v)) == e.bits);
    case Guard::Varying:
      if (!v || Py_TYPE(v) != Py_TYPE(expected)) return false;
      if (PyFloat_CheckExact(v)) return true;
      {
        int overflow = 0;
        PyLong_AsLongLongAndOverflow(v, &overflow);
        return !overflow;
      }
    case Guard::Complex:
      return v && PyComplex_CheckExact(v) && bits_of(PyComplex_RealAsDouble(v)) == e.bits &&
             bits_of(PyComplex_ImagAsDouble(v)) == e.more;
    case Guard::Text:
      return v == expected || (v && PyUnicode_CheckExact(v) && same_text(v, expected));
    case Guard::Bytes:
      return v == expected ||
             (v && PyBytes_CheckExact(v) && PyBytes_GET_SIZE(v) == PyBytes_GET_SIZE(expected) &&
              !std::memcmp(PyBytes_AS_STRING(v), PyBytes_AS_STRING(expected),
                           static_cast<size_t>(PyBytes_GET_SIZE(v))));
    case Guard::Equal: {
      if (v == expected) return true;
      if (!v || Py_TYPE(v) != Py_TYPE(expected)) return false;
      const int equal = PyObject_RichCompareBool(v, expected, Py_EQ);
      if (equal < 0) PyErr_Clear();
      return equal == 1;
    }
    case Guard::Weak:
      return v && referent(expected) == v;
    case Guard::Address:
      return v && reinterpret_cast<int64_t>(v) == e.bits && reinterpret_cast<int64_t>(Py_TYPE(v)) == e.more;
    case Guard::Code: {
      if (!v || !PyFunction_Check(v)) return false;
      const auto* f = reinterpret_cast<PyFunctionObject*>(v);
      return f->func_code == expected && (f->func_dict ? PyDict_GET_SIZE(f->func_dict) : 0) == e.bits;
    }
    case Guard::Builtin:
      return v && PyCFunction_Check(v) &&
             reinterpret_cast<int64_t>(reinterpret_cast<PyCFunctionObject*>(v)->m_ml) == e.bits;
    case Guard::Node:
    case Guard::Tensor:
      return false;
  }
  return false;
}

// ---- tensors
// ------------------------------------------------------------------------------------------------------

bool is_hooked(const Tensor& t) {
  const auto any_of = [](const adjoint::Node* node) {
    NodeExtras* extras = node ? node->extras() : nullptr;
    if (!extras) return false;
    std::lock_guard lock(extras->mutex);
    return !extras->tensor_hooks.empty() || !extras->prehooks.empty() || !extras->posthooks.empty();
  };
  AutogradMeta* meta = meta_of(t);
  if (t->grad_fn) return any_of(resolved(t->grad_fn, t->output_nr));
  if (!meta) return false;
  if (any_of(meta->accumulator.load(std::memory_order_acquire))) return true;
  // A gradient of another type is more to look at than a gradient, too.
  if (meta->gradient_type.load(std::memory_order_acquire) != kTypeOfLeaf) return true;
  if (!meta->hooked.load(std::memory_order_acquire)) return false;
  std::lock_guard lock(meta->lock);
  return !meta->hooks.empty() || !meta->post_accumulate_hooks.empty();
}

uint64_t hooks_on(const Tensor& t) {
  uint64_t all = 0;
  for (const HookOfPython& h : python_hooks(t))
    all = (all * 31 + static_cast<uint64_t>(h.place)) * 1'000'003 + h.number;
  return all;
}

TensorGuard look_at(const Tensor& t, std::vector<int64_t>& geometry) {
  TensorGuard g;
  g.defined = true;
  g.recorded = t->grad_fn;
  g.hooked = is_hooked(t);
  g.hooks = g.hooked ? hooks_on(t) : 0;
  g.gradient_type = gradient_type_of(t);
  g.external = owner_of_bytes(t->storage)->kind == Storage::Kind::External;
  g.dtype = t->dtype;
  g.device = t->storage->device;
  g.ndim = t->ndim;
  g.flags = t->flags & ~kUnseen;
  g.geometry = static_cast<int32_t>(geometry.size());
  geometry.insert(geometry.end(), t->sizes().begin(), t->sizes().end());
  geometry.insert(geometry.end(), t->strides().begin(), t->strides().end());
  return g;
}

std::string difference(const TensorGuard& a, const int64_t* a_geometry, const TensorGuard& b,
                       const int64_t* b_geometry) {
  const auto differ = [](const char* what, auto now, auto was) {
    return adjoint::text(what, " ", now, ", was ", was);
  };
  if (a.defined != b.defined) return b.defined ? "is there, was None" : "is None, was a tensor";
  if (!a.defined) return {};
  if (a.dtype != b.dtype) return differ("has dtype", name_of(b.dtype), name_of(a.dtype));
  const IntList sizes(a_geometry + a.geometry, a.ndim), now(b_geometry + b.geometry, b.ndim);
  if (!same(sizes, now)) return differ("has shape", to_string(now), to_string(sizes));
  const IntList strides(a_geometry + a.geometry + a.ndim, a.ndim);
  const IntList strides_now(b_geometry + b.geometry + b.ndim, b.ndim);
  if (!same(strides, strides_now)) return differ("has strides", to_string(strides_now), to_string(strides));
  if (a.device != b.device) return differ("is on", name_of(b.device), name_of(a.device));
  if ((a.flags ^ b.flags) & TensorImpl::kRequiresGrad)
    return b.flags & TensorImpl::kRequiresGrad ? "requires grad, did not" : "does not require grad, did";
  if (a.recorded != b.recorded) return b.recorded ? "has a history, was a leaf" : "is a leaf, had a history";
  if (a.hooked != b.hooked) return b.hooked ? "has a hook, had none" : "has no hook, had one";
  if (a.gradient_type != b.gradient_type) return "has another grad_dtype than before";
  if (a.flags != b.flags) return differ("has the flags", b.flags, a.flags);
  if (a.external != b.external)
    return b.external ? "is memory of others, was not" : "is memory of its own, was not";
  return {};
}

Sharing sharing_of(std::span<TensorImpl* const> tensors, bool external) {
  Sharing r;
  const auto count = static_cast<int32_t>(tensors.size());
  r.of.resize(tensors.size(), {-1, 0});
  r.counts.resize(tensors.size(), -1);
  Addresses::Entries entries;
  Addresses owners(entries, tensors.size());
  std::vector<int32_t> shared;
  for (int32_t i = 0; i < count; ++i) {
    const TensorImpl* t = tensors[i];
    if (!t) continue;
    const int32_t owner = owners.first(bytes_of(t), i);
    r.of[i] = {owner, t->data - tensors[owner]->data};
    r.counts[i] = i;
    if (owner == i) continue;
    const auto counts = [&](int32_t j) { return tensors[j]->storage == t->storage; };
    if (counts(owner))
      r.counts[i] = owner;
    else if (const auto at = std::ranges::find_if(shared, counts); at != shared.end())
      r.counts[i] = *at;
    if (t == tensors[owner]) r.twice = {owner, i};
    for (int32_t j : shared)
      if (tensors[j] == t) r.twice = {j, i};
    shared.push_back(i);
  }
  if (!external) return r;
  std::vector<int32_t> order;
  for (int32_t i = 0; i < count; ++i)
    if (r.of[i].first == i && tensors[i]->storage->nbytes) order.push_back(i);
  const auto begin = [&](int32_t i) { return owner_of_bytes(tensors[i]->storage)->data; };
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return begin(a) < begin(b); });
  for (size_t i = 1; i < order.size(); ++i)
    if (begin(order[i]) < begin(order[i - 1]) + owner_of_bytes(tensors[order[i - 1]]->storage)->nbytes)
      r.overlap = {order[i - 1], order[i]};
  return r;
}

}  // namespace adjoint::bind::paths
