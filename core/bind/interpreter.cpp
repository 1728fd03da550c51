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
#include "ops/writing.h"

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

nb::object arguments_of(const Call& call) {
  nb::object args = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(call.arguments.size())));
  for (size_t i = 0; i < call.arguments.size(); ++i)
    PyTuple_SET_ITEM(args.ptr(), static_cast<Py_ssize_t>(i), to_python(*call.op.kinds[i], call.arguments[i]));
  return args;
}

/// done(name, arguments, results) of a call; what is written comes after the results.
void tell_done(const Function& done, const Call& call, std::span<const Tensor> results) {
  if (!done) return;
  const InPython python;
  const nb::object name = nb::str(call.op.name), args = arguments_of(call), made = sequence_of(results);
  const nb::object out = sequence_of(call.out);
  if (!nb::steal(
           PyObject_CallFunctionObjArgs(done.get(), name.ptr(), args.ptr(), made.ptr(), out.ptr(), nullptr))
           .is_valid())
    throw nb::python_error();
}

/// told(kind, tensor, by, with) of a notice.
void tell_notice(const Function& told, const Notice& notice) {
  static constexpr const char* kKinds[] = {"read", "replaced", "gradient", "given"};
  if (!told) return;
  const InPython python;
  const nb::object kind = nb::str(kKinds[static_cast<size_t>(notice.kind)]), by = nb::str(notice.by);
  const nb::object tensor = nb::steal(wrap(notice.tensor));
  const nb::object with = notice.with.defined() ? nb::steal(wrap(notice.with)) : nb::none();
  if (!nb::steal(
           PyObject_CallFunctionObjArgs(told.get(), kind.ptr(), tensor.ptr(), by.ptr(), with.ptr(), nullptr))
           .is_valid())
    throw nb::python_error();
}

class PythonObserver final : public Observer {
 public:
  struct Functions {
    Function supply, computed, before_write, done, told;
  };
  explicit PythonObserver(Functions functions) : f_(std::move(functions)) {}

  bool supply(const Call& call, Results& results) override {
    PyObject* const op = f_.supply ? operator_object(call.op) : nullptr;
    if (!op) return false;
    const InPython python;
    const nb::object r = called(f_.supply, op, arguments_of(call));
    if (r.is_none()) return false;
    read_results(call.op, r, results, "an interpreter must supply");
    return true;
  }
  void computed(const Call& call, std::span<const Tensor> results) override {
    const bool makes =
        call.form == CallForm::Function && !call.op.view && !call.op.writes && !call.op.writes_lists;
    if (PyObject* op = f_.computed && makes ? operator_object(call.op) : nullptr) {
      const InPython python;
      called(f_.computed, op, sequence_of(results));
    }
    tell_done(f_.done, call, results);
  }
  void announced(const Call& call, std::span<const Tensor> results) override {
    tell_done(f_.done, call, results);
  }
  void told(const Notice& notice) override { tell_notice(f_.told, notice); }
  Ref<Observer> for_thread() const override { return Ref<Observer>::steal(new PythonObserver(f_)); }
  void before_write(const Tensor& t) override {
    if (!f_.before_write) return;
    const InPython python;
    called(f_.before_write, nb::steal(wrap(t)));
  }

 private:
  const Functions f_;
};

class PythonInterpreter final : public Interpreter {
 public:
  struct Functions {
    Function call, reads, replaces, done, told;
  };
  explicit PythonInterpreter(Functions functions) : f_(std::move(functions)) {}

  void call(const Call& call, Results& results) override {
    const InPython python;
    PyObject* f = operator_object(call.op, call.form);
    if (!f) {
      // A form that has no callable of its own is that of a row beside the public operator: its function, and
      // a copy.
      Results made;
      this->call({call.op, CallForm::Function, call.arguments, {}}, made);
      Value written[2];
      argument_t<Tensor>::box(*call.arguments[0].tensor, written[0]);
      argument_t<Tensor>::box(made.one, written[1]);
      return this->call({*row_of<Copy>, CallForm::Function, written, {}}, results);
    }
    const nb::object r = plain(call, f);
    if (call.form == CallForm::Function)
      read_results(call.op, r, results, "an interpreter must give");
    else
      results.one = call.form == CallForm::Out ? call.out[0] : *call.arguments[0].tensor;
  }
  Ref<Interpreter> for_thread() const override { return Ref<Interpreter>::steal(new PythonInterpreter(f_)); }
  void announced(const Call& call, std::span<const Tensor> results) override {
    tell_done(f_.done, call, results);
  }
  void told(const Notice& notice) override {
    const Function& f = notice.kind == Notice::Kind::Read       ? f_.reads
                        : notice.kind == Notice::Kind::Replaced ? f_.replaces
                                                                : Function();
    if (f) {
      const InPython python;
      called(f, nb::steal(wrap(notice.tensor)), nb::str(notice.by));
    }
    tell_notice(f_.told, notice);
  }

 private:
  /// The call as a program would have written it: what has to be named is, and what was left out is left out.
  nb::object plain(const Call& call, nb::handle f) {
    const Signature& plain = signatures_of(call.op).all.front();
    nb::list args;
    nb::dict kwargs;
    size_t last = 0;
    // Numbers go as such where they stand beside a tensor.
    const bool tensors =
        find_tensor(call.op, call.arguments.data(), [](const Tensor& t) { return !t.is_wrapped(); });
    for (size_t i = 0; i < plain.parameters.size(); ++i)
      if (call.arguments[static_cast<size_t>(plain.parameters[i].index)].present) last = i;
    for (size_t i = 0; i < plain.parameters.size(); ++i) {
      const Parameter& p = plain.parameters[i];
      const Value& v = call.arguments[static_cast<size_t>(p.index)];
      const bool alone = !tensors && p.kind->form == Form::Tensor && v.present;
      if (alone) tell_notice(f_.told, {Notice::Kind::Given, *v.tensor, "number"});
      const nb::object o = nb::steal(alone ? wrap(*v.tensor) : to_python(*p.kind, v));
      if (static_cast<int>(i) >= plain.positional) {
        if (v.present) kwargs[p.name.c_str()] = o;
      } else if (i <= last) {
        args.append(o);
      }
    }
    if (call.form == CallForm::Out)
      kwargs["out"] = call.op.several ? sequence_of(call.out) : nb::steal(wrap(call.out[0]));
    return called(f_.call, f, nb::tuple(args), kwargs);
  }
  const Functions f_;
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
      [](nb::handle call, nb::handle reads, nb::handle replaces, nb::handle done, nb::handle told) {
        return put<Interpreter>(
            new PythonInterpreter({function_of(call), function_of(reads), function_of(replaces),
                                   function_of(done), function_of(told)}),
            kInterpreter);
      },
      nb::arg("call"), nb::arg("reads").none() = nb::none(), nb::arg("replaces").none() = nb::none(),
      nb::arg("done").none() = nb::none(), nb::arg("told").none() = nb::none(),
      "Let call(operator, args, kwargs) make the results of every call in this thread; returns a token. "
      "done(name, arguments, results, out) is called for what the core did that amounts to a call, and "
      "told(kind, tensor, by, with) for what is none.");
  m.def(
      "_push_observer",
      [](nb::handle supply, nb::handle computed, nb::handle before_write, nb::handle done, nb::handle told) {
        return put<Observer>(
            new PythonObserver({function_of(supply), function_of(computed), function_of(before_write),
                                function_of(done), function_of(told)}),
            kObserver);
      },
      nb::arg("supply").none(), nb::arg("computed").none(), nb::arg("before_write").none(),
      nb::arg("done").none() = nb::none(), nb::arg("told").none() = nb::none(),
      "Put an observer into this thread; returns its token. done() is called for all that is computed, too.");
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
  m.def(
      "_composition",
      [](nb::handle o) -> nb::object {
        const Operator* op = operator_of(o.ptr());
        if (!op || !op->composed) return nb::none();
        auto* row = new Operator(*op);  // for ever, like all rows
        row->door = row->compute = op->composed;
        row->composite = true;
        return nb::steal(add_operator(*row));
      },
      "What a fused operator states that it is composed of, as an operator; None where it states nothing.");
}

}  // namespace adjoint::bind
