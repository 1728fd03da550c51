#include "bind/autocast.h"

#include "autograd/engine.h"
#include "bind/caster.h"
#include "bind/operators.h"
#include "for_size.h"
#include "transforms/autocast.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

/// Nothing is converted in its scope.
class Off {
 public:
  explicit Off(Autocast& a) : autocast_(a), before_(a.settings.enabled) { a.settings.enabled = false; }
  ~Off() {
    if (autocast_here() == &autocast_) autocast_.settings.enabled = before_;
  }
  Off(const Off&) = delete;

 private:
  Autocast& autocast_;
  const bool before_;
};

/// A tensor, or a list or tuple of them, converted; other objects as they are.
nb::object converted_object(Autocast& autocast, nb::handle o, Precision precision) {
  if (is_tensor(o.ptr())) return nb::steal(wrap(autocast.converted(unwrap(o.ptr()), precision)));
  if (!PyList_CheckExact(o.ptr()) && !PyTuple_CheckExact(o.ptr())) return nb::borrow(o);
  nb::list made;
  for (nb::handle element : nb::iter(o))
    made.append(is_tensor(element.ptr()) ? converted_object(autocast, element, precision)
                                         : nb::borrow(element));
  return PyList_CheckExact(o.ptr()) ? nb::object(made) : nb::object(nb::tuple(made));
}

}  // namespace

PyObject* call_converted(PyObject* function, int precision, PyObject* const* args, size_t nargsf,
                         PyObject* kwnames) {
  Autocast* const here = autocast_here();
  if (!here || !here->active()) return PyObject_Vectorcall(function, args, nargsf, kwnames);
  const size_t count =
      static_cast<size_t>(PyVectorcall_NARGS(nargsf) + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
  std::vector<nb::object> held(count);
  std::vector<PyObject*> given(count + 1);  // before the first, a callee may write
  const Off off(*here);
  try {
    for (size_t i = 0; i < count; ++i) {
      held[i] = converted_object(*here, args[i], static_cast<Precision>(precision));
      given[i + 1] = held[i].ptr();
    }
  } catch (...) {
    return raise();
  }
  return PyObject_Vectorcall(function, given.data() + 1,
                             static_cast<size_t>(PyVectorcall_NARGS(nargsf)) | PY_VECTORCALL_ARGUMENTS_OFFSET,
                             kwnames);
}

void bind_autocast(nb::module_& m) {
  m.def(
      "_autocast",
      []() -> nb::object {
        const Autocast* const here = autocast_here();
        if (!here) return nb::none();
        const AutocastSettings& s = here->settings;
        return nb::make_tuple(s.enabled, s.type, s.cache, s.pass);
      },
      "What autocast is set to in this thread: (enabled, dtype, whether leaves are kept, pass); None where "
      "it is not there.");
  m.def(
      "_set_autocast",
      [](bool present, bool enabled, DType type, bool cache, std::optional<uint64_t> pass) {
        set_autocast(present);
        if (Autocast* const here = autocast_here())
          here->settings = {
              .enabled = enabled, .cache = cache, .type = type, .pass = pass ? *pass : current_pass()};
      },
      nb::arg("present"), nb::arg("enabled"), nb::arg("type"), nb::arg("cache"), nb::arg("pass").none(),
      "Set autocast in this thread, for the backward pass that runs or for none.");
  m.def("_clear_autocast_cache", [] {
    if (Autocast* const here = autocast_here()) here->forget();
  });
  m.def(
      "_set_precision",
      [](nb::handle o, int precision) {
        const Operator* op = operator_of(o.ptr());
        if (!op) fail<TypeError>("_set_precision(): expected an operator");
        set_precision(*op, static_cast<Precision>(precision));
      },
      nb::arg("op").none(), nb::arg("precision"), "Say what autocast gives an operator its arguments in.");
}

}  // namespace adjoint::bind
