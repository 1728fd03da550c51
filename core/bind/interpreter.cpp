// Interpreters and observers written in Python: functions that are told of calls, of writes and of what else
// transforms/interpreter.h names. See utils/_python_dispatch.py, autograd/_copy_on_write.py and
// utils/_selective.py. Start reading at `bind_interpreter`.
#include "transforms/interpreter.h"

#include "bind/arguments.h"
#include "bind/autocast.h"
#include "bind/caster.h"
#include "bind/node_object.h"
#include "bind/operators.h"
#include "for_size.h"

namespace nb = nanobind;

namespace adjoint::bind {

void read_results(const Operator& op, nb::handle r, Results& results, const char* who) {
  if (!op.several && is_tensor(r.ptr())) {
    results.one = unwrap(r.ptr());
    return;
  }
  if (!PySequence_Check(r.ptr()) || is_tensor(r.ptr()))
    fail<TypeError>(who, " the results of ", op.name, "() as a sequence of Tensors, not ",
                    Py_TYPE(r.ptr())->tp_name);
  for (nb::handle t : nb::iter(r)) {
    // One that was not asked for is None.
    if (!is_tensor(t.ptr()) && !(t.is_none() && op.several))
      fail<TypeError>(who, " Tensors, but for ", op.name, "() it gave ", Py_TYPE(t.ptr())->tp_name);
    results.many.push_back(t.is_none() ? Tensor() : unwrap(t.ptr()));
  }
  const size_t expected = op.several ? op.results : 1;
  if (expected && results.many.size() != expected)
    fail<ValueError>(who, " ", expected, " results of ", op.name, "(), but it gave ", results.many.size());
  if (!op.several)
    results.one = results.many.front();
  else
    results.kind = op.results ? Results::Kind::Tuple : Results::Kind::List;
}

namespace {

using Function = std::shared_ptr<PyObject>;
Function function_of(nb::handle f) { return f.is_none() ? nullptr : hold(f.ptr()); }

nb::object sequence_of(std::span<const Tensor> tensors) {
  nb::object list = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; i < tensors.size(); ++i)
    PyTuple_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), wrap(tensors[i]));
  return list;
}

nb::object called(const Function& f, nb::handle first, nb::handle second = {}, nb::handle third = {}) {
  nb::object r =
      nb::steal(PyObject_CallFunctionObjArgs(f.get(), first.ptr(), second.ptr(), third.ptr(), nullptr));
  if (!r.is_valid()) throw nb::python_error();
  return r;
}

class PythonObserver final : public Observer {
 public:
  PythonObserver(nb::handle supply, nb::handle computed, nb::handle before_write)
      : supply_(function_of(supply)),
        computed_(function_of(computed)),
        before_write_(function_of(before_write)) {}

  bool supply(const Operator& op, std::span<const Value> arguments, Results& results) override {
    if (!supply_) return false;
    const InPython python;
    nb::object args = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(arguments.size())));
    for (size_t i = 0; i < arguments.size(); ++i)
      PyTuple_SET_ITEM(args.ptr(), static_cast<Py_ssize_t>(i), to_python(*op.kinds[i], arguments[i]));
    const nb::object r = called(supply_, operator_object(op), args);
    if (r.is_none()) return false;
    read_results(op, r, results, "an interpreter must supply");
    return true;
  }
  void computed(const Operator& op, std::span<const Tensor> results) override {
    if (!computed_) return;
    const InPython python;
    called(computed_, operator_object(op), sequence_of(results));
  }
  Ref<Observer> for_thread() const override {
    return Ref<Observer>::steal(new PythonObserver(supply_, computed_, before_write_));
  }
  void before_write(const Tensor& t) override {
    if (!before_write_) return;
    const InPython python;
    called(before_write_, nb::steal(wrap(t)));
  }

 private:
  PythonObserver(Function supply, Function computed, Function before_write)
      : supply_(std::move(supply)), computed_(std::move(computed)), before_write_(std::move(before_write)) {}
  Function supply_, computed_, before_write_;
};

class PythonInterpreter final : public Interpreter {
 public:
  PythonInterpreter(nb::handle call, nb::handle reads, nb::handle replaces)
      : call_(function_of(call)), reads_(function_of(reads)), replaces_(function_of(replaces)) {}

  void call(const Call& call, Results& results) override {
    const InPython python;
    PyObject* f = operator_object(call.op, call.form);
    if (!f) {
      // A form that has no callable of its own is that of a row beside the public operator: its function, and
      // a copy.
      const nb::object r = plain(call, operator_object(call.op));
      Results made;
      read_results(call.op, r, made, "an interpreter must give");
      become_result(*call.arguments[0].tensor, made.one, call.op.name);
      results.one = *call.arguments[0].tensor;
      return;
    }
    const nb::object r = plain(call, f);
    if (call.form == CallForm::Function)
      read_results(call.op, r, results, "an interpreter must give");
    else
      results.one = call.form == CallForm::Out ? call.out[0] : *call.arguments[0].tensor;
  }
  Ref<Interpreter> for_thread() const override {
    return Ref<Interpreter>::steal(new PythonInterpreter(call_, reads_, replaces_));
  }
  void reads(const Tensor& t, const char* by) override { told(reads_, t, by); }
  void replaces(const Tensor& t, const char* by) override { told(replaces_, t, by); }

 private:
  PythonInterpreter(Function call, Function reads, Function replaces)
      : call_(std::move(call)), reads_(std::move(reads)), replaces_(std::move(replaces)) {}
  /// The call as a program would have written it: what has to be named is, and what was left out is left out.
  nb::object plain(const Call& call, nb::handle f) {
    const Signature& plain = signatures_of(call.op).all.front();
    nb::list args;
    nb::dict kwargs;
    size_t last = 0;
    for (size_t i = 0; i < plain.parameters.size(); ++i)
      if (call.arguments[static_cast<size_t>(plain.parameters[i].index)].present) last = i;
    for (size_t i = 0; i < plain.parameters.size(); ++i) {
      const Parameter& p = plain.parameters[i];
      const Value& v = call.arguments[static_cast<size_t>(p.index)];
      const nb::object o = nb::steal(to_python(*p.kind, v));
      if (static_cast<int>(i) >= plain.positional) {
        if (v.present) kwargs[p.name.c_str()] = o;
      } else if (i <= last) {
        args.append(o);
      }
    }
    if (call.form == CallForm::Out)
      kwargs["out"] = call.op.several ? sequence_of(call.out) : nb::steal(wrap(call.out[0]));
    return called(call_, f, nb::tuple(args), kwargs);
  }
  static void told(const Function& f, const Tensor& t, const char* by) {
    if (!f) return;
    const InPython python;
    called(f, nb::steal(wrap(t)), nb::str(by));
  }
  Function call_, reads_, replaces_;
};

/// A token keeps what it stands for, so that its address names no other.
constexpr const char *kInterpreter = "adjoint interpreter", *kObserver = "adjoint observer";

template <class T>
nb::object put(T* one, const char* kind) {
  const auto kept = Ref<T>::steal(one);
  push(kept);
  return nb::steal(PyCapsule_New(Ref<T>(kept).detach(), kind, [](PyObject* token) {
    runtime::release_count(static_cast<T*>(PyCapsule_GetPointer(token, PyCapsule_GetName(token))));
  }));
}

}  // namespace

void bind_interpreter(nb::module_& m) {
  m.def(
      "_push_interpreter",
      [](nb::handle call, nb::handle reads, nb::handle replaces) {
        return put<Interpreter>(new PythonInterpreter(call, reads, replaces), kInterpreter);
      },
      nb::arg("call"), nb::arg("reads").none() = nb::none(), nb::arg("replaces").none() = nb::none(),
      "Let call(operator, args, kwargs) make the results of every call in this thread; returns a token.");
  m.def(
      "_push_observer",
      [](nb::handle supply, nb::handle computed, nb::handle before_write) {
        return put<Observer>(new PythonObserver(supply, computed, before_write), kObserver);
      },
      nb::arg("supply").none(), nb::arg("computed").none(), nb::arg("before_write").none(),
      "Put an observer into this thread; returns its token.");
  m.def(
      "_pop_interpreter",
      [](nb::handle token) {
        bool was_there;
        if (PyCapsule_IsValid(token.ptr(), kInterpreter))
          was_there = pop(static_cast<Interpreter*>(PyCapsule_GetPointer(token.ptr(), kInterpreter)));
        else if (PyCapsule_IsValid(token.ptr(), kObserver))
          was_there = pop(static_cast<Observer*>(PyCapsule_GetPointer(token.ptr(), kObserver)));
        else
          fail<TypeError>(
              "_pop_interpreter(): expected what _push_interpreter() or _push_observer() returned");
        if (!was_there)
          fail(
              "the context is not open in this thread: it is left for the second time, or in another thread "
              "than it was entered in");
      },
      nb::arg("token").none(), "Take out the interpreter or observer of a token, whichever came after it.");
  bind_autocast(m);
  m.def(
      "_is_composite",
      [](nb::handle o) {
        const Operator* op = operator_of(o.ptr());
        return op && op->composite;
      },
      "Whether an operator is put together from others, which are what is recorded.");
}

}  // namespace adjoint::bind
