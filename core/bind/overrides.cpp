#include "bind/overrides.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <vector>

#include "bind/node_object.h"
#include "dispatch/operator.h"
#include "for_size.h"
#include "ops/shape.h"

namespace nb = nanobind;

namespace adjoint::bind {

PyTypeObject* parameter_type = nullptr;
std::atomic<int> open_modes{0};

namespace {

/// What of the protocol is in force in a thread.
enum State : int { kEnabled, kSubclassesDisabled, kAllDisabled };
thread_local int state = kEnabled;
/// A list, the innermost last; null where there was none yet.
thread_local PyObject* modes = nullptr;

PyObject* disabled = nullptr;  // _disabled_torch_function_impl
PyObject* nowrap = nullptr;    // functions whose results stay what they are: a set
PyObject* protocol_name() {
  static PyObject* const name = PyUnicode_InternFromString("__torch_function__");
  return name;
}

class WithState {
 public:
  explicit WithState(int at_least) : before_(state) { state = std::max(state, at_least); }
  ~WithState() { state = before_; }
  WithState(const WithState&) = delete;

 private:
  int before_;
};

/// The next call that somebody would answer is to run as if nobody did.
thread_local bool skip_next = false;

Py_ssize_t mode_count() { return modes ? PyList_GET_SIZE(modes) : 0; }
bool mode_is_open() { return state != kAllDisabled && mode_count() > 0; }

/// The innermost mode while it answers: what it calls goes to the one around it.
class Asked {
 public:
  Asked() : at_(mode_count() - 1), mode(nb::borrow(PyList_GET_ITEM(modes, at_))) {
    PyList_SetSlice(modes, at_, at_ + 1, nullptr);
    open_modes.fetch_sub(1, std::memory_order_relaxed);
  }
  ~Asked() {
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyList_Insert(modes, std::min(at_, mode_count()), mode.ptr());
    open_modes.fetch_add(1, std::memory_order_relaxed);
    PyErr_Restore(type, error, traceback);
  }
  Asked(const Asked&) = delete;

 private:
  Py_ssize_t at_;

 public:
  const nb::object mode;
};

/// Whether a type defines the protocol, and has not given it up.
bool has_protocol(PyTypeObject* type) {
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return false;
  PyObject* found = _PyType_Lookup(type, protocol_name());
  return found && found != disabled;
}

bool is_list(PyObject* o) { return PyTuple_Check(o) || PyList_Check(o); }
/// Elements to look at: a long list that begins with a number is one of numbers.
Py_ssize_t elements(PyObject* list) {
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(list);
  if (n <= 64) return n;
  PyObject* first = PySequence_Fast_GET_ITEM(list, 0);
  return PyLong_CheckExact(first) || PyFloat_CheckExact(first) ? 0 : n;
}

/// One argument of each type that takes part, in the order in which they are asked.
class TakingPart {
 public:
  void add(PyObject* o) {
    PyTypeObject* type = Py_TYPE(o);
    auto at = all.end();
    for (auto it = all.begin(); it != all.end(); ++it) {
      if (Py_TYPE(*it) == type) return;
      if (at == all.end() && PyType_IsSubtype(type, Py_TYPE(*it))) at = it;
    }
    all.insert(at, o);
  }
  void look_at(PyObject* o, bool into = true) {
    if (is_ordinary(o)) return;
    if (has_protocol(Py_TYPE(o))) return add(o);
    if (into && is_list(o))
      for (Py_ssize_t i = 0; i < elements(o); ++i) look_at(PySequence_Fast_GET_ITEM(o, i), false);
  }
  std::vector<PyObject*> all;
};

nb::object call_method(nb::handle method, PyObject* function, nb::handle types, nb::handle args,
                       nb::handle kwargs) {
  PyObject* const arguments[] = {function, types.ptr(), args.ptr(), kwargs.ptr()};
  return nb::steal(PyObject_Vectorcall(method.ptr(), arguments, 4, nullptr));
}

[[gnu::cold]] PyObject* nobody_answered(PyObject* function, nb::handle types, nb::handle mode) {
  nb::object module = nb::steal(PyImport_ImportModule("adjoint.overrides"));
  if (module.is_valid())
    nb::steal(PyObject_CallMethod(module.ptr(), "_refuse", "OOO", function, types.ptr(), mode.ptr()));
  return nullptr;
}

PyObject* ask_all(PyObject* function, const std::vector<PyObject*>& overloaded, nb::handle args,
                  nb::handle kwargs, Unanswered otherwise) {
  nb::object types = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(overloaded.size())));
  if (!types.is_valid()) return nullptr;
  for (size_t i = 0; i < overloaded.size(); ++i)
    PyTuple_SET_ITEM(types.ptr(), static_cast<Py_ssize_t>(i),
                     Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(overloaded[i]))));
  nb::object asked_mode = nb::none();
  if (mode_is_open()) {
    const Asked asked;
    asked_mode = asked.mode;
    nb::object method = nb::steal(PyObject_GetAttr(asked.mode.ptr(), protocol_name()));
    if (!method.is_valid()) return nullptr;
    nb::object answer = call_method(method, function, types, args, kwargs);
    if (answer.ptr() != Py_NotImplemented) return answer.release().ptr();
  }
  for (PyObject* o : overloaded) {
    nb::object method = nb::steal(PyObject_GetAttr(o, protocol_name()));
    if (!method.is_valid()) return nullptr;
    if (PyMethod_Check(method.ptr()) && PyMethod_GET_SELF(method.ptr()) == o &&
        PyErr_WarnEx(PyExc_UserWarning,
                     "Defining your `__torch_function__` as a plain method is deprecated and will be an "
                     "error in future, please define it as a classmethod.",
                     1) < 0)
      return nullptr;
    nb::object answer = call_method(method, function, types, args, kwargs);
    if (answer.ptr() != Py_NotImplemented) return answer.release().ptr();
  }
  if (otherwise == Unanswered::NotImplemented) Py_RETURN_NOTIMPLEMENTED;
  return nobody_answered(function, types, asked_mode);
}

// --- Tensor.__torch_function__
// -------------------------------------------------------------------------------------------

PyObject* convert(nb::object o, PyTypeObject* cls);

bool holds_tensors(PyObject* o) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) return is_tensor(o);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
    if (holds_tensors(PySequence_Fast_GET_ITEM(o, i))) return true;
  return false;
}

/// A tuple or list with its tensors converted: of its own type, whether that has names for its elements or
/// not.
PyObject* convert_elements(const nb::object& o, PyTypeObject* cls) {
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(o.ptr());
  nb::object list = nb::steal(PyList_New(n));
  for (Py_ssize_t i = 0; list.is_valid() && i < n; ++i) {
    // Taken out where nobody else has the list, so that an element becomes one of the class without a view.
    PyObject*& slot = PySequence_Fast_ITEMS(o.ptr())[i];
    PyObject* element = Py_REFCNT(o.ptr()) == 1 ? std::exchange(slot, Py_NewRef(Py_None)) : Py_NewRef(slot);
    PyObject* converted = convert(nb::steal(element), cls);
    if (!converted) return nullptr;
    PyList_SET_ITEM(list.ptr(), i, converted);
  }
  if (!list.is_valid() || PyList_CheckExact(o.ptr())) return list.release().ptr();
  nb::object tuple = nb::steal(PyList_AsTuple(list.ptr()));
  if (!tuple.is_valid() || PyTuple_CheckExact(o.ptr())) return tuple.release().ptr();
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(o.ptr()));
  return PyObject_HasAttrString(type, "_make") ? PyObject_CallMethod(type, "_make", "O", tuple.ptr())
                                               : PyObject_CallOneArg(type, tuple.ptr());
}

PyObject* convert(nb::object o, PyTypeObject* cls) {
  if (is_tensor(o.ptr())) {
    if (PyType_IsSubtype(Py_TYPE(o.ptr()), cls)) return o.release().ptr();
    auto* object = reinterpret_cast<TensorObject*>(o.ptr());
    if (Py_TYPE(o.ptr()) != tensor_type || Py_REFCNT(o.ptr()) != 1 || object->dict || object->weakrefs)
      return as_subclass(cls, o.ptr());
    // Nobody has seen the object: the tensor gets another.
    object->impl->wrapper = nullptr;
    return wrap_as(cls, Tensor::steal(std::exchange(object->impl, nullptr)));
  }
  if (!is_list(o.ptr()) || !holds_tensors(o.ptr())) return o.release().ptr();
  return convert_elements(o, cls);
}

PyObject* run_default(PyObject* cls, PyObject* args, PyObject* kw) {
  static const char* names[] = {"func", "types", "args", "kwargs", nullptr};
  PyObject *function, *types, *arguments = nullptr, *keywords = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kw, "OO|OO", const_cast<char**>(names), &function, &types,
                                   &arguments, &keywords))
    return nullptr;
  if (keywords && keywords != Py_None && !PyDict_Check(keywords))
    return PyErr_Format(PyExc_TypeError, "__torch_function__(): argument 'kwargs' must be dict, not %s",
                        Py_TYPE(keywords)->tp_name);
  try {
    nb::object all = nb::steal(PySequence_Tuple(types));
    nb::object given = nb::steal(arguments ? PySequence_Tuple(arguments) : PyTuple_New(0));
    if (!all.is_valid() || !given.is_valid()) return nullptr;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all.ptr()); ++i) {
      const int fits = PyObject_IsSubclass(cls, PyTuple_GET_ITEM(all.ptr(), i));
      if (fits < 0) return nullptr;
      if (!fits) Py_RETURN_NOTIMPLEMENTED;
    }
    nb::object result;
    {
      const WithState off(kSubclassesDisabled);
      result = nb::steal(PyObject_Call(function, given.ptr(), keywords == Py_None ? nullptr : keywords));
    }
    auto* type = reinterpret_cast<PyTypeObject*>(cls);
    if (!result.is_valid() || type == tensor_type) return result.release().ptr();
    const int stays = PySet_Contains(nowrap, function);
    if (stays < 0) PyErr_Clear();  // it cannot be hashed: none of ours
    return stays == 1 ? result.release().ptr() : convert(std::move(result), type);
  } catch (...) {
    return raise();
  }
}

/// What a class assigns to `__torch_function__` to take no part: called by itself, it calls the function with
/// the protocol off.
PyObject* run_disabled(PyObject*, PyObject* args) {
  PyObject *function, *types, *arguments = nullptr, *keywords = nullptr;
  if (!PyArg_UnpackTuple(args, "_disabled_torch_function_impl", 2, 4, &function, &types, &arguments,
                         &keywords))
    return nullptr;
  nb::object given = nb::steal(arguments ? PySequence_Tuple(arguments) : PyTuple_New(0));
  if (!given.is_valid()) return nullptr;
  const WithState off(kSubclassesDisabled);
  return PyObject_Call(function, given.ptr(), keywords == Py_None ? nullptr : keywords);
}

/// Call a function past those who would answer; what it calls in its turn is answered.
PyObject* redispatch(PyObject*, PyObject* args) {
  PyObject *function, *types, *arguments = nullptr, *keywords = nullptr;
  if (!PyArg_UnpackTuple(args, "redispatch_function", 2, 4, &function, &types, &arguments, &keywords))
    return nullptr;
  nb::object given = nb::steal(arguments ? PySequence_Tuple(arguments) : PyTuple_New(0));
  if (!given.is_valid()) return nullptr;
  skip_next = true;
  PyObject* r = PyObject_Call(function, given.ptr(), keywords == Py_None ? nullptr : keywords);
  skip_next = false;  // where nobody would have answered
  return r;
}

// --- What adjoint/overrides.py is made of
// --------------------------------------------------------------------------------

PyObject* has_torch_function(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  return PyBool_FromLong(overridden(args, nargs));
}
PyObject* has_torch_function_in(PyObject*, PyObject* relevant) {
  nb::object all =
      nb::steal(PySequence_Fast(relevant, "has_torch_function(): expected a sequence of arguments"));
  return all.is_valid() ? PyBool_FromLong(overridden(PySequence_Fast_ITEMS(all.ptr()),
                                                     PySequence_Fast_GET_SIZE(all.ptr())))
                        : nullptr;
}

/// Of the arguments that a function names: lists among them are not looked into.
bool take_part_of(PyObject* relevant, TakingPart& found) {
  nb::object all = nb::steal(PySequence_Fast(relevant, "expected a sequence of arguments"));
  if (!all.is_valid()) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(all.ptr()); ++i)
    found.look_at(PySequence_Fast_GET_ITEM(all.ptr(), i), false);
  return true;
}
PyObject* overloaded_args(PyObject*, PyObject* relevant) {
  TakingPart found;
  if (!take_part_of(relevant, found)) return nullptr;
  PyObject* list = PyList_New(0);
  for (PyObject* o : found.all)
    if (!list || PyList_Append(list, o) < 0) return nullptr;
  return list;
}
PyObject* handle(PyObject*, PyObject* args) {
  PyObject *function, *relevant, *arguments, *keywords;
  if (!PyArg_UnpackTuple(args, "_handle_torch_function", 4, 4, &function, &relevant, &arguments, &keywords))
    return nullptr;
  TakingPart found;
  if (!take_part_of(relevant, found)) return nullptr;
  return ask_all(function, found.all, arguments, keywords, Unanswered::Fails);
}

PyObject* get_state(PyObject*, PyObject*) { return PyLong_FromLong(state); }
PyObject* set_state(PyObject*, PyObject* value) {
  const long wanted = PyLong_AsLong(value);
  if (PyErr_Occurred()) return nullptr;
  return PyLong_FromLong(
      std::exchange(state, static_cast<int>(std::clamp<long>(wanted, kEnabled, kAllDisabled))));
}

PyObject* push_mode(PyObject*, PyObject* mode) {
  if (!modes && !(modes = PyList_New(0))) return nullptr;
  if (PyList_Append(modes, mode) < 0) return nullptr;
  open_modes.fetch_add(1, std::memory_order_relaxed);
  Py_RETURN_NONE;
}
PyObject* pop_mode(PyObject*, PyObject*) {
  const Py_ssize_t n = mode_count();
  if (!n) return PyErr_Format(PyExc_RuntimeError, "no mode for __torch_function__ is open in this thread");
  PyObject* mode = Py_NewRef(PyList_GET_ITEM(modes, n - 1));
  PyList_SetSlice(modes, n - 1, n, nullptr);
  open_modes.fetch_sub(1, std::memory_order_relaxed);
  return mode;
}
/// Takes out the innermost entry of a mode, wherever it stands: a generator may leave its own after others
/// were entered.
PyObject* remove_mode(PyObject*, PyObject* mode) {
  for (Py_ssize_t i = mode_count(); i-- > 0;) {
    if (PyList_GET_ITEM(modes, i) != mode) continue;
    PyList_SetSlice(modes, i, i + 1, nullptr);
    open_modes.fetch_sub(1, std::memory_order_relaxed);
    Py_RETURN_TRUE;
  }
  Py_RETURN_FALSE;
}
}  // namespace
Overrides overrides_here() {
  return {state, mode_count() ? hold(nb::steal(PyList_AsTuple(modes)).ptr()) : nullptr};
}
void enter_overrides(const Overrides& overrides) {
  state = overrides.state;
  open_modes.fetch_sub(static_cast<int>(mode_count()), std::memory_order_relaxed);
  Py_CLEAR(modes);
  if (overrides.modes) modes = PySequence_List(overrides.modes.get());
  open_modes.fetch_add(static_cast<int>(mode_count()), std::memory_order_relaxed);
}
namespace {
PyObject* get_modes(PyObject*, PyObject*) { return modes ? PyList_AsTuple(modes) : PyTuple_New(0); }

PyObject* get_nowrap(PyObject*, PyObject*) { return Py_NewRef(nowrap); }
PyObject* set_parameter_type(PyObject*, PyObject* type) {
  parameter_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(type));  // kept for good
  Py_RETURN_NONE;
}
PyObject* subclass_of(PyObject*, PyObject* args) {
  PyObject *cls, *tensor;
  if (!PyArg_UnpackTuple(args, "as_subclass", 2, 2, &cls, &tensor)) return nullptr;
  if (!PyType_Check(cls) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), tensor_type))
    return PyErr_Format(
        PyExc_TypeError,
        "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make "
        "sure your class inherits from Tensor: as_subclass() expected a subclass of Tensor, but got %R",
        cls);
  return as_subclass(reinterpret_cast<PyTypeObject*>(cls), tensor);
}

template <class F>
PyCFunction method(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}
PyMethodDef functions[] = {
    {"_has_torch_function", has_torch_function_in, METH_O, nullptr},
    {"_has_torch_function_unary", method(has_torch_function), METH_FASTCALL, nullptr},
    {"_has_torch_function_variadic", method(has_torch_function), METH_FASTCALL, nullptr},
    {"_get_overloaded_args", overloaded_args, METH_O, nullptr},
    {"_handle_torch_function", handle, METH_VARARGS, nullptr},
    {"_redispatch_function", redispatch, METH_VARARGS, nullptr},
    {"_disabled_torch_function_impl", run_disabled, METH_VARARGS,
     "Assigned to `__torch_function__`, it lets a class take no part."},
    {"_torch_function_state", get_state, METH_NOARGS, nullptr},
    {"_set_torch_function_state", set_state, METH_O, nullptr},
    {"_push_torch_function_mode", push_mode, METH_O, nullptr},
    {"_pop_torch_function_mode", pop_mode, METH_NOARGS, nullptr},
    {"_remove_torch_function_mode", remove_mode, METH_O, nullptr},
    {"_torch_function_modes", get_modes, METH_NOARGS, nullptr},
    {"_torch_function_nowrap", get_nowrap, METH_NOARGS, nullptr},
    {"_set_parameter_type", set_parameter_type, METH_O, nullptr},
    {"_as_subclass", subclass_of, METH_VARARGS, nullptr},
    {}};

/// A member as the type holds it: `Tensor.grad`; a borrowed reference.
PyObject* held_member(const char* name) { return PyDict_GetItemString(tensor_type->tp_dict, name); }

}  // namespace

bool somebody_takes_part(PyObject* const* args, Py_ssize_t count) {
  TakingPart found;
  for (Py_ssize_t i = 0; state == kEnabled && found.all.empty() && i < count; ++i) found.look_at(args[i]);
  return (mode_is_open() || !found.all.empty()) && !std::exchange(skip_next, false);
}

PyObject* ask(PyObject* function, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
              Unanswered otherwise) {
  nb::object positional = nb::steal(PyTuple_New(nargs)), keywords = nb::steal(PyDict_New());
  if (!positional.is_valid() || !keywords.is_valid()) return nullptr;
  TakingPart found;
  const Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  for (Py_ssize_t i = 0; state == kEnabled && i < nargs + named; ++i) found.look_at(args[i]);
  for (Py_ssize_t i = 0; i < nargs; ++i) PyTuple_SET_ITEM(positional.ptr(), i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; i < named; ++i)
    if (PyDict_SetItem(keywords.ptr(), PyTuple_GET_ITEM(kwnames, i), args[nargs + i]) < 0) return nullptr;
  return ask_all(function, found.all, positional, keywords, otherwise);
}

PyObject* ask_method(const char* name, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                     Unanswered otherwise) {
  PyObject* function = held_member(name);
  return function ? ask(function, args, nargs, kwnames, otherwise)
                  : PyErr_Format(PyExc_AttributeError, "Tensor has no %s", name);
}

PyObject* ask_attribute(const char* name, const char* accessor, PyObject* const* args, Py_ssize_t nargs) {
  nb::object function = nb::steal(PyObject_GetAttrString(held_member(name), accessor));
  return function.is_valid() ? ask(function.ptr(), args, nargs, nullptr) : nullptr;
}

PyObject* as_subclass(PyTypeObject* cls, PyObject* tensor) {
  try {
    return wrap_as(cls, call<View>(unwrap(tensor), unwrap(tensor).sizes()));
  } catch (...) {
    return raise();
  }
}

PyMethodDef default_torch_function = {
    "__torch_function__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(run_default)),
    METH_CLASS | METH_VARARGS | METH_KEYWORDS,
    "Call a function on arguments of this class and give its results this class. A subclass overrides it to "
    "change what functions do."};

bool add_overrides(PyObject* module) {
  if (PyModule_AddFunctions(module, functions) < 0) return false;
  disabled = PyObject_GetAttrString(module, "_disabled_torch_function_impl");
  nowrap = PySet_New(nullptr);
  if (!disabled || !nowrap) return false;
  // The gradient belongs to the tensor, the base is what it was.
  for (const char* name : {"grad", "_base"}) {
    nb::object get = nb::steal(PyObject_GetAttrString(held_member(name), "__get__"));
    if (!get.is_valid() || PySet_Add(nowrap, get.ptr()) < 0) return false;
  }
  return true;
}

}  // namespace adjoint::bind
