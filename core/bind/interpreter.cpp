// Interpreters written in Python, as functions that are told of calls and writes: see autograd/_copy_on_write.py and
// utils/_selective.py. Start reading at `bind_interpreter`.
#include "transforms/interpreter.h"

#include "bind/arguments.h"
#include "bind/caster.h"
#include "bind/node_object.h"
#include "bind/operators.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

nb::object sequence_of(std::span<const Tensor> tensors) {
  nb::object list = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; i < tensors.size(); ++i) PyTuple_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), wrap(tensors[i]));
  return list;
}

constexpr const char* kToken = "adjoint interpreter";

class PythonInterpreter final : public Interpreter {
 public:
  PythonInterpreter(nb::handle supply, nb::handle computed, nb::handle before_write)
      : supply_(supply.is_none() ? nullptr : hold(supply.ptr())), computed_(computed.is_none() ? nullptr : hold(computed.ptr())),
        before_write_(before_write.is_none() ? nullptr : hold(before_write.ptr())) {}

  bool supply(const Operator& op, std::span<const Value> arguments, Results& results) override {
    if (!supply_) return false;
    nb::gil_scoped_acquire gil;
    nb::object args = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(arguments.size())));
    for (size_t i = 0; i < arguments.size(); ++i) PyTuple_SET_ITEM(args.ptr(), static_cast<Py_ssize_t>(i), to_python(*op.kinds[i], arguments[i]));
    const nb::object r = called(supply_, operator_object(op), args.ptr());
    if (r.is_none()) return false;
    if (!PySequence_Check(r.ptr())) fail<TypeError>("an interpreter must supply the results of ", op.name, "() as a sequence of Tensors, not ", Py_TYPE(r.ptr())->tp_name);
    for (nb::handle t : nb::iter(r)) {
      if (!is_tensor(t.ptr())) fail<TypeError>("an interpreter must supply Tensors, but for ", op.name, "() it gave ", Py_TYPE(t.ptr())->tp_name);
      results.many.push_back(unwrap(t.ptr()));
    }
    const size_t expected = op.several ? op.results : 1;
    if (expected && results.many.size() != expected)
      fail<ValueError>("an interpreter must supply ", expected, " results of ", op.name, "(), but it gave ", results.many.size());
    if (!op.several) results.one = results.many.front();
    else results.kind = Results::Kind::List;
    return true;
  }
  void computed(const Operator& op, std::span<const Tensor> results) override {
    if (!computed_) return;
    nb::gil_scoped_acquire gil;
    called(computed_, operator_object(op), sequence_of(results).ptr());
  }
  void before_write(const Tensor& t) override {
    if (!before_write_) return;
    nb::gil_scoped_acquire gil;
    called(before_write_, nb::steal(wrap(t)).ptr(), nullptr);
  }

 private:
  static nb::object called(const std::shared_ptr<PyObject>& f, PyObject* first, PyObject* second) {
    nb::object r = nb::steal(PyObject_CallFunctionObjArgs(f.get(), first, second, nullptr));
    if (!r.is_valid()) throw nb::python_error();
    return r;
  }
  std::shared_ptr<PyObject> supply_, computed_, before_write_;
};

}  // namespace

void bind_interpreter(nb::module_& m) {
  m.def("_push_interpreter", [](nb::handle supply, nb::handle computed, nb::handle before_write) {
    const auto interpreter = Ref<Interpreter>::steal(new PythonInterpreter(supply, computed, before_write));
    push_interpreter(interpreter);
    // The token keeps the interpreter, so that its address names no other.
    return nb::steal(PyCapsule_New(Ref<Interpreter>(interpreter).detach(), kToken, [](PyObject* token) {
      runtime::release_count(static_cast<Interpreter*>(PyCapsule_GetPointer(token, kToken)));
    }));
  }, nb::arg("supply").none(), nb::arg("computed").none(), nb::arg("before_write").none(), "Put an interpreter into this thread; returns its token.");
  m.def("_pop_interpreter", [](nb::handle token) {
    if (!PyCapsule_IsValid(token.ptr(), kToken)) fail<TypeError>("_pop_interpreter(): expected what _push_interpreter() returned");
    if (!pop_interpreter(static_cast<Interpreter*>(PyCapsule_GetPointer(token.ptr(), kToken))))
      fail("the context is not open in this thread: it is left for the second time, or in another thread than it was entered in");
  }, nb::arg("token").none(), "Take out the interpreter of a token, whichever came after it.");
  m.def("_is_composite", [](nb::handle o) {
    const Operator* op = operator_of(o.ptr());
    return op && op->composite;
  }, "Whether an operator is put together from others, which are what is recorded.");
}

}  // namespace adjoint::bind
