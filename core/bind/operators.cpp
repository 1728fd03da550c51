#include "bind/operators.h"

#include <structmember.h>

#include <array>
#include <map>
#include <memory>

#include "autograd/arithmetic.h"
#include "autograd/views.h"
#include "bind/arguments.h"
#include "kernels/copy.h"
#include "ops/writing.h"

namespace adjoint::bind {

namespace {

enum class Form : uint8_t { Plain, InPlace };

/// The callable. As an attribute of a type it is a method descriptor, so that calls pass no bound object around.
struct OperatorObject {
  PyObject_HEAD
  vectorcallfunc call;
  const Operator* op;
  Signature* signature;
  Form form;
  PyObject* name;
};
PyTypeObject* operator_type = nullptr;
std::map<std::string, PyTypeObject*> result_types;
/// The callable of each row, under its first name; owned.
std::map<const Operator*, PyObject*> callables;
/// Python's functions for arguments that do not fit an operator's signature; owned.
std::map<const Operator*, PyObject*> overloads;

const Signature& signature_of(OperatorObject* o) {
  if (!o->signature) o->signature = new Signature(*o->op);
  return *o->signature;
}

PyObject* wrap_all(Tensors& ts, const char* returns) {
  const auto n = static_cast<Py_ssize_t>(ts.size());
  PyObject* tuple;
  if (*returns) {
    PyTypeObject*& type = result_types[returns];
    if (!type) {
      // "values, indices"
      std::vector<std::string>* names = new std::vector<std::string>;
      for (std::string_view rest = returns; !rest.empty();) {
        const size_t comma = rest.find(',');
        names->emplace_back(rest.substr(0, comma));
        rest = comma == std::string_view::npos ? "" : rest.substr(rest.find_first_not_of(' ', comma + 1));
      }
      auto* fields = new std::vector<PyStructSequence_Field>;
      for (auto& f : *names) fields->push_back({f.c_str(), nullptr});
      fields->push_back({nullptr, nullptr});
      PyStructSequence_Desc desc{"adjoint.return_type", "Several results of one operator, by name.", fields->data(), static_cast<int>(names->size())};
      type = PyStructSequence_NewType(&desc);
      if (!type) return nullptr;
    }
    tuple = PyStructSequence_New(type);
    for (Py_ssize_t i = 0; tuple && i < n; ++i) PyStructSequence_SetItem(tuple, i, wrap(std::move(ts[i])));
    return tuple;
  }
  tuple = PyTuple_New(n);
  for (Py_ssize_t i = 0; tuple && i < n; ++i) PyTuple_SET_ITEM(tuple, i, wrap(std::move(ts[i])));
  return tuple;
}

PyObject* wrap_results(Results& r, const char* returns) {
  return r.kind == Results::Kind::One ? wrap(std::move(r.one)) : wrap_all(r.many, returns);
}

void warn_resized(const Tensor& t, IntList sizes) {
  const std::string message =
      text("An output with one or more elements was resized since it had shape ", to_string(t.sizes()), ", which does not match the required output shape ",
           to_string(sizes), ". This behavior is deprecated: pass a tensor of that shape, or one without elements (t.resize_(0)).");
  if (PyErr_WarnEx(PyExc_UserWarning, message.c_str(), 1) < 0) throw PythonError{};
}

/// Whether an element-wise result has the shape of `out`.
bool shape_fits(const ElementwiseInfo& info, const Tensor* in, const Tensor& out) {
  Dims shape(in[0].sizes());
  for (int i = 1; i < info.arity; ++i) shape = broadcast_shapes(shape.span(), in[i].sizes(), info.name);
  return same(shape.span(), out.sizes());
}

PyObject* write_out(PyObject* out, Results& r, const char* name) {
  auto give = [&](PyObject* to, const Tensor& result) {
    if (!is_tensor(to)) fail<TypeError>(name, "(): argument 'out' must be Tensor, not ", Py_TYPE(to)->tp_name);
    const Tensor& t = unwrap(to);
    if (result.requires_grad() || (thread_state.grad && t.requires_grad()))
      fail(name, "(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad.");
    if (!can_cast(result.dtype(), t.dtype()))
      fail("result type ", type_name_of(result.dtype()), " can't be cast to the desired output type ", type_name_of(t.dtype()));
    if (!same(t.sizes(), result.sizes())) {
      if (t.numel() != 0) warn_resized(t, result.sizes());
      Ref<Storage> storage = allocate_storage(runtime::checked_bytes(result.numel(), static_cast<size_t>(t.itemsize())));
      char* const data = storage->data;
      t->replace_storage(std::move(storage), data, t.dtype(), result.sizes(), nullptr);
    }
    check_writable(t, name, false);
    write(t, name, [&] { copy_into(t, result); });
  };
  if (r.kind == Results::Kind::One) {
    give(out, r.one);
  } else {
    if (!PyTuple_Check(out) || PyTuple_GET_SIZE(out) != static_cast<Py_ssize_t>(r.many.size()))
      fail<TypeError>(name, "(): out must be a tuple of ", r.many.size(), " Tensors");
    for (size_t i = 0; i < r.many.size(); ++i) give(PyTuple_GET_ITEM(out, i), r.many[i]);
  }
  return Py_NewRef(out);
}


thread_local const Operator* in_overload = nullptr;

PyObject* call_overload(OperatorObject* o, PyObject* overload, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  if (o->form == Form::InPlace && !(nargs && is_tensor(args[0])))
    fail<TypeError>(o->op->name, "_(): argument 'input' (position 1) must be Tensor, not ", nargs ? Py_TYPE(args[0])->tp_name : "missing");
  const Operator* before = std::exchange(in_overload, o->op);
  PyObject* r = PyObject_Vectorcall(overload, args, static_cast<size_t>(nargs), kwnames);
  in_overload = before;
  if (!r) throw PythonError{};
  if (o->form == Form::Plain) return r;
  struct Release { PyObject* p; ~Release() { Py_DECREF(p); } } release{r};
  become_result(unwrap(args[0]), unwrap(r), o->op->name);
  return Py_NewRef(args[0]);
}

PyObject* run(OperatorObject* o, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  const Operator& op = *o->op;
  if (o->form == Form::InPlace && (nargs == 0 || !is_tensor(args[0])))
    fail<TypeError>(op.name, "_(): argument 'self' (position 1) must be Tensor, not ", nargs == 0 ? "missing" : Py_TYPE(args[0])->tp_name,
                    ": it is what is written");
  PyObject* out = nullptr;
  PyObject* rest_names = nullptr;
  PyObject* const* given = args;
  PyObject* given_names = kwnames;
  std::vector<PyObject*> rest;
  if (kwnames) {
    const Py_ssize_t k = PyTuple_GET_SIZE(kwnames);
    for (Py_ssize_t i = 0; i < k; ++i)
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), "out") == 0) out = args[nargs + i];
    if (out) {
      rest.assign(args, args + nargs);
      rest_names = PyTuple_New(k - 1);
      Py_ssize_t at = 0;
      for (Py_ssize_t i = 0; i < k; ++i) {
        if (args[nargs + i] == out && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), "out") == 0) continue;
        PyTuple_SET_ITEM(rest_names, at++, Py_NewRef(PyTuple_GET_ITEM(kwnames, i)));
        rest.push_back(args[nargs + i]);
      }
      args = rest.data();
      kwnames = rest_names;
      if (out == Py_None) out = nullptr;
    }
  }
  struct Release { PyObject* p; ~Release() { Py_XDECREF(p); } } release{rest_names};
  Arguments arguments(op, signature_of(o));
  try {
    arguments.parse(args, nargs, kwnames);
  } catch (const TypeError&) {
    const auto overload = overloads.find(&op);
    // An overload that comes back to its operator has arguments that nothing fits.
    if (overload == overloads.end() || in_overload == &op) throw;
    return call_overload(o, overload->second, given, nargs, given_names);
  }
  const Value* v = arguments.values();
  // What makes a view may give the object another tensor: under Python's lock.
  const bool unlock = arguments.elements() >= (op.elementwise ? kUnlockFrom : kUnlockStructuredFrom) && !op.view;
  const KeptMemory memory(unlock, op, v, out && is_tensor(out) ? &unwrap(out) : nullptr);
  if (op.elementwise && (out || o->form == Form::InPlace)) {
    Tensor in[kMostInputs];
    const ElementwiseInfo& info = given_inputs(*op.elementwise, v, in);
    double p[kMostParameters];
    for (int i = 0; i < info.parameters; ++i) p[i] = parameter_of(*op.elementwise, v, i);
    if (o->form == Form::InPlace) {
      {
        Unlocked u(unlock);
        call_elementwise(info, in, p, &in[0], true);
      }
      return Py_NewRef(args[0]);
    }
    if (!is_tensor(out)) fail<TypeError>(op.name, "(): argument 'out' must be Tensor, not ", Py_TYPE(out)->tp_name);
    if (shape_fits(info, in, unwrap(out))) {
      {
        Unlocked u(unlock);
        call_elementwise(info, in, p, &unwrap(out), false);
      }
      return Py_NewRef(out);
    }
  }
  std::vector<Value> given_values;
  // A dtype that is left out is that of out=.
  if (out && is_tensor(out))
    for (size_t i = 0; i < op.kinds.size(); ++i)
      if (op.kinds[i] == ArgKind::OptionalType && !v[i].present) {
        given_values.assign(v, v + op.kinds.size());
        given_values[i].present = true;
        given_values[i].type = unwrap(out).dtype();
        v = given_values.data();
      }
  // What is overwritten may be what the rule needs: it gets a copy.
  Tensor before;
  if (o->form == Form::InPlace && !op.writes && thread_state.grad && v[0].tensor->requires_grad()) {
    before = owned(*v[0].tensor);
    given_values.assign(v, v + op.kinds.size());
    given_values[0].tensor = &before;
    v = given_values.data();
  }
  Results r;
  {
    Unlocked u(unlock);
    op.boxed(v, r);
  }
  if (out) return write_out(out, r, op.name);
  if (o->form == Form::InPlace && !op.writes) {
    become_result(unwrap(args[0]), r.one, op.name);
    return Py_NewRef(args[0]);
  }
  return wrap_results(r, op.returns);
}

PyObject* operator_call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  auto* o = reinterpret_cast<OperatorObject*>(self);
  const Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
  try {
    const ElementwiseInfo* info = o->op->elementwise;
    // The short way: an element-wise operator on nothing but tensors.
    if (info && !kwnames && o->form == Form::Plain && nargs == info->arity && info->parameters == 0 && nargs <= 2 &&
        is_tensor(args[0]) && (nargs == 1 || is_tensor(args[1]))) {
      if (nargs == 1) return wrap(call_unary(*info, unwrap(args[0])));
      Lent<2> in;
      in[0] = unwrap(args[0]).get();
      in[1] = unwrap(args[1]).get();
      const bool unlock = in[0]->numel >= kUnlockFrom || in[1]->numel >= kUnlockFrom;
      const KeptMemory memory(unlock, in, 2);
      Tensor result;
      {
        Unlocked u(unlock);
        result = call_elementwise(*info, in, nullptr);
      }
      return wrap(std::move(result));
    }
    return run(o, args, nargs, kwnames);
  } catch (...) {
    return raise();
  }
}

PyObject* operator_get(PyObject* self, PyObject* instance, PyObject*) {
  if (!instance) return Py_NewRef(self);
  return PyMethod_New(self, instance);
}
PyObject* operator_repr(PyObject* self) {
  return PyUnicode_FromFormat("<operator %U>", reinterpret_cast<OperatorObject*>(self)->name);
}
PyObject* operator_name(PyObject* self, void*) { return Py_NewRef(reinterpret_cast<OperatorObject*>(self)->name); }
PyObject* operator_doc(PyObject* self, void*) {
  auto* o = reinterpret_cast<OperatorObject*>(self);
  return PyUnicode_FromFormat("%U(%s)\n\n%s%s", o->name, o->op->signature.c_str(), o->op->doc,
                              o->form == Form::InPlace ? " In place: self is written and returned." : "");
}
PyObject* operator_text_signature(PyObject* self, void*) {
  return PyUnicode_FromFormat("(%s)", reinterpret_cast<OperatorObject*>(self)->op->signature.c_str());
}
PyObject* operator_reduce(PyObject* self, PyObject*) { return Py_NewRef(reinterpret_cast<OperatorObject*>(self)->name); }
PyObject* operator_module(PyObject*, void*) { return PyUnicode_FromString("adjoint"); }

PyObject* operator_overload(PyObject* self, void*) {
  const auto found = overloads.find(reinterpret_cast<OperatorObject*>(self)->op);
  return Py_NewRef(found == overloads.end() ? Py_None : found->second);
}
int set_operator_overload(PyObject* self, PyObject* value, void*) {
  if (!value) {
    PyErr_SetString(PyExc_AttributeError, "overload cannot be deleted");
    return -1;
  }
  PyObject*& slot = overloads[reinterpret_cast<OperatorObject*>(self)->op];
  PyObject* old = slot;
  slot = Py_XNewRef(value);
  Py_XDECREF(old);
  return 0;
}

PyMemberDef operator_members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(OperatorObject, call), READONLY, nullptr}, {}};
PyMethodDef operator_methods[] = {{"__reduce__", operator_reduce, METH_NOARGS, nullptr}, {}};
PyGetSetDef operator_getset[] = {{"__name__", operator_name, nullptr, nullptr, nullptr},
                                 {"__qualname__", operator_name, nullptr, nullptr, nullptr},
                                 {"__doc__", operator_doc, nullptr, nullptr, nullptr},
                                 {"__text_signature__", operator_text_signature, nullptr, nullptr, nullptr},
                                 {"overload", operator_overload, set_operator_overload, "The function for arguments that do not fit the signature.", nullptr},
                                 {"__module__", operator_module, nullptr, nullptr, nullptr},
                                 {}};
PyType_Slot operator_slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_descr_get, reinterpret_cast<void*>(operator_get)},
                                {Py_tp_repr, reinterpret_cast<void*>(operator_repr)},
                                {Py_tp_members, operator_members},
                                {Py_tp_methods, operator_methods},
                                {Py_tp_getset, operator_getset},
                                {0, nullptr}};
PyType_Spec operator_spec = {"adjoint._C.Operator", sizeof(OperatorObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION, operator_slots};

PyObject* new_operator(const Operator* op, Form form, const std::string& name) {
  auto* o = reinterpret_cast<OperatorObject*>(operator_type->tp_alloc(operator_type, 0));
  if (!o) return nullptr;
  o->call = operator_call;
  o->op = op;
  o->signature = nullptr;
  o->form = form;
  o->name = PyUnicode_InternFromString(name.c_str());
  return reinterpret_cast<PyObject*>(o);
}

}  // namespace

void KeptMemory::keep(const Tensor& t) {
  if (!t.defined()) return;
  if (!kept_) kept_ = std::make_unique<std::vector<Ref<Storage>>>();
  kept_->push_back(Ref<Storage>::share(t->storage));
}

KeptMemory::KeptMemory(bool when, const Operator& op, const Value* arguments, const Tensor* out) {
  if (!when) return;
  for (size_t i = 0; i < op.kinds.size(); ++i) {
    const Value& v = arguments[i];
    if (!v.present) continue;
    if (op.kinds[i] == ArgKind::Tensor || op.kinds[i] == ArgKind::OptionalTensor) keep(*v.tensor);
    if (op.kinds[i] == ArgKind::Tensors)
      for (size_t k = 0; k < v.list.size; ++k) keep(static_cast<const Tensor*>(v.list.data)[k]);
  }
  if (out) keep(*out);
}

PyObject* call_operator(const Operator& op, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  static std::map<const Operator*, std::unique_ptr<Signature>> signatures;
  auto& s = signatures[&op];
  if (!s) s = std::make_unique<Signature>(op);
  Arguments arguments(op, *s);
  arguments.parse(args, nargs, kwnames);
  Results r;
  op.boxed(arguments.values(), r);
  return wrap_results(r, op.returns);
}

PyObject* operator_object(const Operator& op) { return callables.at(&op); }
const Operator* operator_of(PyObject* o) {
  return PyObject_TypeCheck(o, operator_type) ? reinterpret_cast<OperatorObject*>(o)->op : nullptr;
}

void become_result(const Tensor& self, const Tensor& result, const char* name) {
  if (!same(self.sizes(), result.sizes()))
    fail(name, "_(): output with shape ", to_string(self.sizes()), " doesn't match the result's shape ", to_string(result.sizes()));
  if (!can_cast(result.dtype(), self.dtype()))
    fail("result type ", type_name_of(result.dtype()), " can't be cast to the desired output type ", type_name_of(self.dtype()), " in ", name, "_()");
  // A result without history leaves none of what was there before.
  if (thread_state.grad && self.requires_grad() && !history(result)) {
    call<Copy>(self, result);
    return;
  }
  check_writable(self, name, result.requires_grad() && thread_state.grad);
  write(self, name, [&] { copy_into(self, result); });
  Tensor written = self;
  if (history(result)) write_history(written, Ref<Node>::share(result->grad_fn), result->output_nr, 2);
}

bool add_operators(PyObject* module) {
  operator_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&operator_spec));
  if (!operator_type) return false;
  if (PyModule_AddObjectRef(module, "Operator", reinterpret_cast<PyObject*>(operator_type)) < 0) return false;
  PyObject* type_dict = tensor_type->tp_dict;
  auto add = [&](const Operator* op, const std::string& name) {
    PyObject* plain = new_operator(op, Form::Plain, name);
    if (!plain) return false;
    callables.try_emplace(op, Py_NewRef(plain));
    bool ok = true;
    if (op->function) ok = ok && PyModule_AddObjectRef(module, name.c_str(), plain) == 0;
    // What the package uses among itself is no method: not in completion, nor in a subclass's way.
    if (op->method && name[0] != '_') ok = ok && PyDict_SetItemString(type_dict, name.c_str(), plain) == 0;
    Py_DECREF(plain);
    if (ok && op->inplace && name[0] != '_' && name.back() != '_') {
      PyObject* in = new_operator(op, Form::InPlace, name + "_");
      ok = in && PyDict_SetItemString(type_dict, (name + "_").c_str(), in) == 0;
      Py_XDECREF(in);
    }
    return ok;
  };
  for (const Operator* op : operators()) {
    if (!add(op, op->name)) return false;
    for (std::string_view rest = op->aliases; !rest.empty();) {
      const size_t comma = rest.find(',');
      if (!add(op, std::string(rest.substr(0, comma)))) return false;
      rest = comma == std::string_view::npos ? "" : rest.substr(rest.find_first_not_of(' ', comma + 1));
    }
  }
  PyType_Modified(tensor_type);
  return true;
}

}  // namespace adjoint::bind
