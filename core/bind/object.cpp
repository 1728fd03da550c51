// Making, finding and freeing tensor objects.
#include "bind/object.h"

#include <nanobind/nanobind.h>
#include <structmember.h>

#include <new>

#include "autograd/views.h"
#include "bind/batching.h"
#include "bind/convert.h"
#include "bind/operators.h"
#include "bind/overrides.h"
#include "bind/replay.h"
#include "bind/tensor_members.h"
#include "runtime/allocator.h"
#include "state.h"
#include "transforms/interpreter.h"

namespace adjoint::bind {

PyTypeObject* tensor_type = nullptr;
static PyObject *out_of_memory_error = nullptr, *index_error = nullptr;

namespace {

#ifndef Py_GIL_DISABLED
// Objects of the type itself that were let go, to be used again.
constexpr int kFreeObjects = 128;
TensorObject* free_objects[kFreeObjects];
int free_count = 0;
#endif

[[gnu::hot]] TensorObject* new_object(PyTypeObject* type) {
#ifndef Py_GIL_DISABLED
  if (type == tensor_type && free_count > 0) {
    TensorObject* o = free_objects[--free_count];
    _Py_NewReference(reinterpret_cast<PyObject*>(o));
    Py_INCREF(type);
    return o;
  }
#endif
  TensorObject* o;
  if (type == tensor_type) {
    o = PyObject_GC_New(TensorObject, type);
  } else {
    o = reinterpret_cast<TensorObject*>(type->tp_alloc(type, 0));
  }
  if (o) {
    o->impl = nullptr;
    o->dict = nullptr;
    o->weakrefs = nullptr;
  }
  return o;
}

// An object with something of its own changes sides while the graph still holds its tensor.
bool change_sides(TensorObject* o) {
  TensorImpl* impl = o->impl;
  if (!impl || impl->refcount.load(std::memory_order_acquire) == 1) return false;
  if (!o->weakrefs && !(o->dict && PyDict_Size(o->dict)) && Py_TYPE(o) == tensor_type) return false;
  // Resurrect: the count that just reached zero is one again, and the tensor holds it.
  Py_SET_REFCNT(reinterpret_cast<PyObject*>(o), 1);
  impl->set(TensorImpl::kOwnsWrapper, true);
  runtime::release_count(impl);
  return true;
}

// A write gave the object another tensor; nodes keep the old one.
void move_object(TensorImpl* from, Tensor to) {
  const Locked python;
  auto* o = static_cast<TensorObject*>(std::exchange(from->wrapper, nullptr));
  o->impl = to.detach();
  o->impl->wrapper = o;
  runtime::release_count(from);
}

}  // namespace

void swap_objects(PyObject* a, PyObject* b) {
  if (!is_tensor(a) || !is_tensor(b)) fail<TypeError>("swap_tensors(): expected two tensors");
  if (Py_TYPE(a)->tp_basicsize != Py_TYPE(b)->tp_basicsize)
    fail("Cannot swap t1 and t2 if they have different slots");
  auto *x = reinterpret_cast<TensorObject*>(a), *y = reinterpret_cast<TensorObject*>(b);
  std::swap(x->impl, y->impl);
  x->impl->wrapper = x;
  y->impl->wrapper = y;
  std::swap(x->dict, y->dict);
  PyTypeObject* type = Py_TYPE(a);
  Py_SET_TYPE(a, Py_TYPE(b));
  Py_SET_TYPE(b, type);
  for (PyObject* o : {a, b})
    if (!PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
}

namespace {

// The object's own reference to its tensor.
bool holds(const Tensor& reference) {
  const auto* o = static_cast<const TensorObject*>(reference->wrapper);
  return o && static_cast<const void*>(&reference) == &o->impl;
}

void drop_impl(TensorObject* o) {
  if (TensorImpl* impl = o->impl) {
    o->impl = nullptr;
    impl->wrapper = nullptr;
    runtime::release_count(impl);
  }
}

[[gnu::hot]] void tensor_dealloc(PyObject* self) {
  auto* o = reinterpret_cast<TensorObject*>(self);
  PyTypeObject* type = Py_TYPE(self);
  if (o->weakrefs || o->dict) {
    if (type == tensor_type && change_sides(o)) return;
    if (PyObject_GC_IsTracked(self)) PyObject_GC_UnTrack(self);
    if (o->weakrefs) PyObject_ClearWeakRefs(self);
    Py_CLEAR(o->dict);
  } else if (PyObject_GC_IsTracked(self)) {
    PyObject_GC_UnTrack(self);
  }
  drop_impl(o);
#ifndef Py_GIL_DISABLED
  if (type == tensor_type && free_count < kFreeObjects) {
    free_objects[free_count++] = o;
    Py_DECREF(type);
    return;
  }
#endif
  if (type == tensor_type) {
    PyObject_GC_Del(self);
    Py_DECREF(type);
  } else {
    type->tp_free(self);
    Py_DECREF(type);
  }
}

// What Python does for instances of a class written in Python, after a chance to change sides. It is done
// here, since Python's own function takes the first class whose deallocator is another for the base, which
// would be this one.
void subclass_dealloc(PyObject* self) {
  auto* o = reinterpret_cast<TensorObject*>(self);
  if (change_sides(o)) return;
  PyTypeObject* type = Py_TYPE(self);
  if (type->tp_finalize && PyObject_CallFinalizerFromDealloc(self) < 0) return;
  if (PyObject_GC_IsTracked(self)) PyObject_GC_UnTrack(self);
  if (o->weakrefs) PyObject_ClearWeakRefs(self);
  for (PyTypeObject* t = type; t != tensor_type; t = t->tp_base) {
    for (PyMemberDef* m = Py_SIZE(t) ? t->tp_members : nullptr; m && m->name; ++m) {
      if (m->type != T_OBJECT_EX || (m->flags & READONLY)) continue;
      PyObject** slot = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(self) + m->offset);
      Py_CLEAR(*slot);
    }
  }
  Py_CLEAR(o->dict);
  drop_impl(o);
  type->tp_free(self);
  Py_DECREF(type);
}

// Tensor(), Tensor(2, 3), Tensor([1.0, 2.0]): the old constructor. Subclasses pass through it too.
PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  try {
    if (kwargs && PyDict_GetItemString(kwargs, "volatile") && type == tensor_type)
      fail(
          "volatile was removed and has no effect: use `with adjoint.no_grad():` or `with "
          "adjoint.inference_mode():` instead");
    if (kwargs && PyDict_Size(kwargs) && type == tensor_type)
      fail<TypeError>(
          "Tensor() takes sizes or data and no keyword arguments; use adjoint.tensor(data, dtype=..., "
          "requires_grad=...)");
    const Py_ssize_t n = PyTuple_GET_SIZE(args);
    PyObject* first = n ? PyTuple_GET_ITEM(args, 0) : nullptr;
    Tensor t;
    if (n == 1 && is_tensor(first)) {
      t = alias(unwrap(first));
    } else if (n == 1 && (!is_int(first) || PySequence_Check(first)) &&
               Py_TYPE(first) != size_type_object()) {
      t = from_python(first, default_dtype());
    } else {
      const Dims sizes = n == 0
                             ? Dims{0}
                             : as_dims(n == 1 && (!is_int(first) || PySequence_Check(first)) ? first : args,
                                       "Tensor(): the size");
      t = given(empty({sizes.data(), sizes.size()}, default_dtype()), "Tensor");
    }
    return type == tensor_type ? wrap(std::move(t)) : wrap_as(type, std::move(t));
  } catch (...) {
    return raise();
  }
}

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  // While others hold the tensor, a gradient or a graph, what hangs on it is no garbage, whoever else can be
  // reached.
  const TensorImpl* impl = reinterpret_cast<TensorObject*>(self)->impl;
  if (impl && impl->refcount.load(std::memory_order_relaxed) != 1) return 0;
  Py_VISIT(reinterpret_cast<TensorObject*>(self)->dict);
  if (!impl) return 0;
  // What a node that lives by this object alone holds: the context of a Function; or, by the results of a
  // replayed call, its function.
  if (impl->grad_fn) {
    if (impl->grad_fn->refcount.load(std::memory_order_relaxed) == 1)
      Py_VISIT(static_cast<PyObject*>(impl->grad_fn->object()));
    if (const int stop = visit_again(*impl->grad_fn, impl->output_nr, visit, arg)) return stop;
  }
  return visit_hooks(impl, visit, arg);
}
int tensor_clear(PyObject* self) {
  auto* o = reinterpret_cast<TensorObject*>(self);
  Py_CLEAR(o->dict);
  if (o->impl && o->impl->refcount.load(std::memory_order_relaxed) == 1) clear_hooks(o->impl);
  return 0;
}

// Python calls this for every subclass: its instances must be able to change sides too.
PyObject* init_subclass(PyObject* cls, PyObject*, PyObject*) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  type->tp_dealloc = subclass_dealloc;
  Py_RETURN_NONE;
}

// Attributes make the object visible to the garbage collector, which plain tensors need not be.
int tensor_setattro(PyObject* self, PyObject* name, PyObject* value) {
  if (!PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
  return PyObject_GenericSetAttr(self, name, value);
}

void release(void* wrapper) noexcept {
  auto* o = static_cast<TensorObject*>(wrapper);
  const auto object_owns = [o] {
    o->impl->refcount.store(1, std::memory_order_release);
    o->impl->set(TensorImpl::kOwnsWrapper, false);
  };
  if (!python_is_there()) return object_owns();  // neither goes: they refer to each other
  const Locked python;
  if (Py_REFCNT(reinterpret_cast<PyObject*>(o)) > 1)
    object_owns();
  else
    o->impl = nullptr;
  Py_DECREF(reinterpret_cast<PyObject*>(o));
}

PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(TensorObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weakrefs), READONLY, nullptr},
    {}};
PyMethodDef init_subclass_method[] = {
    {"__init_subclass__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(init_subclass)),
     METH_CLASS | METH_VARARGS | METH_KEYWORDS, nullptr},
    {}};

}  // namespace

[[gnu::hot]] PyObject* wrap(Tensor t) {
  if (!t.defined()) Py_RETURN_NONE;
  if (void* existing = t->wrapper) {
    PyObject* o = static_cast<PyObject*>(existing);
    if (t->is(TensorImpl::kOwnsWrapper)) {
      // Back to Python: the object owns the tensor again, with the ownership that `t` brings.
      t->set(TensorImpl::kOwnsWrapper, false);
      (void)t.detach();
      return o;
    }
    return Py_NewRef(o);
  }
  TensorObject* o = new_object(tensor_type);
  if (!o) return nullptr;
  o->impl = t.detach();
  o->impl->wrapper = o;
  return reinterpret_cast<PyObject*>(o);
}

PyObject* wrap_as(PyTypeObject* type, Tensor t) {
  if (t->wrapper) t = alias(t);
  TensorObject* o = new_object(type);
  if (!o) return nullptr;
  o->impl = t.detach();
  o->impl->wrapper = o;
  return reinterpret_cast<PyObject*>(o);
}

bool add_tensor_type(PyObject* module) {
  release_wrapper = release;
  move_wrapper = move_object;
  held_by_wrapper = holds;
  std::vector<PyType_Slot> slots = {
      {Py_tp_new, reinterpret_cast<void*>(tensor_new)},
      {Py_tp_dealloc, reinterpret_cast<void*>(tensor_dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(tensor_traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(tensor_clear)},
      {Py_tp_setattro, reinterpret_cast<void*>(tensor_setattro)},
      {Py_tp_members, members},
      {Py_tp_doc, const_cast<char*>("A multi-dimensional array that records what is done to it.\n"
                                    "\n"
                                    "Examples\n"
                                    "--------\n"
                                    ">>> import adjoint as ad\n"
                                    ">>> x = ad.tensor([1.0, 2.0], requires_grad=True)\n"
                                    ">>> (x * x).sum().backward()\n"
                                    ">>> x.grad\n"
                                    "tensor([2., 4.])")},
  };
  add_operator_slots(slots);
  add_member_slots(slots);
  static std::vector<PyMethodDef> methods;
  methods = member_methods();
  methods.insert(methods.begin(), init_subclass_method[0]);
  methods.push_back(default_torch_function);
  methods.push_back({});
  slots.push_back({Py_tp_methods, methods.data()});
  slots.push_back({0, nullptr});
  PyType_Spec spec = {"adjoint.Tensor", sizeof(TensorObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots.data()};
  tensor_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!tensor_type) return false;
  tensor_type->tp_name = "Tensor";  // as errors call it: 'Tensor' object has no attribute 'x'
  // Python's programs expect a MemoryError, those written for torch a RuntimeError.
  PyObject* bases = PyTuple_Pack(2, PyExc_RuntimeError, PyExc_MemoryError);
  out_of_memory_error =
      bases ? PyErr_NewExceptionWithDoc(
                  "adjoint.OutOfMemoryError",
                  "There is no memory for a tensor: a RuntimeError, like in torch, and a MemoryError.\n"
                  "\n"
                  "Examples\n"
                  "--------\n"
                  ">>> import adjoint as ad\n"
                  ">>> try:\n"
                  "...     ad.empty(2**60)\n"
                  "... except ad.OutOfMemoryError as error:\n"
                  "...     print(isinstance(error, MemoryError))\n"
                  "True",
                  bases, nullptr)
            : nullptr;
  Py_XDECREF(bases);
  // Which of the two torch raises for an index is a matter of the path that it takes.
  bases = PyTuple_Pack(2, PyExc_IndexError, PyExc_RuntimeError);
  index_error = bases ? PyErr_NewException("adjoint._C.IndexError", bases, nullptr) : nullptr;
  Py_XDECREF(bases);
  return out_of_memory_error && PyModule_AddObjectRef(module, "OutOfMemoryError", out_of_memory_error) == 0 &&
         index_error && PyModule_AddObjectRef(module, "IndexError", index_error) == 0 &&
         PyModule_AddObjectRef(module, "Tensor", reinterpret_cast<PyObject*>(tensor_type)) == 0;
}

namespace {

/// A program that is recorded may go on after an error, which depended on elements: that is a decision which
/// no trace has.
void tell_failed() {
  if (thread_state.observer) [[unlikely]]
    tell_recorders("it goes on after an operation failed");
}

}  // namespace

PyObject* raise() noexcept {
  try {
    throw;
  } catch (const runtime::Interrupted& interrupted) {
    try {
      std::rethrow_exception(interrupted.why);
    } catch (...) {
      return raise();
    }
  } catch (const PythonError&) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "an error was announced but not set");
  } catch (nanobind::python_error& e) {
    e.restore();
  } catch (const PerSample& e) {
    set_per_sample_error(e);
  } catch (const IndexError& e) {
    tell_failed();
    PyErr_SetString(index_error, e.what());
  } catch (const TypeError& e) {
    PyErr_SetString(PyExc_TypeError, e.what());
  } catch (const ValueError& e) {
    tell_failed();
    PyErr_SetString(PyExc_ValueError, e.what());
  } catch (const NotImplemented& e) {
    PyErr_SetString(PyExc_NotImplementedError, e.what());
  } catch (const OverflowError& e) {
    PyErr_SetString(PyExc_OverflowError, e.what());
  } catch (const std::bad_alloc& e) {
    tell_failed();
    const bool said = dynamic_cast<const runtime::OutOfMemory*>(&e);
    PyErr_SetString(out_of_memory_error,
                    said ? e.what()
                         : "the system has no memory left for what the operator needs beside its result; use "
                           "smaller inputs, or free tensors that are not needed");
  } catch (const std::exception& e) {
    tell_failed();
    PyErr_SetString(PyExc_RuntimeError, e.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an unknown error in the core");
  }
  return nullptr;
}

}  // namespace adjoint::bind
