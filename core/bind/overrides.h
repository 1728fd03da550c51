// Calls that somebody else answers: a type that defines `__torch_function__`, as subclasses of Tensor do, or
// a mode.
//
// Tensors, Parameters and numbers are told from others by their exact types, inline: that, and the test of
// one number for modes, is all that an ordinary call pays. What takes part is asked by `ask`, in torch's
// order: the innermost mode, then the types, subclasses before their bases and else from left to right.
// Python's side is adjoint/overrides.py. Start reading at `overridden`.
#pragma once

#include <Python.h>

#include <atomic>
#include <memory>

#include "bind/object.h"

namespace adjoint::bind {

/// nn.Parameter: a subclass whose results are plain tensors, which most programs give. Null until it is
/// defined.
extern PyTypeObject* parameter_type;
/// Modes that are open in any thread.
extern std::atomic<int> open_modes;
/// Whether a mode of this thread, or one of the arguments or of the elements of lists among them, takes part.
bool somebody_takes_part(PyObject* const* args, Py_ssize_t count);

/// A Tensor or Parameter itself.
inline bool is_plain(PyObject* o) { return Py_TYPE(o) == tensor_type || Py_TYPE(o) == parameter_type; }
inline bool is_ordinary(PyObject* o) {
  const PyTypeObject* type = Py_TYPE(o);
  return type == tensor_type || type == &PyFloat_Type || type == &PyLong_Type || type == parameter_type ||
         o == Py_None || type == &PyBool_Type || type == &PyUnicode_Type;
}
inline bool any_mode() { return open_modes.load(std::memory_order_relaxed) != 0; }

/// Whether somebody answers a call with these arguments.
inline bool overridden(PyObject* const* args, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!is_ordinary(args[i])) return somebody_takes_part(args, count);
  return any_mode() && somebody_takes_part(args, 0);
}
/// Whether a method or an attribute of a tensor may be answered by somebody else: false means no.
inline bool may_be_overridden(PyObject* self) { return !is_plain(self) || any_mode(); }

/// What an operator of Python says where nobody has an answer: it fails, or it lets Python ask the other
/// operand.
enum class Unanswered : uint8_t { Fails, NotImplemented };
/// The answer to a call of `function`; a new reference, or null with an error. Only where the call is
/// `overridden`.
PyObject* ask(PyObject* function, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
              Unanswered otherwise = Unanswered::Fails);
/// The same for a method of Tensor, by its name.
PyObject* ask_method(const char* name, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames = nullptr,
                     Unanswered otherwise = Unanswered::Fails);
/// The same for reading or writing (`accessor` is "__get__" or "__set__") an attribute of Tensor.
PyObject* ask_attribute(const char* name, const char* accessor, PyObject* const* args, Py_ssize_t nargs);

/// What of the protocol is in force in a thread: whether types take part, and the modes, a tuple.
struct Overrides {
  int state = 0;
  std::shared_ptr<PyObject> modes;
};
Overrides overrides_here();
/// In a thread that does a part of another's work; with nothing, at the end of it.
void enter_overrides(const Overrides& overrides);

/// A tensor as an object of a subclass: the same object if it is one, else a view.
PyObject* as_subclass(PyTypeObject* cls, PyObject* tensor);
/// Tensor.__torch_function__, for the type's methods.
extern PyMethodDef default_torch_function;
/// What the module `adjoint.overrides` is made of.
bool add_overrides(PyObject* module);

}  // namespace adjoint::bind
