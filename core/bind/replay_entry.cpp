// The way into a replayed function that most calls take: nothing between the caller and the program but the
// walk over what the function reads. Start reading at `entered`.
#include <algorithm>

#include "autograd/meta.h"
#include "bind/computing.h"
#include "bind/replay.h"
#include "bind/replay_paths.h"

namespace nb = nanobind;

namespace adjoint::bind {

namespace {

/// A trace whose result is one tensor, which changes nothing in Python's state and records nothing.
struct Short {
  int mode;
  nb::object layout;
  std::shared_ptr<replay::Replay> replay;
};

/// What `Jitted` stands on. `slow` is its method for all other calls.
struct Entry {
  nb::object function;
  std::vector<Short> traces;
  int64_t replayed = 0;
};

PyObject* entered(PyObject* self, PyObject* args, PyObject* kwargs) {
  static PyObject* const slow = PyUnicode_InternFromString("_call");
  static PyObject* const none = PyDict_New();
  return guard([&]() -> PyObject* {
    Entry& entry = *nb::inst_ptr<Entry>(self);
    if (!entry.traces.empty() && !reason_not_to_replay()) {
      const int mode = mode_of_replay();
      for (size_t i = 0; i < entry.traces.size(); ++i) {
        if (entry.traces[i].mode != mode) continue;
        const nb::object layout = entry.traces[i].layout;
        auto& what = nb::cast<paths::Layout&>(layout);
        paths::Walk walk(what);
        what.why.clear();
        if (!walk.call(entry.function.ptr(), args, kwargs ? kwargs : none)) continue;
        // What the collector let run meanwhile may have put another trace there.
        if (i >= entry.traces.size() || !entry.traces[i].layout.is(layout)) break;
        const std::shared_ptr<replay::Replay> replay = entry.traces[i].replay;
        if (replay->outputs() != 1) break;
        Tensor result;
        std::vector<Scalar> numbers = walk.numbers();
        replay::Program::Outcome outcome;
        // Borrowed while Python's lock is held, else owned.
        runtime::SmallVector<TensorImpl*, 16> borrowed(walk.count());
        for (size_t k = 0; k < borrowed.size(); ++k) borrowed[k] = walk.tensor(k);
        const TensorList inputs(reinterpret_cast<const Tensor*>(borrowed.data()), borrowed.size());
        if (replay->program().work() >= kUnlockFrom) {
          const Tensors owned(inputs.begin(), inputs.end());
          const Computing computing(true, [&](auto&& add) {
            for (const Tensor& t : owned) add(t.get());
          });
          outcome = replay->run(owned, {&result, 1}, replay::Replay::none, numbers);
        } else {
          outcome = replay->run(inputs, {&result, 1}, replay::Replay::none, numbers);
        }
        // A decision came out otherwise, as it may have in another trace, which is asked first from now on.
        if (outcome != replay::Program::Outcome::Done) continue;
        if (i && i < entry.traces.size() && entry.traces[i].layout.is(layout))
          std::rotate(entry.traces.begin(), entry.traces.begin() + static_cast<std::ptrdiff_t>(i),
                      entry.traces.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        ++entry.replayed;
        return wrap(std::move(result));
      }
    }
    const nb::object method = nb::steal(PyObject_GetAttr(self, slow));
    if (!method.is_valid()) throw nb::python_error();
    return PyObject_Call(method.ptr(), args, kwargs);
  });
}

int visit(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const Entry& entry = *nb::inst_ptr<Entry>(self);
  Py_VISIT(entry.function.ptr());
  return 0;
}
int clear(PyObject* self) {
  Entry& entry = *nb::inst_ptr<Entry>(self);
  std::vector<Short> traces;
  entry.traces.swap(traces);
  nb::object(std::move(entry.function)).reset();
  return 0;
}

PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(entered)},
                       {Py_tp_traverse, reinterpret_cast<void*>(visit)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                       {0, nullptr}};

}  // namespace

void bind_replay_entry(nb::module_& m) {
  nb::class_<Entry>(m, "_Entry", nb::type_slots(slots), "The short way into a replayed function.")
      .def(nb::init<>())
      .def("_enter",
           [](Entry& e, nb::object function, nb::list traces) {
             std::vector<Short> now;
             for (nb::handle t : traces)
               now.push_back({nb::cast<int>(t[0]), nb::object(t[1]), nb::cast<Replayed&>(t[2]).replay});
             // What dies with the old ones may call this function.
             e.traces.swap(now);
             e.function = std::move(function);
           })
      .def_rw("_replayed", &Entry::replayed);
}

}  // namespace adjoint::bind
